//! The hidden columns of a scan: what it can return of a row besides the table's columns (P124,
//! P143). Each has two names. Commands use the reserved name; a scan also takes the short one,
//! unless a column of the table has it.

/// The decoded path of the row's file.
pub const FILE: &str = "__deltaplane_path";
/// The row's position in its file, 0 for the first, whether earlier rows are deleted or not.
pub const ROW: &str = "__deltaplane_position";
/// The row's id.
pub const ROW_ID: &str = "__deltaplane_id";
/// The version that last wrote the row.
pub const ROW_COMMIT_VERSION: &str = "__deltaplane_version";

/// The reserved and the short name of each.
pub const NAMES: [(&str, &str); 4] = [
    (FILE, "_file"),
    (ROW, "_row"),
    (ROW_ID, "_row_id"),
    (ROW_COMMIT_VERSION, "_row_commit_version"),
];

/// The reserved name of the hidden column that has this name, reserved or short.
pub fn reserved(name: &str) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|(reserved, short)| [*reserved, *short].contains(&name))
        .map(|(reserved, _)| *reserved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_lead_to_the_reserved_one() {
        for (long, short) in NAMES {
            assert_eq!((reserved(long), reserved(short)), (Some(long), Some(long)));
        }
        assert_eq!(reserved("_FILE"), None);
    }
}
