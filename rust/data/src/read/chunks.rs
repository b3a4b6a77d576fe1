//! Finds column chunks of a file that can be copied into another file as bytes: whole, of the same
//! type and codec, without a dictionary, in large enough pages, with exact bounds. Knows nothing of
//! the destination.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use deltaplane_error::Result;
use deltaplane_protocol::mapping::Mapping;
use deltaplane_protocol::schema::Field;
use deltaplane_store::Store;
use parquet::basic::{CompressionCodec, Encoding, Type as Physical};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::ChunkReader;
use parquet::file::statistics::Statistics;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};

use super::FileRead;
use super::plan::{Lookup, arrow_metadata};
use super::source::{self, blocking};

/// Smaller pages are better decoded and written again.
const FEWEST_PAGE_ROWS: i64 = 8_192;
const FEWEST_PAGE_BYTES: i64 = 64 << 10;

/// Requirements for chunks.
pub(crate) struct Wanted {
    /// The columns, each with its leaf in the other file; `None` if it can't be copied at all.
    pub(crate) columns: Vec<(Field, Option<ColumnDescPtr>)>,
    /// How files name columns.
    pub(crate) mapping: Mapping,
    /// The compression of the pages.
    pub(crate) codec: CompressionCodec,
    /// Files with more rows, or bytes, aren't copied.
    pub(crate) most_rows: u64,
    pub(crate) most_bytes: u64,
}

/// One chunk.
pub(crate) struct Chunk {
    /// Its pages, one after the other.
    pub(crate) bytes: Bytes,
    pub(crate) metadata: ColumnChunkMetaData,
    /// Their offsets relative to the first, and the chunk's row at which each begins.
    pub(crate) pages: Vec<PageLocation>,
    /// Their bounds.
    pub(crate) index: ColumnIndexMetaData,
    pub(crate) rows: u64,
}

/// A file's rows, and the wanted columns that can be copied: one chunk per row group.
pub(crate) struct FileChunks {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) columns: Vec<Option<Vec<Chunk>>>,
    /// The whole file, if it was read from an object store and isn't large.
    pub(crate) whole: Option<Bytes>,
}

/// Reads the copyable columns of a file.
///
/// # Errors
/// As `read_file`.
pub(crate) async fn chunks(store: &Store, file: &FileRead, wanted: &Wanted) -> Result<FileChunks> {
    found(store, file, wanted)
        .await
        .map_err(|e| e.with_path(file.path.clone()).with_table(store.location().as_str()))
}

async fn found(store: &Store, file: &FileRead, wanted: &Wanted) -> Result<FileChunks> {
    let source = source::open(store, file).await?;
    // The caller reads the other columns next.
    let bytes = source.read_whole().await?;
    let metadata = arrow_metadata(source.footer(true).await?)?;
    let (footer, fields) = (metadata.metadata(), metadata.schema().fields());
    let mut all = FileChunks {
        rows: footer
            .row_groups()
            .iter()
            .filter_map(|g| u64::try_from(g.num_rows()).ok())
            .sum(),
        bytes: file.size_bytes,
        columns: wanted.columns.iter().map(|_| None).collect(),
        whole: bytes,
    };
    let whole = file.deletion_vector.is_none() && file.only.is_none() && file.selected.is_none();
    if !whole || all.rows > wanted.most_rows || all.bytes > wanted.most_bytes {
        return Ok(all);
    }
    let lookup = Lookup::new(fields, wanted.mapping);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut planned = Vec::new();
    for (place, (field, target)) in wanted.columns.iter().enumerate() {
        let Some(target) = target else { continue };
        let Some((_, _, leaf)) = lookup.find(field)? else {
            continue;
        };
        if let Some(chunks) = copyable(footer, leaf, target, wanted.codec) {
            ranges.extend(chunks.iter().map(|c| c.range.clone()));
            planned.push((place, chunks));
        }
    }
    if planned.is_empty() {
        return Ok(all);
    }
    let input = source.fetch(ranges).await?;
    blocking(move || {
        for (place, chunks) in planned {
            let read = chunks.into_iter().map(|c| {
                let length = usize::try_from(c.range.end - c.range.start).unwrap_or(usize::MAX);
                let bytes = input
                    .get_bytes(c.range.start, length)
                    .map_err(|e| source::corrupt(&e))?;
                Ok(Chunk { bytes, ..c.chunk })
            });
            if let Some(slot) = all.columns.get_mut(place) {
                *slot = Some(read.collect::<Result<Vec<_>>>()?);
            }
        }
        Ok(all)
    })
    .await?
}

struct Planned {
    range: Range<u64>,
    chunk: Chunk,
}

