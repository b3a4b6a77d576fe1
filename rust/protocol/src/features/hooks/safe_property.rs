//! A property that another writer may set while a transaction runs, where its feature is supported
//! (section 5.1 rule 2).

/// One property.
#[derive(Clone, Copy)]
pub(in crate::features) struct SafeProperty {
    /// Its key.
    pub(in crate::features) key: &'static str,
    /// Whether this change of its value, from the old one to the new one, is harmless.
    pub(in crate::features) allows: fn(Option<&str>, &str) -> bool,
}

pub(in crate::features) const fn safe(key: &'static str, allows: fn(Option<&str>, &str) -> bool) -> SafeProperty {
    SafeProperty { key, allows }
}

/// Any change.
pub(in crate::features) fn always(_: Option<&str>, _: &str) -> bool {
    true
}

/// A property that becomes true.
pub(in crate::features) fn switched_on(_: Option<&str>, new: &str) -> bool {
    new.eq_ignore_ascii_case("true")
}

/// A property that had no value.
pub(in crate::features) fn first_set(old: Option<&str>, _: &str) -> bool {
    old.is_none()
}
