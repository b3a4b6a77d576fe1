//! The entries of one cache directory, read and written by any number of processes at once, without
//! a lock. A failed or damaged read or write is no error: the store has the bytes. Blocking.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use rand::RngExt;
use uuid::Uuid;

use super::entry::Name;
use super::walk;

/// A file's modification time records its last use, since many systems keep no access time; it is
/// updated at most once in this time.
const TOUCH_MS: u64 = 60_000;
/// After one part in this many of the bound was added, the directory is counted and the oldest
/// entries are evicted. Counting then costs each entry the visit of a bounded number of others.
const COUNTED_EVERY: u64 = 64;
/// A draft of this age is abandoned.
const STALE_DRAFT_MS: u64 = 3_600_000;
/// How long nothing is added after a failed write, whose likeliest reason is a full disk.
const PAUSE_MS: u64 = 30_000;

/// A directory of entries.
pub(super) struct Shelf {
    ours: PathBuf,
    /// The bound on bytes on the disk, for all processes together.
    limit: u64,
    /// Whether the directory has passed the checks of `prepare`.
    is_ready: AtomicBool,
    /// Until when nothing is added, in ms since 1970.
    paused_until_ms: AtomicU64,
    /// Bytes added since the last count.
    uncounted: AtomicU64,
    is_counting: AtomicBool,
}

impl Shelf {
    /// Opens nothing yet.
    pub(super) fn new(dir: &Path, limit: u64) -> Self {
        // A random start: processes that add little and end would otherwise never count, and
        // together exceed the bound.
        let begun = rand::rng().random_range(0..=limit / COUNTED_EVERY);
        Shelf {
            ours: walk::ours(dir),
            limit,
            is_ready: AtomicBool::new(false),
            paused_until_ms: AtomicU64::new(0),
            uncounted: AtomicU64::new(begun),
            is_counting: AtomicBool::new(false),
        }
    }

    /// Whether the directory is known to be usable.
    pub(super) fn is_usable(&self) -> bool {
        if walk::now_ms() < self.paused_until_ms.load(Ordering::Relaxed) {
            return false;
        }
        if self.is_ready.load(Ordering::Relaxed) {
            return true;
        }
        match self.prepare() {
            Ok(()) => self.is_ready.store(true, Ordering::Relaxed),
            Err(e) => self.pause(&e),
        }
        self.is_ready.load(Ordering::Relaxed)
    }

    fn pause(&self, e: &io::Error) {
        let until = walk::now_ms().saturating_add(PAUSE_MS);
        self.paused_until_ms.store(until, Ordering::Relaxed);
        tracing::warn!(
            path = %self.ours.display(), error = %e,
            "the cache can't be used, reading goes on without it; free space or correct its directory (cache_dir)"
        );
    }

