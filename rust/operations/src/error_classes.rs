//! Names of the classes by which other languages raise the core's errors: one exhaustive match, so
//! that a new kind gets a class.

use deltaplane_error::Kind;

/// The class for errors of this kind.
pub fn class_name(kind: Kind) -> &'static str {
    match kind {
        Kind::TableNotFound => "TableNotFoundError",
        Kind::VersionNotFound => "VersionNotFoundError",
        Kind::TableAlreadyExists => "TableAlreadyExistsError",
        Kind::CorruptLog => "CorruptLogError",
        Kind::FileMissing | Kind::ObjectNotFound => "FileMissingError",
        Kind::CorruptFile => "CorruptFileError",
        Kind::UnsupportedFeature => "UnsupportedFeatureError",
        Kind::InvalidArgument => "InvalidArgumentError",
        Kind::SchemaMismatch => "SchemaMismatchError",
        Kind::ConstraintViolation => "ConstraintViolationError",
        Kind::UnsupportedExpression => "UnsupportedExpressionError",
        Kind::ConcurrentAppend => "ConcurrentAppendException",
        Kind::ConcurrentDeleteRead => "ConcurrentDeleteReadException",
        Kind::ConcurrentDeleteDelete => "ConcurrentDeleteDeleteException",
        Kind::MetadataChanged => "MetadataChangedException",
        Kind::ProtocolChanged => "ProtocolChangedException",
        Kind::ConcurrentTransaction => "ConcurrentTransactionException",
        Kind::ConcurrentWrite => "ConcurrentWriteException",
        Kind::StoreUnavailable => "StoreUnavailableError",
        Kind::StoreDenied => "StoreDeniedError",
        Kind::ObjectExists | Kind::Internal => "InternalError",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_does_next_decides_the_class() {
        assert_eq!(class_name(Kind::ObjectNotFound), class_name(Kind::FileMissing));
        assert_eq!(class_name(Kind::ObjectExists), "InternalError");
        assert_eq!(class_name(Kind::ConcurrentAppend), "ConcurrentAppendException");
    }
}
