//! Errors of a catalog: the types that the API names, each with its HTTP status, and what they
//! mean to callers of deltaplane ([`deltaplane_error::Kind`]).

use std::fmt;

use deltaplane_error::{Error, Kind};

/// Results of this crate.
pub type Result<T, E = CatalogError> = std::result::Result<T, E>;

macro_rules! error_types {
    ($($name:ident $text:literal $status:literal $classic:literal $doc:literal),* $(,)?) => {
        /// What went wrong, by the names of the Delta API (`DeltaErrorType` in `api/delta.yaml`).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorType {
            $(#[doc = $doc] $name,)*
        }

        impl ErrorType {
            /// All types.
            pub const ALL: &[ErrorType] = &[$(ErrorType::$name),*];

            /// The name in answers of the Delta API.
            pub fn name(self) -> &'static str {
                match self { $(ErrorType::$name => $text),* }
            }

            /// The HTTP status of an answer with this type.
            pub fn status(self) -> u16 {
                match self { $(ErrorType::$name => $status),* }
            }

            /// The `error_code` in answers of the classic API (`api/all.yaml`).
            pub fn classic_code(self) -> &'static str {
                match self { $(ErrorType::$name => $classic),* }
            }
        }
    };
}

error_types! {
    BadRequest "BadRequestException" 400 "INVALID_ARGUMENT" "The request is malformed.",
    InvalidParameterValue "InvalidParameterValueException" 400 "INVALID_ARGUMENT" "A value of the request is not valid.",
    UnsupportedTableFormat "UnsupportedTableFormatException" 400 "UNIMPLEMENTED" "The table is not a Delta table.",
    NotAuthorized "NotAuthorizedException" 401 "UNAUTHENTICATED" "The token is missing, expired or unknown.",
    PermissionDenied "PermissionDeniedException" 403 "PERMISSION_DENIED" "The token lacks the right.",
    NotFound "NotFoundException" 404 "NOT_FOUND" "The endpoint or resource does not exist.",
    NoSuchCatalog "NoSuchCatalogException" 404 "CATALOG_NOT_FOUND" "The catalog does not exist.",
    NoSuchSchema "NoSuchSchemaException" 404 "SCHEMA_NOT_FOUND" "The schema or its catalog does not exist.",
    NoSuchTable "NoSuchTableException" 404 "TABLE_NOT_FOUND" "The table or staging table does not exist.",
    AlreadyExists "AlreadyExistsException" 409 "ALREADY_EXISTS" "The name is taken.",
    CommitVersionConflict "CommitVersionConflictException" 409 "COMMIT_VERSION_CONFLICT" "Another commit has this version.",
    UpdateRequirementConflict "UpdateRequirementConflictException" 409 "UPDATE_REQUIREMENT_CONFLICT" "The table's identity or etag differs.",
    ResourceExhausted "ResourceExhaustedException" 429 "RESOURCE_EXHAUSTED" "Too many commits are unpublished.",
    TooManyRequests "TooManyRequestsException" 429 "RESOURCE_EXHAUSTED" "The server throttles this client.",
    CommitStateUnknown "CommitStateUnknownException" 500 "INTERNAL" "Whether the commit happened is unknown: load the table.",
    InternalServerError "InternalServerErrorException" 500 "INTERNAL" "The server failed.",
    NotImplemented "NotImplementedException" 501 "UNIMPLEMENTED" "The server lacks the function.",
    Unavailable "ServiceUnavailableException" 503 "UNAVAILABLE" "The server can't be reached or is stopping.",
    InvalidAnswer "InvalidAnswer" 502 "INTERNAL" "The server's answer breaks the API's rules.",
}

impl ErrorType {
    /// The type with this name, if it is known.
    pub fn from_name(name: &str) -> Option<ErrorType> {
        Self::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The closest type for an HTTP status without a known name.
    pub fn from_status(status: u16) -> ErrorType {
        match status {
            401 => ErrorType::NotAuthorized,
            403 => ErrorType::PermissionDenied,
            404 => ErrorType::NotFound,
            409 => ErrorType::UpdateRequirementConflict,
            429 => ErrorType::TooManyRequests,
            501 => ErrorType::NotImplemented,
            502..=504 => ErrorType::Unavailable,
            400..=499 => ErrorType::BadRequest,
            _ => ErrorType::InternalServerError,
        }
    }

    /// The kind by which callers outside of this crate decide what to do next.
    pub fn kind(self) -> Kind {
        match self {
            ErrorType::BadRequest | ErrorType::InvalidParameterValue => Kind::InvalidArgument,
            ErrorType::UnsupportedTableFormat | ErrorType::NotImplemented => Kind::UnsupportedFeature,
            ErrorType::NotAuthorized | ErrorType::PermissionDenied => Kind::StoreDenied,
            ErrorType::NotFound | ErrorType::NoSuchCatalog | ErrorType::NoSuchSchema | ErrorType::NoSuchTable => {
                Kind::TableNotFound
            }
            ErrorType::AlreadyExists => Kind::TableAlreadyExists,
            ErrorType::CommitVersionConflict => Kind::ConcurrentWrite,
            ErrorType::UpdateRequirementConflict => Kind::MetadataChanged,
            ErrorType::ResourceExhausted
            | ErrorType::TooManyRequests
            | ErrorType::CommitStateUnknown
            | ErrorType::InternalServerError
            | ErrorType::Unavailable => Kind::StoreUnavailable,
            ErrorType::InvalidAnswer => Kind::CorruptLog,
        }
    }

    /// Whether a request that was answered so has certainly changed nothing.
    pub fn rules_out_change(self) -> bool {
        !matches!(
            self,
            ErrorType::CommitStateUnknown
                | ErrorType::InternalServerError
                | ErrorType::Unavailable
                | ErrorType::InvalidAnswer
        )
    }
}

/// An error of a catalog. Its message never contains tokens or credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct CatalogError {
    /// What went wrong.
    pub error_type: ErrorType,
    /// What was attempted, what was found, and what to do.
    pub message: String,
}

impl CatalogError {
    /// An error of this type.
    pub fn new(error_type: ErrorType, message: impl Into<String>) -> Self {
        CatalogError {
            error_type,
            message: message.into(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorType::InvalidParameterValue, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorType::InternalServerError, message)
    }
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error_type.name(), self.message)
    }
}

impl std::error::Error for CatalogError {}

impl From<CatalogError> for Error {
    fn from(error: CatalogError) -> Self {
        let kind = error.error_type.kind();
        Error::new(kind, error.message.clone()).with_source(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_type() {
        for kind in ErrorType::ALL {
            assert_eq!(ErrorType::from_name(kind.name()), Some(*kind));
        }
        assert_eq!(ErrorType::from_name("Surprise"), None);
        assert_eq!(ErrorType::from_status(418), ErrorType::BadRequest);
    }

    #[test]
    fn an_unclear_outcome_never_rules_out_the_commit() {
        for kind in ErrorType::ALL {
            let rules_out = kind.kind().rules_out_commit();
            assert!(!rules_out || kind.rules_out_change(), "{kind:?}");
        }
    }
}
