//! Which protocol a table gets: the weakest that supports a set of features (P075, P093–P095). Pure
//! choice; what the caller asks for beside the metadata comes as [`crate::features::Directives`].

use std::collections::BTreeSet;

use crate::actions::Protocol;
use crate::features::{Directives, FEATURES_READER, FEATURES_WRITER, Kind, View, all, find, supported};
use crate::{Error, Result};

/// The legacy protocols, weakest first (protocol section 6).
const LEGACY: &[(i32, i32)] = &[(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)];

/// The weakest protocol that supports what this metadata asks for, what the caller asks for, and
/// all that `base` had; equal to `base` when nothing has to be added.
///
/// Errors: `InvalidArgument` for versions that no legacy protocol has.
pub fn protocol_with(base: Option<&Protocol>, view: View<'_>, asked: &Directives) -> Result<Protocol> {
    if asked.as_delta_rs {
        return protocol_in_use(base, view, asked);
    }
    let had = base.map(supported).unwrap_or_default();
    let mut set = had.clone();
    for f in all().filter(|f| (f.wanted)(view)) {
        add_with_requirements(&mut set, f.name);
    }
    for name in &asked.features {
        add_with_requirements(&mut set, name);
    }
    set.extend(implied_by_versions(base, asked)?);
    if let Some(b) = base.filter(|_| set == had) {
        return Ok(b.clone());
    }
    // Writer version 7, asked for by number, names features one by one, and no others.
    if base.is_none() && asked.min_writer_version != Some(FEATURES_WRITER) {
        set.extend(all().filter(|f| f.in_new_tables).map(|f| f.name.to_owned()));
    }
    Ok(minimum_protocol(set))
}

/// The protocol that delta-rs gives: at least the versions of `base` and those asked for, and as
/// high
/// as the features in use need; features are listed where the versions list some, those in use and
/// those that `base` lists. Features that are asked for by name are always listed.
fn protocol_in_use(base: Option<&Protocol>, view: View<'_>, asked: &Directives) -> Result<Protocol> {
    let (asked_reader, asked_writer) = check_versions(asked)?;
    let mut set: BTreeSet<String> = base
        .into_iter()
        .flat_map(|b| b.reader_features.iter().chain(&b.writer_features).flatten().cloned())
        .collect();
    for f in all().filter(|f| (f.wanted)(view)) {
        add_with_requirements(&mut set, f.name);
    }
    let is_listed = base.is_some_and(|b| b.min_writer_version == FEATURES_WRITER) || !asked.features.is_empty();
    for name in &asked.features {
        add_with_requirements(&mut set, name);
    }
    let known: Vec<_> = set.iter().filter_map(|name| find(name)).collect();
    let lists = |name: &str| asked.features.contains(name) || find(name).is_some_and(|f| f.legacy.is_none());
    let reader_lists = known.iter().any(|f| f.kind == Kind::ReaderWriter && lists(f.name));
    let writer_lists = is_listed || known.iter().any(|f| lists(f.name));
    let legacy = |f: &&crate::features::TableFeature| f.legacy.unwrap_or((1, 1));
    let (reader, writer) = base.map_or((1, 2), |b| (b.min_reader_version, b.min_writer_version));
    let highest = |own: i32, asked: i32, needed: Option<i32>| own.max(asked).max(needed.unwrap_or(1));
    let reader = match reader_lists {
        true => FEATURES_READER,
        false => highest(reader, asked_reader, known.iter().map(|f| legacy(f).0).max()),
    };
    let writer = match writer_lists || reader == FEATURES_READER {
        true => FEATURES_WRITER,
        false => highest(writer, asked_writer, known.iter().map(|f| legacy(f).1).max()),
    };
    let readers = || {
        known
            .iter()
            .filter(|f| f.kind == Kind::ReaderWriter)
            .map(|f| f.name.to_owned())
            .collect()
    };
    Ok(Protocol {
        min_reader_version: reader,
        min_writer_version: writer,
        reader_features: (reader == FEATURES_READER).then(readers),
        writer_features: (writer == FEATURES_WRITER).then(|| set.iter().cloned().collect()),
    })
}

/// [`protocol_with`] when nobody asks for more than the metadata does.
pub fn protocol_for(base: Option<&Protocol>, view: View<'_>) -> Result<Protocol> {
    protocol_with(base, view, &Directives::default())
}

/// The protocol without one feature, the other ones as they were.
pub(in crate::features) fn without(base: &Protocol, feature: &str) -> Protocol {
    let mut set = supported(base);
    set.remove(feature);
    minimum_protocol(set)
}

/// The protocol with one feature more.
pub(in crate::features) fn with(base: &Protocol, feature: &str) -> Protocol {
    let mut set = supported(base);
    add_with_requirements(&mut set, feature);
    minimum_protocol(set)
}

