//! Validates Arrow data that another library made. The C data interface passes raw memory: text
//! that isn't UTF-8, unordered offsets or keys beyond a dictionary would be undefined behaviour in
//! code that trusts its arrays. Values that no reader can see (behind nulls, outside of lists) may
//! be invalid: they are blanked.

use std::str::from_utf8;

use arrow::array::{ArrayData, ArrayDataBuilder, BooleanBufferBuilder};
use arrow::buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType as ArrowType};
use arrow::error::ArrowError;
use deltaplane_error::{Error, Result};

/// Returns the column's data, valid; `first_row` is the number of its first row in the stream.
///
/// Costs one pass over texts, offsets and keys; a second, slower one only if something is invalid.
///
/// # Errors
/// `InvalidArgument`, which names the column, and the row where one value is at fault.
pub fn check_arrow(column: &str, data: ArrayData, first_row: u64) -> Result<ArrayData> {
    if quick(&data).is_ok() {
        return Ok(data);
    }
    let rows = (0..data.len()).map(Some).collect::<Vec<_>>();
    let repaired = repair(&data, &rows, column).map_err(|fault| fault.error(first_row))?;
    quick(&repaired).map_err(|e| Fault::whole(column, e.to_string()).error(first_row))?;
    Ok(repaired)
}

/// The problem, and the batch's rows that have it.
struct Fault {
    column: String,
    row: Option<usize>,
    what: String,
}

impl Fault {
    fn whole(column: &str, what: impl Into<String>) -> Self {
        Fault {
            column: column.to_owned(),
            row: None,
            what: what.into(),
        }
    }

    fn at(column: &str, row: usize, what: impl Into<String>) -> Self {
        Fault {
            row: Some(row),
            ..Fault::whole(column, what)
        }
    }

    fn error(self, first_row: u64) -> Error {
        let row = self
            .row
            .map(|n| format!(" in row {}", first_row.saturating_add(u64::try_from(n).unwrap_or(0))));
        Error::invalid_argument(format!(
            "the data's column `{}` can't be read{}: {}",
            self.column,
            row.unwrap_or_default(),
            self.what
        ))
    }
}

/// For each value of an array, the batch's row that shows it; `None` if no row does.
type Rows = [Option<usize>];

fn quick(data: &ArrayData) -> Result<(), ArrowError> {
    data.validate()?;
    values(data)
}

/// Nulls in non-nullable fields are ignored here: the table's own NOT NULL decides.
fn values(data: &ArrayData) -> Result<(), ArrowError> {
    let counted = |n: &NullBuffer| n.null_count() == n.len() - n.inner().count_set_bits();
    if !data.nulls().is_none_or(counted) {
        return Err(ArrowError::InvalidArgumentError("a wrong count of nulls".to_owned()));
    }
    data.validate_values()?;
    data.child_data().iter().try_for_each(values)
}

fn start(data: &ArrayData, data_type: ArrowType) -> ArrayDataBuilder {
    let nulls = data.nulls().map(|n| NullBuffer::new(n.inner().clone()));
    ArrayData::builder(data_type).len(data.len()).nulls(nulls)
}

