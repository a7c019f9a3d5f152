//! The prepared data of a private server as a copy of its files, and the way back to it.
//!
//! A copy is made only after a clean shutdown: a data directory of a killed server is not what its tables are,
//! and one that was killed without its redo log does not even start. On the way back nothing is worth saving,
//! so the server is killed.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::kept::{Cache, DataKey, KeptData, NotKept};
use super::managed::PrivateServer;
use super::server::Server;
use super::{TargetError, tree};
use crate::interrupt::Interrupt;
use crate::plan::{Setting, SettingValue};
use crate::units::Bytes;

/// Options that put files of a server outside its data directory, where a copy of that would miss them.
pub(super) const OUTSIDE: [&str; 7] = [
    "aria_log_dir_path",
    "innodb_data_home_dir",
    "innodb_directories",
    "innodb_doublewrite_dir",
    "innodb_log_group_home_dir",
    "innodb_temp_tablespaces_dir",
    "innodb_undo_directory",
];

/// Options that only the making of a data directory can follow: all variants share one, so that no variant can
/// have them.
pub(super) const SHAPING: [&str; 5] = [
    "innodb_checksum_algorithm",
    "innodb_data_file_path",
    "innodb_page_size",
    "innodb_undo_tablespaces",
    "lower_case_table_names",
];

/// The copy in the private server's own folder.
const OWN_COPY: &str = "snapshot";

/// Where prepared data may be kept beyond this run, and what was found there.
#[derive(Debug, Default)]
pub struct DataSource {
    /// Where this run's data is kept, and as what.
    pub cache: Option<(Cache, DataKey)>,
    /// The data of an earlier run.
    pub found: Option<KeptData>,
}

/// How the next start of a private server begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anew {
    /// On the files as they are.
    Restart,
    /// On the prepared data.
    Restore,
}

/// What became of [`Server::keep_data`].
#[derive(Debug, Default)]
pub struct Keeping {
    /// Whether the data can be put back from a copy.
    pub copied: bool,
    /// What the copy for later runs takes up; `None`: there is none.
    pub kept: Option<Bytes>,
    /// Why something was not done that could have been.
    pub notes: Vec<String>,
    /// Seconds of shutdown and copy.
    pub seconds: f64,
}

/// What a private server knows about its prepared data.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    cache: Option<(Cache, DataKey)>,
    copy: Option<Copied>,
    anew: Option<Anew>,
    /// The files come from another run: its accounts have other passwords.
    strange_accounts: bool,
}

#[derive(Debug)]
enum Copied {
    Kept(KeptData),
    Own(PathBuf),
}

impl Copied {
    fn files(&self) -> &Path {
        match self {
            Self::Kept(kept) => &kept.data,
            Self::Own(folder) => folder,
        }
    }
}

impl Prepared {
    pub(super) fn new(source: DataSource) -> Self {
        Self {
            cache: source.cache,
            strange_accounts: source.found.is_some(),
            copy: source.found.map(Copied::Kept),
            anew: None,
        }
    }

    /// Whether the first start is one on data of an earlier run.
    pub(super) fn found(&self) -> bool {
        self.copy.is_some()
    }
}

impl Server {
    /// Whether the prepared data can be put back from a copy of its files.
    pub fn has_copy(&self) -> bool {
        self.prepared.copy.is_some()
    }

    /// Forgets data of an earlier run that is not what the plan wants.
    pub fn forget_copy(&mut self) {
        self.prepared.copy = None;
        if let Some((cache, key)) = &self.prepared.cache {
            cache.forget(key);
        }
    }

    /// Makes the next [`Server::apply_variant`] start a private server anew, whatever the variant needs.
    pub fn start_anew(&mut self, anew: Anew) {
        self.prepared.anew = Some(anew);
    }

    pub(super) fn is_due(&self) -> bool {
        self.prepared.anew.is_some()
    }