/// A `-preview` name represents the final feature: the two are never listed together (P098).
fn add_with_requirements(set: &mut BTreeSet<String>, name: &str) {
    if set.contains(name) || set.contains(&format!("{name}-preview")) {
        return;
    }
    set.insert(name.to_owned());
    for required in find(name).into_iter().flat_map(|f| f.requires) {
        add_with_requirements(set, required);
    }
}

/// Refuses versions that no protocol has; returns them, for reader and writer.
pub fn check_versions(asked: &Directives) -> Result<(i32, i32)> {
    let reader = asked.min_reader_version.unwrap_or(1);
    let writer = asked.min_writer_version.unwrap_or(1);
    if !(1..=FEATURES_READER).contains(&reader) || !(1..=FEATURES_WRITER).contains(&writer) {
        return Err(Error::invalid_argument(format!(
            "there is no protocol ({reader}, {writer}): reader versions go from 1 to {FEATURES_READER}, writer versions from 1 to {FEATURES_WRITER}"
        )));
    }
    Ok((reader, writer))
}

/// What the versions that the caller asks for imply. A table isn't upgraded to lists of features
/// for readers alone.
fn implied_by_versions(base: Option<&Protocol>, asked: &Directives) -> Result<BTreeSet<String>> {
    let (reader, writer) = check_versions(asked)?;
    if base.is_some() && reader == FEATURES_READER && writer < FEATURES_WRITER {
        return Err(Error::invalid_argument(format!(
            "reader version {FEATURES_READER} needs writer version {FEATURES_WRITER} (P092): raise both"
        )));
    }
    // Version 7 names features one by one: on its own it asks for none.
    if writer == FEATURES_WRITER {
        return Ok(BTreeSet::new());
    }
    // A reader version that the writer version is too low for adds nothing (P092), as in
    // delta-spark.
    let highest = if writer < 5 { 1 } else { 2 };
    Ok(supported(&legacy(reader.min(highest), writer)))
}

fn legacy(reader: i32, writer: i32) -> Protocol {
    Protocol {
        min_reader_version: reader,
        min_writer_version: writer,
        reader_features: None,
        writer_features: None,
    }
}

