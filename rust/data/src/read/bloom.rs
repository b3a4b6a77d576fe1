//! Skips row groups that lack the values of a predicate's equalities, by the Bloom filters of their
//! columns. Asked only for row groups that statistics left, and where filters are smaller than what
//! they may save; of a remote file all filters are fetched at once. A filter that isn't readable is
//! not used.

mod values;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use deltaplane_error::Result;
use deltaplane_protocol::expr::Lookup;
use parquet::bloom_filter::{BITSET_MAX_LENGTH, Sbbf};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{ChunkReader, Length};

use self::values::stored_forms;
use super::decode::{SharedPlan, Unit, ranges};
use super::lookups::FilterLookups;
use super::part_stats::Leaf;
use super::source::{Input, MERGE_GAP_BYTES, Source, blocking};

/// The bytes of a filter's header after its length: split blocks, xxHash, uncompressed. The format
/// has no others yet.
const HEADER_REST: [u8; 13] = [0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0];
/// The first byte of the header: a field with the number 1, an `i32`.
const HEADER_FIRST: u8 = 0x15;
/// Most bytes of a header.
const HEADER_BYTES: u64 = 32;
/// A filter's blocks.
const BLOCK_BYTES: usize = 32;

/// One look-up in a file: a leaf, and the values as the file's filters have them.
struct Probe {
    leaf: usize,
    values: Vec<Vec<u8>>,
}

/// The row groups of these units that have no matching row by their filters.
///
/// # Errors
/// The store's errors.
pub(super) async fn absent(plan: &SharedPlan, source: &Source, units: &[Unit]) -> Result<HashSet<usize>> {
    let Some(lookups) = &plan.prepared.filter_lookups else {
        return Ok(HashSet::new());
    };
    let probes = probes(plan, lookups);
    let groups = useful(plan, lookups, &probes, source.size_bytes(), units);
    let all: Vec<_> = groups.values().flat_map(Group::ranges).collect();
    let is_in_hand = all.iter().all(|range| source.has(range));
    let saved = groups.values().map(|g| g.saved).sum::<u64>();
    // A request costs more than the gap for which it isn't divided.
    if groups.is_empty() || (!is_in_hand && saved < bytes_of(&all) + MERGE_GAP_BYTES) {
        return Ok(HashSet::new());
    }
    let memory = lookups.room_for(bytes_of(&all)).await?;
    let input = source.fetch(all).await?;
    let plan = plan.clone();
    blocking(move || {
        let Some(lookups) = &plan.prepared.filter_lookups else {
            return HashSet::new();
        };
        let lacks = |(number, group): (usize, Group)| (!group.may_match(lookups, &probes, &input)).then_some(number);
        let absent = groups.into_iter().filter_map(lacks).collect();
        drop(memory);
        absent
    })
    .await
}

fn bytes_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|r| r.end - r.start).sum()
}

/// Each look-up in this file; `None` where it can't be looked up exactly.
fn probes(plan: &SharedPlan, lookups: &FilterLookups) -> Vec<Option<Probe>> {
    let probe = |(lookup, path): (&Lookup, &Option<Vec<String>>)| {
        let leaf = Leaf::find(plan, path.as_ref()?)?;
        let column = plan.metadata.parquet_schema().column(leaf.index);
        let forms = lookup
            .values
            .iter()
            .map(|v| stored_forms(v, leaf.stored_type(), &column));
        Some(Probe {
            leaf: leaf.index,
            values: forms.collect::<Option<Vec<_>>>()?.concat(),
        })
    };
    lookups.tree.each().into_iter().zip(&lookups.paths).map(probe).collect()
}

/// Where a filter is.
struct Place {
    range: Range<u64>,
    /// Whether the filter ends with the range, and not before.
    exact: bool,
}

/// A row group with filters.
struct Group {
    /// The filters by leaf.
    filters: BTreeMap<usize, Place>,
    /// Bytes that needn't be read without it.
    saved: u64,
}

impl Group {
    fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.filters.values().map(|place| place.range.clone())
    }

    fn may_match(&self, lookups: &FilterLookups, probes: &[Option<Probe>], input: &Input) -> bool {
        let filters: BTreeMap<usize, Sbbf> = self
            .filters
            .iter()
            .filter_map(|(leaf, place)| Some((*leaf, read(place, input)?)))
            .collect();
        lookups.may_match(|number| {
            let probe = probes.get(number).and_then(Option::as_ref);
            let filter = probe.and_then(|p| Some((p, filters.get(&p.leaf)?)));
            filter.is_none_or(|(probe, filter)| probe.values.iter().any(|v| filter.check(v.as_slice())))
        })
    }
}