    /// Creates the directory if it is missing, readable for its owner only. Refuses a directory of
    /// another user, or one that others may write to: a checksum proves that an entry is undamaged,
    /// not who wrote it.
    fn prepare(&self) -> io::Result<()> {
        let unfit = |what: &str| Err(io::Error::new(ErrorKind::PermissionDenied, what.to_owned()));
        if fs::symlink_metadata(&self.ours).is_ok_and(|folder| !folder.is_dir()) {
            return unfit("it is a link or a file");
        }
        create_dirs(&walk::drafts(&self.ours))?;
        let draft = Draft::new(&self.ours)?;
        let folder = fs::symlink_metadata(&self.ours)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            if folder.uid() != draft.file.metadata()?.uid() {
                return unfit("it belongs to another user");
            }
            if folder.mode() & 0o022 != 0 {
                return unfit("other users may write to it");
            }
        }
        drop(draft);
        Ok(())
    }

    /// The body of an entry with this length, if it exists and is sound. Removes a damaged one.
    pub(super) fn get(&self, name: &Name, body_bytes: u64) -> Option<Bytes> {
        let path = walk::file(&self.ours, name.id());
        match read(&path, name, body_bytes) {
            Ok(Some(body)) => Some(body),
            Ok(None) => {
                tracing::warn!(path = %path.display(), "a cache entry is damaged; it is removed and read from the store again");
                self.remove(&path);
                None
            }
            Err(e) => {
                if e.kind() != ErrorKind::NotFound {
                    tracing::warn!(path = %path.display(), error = %e, "a cache entry can't be read; the store is asked");
                }
                None
            }
        }
    }

    /// Removes an entry, if it exists.
    pub(super) fn forget(&self, name: &Name) {
        self.remove(&walk::file(&self.ours, name.id()));
    }

    fn remove(&self, path: &Path) {
        if let Err(e) = walk::remove(path) {
            tracing::debug!(path = %path.display(), error = %e, "a cache entry couldn't be removed");
        }
    }

    /// Writes an entry, replacing an existing one.
    pub(super) fn put(&self, name: &Name, body: &[u8]) {
        let Some(head) = name.head(body) else { return };
        if !self.is_usable() {
            return;
        }
        let path = walk::file(&self.ours, name.id());
        let write = || Draft::new(&self.ours)?.finish(&[&head, body], &path);
        // Another process may clear the cache meanwhile, including its directories.
        let written = match write() {
            Err(e) if e.kind() == ErrorKind::NotFound => self
                .prepare()
                .and_then(|()| create_dirs(path.parent().unwrap_or(&self.ours)))
                .and_then(|()| write()),
            written => written,
        };
        match written {
            Ok(()) => self.count(walk::on_disk(name.file_bytes(body.len() as u64))),
            Err(e) => self.pause(&e),
        }
    }

    /// Counts added bytes, and evicts entries now and then.
    fn count(&self, put_bytes: u64) {
        let uncounted = self
            .uncounted
            .fetch_add(put_bytes, Ordering::Relaxed)
            .saturating_add(put_bytes);
        if uncounted < self.limit / COUNTED_EVERY || self.is_counting.swap(true, Ordering::Acquire) {
            return;
        }
        self.uncounted.store(0, Ordering::Relaxed);
        if let Err(e) = self.make_room() {
            tracing::warn!(path = %self.ours.display(), error = %e, "the cache can't be counted, and may grow over its bound");
        }
        self.is_counting.store(false, Ordering::Release);
    }

    /// Evicts the entries that have been unused for the longest, if they exceed the bound, and
    /// abandoned drafts. Starts below the bound and ends well below it, which leaves room for what
    /// other processes add between two counts.
    fn make_room(&self) -> io::Result<()> {
        let mut total: u64 = 0;
        for draft in walk::drafts_in(&self.ours)? {
            if draft.used_ms.saturating_add(STALE_DRAFT_MS) < walk::now_ms() {
                self.remove(&draft.path);
            } else {
                total = total.saturating_add(draft.disk_bytes);
            }
        }
        let mut entries = walk::entries(&self.ours)?;
        total = entries.iter().map(|e| e.disk_bytes).fold(total, u64::saturating_add);
        if total <= self.limit - self.limit / 8 {
            return Ok(());
        }
        entries.sort_unstable_by_key(|e| (e.used_ms, e.id));
        let mut oldest = entries.iter();
        while total > self.limit - self.limit / 4
            && let Some(entry) = oldest.next()
        {
            self.remove(&walk::file(&self.ours, entry.id));
            total = total.saturating_sub(entry.disk_bytes);
        }
        tracing::debug!(path = %self.ours.display(), bytes = total, "made room in the cache");
        Ok(())
    }
}

/// The body; `None` for a file whose content isn't of this name.
fn read(path: &Path, name: &Name, body_bytes: u64) -> io::Result<Option<Bytes>> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let length = name.file_bytes(body_bytes);
    if meta.len() != length {
        return Ok(None);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    Read::take(&file, length).read_to_end(&mut bytes)?;
    let Some(start) = name.body_of(&bytes) else {
        return Ok(None);
    };
    if walk::used_ms(&meta).saturating_add(TOUCH_MS) < walk::now_ms()
        && let Err(e) = file.set_modified(SystemTime::now())
    {
        tracing::debug!(path = %path.display(), error = %e, "the last use of a cache entry can't be noted");
    }
    Ok(Some(Bytes::from(bytes).slice(start..)))
}