    /// Whether [`Server::keep_data`] would copy data, as far as nothing speaks against it.
    pub fn copies_data(&self, needed: bool) -> bool {
        self.private.is_some() && !self.has_copy() && (self.prepared.cache.is_some() || needed)
    }

    /// Copies the prepared data of a private server, for later runs where that is wanted and possible, else
    /// for this one if `needed`. The server is shut down cleanly for it and started again.
    ///
    /// What keeps data from being copied is no error: the run then loads it again where it must.
    ///
    /// # Errors
    /// The server does not start again; the user's wish to end.
    pub fn keep_data(&mut self, needed: bool) -> Result<Keeping, TargetError> {
        let mut keeping = Keeping::default();
        let cache = self.prepared.cache.clone();
        if !self.copies_data(needed) {
            keeping.copied = self.has_copy();
            return Ok(keeping);
        }
        if let Some(option) = self
            .base_options
            .iter()
            .find(|o| OUTSIDE.contains(&o.name.as_str()))
        {
            keeping.notes.push(format!(
                "the data is not copied: `{}` puts files outside the data directory; it is loaded again where it must be put back",
                option.name
            ));
            return Ok(keeping);
        }
        let started = Instant::now();
        self.forget_binary_log()?;
        // With everything purged and the change buffer merged: what a fast shutdown leaves of it, each start
        // from the copy would do again beside the load. The server's own setting comes back with its start.
        self.control.run("SET GLOBAL innodb_fast_shutdown = 0")?;
        self.close_connections();
        let wish = self.wish();
        // What was loaded is written to the disk now.
        let patience = self.start_timeout;
        let Some(private) = &mut self.private else {
            return Ok(keeping);
        };
        let copied = if private.stop_cleanly(patience, &wish) {
            copy_of(private, cache.as_ref(), needed, &mut keeping, &wish)?
        } else {
            keeping
                .notes
                .push("the data is not copied: the server did not shut down cleanly".to_owned());
            None
        };
        keeping.seconds = started.elapsed().as_secs_f64();
        keeping.copied = copied.is_some();
        self.prepared.copy = copied;
        self.start_private()?;
        Ok(keeping)
    }

