//! Which server programs there are.

use std::path::{Path, PathBuf};

/// A server that tests are run against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Debian's `MariaDB`; required.
    MariaDb,
    /// `MySQL` 9.7, where it is present.
    MySql,
    /// `MySQL` 5.6, the oldest that the load engine speaks to, where it is present.
    MySql56,
}

impl Kind {
    /// Its program.
    pub(crate) fn binary(self) -> PathBuf {
        match self {
            Self::MariaDb => on_path("mariadbd")
                .expect("mariadbd is needed for tests: apt-get install mariadb-server"),
            Self::MySql => placed("CAPBENCH_TEST_MYSQL", "mysql-9.7"),
            Self::MySql56 => placed("CAPBENCH_TEST_MYSQL56", "mysql-5.6"),
        }
    }

    /// The kind behind a path that [`servers`] gave.
    pub(crate) fn of(binary: &Path) -> Self {
        if is_mariadb(binary) {
            Self::MariaDb
        } else if binary == placed("CAPBENCH_TEST_MYSQL56", "mysql-5.6") {
            Self::MySql56
        } else {
            Self::MySql
        }
    }
}

/// The servers to test with: `MariaDB` always, `MySQL` 9.7 when it is present.
pub(crate) fn kinds() -> Vec<Kind> {
    let mut kinds = vec![Kind::MariaDb];
    kinds.extend(present(Kind::MySql, "tests/servers/mysql-9.7.sh"));
    kinds
}

/// The programs of [`kinds`].
pub(crate) fn servers() -> Vec<PathBuf> {
    kinds().into_iter().map(Kind::binary).collect()
}

/// `MySQL` 5.6, when it is present.
pub(crate) fn mysql_5_6() -> Option<Kind> {
    present(Kind::MySql56, "tests/servers/mysql-5.6.sh")
}

pub(crate) fn is_mariadb(binary: &Path) -> bool {
    binary.ends_with("mariadbd")
}

/// The kind, or a line in the test's output that it was left out.
#[allow(clippy::print_stderr, reason = "says what was left out")]
fn present(kind: Kind, maker: &str) -> Option<Kind> {
    let binary = kind.binary();
    if binary.is_file() {
        return Some(kind);
    }
    eprintln!(
        "skipped: {kind:?} (no {}; {maker} makes it)",
        binary.display()
    );
    None
}

/// What the variable names, or what a script under tests/servers made.
fn placed(variable: &str, name: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(
        || {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("target/servers")
                .join(name)
                .join("mysqld")
        },
        PathBuf::from,
    )
}

/// Debian keeps server programs where an ordinary user's PATH does not look.
fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .chain(["/usr/sbin", "/usr/local/sbin", "/usr/libexec"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
