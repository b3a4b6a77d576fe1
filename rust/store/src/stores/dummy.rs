//! A store of the tests, which is this file, its line in `STORES` and its names in `location`:
//! everything about stores must take it.

use std::sync::{Arc, LazyLock};

use deltaplane_error::Result;
use object_store::memory::InMemory;

use super::Spec;
use super::objects::Objects;
use crate::backend::Backend;
use crate::location::{Location, Scheme};
use crate::options::{Options, Redactor};

pub(super) const SPEC: Spec = Spec {
    scheme: Scheme::Dummy,
    knows: |key| key == "dummy_token",
    names: &["dummy_token"],
    open,
};

static SHARED: LazyLock<Arc<InMemory>> = LazyLock::new(|| Arc::new(InMemory::new()));

fn open(location: &Location, _: &Options) -> Result<Arc<dyn Backend>> {
    let store = Arc::clone(&SHARED) as _;
    Ok(Arc::new(Objects::new(store, location, Redactor::default())?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bytes::Bytes;

    use super::*;
    use crate::{PutOutcome, Store, block_on};

    fn options(key: &str) -> Options {
        Options::new([(key.to_owned(), "x".to_owned())])
    }

    #[test]
    fn a_new_store_is_opened_by_its_scheme() {
        let location = Location::parse("DUMMY://host/a b/t/").unwrap();
        assert_eq!(location.as_str(), "dummy://host/a b/t");
        let store = Store::open(&location, &options("dummy_token")).unwrap();
        let put = |text: &'static str| {
            block_on(store.put_if_absent("_delta_log/0", Bytes::from_static(text.as_bytes()))).unwrap()
        };
        assert!(matches!(put("one"), PutOutcome::Created));
        assert!(matches!(put("two"), PutOutcome::Exists));
        assert_eq!(block_on(store.read("_delta_log/0")).unwrap(), "one");
    }

    #[test]
    fn its_options_and_its_scheme_are_named_in_errors() {
        let message = |location: &str, key: &str| {
            let opened = Location::parse(location).and_then(|l| Store::open(&l, &options(key)));
            opened.err().unwrap().message().to_owned()
        };
        assert!(message("dummy://host/t", "dumy_token").contains("did you mean dummy_token?"));
        assert!(message("gummy://host/t", "x").contains("dummy://"));
        assert!(message("dummy://user:secret@host/t", "dummy_token").contains("holds a user name"));
    }
}
