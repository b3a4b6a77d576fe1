//! Which row groups of a classic checkpoint contain only live files, as deltaplane's footers record
//! it.

use std::ops::Range;

use crate::checkpoint::part::Part;

/// The footer's key for the row groups that contain only live files.
pub(crate) const GROUPS_KEY: &str = "deltaplane.groups";

/// Row groups that contain only live files: first some in the checkpoint's order, then those of
/// files added since, sorted among themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveGroups {
    pub sorted: Range<usize>,
    pub recent: Range<usize>,
}

impl LiveGroups {
    /// From the indexes of these groups.
    pub(crate) fn between(first: usize, sorted_until: usize, until: usize) -> Self {
        LiveGroups {
            sorted: first..sorted_until,
            recent: sorted_until..until,
        }
    }

    /// The groups that an opened file of deltaplane records.
    pub(crate) fn of(part: &Part) -> Option<Self> {
        part.own_mark(GROUPS_KEY).and_then(LiveGroups::from_text)
    }

    /// As the footer's text.
    pub(crate) fn to_text(&self) -> String {
        format!("{} {} {}", self.sorted.start, self.sorted.end, self.recent.end)
    }

    /// From the footer's text; `None` if it is invalid.
    fn from_text(text: &str) -> Option<Self> {
        let numbers: Vec<usize> = text.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
        match numbers.as_slice() {
            [first, sorted, until] if first <= sorted && sorted <= until => {
                Some(LiveGroups::between(*first, *sorted, *until))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_note_says_which_groups() {
        let groups = LiveGroups::between(1, 11, 12);
        assert_eq!((groups.sorted.clone(), groups.recent.clone()), (1..11, 11..12));
        assert_eq!(LiveGroups::from_text(&groups.to_text()), Some(groups));
        for none in ["", "1 2", "2 1 3", "1 2 x", "1 2 3 4", "-1 2 3"] {
            assert_eq!(LiveGroups::from_text(none), None, "{none}");
        }
    }
}