fn repair(data: &ArrayData, rows: &Rows, column: &str) -> Result<ArrayData, Fault> {
    // The first offset of an empty list may be arbitrary: Arrow's Java library in Spark 4.1 leaves
    // it unset.
    if data.is_empty() {
        return Ok(ArrayData::new_empty(data.data_type()));
    }
    let shown: Vec<Option<usize>> = match data.nulls() {
        Some(nulls) => rows
            .iter()
            .zip(nulls)
            .map(|(row, valid)| row.filter(|_| valid))
            .collect(),
        None => rows.to_vec(),
    };
    let built = match data.data_type() {
        ArrowType::Utf8 => bytes::<i32>(data, &shown, column, true)?,
        ArrowType::LargeUtf8 => bytes::<i64>(data, &shown, column, true)?,
        ArrowType::Binary => bytes::<i32>(data, &shown, column, false)?,
        ArrowType::LargeBinary => bytes::<i64>(data, &shown, column, false)?,
        ArrowType::Utf8View => views(data, &shown, column, true)?,
        ArrowType::BinaryView => views(data, &shown, column, false)?,
        ArrowType::List(_) | ArrowType::Map(..) => lists::<i32>(data, &shown, column)?,
        ArrowType::LargeList(_) => lists::<i64>(data, &shown, column)?,
        ArrowType::ListView(_) => list_views::<i32>(data, &shown, column)?,
        ArrowType::LargeListView(_) => list_views::<i64>(data, &shown, column)?,
        ArrowType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            let child = child(data, 0, column)?;
            let rows = shown.iter().flat_map(|row| std::iter::repeat_n(*row, size)).collect();
            let below = below(child, data.offset() * size, rows, &format!("{column}.element"))?;
            start(data, data.data_type().clone()).child_data(vec![below])
        }
        ArrowType::Struct(fields) => {
            let fields = fields.iter().enumerate();
            let children = fields.map(|(n, field)| {
                below(
                    child(data, n, column)?,
                    data.offset(),
                    shown.clone(),
                    &format!("{column}.{}", field.name()),
                )
            });
            start(data, data.data_type().clone()).child_data(children.collect::<Result<_, _>>()?)
        }
        ArrowType::Dictionary(key, _) => match key.as_ref() {
            ArrowType::Int8 => dictionary::<i8>(data, &shown, column)?,
            ArrowType::Int16 => dictionary::<i16>(data, &shown, column)?,
            ArrowType::Int32 => dictionary::<i32>(data, &shown, column)?,
            ArrowType::Int64 => dictionary::<i64>(data, &shown, column)?,
            ArrowType::UInt8 => dictionary::<u8>(data, &shown, column)?,
            ArrowType::UInt16 => dictionary::<u16>(data, &shown, column)?,
            ArrowType::UInt32 => dictionary::<u32>(data, &shown, column)?,
            _ => dictionary::<u64>(data, &shown, column)?,
        },
        ArrowType::RunEndEncoded(ends, _) => match ends.data_type() {
            ArrowType::Int16 => runs::<i16>(data, &shown, column)?,
            ArrowType::Int32 => runs::<i32>(data, &shown, column)?,
            _ => runs::<i64>(data, &shown, column)?,
        },
        _ => return recounted(data, column),
    };
    built.build().map_err(|e| Fault::whole(column, e.to_string()))
}

/// A child whose values from `offset` on belong to these rows of the parent.
fn below(child: &ArrayData, offset: usize, rows: Vec<Option<usize>>, column: &str) -> Result<ArrayData, Fault> {
    if child.len() < offset.saturating_add(rows.len()) {
        return Err(Fault::whole(
            column,
            format!("it has {} values, {} are needed", child.len(), offset + rows.len()),
        ));
    }
    repair(&child.slice(offset, rows.len()), &rows, column)
}

fn child<'a>(data: &'a ArrayData, n: usize, column: &str) -> Result<&'a ArrayData, Fault> {
    let missing = || Fault::whole(column, "a part of it is missing");
    data.child_data().get(n).ok_or_else(missing)
}

/// Data of a type without invalid values.
fn recounted(data: &ArrayData, column: &str) -> Result<ArrayData, Fault> {
    let builder = data.clone().into_builder();
    let nulls = data.nulls().map(|n| NullBuffer::new(n.inner().clone()));
    builder
        .nulls(nulls)
        .build()
        .map_err(|e| Fault::whole(column, e.to_string()))
}

fn index<T: ArrowNativeType>(value: T) -> Option<usize> {
    value
        .to_isize()
        .and_then(|n| usize::try_from(n).ok())
        .or_else(|| value.to_usize())
}

/// The fixed-width values of a buffer that belong to the array, `more` than it has rows.
fn typed<'a, T: ArrowNativeType>(data: &'a ArrayData, n: usize, more: usize, column: &str) -> Result<&'a [T], Fault> {
    let short = || Fault::whole(column, "one of its buffers is too short");
    let buffer = data.buffers().get(n).ok_or_else(short)?;
    if buffer.is_empty() && data.is_empty() {
        return Ok(&[]);
    }
    // SAFETY: every bit pattern is a value of these types; what isn't aligned is left out.
    let (head, values, _) = unsafe { buffer.as_slice().align_to::<T>() };
    let wanted = data.offset()..data.offset().saturating_add(data.len()).saturating_add(more);
    if head.is_empty() {
        values.get(wanted).ok_or_else(short)
    } else {
        Err(short())
    }
}

fn range(from: Option<usize>, to: Option<usize>, limit: usize) -> Option<std::ops::Range<usize>> {
    from.zip(to).filter(|(a, b)| a <= b && *b <= limit).map(|(a, b)| a..b)
}

