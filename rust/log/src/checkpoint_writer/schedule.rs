//! After how many commits a checkpoint is due: the table's interval, or an interval that balances
//! costs. Pure.

/// Commits between checkpoints of a table without its own interval and with cheap checkpoints.
const USUAL: u64 = 10;
/// Most commits after the checkpoint of a table without its own interval: opening the table reads
/// each of them.
const MOST: u64 = 100;
/// Fewest commits between checkpoints of such a table while many writers commit at once. Ten
/// commits then take a few milliseconds, and reading fifty costs a reader less than a millisecond
/// more.
const AMONG_MANY: u64 = 50;
/// Bytes of a checkpoint that may be written for each byte of the commits that it replaces.
const WRITTEN_FOR_A_BYTE: u64 = 16;
/// Bytes of commits after which a checkpoint is always due, however large it is.
const MOST_BYTES: u64 = 32 << 20;
/// Assumed size of a commit that adds one file, if none is known.
const USUAL_COMMIT_BYTES: u64 = 1 << 10;

/// The facts that decide.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tail {
    /// `delta.checkpointInterval`, if the table sets it.
    pub asked: Option<u64>,
    /// Whether the next checkpoint writes only what changed.
    pub incremental: bool,
    /// Whether many writers are committing now.
    pub among_many: bool,
    /// Bytes of the newest checkpoint; 0 where there is none.
    pub checkpoint_bytes: u64,
    /// Commits after it.
    pub commits: u64,
    /// Bytes of these commits.
    pub commit_bytes: u64,
}

impl Tail {
    /// Commits after which a checkpoint is due. Without an interval of the table it grows with the
    /// checkpoint's size, so that checkpoints take a bounded share of the time of commits, up to
    /// the number of commits that slows readers down.
    pub(crate) fn interval(&self) -> u64 {
        if let Some(asked) = self.asked {
            return asked;
        }
        let fewest = if self.among_many { AMONG_MANY } else { USUAL };
        if self.incremental {
            return fewest;
        }
        let mean = self.commit_bytes.checked_div(self.commits);
        let of_bytes = |bytes: u64| bytes.div_ceil(mean.unwrap_or(USUAL_COMMIT_BYTES).max(1));
        let pays = of_bytes(self.checkpoint_bytes.div_ceil(WRITTEN_FOR_A_BYTE)).max(fewest);
        let commits = pays.min(of_bytes(MOST_BYTES));
        commits.min(MOST).next_multiple_of(USUAL).clamp(USUAL, MOST)
    }

    /// Whether a checkpoint of this version is due. Due versions are multiples of the interval, as
    /// in other engines. With an interval above the default, multiples of the default are due as
    /// well, once that many commits follow the checkpoint.
    pub(crate) fn is_due(&self, version: u64) -> bool {
        let interval = self.interval();
        let (every, waited) = match self.is_longer() {
            true => (USUAL, self.commits >= interval),
            false => (interval, true),
        };
        version > 0 && version.is_multiple_of(every) && waited
    }

    /// Whether it waits for more commits than the default, without being asked to.
    pub(crate) fn is_longer(&self) -> bool {
        self.asked.is_none() && self.interval() > USUAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn tail(checkpoint_bytes: u64, commits: u64, commit_bytes: u64) -> Tail {
        Tail {
            checkpoint_bytes,
            commits,
            commit_bytes,
            ..Tail::default()
        }
    }

    fn due(t: Tail, versions: std::ops::RangeInclusive<u64>) -> Vec<u64> {
        versions.filter(|v| t.is_due(*v)).collect()
    }

    #[test]
    fn what_the_table_says_is_exact() {
        let t = Tail {
            asked: Some(3),
            ..tail(1 << 40, 1, 1)
        };
        assert_eq!((t.interval(), due(t, 0..=10)), (3, vec![3, 6, 9]));
    }

    #[test]
    fn small_tables_have_one_every_ten_commits_whoever_wrote_the_last() {
        for t in [tail(0, 0, 0), tail(0, 7, 7 * KIB), tail(100 * KIB, 3, 3 * KIB)] {
            assert_eq!(due(t, 0..=30), [10, 20, 30], "{t:?}");
        }
    }

    #[test]
    fn one_that_costs_more_waits_for_more_commits_and_never_for_long() {
        let after = |commits: u64| tail(MIB, commits, commits * KIB);
        // A mebibyte is sixteen times the size of 64 such commits.
        assert_eq!(after(1).interval(), 70);
        assert!(!after(69).is_due(70) && after(70).is_due(70));
        // While waiting it isn't due at every version: otherwise all writers would write one.
        assert_eq!(due(after(75), 70..=90), [70, 80, 90]);
        let large = |commits: u64| tail(1 << 40, commits, commits * KIB);
        assert!(!large(99).is_due(100) && large(100).is_due(100));
    }

    #[test]
    fn among_many_writers_one_waits_for_more_commits_unless_the_table_says() {
        let busy = |t: Tail| Tail { among_many: true, ..t };
        assert!(!busy(tail(0, 49, 49 * KIB)).is_due(50) && busy(tail(0, 50, 50 * KIB)).is_due(50));
        assert!(busy(tail(0, 53, 53 * KIB)).is_due(60));
        assert_eq!(busy(tail(1 << 40, 5, 5 * KIB)).interval(), MOST);
        assert_eq!(busy(tail(0, 5, 5 * 8 * MIB)).interval(), 10);
        let asked = busy(Tail {
            asked: Some(3),
            ..tail(0, 3, 3 * KIB)
        });
        assert!(asked.is_due(3));
    }

    #[test]
    fn large_commits_are_not_left_to_stand() {
        assert_eq!(tail(1 << 40, 4, 4 * 4 * MIB).interval(), 10);
        assert_eq!(tail(1 << 40, 4, 4 * MIB).interval(), 40);
    }

    #[test]
    fn what_changed_alone_is_cheap() {
        let t = Tail {
            incremental: true,
            ..tail(1 << 40, 1, KIB)
        };
        assert_eq!(t.interval(), 10);
        let among_many = Tail { among_many: true, ..t };
        assert_eq!(among_many.interval(), AMONG_MANY);
    }

    #[test]
    fn checkpoints_write_no_more_than_their_share_up_to_the_bound() {
        for checkpoint in (0..30).map(|n| 1u64 << n) {
            for commit in [1, 100, KIB, 100 * KIB, 10 * MIB] {
                let t = tail(checkpoint, 5, 5 * commit);
                let interval = t.interval();
                assert!((USUAL..=MOST).contains(&interval));
                assert!(
                    interval == MOST || checkpoint <= WRITTEN_FOR_A_BYTE * interval * commit,
                    "{t:?}"
                );
                // More bytes or commits never reverse a decision.
                let more = Tail {
                    commit_bytes: t.commit_bytes * 2,
                    ..t
                };
                assert!(more.interval() <= interval);
                let dearer = Tail {
                    checkpoint_bytes: checkpoint * 2,
                    ..t
                };
                assert!(dearer.interval() >= interval);
            }
        }
    }
}
