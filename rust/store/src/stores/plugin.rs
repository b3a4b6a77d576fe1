//! Stores of applications: a registered scheme with the function that opens its tables. Owns the
//! list of such schemes; `Backend` documents what a store has to do, and `contract/suite.rs` tests
//! it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use deltaplane_error::{Error, Result};

use super::Spec;
use crate::backend::Backend;
use crate::location::{self, Location, Scheme};
use crate::options::Options;

pub(super) const SPEC: Spec = Spec {
    scheme: Scheme::Plugin,
    // Only the plug-in knows its options, so none is refused; see `open` of `stores`.
    knows: |_| false,
    names: &[],
    open,
};

/// Opens a store without asking the network: once, and again in each forked child.
pub type Opener = Arc<dyn Fn(&Location, &Options) -> Result<Arc<dyn Backend>> + Send + Sync>;

static OPENERS: RwLock<BTreeMap<String, Opener>> = RwLock::new(BTreeMap::new());

/// Makes locations of this scheme (`name://authority/path`) open by this opener, replacing an
/// earlier one.
///
/// `InvalidArgument` if the name can't be a scheme, or belongs to a built-in store.
pub fn register_scheme(name: &str, opener: Opener) -> Result<()> {
    let name = location::admit(name)?;
    let mut openers = OPENERS.write().unwrap_or_else(PoisonError::into_inner);
    openers.insert(name, opener);
    Ok(())
}

fn open(location: &Location, options: &Options) -> Result<Arc<dyn Backend>> {
    let name = location.base().split(':').next().unwrap_or_default();
    let opener = {
        let openers = OPENERS.read().unwrap_or_else(PoisonError::into_inner);
        openers.get(name).map(Arc::clone)
    };
    let opener = opener.ok_or_else(|| Error::invalid_argument(format!("nothing is registered for {name}://")))?;
    opener(location, options)
}
