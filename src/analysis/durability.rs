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

/// What makes an effect impossible to assign: several variables that moved, one that the variant does not
/// state, or a restart whose cold cache the baseline did not have. Empty: one stated change. Variables that the
/// server derives from another changed one do not count.
pub(crate) fn confounded(
    variant: &VariantRecord,
    baseline: &VariantRecord,
    warmed: bool,
) -> Vec<String> {
    let changed = changes(variant);
    let names: Vec<&str> = changed.iter().map(|(name, _, _)| name.as_str()).collect();
    let stated: Vec<String> = variant
        .settings
        .iter()
        .map(|setting| setting.name.replace('-', "_"))
        .collect();
    let derived = |name: &str, from: &[&str]| {
        DERIVED
            .iter()
            .any(|(source, derived)| from.contains(source) && derived.contains(&name))
    };
    let stated: Vec<&str> = stated.iter().map(String::as_str).collect();
    let independent: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| !derived(name, &names))
        .collect();
    let is_stated = |name: &str| stated.contains(&name) || derived(name, &stated);
    let mut found = Vec::new();
    if independent.len() > 1 || independent.iter().any(|name| !is_stated(name)) {
        found.extend(independent.iter().map(|name| {
            if is_stated(name) {
                (*name).to_owned()
            } else {
                format!("{name} (moved, but not stated)")
            }
        }));
    }
    if variant.restarted && !baseline.restarted && !warmed {
        found.push("restart without a warm-up (a cold cache)".to_owned());
    }
    found
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
    use crate::record::AppliedSetting;

    fn variant(differs: &[(&str, &str, &str)]) -> VariantRecord {
        VariantRecord {
            name: "v".to_owned(),
            settings: differs
                .iter()
                .map(|(name, a, b)| AppliedSetting {
                    name: (*name).to_owned(),
                    before: Some((*a).to_owned()),
                    asked: (*b).to_owned(),
                    took: Some((*b).to_owned()),
                })
                .collect(),
            restarted: false,
            differs: differs
                .iter()
                .map(|(name, a, b)| ((*name).to_owned(), ((*a).to_owned(), (*b).to_owned())))
                .collect(),
            several: false,
        }
    }

    fn of(variant: &VariantRecord) -> Vec<String> {
        confounded(variant, &self::variant(&[]), true)
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
            of(&variant(&[
                ("innodb_flush_log_at_trx_commit", "1", "0"),
                ("innodb_flush_method", "fsync", "O_DIRECT"),
            ])),
            ["innodb_flush_log_at_trx_commit", "innodb_flush_method"]
        );
        assert!(
            of(&variant(&[
                ("innodb_buffer_pool_size", "1", "2"),
                ("innodb_buffer_pool_instances", "1", "8"),
            ]))
            .is_empty()
        );
        assert!(of(&variant(&[("log_bin", "ON", "OFF")])).is_empty());
    }

    #[test]
    fn what_moves_without_being_stated_confounds() {
        let mut one = variant(&[("innodb_buffer_pool_size", "1", "2")]);
        assert!(of(&one).is_empty());
        one.differs.insert(
            "innodb_io_capacity".to_owned(),
            ("200".to_owned(), "2000".to_owned()),
        );
        assert_eq!(
            of(&one),
            [
                "innodb_buffer_pool_size",
                "innodb_io_capacity (moved, but not stated)"
            ]
        );
        // The stated one had no effect; what moved is another.
        let mut other = variant(&[]);
        other
            .differs
            .insert("sync_binlog".to_owned(), ("1".to_owned(), "0".to_owned()));
        assert_eq!(of(&other), ["sync_binlog (moved, but not stated)"]);
        // Derived from a stated one that did not itself move.
        let mut derived = variant(&[("max_connections", "151", "151")]);
        derived.differs.clear();
        derived.differs.insert(
            "table_open_cache".to_owned(),
            ("2000".to_owned(), "1900".to_owned()),
        );
        assert!(of(&derived).is_empty());
    }

    #[test]
    fn a_restart_without_warm_up_measures_the_cold_cache() {
        // The other published example: testing right after the restart.
        let mut restarted = variant(&[("innodb_buffer_pool_size", "1", "2")]);
        restarted.restarted = true;
        let cold = confounded(&restarted, &variant(&[]), false);
        assert_eq!(cold, ["restart without a warm-up (a cold cache)"]);
        assert!(confounded(&restarted, &variant(&[]), true).is_empty());
        let mut both = variant(&[]);
        both.restarted = true;
        assert!(confounded(&restarted, &both, false).is_empty());
    }
}
