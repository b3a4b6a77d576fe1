//! What a version says of its table, and what this build knows of features and properties, in the
//! form in which users see it.

use std::collections::BTreeMap;

use deltaplane_error::Result;
use deltaplane_protocol::actions::{Metadata, Protocol};
use deltaplane_protocol::features::{self, Directives, Kind, supported};
use deltaplane_protocol::properties::{KNOWN, OWN, Properties, Values, canonical_key};
use serde::{Deserialize, Serialize, Serializer};

/// The table's metadata without its columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableInfo {
    /// GUID of the table.
    pub id: String,
    /// User's name for the table.
    pub name: Option<String>,
    /// User's description.
    pub description: Option<String>,
    /// Names of the partition columns, in directory order.
    pub partition_columns: Vec<String>,
    /// Milliseconds since the epoch.
    pub created_time: Option<i64>,
    /// Table properties.
    pub configuration: BTreeMap<String, String>,
}

impl From<&Metadata> for TableInfo {
    fn from(m: &Metadata) -> Self {
        TableInfo {
            id: m.id.clone(),
            name: m.name.clone(),
            description: m.description.clone(),
            partition_columns: m.partition_columns.clone(),
            created_time: m.created_time,
            configuration: m.configuration.clone(),
        }
    }
}

/// A protocol with all features that it lists or that its versions imply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Protocol")]
pub struct ProtocolInfo {
    /// Lowest reader version.
    pub min_reader_version: i32,
    /// Lowest writer version.
    pub min_writer_version: i32,
    /// Reader features, if it lists some.
    pub reader_features: Option<Vec<String>>,
    /// Writer features, if it lists some.
    pub writer_features: Option<Vec<String>>,
    /// Features that are supported, listed or implied.
    pub features: Vec<String>,
}

impl From<&Protocol> for ProtocolInfo {
    fn from(p: &Protocol) -> Self {
        ProtocolInfo {
            min_reader_version: p.min_reader_version,
            min_writer_version: p.min_writer_version,
            reader_features: p.reader_features.clone(),
            writer_features: p.writer_features.clone(),
            features: supported(p).into_iter().map(|f| f.to_string()).collect(),
        }
    }
}

/// Writes a protocol as its [`ProtocolInfo`].
pub(crate) fn as_info<S: Serializer>(protocol: &Protocol, serializer: S) -> Result<S::Ok, S::Error> {
    ProtocolInfo::from(protocol).serialize(serializer)
}

/// A table's protocol before and after a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocols {
    /// Before; of a table that the commit makes, the lowest one.
    pub before: ProtocolInfo,
    /// After.
    pub after: ProtocolInfo,
}

impl From<(Protocol, Protocol)> for Protocols {
    fn from((before, after): (Protocol, Protocol)) -> Self {
        Protocols {
            before: (&before).into(),
            after: (&after).into(),
        }
    }
}

/// A feature that this build knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureInfo {
    /// Its name in a protocol.
    pub name: String,
    /// Whether readers must know it.
    pub reader: bool,
    /// The lowest reader and writer versions that imply it.
    pub legacy: Option<(i32, i32)>,
    /// Features that it needs.
    pub requires: Vec<String>,
    /// Whether this build reads tables that have it.
    pub reads: bool,
    /// Whether this build writes tables that have it.
    pub writes: bool,
}

/// Every feature of the protocol that this build knows, with what it can do with a table that
/// supports it.
pub fn known_features() -> Vec<FeatureInfo> {
    let all = features::all().map(|f| FeatureInfo {
        name: f.name.to_owned(),
        reader: f.kind == Kind::ReaderWriter,
        legacy: f.legacy,
        requires: f.requires.iter().map(|name| (*name).to_owned()).collect(),
        reads: features::reads(f),
        writes: features::writes(f),
    });
    all.collect()
}

/// A table property that Delta knows, or one of this project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PropertyInfo {
    /// Its name.
    pub key: String,
    /// The values that it takes, in words.
    pub values: String,
    /// The value that it has where it isn't set.
    pub default: Option<String>,
    /// What it means.
    pub meaning: String,
    /// Whether users may set it.
    pub settable: bool,
}

/// Refuses properties that Delta doesn't know and values that aren't legal, each property on its
/// own: for a write that ignores properties because its table has its own.
///
/// # Errors
/// `InvalidArgument` for a key or a value, `UnsupportedFeature` for a feature.
pub fn check_properties(properties: &BTreeMap<String, String>) -> Result<()> {
    let mut others = properties.clone();
    let asked = Directives::take(&mut others)?;
    features::check_versions(&asked)?;
    let canonical = others.into_iter().map(|(key, value)| Ok((canonical_key(&key)?, value)));
    Properties::validate_each(&canonical.collect::<Result<_>>()?)
}

/// Every table property that Delta knows, then those of this project.
pub fn known_properties() -> Vec<PropertyInfo> {
    let own = OWN.iter().map(|o| PropertyInfo {
        key: o.key.to_owned(),
        values: o.values.to_owned(),
        default: o.default.map(str::to_owned),
        meaning: o.meaning.to_owned(),
        settable: true,
    });
    let all = KNOWN.iter().map(|k| PropertyInfo {
        key: k.key(),
        values: k.values.describe(),
        default: k.default.map(str::to_owned),
        meaning: k.meaning.to_owned(),
        settable: k.values != Values::Internal,
    });
    all.chain(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_tells_the_features_that_its_versions_imply() {
        let legacy = Protocol {
            min_reader_version: 1,
            min_writer_version: 2,
            ..Protocol::default()
        };
        let info = ProtocolInfo::from(&legacy);
        assert_eq!(
            (info.reader_features.as_ref(), info.writer_features.as_ref()),
            (None, None)
        );
        assert_eq!(info.features.len(), 2, "{info:?}");
        let written = serde_json::to_value(&info).unwrap();
        assert_eq!(written["features"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn features_and_properties_are_known_once_each() {
        let features = known_features();
        let names: std::collections::BTreeSet<_> = features.iter().map(|f| &f.name).collect();
        assert_eq!(names.len(), features.len());
        assert!(features.iter().any(|f| f.reads && f.writes) && features.iter().any(|f| !f.reads));
        let properties = known_properties();
        let keys: std::collections::BTreeSet<_> = properties.iter().map(|p| &p.key).collect();
        assert_eq!(keys.len(), properties.len());
    }
}
