//! Patches some rows of a column chunk page by page: other pages are copied as bytes; in the
//! patched ones new values are placed between the bytes of the old ones, so that nothing is decoded
//! and no dictionary is rebuilt. Knows no file.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow::array::ArrayRef;
use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{CompressedPage, Page, PageReader, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder, ParquetMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::{OffsetIndexMetaData, PageLocation};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};

use super::bounds::page_bounds;
use super::compress::{Codec, Codecs};
use super::copied::CopiedColumn;
use super::indexes::{bits_of, pack, unpack};
use super::plain::{Kind, Range, Values, put, split, widen};
use crate::hashes::Seed;
use crate::read::Input;

/// Most bytes of a page, and of a dictionary.
const MOST_PAGE_BYTES: usize = 4 << 20;
const MOST_DICTIONARY_BYTES: usize = 2 << 20;
/// Longest bound that writers don't truncate.
const MOST_BOUND_BYTES: usize = 64;

/// A chunk of a file.
pub(super) struct OldChunk {
    pub(super) footer: Arc<ParquetMetaData>,
    pub(super) group: usize,
    pub(super) leaf: usize,
}

impl OldChunk {
    fn metadata(&self) -> &ColumnChunkMetaData {
        self.footer.row_group(self.group).column(self.leaf)
    }

    /// Whether the chunk can be patched page by page, judged by its footer: it has no nulls, exact
    /// bounds, one of a few types, and the current compression.
    pub(super) fn is_patchable(&self, codecs: &Codecs) -> bool {
        let index = self.footer.page_index_for_row_group(self.group);
        let indexed = index.offset_index(self.leaf).and(index.column_index(self.leaf));
        indexed.and_then(|bounds| self.kind(bounds)).is_some() && codecs.speak(self.metadata().compression_codec())
    }

    /// The chunk, read from `input`, with new values in these of its rows, which are in order.
    /// `None` if it can't be patched: not patchable, unsupported encodings, or too much growth.
    ///
    /// # Errors
    /// Errors of unreadable pages.
    pub(super) fn patched(
        &self,
        input: &Input,
        codecs: &Codecs,
        rows: &[usize],
        new: &ArrayRef,
    ) -> Result<Option<CopiedColumn>> {
        let index = self.footer.page_index_for_row_group(self.group);
        let (Some(offsets), Some(bounds)) = (index.offset_index(self.leaf), index.column_index(self.leaf)) else {
            return Ok(None);
        };
        let Some(kind) = self.kind(bounds) else { return Ok(None) };
        let Some(codec) = codecs.of_chunk(self.metadata().compression_codec())? else {
            return Ok(None);
        };
        let Some(new) = Values::of(kind, new).filter(|new| new.len() == rows.len()) else {
            return Ok(None);
        };
        let locations = &offsets.page_locations;
        let total = usize::try_from(self.metadata().num_values()).unwrap_or(0);
        let mut reader =
            SerializedPageReader::new(Arc::new(input.clone()), self.metadata(), total, Some(locations.clone()))?;
        // Pages may come out an eighth larger than they were.
        let size = usize::try_from(self.metadata().compressed_size()).unwrap_or(0);
        let mut made = Made::new(kind, codec, size + size / 8);
        if self.metadata().dictionary_page_offset().is_some() {
            let Some(Page::DictionaryPage { buf, num_values, .. }) = reader.get_next_page()? else {
                return Ok(None);
            };
            let Some(dictionary) = Dictionary::of(kind, buf, num_values as usize, &new) else {
                return Ok(None);
            };
            made.dictionary = Some(dictionary);
        }
        let mut done = 0;
        for (page, location) in locations.iter().enumerate() {
            let first = usize::try_from(location.first_row_index).unwrap_or(usize::MAX);
            let next = locations.get(page + 1).map(|next| next.first_row_index);
            let end = next.map_or(total, |row| usize::try_from(row).unwrap_or(total));
            let until = done + rows.iter().skip(done).take_while(|row| **row < end).count();
            let changed = Changed {
                rows: rows.get(done..until).unwrap_or_default(),
                first,
                new: &new,
                from: done,
            };
            done = until;
            let bounds = page_bounds(bounds, page);
            if changed.rows.is_empty() {
                reader.skip_next_page()?;
                made.keep(
                    location,
                    &bytes(input, location.offset, location.compressed_page_size.into())?,
                    bounds,
                )?;
                continue;
            }
            let levels = self.metadata().column_descr().max_def_level() > 0;
            let Some(old) = reader.get_next_page()?.and_then(|page| OldPage::of(page, levels)) else {
                return Ok(None);
            };
            if made.patch(location, &old, &changed, bounds)?.is_none() {
                return Ok(None);
            }
        }
        if done == rows.len() {
            self.ended(made, input)
        } else {
            Ok(None)
        }
    }

