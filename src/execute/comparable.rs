//! What a cell found and left of the server's settings, against what it should have found.

use std::collections::BTreeMap;

/// Settings of the variant that a cell no longer found, as sentences: a server that was restarted under an
/// earlier cell has forgotten what SET GLOBAL told it.
pub(super) fn lost(
    expected: &BTreeMap<String, String>,
    before: &BTreeMap<String, String>,
) -> Vec<String> {
    expected
        .iter()
        .filter_map(|(name, applied)| match before.get(name) {
            Some(found) if found == applied => None,
            Some(found) => Some(format!(
                "{name} was {found} at the start of the cell, {applied} when the variant was applied"
            )),
            None => Some(format!("{name} = {applied} was gone at the start of the cell")),
        })
        .collect()
}

/// Variables that changed while a cell ran, as sentences.
pub(super) fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut found = Vec::new();
    for (name, old) in before {
        match after.get(name) {
            Some(new) if new != old => found.push(format!(
                "{name} changed from {old} to {new} during the cell"
            )),
            Some(_) => {}
            None => found.push(format!("{name} = {old} was gone after the cell")),
        }
    }
    for (name, new) in after {
        if !before.contains_key(name) {
            found.push(format!("{name} = {new} appeared during the cell"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_variable_that_moves_under_a_cell_is_named_with_both_values() {
        let before = variables(&[("sync_binlog", "1"), ("gone", "x"), ("same", "y")]);
        let after = variables(&[("sync_binlog", "0"), ("same", "y"), ("new", "z")]);
        assert_eq!(
            differences(&before, &after),
            [
                "gone = x was gone after the cell",
                "sync_binlog changed from 1 to 0 during the cell",
                "new = z appeared during the cell",
            ]
        );
        assert!(differences(&after, &after).is_empty());
        assert_eq!(
            lost(&before, &after),
            [
                "gone = x was gone at the start of the cell",
                "sync_binlog was 0 at the start of the cell, 1 when the variant was applied",
            ]
        );
        assert!(lost(&before, &before).is_empty());
    }
}
