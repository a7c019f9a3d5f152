//! Real servers for tests.

use std::path::{Path, PathBuf};

/// Server programs to test with: MariaDB is required, MySQL joins in when it is present
/// (`CAPBENCH_TEST_MYSQL`, or what `tests/servers/mysql-9.7.sh` made).
#[allow(
    clippy::print_stderr,
    reason = "says in the test's output what was left out"
)]
pub fn servers() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let mariadb = std::env::split_paths(&folders)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/libexec")])
        .map(|folder| folder.join("mariadbd"))
        .find(|file| file.is_file());
    found.push(mariadb.expect("mariadbd is needed for tests: apt-get install mariadb-server"));
    let mysql = std::env::var_os("CAPBENCH_TEST_MYSQL").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers/mysql-9.7/mysqld"),
        PathBuf::from,
    );
    if mysql.is_file() {
        found.push(mysql);
    } else {
        eprintln!(
            "skipped: MySQL (no {}; tests/servers/mysql-9.7.sh makes it)",
            mysql.display()
        );
    }
    found
}
