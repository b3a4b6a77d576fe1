//! Writes files of a local table: under hidden names, then durable and renamed. Owns the order of
//! flushes and renames.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use uuid::Uuid;

use super::local_dirs::{Dirs, create_dirs, sync_dir};
use super::local_root::Root;
use crate::backend::Sink;
use crate::runtime::blocking;

/// Bytes gathered before a write goes to the disk.
const WRITE_BATCH: usize = 1 << 20;

/// A file under a hidden name in the directory of its goal; removed unless it is renamed to the
/// goal.
pub(super) struct Draft {
    file: File,
    path: PathBuf,
    goal: PathBuf,
    moved: bool,
}

impl Draft {
    /// Creates the hidden file; its directory is created and made durable first.
    pub(super) fn new(goal: PathBuf) -> io::Result<Self> {
        Draft::within(goal, create_dirs)
    }

    fn within(goal: PathBuf, create: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<Self> {
        let dir = goal.parent().unwrap_or(Path::new("/"));
        // Not named after the goal: the goal's name may be as long as the system allows.
        let path = dir.join(format!(".{}.tmp", Uuid::new_v4()));
        let open = || File::options().write(true).create_new(true).open(&path);
        let file = match open() {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                create(dir)?;
                open()?
            }
            opened => opened?,
        };
        Ok(Draft {
            file,
            path,
            goal,
            moved: false,
        })
    }

    pub(super) fn written(goal: PathBuf, bytes: &[u8]) -> io::Result<Self> {
        let mut draft = Draft::new(goal)?;
        draft.file.write_all(bytes)?;
        draft.file.sync_all()?;
        Ok(draft)
    }

    pub(super) fn write(&mut self, chunks: &[Bytes]) -> io::Result<()> {
        chunks.iter().try_for_each(|chunk| self.file.write_all(chunk))
    }

    /// The same file with another goal in the same directory.
    pub(super) fn aimed_at(self, goal: PathBuf) -> Self {
        let mut draft = self;
        draft.goal = goal;
        draft
    }

    fn goal_dir(&self) -> &Path {
        self.goal.parent().unwrap_or(Path::new("/"))
    }

    fn take_place(&mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.goal)?;
        self.moved = true;
        Ok(())
    }

    /// Renames the file to its goal, replacing an existing one.
    pub(super) fn replace(mut self) -> io::Result<()> {
        self.take_place()?;
        sync_dir(self.goal_dir())
    }

    /// Renames the file to its goal and then flushes it. This suffices for names that nobody knows
    /// before a commit contains them, and a journalling file system then writes file, name and
    /// directory at once.
    fn replace_then_sync(mut self, root: &Path, dirs: &Dirs) -> io::Result<()> {
        self.take_place()?;
        let synced = self.file.sync_all();
        let synced = synced.and_then(|()| dirs.settle(root, self.goal_dir()));
        if synced.is_err() {
            let _ = fs::remove_file(&self.goal);
        }
        synced
    }

    /// Renames the file to its goal if that is free, otherwise returns it.
    pub(super) fn link(mut self) -> io::Result<Option<Self>> {
        match self.claim() {
            Ok(()) => {}
            // A network file system repeats a call whose answer was lost: the second attempt then
            // finds the link of the first. Two names on this file prove that the link is its own.
            Err(e) if e.kind() == ErrorKind::AlreadyExists && !self.has_two_names() => {
                return Ok(Some(self));
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        sync_dir(self.goal_dir())?;
        Ok(None)
    }

    /// Takes the goal's name if it is free, in one step; `AlreadyExists` if it isn't. A hard link
    /// does so on every Unix file system, network ones included, but leaves a second name to be
    /// removed; a rename without overwriting leaves none, on file systems known to support it.
    pub(super) fn claim(&mut self) -> io::Result<()> {
        match move_to_free_name(&self.file, &self.path, &self.goal) {
            Some(moved) => {
                self.moved = moved.is_ok();
                moved
            }
            None => fs::hard_link(&self.path, &self.goal),
        }
    }

    fn has_two_names(&self) -> bool {
        #[cfg(unix)]
        return self
            .file
            .metadata()
            .is_ok_and(|m| std::os::unix::fs::MetadataExt::nlink(&m) > 1);
        #[cfg(not(unix))]
        false
    }
}

/// Renames without overwriting, in one step; `None` where the file system or the kernel isn't known
/// to support that.
#[cfg(target_os = "linux")]
fn move_to_free_name(file: &File, from: &Path, to: &Path) -> Option<io::Result<()>> {
    use rustix::fs::{CWD, RenameFlags, fstatfs, renameat_with};
    use rustix::io::Errno;

    // ext2 to ext4, XFS, Btrfs, F2FS, tmpfs, overlayfs: they check and rename under the directory's
    // lock. Others, such as FUSE's, may treat the flag differently.
    const LOOKING: [u64; 6] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994, 0x794C_7630];
    let file_system = fstatfs(file).ok().and_then(|about| u64::try_from(about.f_type).ok())?;
    if !LOOKING.contains(&file_system) {
        return None;
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => None,
        moved => Some(moved.map_err(io::Error::from)),
    }
}