    /// The kind of the chunk's values, if they can be patched.
    fn kind(&self, bounds: &ColumnIndexMetaData) -> Option<Kind> {
        let chunk = self.metadata();
        let kind = Kind::of(chunk.column_descr().physical_type())?;
        let stats = chunk.statistics()?;
        let exact = stats.null_count_opt() == Some(0)
            && stats.min_is_exact()
            && stats.max_is_exact()
            && stats.min_bytes_opt().is_some()
            && stats.max_bytes_opt().is_some();
        let known = |page| !bounds.is_null_page(page) && (!kind.is_float() || bounds.nan_count(page) == Some(0));
        let leaf = chunk.column_descr();
        let flat = leaf.max_rep_level() == 0 && leaf.max_def_level() <= 1;
        (flat && exact && (0..usize::try_from(bounds.num_pages()).ok()?).all(known)).then_some(kind)
    }

    /// The new chunk; `None` if its bounds are no longer known.
    fn ended(&self, mut made: Made<'_>, input: &Input) -> Result<Option<CopiedColumn>> {
        let chunk = self.metadata();
        let Some(bounds) = made.bounds(chunk) else {
            return Ok(None);
        };
        let mut index = ColumnIndexBuilder::new(chunk.column_descr().physical_type());
        for (min, max) in made.bounds.drain(..) {
            index.append(false, min, max, 0, made.kind.is_float().then_some(0));
        }
        let dictionary = match (made.dictionary.take(), chunk.dictionary_page_offset()) {
            (Some(dictionary), _) if !dictionary.added.is_empty() => {
                made.grown += i64::try_from(dictionary.added.len())?;
                dictionary.write(&mut made.codec)?
            }
            (_, Some(start)) => bytes(input, start, chunk.data_page_offset() - start)?,
            (_, None) => Bytes::new(),
        };
        let first = i64::try_from(dictionary.len())?;
        for location in &mut made.locations {
            location.offset += first;
        }
        let pages = vec![dictionary, made.sink.into_inner()?.into()];
        let length = i64::try_from(pages.iter().map(Bytes::len).sum::<usize>())?;
        let metadata = chunk
            .clone()
            .into_builder()
            .set_statistics(bounds.clone())
            .set_total_compressed_size(length)
            .set_total_uncompressed_size(chunk.uncompressed_size() + made.grown)
            .set_unencoded_byte_array_data_bytes(None)
            .set_dictionary_page_offset((first > 0).then_some(0))
            .set_data_page_offset(first)
            .build()?;
        let rows = u64::try_from(chunk.num_values())?;
        let close = ColumnCloseResult {
            bytes_written: u64::try_from(length)?,
            rows_written: rows,
            metadata,
            bloom_filter: None,
            column_index: Some(index.build()?),
            offset_index: Some(OffsetIndexMetaData {
                page_locations: made.locations,
                unencoded_byte_array_data_bytes: None,
            }),
        };
        Ok(Some(CopiedColumn::new(pages, close, bounds, rows)))
    }
}

fn bytes(input: &Input, start: i64, length: i64) -> Result<Bytes> {
    input.get_bytes(u64::try_from(start)?, usize::try_from(length)?)
}

/// A chunk's dictionary.
struct Dictionary {
    kind: Kind,
    page: Bytes,
    values: Values,
    /// The indexes of new values that it has.
    numbers: HashMap<Box<[u8]>, u32, Seed>,
    /// New values after its own, in the page's format.
    added: Vec<u8>,
}

