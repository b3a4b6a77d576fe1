//! Creates directories of a local table and makes them durable; concurrent requests for one
//! directory share a system call. Finds and removes empty ones. Knows no files.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// How many directories are remembered as durable; beyond it they are flushed again.
const REMEMBERED: usize = 1 << 16;

/// Flushes a directory's entries. A no-op where directories can't be opened or synced.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    #[cfg(unix)]
    match File::open(dir)?.sync_all() {
        Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {}
        done => return done,
    }
    let _ = dir;
    Ok(())
}

/// Creates a directory and its missing parents, each of them durable in its own parent.
pub(super) fn create_dirs(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|d| !d.exists()).collect();
    fs::create_dir_all(dir)?;
    for made in missing {
        if let Some(parent) = made.parent() {
            sync_dir(parent)?;
        }
    }
    Ok(())
}

/// Appends to `empty` the directories at and below `dir` that have no file at any depth and were
/// last changed before a time, each after those below it; returns whether `dir` has no file. Links
/// count as files.
pub(super) fn find_empty(dir: &Path, before: SystemTime, empty: &mut Vec<PathBuf>) -> io::Result<bool> {
    let (mut inner, mut has_files) = (Vec::new(), false);
    // Asked before the entries are read: an entry that appears later makes the directory younger.
    let is_old = fs::symlink_metadata(dir)?.modified()? < before;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => inner.push(entry.path()),
            false => has_files = true,
        }
    }
    for below in inner {
        has_files |= match find_empty(&below, before, empty) {
            Err(e) if e.kind() == ErrorKind::NotFound => false,
            is_empty => !is_empty?,
        };
    }
    if !has_files && is_old {
        empty.push(dir.to_owned());
    }
    Ok(!has_files)
}

/// Removes a directory unless it has entries or is gone.
pub(super) fn remove_if_empty(dir: &Path) -> io::Result<()> {
    match fs::remove_dir(dir) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => Ok(()),
        removed => removed,
    }
}

/// The directories of one table's data files.
#[derive(Default)]
pub(super) struct Dirs {
    /// Directories whose own entries are on the disk.
    durable: Mutex<HashSet<PathBuf>>,
    /// Directories created since their parent was last flushed, by parent: its next flush covers
    /// all of them.
    made: Mutex<HashMap<PathBuf, Vec<PathBuf>>>,
    turns: Mutex<HashMap<PathBuf, Arc<Turn>>>,
}

impl Dirs {
    /// Creates a directory of the table; [`Dirs::settle`] then makes it durable, together with the
    /// files in it.
    pub(super) fn create(&self, root: &Path, dir: &Path) -> io::Result<()> {
        if !root.exists() {
            create_dirs(root)?;
        }
        let missing: Vec<&Path> = dir.ancestors().take_while(|d| *d != root && !d.exists()).collect();
        let mut durable = lock(&self.durable);
        missing.iter().for_each(|d| _ = durable.remove(*d));
        drop(durable);
        fs::create_dir_all(dir)?;
        let mut made = lock(&self.made);
        for new in missing {
            if let Some(parent) = new.parent() {
                made.entry(parent.to_owned()).or_default().push(new.to_owned());
            }
        }
        Ok(())
    }

    /// Makes a directory's entries durable, and its own entry and its parents' up to the table's
    /// root.
    pub(super) fn settle(&self, root: &Path, dir: &Path) -> io::Result<()> {
        self.sync(dir)?;
        for inner in dir.ancestors().take_while(|d| *d != root) {
            // The thread that created it may not have flushed it yet.
            if lock(&self.durable).contains(inner) {
                break;
            }
            let Some(parent) = inner.parent() else { break };
            self.sync(parent)?;
            lock(&self.durable).insert(inner.to_owned());
        }
        Ok(())
    }

