//! A key of a field's metadata that Arrow data may set, and the JSON type of its value (P103, P105,
//! P107, P108).

/// The JSON type of a key's value; Arrow's metadata has texts only.
#[derive(Clone, Copy)]
pub(in crate::features) enum Form {
    /// A text.
    Text,
    /// A whole number.
    Number,
    /// True or false.
    Flag,
}

/// One key.
#[derive(Clone, Copy)]
pub(in crate::features) struct FieldKey {
    /// Its name.
    pub(in crate::features) name: &'static str,
    /// Its value's type.
    pub(in crate::features) form: Form,
}
