//! Stores variants in typed columns of a file (P154): `shape` chooses the columns by the file's
//! first rows, fitting values go there, and other values and other fields stay bytes. `variant`
//! reassembles them.

mod shape;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder,
    Float64Builder, Int64Builder, ListArray, StringBuilder, StructArray, TimestampMicrosecondBuilder,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType as ArrowType, Field as ArrowField, FieldRef};
use arrow::error::ArrowError;
use chrono::Datelike;
use deltaplane_error::{Error, Result};
use deltaplane_protocol::schema::{DataType, Primitive};
use parquet_variant::{ObjectBuilder, ParentState, ReadOnlyMetadataBuilder, ValueBuilder, Variant, VariantMetadata};

use crate::variant::{METADATA, VALUE};
use shape::{Kind, Places, Seen, Shape};

/// Rows in the sample that determines a file's typed columns.
const SAMPLE_ROWS: usize = 4096;
/// Days from the first of January of year 1 to that of 1970.
const EPOCH_DAYS: i32 = 719_163;

type Made<T> = std::result::Result<T, ArrowError>;

/// The layout of a column's variants in one file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Layout {
    /// Without typed columns.
    Plain,
    Variant(Typed),
    /// The fields of a struct, some of which have variants.
    Fields(Vec<Layout>),
}

/// The typed columns of a variant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Typed(Shape);

impl Layout {
    /// The layout for a column of this type that begins with these rows. Variants in lists and maps
    /// stay bytes, since readers rarely need parts of them.
    pub(crate) fn choose(t: &DataType, rows: &ArrayRef) -> Self {
        match (t, rows.as_struct_opt()) {
            (DataType::Primitive(Primitive::Variant), Some(variants)) => {
                sampled(variants).map_or(Layout::Plain, |shape| Layout::Variant(Typed(shape)))
            }
            (DataType::Struct(s), Some(rows)) => {
                let fields = s
                    .fields()
                    .iter()
                    .filter(|f| f.data_type != DataType::Primitive(Primitive::Void));
                let layouts: Vec<_> = fields
                    .zip(rows.columns())
                    .map(|(f, c)| Layout::choose(&f.data_type, c))
                    .collect();
                match layouts.iter().all(|l| *l == Layout::Plain) {
                    true => Layout::Plain,
                    false => Layout::Fields(layouts),
                }
            }
            _ => Layout::Plain,
        }
    }

    /// The field in the file.
    pub(crate) fn field(&self, plain: &FieldRef) -> FieldRef {
        let t = match (self, plain.data_type()) {
            (Layout::Variant(Typed(shape)), _) => ArrowType::Struct(shape.column()),
            (Layout::Fields(layouts), ArrowType::Struct(fields)) => {
                ArrowType::Struct(fields.iter().zip(layouts).map(|(f, l)| l.field(f)).collect())
            }
            _ => return plain.clone(),
        };
        Arc::new(plain.as_ref().clone().with_data_type(t))
    }

    /// The rows in the file's layout.
    pub(crate) fn lay_out(&self, rows: &ArrayRef) -> Result<ArrayRef> {
        let done = match (self, rows.as_struct_opt()) {
            (Layout::Variant(Typed(shape)), Some(variants)) => shred(variants, shape),
            (Layout::Fields(layouts), Some(s)) => {
                let (fields, columns, nulls) = s.clone().into_parts();
                let columns = columns
                    .iter()
                    .zip(layouts)
                    .map(|(c, l)| l.lay_out(c))
                    .collect::<Result<Vec<_>>>()?;
                let fields = fields.iter().zip(layouts).map(|(f, l)| l.field(f)).collect();
                StructArray::try_new(fields, columns, nulls).map(|s| Arc::new(s) as ArrayRef)
            }
            _ => return Ok(rows.clone()),
        };
        done.map_err(|e| Error::internal(format!("can't lay out variants in columns: {e}")))
    }
}

/// The bytes of both parts of a row's variant.
fn parts(variants: &StructArray, row: usize) -> Option<(&[u8], &[u8])> {
    let part = |name| {
        variants
            .column_by_name(name)?
            .as_binary_opt::<i32>()
            .map(|b| b.value(row))
    };
    Some((part(METADATA)?, part(VALUE)?))
}

fn sampled(variants: &StructArray) -> Option<Shape> {
    let (mut seen, mut places) = (Seen::default(), Places::default());
    // Spread over all rows.
    let step = variants.len().div_ceil(SAMPLE_ROWS).max(1);
    for row in (0..variants.len()).step_by(step).filter(|row| !variants.is_null(*row)) {
        let (metadata, value) = parts(variants, row)?;
        if let Ok(v) = Variant::try_new(metadata, value) {
            seen.add(&v, &mut places);
        }
    }
    seen.shape()
}

