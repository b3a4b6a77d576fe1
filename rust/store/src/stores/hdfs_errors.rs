//! The meaning of a Hadoop file system's errors: Java's exceptions by class name, and those of the
//! client itself.

use deltaplane_error::{Error, Kind};
use hdfs_native::HdfsError;

use crate::error;

pub(super) fn kind(e: &HdfsError) -> Kind {
    match e {
        // The NameNode's refusal to look below a file.
        HdfsError::RPCError(_, text) if text.contains("(is not a directory)") => Kind::ObjectNotFound,
        HdfsError::RPCError(class, _) | HdfsError::FatalRPCError(class, _) => of_class(class),
        HdfsError::AlreadyExists(_) => Kind::ObjectExists,
        HdfsError::FileNotFound(_) | HdfsError::IsADirectoryError(_) => Kind::ObjectNotFound,
        HdfsError::SASLError(_) | HdfsError::GSSAPIError(..) | HdfsError::NoSASLMechanism => Kind::StoreDenied,
        HdfsError::InvalidPath(_)
        | HdfsError::InvalidArgument(_)
        | HdfsError::UrlParseError(_)
        | HdfsError::UnsupportedFeature(_)
        | HdfsError::UnsupportedErasureCodingPolicy(_) => Kind::InvalidArgument,
        _ => Kind::StoreUnavailable,
    }
}

/// By a Java class's simple name, without package and enclosing classes.
fn of_class(class: &str) -> Kind {
    match class.rsplit(['.', '$']).next().unwrap_or(class) {
        "FileAlreadyExistsException" => Kind::ObjectExists,
        "FileNotFoundException" | "ParentNotDirectoryException" => Kind::ObjectNotFound,
        "AccessControlException" | "AuthorizationException" | "InvalidToken" | "SaslException" => Kind::StoreDenied,
        "InvalidPathException"
        | "IllegalArgumentException"
        | "HadoopIllegalArgumentException"
        | "PathComponentTooLongException"
        | "UnsupportedOperationException" => Kind::InvalidArgument,
        _ => Kind::StoreUnavailable,
    }
}

pub(super) fn failed(e: &HdfsError) -> Error {
    let what = match kind(e) {
        Kind::ObjectNotFound => "the file system holds no such file",
        Kind::ObjectExists => "the file system holds this file already",
        Kind::StoreDenied => "the file system refused access; check the user and the rights",
        Kind::InvalidArgument => {
            "the file system can't do this; erasure-coded and encrypted directories hold no tables"
        }
        _ => "the file system failed to answer; check the NameNode's and DataNodes' addresses, then try again",
    };
    Error::new(kind(e), format!("{what}: {}", error::short(&e.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_s_exceptions_become_kinds() {
        for (class, meant) in [
            ("org.apache.hadoop.security.AccessControlException", Kind::StoreDenied),
            ("org.apache.hadoop.fs.ParentNotDirectoryException", Kind::ObjectNotFound),
            ("java.io.FileNotFoundException", Kind::ObjectNotFound),
            (
                "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException",
                Kind::InvalidArgument,
            ),
            (
                "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
                Kind::StoreUnavailable,
            ),
            ("java.io.IOException", Kind::StoreUnavailable),
        ] {
            let e = HdfsError::RPCError(class.to_owned(), "said\nso".to_owned());
            assert_eq!((kind(&e), failed(&e).kind()), (meant, meant), "{class}");
        }
        let below =
            "Permission denied: user=me, access=EXECUTE, path=\"/t/f\":me:me:-rw-r--r-- /t/f (is not a directory)";
        let e = HdfsError::RPCError(
            "org.apache.hadoop.security.AccessControlException".to_owned(),
            below.to_owned(),
        );
        assert_eq!(kind(&e), Kind::ObjectNotFound);
        assert!(failed(&HdfsError::NoSASLMechanism).to_string().contains("rights"));
    }
}
