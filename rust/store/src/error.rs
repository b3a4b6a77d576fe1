//! Converts errors of object_store and the system to the project's kinds, and removes secrets. The
//! original errors are never attached as a source: their `Debug` may show what a message hides.

use std::error::Error as StdError;
use std::io;

use deltaplane_error::{Error, Kind};
use object_store::client::{HttpError, HttpErrorKind};

use crate::options::Redactor;

/// Servers may answer with pages of text; a message needs the first lines.
const LONGEST_DETAIL: usize = 700;

/// The error for a failed call of a remote (or the memory) store.
pub(crate) fn from_object_store(e: &object_store::Error, redactor: &Redactor) -> Error {
    if let Some(own) = own(e, redactor) {
        return own;
    }
    let detail = detail(e, redactor);
    let (kind, what) = classify(e, &detail);
    Error::new(kind, format!("{what}: {detail}"))
}

/// This project's own error inside an object_store error, for example one from a credential
/// provider.
pub(crate) fn own(e: &object_store::Error, redactor: &Redactor) -> Option<Error> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(e);
    while let Some(e) = next {
        if let Some(own) = e.downcast_ref::<Error>() {
            return Some(Error::new(own.kind(), short(&redactor.scrub(own.message()))));
        }
        next = e.source();
    }
    None
}

/// The error for a refused configuration; nothing has been sent yet.
pub(crate) fn from_build(e: &object_store::Error, redactor: &Redactor) -> Error {
    Error::invalid_argument(format!(
        "the storage options or the location don't make a store; correct them: {}",
        detail(e, redactor)
    ))
}

/// Whether the answer of a refused request says that its credentials are no longer valid. AWS
/// reports that with the status of a malformed request.
pub(crate) fn says_credentials_ended(answer: &str) -> bool {
    const ENDED: &[&str] = &[
        "ExpiredToken",
        "TokenRefreshRequired",
        "UnrecognizedClient",
        "InvalidToken",
        "RequestExpired",
    ];
    ENDED.iter().any(|name| answer.contains(name))
}

fn classify(e: &object_store::Error, detail: &str) -> (Kind, &'static str) {
    use object_store::Error as E;
    const DENIED: &str = "the store refused access; check credentials, rights and the bucket's or container's name";
    match e {
        E::NotFound { .. } => (Kind::ObjectNotFound, "the store holds no such object"),
        E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. } => {
            (Kind::ObjectExists, "the store holds this object already")
        }
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => (Kind::StoreDenied, DENIED),
        E::InvalidPath { .. } => (
            Kind::InvalidArgument,
            "object stores don't take this name; rename the file",
        ),
        E::UnknownConfigurationKey { .. } => (Kind::InvalidArgument, "unknown storage option"),
        E::NotSupported { .. } | E::NotImplemented { .. } => (
            Kind::InvalidArgument,
            "the store can't do this with its present options (is conditional_put disabled?)",
        ),
        _ if detail.contains(METADATA_REFUSED) => (Kind::StoreDenied, DENIED),
        _ => match status(detail) {
            Some(401 | 403) => (Kind::StoreDenied, DENIED),
            Some(404) => (
                Kind::ObjectNotFound,
                "the store answered that the bucket, container or object doesn't exist; check the location",
            ),
            // S3's name for a request whose bytes came too slowly: repeating it helps.
            Some(400 | 408) if detail.contains("RequestTimeout") => (Kind::StoreUnavailable, unavailable(e)),
            Some(400) if says_credentials_ended(detail) => (
                Kind::StoreDenied,
                "the store says that the credentials have expired; give new ones, or a credential_provider that renews them (tasks of Spark have those with which their job began)",
            ),
            Some(400) => (
                Kind::InvalidArgument,
                "the store called the request malformed; check region, endpoint and credentials",
            ),
            Some(416) => (Kind::InvalidArgument, OUT_OF_RANGE),
            _ if detail.contains("Wanted range starting at") => (Kind::InvalidArgument, OUT_OF_RANGE),
            _ if detail.contains("redirect without LOCATION") => (
                Kind::InvalidArgument,
                "the bucket is in another region; set the option aws_region",
            ),
            // Messages about a configuration error that only the first request reveals.
            _ if detail.contains("URL scheme is not allowed") => (
                Kind::InvalidArgument,
                "the endpoint is plain http; set the option allow_http=true to permit that",
            ),
            Some(300..=399 | 405..=407 | 409..=415) => (Kind::InvalidArgument, "the store rejected the request"),
            _ => (Kind::StoreUnavailable, unavailable(e)),
        },
    }
}

/// Part of the message when a request to a metadata address isn't allowed.
pub(crate) const METADATA_REFUSED: &str =
    "no credentials, and the machine's metadata address is only asked with the option allow_instance_metadata=true";

pub(crate) const OUT_OF_RANGE: &str = "the range to read begins behind the object's end";

