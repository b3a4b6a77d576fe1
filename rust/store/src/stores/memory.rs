//! Tables in this process's memory. One store for the whole process, so that a location opened
//! twice is one table; its content is gone when the process ends.

use std::sync::{Arc, LazyLock};

use deltaplane_error::Result;
use object_store::memory::InMemory;

use super::Spec;
use super::objects::Objects;
use crate::backend::Backend;
use crate::location::{Location, Scheme};
use crate::options::{Options, Redactor};

pub(super) const SPEC: Spec = Spec {
    scheme: Scheme::Memory,
    knows: |_| false,
    names: &[],
    open,
};

static SHARED: LazyLock<Arc<InMemory>> = LazyLock::new(|| Arc::new(InMemory::new()));

fn open(location: &Location, _: &Options) -> Result<Arc<dyn Backend>> {
    let store = Arc::clone(&SHARED) as _;
    Ok(Arc::new(Objects::new(store, location, Redactor::default())?))
}
