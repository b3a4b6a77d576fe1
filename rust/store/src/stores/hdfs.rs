//! Tables on a Hadoop file system, by its native protocol: `hdfs://` and a NameNode, or a name
//! service of Hadoop's settings. Owns put-if-absent: a file is written under a hidden name, synced
//! on its DataNodes, and renamed without overwriting, which the NameNode grants to one caller.
//! `hdfs_errors` interprets its errors.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use deltaplane_error::{Error, Kind, Result};
use futures::{StreamExt, TryStreamExt, stream};
use hdfs_native::client::FileStatus;
use hdfs_native::file::FileWriter;
use hdfs_native::{Client, ClientBuilder, HdfsError, WriteOptions};
use object_store::ObjectStore;
use object_store::path::Path;
use tracing::debug;
use uuid::Uuid;

use super::Spec;
use super::hdfs_errors::{failed, kind};
use crate::backend::{Backend, Listing, ObjectInfo, PutOutcome, Sink};
use crate::backend_objects::objects_of;
use crate::error;
use crate::location::{Location, Scheme};
use crate::options::Options;
use crate::retry;
use crate::runtime::handle;

/// Prefixes of Hadoop's own settings, which are passed on.
const PREFIXES: &[&str] = &["dfs.", "hadoop."];
const USER: &str = "hdfs_user";
const CONF_DIR: &str = "hadoop_conf_dir";
/// Options are lower-case; Hadoop's names aren't.
const CAPITALS: &str = "dfs.client.failover.resolver.useFQDN";
/// Time limit of one answer of the NameNode, including failover to other NameNodes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Attempts of a listing during which directories vanish, before that is an error.
const LISTINGS: usize = 8;

pub(super) const SPEC: Spec = Spec {
    scheme: Scheme::Hdfs,
    knows: |key| [USER, CONF_DIR].contains(&key) || is_hadoop_s(key),
    names: &[
        USER,
        CONF_DIR,
        "dfs.client.socket-timeout",
        "dfs.client.failover.max.attempts",
    ],
    open,
};

fn is_hadoop_s(key: &str) -> bool {
    PREFIXES.iter().any(|prefix| key.starts_with(prefix))
}

fn open(location: &Location, options: &Options) -> Result<Arc<dyn Backend>> {
    let mut builder = ClientBuilder::new()
        .with_url(location.base())
        .with_config(options.iter().filter(|(key, _)| is_hadoop_s(key)).map(hadoop_s))
        .with_io_runtime(handle());
    if let Some(user) = options.get(USER) {
        builder = builder.with_user(user);
    }
    if let Some(dir) = options.get(CONF_DIR) {
        builder = builder.with_config_dir(dir);
    }
    let client = builder.build().map_err(|e| {
        Error::invalid_argument(format!(
            "the location and Hadoop's settings don't make a file system: {}; name the NameNode with its port, as in hdfs://namenode:8020/path, or a name service that the options or the files of HADOOP_CONF_DIR describe",
            error::short(&e.to_string())
        ))
    })?;
    if !location.path().is_empty() {
        check_path(location.path())?;
    }
    Ok(Arc::new(Hdfs {
        client,
        root: format!("/{}", location.path()),
        timeout: retry::duration("timeout", options.get("timeout"), TIMEOUT)?,
    }))
}

fn hadoop_s((key, value): (&str, &str)) -> (String, String) {
    let key = match key.strip_prefix(&CAPITALS.to_ascii_lowercase()) {
        Some(rest) => format!("{CAPITALS}{rest}"),
        None => key.to_owned(),
    };
    (key, value.to_owned())
}

#[derive(Clone)]
struct Hdfs {
    client: Client,
    /// The table's directory: absolute, without a trailing slash unless it is the root.
    root: String,
    timeout: Duration,
}

impl Hdfs {
    fn dir(&self, dir: &str) -> Result<String> {
        match dir.trim_matches('/') {
            "" => Ok(self.root.clone()),
            dir => self.file(dir),
        }
    }

    fn file(&self, key: &str) -> Result<String> {
        check_path(key)?;
        Ok(format!("{}/{key}", self.root.trim_end_matches('/')))
    }

