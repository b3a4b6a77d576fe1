//! A table that uses every feature, for which this build's support is determined.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::schema::{Field, Primitive};

/// The columns and properties of that table.
pub(in crate::features) struct Example {
    /// Its columns.
    pub(in crate::features) fields: Vec<Field>,
    /// Its properties.
    pub(in crate::features) properties: BTreeMap<String, String>,
}

impl Example {
    /// Adds a column with this metadata.
    pub(in crate::features) fn column(&mut self, name: &str, data_type: Primitive, metadata: &[(&str, Value)]) {
        self.fields.push(Field {
            metadata: metadata.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
            ..Field::new(name, data_type, true)
        });
    }

    /// Sets a property.
    pub(in crate::features) fn property(&mut self, key: &str, value: &str) {
        self.properties.insert(key.to_owned(), value.to_owned());
    }
}
