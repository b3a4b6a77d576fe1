//! Chooses the typed columns of one file's variants (P154): the prevailing kinds of a sample, with
//! bounds on depth and number, so that neither rare values nor wide objects make too many columns.
//! Knows no file.

use std::collections::{BTreeMap, HashMap};

use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, FieldRef, Fields, TimeUnit};
use parquet_variant::{Variant, VariantDecimal4, VariantDecimal8};

use crate::variant::{METADATA, TYPED, VALUE};

/// Nesting depth of objects and lists with typed columns.
const MOST_DEPTH: usize = 8;
/// Typed columns of one variant column.
const MOST_COLUMNS: usize = 256;
/// Distinct paths that a sample tracks; further paths stay untyped.
const MOST_PLACES: usize = 4096;
/// A field gets a column if at least one in this many objects has it.
const ONE_IN: usize = 10;

/// The kind of one typed column. Only values that can be restored exactly are stored in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Boolean,
    /// Integers; a variant stores each in the smallest width.
    Integer,
    Float,
    Double,
    /// Decimals with at most this many digits, all of one scale.
    Decimal(u8, u8),
    Date,
    Timestamp,
    TimestampNtz,
    String,
    Binary,
}

impl Kind {
    /// The kind of a primitive value; `None` for kinds without a column that all readers support.
    pub(super) fn of(v: &Variant<'_, '_>) -> Option<Self> {
        Some(match v {
            Variant::BooleanTrue | Variant::BooleanFalse => Kind::Boolean,
            Variant::Int8(_) => Kind::Integer,
            Variant::Int16(i) => return i8::try_from(*i).is_err().then_some(Kind::Integer),
            Variant::Int32(i) => return i16::try_from(*i).is_err().then_some(Kind::Integer),
            Variant::Int64(i) => return i32::try_from(*i).is_err().then_some(Kind::Integer),
            Variant::Float(_) => Kind::Float,
            Variant::Double(_) => Kind::Double,
            Variant::Decimal4(d) => Kind::Decimal(VariantDecimal4::MAX_PRECISION, d.scale()),
            Variant::Decimal8(d) => Kind::Decimal(VariantDecimal8::MAX_PRECISION, d.scale()),
            Variant::Decimal16(d) => Kind::Decimal(38, d.scale()),
            Variant::Date(_) => Kind::Date,
            Variant::TimestampMicros(_) => Kind::Timestamp,
            Variant::TimestampNtzMicros(_) => Kind::TimestampNtz,
            Variant::String(_) | Variant::ShortString(_) => Kind::String,
            Variant::Binary(_) => Kind::Binary,
            _ => return None,
        })
    }

    pub(super) fn arrow(self) -> ArrowType {
        match self {
            Kind::Boolean => ArrowType::Boolean,
            Kind::Integer => ArrowType::Int64,
            Kind::Float => ArrowType::Float32,
            Kind::Double => ArrowType::Float64,
            // A variant's scale is 38 at most.
            Kind::Decimal(precision, scale) => ArrowType::Decimal128(precision, i8::try_from(scale).unwrap_or(i8::MAX)),
            Kind::Date => ArrowType::Date32,
            Kind::Timestamp => ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Kind::TimestampNtz => ArrowType::Timestamp(TimeUnit::Microsecond, None),
            Kind::String => ArrowType::Utf8,
            Kind::Binary => ArrowType::Binary,
        }
    }
}

/// The typed column at a path.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Primitive(Kind),
    /// The fields that have columns, by name.
    Object(Vec<(String, Shape)>),
    List(Box<Shape>),
}

impl Shape {
    fn arrow(&self) -> ArrowType {
        match self {
            Shape::Primitive(kind) => kind.arrow(),
            Shape::Object(fields) => {
                let fields = fields.iter();
                ArrowType::Struct(
                    fields
                        .map(|(name, shape)| ArrowField::new(name, shape.group(), false))
                        .collect(),
                )
            }
            Shape::List(element) => ArrowType::List(element.element()),
        }
    }

    /// Elements of a list are groups.
    pub(super) fn element(&self) -> FieldRef {
        ArrowField::new("element", self.group(), false).into()
    }

    /// A path inside a value: the untyped and the typed form, of which at most one is set, except
    /// for objects.
    fn group(&self) -> ArrowType {
        ArrowType::Struct(self.forms())
    }