fn shred(variants: &StructArray, shape: &Shape) -> Made<ArrayRef> {
    let mut metadata = BinaryBuilder::new();
    let mut forms = Forms::new(shape);
    let rows = variants.columns().first().map_or(0, |c| c.len());
    for row in 0..rows {
        let there = (!variants.is_null(row)).then(|| parts(variants, row)).flatten();
        let Some((names, value)) = there else {
            metadata.append_null();
            forms.missing();
            continue;
        };
        metadata.append_value(names);
        // An unreadable variant goes into the file unchanged, as without typed columns.
        match VariantMetadata::try_new(names) {
            Ok(names) => match Variant::try_new_with_metadata(names.clone(), value) {
                Ok(v) => forms.push(&names, v)?,
                Err(_) => forms.bytes(value),
            },
            Err(_) => forms.bytes(value),
        }
    }
    let mut columns: Vec<ArrayRef> = vec![Arc::new(metadata.finish())];
    columns.extend(forms.finish()?);
    let nulls = variants.nulls().cloned();
    Ok(Arc::new(StructArray::try_new(shape.column(), columns, nulls)?))
}

/// Collects both forms of the values at one path.
struct Forms<'a> {
    value: BinaryBuilder,
    typed: Column<'a>,
}

impl<'a> Forms<'a> {
    fn new(shape: &'a Shape) -> Self {
        Forms {
            value: BinaryBuilder::new(),
            typed: Column::new(shape),
        }
    }

    /// No value: the row is null, or an object lacks the field.
    fn missing(&mut self) {
        self.value.append_null();
        self.typed.append_null();
    }

    fn bytes(&mut self, value: &[u8]) {
        self.value.append_value(value);
        self.typed.append_null();
    }

    fn push(&mut self, names: &VariantMetadata<'_>, v: Variant<'_, '_>) -> Made<()> {
        match (&mut self.typed, v) {
            (Column::Object { shape, fields, valid }, Variant::Object(object)) => {
                for ((name, _), forms) in shape.iter().zip(fields) {
                    match object.get(name) {
                        Some(v) => forms.push(names, v)?,
                        None => forms.missing(),
                    }
                }
                valid.push(true);
                let mut bytes = ValueBuilder::new();
                let mut known = ReadOnlyMetadataBuilder::new(names);
                let mut rest = ObjectBuilder::new(ParentState::variant(&mut bytes, &mut known), false);
                let mut left = false;
                for entry in object.iter_try() {
                    let (name, value) = entry?;
                    if shape.binary_search_by(|(n, _)| n.as_str().cmp(name)).is_err() {
                        rest.try_insert_bytes(name, value)?;
                        left = true;
                    }
                }
                rest.finish();
                match left {
                    true => self.value.append_value(bytes.into_inner()),
                    false => self.value.append_null(),
                }
            }
            (
                Column::List {
                    element,
                    lengths,
                    valid,
                    ..
                },
                Variant::List(list),
            ) => {
                let mut n = 0;
                for item in list.iter_try() {
                    element.push(names, item?)?;
                    n += 1;
                }
                lengths.push(n);
                valid.push(true);
                self.value.append_null();
            }
            (typed, v) => match typed.append(&v) {
                true => self.value.append_null(),
                false => {
                    typed.append_null();
                    let mut bytes = ValueBuilder::new();
                    let mut known = ReadOnlyMetadataBuilder::new(names);
                    ValueBuilder::append_variant_bytes(ParentState::variant(&mut bytes, &mut known), v);
                    self.value.append_value(bytes.into_inner());
                }
            },
        }
        Ok(())
    }

    fn finish(mut self) -> Made<[ArrayRef; 2]> {
        Ok([Arc::new(self.value.finish()), self.typed.finish()?])
    }

    /// Both forms as one column, with one row for each row of the parent.
    fn group(self, shape: &Shape) -> Made<StructArray> {
        StructArray::try_new(shape.forms(), self.finish()?.to_vec(), None)
    }
}

/// A typed column being built.
enum Column<'a> {
    Boolean(BooleanBuilder),
    Integer(Int64Builder),
    Float(Float32Builder),
    Double(Float64Builder),
    Decimal(Kind, Decimal128Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    TimestampNtz(TimestampMicrosecondBuilder),
    String(StringBuilder),
    Binary(BinaryBuilder),
    Object {
        shape: &'a [(String, Shape)],
        fields: Vec<Forms<'a>>,
        valid: Vec<bool>,
    },
    List {
        shape: &'a Shape,
        element: Box<Forms<'a>>,
        lengths: Vec<usize>,
        valid: Vec<bool>,
    },
}

impl<'a> Column<'a> {
    fn new(shape: &'a Shape) -> Self {
        match shape {
            Shape::Primitive(kind) => match kind {
                Kind::Boolean => Column::Boolean(BooleanBuilder::new()),
                Kind::Integer => Column::Integer(Int64Builder::new()),
                Kind::Float => Column::Float(Float32Builder::new()),
                Kind::Double => Column::Double(Float64Builder::new()),
                Kind::Decimal(..) => Column::Decimal(*kind, Decimal128Builder::new()),
                Kind::Date => Column::Date(Date32Builder::new()),
                Kind::Timestamp => Column::Timestamp(TimestampMicrosecondBuilder::new()),
                Kind::TimestampNtz => Column::TimestampNtz(TimestampMicrosecondBuilder::new()),
                Kind::String => Column::String(StringBuilder::new()),
                Kind::Binary => Column::Binary(BinaryBuilder::new()),
            },
            Shape::Object(shape) => Column::Object {
                shape,
                fields: shape.iter().map(|(_, shape)| Forms::new(shape)).collect(),
                valid: Vec::new(),
            },
            Shape::List(element) => Column::List {
                shape: element,
                element: Box::new(Forms::new(element)),
                lengths: Vec::new(),
                valid: Vec::new(),
            },
        }
    }

