//! Panics as errors, with the place where each happened: for callers that no panic may reach.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use deltaplane_error::Error;

thread_local! {
    /// Where this thread's last panic happened.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Notes where panics happen, beside what the process does with them already.
pub fn note_places() {
    let before = take_hook();
    set_hook(Box::new(move |panic| {
        let place = panic
            .location()
            .map(|source| format!("{}:{}", source.file(), source.line()));
        let _ = PLACE.try_with(|last| last.try_borrow_mut().map(|mut last| *last = place));
        before(panic);
    }));
}

/// Runs a call; a panic in it is returned as an error.
///
/// # Errors
/// `Internal` for a panic, with its message and, after [`note_places`], its place.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| panicked(payload.as_ref()))
}

/// A panic as an error. Every one is a fault of this package.
fn panicked(payload: &(dyn Any + Send)) -> Error {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    let place = PLACE.with(|last| last.try_borrow_mut().ok().and_then(|mut last| last.take()));
    Error::internal(format!(
        "deltaplane met a state that it doesn't expect ({text}, at {}); nothing was committed by this call unless its version is in the table's history. This is a fault of deltaplane: please report it with this text and what was called",
        place.as_deref().unwrap_or("an unknown place")
    ))
}

#[cfg(test)]
mod tests {
    use deltaplane_error::Kind;

    use super::*;

    #[test]
    fn a_panic_is_an_internal_error_with_its_message_and_place() {
        note_places();
        let number = 7;
        for error in [
            caught(|| panic!("planted {number}")).unwrap_err(),
            caught(|| std::panic::panic_any("planted 7")).unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Internal);
            assert!(error.message().contains("planted 7") && error.message().contains("panics.rs:"));
        }
        assert!(
            caught(|| std::panic::panic_any(7))
                .unwrap_err()
                .message()
                .contains("no message")
        );
        assert_eq!(caught(|| 7).unwrap(), 7);
    }
}