fn create_dirs(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// A file that isn't an entry yet; removed unless it becomes one.
struct Draft {
    file: File,
    path: PathBuf,
}

impl Draft {
    fn new(ours: &Path) -> io::Result<Self> {
        let path = walk::drafts(ours).join(Uuid::new_v4().simple().to_string());
        let mut options = File::options();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Draft {
            file: options.open(&path)?,
            path,
        })
    }

    /// Not flushed to the disk: after a crash the checksum reveals an incomplete file.
    fn finish(mut self, parts: &[&[u8]], goal: &Path) -> io::Result<()> {
        for part in parts {
            self.file.write_all(part)?;
        }
        fs::rename(&self.path, goal)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After `finish` there is nothing to remove; a draft that stays is swept later.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use std::time::Duration;

    use super::*;

    const LIMIT: u64 = 4 << 20;

    fn name(n: usize) -> Name {
        Name::new(["s3://b/t", &format!("object {n}")])
    }

    fn used(dir: &Path) -> u64 {
        walk::entries(&walk::ours(dir))
            .unwrap()
            .iter()
            .map(|e| e.disk_bytes)
            .sum()
    }

    fn path(dir: &Path, n: usize) -> PathBuf {
        walk::file(&walk::ours(dir), name(n).id())
    }

    fn age(path: &Path, by: Duration) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - by).unwrap();
    }

    #[test]
    fn an_entry_comes_back_and_only_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path(), LIMIT);
        assert!(shelf.is_usable());
        assert_eq!(shelf.get(&name(1), 5), None);
        shelf.put(&name(1), b"hello");
        assert_eq!(shelf.get(&name(1), 5).unwrap(), "hello");
        assert_eq!(shelf.get(&name(2), 5), None);
        assert!(walk::drafts_in(&walk::ours(dir.path())).unwrap().is_empty());
    }

    #[test]
    fn damage_is_removed_and_can_be_put_right() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path(), LIMIT);
        let damages: [fn(&mut Vec<u8>); 4] = [
            |file| file.truncate(20),
            |file| *file.last_mut().unwrap() ^= 1,
            |file| file.clear(),
            |file| file.extend_from_slice(b"more"),
        ];
        for damage in damages {
            shelf.put(&name(1), b"hello");
            let mut file = fs::read(path(dir.path(), 1)).unwrap();
            damage(&mut file);
            fs::write(path(dir.path(), 1), file).unwrap();
            assert_eq!(shelf.get(&name(1), 5), None);
            assert!(!path(dir.path(), 1).exists());
        }
        // One entry's file under the name of another.
        shelf.put(&name(1), b"hello");
        shelf.put(&name(2), b"other");
        fs::copy(path(dir.path(), 1), path(dir.path(), 2)).unwrap();
        assert_eq!(shelf.get(&name(2), 5), None);
        shelf.put(&name(2), b"other");
        assert_eq!(shelf.get(&name(2), 5).unwrap(), "other");
        assert_eq!(shelf.get(&name(1), 5).unwrap(), "hello");
    }

    #[test]
    fn the_bound_holds_and_the_longest_unused_go_first() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path(), LIMIT);
        let body = vec![7; 100_000];
        for n in 0..10 {
            shelf.put(&name(n), &body);
            age(&path(dir.path(), n), Duration::from_secs(3600 * (20 - n as u64)));
        }
        // Reading updates the time of last use.
        assert!(shelf.get(&name(0), 100_000).is_some());
        for n in 10..40 {
            shelf.put(&name(n), &body);
            assert!(used(dir.path()) <= LIMIT, "{}", used(dir.path()));
        }
        assert!(used(dir.path()) > LIMIT / 2);
        let there = |n| path(dir.path(), n).exists();
        assert!(there(0) && there(39) && !there(1) && !there(2));
    }

    #[test]
    fn many_small_entries_count_by_what_they_take_of_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path(), LIMIT);
        for n in 0..1500 {
            shelf.put(&name(n), b"x");
        }
        let left = walk::entries(&walk::ours(dir.path())).unwrap();
        assert!(left.len() as u64 <= LIMIT / 4096, "{}", left.len());
    }

    #[test]
    fn drafts_that_nobody_finishes_are_swept_and_strangers_files_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path(), LIMIT);
        assert!(shelf.is_usable());
        let ours = walk::ours(dir.path());
        let [old, young] = [Uuid::new_v4(), Uuid::new_v4()].map(|id| walk::drafts(&ours).join(id.simple().to_string()));
        let strangers = [
            ours.join("drafts/notes.txt"),
            ours.join("readme"),
            dir.path().join("other"),
        ];
        for file in strangers.iter().chain([&old, &young]) {
            fs::write(file, b"x").unwrap();
            age(file, Duration::from_secs(7200));
        }
        age(&young, Duration::from_secs(60));
        shelf.make_room().unwrap();
        assert!(!old.exists() && young.exists());
        assert!(strangers.iter().all(|file| file.exists()));
    }

    #[test]
    fn a_clock_that_was_wrong_makes_no_entry_immortal() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path(), LIMIT);
        shelf.put(&name(0), &[1; 200_000]);
        let file = File::options().write(true).open(path(dir.path(), 0)).unwrap();
        file.set_modified(SystemTime::now() + Duration::from_secs(365 * 86_400))
            .unwrap();
        for n in 1..30 {
            shelf.put(&name(n), &[1; 200_000]);
        }
        assert!(!path(dir.path(), 0).exists());
    }

    #[test]
    fn a_cleared_directory_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(&dir.path().join("deep/cache"), LIMIT);
        shelf.put(&name(1), b"hello");
        fs::remove_dir_all(dir.path().join("deep")).unwrap();
        shelf.put(&name(1), b"hello");
        assert_eq!(shelf.get(&name(1), 5).unwrap(), "hello");
    }

    #[test]
    fn a_place_that_takes_no_directory_is_gone_without() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, b"x").unwrap();
        let shelf = Shelf::new(&file, LIMIT);
        assert!(!shelf.is_usable());
        shelf.put(&name(1), b"hello");
        assert_eq!(shelf.get(&name(1), 5), None);
        assert_eq!(fs::read(&file).unwrap(), b"x");
    }

    #[test]
    fn after_a_failure_nothing_is_put_in_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path(), LIMIT);
        shelf.put(&name(1), b"hello");
        // A file where the entry's directory has to be fails the write, as a full disk would.
        let goal = path(dir.path(), 2);
        fs::write(goal.parent().unwrap(), b"x").unwrap();
        shelf.put(&name(2), b"other");
        assert!(!shelf.is_usable());
        fs::remove_file(goal.parent().unwrap()).unwrap();
        shelf.put(&name(2), b"other");
        assert_eq!(shelf.get(&name(2), 5), None);
        assert_eq!(shelf.get(&name(1), 5).unwrap(), "hello");
        assert!(walk::drafts_in(&walk::ours(dir.path())).unwrap().is_empty());
        shelf.paused_until_ms.store(walk::now_ms() - 1, Ordering::Relaxed);
        shelf.put(&name(2), b"other");
        assert_eq!(shelf.get(&name(2), 5).unwrap(), "other");
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_and_writes() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(&dir.path().join("c"), LIMIT);
        shelf.put(&name(1), b"hello");
        let ours = walk::ours(&dir.path().join("c"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = walk::file(&ours, name(1).id());
        assert_eq!(
            (mode(&dir.path().join("c")), mode(&ours), mode(&file)),
            (0o700, 0o700, 0o600)
        );
        assert_eq!(mode(file.parent().unwrap()), 0o700);

        fs::set_permissions(&ours, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!Shelf::new(&dir.path().join("c"), LIMIT).is_usable());
        // A symbolic link to another directory.
        let link = dir.path().join("d");
        fs::create_dir(&link).unwrap();
        std::os::unix::fs::symlink(dir.path(), walk::ours(&link)).unwrap();
        assert!(!Shelf::new(&link, LIMIT).is_usable());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