    /// Waits until a directory is flushed, by this call or by another thread's.
    fn sync(&self, dir: &Path) -> io::Result<()> {
        let turn = lock(&self.turns).entry(dir.to_owned()).or_default().clone();
        let synced = turn.pass(|| self.flush(dir));
        let mut turns = lock(&self.turns);
        // The map's reference and this one.
        if Arc::strong_count(&turn) == 2 {
            turns.remove(dir);
        }
        synced
    }

    /// Flushes a directory, which covers all directories created in it.
    fn flush(&self, dir: &Path) -> io::Result<()> {
        let made = lock(&self.made).remove(dir).unwrap_or_default();
        sync_dir(dir)?;
        let mut durable = lock(&self.durable);
        if durable.len() >= REMEMBERED {
            durable.clear();
        }
        durable.extend(made);
        Ok(())
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The flushes of one directory: one serves all requests that came before it began.
#[derive(Default)]
struct Turn {
    asked: AtomicU64,
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    /// The last request that a flush has served.
    upto: u64,
    /// The error of the last failed flush, for all requests that it served, since the system
    /// reports it once.
    failed: Option<(u64, ErrorKind, String)>,
}

impl Turn {
    fn pass(&self, call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mine = self.asked.fetch_add(1, Ordering::SeqCst);
        let mut done = lock(&self.done);
        if mine < done.upto {
            return match &done.failed {
                Some((upto, kind, what)) if mine < *upto => Err(io::Error::new(*kind, what.clone())),
                _ => Ok(()),
            };
        }
        let upto = self.asked.load(Ordering::SeqCst);
        let synced = call();
        done.upto = upto;
        if let Err(e) = &synced {
            done.failed = Some((upto, e.kind(), e.to_string()));
        }
        synced
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Barrier;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// Of `threads` that ask during a flush: how many further flushes there are, and how many
    /// threads see a failure.
    fn calls(threads: usize, fails: bool) -> (u64, usize) {
        let (turn, made) = (Turn::default(), AtomicU64::new(0));
        let barrier = Barrier::new(2);
        let call = || {
            let first = made.fetch_add(1, Ordering::SeqCst) == 0;
            if first {
                barrier.wait();
                while turn.asked.load(Ordering::SeqCst) <= threads as u64 {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            if fails && !first {
                Err(io::Error::other("no"))
            } else {
                Ok(())
            }
        };
        let failed = thread::scope(|scope| {
            let first = scope.spawn(|| turn.pass(call));
            barrier.wait();
            let others: Vec<_> = (0..threads).map(|_| scope.spawn(|| turn.pass(call))).collect();
            first.join().unwrap().unwrap();
            others
                .into_iter()
                .map(|t| t.join().unwrap())
                .filter(Result::is_err)
                .count()
        });
        (made.load(Ordering::SeqCst), failed)
    }

    #[test]
    fn those_who_wait_share_one_call_that_began_after_they_asked() {
        assert_eq!(calls(8, false), (2, 0));
    }

    #[test]
    fn a_failure_is_told_to_all_whom_the_call_was_for() {
        assert_eq!(calls(8, true), (2, 8));
    }

    #[test]
    fn a_directory_that_is_made_again_is_made_durable_again() {
        let root = tempfile::tempdir().unwrap();
        let (dirs, dir) = (Dirs::default(), root.path().join("a=1/b=2"));
        dirs.create(root.path(), &dir).unwrap();
        assert!(lock(&dirs.durable).is_empty());
        let beside = root.path().join("a=1/b=3");
        dirs.create(root.path(), &beside).unwrap();
        dirs.settle(root.path(), &dir).unwrap();
        // Their parent's flush covered both.
        assert_eq!(lock(&dirs.durable).len(), 3);
        assert!(lock(&dirs.made).is_empty());
        fs::remove_dir(&dir).unwrap();
        dirs.create(root.path(), &dir).unwrap();
        assert_eq!(*lock(&dirs.durable), [root.path().join("a=1"), beside].into());
        assert!(lock(&dirs.turns).is_empty());
    }
}