    /// Calls the NameNode with a time limit.
    async fn asked<T>(&self, call: impl Future<Output = Result<T, HdfsError>> + Send) -> Result<T, HdfsError> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(answer) => answer,
            Err(_) => Err(HdfsError::IOError(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                format!("no answer within {:?}", self.timeout),
            ))),
        }
    }

    fn info(&self, status: &FileStatus) -> ObjectInfo {
        let key = status.path.strip_prefix(self.root.trim_end_matches('/'));
        let key = key.unwrap_or(&status.path);
        ObjectInfo {
            key: key.trim_start_matches('/').to_owned(),
            size_bytes: status.length as u64,
            modified_ms: i64::try_from(status.modification_time).unwrap_or(i64::MAX),
            etag: Some(format!("{}-{}", status.modification_time, status.length)),
        }
    }

    async fn status(&self, path: &str) -> Result<FileStatus, HdfsError> {
        let status = self.asked(self.client.get_file_info(path)).await?;
        match status.isdir {
            true => Err(HdfsError::FileNotFound(path.to_owned())),
            false => Ok(status),
        }
    }

    /// The files below a directory; empty for a missing one. Hidden files are other writers'
    /// unfinished ones.
    async fn statuses(&self, dir: &str, deep: bool) -> Result<Vec<ObjectInfo>> {
        let dir = self.dir(dir)?;
        for _ in 0..LISTINGS {
            match self.listed(&dir, deep).await {
                Ok(files) => return Ok(files),
                Err(e) if kind(&e) == Kind::ObjectNotFound => {}
                Err(e) => return Err(failed(&e)),
            }
            // The directory itself was missing, or one below it vanished meanwhile. If it exists
            // now, another writer created it after the first look: it is listed again.
            match self.asked(self.client.get_file_info(&dir)).await {
                Ok(status) if status.isdir => {}
                Ok(_) => return Ok(Vec::new()),
                Err(e) if kind(&e) == Kind::ObjectNotFound => return Ok(Vec::new()),
                Err(e) => return Err(failed(&e)),
            }
        }
        Err(Error::new(
            Kind::StoreUnavailable,
            "directories went each time that they were being listed; try again",
        ))
    }

    async fn listed(&self, dir: &str, deep: bool) -> Result<Vec<ObjectInfo>, HdfsError> {
        let mut listed = self.client.list_status_iter(dir, deep).into_stream();
        let mut files = Vec::new();
        while let Some(status) = self.asked(listed.try_next()).await? {
            if !status.isdir {
                files.push(self.info(&status));
            }
        }
        files.retain(|info| !name(&info.key).starts_with('.'));
        Ok(files)
    }

    /// Writes these bytes to a new file under a hidden name, on the disks of its DataNodes.
    async fn written(&self, path: &str, bytes: Bytes) -> Result<New> {
        let mut file = New::create(self, path).await.map_err(|e| failed(&e))?;
        let written = async {
            file.write(bytes).await?;
            file.close().await
        };
        match written.await {
            Ok(()) => Ok(file),
            // Nothing exists under its own name yet; the caller reports the error.
            Err(e) => Err(failed(&e)),
        }
    }
}

fn check_path(path: &str) -> Result<()> {
    let legal = |part: &str| !matches!(part, "" | "." | "..") && !part.contains([':', '\0']);
    match path.split('/').all(legal) {
        true => Ok(()),
        false => Err(Error::invalid_argument(
            "Hadoop's file systems take no path with an empty part, '.', '..', a colon or a NUL character; choose another name",
        )),
    }
}

fn name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

#[async_trait]
impl Backend for Hdfs {
    fn local_path(&self, _: &str) -> Option<PathBuf> {
        None
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        let mut files = self.statuses(dir, false).await?;
        files.retain(|info| name(&info.key) >= from_name);
        files.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(stream::iter(files.into_iter().map(Ok)).boxed())
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        let files = self.statuses(dir, true).await?;
        Ok(stream::iter(files.into_iter().map(Ok)).boxed())
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        let path = self.file(key)?;
        let file = self.asked(self.client.read(&path)).await.map_err(|e| failed(&e))?;
        let read = file.read_range(0, file.file_length()).await;
        read.map_err(|e| failed(&e))
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let path = self.file(key)?;
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let file = self.asked(self.client.read(&path)).await.map_err(|e| failed(&e))?;
        let place = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(file.file_length());
        let (start, end) = (place(range.start), place(range.end));
        if start == file.file_length() {
            return Err(Error::invalid_argument(error::OUT_OF_RANGE));
        }
        let read = file.read_range(start, end.saturating_sub(start)).await;
        read.map_err(|e| failed(&e))
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let status = self.status(&self.file(key)?).await.map_err(|e| failed(&e))?;
        Ok(self.info(&status))
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let mut file = self.written(&self.file(key)?, bytes).await?;
        file.take(true).await.map_err(|e| failed(&e))
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        let path = self.file(key)?;
        // The rename decides; this check only saves the losers the writing.
        match self.status(&path).await {
            Ok(_) => return Ok(PutOutcome::Exists),
            Err(e) if kind(&e) == Kind::ObjectNotFound => {}
            Err(e) => return Err(failed(&e)),
        }
        let mut file = self.written(&path, bytes).await?;
        match file.take(false).await {
            Ok(()) => Ok(PutOutcome::Created),
            Err(e) if kind(&e) == Kind::ObjectExists => Ok(PutOutcome::Exists),
            // The hidden file is gone: an earlier rename succeeded but its answer was lost, or
            // another process cleaned up.
            Err(e) if kind(&e) == Kind::ObjectNotFound => Err(Error::new(Kind::StoreUnavailable, failed(&e).message())),
            Err(e) => Err(failed(&e)),
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let path = self.file(key)?;
        match self.asked(self.client.delete(&path, false)).await {
            Ok(_) => Ok(()),
            Err(e) if kind(&e) == Kind::ObjectNotFound => Ok(()),
            Err(e) => Err(failed(&e)),
        }
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, Path)> {
        self.file(key)?;
        Ok(objects_of(Arc::new(self.clone()), key))
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        let file = New::create(self, &self.file(key)?).await;
        Ok(Box::new(file.map_err(|e| failed(&e))?))
    }
}

/// A file being written, under a hidden name in its own directory.
struct New {
    store: Hdfs,
    writer: FileWriter,
    hidden: String,
    path: String,
    /// Whether the file needs no clean-up any more.
    done: bool,
}

impl New {
    async fn create(store: &Hdfs, path: &str) -> Result<New, HdfsError> {
        let hidden = hidden(path);
        let options = WriteOptions::default().create_parent(true);
        let writer = store.asked(store.client.create(&hidden, options)).await?;
        Ok(New {
            store: store.clone(),
            writer,
            hidden,
            path: path.to_owned(),
            done: false,
        })
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), HdfsError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.writer.write_bytes(bytes).await.map(|_| ())
    }