/// The range of values between each two offsets.
fn ranges<T: ArrowNativeType>(
    offsets: &[T],
    limit: usize,
    rows: &Rows,
    column: &str,
) -> Result<Vec<std::ops::Range<usize>>, Fault> {
    let pairs = offsets.iter().zip(offsets.iter().skip(1)).zip(rows).enumerate();
    let bounds = pairs.map(|(n, ((a, b), row))| {
        range(index(*a), index(*b), limit).ok_or_else(|| Fault {
            row: *row,
            ..Fault::whole(column, format!("its offset {n} is out of order or beyond its values"))
        })
    });
    bounds.collect()
}

fn text(value: &[u8], column: &str, row: usize) -> Result<(), Fault> {
    let Err(e) = from_utf8(value) else { return Ok(()) };
    let valid_bytes = e.valid_up_to();
    let shown: Vec<String> = value
        .iter()
        .skip(valid_bytes.saturating_sub(4))
        .take(12)
        .map(|b| format!("{b:02x}"))
        .collect();
    Err(Fault::at(
        column,
        row,
        format!(
            "its text isn't UTF-8 from byte {valid_bytes} on (there: {}); decode it from its own encoding, or make the column binary",
            shown.join(" ")
        ),
    ))
}

fn bytes<T: ArrowNativeType>(
    data: &ArrayData,
    rows: &Rows,
    column: &str,
    is_text: bool,
) -> Result<ArrayDataBuilder, Fault> {
    let offsets = typed::<T>(data, 0, 1, column)?;
    let buffer = data.buffers().get(1).map(Buffer::as_slice).unwrap_or_default();
    let mut values = MutableBuffer::new(0);
    let mut ends: Vec<T> = vec![T::usize_as(0)];
    for (range, row) in ranges(offsets, buffer.len(), rows, column)?.into_iter().zip(rows) {
        if let Some(row) = *row {
            let value = buffer.get(range).unwrap_or_default();
            if is_text {
                text(value, column, row)?;
            }
            values.extend_from_slice(value);
        }
        ends.push(T::usize_as(values.len()));
    }
    Ok(start(data, data.data_type().clone()).buffers(vec![Buffer::from_vec(ends), values.into()]))
}

/// A number of four bytes in a view.
fn number(view: &[u8; 16], offset: usize) -> usize {
    let bytes = view
        .get(offset..offset + 4)
        .and_then(|b| b.try_into().ok())
        .unwrap_or_default();
    usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX)
}

fn views(data: &ArrayData, rows: &Rows, column: &str, is_text: bool) -> Result<ArrayDataBuilder, Fault> {
    let own = typed::<u128>(data, 0, 0, column)?;
    let buffers = data.buffers().get(1..).unwrap_or_default();
    let mut clean_views = Vec::with_capacity(own.len());
    for (raw, row) in own.iter().zip(rows) {
        let Some(row) = *row else {
            clean_views.push(0_u128);
            continue;
        };
        let inline = raw.to_le_bytes();
        let [length, _, buffer, from] = [0, 4, 8, 12].map(|offset| number(&inline, offset));
        let value = match inline.get(4..).and_then(|inline| inline.get(..length)) {
            Some(value) => value,
            None => buffers
                .get(buffer)
                .and_then(|b| b.as_slice().get(from..from.checked_add(length)?))
                .ok_or_else(|| Fault::at(column, row, "its view points beyond its values"))?,
        };
        if is_text {
            text(value, column, row)?;
        }
        // The view repeats the value's first bytes, and short values are padded with zeros.
        let mut clean = [0_u8; 16];
        let parts = [
            inline.get(..4).unwrap_or_default(),
            if length <= 12 {
                value
            } else {
                value.get(..4).unwrap_or_default()
            },
        ];
        for (to, from) in clean.iter_mut().zip(parts.concat()) {
            *to = from;
        }
        if length > 12
            && let (Some(to), Some(from)) = (clean.get_mut(8..), inline.get(8..))
        {
            to.copy_from_slice(from);
        }
        clean_views.push(u128::from_le_bytes(clean));
    }
    let all = [Buffer::from_vec(clean_views)]
        .into_iter()
        .chain(buffers.iter().cloned());
    Ok(start(data, data.data_type().clone()).buffers(all.collect()))
}

fn lists<T: ArrowNativeType>(data: &ArrayData, rows: &Rows, column: &str) -> Result<ArrayDataBuilder, Fault> {
    let values = child(data, 0, column)?;
    let offsets = typed::<T>(data, 0, 1, column)?;
    let mut shown = vec![None; values.len()];
    for (range, row) in ranges(offsets, values.len(), rows, column)?.into_iter().zip(rows) {
        shown.get_mut(range).into_iter().flatten().for_each(|slot| *slot = *row);
    }
    let offsets = if offsets.is_empty() {
        vec![T::usize_as(0)]
    } else {
        offsets.to_vec()
    };
    let below = below(values, 0, shown, &format!("{column}.{}", part(data.data_type())))?;
    Ok(start(data, data.data_type().clone())
        .buffers(vec![Buffer::from_vec(offsets)])
        .child_data(vec![below]))
}