impl Dictionary {
    fn of(kind: Kind, page: Bytes, count: usize, new: &Values) -> Option<Dictionary> {
        let values = Values::parse(kind, &page, count)?;
        // Looking up every value would take longer than comparing lengths first.
        let mut lengths = [false; 256];
        let mut wanted: HashMap<&[u8], Option<u32>, Seed> = HashMap::default();
        for value in new.iter() {
            wanted.insert(value, None);
            if let Some(slot) = lengths.get_mut(value.len() & 0xff) {
                *slot = true;
            }
        }
        for (number, value) in (0_u32..).zip(values.iter()) {
            if lengths.get(value.len() & 0xff) == Some(&true)
                && let Some(slot) = wanted.get_mut(value)
            {
                *slot = Some(number);
            }
        }
        let offsets = wanted
            .into_iter()
            .filter_map(|(value, number)| Some((value.into(), number?)));
        Some(Dictionary {
            kind,
            numbers: offsets.collect(),
            page,
            values,
            added: Vec::new(),
        })
    }

    /// The index of a new value; `None` if the dictionary would grow too large.
    fn number(&mut self, value: &[u8]) -> Option<u32> {
        if let Some(number) = self.numbers.get(value) {
            return Some(*number);
        }
        let number = u32::try_from(self.values.len()).ok()?;
        put(self.kind, value, &mut self.added);
        self.values.push(value);
        self.numbers.insert(value.into(), number);
        (self.page.len() + self.added.len() <= MOST_DICTIONARY_BYTES).then_some(number)
    }

    fn write(self, codec: &mut Codec<'_>) -> Result<Bytes> {
        let bytes = [&self.page, self.added.as_slice()].concat();
        let size = bytes.len();
        let page = Page::DictionaryPage {
            buf: codec.compress(bytes)?,
            num_values: u32::try_from(self.values.len())?,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let mut sink = TrackedWrite::new(Vec::new());
        SerializedPageWriter::new(&mut sink).write_page(CompressedPage::new(page, size))?;
        Ok(sink.into_inner()?.into())
    }
}

/// An existing page, decompressed.
struct OldPage {
    bytes: Bytes,
    /// Bytes of the levels that say that there are no nulls.
    levels: usize,
    count: u32,
    encoding: Encoding,
    level_encodings: (Encoding, Encoding),
}

impl OldPage {
    fn of(page: Page, has_levels: bool) -> Option<OldPage> {
        let Page::DataPage {
            buf,
            num_values,
            encoding,
            def_level_encoding,
            rep_level_encoding,
            ..
        } = page
        else {
            return None;
        };
        let levels = match has_levels {
            true if def_level_encoding == Encoding::RLE => {
                let length = u32::from_le_bytes(*buf.first_chunk::<4>()?);
                (length as usize).checked_add(4)?
            }
            true => return None,
            false => 0,
        };
        (levels <= buf.len()).then_some(OldPage {
            bytes: buf,
            levels,
            count: num_values,
            encoding,
            level_encodings: (def_level_encoding, rep_level_encoding),
        })
    }

    fn values(&self) -> &[u8] {
        self.bytes.get(self.levels..).unwrap_or_default()
    }
}

/// The rows of a page that get new values.
struct Changed<'a> {
    /// Their positions in the chunk.
    rows: &'a [usize],
    /// The page's first row.
    first: usize,
    new: &'a Values,
    /// Index of the first row's new value.
    from: usize,
}

impl<'a> Changed<'a> {
    /// Positions in the page, and new values.
    fn iter(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(i, row)| Some((row - self.first, self.new.get(self.from + i)?)))
    }
}

/// A chunk being built.
struct Made<'a> {
    kind: Kind,
    codec: Codec<'a>,
    dictionary: Option<Dictionary>,
    /// The data pages; their offsets are relative to the first.
    sink: TrackedWrite<Vec<u8>>,
    locations: Vec<PageLocation>,
    /// Bounds of each page.
    bounds: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bounds of the replaced values, and of the new ones.
    replaced: Option<(Vec<u8>, Vec<u8>)>,
    brought: Option<(Vec<u8>, Vec<u8>)>,
    /// By how many decompressed bytes the pages grew.
    grown: i64,
}

