//! A store written in Python, as a backend: its methods run on threads that may wait, with the GIL
//! only there. Knows the plug-in's methods and what their answers and exceptions mean;
//! `deltaplane.io.log_store` documents them.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use deltaplane_boundary::boundary;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_store::{
    Backend, Listing, Location, ObjectInfo, ObjectPath, ObjectStore, Options, PutOutcome, Sink, Store, Upload,
    async_trait, handle, objects_of, register_scheme,
};
use futures::{StreamExt, stream};
use pyo3::exceptions::{PyFileExistsError, PyFileNotFoundError, PyOSError, PyPermissionError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::errors::{kind_of, to_python};

/// Whether a thread that waits for rows may have to let Python in: see `waiting`.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Makes locations of a scheme open by a Python factory of `(location, options)`.
#[boundary]
#[pyfunction]
pub(crate) fn register_log_store(py: Python<'_>, scheme: &str, factory: Py<PyAny>) -> PyResult<()> {
    let factory = Arc::new(factory);
    let opener = move |location: &Location, options: &Options| {
        let opened = Python::attach(|py| open(py, &factory, location, options));
        opened.map(|store| Arc::new(store) as Arc<dyn Backend>)
    };
    py.detach(|| register_scheme(scheme, Arc::new(opener)))
        .map_err(|e| to_python(&e))?;
    python_is_called();
    Ok(())
}

/// From now on the core may call Python while it works.
pub(crate) fn python_is_called() {
    REGISTERED.store(true, Ordering::Release);
}

/// Waits for work of the core on a thread that a consumer of a stream called from, perhaps with the
/// GIL: a store in Python needs it meanwhile.
pub(crate) fn waiting<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if REGISTERED.load(Ordering::Acquire) {
        return Python::attach(|py| py.detach(work));
    }
    work()
}

fn open(py: Python<'_>, factory: &Py<PyAny>, location: &Location, options: &Options) -> Result<PyStore> {
    let made = || {
        let arguments = PyDict::new(py);
        for (key, value) in options.iter() {
            arguments.set_item(key, value)?;
        }
        let object = factory.call1(py, (location.as_str(), arguments))?;
        let base: Option<String> = attribute(&object, py, "base")?;
        let own: Option<HashMap<String, String>> = attribute(&object, py, "base_options")?;
        let class = object.bind(py).get_type().qualname()?.to_string();
        PyResult::Ok((object, class, base, own))
    };
    let (object, class, base, own) = made().map_err(|e| failed(py, "making the log store", &e, options))?;
    let base_options = own.map_or_else(|| options.clone(), Options::new);
    let base = base
        // What the plug-in gives is what is kept: its base may hold something else, or the same a
        // second time.
        .map(|text| Store::open_uncached(&Location::parse(&text)?, &base_options))
        .transpose()?;
    Ok(PyStore {
        plugin: Arc::new(Plugin {
            object,
            class,
            options: options.clone(),
        }),
        base,
    })
}

/// An attribute's value, where it has one that isn't None.
fn attribute<T>(object: &Py<PyAny>, py: Python<'_>, name: &str) -> PyResult<Option<T>>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    match object.bind(py).getattr_opt(name)? {
        Some(value) if !value.is_none() => value.extract().map(Some),
        _ => Ok(None),
    }
}

/// What a method that the plug-in leaves to the store below answers.
enum Answer<T> {
    Value(T),
    LeftToTheBase,
}

/// The object that the factory made, and what messages about it need.
struct Plugin {
    object: Py<PyAny>,
    class: String,
    options: Options,
}

#[derive(Clone)]
struct PyStore {
    plugin: Arc<Plugin>,
    base: Option<Store>,
}

