//! The fingerprint of a private server's prepared data: the server program, the settings that shape files, and
//! what the data is.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::TargetError;
use super::kept::{DataKey, FORMAT};
use super::locate::Binary;
use super::server::planned_buffer_pools;
use super::snapshot::OUTSIDE;
use super::variables::shown;
use crate::plan::{Managed, Plan};

/// Settings that matter only while a server runs: its files are the same whatever they are. All others count,
/// known or not: data that is kept twice costs disk, data that is taken for other data costs the result.
const HARMLESS: [&str; 38] = [
    "back_log",
    "innodb_adaptive_hash_index",
    "innodb_buffer_pool_chunk_size",
    "innodb_buffer_pool_dump_at_shutdown",
    "innodb_buffer_pool_instances",
    "innodb_buffer_pool_load_at_startup",
    "innodb_buffer_pool_size",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_flush_neighbors",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "innodb_lock_wait_timeout",
    "innodb_log_buffer_size",
    "innodb_lru_scan_depth",
    "innodb_max_dirty_pages_pct",
    "innodb_max_dirty_pages_pct_lwm",
    "innodb_page_cleaners",
    "innodb_purge_threads",
    "innodb_read_io_threads",
    "innodb_spin_wait_delay",
    "innodb_sync_spin_loops",
    "innodb_thread_concurrency",
    "innodb_use_native_aio",
    "innodb_write_io_threads",
    "local_infile",
    "max_connections",
    "max_prepared_stmt_count",
    "open_files_limit",
    "performance_schema",
    "sync_binlog",
    "table_definition_cache",
    "table_open_cache",
    "table_open_cache_instances",
    "thread_cache_size",
    "thread_handling",
    "thread_pool_size",
    "wait_timeout",
];

/// The key under which data of this plan's private server is kept; `data` says what the data is. `None`: this
/// server's data cannot be kept, since some of its files lie elsewhere or it runs statements of the plan's own
/// at its start.
///
/// # Errors
/// The server program cannot be found, run or read.
pub fn data_key(
    plan: &Plan,
    managed: &Managed,
    data: &[String],
) -> Result<Option<DataKey>, TargetError> {
    let settings = managed.options.iter().chain(&plan.target.set);
    let mut shaping: Vec<String> = Vec::new();
    for setting in settings {
        let name = setting.name.as_str();
        if OUTSIDE.contains(&name) || name == "init_file" {
            return Ok(None);
        }
        if !HARMLESS.contains(&name) {
            shaping.push(format!("{name}={}", shown(&setting.value)));
        }
    }
    shaping.sort();
    let binary = Binary::find(managed.binary.as_deref())?;
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        // With its length before it, a part cannot pass for two.
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    part(&FORMAT.to_string());
    part(&binary.version);
    part(&content(&binary.path).map_err(TargetError::file("read", &binary.path))?);
    for setting in &shaping {
        part(setting);
    }
    let pool = planned_buffer_pools(plan).max();
    part(&format!("largest planned buffer pool: {pool:?}"));
    for data in data {
        part(data);
    }
    let digest = hash.finalize();
    Ok(Some(DataKey {
        // 128 bits do not collide by chance.
        fingerprint: hexadecimal(&digest[..16]),
        title: format!("{}: {}", version(&binary.version), data.join("; ")),
    }))
}

/// The part of `mysqld  Ver 9.7.0 for Linux …` that people read.
fn version(said: &str) -> &str {
    let from = said.find("Ver ").map_or(0, |at| at + 4);
    let rest = &said[from..];
    rest.split_whitespace().next().unwrap_or(rest)
}

/// A hash of a program's content; of a wrapper script that is all there is, and its version says the rest.
fn content(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => hash.update(&buffer[..n]),
        }
    }
    Ok(hexadecimal(&hash.finalize()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;
    use crate::plan::{Place, Setting, SettingValue};
    use crate::target::testing::{plan, setting};

    /// A program that says what a server says.
    fn program(folder: &Path, version: &str) -> PathBuf {
        let path = folder.join("mysqld");
        std::fs::write(
            &path,
            format!("#!/bin/sh\necho 'mysqld  Ver {version} for Linux'\n"),
        )
        .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn key(binary: &Path, change: impl FnOnce(&mut Plan, &mut Managed)) -> Option<DataKey> {
        let mut plan = plan();
        let Place::Managed(mut managed) = plan.target.place.clone() else {
            unreachable!()
        };
        managed.binary = Some(binary.to_owned());
        change(&mut plan, &mut managed);
        plan.target.place = Place::Managed(managed.clone());
        data_key(&plan, &managed, &["standard, 10 rows".to_owned()]).unwrap()
    }

    #[test]
    fn what_shapes_files_makes_another_key_and_the_rest_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let binary = program(folder.path(), "8.0.1");
        let base = key(&binary, |_, _| {}).unwrap();
        assert_eq!(base.fingerprint.len(), 32);
        assert_eq!(base.title, "8.0.1: standard, 10 rows");
        assert_eq!(key(&binary, |_, _| {}).unwrap(), base);
        let with = |set: Setting| key(&binary, |_, managed| managed.options.push(set));
        assert_eq!(with(setting("max_connections", 5)), Some(base.clone()));
        assert_ne!(with(setting("innodb_page_size", 4096)), Some(base.clone()));
        assert_ne!(
            with(setting("some_setting_of_tomorrow", 1)),
            Some(base.clone())
        );
        let elsewhere = Setting {
            name: "innodb_undo_directory".to_owned(),
            value: SettingValue::Text("/elsewhere".to_owned()),
        };
        assert_eq!(with(elsewhere), None);
        let set = key(&binary, |plan, _| {
            plan.target.set.push(setting("character_set_server", 1));
        });
        assert_ne!(set, Some(base.clone()));
        let binary = program(folder.path(), "8.0.2");
        assert_ne!(key(&binary, |_, _| {}), Some(base));
    }
}
