//! Clock, randomness and sleep of the core, behind one trait. Nothing else in the core asks the
//! system for them, so that a simulation can replace all three on its thread and repeat a run.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;
use uuid::Uuid;

/// Clock, randomness and sleep of one thread.
pub trait Environment {
    /// Now, in ms since the epoch.
    fn now_ms(&self) -> i64;
    /// Random bits.
    fn random(&self) -> u128;
    /// Completes after this time.
    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()>;
}

thread_local! {
    /// This thread's replacement of the system's environment.
    static OVERRIDE: RefCell<Option<Rc<dyn Environment>>> = const { RefCell::new(None) };
}

/// Ends [`with_environment`] when it is dropped.
pub struct EnvironmentGuard {
    before: Option<Rc<dyn Environment>>,
    /// Not `Send`: it must be dropped on the thread that created it.
    thread: PhantomData<Rc<()>>,
}

/// Replaces the system's environment on this thread. Work on other threads keeps the system's.
pub fn with_environment(environment: Rc<dyn Environment>) -> EnvironmentGuard {
    EnvironmentGuard {
        before: OVERRIDE.replace(Some(environment)),
        thread: PhantomData,
    }
}

impl Drop for EnvironmentGuard {
    fn drop(&mut self) {
        OVERRIDE.replace(self.before.take());
    }
}

fn overridden() -> Option<Rc<dyn Environment>> {
    OVERRIDE.with_borrow(Clone::clone)
}

/// Now, in ms since the epoch.
pub fn now_ms() -> i64 {
    overridden().map_or_else(system_ms, |s| s.now_ms())
}

fn system_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A new random id, which no other object has.
pub fn new_id() -> Uuid {
    let overridden = overridden().map(|s| uuid::Builder::from_random_bytes(s.random().to_be_bytes()).into_uuid());
    overridden.unwrap_or_else(Uuid::new_v4)
}

/// Waits a random time of up to `most` ms.
pub(crate) async fn sleep_up_to(most: u64) {
    let ms = (new_id().as_u128() % (u128::from(most) + 1)).try_into().unwrap_or(most);
    let time = Duration::from_millis(ms);
    let overridden = overridden().map(|s| s.sleep(time));
    match overridden {
        Some(asleep) => asleep.await,
        None => tokio::time::sleep(time).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(i64);

    impl Environment for Fixed {
        fn now_ms(&self) -> i64 {
            self.0
        }
        fn random(&self) -> u128 {
            7
        }
        fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
            Box::pin(std::future::ready(()))
        }
    }

    #[test]
    fn a_thread_has_what_it_was_given_and_the_system_after_that() {
        {
            let _outer = with_environment(Rc::new(Fixed(1)));
            {
                let _inner = with_environment(Rc::new(Fixed(2)));
                assert_eq!(now_ms(), 2);
            }
            assert_eq!((now_ms(), new_id()), (1, new_id()));
        }
        assert!(now_ms() > 1_600_000_000_000);
        assert_ne!(new_id(), new_id());
    }

    #[test]
    fn ids_are_random_uuids() {
        let _environment = with_environment(Rc::new(Fixed(1)));
        assert_eq!(new_id().get_version_num(), 4);
    }
}
