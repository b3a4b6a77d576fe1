//! What a follower reads of a commit: its new files, or an error if the commit isn't an append. The
//! rules are those of Spark's Delta source.

use serde::Deserialize;

use crate::actions::{Action, Add};
use crate::{Error, Kind, Result};

/// How a follower treats commits that would be refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct TailRules {
    /// Commits that only delete are skipped.
    pub ignore_deletes: bool,
    /// Commits that change rows return every row of their added files, changed or not.
    pub ignore_changes: bool,
    /// Commits that delete or change rows are skipped.
    pub skip_change_commits: bool,
}

/// The files whose rows a commit contributes, in the commit's order. Moved rows aren't new (P028).
///
/// # Errors
/// `UnsupportedFeature` for a commit that takes rows away, unless the rules say what to do with it.
pub fn new_files(actions: &[Action], rules: TailRules) -> Result<Vec<&Add>> {
    let adds: Vec<&Add> = actions.iter().filter_map(as_new).collect();
    if !actions.iter().any(takes_away) {
        return Ok(adds);
    }
    if rules.skip_change_commits {
        return Ok(Vec::new());
    }
    let ignored = rules.ignore_changes || (rules.ignore_deletes && adds.is_empty());
    if ignored {
        return Ok(adds);
    }
    let reason = match adds.is_empty() {
        true => {
            "the commit deletes rows, which a reader of new rows can't show: set ignoreDeletes or skipChangeCommits to pass over it, or read the change data feed (readChangeFeed)"
        }
        false => {
            "the commit changes or replaces rows, which a reader of new rows can't show: set skipChangeCommits to pass over it, ignoreChanges to get every row of the files that it wrote, or read the change data feed (readChangeFeed)"
        }
    };
    Err(Error::new(Kind::UnsupportedFeature, reason))
}

fn as_new(action: &Action) -> Option<&Add> {
    match action {
        Action::Add(add) if add.data_change => Some(add),
        _ => None,
    }
}

fn takes_away(action: &Action) -> bool {
    matches!(action, Action::Remove(remove) if remove.data_change)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::actions::parse_commit;

    fn add(path: &str, data_change: bool) -> String {
        format!(
            r#"{{"add":{{"path":"{path}","partitionValues":{{}},"size":1,"modificationTime":2,"dataChange":{data_change}}}}}"#
        )
    }

    fn remove(data_change: bool) -> String {
        format!(r#"{{"remove":{{"path":"old","dataChange":{data_change}}}}}"#)
    }

    fn paths(lines: &[String], rules: TailRules) -> Option<Vec<String>> {
        let actions = parse_commit(&lines.join("\n")).unwrap();
        let files = new_files(&actions, rules);
        files.ok().map(|adds| adds.iter().map(|a| a.path.clone()).collect())
    }

    #[test]
    fn what_each_kind_of_commit_gives() {
        // P028
        let rules = |ignore_deletes, ignore_changes, skip_change_commits| TailRules {
            ignore_deletes,
            ignore_changes,
            skip_change_commits,
        };
        let none = rules(false, false, false);
        let some = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        let append = [add("b", true), add("a", true), add("moved", false)];
        let compaction = [add("moved", false), remove(false)];
        let delete = [remove(true)];
        let update = [remove(true), add("new", true)];
        assert_eq!(paths(&append, none), some(&["b", "a"]));
        assert_eq!(paths(&compaction, none), some(&[]));
        for (commit, allowed) in [
            (&delete[..], [None, some(&[]), some(&[]), some(&[])]),
            (&update[..], [None, None, some(&["new"]), some(&[])]),
        ] {
            let all = [
                none,
                rules(true, false, false),
                rules(false, true, false),
                rules(false, false, true),
            ];
            assert_eq!(all.map(|r| paths(commit, r)), allowed);
        }
        assert_eq!(
            paths(&update, rules(true, true, true)),
            some(&[]),
            "passing over goes first"
        );
    }
}