    /// Syncs and closes: the file is complete and on disk before it is renamed.
    async fn close(&mut self) -> Result<(), HdfsError> {
        self.writer.hsync().await?;
        self.writer.close().await
    }

    /// Renames the file to its name.
    async fn take(&mut self, overwrite: bool) -> Result<(), HdfsError> {
        let renamed = self.store.client.rename(&self.hidden, &self.path, overwrite);
        self.store.asked(renamed).await?;
        self.done = true;
        Ok(())
    }
}

#[async_trait]
impl Sink for New {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        New::write(self, bytes).await.map_err(|e| failed(&e))
    }

    async fn finish(mut self: Box<Self>) -> Result<()> {
        let finished = async {
            self.close().await?;
            self.take(true).await
        };
        finished.await.map_err(|e| failed(&e))
    }

    async fn abort(mut self: Box<Self>) -> Result<()> {
        self.done = true;
        forget(&self.store, &self.hidden).await;
        Ok(())
    }
}

impl Drop for New {
    /// Deletes the hidden file. A rename that is still on its way then fails.
    fn drop(&mut self) {
        if !self.done {
            let (store, hidden) = (self.store.clone(), self.hidden.clone());
            handle().spawn(async move { forget(&store, &hidden).await });
        }
    }
}

/// The name under which a file is written: in the same directory, so that it has the same quota and
/// owner.
fn hidden(path: &str) -> String {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{dir}/.{name}.{}.tmp", Uuid::new_v4())
}

async fn forget(store: &Hdfs, hidden: &str) {
    if let Err(e) = store.asked(store.client.delete(hidden, false)).await {
        debug!(file = hidden, error = %e, "an unfinished file stays");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn opened(location: &str, options: &[(&str, &str)]) -> Result<Arc<dyn Backend>> {
        let options = Options::new(options.iter().map(|(k, v)| (k.to_string(), v.to_string())));
        open(&Location::parse(location).unwrap(), &options)
    }

    #[test]
    fn hidden_names_stay_in_the_directory() {
        let hidden = hidden("/t/_delta_log/0.json");
        assert!(
            hidden.starts_with("/t/_delta_log/.0.json.") && hidden.ends_with(".tmp"),
            "{hidden}"
        );
    }

    #[test]
    fn a_name_service_that_nothing_describes_is_refused() {
        let nowhere = ("hadoop_conf_dir", "/no/such/directory");
        let e = opened("hdfs://cluster/t", &[nowhere]).err().unwrap();
        assert_eq!(e.kind(), Kind::InvalidArgument);
        assert!(e.to_string().contains("No NameNode hosts found"), "{e}");
        let described = [
            nowhere,
            ("dfs.ha.namenodes.cluster", "a,b"),
            ("dfs.namenode.rpc-address.cluster.a", "127.0.0.1:1"),
            ("dfs.namenode.rpc-address.cluster.b", "127.0.0.1:2"),
        ];
        assert!(opened("hdfs://cluster/t", &described).is_ok());
        assert!(opened("hdfs://127.0.0.1:1/t", &[nowhere]).is_ok());
        assert!(opened("hdfs://127.0.0.1:1/a:b/t", &[nowhere]).is_err());
    }

    #[test]
    fn names_that_hadoop_can_t_hold_are_refused() {
        let store = opened("hdfs://127.0.0.1:1/t", &[]).unwrap();
        for key in ["", "a:b", "a/../b", "a//b", "./a", "a\0"] {
            assert_eq!(store.object(key).err().unwrap().kind(), Kind::InvalidArgument, "{key}");
        }
    }

    #[test]
    fn hadoop_s_capitals_come_back() {
        let (key, _) = hadoop_s(("dfs.client.failover.resolver.usefqdn.cluster", "false"));
        assert_eq!(key, "dfs.client.failover.resolver.useFQDN.cluster");
    }
}