impl PyStore {
    /// Calls a method where waiting is allowed. `convert` reads its answer, unless that is
    /// `NotImplemented`.
    async fn call<T: Send + 'static>(
        &self,
        method: &'static str,
        arguments: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>> + Send + 'static,
        convert: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T> + Send + 'static,
    ) -> Result<Answer<T>> {
        let plugin = Arc::clone(&self.plugin);
        let work = move || {
            Python::attach(|py| {
                let answer = || {
                    let answer = plugin.object.bind(py).call_method1(method, arguments(py)?)?;
                    if answer.is(py.NotImplemented()) {
                        return Ok(Answer::LeftToTheBase);
                    }
                    convert(&answer).map(Answer::Value)
                };
                let what = || format!("{}.{method}", plugin.class);
                answer().map_err(|e| failed(py, &what(), &e, &plugin.options))
            })
        };
        let done = handle().spawn_blocking(work).await;
        done.unwrap_or_else(|e| Err(Error::internal(format!("a call of a log store was cut short: {e}"))))
    }

    fn base(&self, method: &str) -> Result<&Store> {
        self.base.as_ref().ok_or_else(|| {
            Error::invalid_argument(format!(
                "the log store {} has no method {method}, and no base that could do it; give it one of the two",
                self.plugin.class
            ))
        })
    }

    async fn listed(&self, method: &'static str, dir: &str, from: Option<&str>) -> Result<Answer<Listing>> {
        let (dir, from) = (dir.trim_matches('/').to_owned(), from.map(str::to_owned));
        let infos = |answer: &Bound<'_, PyAny>| {
            let items = answer.try_iter()?.map(|item| info(&item?));
            items.collect::<PyResult<Vec<_>>>()
        };
        Ok(match self.call(method, move |py| named(py, dir, from), infos).await? {
            Answer::Value(infos) => Answer::Value(stream::iter(infos.into_iter().map(Ok)).boxed()),
            Answer::LeftToTheBase => Answer::LeftToTheBase,
        })
    }

    /// The size and time of an object by the listing of its directory, where a plug-in without a
    /// base has no better way.
    async fn listed_alone(&self, key: &str) -> Result<ObjectInfo> {
        let (dir, name) = key.rsplit_once('/').unwrap_or(("", key));
        match self.list_from(dir, name).await?.next().await.transpose()? {
            Some(info) if info.key == key => Ok(info),
            _ => Err(Error::new(Kind::ObjectNotFound, "the log store lists no such object")),
        }
    }
}

/// The arguments of a listing: a directory, and the name that it begins with where there is one.
fn named(py: Python<'_>, dir: String, from: Option<String>) -> PyResult<Bound<'_, PyTuple>> {
    match from {
        Some(from) => (dir, from).into_pyobject(py),
        None => (dir,).into_pyobject(py),
    }
}

/// The arguments of a put.
fn whole<'py>(py: Python<'py>, path: String, data: &Bytes) -> PyResult<Bound<'py, PyTuple>> {
    (path, PyBytes::new(py, data)).into_pyobject(py)
}

fn info(item: &Bound<'_, PyAny>) -> PyResult<ObjectInfo> {
    let (key, size_bytes, modified_ms, etag): (String, u64, i64, Option<String>) = item.extract()?;
    Ok(ObjectInfo {
        key,
        size_bytes,
        modified_ms,
        etag,
    })
}

fn bytes(answer: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    Ok(Bytes::copy_from_slice(answer.extract::<&[u8]>()?))
}

/// What an exception of the plug-in means: ours says it itself, some of Python's have one meaning,
/// and of all else it is open what has been done.
fn failed(py: Python<'_>, what: &str, e: &PyErr, options: &Options) -> Error {
    let is = |class: &Bound<'_, PyAny>| e.value(py).is_instance(class).unwrap_or(false);
    let (kind, next) = match kind_of(py, e) {
        Some(kind) => (kind, ""),
        None if is(&py.get_type::<PyFileNotFoundError>()) => (Kind::ObjectNotFound, ""),
        None if is(&py.get_type::<PyFileExistsError>()) => (Kind::ObjectExists, ""),
        None if is(&py.get_type::<PyPermissionError>()) => (Kind::StoreDenied, "; check the store's user and rights"),
        None if is(&py.get_type::<PyOSError>()) => (Kind::StoreUnavailable, "; try again"),
        None => (
            Kind::StoreUnavailable,
            ", which isn't among the exceptions that LogStore names, so whether the call was carried out is open; correct the store",
        ),
    };
    Error::new(
        kind,
        format!("{what} failed with {}{next}", options.scrub(&e.to_string())),
    )
}

/// A key that stays in the table's directory.
fn checked(key: &str) -> Result<String> {
    if key.is_empty() || key.split('/').any(|part| part == "..") {
        return Err(Error::invalid_argument(
            "a path is empty or leads out of the table's directory",
        ));
    }
    Ok(key.to_owned())
}

#[async_trait]
impl Backend for PyStore {
    fn local_path(&self, _: &str) -> Option<PathBuf> {
        None
    }

    async fn list_from(&self, dir: &str, from_name: &str) -> Result<Listing> {
        match self.listed("list_from", dir, Some(from_name)).await? {
            Answer::Value(listing) => Ok(listing),
            Answer::LeftToTheBase => self.base("list_from")?.list_from(dir, from_name).await,
        }
    }

