//! The boundary between Python and the Rust core: extracts typed arguments, releases the GIL, calls
//! one core function, converts. It holds no logic of its own.

mod alter;
mod arrow_bridge;
mod cache;
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
#[cfg(debug_assertions)]
mod record_shapes;
mod rewrite;
mod rewrite_tasks;
mod scan;
mod session_options;
mod snapshot;
mod spark;
mod string_list;
mod table_schema;
mod tail;
mod tail_offset;
mod values;
mod write;

use deltaplane_operations::{add_view, file_sets};
use pyo3::prelude::*;

#[cfg(target_os = "linux")]
#[global_allocator]
static BLOCKS: deltaplane_memory::Blocks = deltaplane_memory::Blocks;

/// The native half of the Python package `deltaplane`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    errors::note_panics();
    events::listen();
    credentials::serve();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("build_profile", if cfg!(debug_assertions) { "dev" } else { "release" })?;
    add_classes(module)?;
    module.add_function(wrap_pyfunction!(optimize::arrange_group, module)?)?;
    module.add_function(wrap_pyfunction!(rewrite_tasks::write_rows, module)?)?;
    module.add_function(wrap_pyfunction!(rewrite_tasks::take_out_rows, module)?)?;
    module.add_function(wrap_pyfunction!(incoming::check_batch, module)?)?;
    module.add_function(wrap_pyfunction!(snapshot::log_history, module)?)?;
    module.add_function(wrap_pyfunction!(cache::cache_dir, module)?)?;
    module.add_function(wrap_pyfunction!(cache::cache_contents, module)?)?;
    module.add_function(wrap_pyfunction!(cache::clear_cache, module)?)?;
    module.add_function(wrap_pyfunction!(log_store::register_log_store, module)?)?;
    module.add_function(wrap_pyfunction!(alter::alter_table, module)?)?;
    module.add_function(wrap_pyfunction!(alter::known_features, module)?)?;
    module.add_function(wrap_pyfunction!(alter::known_properties, module)?)?;
    module.add_function(wrap_pyfunction!(maintenance::vacuum, module)?)?;
    module.add_function(wrap_pyfunction!(maintenance::restore, module)?)?;
    module.add_function(wrap_pyfunction!(maintenance::check, module)?)?;
    module.add_function(wrap_pyfunction!(maintenance::check_rows, module)?)?;
    module.add_function(wrap_pyfunction!(maintenance::repair, module)?)?;
    module.add_function(wrap_pyfunction!(maintenance::clone_table, module)?)?;
    module.add_function(wrap_pyfunction!(maintenance::copy_files, module)?)?;
    module.add_function(wrap_pyfunction!(maintenance::visible_files, module)?)?;
    module.add_function(wrap_pyfunction!(maintenance::parquet_schema, module)?)?;
    #[cfg(debug_assertions)]
    module.add_function(wrap_pyfunction!(planted::panic_at, module)?)?;
    #[cfg(debug_assertions)]
    module.add_function(wrap_pyfunction!(record_shapes::record_fields, module)?)?;
    write::register(module)?;
    spark::register(module)
}

fn add_classes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<arrow_bridge::ArrowSchema>()?;
    module.add_class::<arrow_bridge::ArrowStream>()?;
    module.add_class::<snapshot::Snapshot>()?;
    module.add_class::<raw_store::RawStore>()?;
    module.add_class::<scan::Scan>()?;
    module.add_class::<tail::Tail>()?;
    module.add_class::<values::predicate::Predicate>()?;
    module.add_class::<tail_offset::TailOffset>()?;
    module.add_class::<table_schema::TableSchema>()?;
    module.add_class::<table_schema::TableField>()?;
    module.add_class::<rewrite::Rewrite>()?;
    module.add_class::<optimize::Layout>()
}