fn unavailable(e: &object_store::Error) -> &'static str {
    match http_kind(e) {
        Some(HttpErrorKind::Connect) => {
            "the store can't be reached; check the endpoint and the network, then try again"
        }
        Some(HttpErrorKind::Timeout) => {
            "the store didn't answer in time; try again, or raise the options timeout and retry_timeout"
        }
        _ => "the store failed to answer; try again later",
    }
}

/// The kind of the innermost HTTP error: an outer one may only forbid repeating the request.
pub(crate) fn http_kind(e: &(dyn StdError + 'static)) -> Option<HttpErrorKind> {
    let (mut next, mut kind) = (Some(e), None);
    while let Some(e) = next {
        kind = e.downcast_ref::<HttpError>().map(HttpError::kind).or(kind);
        next = e.source();
    }
    kind
}

/// Whether a body was received that object_store can't use: the request for the rest of a body
/// that broke off had an answer without the headers that it needs. Reading from the start helps.
pub(crate) fn is_broken_read(e: &object_store::Error) -> bool {
    let object_store::Error::Generic { source, .. } = e else {
        return false;
    };
    let text = source.to_string();
    let words = ["Content-Range", "non-partial response", "error reading a body"];
    status(&text).is_none() && words.iter().any(|part| text.contains(part))
}

/// The HTTP status in an error's text, because object_store's type that holds it is private. A
/// contract test with a scripted server fails when the wording changes.
pub(crate) fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// The messages of an error and its causes, without secrets and shortened.
fn detail(e: &object_store::Error, redactor: &Redactor) -> String {
    let mut text = e.to_string();
    let mut next = e.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    short(&redactor.scrub(&text))
}

/// On one line and of bounded length.
pub(crate) fn short(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = line.char_indices().nth(LONGEST_DETAIL) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// The error for a failed system call on the local disk. `what` says what was attempted.
pub(crate) fn from_io(e: &io::Error, what: &str) -> Error {
    use io::ErrorKind as K;
    let (kind, next) = match e.kind() {
        K::NotFound => (Kind::ObjectNotFound, "there is no such file"),
        K::AlreadyExists => (Kind::ObjectExists, "the file exists already"),
        K::PermissionDenied | K::ReadOnlyFilesystem => (
            Kind::StoreDenied,
            "check the owner and the rights of the table's directory and files",
        ),
        K::NotADirectory => (
            Kind::InvalidArgument,
            "a part of the path is a file, not a directory; check the path",
        ),
        K::IsADirectory => (Kind::ObjectNotFound, "the path is a directory, not a file"),
        K::InvalidInput | K::InvalidFilename | K::InvalidData => (
            Kind::InvalidArgument,
            "the file system doesn't take this name; choose another",
        ),
        K::Unsupported | K::CrossesDevices => (
            Kind::InvalidArgument,
            "the file system lacks an operation that atomic commits need; keep the table on another",
        ),
        K::StorageFull | K::QuotaExceeded => (
            Kind::StoreUnavailable,
            "the disk or quota is full; free space, then try again",
        ),
        _ => (Kind::StoreUnavailable, "try again, and check the disk"),
    };
    Error::new(kind, format!("{what} failed ({e}); {next}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: text.to_owned().into(),
        }
    }

    #[test]
    fn statuses_become_kinds() {
        for (status, kind) in [
            (403, Kind::StoreDenied),
            (404, Kind::ObjectNotFound),
            (416, Kind::InvalidArgument),
            (400, Kind::InvalidArgument),
            (500, Kind::StoreUnavailable),
            (503, Kind::StoreUnavailable),
            (429, Kind::StoreUnavailable),
        ] {
            let e = generic(&format!("Server returned non-2xx status code: {status} X: body"));
            assert_eq!(from_object_store(&e, &Redactor::default()).kind(), kind, "{status}");
        }
    }

    #[test]
    fn expired_credentials_are_a_refusal() {
        let text = "status code: 400 Bad Request: <Error><Code>ExpiredToken</Code></Error>";
        let e = from_object_store(&generic(text), &Redactor::default());
        assert_eq!(e.kind(), Kind::StoreDenied);
        assert!(e.message().contains("expired"), "{e}");
    }

    #[test]
    fn slow_request_is_a_passing_failure() {
        let text = "status code: 400 Bad Request: <Code>RequestTimeout</Code>";
        let e = from_object_store(&generic(text), &Redactor::default());
        assert_eq!(e.kind(), Kind::StoreUnavailable);
    }

    #[test]
    fn no_secret_and_no_page_passes() {
        let redactor = Redactor::new([("aws_secret_access_key", "hunter2hunter2")]);
        let e = from_object_store(&generic(&format!("hunter2hunter2 {}", "x".repeat(9000))), &redactor);
        let text = format!("{e} {e:?}");
        assert!(!text.contains("hunter2") && text.len() < 3000, "{text}");
    }
}