/// A legacy protocol where one supports exactly this set, else the lists.
fn minimum_protocol(set: BTreeSet<String>) -> Protocol {
    let plain = LEGACY.iter().map(|(r, w)| legacy(*r, *w));
    if let Some(exact) = plain.into_iter().find(|p| supported(p) == set) {
        return exact;
    }
    let readers: Vec<&String> = set
        .iter()
        .filter(|n| find(n).is_some_and(|f| f.kind == Kind::ReaderWriter))
        .collect();
    let legacy_reader = |n: &str| find(n).and_then(|f| f.legacy).map(|(r, _)| r);
    // Features that reader version 2 implies need no list of reader features (P092).
    if readers.iter().all(|n| legacy_reader(n).is_some()) {
        return Protocol {
            min_reader_version: readers.iter().filter_map(|n| legacy_reader(n)).max().unwrap_or(1),
            min_writer_version: FEATURES_WRITER,
            reader_features: None,
            writer_features: Some(set.into_iter().collect()),
        };
    }
    Protocol {
        min_reader_version: FEATURES_READER,
        min_writer_version: FEATURES_WRITER,
        reader_features: Some(readers.into_iter().cloned().collect()),
        writer_features: Some(set.into_iter().collect()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::features::tests::{protocol, with};

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| (*n).to_owned()).collect()
    }

    fn ask(features: &[&str], reader: Option<i32>, writer: Option<i32>) -> Directives {
        Directives {
            features: set(features),
            min_reader_version: reader,
            min_writer_version: writer,
            as_delta_rs: false,
        }
    }

    fn upgraded(base: &Protocol, asked: &Directives) -> Protocol {
        with(vec![], &[], |v| protocol_with(Some(base), v, asked)).unwrap()
    }

    #[test]
    fn versions_are_the_lowest_that_name_the_set() {
        // P075, P095: sets count, version numbers may fall
        let six = set(&[
            "appendOnly",
            "invariants",
            "changeDataFeed",
            "generatedColumns",
            "columnMapping",
            "identityColumns",
            "checkConstraints",
        ]);
        assert_eq!(minimum_protocol(six), protocol(2, 6, None, None));
        let checks = upgraded(&protocol(1, 2, None, None), &ask(&["checkConstraints"], None, None));
        assert_eq!(checks, protocol(1, 3, None, None));
        let mapping = upgraded(&protocol(1, 2, None, None), &ask(&["columnMapping"], None, None));
        let listed = ["appendOnly", "columnMapping", "invariants"];
        assert_eq!(mapping, protocol(2, 7, None, Some(&listed)));
    }

    #[test]
    fn asked_versions_bring_what_they_imply() {
        // P094, P096
        let base = protocol(1, 2, None, None);
        assert_eq!(upgraded(&base, &ask(&[], Some(2), Some(5))), protocol(2, 5, None, None));
        assert_eq!(upgraded(&base, &ask(&[], Some(3), Some(7))), base);
        // no downgrade
        let six = protocol(2, 6, None, None);
        assert_eq!(upgraded(&six, &ask(&[], Some(1), Some(2))), six);
    }

    #[test]
    fn versions_that_do_not_exist_are_refused() {
        // P092
        for (r, w) in [(4, 7), (1, 8), (0, 2)] {
            let asked = ask(&[], Some(r), Some(w));
            assert!(
                with(vec![], &[], |v| protocol_with(None, v, &asked)).is_err(),
                "{r} {w}"
            );
        }
    }

    #[test]
    fn reader_versions_that_the_writer_version_is_too_low_for_add_nothing() {
        // P092
        for (asked, made) in [((3, 6), (2, 6)), ((2, 4), (1, 4)), ((2, 2), (1, 2)), ((3, 2), (1, 2))] {
            let versions = ask(&[], Some(asked.0), Some(asked.1));
            let new = with(vec![], &[], |v| protocol_with(None, v, &versions)).unwrap();
            assert_eq!(new, protocol(made.0, made.1, None, None), "{asked:?}");
            let base = protocol(1, 2, None, None);
            match asked.0 {
                3 => assert!(with(vec![], &[], |v| protocol_with(Some(&base), v, &versions)).is_err()),
                _ => assert_eq!(upgraded(&base, &versions), new, "{asked:?}"),
            }
        }
    }

    #[test]
    fn requirements_come_along_and_previews_are_not_doubled() {
        // P093, P098
        let base = protocol(1, 2, None, None);
        let three = upgraded(&base, &ask(&["icebergCompatV3"], None, None));
        let listed = three.writer_features.unwrap();
        for needed in ["columnMapping", "rowTracking", "domainMetadata"] {
            assert!(listed.iter().any(|n| n == needed), "{needed}");
        }
        let preview = protocol(3, 7, Some(&["typeWidening-preview"]), Some(&["typeWidening-preview"]));
        assert_eq!(upgraded(&preview, &ask(&["typeWidening"], None, None)), preview);
    }

    #[test]
    fn delta_rs_lists_the_features_in_use() {
        let as_delta_rs = |features: &[&str], reader, writer| Directives {
            as_delta_rs: true,
            ..ask(features, reader, writer)
        };
        let base = protocol(1, 2, None, None);
        let cases = [
            // Versions are lower bounds and imply no feature.
            (as_delta_rs(&[], Some(1), Some(5)), protocol(1, 5, None, None)),
            (as_delta_rs(&[], Some(1), Some(7)), protocol(1, 7, None, Some(&[]))),
            (as_delta_rs(&[], Some(3), Some(7)), protocol(3, 7, Some(&[]), Some(&[]))),
            // Features that are asked for are listed alone.
            (
                as_delta_rs(&["changeDataFeed"], None, None),
                protocol(1, 7, None, Some(&["changeDataFeed"])),
            ),
            (
                as_delta_rs(&["deletionVectors"], None, None),
                protocol(3, 7, Some(&["deletionVectors"]), Some(&["deletionVectors"])),
            ),
        ];
        for (asked, expected) in cases {
            assert_eq!(upgraded(&base, &asked), expected, "{asked:?}");
        }
        let feed = [("delta.enableChangeDataFeed", "true")];
        let new = |asked: &Directives| with(vec![], &feed, |v| protocol_with(None, v, asked)).unwrap();
        assert_eq!(new(&as_delta_rs(&[], None, None)), protocol(1, 4, None, None));
        let listed = protocol(1, 7, None, Some(&["changeDataFeed"]));
        assert_eq!(new(&as_delta_rs(&[], None, Some(7))), listed);
        // A list keeps what it has.
        let (rows, both) = (["rowTracking"], ["domainMetadata", "rowTracking"]);
        let lists = protocol(1, 7, None, Some(&both));
        assert_eq!(upgraded(&lists, &as_delta_rs(&rows, None, None)), lists);
    }

    #[test]
    fn taking_a_feature_away_may_return_to_a_legacy_protocol() {
        let listed = ["appendOnly", "invariants", "v2Checkpoint"];
        let lists = protocol(3, 7, Some(&["v2Checkpoint"]), Some(&listed));
        assert_eq!(without(&lists, "v2Checkpoint"), protocol(1, 2, None, None));
    }
}
