//! The boundary between Python and the Rust core: extracts typed arguments, releases the GIL, calls
//! one core function, converts. It holds no logic of its own.

mod alter;
mod arrow_bridge;
mod cache;
mod catalog;
mod credentials;
mod errors;
mod events;
mod incoming;
mod log_store;
mod maintenance;
mod optimize;
#[cfg(debug_assertions)]
mod planted;
mod progress;
mod raw_store;
mod record;
mod rewrite;
mod scan;
mod session_options;
mod snapshot;
mod spark;
mod table_schema;
mod tail;
mod tail_offset;
mod values;
mod write;

#[cfg(target_os = "linux")]
#[global_allocator]
static BLOCKS: deltaplane_memory::Blocks = deltaplane_memory::Blocks;

/// The native half of `deltaplane`. Its frozen classes need no lock of Python's.
#[pyo3::pymodule(gil_used = false)]
#[allow(non_upper_case_globals, reason = "names of Python")]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::{
        alter::{alter_table, check_properties, known_features, known_properties},
        arrow_bridge::{ArrowSchema, ArrowStream},
        cache::{cache_contents, cache_dir, clear_cache},
        catalog::{CatalogNames, CatalogServer},
        events::{enter_operation, take_traced_work},
        incoming::check_batch,
        log_store::register_log_store,
        maintenance::{
            check, check_rows, clone_table, copy_files, parquet_schema, repair, restore, vacuum, visible_files,
        },
        optimize::{
            Group, GroupSpec, IndexBuild, KeySegment, KeyTask, Layout, MovedGroup, arrange_group, build_key_segment,
        },
        raw_store::RawStore,
        rewrite::{Rewrite, TaskOutcome, take_out_rows, write_rows},
        scan::Scan,
        snapshot::{Snapshot, log_history},
        spark::plan::{
            SparkAnswer, SparkPlan, spark_file_uris, spark_plan, spark_plan_of, spark_question, spark_schema,
            spark_size_bytes, spark_size_of, spark_uri,
        },
        spark::replay::{Replay, ReplayPart, ReplayPlan},
        spark::splits::{Split, SplitScan, change_splits, scan_splits},
        table_schema::TableSchema,
        tail::Tail,
        tail_offset::TailOffset,
        values::added_files::AddedFiles,
        values::predicate::Predicate,
        write::{
            NewestVersion, WriteJob, adopt_files, begin_after_commit, create_table, discard_files, end_after_commit,
            finish_background, function_values, is_table, rows_in_table_types, write_files,
        },
    };

    #[cfg(debug_assertions)]
    #[pymodule_export]
    use crate::planted::{panic_at, record_fields};

    #[pymodule_export]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    const build_profile: &str = if cfg!(debug_assertions) { "dev" } else { "release" };

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        deltaplane_operations::panics::note_places();
        deltaplane_operations::event_buffer::listen();
        crate::credentials::serve();
        Ok(())
    }
}