impl<'a> Made<'a> {
    fn new(kind: Kind, codec: Codec<'a>, size: usize) -> Self {
        Made {
            kind,
            codec,
            dictionary: None,
            sink: TrackedWrite::new(Vec::with_capacity(size)),
            locations: Vec::new(),
            bounds: Vec::new(),
            replaced: None,
            brought: None,
            grown: 0,
        }
    }

    /// Copies a page.
    fn keep(&mut self, location: &PageLocation, bytes: &[u8], bounds: (Vec<u8>, Vec<u8>)) -> Result<()> {
        self.locations.push(PageLocation {
            offset: i64::try_from(self.sink.bytes_written())?,
            ..location.clone()
        });
        self.bounds.push(bounds);
        Ok(self.sink.write_all(bytes)?)
    }

    /// Writes a page with new values; `None` if that is impossible.
    fn patch(
        &mut self,
        location: &PageLocation,
        old: &OldPage,
        changed: &Changed<'_>,
        bounds: (Vec<u8>, Vec<u8>),
    ) -> Result<Option<()>> {
        let made = match old.encoding {
            Encoding::PLAIN => self.patch_plain(old, changed, bounds),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => self.patch_numbers(old, changed, bounds),
            _ => None,
        };
        let Some(bytes) = made else { return Ok(None) };
        let (size, before) = (bytes.len(), old.bytes.len());
        if size > before.max(MOST_PAGE_BYTES) {
            return Ok(None);
        }
        self.grown += i64::try_from(size)? - i64::try_from(before)?;
        let page = Page::DataPage {
            buf: self.compressed(bytes, old, location)?,
            num_values: old.count,
            encoding: old.encoding,
            def_level_encoding: old.level_encodings.0,
            rep_level_encoding: old.level_encodings.1,
            statistics: None,
        };
        let offset = i64::try_from(self.sink.bytes_written())?;
        let written = SerializedPageWriter::new(&mut self.sink).write_page(CompressedPage::new(page, size))?;
        self.locations.push(PageLocation {
            offset,
            compressed_page_size: i32::try_from(written.compressed_size)?,
            first_row_index: location.first_row_index,
        });
        Ok(Some(()))
    }

    /// The compressed bytes of a page; `location` has its previous compressed size.
    fn compressed(&mut self, bytes: Vec<u8>, old: &OldPage, location: &PageLocation) -> Result<Bytes> {
        let before = usize::try_from(location.compressed_page_size)?;
        let numbers = old.encoding == Encoding::PLAIN && self.kind.width().is_some();
        match numbers {
            true => self.codec.compress_numbers(bytes, before),
            false => self.codec.compress(bytes),
        }
    }

    fn patch_plain(&mut self, old: &OldPage, changed: &Changed<'_>, bounds: (Vec<u8>, Vec<u8>)) -> Option<Vec<u8>> {
        let kind = self.kind;
        let mut out = Vec::with_capacity(old.bytes.len() + changed.rows.len() * 8);
        out.extend_from_slice(old.bytes.get(..old.levels)?);
        let mut replaced = Vec::with_capacity(changed.rows.len());
        let (mut rest, mut row) = (old.values(), 0);
        for (row_of_change, new) in changed.iter() {
            let before = rest;
            match kind.width() {
                Some(width) => rest = rest.get((row_of_change - row) * width..)?,
                None => {
                    for _ in row..row_of_change {
                        rest = split(kind, rest)?.1;
                    }
                }
            }
            out.extend_from_slice(before.get(..before.len() - rest.len())?);
            let (value, after) = split(kind, rest)?;
            replaced.push(value);
            put(kind, new, &mut out);
            (rest, row) = (after, row_of_change + 1);
        }
        out.extend_from_slice(rest);
        let values = out.get(old.levels..)?;
        let again = || {
            let mut rest = values;
            kind.extremes(std::iter::from_fn(|| {
                let (value, after) = split(kind, rest)?;
                rest = after;
                Some(value)
            }))
        };
        self.bound(kind.extremes(replaced.into_iter())?, changed, bounds, again)?;
        Some(out)
    }

