//! Names and fields of the structs that cross to other languages, as serde's derived code gives
//! them: a caller with classes of these names can refuse other objects, and compare the fields.

use std::collections::BTreeMap;

use deltaplane_log as log;
use deltaplane_protocol::bloom_filters::{BloomFilter, BloomFilterChoice};
use deltaplane_protocol::features::identity_columns::Fill;
use deltaplane_protocol::features::{ColumnRule, RowCheck, RowRules, StoredIds};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

use crate::{key_index, optimize, rewrite, write_job};

/// The name and the fields of a struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its name in serialized data.
    pub name: &'static str,
    /// Its fields, in their order.
    pub fields: &'static [&'static str],
}

impl Shape {
    /// None for a type that is no struct.
    pub fn of<T: Deserialize<'static>>() -> Option<Shape> {
        let mut shape = None;
        // It ends with an error in any case: it has no values.
        let _ = T::deserialize(Asking(&mut shape));
        shape
    }
}

/// Notes what a struct asks for, and gives nothing.
struct Asking<'a>(&'a mut Option<Shape>);

impl Deserializer<'static> for Asking<'_> {
    type Error = serde::de::value::Error;

    fn deserialize_struct<V: Visitor<'static>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = Some(Shape { name, fields });
        Err(serde::de::Error::custom("no value"))
    }

    fn deserialize_any<V: Visitor<'static>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(serde::de::Error::custom("no value"))
    }

    forward_to_deserialize_any! {
        <V: Visitor<'static>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Makes a list of shapes.
macro_rules! shapes {
    ($($kind:ty,)+) => { [$(Shape::of::<$kind>()),+] };
}

/// The fields of every request and result by its struct's name.
pub fn requests_and_results() -> BTreeMap<&'static str, &'static [&'static str]> {
    shapes().map(|shape| (shape.name, shape.fields)).collect()
}

/// The shape of each request and result that is a struct.
fn shapes() -> impl Iterator<Item = Shape> {
    let requests = shapes![
        BloomFilterChoice,
        log::AlterRequest,
        log::CloneRequest,
        log::CommitRequest,
        log::FileRequest,
        log::IncomingRequest,
        log::LayoutRequest,
        log::ReadRequest,
        log::RepairRequest,
        log::RestoreRequest,
        log::RewriteRequest,
        log::TailLimits,
        log::TailRequest,
        log::TailStart,
        log::VacuumRequest,
        log::WriteRequest,
    ];
    let results = shapes![
        log::Altered,
        log::CheckpointReport,
        log::CleanupReport,
        log::Cloned,
        log::ColumnSteps,
        log::CommitTotals,
        log::DryRun,
        log::FeatureInfo,
        log::Finding,
        log::HistoryEntry,
        log::LogFiles,
        log::LogFolder,
        log::LogSize,
        log::NewestCheckpoint,
        log::PropertyInfo,
        log::ProtocolInfo,
        log::Protocols,
        log::Restored,
        log::ScanReport,
        log::TableField,
        log::TableInfo,
        log::TombstoneTotals,
        log::TrackedColumns,
        log::VacuumResult,
        key_index::KeyIndex,
        optimize::OptimizeCommit,
        optimize::OptimizeSummary,
        write_job::CommitResult,
    ];
    let specs = shapes![
        BloomFilter,
        ColumnRule,
        Fill,
        RowCheck,
        RowRules,
        StoredIds,
        rewrite::tasks::TaskSpec,
        write_job::Spec,
    ];
    requests.into_iter().chain(results).chain(specs).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_struct_has_its_serialized_name_and_fields() {
        let shape = Shape::of::<RowCheck>().unwrap();
        assert_eq!((shape.name, shape.fields), ("RowCheck", &["name", "sql"][..]));
        assert_eq!(Shape::of::<write_job::Spec>().unwrap().name, "WriteSpec");
        assert_eq!((Shape::of::<u64>(), Shape::of::<Vec<RowCheck>>()), (None, None));
    }

    #[test]
    fn every_request_and_result_is_a_struct_and_those_of_one_name_have_the_same_fields() {
        assert_eq!(shapes().count(), 16 + 28 + 8);
        let by_name = requests_and_results();
        for shape in shapes() {
            assert_eq!(by_name.get(shape.name), Some(&shape.fields), "{}", shape.name);
        }
    }
}
