//! Finding server programs on this host, and which family they belong to.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::TargetError;
use crate::record::Flavour;

/// Folders in which packages put servers without putting them into the PATH of ordinary users.
const FOLDERS: [&str; 7] = [
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/libexec",
    "/usr/local/bin",
    "/usr/local/mysql/bin",
    "/usr/local/mariadb/bin",
    "/opt/mysql/bin",
];

/// A server program.
#[derive(Debug, Clone)]
pub(crate) struct Binary {
    pub(crate) path: PathBuf,
    pub(crate) flavour: Flavour,
    /// What it says to `--version`.
    pub(crate) version: String,
}

impl Binary {
    /// The plan's program, or the first of mariadbd and mysqld that is found.
    pub(crate) fn find(stated: Option<&Path>) -> Result<Self, TargetError> {
        let path = match stated {
            Some(path) if path.components().count() > 1 => {
                std::path::absolute(path).map_err(TargetError::file("read", path))?
            }
            Some(name) => in_path(&name.to_string_lossy()).ok_or_else(|| {
                TargetError::Private(format!(
                    "server program `{}` is not in PATH\nhint: state its full path as binary",
                    name.display()
                ))
            })?,
            None => in_path("mariadbd").or_else(|| in_path("mysqld")).ok_or_else(|| {
                TargetError::Private(
                    "neither mariadbd nor mysqld is in PATH or the usual folders\n\
                     hint: install one (Debian: apt-get install mariadb-server) or state binary under [target.managed]"
                        .to_owned(),
                )
            })?,
        };
        let (flavour, version) = flavour(&path)?;
        Ok(Self {
            path,
            flavour,
            version,
        })
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

pub(crate) fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The family of a program, and what it says to `--version`.
fn flavour(path: &Path) -> Result<(Flavour, String), TargetError> {
    let output = Command::new(path)
        .args(["--no-defaults", "--version"])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| {
            TargetError::Private(format!(
                "cannot run the server program `{}`: {e}\nhint: state a mysqld or mariadbd as binary",
                path.display()
            ))
        })?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && said.contains("MariaDB") {
        Ok((Flavour::MariaDb, said.trim().to_owned()))
    } else if output.status.success() && said.contains("Ver ") {
        Ok((Flavour::MySql, said.trim().to_owned()))
    } else {
        Err(TargetError::Private(format!(
            "`{} --version` is not the answer of a MySQL or MariaDB server: `{}`\nhint: state a mysqld or mariadbd as binary",
            path.display(),
            String::from_utf8_lossy(if said.trim().is_empty() {
                &output.stderr
            } else {
                &output.stdout
            })
            .trim()
            .lines()
            .next()
            .unwrap_or_default()
        )))
    }
}

/// The script that makes MariaDB's data directory, and the base directory to tell it when the
/// server is not installed under /usr.
pub(crate) fn install_script(server: &Path) -> Result<(PathBuf, Option<PathBuf>), TargetError> {
    const NAMES: [&str; 2] = ["mariadb-install-db", "mysql_install_db"];
    let real = server.canonicalize().unwrap_or_else(|_| server.to_owned());
    let base = real.parent().and_then(Path::parent).map(Path::to_owned);
    if let Some(base) = &base {
        for folder in ["bin", "scripts", "sbin"] {
            for name in NAMES {
                let script = base.join(folder).join(name);
                if is_executable(&script) {
                    let own = !["/usr", "/", "/usr/local"].contains(&&*base.to_string_lossy());
                    return Ok((script, own.then(|| base.clone())));
                }
            }
        }
    }
    NAMES
        .iter()
        .find_map(|name| in_path(name))
        .map(|script| (script, None))
        .ok_or_else(|| {
            TargetError::Private(format!(
                "mariadb-install-db, which makes the data directory of `{}`, is neither beside it nor in PATH\n\
                 hint: install the whole server package (Debian: mariadb-server)",
                server.display()
            ))
        })
}