    /// Removes the binary log of the load, which would be copied with the data and serves nobody: it is as large
    /// as the data.
    fn forget_binary_log(&mut self) -> Result<(), TargetError> {
        if self.variables()?.get("log_bin").is_none_or(|on| on != "ON") {
            return Ok(());
        }
        // The first since MySQL 8.2; the other elsewhere.
        for sql in ["RESET BINARY LOGS AND GTIDS", "RESET MASTER"] {
            match self.control.run(sql) {
                Ok(()) => break,
                Err(error) if error.code().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends the private server for the start that was announced by [`Server::start_anew`], and puts its files
    /// back if that was asked for.
    pub(super) fn begin_anew(&mut self) -> Result<(), TargetError> {
        let wish = self.wish();
        let Some(private) = &mut self.private else {
            return Ok(());
        };
        if let (Some(Anew::Restore), Some(copy)) = (self.prepared.anew.take(), &self.prepared.copy)
        {
            private.kill();
            return put_back(private, copy.files(), &wish);
        }
        private.stop(&wish);
        Ok(())
    }

    /// Puts the files of an earlier run into the data directory of a server that was not made yet.
    pub(super) fn start_on_found(&mut self) -> Result<(), TargetError> {
        let wish = self.wish();
        if let (Some(private), Some(copy)) = (&self.private, &self.prepared.copy) {
            put_back(private, copy.files(), &wish)?;
        }
        Ok(())
    }

    /// For a start on the files of an earlier run: a file of statements that give its accounts this run's
    /// passwords, as the option that runs it before anybody can connect.
    pub(super) fn accounts_option(
        &self,
        statements: &[String],
    ) -> Result<Option<Setting>, TargetError> {
        let (Some(private), true) = (&self.private, self.prepared.strange_accounts) else {
            return Ok(None);
        };
        let path = private.folder().join("accounts.sql");
        let failed = |e| TargetError::file("write", &path)(e);
        let _ = fs::remove_file(&path);
        let mut file = {
            use std::os::unix::fs::OpenOptionsExt as _;
            fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .map_err(failed)?
        };
        if let Some((user, group)) = owner(private).map_err(failed)? {
            std::os::unix::fs::fchown(&file, Some(user), Some(group)).map_err(failed)?;
        }
        // One statement a line: MySQL reads an init_file so.
        let text = statements
            .iter()
            .fold(String::new(), |all, sql| all + sql + ";\n");
        io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
        Ok(Some(Setting {
            name: "init_file".to_owned(),
            value: SettingValue::Text(path.to_string_lossy().into_owned()),
        }))
    }

    /// Removes what [`Self::accounts_option`] has written.
    pub(super) fn remove_accounts_file(&self) {
        if let Some(private) = &self.private {
            let _ = fs::remove_file(private.folder().join("accounts.sql"));
        }
    }
}

/// Copies the files of a server that has ended: for later runs, else for this one.
fn copy_of(
    private: &PrivateServer,
    cache: Option<&(Cache, DataKey)>,
    needed: bool,
    keeping: &mut Keeping,
    interrupt: &Interrupt,
) -> Result<Option<Copied>, TargetError> {
    let datadir = private.datadir();
    if let Some((cache, key)) = cache {
        match cache.keep(key, &datadir, interrupt) {
            Ok(kept) => {
                keeping.kept = Some(kept.bytes);
                return Ok(Some(Copied::Kept(kept)));
            }
            Err(NotKept::Interrupted) => return Err(TargetError::Interrupted),
            Err(why) => keeping
                .notes
                .push(format!("the data is not kept for later runs: {why}")),
        }
    }
    if !needed {
        return Ok(None);
    }
    match own_copy(private, &datadir, interrupt) {
        Ok(copy) => Ok(Some(Copied::Own(copy))),
        Err(_) if interrupt.raised() => Err(TargetError::Interrupted),
        Err(error) => {
            keeping.notes.push(format!(
                "the data is not copied: {error}; it is loaded again where it must be put back"
            ));
            Ok(None)
        }
    }
}

fn own_copy(private: &PrivateServer, datadir: &Path, interrupt: &Interrupt) -> io::Result<PathBuf> {
    let folder = private.folder().join(OWN_COPY);
    let space = tree::list(datadir)?.space;
    let free = tree::free(private.folder());
    // The run itself needs room besides.
    let needed = Bytes(space.saturating_add(space / 4));
    if let Some(free) = free.filter(|free| *free < needed) {
        return Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!(
                "{} has {free} free, and a copy beside the data wants {needed}",
                private.folder().display()
            ),
        ));
    }
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    if let Err(error) = tree::copy(datadir, &folder, None, interrupt) {
        let _ = fs::remove_dir_all(&folder);
        return Err(error);
    }
    Ok(folder)
}

/// Replaces the data directory of a server that does not run.
fn put_back(
    private: &PrivateServer,
    files: &Path,
    interrupt: &Interrupt,
) -> Result<(), TargetError> {
    let datadir = private.datadir();
    let replace = || -> io::Result<()> {
        let owner = owner(private)?;
        if datadir.exists() {
            tree::clear(&datadir)?;
        } else {
            fs::DirBuilder::new().mode(0o700).create(&datadir)?;
            if let Some((user, group)) = owner {
                std::os::unix::fs::chown(&datadir, Some(user), Some(group))?;
            }
        }
        tree::copy(files, &datadir, owner, interrupt).map(|_| ())
    };
    replace().map_err(|error| {
        if interrupt.raised() {
            TargetError::Interrupted
        } else {
            TargetError::file("put the data back into", datadir.clone())(error)
        }
    })
}

/// To whom the server's files belong, when capbench may give them away.
fn owner(private: &PrivateServer) -> io::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let facts = private.folder().metadata()?;
    Ok(Some((facts.uid(), facts.gid())))
}