/// The row groups of these units that filters might exclude, at the price of fewer bytes than they
/// may save.
fn useful(
    plan: &SharedPlan,
    lookups: &FilterLookups,
    probes: &[Option<Probe>],
    size_bytes: u64,
    units: &[Unit],
) -> BTreeMap<usize, Group> {
    let footer = plan.metadata.metadata();
    let leaves: BTreeSet<usize> = probes.iter().flatten().map(|p| p.leaf).collect();
    let mut groups = BTreeMap::new();
    let mut chunks = footer
        .row_groups()
        .iter()
        .flat_map(|g| leaves.iter().filter_map(move |leaf| g.columns().get(*leaf)));
    if chunks.all(|chunk| chunk.bloom_filter_offset().is_none()) {
        return groups;
    }
    for unit in units {
        let saved = bytes_of(&ranges(plan, unit));
        groups
            .entry(unit.row_group)
            .or_insert_with(|| {
                let chunk = |leaf: usize| footer.row_groups().get(unit.row_group)?.columns().get(leaf);
                let place = |leaf: &usize| Some((*leaf, place(footer, chunk(*leaf)?, size_bytes)?));
                Group {
                    filters: leaves.iter().filter_map(place).collect(),
                    saved: 0,
                }
            })
            .saved += saved;
    }
    groups.retain(|_, group| {
        let lacks_all = |number: usize| {
            let probe = probes.get(number).and_then(Option::as_ref);
            probe.is_none_or(|p| !group.filters.contains_key(&p.leaf))
        };
        let cost = bytes_of(&group.ranges().collect::<Vec<_>>());
        !lookups.may_match(lacks_all) && cost < group.saved
    });
    groups
}

/// The bytes of a chunk's filter, if it has one within the file. Older writers don't say its
/// length: then it ends at the latest where something else begins.
fn place(footer: &ParquetMetaData, chunk: &ColumnChunkMetaData, size_bytes: u64) -> Option<Place> {
    let start = u64::try_from(chunk.bloom_filter_offset()?)
        .ok()
        .filter(|start| *start > 0)?;
    let end = match chunk.bloom_filter_length() {
        Some(length) => start.checked_add(u64::try_from(length).ok()?)?,
        None => starts(footer)
            .filter(|other| *other > start)
            .min()
            .unwrap_or(size_bytes),
    };
    let length = end.checked_sub(start)?;
    let most = BITSET_MAX_LENGTH as u64 + HEADER_BYTES;
    (end <= size_bytes && (1..=most).contains(&length)).then(|| Place {
        range: start..end,
        exact: chunk.bloom_filter_length().is_some(),
    })
}

/// The bytes of a chunk's filter in a file of this size, if it has one.
pub(crate) fn filter_range(
    footer: &ParquetMetaData,
    chunk: &ColumnChunkMetaData,
    size_bytes: u64,
) -> Option<Range<u64>> {
    place(footer, chunk, size_bytes).map(|place| place.range)
}

/// A chunk's filter, if it has a readable one among the fetched bytes.
pub(crate) fn filter_of(footer: &ParquetMetaData, chunk: &ColumnChunkMetaData, input: &Input) -> Option<Sbbf> {
    read(&place(footer, chunk, input.len())?, input)
}

fn read(Place { range, exact }: &Place, input: &Input) -> Option<Sbbf> {
    let length = usize::try_from(range.end - range.start).ok()?;
    parse(&input.get_bytes(range.start, length).ok()?, *exact)
}

/// Where parts of a file begin.
fn starts(footer: &ParquetMetaData) -> impl Iterator<Item = u64> {
    let chunks = footer.row_groups().iter().flat_map(|g| g.columns());
    let of_chunk = |c: &ColumnChunkMetaData| {
        let offsets = [
            c.bloom_filter_offset(),
            c.column_index_offset(),
            c.offset_index_offset(),
        ];
        let known = offsets.into_iter().flatten().filter_map(|o| u64::try_from(o).ok());
        known.chain([c.byte_range().0]).collect::<Vec<_>>()
    };
    chunks.flat_map(of_chunk)
}

/// A filter of the only kind that the format has, which ends with the bytes if that is exact;
/// `None` for a damaged one: in a filter of another length other bits would be looked at.
fn parse(bytes: &[u8], exact: bool) -> Option<Sbbf> {
    let (first, mut rest) = bytes.split_first()?;
    let (mut length, mut shift) = (0_u64, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        length |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        match byte & 0x80 {
            0 => break,
            _ if shift > 28 => return None,
            _ => {}
        }
    }
    // Thrift's integers alternate between positive and negative ones.
    let length = (length & 1 == 0).then_some(length >> 1)?;
    let (header, bits) = rest.split_at_checked(HEADER_REST.len())?;
    let length = usize::try_from(length).ok()?;
    let is_known = *first == HEADER_FIRST && header == HEADER_REST && (!exact || bits.len() == length);
    let bits = bits
        .get(..length)
        .filter(|_| is_known && length > 0 && length % BLOCK_BYTES == 0)?;
    Some(Sbbf::new(bits))
}

#[cfg(test)]
mod tests;
