//! Frozen classes that only hold values: requests, results and facts of tables. They call nothing
//! of the core.

pub(crate) mod carried;
pub(crate) mod command_results;
pub(crate) mod json_value;
pub(crate) mod predicate;
mod record;
pub(crate) mod table_info;
pub(crate) mod table_schema;
pub(crate) mod tail_types;

use pyo3::prelude::*;

pub(crate) use record::{Reduced, dict, record, reduce, repr};

/// The classes of requests and results.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<predicate::Predicate>()?;
    module.add_class::<table_schema::TableSchema>()?;
    module.add_class::<table_schema::TableField>()?;
    module.add_class::<table_info::TableInfo>()?;
    module.add_class::<table_info::Protocol>()?;
    module.add_class::<tail_types::TrackedColumns>()?;
    module.add_class::<tail_types::ColumnSteps>()?;
    module.add_class::<tail_types::TailRequest>()?;
    module.add_class::<tail_types::TailStart>()?;
    module.add_class::<tail_types::TailOffset>()?;
    module.add_class::<command_results::CommandResult>()?;
    module.add_class::<command_results::VacuumResult>()?;
    module.add_class::<command_results::Finding>()?;
    module.add_class::<command_results::CheckpointResult>()?;
    module.add_class::<command_results::CleanupResult>()?;
    module.add_class::<command_results::AlterResult>()?;
    module.add_class::<command_results::FeatureInfo>()?;
    module.add_class::<command_results::PropertyInfo>()?;
    Ok(())
}
