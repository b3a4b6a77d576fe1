//! The size limit of log files that are read whole as text, so that a hostile log can't exhaust its
//! readers' memory.

use deltaplane_error::{Error, Result};

use crate::options::{Options, bytes};

/// The option's name.
pub(crate) const MAX_COMMIT_BYTES: &str = "max_commit_bytes";
/// A commit that adds a million files with statistics.
const DEFAULT_BYTES: u64 = 1 << 30;

/// The largest size, in bytes, of a commit or another text of the log that these options allow.
pub(crate) fn most(options: &Options) -> Result<u64> {
    options
        .get(MAX_COMMIT_BYTES)
        .map_or(Ok(DEFAULT_BYTES), |text| bytes(MAX_COMMIT_BYTES, text))
}

/// Refuses a text of the log beyond the limit.
pub(crate) fn check(options: &Options, key: &str, size_bytes: u64) -> Result<()> {
    let most = most(options)?;
    if size_bytes <= most {
        return Ok(());
    }
    Err(Error::corrupt_log(format!(
        "the file has {size_bytes} bytes, and a text of the log is read up to {most}: if it is sound, and this process may hold several times that in memory, raise the storage option {MAX_COMMIT_BYTES}"
    ))
    .with_path(key))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use deltaplane_error::Kind;

    #[test]
    fn the_option_moves_the_limit_and_is_named() {
        let options_of = |text: &str| Options::new([(MAX_COMMIT_BYTES.to_owned(), text.to_owned())]);
        assert!(check(&Options::default(), "k", DEFAULT_BYTES).is_ok());
        let e = check(&Options::default(), "_delta_log/1.json", DEFAULT_BYTES + 1).unwrap_err();
        assert_eq!((e.kind(), e.path()), (Kind::CorruptLog, Some("_delta_log/1.json")));
        assert!(e.to_string().contains(MAX_COMMIT_BYTES), "{e}");
        assert!(check(&options_of("2 GiB"), "k", DEFAULT_BYTES + 1).is_ok());
        assert!(check(&options_of("10"), "k", 11).is_err());
        assert_eq!(most(&options_of("many")).unwrap_err().kind(), Kind::InvalidArgument);
    }
}