    async fn list_all(&self, dir: &str) -> Result<Listing> {
        match self.listed("list_all", dir, None).await? {
            Answer::Value(listing) => Ok(listing),
            Answer::LeftToTheBase => self.base("list_all")?.list_all(dir).await,
        }
    }

    async fn read(&self, key: &str) -> Result<Bytes> {
        let path = checked(key)?;
        match self.call("read", |py| (path,).into_pyobject(py), bytes).await? {
            Answer::Value(bytes) => Ok(bytes),
            Answer::LeftToTheBase => self.base("read")?.read(key).await,
        }
    }

    async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let path = checked(key)?;
        let arguments = (path, range.start, range.end);
        match self.call("read_range", |py| arguments.into_pyobject(py), bytes).await? {
            Answer::Value(bytes) => Ok(bytes),
            Answer::LeftToTheBase => match &self.base {
                Some(base) => base.read_range(key, range).await,
                None => part(self.read(key).await?, range),
            },
        }
    }

    async fn head(&self, key: &str) -> Result<ObjectInfo> {
        let path = checked(key)?;
        match self.call("head", |py| (path,).into_pyobject(py), info).await? {
            Answer::Value(info) => Ok(info),
            Answer::LeftToTheBase => match &self.base {
                Some(base) => base.head(key).await,
                None => self.listed_alone(key).await,
            },
        }
    }

    async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let (path, data) = (checked(key)?, bytes.clone());
        match self.call("put", move |py| whole(py, path, &data), |_| Ok(())).await? {
            Answer::Value(()) => Ok(()),
            Answer::LeftToTheBase => self.base("put")?.put(key, bytes).await,
        }
    }

    async fn put_if_absent(&self, key: &str, bytes: Bytes) -> Result<PutOutcome> {
        let (path, data) = (checked(key)?, bytes.clone());
        let result = self.call(
            "put_if_absent",
            move |py| whole(py, path, &data),
            |result| result.extract::<bool>(),
        );
        match result.await {
            Ok(Answer::Value(true)) => Ok(PutOutcome::Created),
            Ok(Answer::Value(false)) => Ok(PutOutcome::Exists),
            Ok(Answer::LeftToTheBase) => self.base("put_if_absent")?.put_if_absent(key, bytes).await,
            Err(e) if e.kind() == Kind::ObjectExists => Ok(PutOutcome::Exists),
            // Something of the store's own is missing, perhaps after it had written the object.
            Err(e) if e.kind() == Kind::ObjectNotFound => Err(Error::new(Kind::StoreUnavailable, e.message())),
            Err(e) => Err(e),
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let path = checked(key)?;
        match self.call("delete", |py| (path,).into_pyobject(py), |_| Ok(())).await {
            Ok(Answer::Value(())) => Ok(()),
            Ok(Answer::LeftToTheBase) => self.base("delete")?.delete(key).await,
            Err(e) if e.kind() == Kind::ObjectNotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn object(&self, key: &str) -> Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        match &self.base {
            Some(base) => base.object(key),
            None => Ok(objects_of(Arc::new(self.clone()), &checked(key)?)),
        }
    }

    async fn upload(&self, key: &str) -> Result<Box<dyn Sink>> {
        Ok(match &self.base {
            Some(base) => Box::new(Through(base.upload(key).await?)),
            None => Box::new(Whole {
                store: self.clone(),
                key: checked(key)?,
                bytes: Vec::new(),
            }),
        })
    }
}

fn part(bytes: Bytes, range: Range<u64>) -> Result<Bytes> {
    if range.is_empty() {
        return Ok(Bytes::new());
    }
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
    let (start, end) = (place(range.start), place(range.end));
    if start == bytes.len() {
        return Err(Error::invalid_argument(
            "the range to read begins behind the object's end",
        ));
    }
    Ok(bytes.slice(start..end))
}

/// A new file of the store below.
struct Through(Upload);

#[async_trait]
impl Sink for Through {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.0.write(bytes).await
    }

    async fn finish(self: Box<Self>) -> Result<()> {
        self.0.finish().await.map(|_| ())
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        self.0.abort().await
    }
}

/// A new file of a plug-in without a base, which takes files as a whole.
struct Whole {
    store: PyStore,
    key: String,
    bytes: Vec<u8>,
}

#[async_trait]
impl Sink for Whole {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<()> {
        let Whole { store, key, bytes } = *self;
        store.put(&key, bytes.into()).await
    }

    async fn abort(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