    pub(super) fn forms(&self) -> Fields {
        Fields::from(vec![
            ArrowField::new(VALUE, ArrowType::Binary, true),
            ArrowField::new(TYPED, self.arrow(), true),
        ])
    }

    /// A whole column of variants.
    pub(super) fn column(&self) -> Fields {
        let metadata = ArrowField::new(METADATA, ArrowType::Binary, false);
        std::iter::once(metadata.into())
            .chain(self.forms().iter().cloned())
            .collect()
    }
}

/// The sample's values at one path.
#[derive(Default)]
pub(super) struct Seen {
    /// All values except nulls.
    values: usize,
    kinds: HashMap<Kind, usize>,
    objects: usize,
    fields: BTreeMap<String, Seen>,
    lists: usize,
    element: Option<Box<Seen>>,
}

impl Seen {
    /// Counts a value; `places` is the remaining number of distinct paths.
    pub(super) fn add(&mut self, v: &Variant<'_, '_>, places: &mut Places) {
        self.add_at(v, places, 0);
    }

    fn add_at(&mut self, v: &Variant<'_, '_>, places: &mut Places, depth: usize) {
        if matches!(v, Variant::Null) {
            return;
        }
        self.values += 1;
        match v {
            Variant::Object(object) if depth < MOST_DEPTH => {
                self.objects += 1;
                for (name, value) in object.iter_try().flatten() {
                    let seen = match self.fields.get_mut(name) {
                        Some(seen) => seen,
                        None if places.take() => self.fields.entry(name.to_owned()).or_default(),
                        None => continue,
                    };
                    seen.add_at(&value, places, depth + 1);
                }
            }
            Variant::List(list) if depth < MOST_DEPTH => {
                self.lists += 1;
                if self.element.is_none() && !places.take() {
                    return;
                }
                let element = self.element.get_or_insert_default();
                for value in list.iter_try().flatten() {
                    element.add_at(&value, places, depth + 1);
                }
            }
            other => {
                if let Some(kind) = Kind::of(other) {
                    *self.kinds.entry(kind).or_default() += 1;
                }
            }
        }
    }

    /// The prevailing kind of the values; `None` if none prevails.
    pub(super) fn shape(&self) -> Option<Shape> {
        self.shape_within(&mut { MOST_COLUMNS })
    }

    fn shape_within(&self, columns: &mut usize) -> Option<Shape> {
        let most = |n: usize| n > 0 && n * 2 >= self.values;
        if most(self.objects) {
            return self.object(columns);
        }
        if most(self.lists) {
            return Some(Shape::List(Box::new(self.element.as_ref()?.shape_within(columns)?)));
        }
        let (kind, count) = self.kinds.iter().max_by_key(|(kind, n)| (**n, **kind))?;
        if !most(*count) {
            return None;
        }
        *columns = columns.checked_sub(1)?;
        Some(Shape::Primitive(*kind))
    }

    /// The frequent fields, the most frequent first, while columns are left. Names that differ in
    /// case alone get none: readers that ignore case couldn't distinguish them.
    fn object(&self, columns: &mut usize) -> Option<Shape> {
        let mut folded: HashMap<String, usize> = HashMap::new();
        for name in self.fields.keys() {
            *folded.entry(name.to_lowercase()).or_default() += 1;
        }
        let alone = |name: &str| !name.is_empty() && folded.get(&name.to_lowercase()) == Some(&1);
        let often = |(name, seen): &(&String, &Seen)| alone(name) && seen.values * ONE_IN >= self.objects;
        let mut fields: Vec<_> = self.fields.iter().filter(often).collect();
        fields.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.values));
        let mut shapes: Vec<(String, Shape)> = fields
            .into_iter()
            .filter_map(|(name, seen)| Some((name.clone(), seen.shape_within(columns)?)))
            .collect();
        shapes.sort_by(|(a, _), (b, _)| a.cmp(b));
        (!shapes.is_empty()).then_some(Shape::Object(shapes))
    }
}

/// How many more distinct paths may be tracked.
pub(super) struct Places(usize);

impl Default for Places {
    fn default() -> Self {
        Places(MOST_PLACES)
    }
}

impl Places {
    fn take(&mut self) -> bool {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}
