//! An open directory: its path is resolved once for all of its files that are examined or read,
//! which for the thousands of files in a log is most of the cost of each.

use std::fs::File;
use std::io;
use std::path::Path;

use super::local_read;
use super::local_root::About;

/// The directory.
pub(super) struct Folder(imp::Held);

impl Folder {
    /// Opens the directory at this path.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        imp::hold(path).map(Folder)
    }

    /// Metadata of the file with this name.
    pub(super) fn about(&self, name: &str) -> io::Result<About> {
        imp::about(&self.0, name)
    }

    /// Appends the whole file of this name to `to`. `bytes` is its listed size: if that is right,
    /// this takes three system calls.
    pub(super) fn read(&self, name: &str, bytes: usize, to: &mut Vec<u8>) -> io::Result<()> {
        local_read::whole(imp::file(&self.0, name)?, bytes, to)
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::os::fd::OwnedFd;

    use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};

    use super::{About, File, Path, io};

    pub(super) type Held = OwnedFd;

    pub(super) fn hold(path: &Path) -> io::Result<Held> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(CWD, path, flags, Mode::empty())?)
    }

    pub(super) fn file(folder: &Held, name: &str) -> io::Result<File> {
        Ok(openat(folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    pub(super) fn about(folder: &Held, name: &str) -> io::Result<About> {
        let stat = statat(folder, name, AtFlags::empty())?;
        Ok(About {
            is_file: FileType::from_raw_mode(stat.st_mode).is_file(),
            size_bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
            number: stat.st_ino,
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::fs;
    use std::path::PathBuf;

    use super::{About, File, Path, io};

    pub(super) type Held = PathBuf;

    pub(super) fn hold(path: &Path) -> io::Result<Held> {
        Ok(path.to_path_buf())
    }

    pub(super) fn file(folder: &Held, name: &str) -> io::Result<File> {
        File::open(folder.join(name))
    }

    pub(super) fn about(folder: &Held, name: &str) -> io::Result<About> {
        fs::metadata(folder.join(name)).map(|meta| About::of(&meta))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use super::*;

    #[test]
    fn files_are_what_their_paths_say() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a b.json");
        fs::write(&path, "12345").unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let about = folder.about("a b.json").unwrap();
        assert_eq!(about, About::of(&path.metadata().unwrap()));
        assert!(about.is_file && about.size_bytes == 5);
        assert!(
            !Folder::open(dir.path().parent().unwrap())
                .unwrap()
                .about(dir.path().file_name().unwrap().to_str().unwrap())
                .unwrap()
                .is_file
        );
        let mut read = Vec::new();
        folder.read("a b.json", 5, &mut read).unwrap();
        assert_eq!(read, b"12345");
        let fails = |folder: &Folder, name| folder.read(name, 1, &mut Vec::new()).map_err(|e| e.kind());
        assert_eq!(fails(&folder, "b"), Err(io::ErrorKind::NotFound));
        assert_eq!(folder.about("b").map_err(|e| e.kind()), Err(io::ErrorKind::NotFound));
        assert!(fails(&folder, "a\0").is_err());
        let none = Folder::open(&path.join("x")).and_then(|f| f.read("y", 1, &mut Vec::new()));
        assert_eq!(none.map_err(|e| e.kind()), Err(io::ErrorKind::NotADirectory));
    }
}