    fn append_null(&mut self) {
        match self {
            Column::Boolean(b) => b.append_null(),
            Column::Integer(b) => b.append_null(),
            Column::Float(b) => b.append_null(),
            Column::Double(b) => b.append_null(),
            Column::Decimal(_, b) => b.append_null(),
            Column::Date(b) => b.append_null(),
            Column::Timestamp(b) | Column::TimestampNtz(b) => b.append_null(),
            Column::String(b) => b.append_null(),
            Column::Binary(b) => b.append_null(),
            Column::Object { fields, valid, .. } => {
                fields.iter_mut().for_each(Forms::missing);
                valid.push(false);
            }
            Column::List { lengths, valid, .. } => {
                lengths.push(0);
                valid.push(false);
            }
        }
    }

    /// Appends a primitive of the column's own kind; false for any other value.
    fn append(&mut self, v: &Variant<'_, '_>) -> bool {
        let Some(kind) = Kind::of(v) else { return false };
        match (self, v) {
            (Column::Boolean(b), Variant::BooleanTrue) => b.append_value(true),
            (Column::Boolean(b), Variant::BooleanFalse) => b.append_value(false),
            (Column::Integer(b), Variant::Int8(i)) => b.append_value(i64::from(*i)),
            (Column::Integer(b), Variant::Int16(i)) => b.append_value(i64::from(*i)),
            (Column::Integer(b), Variant::Int32(i)) => b.append_value(i64::from(*i)),
            (Column::Integer(b), Variant::Int64(i)) => b.append_value(*i),
            (Column::Float(b), Variant::Float(f)) => b.append_value(*f),
            (Column::Double(b), Variant::Double(f)) => b.append_value(*f),
            (Column::Decimal(own, b), Variant::Decimal4(d)) if *own == kind => b.append_value(i128::from(d.integer())),
            (Column::Decimal(own, b), Variant::Decimal8(d)) if *own == kind => b.append_value(i128::from(d.integer())),
            (Column::Decimal(own, b), Variant::Decimal16(d)) if *own == kind => b.append_value(d.integer()),
            (Column::Date(b), Variant::Date(d)) => b.append_value(d.num_days_from_ce() - EPOCH_DAYS),
            (Column::Timestamp(b), Variant::TimestampMicros(t)) => b.append_value(t.timestamp_micros()),
            (Column::TimestampNtz(b), Variant::TimestampNtzMicros(t)) => b.append_value(t.and_utc().timestamp_micros()),
            (Column::String(b), Variant::String(s)) => b.append_value(s),
            (Column::String(b), Variant::ShortString(s)) => b.append_value(s.as_str()),
            (Column::Binary(b), Variant::Binary(bytes)) => b.append_value(bytes),
            _ => return false,
        }
        true
    }

    fn finish(self) -> Made<ArrayRef> {
        Ok(match self {
            Column::Boolean(mut b) => Arc::new(b.finish()),
            Column::Integer(mut b) => Arc::new(b.finish()),
            Column::Float(mut b) => Arc::new(b.finish()),
            Column::Double(mut b) => Arc::new(b.finish()),
            Column::Decimal(kind, mut b) => {
                let t = kind.arrow();
                Arc::new(b.finish().with_data_type(t))
            }
            Column::Date(mut b) => Arc::new(b.finish()),
            Column::Timestamp(mut b) => Arc::new(b.finish().with_timezone("UTC")),
            Column::TimestampNtz(mut b) => Arc::new(b.finish()),
            Column::String(mut b) => Arc::new(b.finish()),
            Column::Binary(mut b) => Arc::new(b.finish()),
            Column::Object { shape, fields, valid } => {
                let (mut names, mut columns) = (Vec::new(), Vec::new());
                for ((name, shape), forms) in shape.iter().zip(fields) {
                    let group = forms.group(shape)?;
                    names.push(Arc::new(ArrowField::new(name, group.data_type().clone(), false)));
                    columns.push(Arc::new(group) as ArrayRef);
                }
                Arc::new(StructArray::try_new(
                    names.into(),
                    columns,
                    Some(NullBuffer::from(valid)),
                )?)
            }
            Column::List {
                element,
                shape,
                lengths,
                valid,
            } => {
                let items = Arc::new(element.group(shape)?);
                let offsets = OffsetBuffer::from_lengths(lengths);
                Arc::new(ListArray::try_new(
                    shape.element(),
                    offsets,
                    items,
                    Some(NullBuffer::from(valid)),
                )?)
            }
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
