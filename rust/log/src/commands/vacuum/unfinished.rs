//! VACUUMs that started without a recorded end, by the commits of a range of versions: the files
//! that they are about to delete are unknown, so nothing may be restored meanwhile.

use deltaplane_error::{Error, Kind, Result};
use serde_json::Value;

use crate::commit::reader::Commit;

/// The operations that record a VACUUM.
pub(crate) const START: &str = "VACUUM START";
pub(crate) const END: &str = "VACUUM END";
/// The field of the end's commit with the start's version; other writers leave it out.
pub(crate) const START_VERSION: &str = "vacuumStartVersion";
/// How long a VACUUM deletes at most; a longer one ends with an error, and the next one continues.
pub(crate) const LONGEST_MS: i64 = 20 * 3_600_000;
/// How long a start without an end counts: the clocks of two machines may differ by some hours.
const BELIEVED_MS: i64 = 24 * 3_600_000;

/// Starts without an end: version and time.
#[derive(Default)]
pub(crate) struct Unfinished(Vec<(u64, i64)>);

impl Unfinished {
    /// Processes the next commit.
    pub(crate) fn see(&mut self, commit: &Commit) -> Result<()> {
        let info = commit.info()?;
        let number = |name: &str| info.get(name).and_then(Value::as_i64);
        match info.get("operation").and_then(Value::as_str) {
            Some(START) => self.0.push((commit.version(), number("timestamp").unwrap_or(i64::MAX))),
            Some(END) => self.ended(number(START_VERSION).and_then(|v| u64::try_from(v).ok())),
            _ => {}
        }
        Ok(())
    }

    /// Records the end of the VACUUM that started at that version, or of the oldest one.
    fn ended(&mut self, start: Option<u64>) {
        match start {
            Some(start) => self.0.retain(|(version, _)| *version != start),
            None if self.0.is_empty() => {}
            None => {
                self.0.remove(0);
            }
        }
    }

    /// Refuses to restore files while a VACUUM may still be deleting.
    pub(crate) fn check(&self, now_ms: i64) -> Result<()> {
        let believed = |(_, began_ms): &&(u64, i64)| now_ms.saturating_sub(*began_ms) < BELIEVED_MS;
        match self.0.iter().find(believed) {
            None => Ok(()),
            Some((version, _)) => Err(Error::new(
                Kind::ConcurrentWrite,
                format!(
                    "the VACUUM that began with version {version} hasn't said that it ended, and may be about to delete files that would come back: restore again when it has ended; if its process is gone, say so (ignore_unfinished_vacuum=True)"
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_end_ends_its_own_start_and_a_foreign_one_the_oldest() {
        let unfinished = |starts: &[u64]| Unfinished(starts.iter().map(|v| (*v, 1_000)).collect());
        for (end, left) in [(Some(7), &[5][..]), (Some(3), &[5, 7]), (None, &[7])] {
            let mut two = unfinished(&[5, 7]);
            two.ended(end);
            assert_eq!(two.0, unfinished(left).0, "{end:?}");
        }
        let mut none = unfinished(&[]);
        none.ended(None);
        assert!(none.check(0).is_ok());
    }

    #[test]
    fn a_start_is_believed_for_a_day() {
        let unfinished = Unfinished(vec![(5, 1_000)]);
        let e = unfinished.check(1_000 + BELIEVED_MS - 1).unwrap_err();
        assert_eq!(e.kind(), Kind::ConcurrentWrite);
        assert!(e.to_string().contains("version 5"), "{e}");
        assert!(unfinished.check(1_000 + BELIEVED_MS).is_ok());
        // Without a time it may have started just now.
        assert!(Unfinished(vec![(5, i64::MAX)]).check(i64::MAX).is_err());
    }
}
