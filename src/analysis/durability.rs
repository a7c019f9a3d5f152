//! What a variant really changed: does it cost durability, and is it one change or several.

use crate::record::VariantRecord;

/// Changes that weaken durability, as `name before → after`.
pub(crate) fn weakened(variant: &VariantRecord) -> Vec<String> {
    changes(variant)
        .into_iter()
        .filter(|(name, before, after)| weakens(name, before, after))
        .map(|(name, before, after)| format!("{name} {before} → {after}"))
        .collect()
}

/// Variables that moved, when more than one did; empty for one. Those that the server derives from
/// another changed one do not count.
pub(crate) fn confounded(variant: &VariantRecord) -> Vec<String> {
    let changed = changes(variant);
    let names: Vec<&str> = changed.iter().map(|(name, _, _)| name.as_str()).collect();
    let independent: Vec<String> = names
        .iter()
        .filter(|name| {
            !DERIVED
                .iter()
                .any(|(source, derived)| names.contains(source) && derived.contains(name))
        })
        .map(|name| (*name).to_owned())
        .collect();
    if independent.len() > 1 {
        independent
    } else {
        Vec::new()
    }
}

/// Variables that servers compute from another when it is set.
const DERIVED: &[(&str, &[&str])] = &[
    (
        "innodb_buffer_pool_size",
        &[
            "innodb_buffer_pool_instances",
            "innodb_buffer_pool_chunk_size",
            "innodb_buffer_pool_size_max",
            "innodb_buffer_pool_size_auto_min",
            "innodb_lru_scan_depth",
        ],
    ),
    (
        "max_connections",
        &[
            "back_log",
            "host_cache_size",
            "open_files_limit",
            "table_open_cache",
            "table_definition_cache",
            "thread_cache_size",
            "innodb_open_files",
            "performance_schema_max_thread_instances",
        ],
    ),
    (
        "table_open_cache",
        &[
            "open_files_limit",
            "innodb_open_files",
            "table_definition_cache",
        ],
    ),
    ("innodb_io_capacity", &["innodb_io_capacity_max"]),
    (
        "log_bin",
        &[
            "log_bin_basename",
            "log_bin_index",
            "log_replica_updates",
            "log_slave_updates",
            "sql_log_bin",
            "binlog_format",
        ],
    ),
    (
        "innodb_redo_log_capacity",
        &["innodb_log_file_size", "innodb_log_files_in_group"],
    ),
];

/// Everything that differs from the baseline: the declared settings and what was found beside them.
fn changes(variant: &VariantRecord) -> Vec<(String, String, String)> {
    let mut changes: Vec<(String, String, String)> = variant
        .differs
        .iter()
        .map(|(name, (before, after))| (name.replace('-', "_"), before.clone(), after.clone()))
        .collect();
    for setting in &variant.settings {
        let name = setting.name.replace('-', "_");
        if changes.iter().any(|(known, _, _)| *known == name) {
            continue;
        }
        let after = setting.took.as_ref().unwrap_or(&setting.asked);
        // Set to what it was: no change, unless the value before is not known.
        if setting.before.as_ref() != Some(after) {
            let before = setting.before.clone().unwrap_or_else(|| "?".to_owned());
            changes.push((name, before, after.clone()));
        }
    }
    changes
}

/// Whether a change can lose committed transactions that were safe before.
fn weakens(name: &str, before: &str, after: &str) -> bool {
    let was_on = !off(before);
    match name {
        // 1 flushes at each commit, 2 writes, 0 does neither; MariaDB's 3 is stricter than 1.
        "innodb_flush_log_at_trx_commit" => {
            let strength = |value: &str| match value {
                "3" => Some(3),
                "1" => Some(2),
                "2" => Some(1),
                "0" => Some(0),
                _ => None,
            };
            strength(after).is_some_and(|after| strength(before).unwrap_or(2) > after)
        }
        // 1 is safe; 0 leaves it to the system; n loses up to n commit groups.
        "sync_binlog" => {
            let exposure = |value: &str| match value.parse::<u64>() {
                Ok(0) => Some(u64::MAX),
                other => other.ok(),
            };
            exposure(after).is_some_and(|after| after > exposure(before).unwrap_or(1))
        }
        "innodb_doublewrite" => was_on && (off(after) || after.eq_ignore_ascii_case("detect_only")),
        "log_bin"
        | "innodb_checksums"
        | "rpl_semi_sync_master_enabled"
        | "rpl_semi_sync_source_enabled"
        | "innodb_redo_log_enabled" => was_on && off(after),
        "skip_log_bin" | "disable_log_bin" => !off(after),
        "innodb_checksum_algorithm" => after.eq_ignore_ascii_case("none"),
        "innodb_flush_method" => ["nosync", "littlesync"]
            .iter()
            .any(|weak| after.eq_ignore_ascii_case(weak)),
        "innodb_flush_log_at_timeout" => match (before.parse::<u64>(), after.parse::<u64>()) {
            (Ok(before), Ok(after)) => after > before,
            _ => false,
        },
        _ => false,
    }
}

fn off(value: &str) -> bool {
    ["0", "off", "false", "no", ""]
        .iter()
        .any(|word| value.trim().eq_ignore_ascii_case(word))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::*;

    fn variant(differs: &[(&str, &str, &str)]) -> VariantRecord {
        VariantRecord {
            name: "v".to_owned(),
            settings: Vec::new(),
            restarted: false,
            differs: differs
                .iter()
                .map(|(name, a, b)| ((*name).to_owned(), ((*a).to_owned(), (*b).to_owned())))
                .collect(),
            several: false,
        }
    }

    #[test]
    fn durability_is_weakened_in_one_direction_only() {
        for (name, safe, weak) in [
            ("innodb_flush_log_at_trx_commit", "1", "2"),
            ("innodb_flush_log_at_trx_commit", "2", "0"),
            ("sync_binlog", "1", "0"),
            ("sync_binlog", "1", "1000"),
            ("innodb_doublewrite", "ON", "OFF"),
            ("log_bin", "ON", "OFF"),
        ] {
            assert_eq!(
                weakened(&variant(&[(name, safe, weak)])),
                [format!("{name} {safe} → {weak}")]
            );
            assert!(
                weakened(&variant(&[(name, weak, safe)])).is_empty(),
                "{name} {weak} → {safe}"
            );
        }
        assert!(weakened(&variant(&[("innodb_buffer_pool_size", "1", "2")])).is_empty());
    }

    #[test]
    fn two_variables_are_confounded_and_derived_ones_are_not() {
        // The published example of product.md.
        assert_eq!(
            confounded(&variant(&[
                ("innodb_flush_log_at_trx_commit", "1", "0"),
                ("innodb_flush_method", "fsync", "O_DIRECT"),
            ])),
            ["innodb_flush_log_at_trx_commit", "innodb_flush_method"]
        );
        assert!(
            confounded(&variant(&[
                ("innodb_buffer_pool_size", "1", "2"),
                ("innodb_buffer_pool_instances", "1", "8"),
            ]))
            .is_empty()
        );
        assert!(confounded(&variant(&[("log_bin", "ON", "OFF")])).is_empty());
    }
}