/// The chunks of a leaf, if all of them can be copied.
fn copyable(
    footer: &Arc<ParquetMetaData>,
    leaf: usize,
    target: &ColumnDescriptor,
    codec: CompressionCodec,
) -> Option<Vec<Planned>> {
    let groups = footer.row_groups().iter().enumerate();
    let groups = groups.filter(|(_, group)| group.num_rows() > 0);
    groups
        .map(|(n, group)| chunk(footer, n, group, leaf, target, codec))
        .collect()
}

fn chunk(
    footer: &ParquetMetaData,
    number: usize,
    group: &RowGroupMetaData,
    leaf: usize,
    target: &ColumnDescriptor,
    codec: CompressionCodec,
) -> Option<Planned> {
    let metadata = group.columns().get(leaf)?;
    let is_plain = metadata.dictionary_page_offset().is_none()
        && !metadata
            .encodings()
            .any(|e| matches!(e, Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY));
    let fits = is_plain
        && is_same(metadata.column_descr(), target)
        && metadata.compression_codec() == codec
        && metadata.num_values() == group.num_rows()
        && is_exact(metadata);
    let index = footer.page_index()?;
    let (pages, bounds) = (index.offset_index(number, leaf)?, index.column_index(number, leaf)?);
    let (start, length) = metadata.byte_range();
    let pages = from_first(&pages.page_locations, start, length, group.num_rows())?;
    let count = i64::try_from(pages.len()).ok()?;
    let worth =
        group.num_rows() >= FEWEST_PAGE_ROWS * count || metadata.uncompressed_size() >= FEWEST_PAGE_BYTES * count;
    (fits && worth && bounds.num_pages() == pages.len() as u64 && tells_bounds(bounds)).then(|| Planned {
        range: start..start + length,
        chunk: Chunk {
            bytes: Bytes::new(),
            metadata: metadata.clone(),
            pages,
            index: bounds.clone(),
            rows: group.num_rows().unsigned_abs(),
        },
    })
}

/// Whether the two columns encode values as the same bytes.
fn is_same(from: &ColumnDescriptor, to: &ColumnDescriptor) -> bool {
    from.physical_type() == to.physical_type()
        && from.logical_type_ref() == to.logical_type_ref()
        && from.converted_type() == to.converted_type()
        && from.type_precision() == to.type_precision()
        && from.type_scale() == to.type_scale()
        && from.max_def_level() == to.max_def_level()
        && from.max_rep_level() == 0
        && to.max_rep_level() == 0
}

/// Whether the chunk's bounds and null counts are known and exact.
fn is_exact(metadata: &ColumnChunkMetaData) -> bool {
    let Some(stats) = metadata.statistics() else {
        return false;
    };
    let nulls = stats.null_count_opt().and_then(|n| i64::try_from(n).ok());
    let bounded = match stats {
        Statistics::Int32(_) | Statistics::Int64(_) => true,
        Statistics::Float(_) | Statistics::Double(_) => stats.nan_count_opt() == Some(0),
        Statistics::ByteArray(_) => stats.min_is_exact() && stats.max_is_exact(),
        Statistics::Boolean(_) | Statistics::Int96(_) | Statistics::FixedLenByteArray(_) => false,
    };
    let known = stats.min_bytes_opt().is_some() && stats.max_bytes_opt().is_some();
    bounded && !stats.is_min_max_deprecated() && nulls.is_some() && (known || nulls == Some(metadata.num_values()))
}

/// Whether a leaf's type is one whose chunks can be copied at all.
pub(crate) fn may_be_copied(leaf: &ColumnDescriptor) -> bool {
    leaf.max_rep_level() == 0
        && matches!(
            leaf.physical_type(),
            Physical::INT32 | Physical::INT64 | Physical::FLOAT | Physical::DOUBLE | Physical::BYTE_ARRAY
        )
}

/// The pages' offsets from the first one, if the pages are exactly the chunk.
fn from_first(pages: &[PageLocation], start: u64, length: u64, rows: i64) -> Option<Vec<PageLocation>> {
    let (start, length) = (i64::try_from(start).ok()?, i64::try_from(length).ok()?);
    let (mut page_start, mut row) = (start, 0);
    let mut locations = Vec::with_capacity(pages.len());
    for page in pages {
        let in_order = page.first_row_index >= row && (page.first_row_index == 0) == locations.is_empty();
        if page.offset != page_start || !in_order || page.first_row_index >= rows {
            return None;
        }
        locations.push(PageLocation {
            offset: page_start - start,
            ..page.clone()
        });
        page_start = page_start.checked_add(i64::from(page.compressed_page_size))?;
        row = page.first_row_index;
    }
    (!locations.is_empty() && page_start == start + length).then_some(locations)
}

/// Whether each page's null count is known, and for floats its NaN count.
fn tells_bounds(index: &ColumnIndexMetaData) -> bool {
    let floats = matches!(index, ColumnIndexMetaData::FLOAT(_) | ColumnIndexMetaData::DOUBLE(_));
    index.null_counts().is_some() && (!floats || index.nan_counts().is_some())
}