#[cfg(not(target_os = "linux"))]
fn move_to_free_name(_: &File, _: &Path, _: &Path) -> Option<io::Result<()>> {
    None
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.moved {
            // A leftover hidden file does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A data file being written. Its name appears when it is complete.
///
/// Nothing is created before there are bytes to write: one thread creates, writes, renames and
/// syncs a small file.
pub(super) struct FileSink {
    /// Absent during a write, and after a failed one.
    file: Option<Unfinished>,
    pending: Vec<Bytes>,
    pending_bytes: usize,
}

/// The part of a data file's work that blocks.
struct Unfinished {
    goal: PathBuf,
    /// Absent before the first bytes.
    draft: Option<Draft>,
    root: Root,
    dirs: Arc<Dirs>,
}

impl Unfinished {
    /// The draft, after these bytes are written to it.
    fn written(&mut self, chunks: &[Bytes]) -> Result<Draft> {
        let create = |dir: &Path| self.dirs.create(self.root.path(), dir);
        let draft = match self.draft.take() {
            Some(draft) => Ok(draft),
            None => Draft::within(self.goal.clone(), create),
        };
        let mut draft = draft.map_err(|e| self.root.err(&e, "creating a data file"))?;
        let written = draft.write(chunks);
        written.map_err(|e| self.root.err(&e, "writing a data file"))?;
        Ok(draft)
    }

    fn write(&mut self, chunks: &[Bytes]) -> Result<()> {
        self.draft = Some(self.written(chunks)?);
        Ok(())
    }

    fn finish(mut self, chunks: &[Bytes]) -> Result<()> {
        let draft = self.written(chunks)?;
        let done = if self.root.is_of_log(&self.goal) || self.goal.symlink_metadata().is_ok() {
            draft.file.sync_all().and_then(|()| draft.replace())
        } else {
            draft.replace_then_sync(self.root.path(), &self.dirs)
        };
        done.map_err(|e| self.root.err(&e, "finishing a data file"))
    }
}

impl FileSink {
    /// Opens nothing yet.
    pub(super) fn new(goal: PathBuf, root: Root, dirs: Arc<Dirs>) -> Self {
        FileSink {
            file: Some(Unfinished {
                goal,
                draft: None,
                root,
                dirs,
            }),
            pending: Vec::new(),
            pending_bytes: 0,
        }
    }

    /// Takes the file and the bytes that aren't written yet.
    fn take(&mut self) -> Result<(Unfinished, Vec<Bytes>)> {
        self.pending_bytes = 0;
        let file = self.file.take().ok_or_else(|| {
            Error::new(
                Kind::StoreUnavailable,
                "an earlier write to this data file failed; write it anew",
            )
        })?;
        Ok((file, std::mem::take(&mut self.pending)))
    }
}

#[async_trait]
impl Sink for FileSink {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.pending_bytes += bytes.len();
        self.pending.push(bytes);
        if self.pending_bytes >= WRITE_BATCH {
            let (mut file, chunks) = self.take()?;
            self.file = Some(blocking(move || file.write(&chunks).map(|()| file)).await?);
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<()> {
        let (file, chunks) = self.take()?;
        blocking(move || file.finish(&chunks)).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        // Dropping the draft removes its file.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn links_once_and_leaves_no_draft() {
        let dir = tempfile::tempdir().unwrap();
        let goal = dir.path().join("a/b/0.json");
        let put = |text: &str| Draft::written(goal.clone(), text.as_bytes()).unwrap().link().unwrap();
        assert!(put("one").is_none());
        assert!(put("two").is_some());
        assert_eq!(fs::read(&goal).unwrap(), b"one");
        let left: Vec<_> = fs::read_dir(goal.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn a_file_of_a_local_disk_is_moved_to_a_free_name() {
        let dir = tempfile::tempdir().unwrap();
        let goal = dir.path().join("0.json");
        let mut draft = Draft::written(goal.clone(), b"one").unwrap();
        draft.claim().unwrap();
        assert!(draft.moved || !cfg!(target_os = "linux"));
        let mut late = Draft::written(goal.clone(), b"two").unwrap();
        assert_eq!(late.claim().unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop((draft, late));
        assert_eq!(fs::read(&goal).unwrap(), b"one");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_lost_answer_of_our_own_link_is_a_win() {
        let dir = tempfile::tempdir().unwrap();
        let goal = dir.path().join("0.json");
        let draft = Draft::written(goal.clone(), b"x").unwrap();
        fs::hard_link(&draft.path, &goal).unwrap();
        assert!(draft.link().unwrap().is_none());
    }

    #[test]
    fn a_dropped_draft_removes_its_file() {
        let dir = tempfile::tempdir().unwrap();
        drop(Draft::written(dir.path().join("x"), b"x").unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