    fn patch_numbers(&mut self, old: &OldPage, changed: &Changed<'_>, bounds: (Vec<u8>, Vec<u8>)) -> Option<Vec<u8>> {
        let mut dictionary = self.dictionary.take()?;
        let (width, packed) = old.values().split_first()?;
        let mut numbers = unpack(packed, *width, old.count as usize)?;
        let mut replaced = Vec::with_capacity(changed.rows.len());
        for (row_of_change, new) in changed.iter() {
            let number = dictionary.number(new)?;
            replaced.push(std::mem::replace(numbers.get_mut(row_of_change)?, number));
        }
        let width = bits_of(&numbers).max(*width);
        let mut out = Vec::with_capacity(old.bytes.len() + 1_024);
        out.extend_from_slice(old.bytes.get(..old.levels)?);
        out.push(width);
        pack(&numbers, width, &mut out);
        let (kind, value) = (self.kind, |number: &u32| dictionary.values.get(*number as usize));
        let replaced = kind.extremes(replaced.iter().filter_map(value))?;
        let again = || kind.extremes(numbers.iter().filter_map(value));
        self.bound(replaced, changed, bounds, again)?;
        self.dictionary = Some(dictionary);
        Some(out)
    }

    /// Records the bounds of a page: the old ones, unless a new value is beyond them or one of them
    /// was replaced. `again` reads all of its values.
    fn bound<'v>(
        &mut self,
        replaced: Range<'_>,
        changed: &Changed<'_>,
        (min, max): (Vec<u8>, Vec<u8>),
        again: impl FnOnce() -> Option<Range<'v>>,
    ) -> Option<()> {
        let kind = self.kind;
        let new = kind.extremes(changed.iter().map(|(_, value)| value))?;
        widen(kind, &mut self.replaced, replaced);
        widen(kind, &mut self.brought, new);
        // Bounds of strings may be truncated: they stay.
        let gone = |bound: &[u8], value: &[u8], is_beyond: fn(Ordering) -> bool| {
            kind != Kind::Bytes && !is_beyond(kind.order(value, bound))
        };
        let lower = kind.order(new.0, &min).is_le();
        let upper = kind.order(new.1, &max).is_ge();
        let lost =
            (!lower && gone(&min, replaced.0, Ordering::is_gt)) || (!upper && gone(&max, replaced.1, Ordering::is_lt));
        let (min, max) = match lost {
            true => {
                let (min, max) = again()?;
                (min.to_vec(), max.to_vec())
            }
            false => (
                if lower { new.0.to_vec() } else { min },
                if upper { new.1.to_vec() } else { max },
            ),
        };
        let (min, max) = (kind.bound(&min, false), kind.bound(&max, true));
        if min.len().max(max.len()) > MOST_BOUND_BYTES {
            return None;
        }
        self.bounds.push((min, max));
        Some(())
    }

    /// The bounds of the chunk, if they are still known exactly.
    fn bounds(&self, old: &ColumnChunkMetaData) -> Option<Statistics> {
        let (kind, stats) = (self.kind, old.statistics()?);
        if kind != Kind::Bytes {
            let min = self.bounds.iter().map(|(min, _)| min.as_slice());
            let max = self.bounds.iter().map(|(_, max)| max.as_slice());
            let (min, max) = (kind.extremes(min)?.0, kind.extremes(max)?.1);
            return Some(kind.statistics(min, max, stats));
        }
        let (min, max) = (stats.min_bytes_opt()?, stats.max_bytes_opt()?);
        let (Some(replaced), Some(new)) = (&self.replaced, &self.brought) else {
            return Some(stats.clone());
        };
        let min = match () {
            () if new.0.as_slice() <= min => &new.0,
            () if replaced.0.as_slice() > min => min,
            () => return None,
        };
        let max = match () {
            () if new.1.as_slice() >= max => &new.1,
            () if replaced.1.as_slice() < max => max,
            () => return None,
        };
        (min.len().max(max.len()) <= MOST_BOUND_BYTES).then(|| kind.statistics(min, max, stats))
    }
}
