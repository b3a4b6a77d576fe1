//! A store written in Python: the plug-in's methods, and what their answers and exceptions mean.
//! The backend over it is the store crate's; `deltaplane.io.log_store` documents the methods.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use deltaplane_boundary::boundary;
use deltaplane_error::{Error, Kind, Result};
use deltaplane_operations::c_stream::Pulled;
use deltaplane_store::{
    Backend, Location, ObjectInfo, Options, PluginCall, PluginReply, PluginStore, Store, StorePlugin, register_scheme,
};
use pyo3::exceptions::{PyFileExistsError, PyFileNotFoundError, PyOSError, PyPermissionError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::{kind_of, to_python};

/// Whether a thread that waits for rows may have to let Python in: see `waiting`.
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Makes locations of a scheme open by a Python factory of `(location, options)`.
#[boundary]
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

/// Waits for a batch on a thread that a consumer of a stream called from, perhaps with the GIL: a
/// store in Python needs it meanwhile.
pub(crate) fn waiting(pull: &mut (dyn FnMut() -> Pulled + Send)) -> Pulled {
    if REGISTERED.load(Ordering::Acquire) {
        return Python::attach(|py| py.detach(pull));
    }
    pull()
}

fn open(py: Python<'_>, factory: &Py<PyAny>, location: &Location, options: &Options) -> Result<PluginStore> {
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
    let plugin = Plugin {
        object,
        class,
        options: options.clone(),
    };
    Ok(PluginStore::new(Arc::new(plugin), base))
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

/// The object that the factory made, and what messages about it need.
struct Plugin {
    object: Py<PyAny>,
    class: String,
    options: Options,
}

impl StorePlugin for Plugin {
    fn name(&self) -> &str {
        &self.class
    }

    fn call(&self, call: PluginCall) -> Result<Option<PluginReply>> {
        let method = call.method();
        Python::attach(|py| {
            let reply = || {
                let answer = called(self.object.bind(py), method, &call)?;
                let left_out = answer.is(py.NotImplemented());
                (!left_out).then(|| reply_of(&call, &answer)).transpose()
            };
            reply().map_err(|e| failed(py, &format!("{}.{method}", self.class), &e, &self.options))
        })
    }
}

/// Calls the plug-in's method with the call's arguments.
fn called<'py>(object: &Bound<'py, PyAny>, method: &str, call: &PluginCall) -> PyResult<Bound<'py, PyAny>> {
    match call {
        PluginCall::ListFrom(dir, from) => object.call_method1(method, (dir, from)),
        PluginCall::ListAll(path) | PluginCall::Read(path) | PluginCall::Head(path) | PluginCall::Delete(path) => {
            object.call_method1(method, (path,))
        }
        PluginCall::ReadRange(path, range) => object.call_method1(method, (path, range.start, range.end)),
        PluginCall::Put(path, data) | PluginCall::PutIfAbsent(path, data) => {
            object.call_method1(method, (path, PyBytes::new(object.py(), data)))
        }
    }
}

fn reply_of(call: &PluginCall, answer: &Bound<'_, PyAny>) -> PyResult<PluginReply> {
    Ok(match call {
        PluginCall::ListFrom(..) | PluginCall::ListAll(_) => {
            let files = answer.try_iter()?.map(|item| info(&item?));
            PluginReply::Files(files.collect::<PyResult<_>>()?)
        }
        PluginCall::Read(_) | PluginCall::ReadRange(..) => {
            PluginReply::Bytes(Bytes::copy_from_slice(answer.extract::<&[u8]>()?))
        }
        PluginCall::Head(_) => PluginReply::Info(info(answer)?),
        PluginCall::PutIfAbsent(..) => PluginReply::Created(answer.extract()?),
        PluginCall::Put(..) | PluginCall::Delete(_) => PluginReply::Done,
    })
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
