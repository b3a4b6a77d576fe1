//! Updates the properties that list columns by their logical names for columns that are renamed or
//! dropped: `delta.dataSkippingStatsColumns` (P112, P161), the columns without statistics, and the
//! columns with Bloom filters.

use deltaplane_protocol::actions::Metadata;
use deltaplane_protocol::bloom_filters;
use deltaplane_protocol::properties::{BLOOM_FILTER_COLUMNS, COLUMNS_WITHOUT_STATISTICS, Properties};
use deltaplane_protocol::schema_changes::edit::{join_path, split_path};

const KEY: &str = "delta.dataSkippingStatsColumns";

/// Renames or removes the entries at and below a path.
pub(super) fn follow(metadata: &mut Metadata, old: &[String], new: Option<&[String]>) {
    let properties = Properties::new(&metadata.configuration);
    if let Some(listed) = properties.stats_columns {
        follow_in(metadata, KEY, listed, old, new);
    }
    let own = [
        (COLUMNS_WITHOUT_STATISTICS, properties.unmeasured_columns),
        (BLOOM_FILTER_COLUMNS, properties.bloom_filter_columns),
    ];
    for (key, text) in own {
        if let Some(text) = text {
            follow_in(metadata, key, bloom_filters::listed(&text), old, new);
        }
    }
}

fn follow_in(metadata: &mut Metadata, key: &str, listed: Vec<String>, old: &[String], new: Option<&[String]>) {
    let moved = listed.into_iter().filter_map(|entry| {
        let Ok(path) = split_path(&entry) else {
            return Some(entry);
        };
        match (below(&path, old), new) {
            (None, _) => Some(join_path(&path)),
            (Some(rest), Some(new)) => Some(join_path(&[new, rest].concat())),
            (Some(_), None) => None,
        }
    });
    let text = moved.collect::<Vec<_>>().join(",");
    if text.is_empty() {
        metadata.configuration.remove(key);
    } else {
        metadata.configuration.insert(key.to_owned(), text);
    }
}

/// The rest of a path after `prefix`; `None` if it doesn't begin with that.
fn below<'a>(path: &'a [String], prefix: &[String]) -> Option<&'a [String]> {
    let (start, rest) = path.split_at_checked(prefix.len())?;
    let same = |(a, b): (&String, &String)| a.to_lowercase() == b.to_lowercase();
    start.iter().zip(prefix).all(same).then_some(rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn after(listed: &str, old: &str, new: Option<&str>) -> Option<String> {
        let mut metadata = Metadata::default();
        let keys = [KEY, BLOOM_FILTER_COLUMNS, COLUMNS_WITHOUT_STATISTICS];
        for key in keys {
            metadata.configuration.insert(key.to_owned(), listed.to_owned());
        }
        let new = new.map(|n| split_path(n).unwrap());
        follow(&mut metadata, &split_path(old).unwrap(), new.as_deref());
        let [stats, filters, unmeasured] = keys.map(|key| metadata.configuration.get(key).cloned());
        assert_eq!(stats, filters);
        assert_eq!(stats, unmeasured);
        stats
    }

    #[test]
    fn entries_follow_their_columns() {
        assert_eq!(after("a,S.x,b", "s", Some("t")).unwrap(), "a,t.x,b");
        assert_eq!(after("a,s.x", "s.x", None).unwrap(), "a");
        assert_eq!(after("a", "A", None), None);
    }
}