fn part(data_type: &ArrowType) -> &'static str {
    if matches!(data_type, ArrowType::Map(..)) {
        "entries"
    } else {
        "element"
    }
}

fn list_views<T: ArrowNativeType>(data: &ArrayData, rows: &Rows, column: &str) -> Result<ArrayDataBuilder, Fault> {
    let values = child(data, 0, column)?;
    let (offsets, sizes) = (typed::<T>(data, 0, 0, column)?, typed::<T>(data, 1, 0, column)?);
    let mut shown = vec![None; values.len()];
    let mut kept_pairs = (Vec::with_capacity(offsets.len()), Vec::with_capacity(offsets.len()));
    for ((offset, size), row) in offsets.iter().zip(sizes).zip(rows) {
        let Some(row) = *row else {
            kept_pairs.0.push(T::usize_as(0));
            kept_pairs.1.push(T::usize_as(0));
            continue;
        };
        let end = index(*offset).zip(index(*size)).and_then(|(o, s)| o.checked_add(s));
        let range = range(index(*offset), end, values.len());
        let range = range.ok_or_else(|| Fault::at(column, row, "its list lies beyond its values"))?;
        for slot in shown.get_mut(range).into_iter().flatten() {
            slot.get_or_insert(row);
        }
        kept_pairs.0.push(*offset);
        kept_pairs.1.push(*size);
    }
    let below = below(values, 0, shown, &format!("{column}.element"))?;
    let buffers = vec![Buffer::from_vec(kept_pairs.0), Buffer::from_vec(kept_pairs.1)];
    Ok(start(data, data.data_type().clone())
        .buffers(buffers)
        .child_data(vec![below]))
}

fn dictionary<T: ArrowNativeType>(data: &ArrayData, rows: &Rows, column: &str) -> Result<ArrayDataBuilder, Fault> {
    let values = child(data, 0, column)?;
    let mut shown = vec![None; values.len()];
    let mut keys = Vec::with_capacity(data.len());
    for (key, row) in typed::<T>(data, 0, 0, column)?.iter().zip(rows) {
        let Some(row) = *row else {
            keys.push(T::usize_as(0));
            continue;
        };
        let slot = index(*key).and_then(|n| shown.get_mut(n));
        let beyond = || format!("its key {key:?} isn't one of its dictionary of {} values", values.len());
        slot.ok_or_else(|| Fault::at(column, row, beyond()))?.get_or_insert(row);
        keys.push(*key);
    }
    // A row without a value has to become null, because its key is invalid.
    let mut valid = BooleanBufferBuilder::new(data.len());
    rows.iter().for_each(|row| valid.append(row.is_some()));
    let below = below(values, 0, shown, column)?;
    let nulls = NullBuffer::new(valid.finish());
    let builder = start(data, data.data_type().clone()).nulls(Some(nulls));
    Ok(builder.buffers(vec![Buffer::from_vec(keys)]).child_data(vec![below]))
}

fn runs<T: ArrowNativeType>(data: &ArrayData, rows: &Rows, column: &str) -> Result<ArrayDataBuilder, Fault> {
    let (ends, values) = (child(data, 0, column)?, child(data, 1, column)?);
    let mut shown = vec![None; values.len()];
    let (mut last, mut run_row) = (0, data.offset());
    for (run, end) in typed::<T>(ends, 0, 0, column)?.iter().enumerate() {
        let end = index(*end).filter(|end| *end > last);
        let end =
            end.ok_or_else(|| Fault::whole(column, format!("the end of its run {run} isn't beyond the one before")))?;
        while run_row < end && run_row < data.offset() + data.len() {
            if let Some((slot, row)) = shown.get_mut(run).zip(rows.get(run_row - data.offset())) {
                *slot = slot.or(*row);
            }
            run_row += 1;
        }
        last = end;
    }
    if run_row < data.offset() + data.len() {
        return Err(Fault::whole(column, "its runs end before its rows"));
    }
    let below = below(values, 0, shown, column)?;
    Ok(ArrayData::builder(data.data_type().clone())
        .len(data.len())
        .offset(data.offset())
        .child_data(vec![ends.clone(), below]))
}

#[cfg(test)]
mod tests;
