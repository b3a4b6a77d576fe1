//! A value that each process makes once, at its first use, and a forked child makes again: threads
//! and locks of the parent don't survive a fork.

use std::process;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value with the process it belongs to.
struct Owned<T> {
    pid: u32,
    value: T,
}

/// The value of the running process.
pub struct PerProcess<T: 'static> {
    /// Points to a leaked `Owned`, or is null. A pointer and no lock: a lock that another thread
    /// holds while the process forks would stay locked in the child for ever.
    current: AtomicPtr<Owned<T>>,
    make: fn() -> T,
    /// Drops a value that another thread made first.
    discard: fn(T),
}

impl<T: Send + Sync + 'static> PerProcess<T> {
    /// The value that `make` returns; `discard` gets one that lost a race with another thread.
    pub const fn new(make: fn() -> T, discard: fn(T)) -> Self {
        PerProcess {
            current: AtomicPtr::new(std::ptr::null_mut()),
            make,
            discard,
        }
    }

    /// This process's value.
    pub fn get(&'static self) -> &'static T {
        let seen = self.current.load(Ordering::Acquire);
        // SAFETY: the pointer is null or comes from `Box::into_raw` below and is never freed.
        if let Some(owned) = unsafe { seen.as_ref() }
            && owned.pid == process::id()
        {
            return &owned.value;
        }
        let made = Box::into_raw(Box::new(Owned {
            pid: process::id(),
            value: (self.make)(),
        }));
        match self
            .current
            .compare_exchange(seen, made, Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: `made` was leaked here and is never freed once it is published.
            Ok(_) => unsafe { &(*made).value },
            Err(_) => {
                // SAFETY: another thread published first, so `made` is still ours alone.
                let lost = unsafe { Box::from_raw(made) };
                (self.discard)(lost.value);
                self.get()
            }
        }
    }
}
