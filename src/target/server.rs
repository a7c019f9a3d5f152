//! The server under test as the rest of capbench sees it: opened once, asked, changed, closed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::attended::Attended;
use super::change::Change;
use super::connect::Control;
use super::hooks::Unattended;
use super::identity;
use super::journal::Journal;
use super::managed::PrivateServer;
use super::run_lock::RunLock;
use super::snapshot::{DataSource, Prepared};
use super::undo::Overtaken;
use super::variables::settings_only;
use super::{Endpoint, TargetError, resolve};
use crate::interrupt::Interrupt;
use crate::plan::{Hooks, PasswordSource, Place, Plan, Setting, SettingValue};
use crate::record::{AppliedSetting, Flavour, ServerIdentity};
use crate::units::Bytes;

/// How long a private server whose connection was lost may take to be seen as ended.
const DYING: Duration = Duration::from_secs(2);
/// Pause between two looks at a server that comes back or resizes.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// A server that answers, and everything capbench has changed on it.
///
/// Dropping it without [`Server::close`] puts back what it can and removes a private server, so that a
/// failure or a panic leaves nothing behind.
#[derive(Debug)]
pub struct Server {
    pub(super) load: Endpoint,
    pub(super) admin: Endpoint,
    /// capbench's own statements; limited in time.
    pub(super) control: Control,
    /// Handed out by [`Server::admin`]; statements may take long.
    pub(super) handed: Control,
    pub(super) identity: ServerIdentity,
    pub(super) private: Option<PrivateServer>,
    /// The prepared data of a private server.
    pub(super) prepared: Prepared,
    pub(super) hooks: Hooks,
    /// Environment variables that no child process may see.
    pub(super) hidden: Vec<String>,
    pub(super) interrupt: Interrupt,
    pub(super) start_timeout: Duration,
    /// Start-up options of a private server for the whole run.
    pub(super) base_options: Vec<Setting>,
    /// Those of the variant it runs with now.
    pub(super) variant_options: Vec<Setting>,
    /// The settings for the whole run, to be made again after a restart.
    pub(super) run_settings: Vec<Setting>,
    pub(super) run_changes: Vec<Change>,
    pub(super) variant_changes: Vec<Change>,
    /// Variables as the run's settings have left them.
    pub(super) before_variants: BTreeMap<String, String>,
    /// Variables under the plan's first variant, once it was applied.
    pub(super) baseline: Option<BTreeMap<String, String>>,
    /// Variables as the present variant was read back.
    pub(super) as_applied: BTreeMap<String, String>,
    /// What happens to variables that someone else has set meanwhile.
    pub(super) overtaken: Overtaken,
    /// No other capbench works on this server.
    pub(super) lock: Option<RunLock>,
    /// The lock was taken, and is to be kept.
    pub(super) locked: bool,
    pub(super) raised: Vec<AppliedSetting>,
    pub(super) private_entry: Option<u64>,
    closed: bool,
}

impl Server {
    /// Connects to the plan's server, or makes and starts the private one: with an administrator that only
    /// its socket admits, and a load account with rights on the plan's database alone.
    ///
    /// # Errors
    /// The account's password cannot be had, the server does not answer, the private server does not start
    /// (with the last lines of its error log), or the user asked to end.
    pub fn open(
        plan: &Plan,
        journal: &mut Journal,
        interrupt: &Interrupt,
    ) -> Result<Self, TargetError> {
        Self::open_on(plan, DataSource::default(), journal, interrupt)
    }

    /// As [`Server::open`]; a private server starts on the data that was found, if any was, and its data is
    /// kept where the source says.
    ///
    /// # Errors
    /// As [`Server::open`].
    pub fn open_on(
        plan: &Plan,
        source: DataSource,
        journal: &mut Journal,
        interrupt: &Interrupt,
    ) -> Result<Self, TargetError> {
        Self::open_announced(plan, source, journal, interrupt, &|_| {})
    }

    /// As [`Server::open_on`]; `asked` is told of a server elsewhere before it is asked anything, once what this
    /// machine must know about it (passwords) was found.
    ///
    /// # Errors
    /// As [`Server::open`].
    pub fn open_announced(
        plan: &Plan,
        source: DataSource,
        journal: &mut Journal,
        interrupt: &Interrupt,
        asked: &dyn Fn(&Endpoint),
    ) -> Result<Self, TargetError> {
        match &plan.target.place {
            Place::Server(place) => {
                let (load, admin) = resolve(plan).map_err(TargetError::into_input)?;
                asked(&admin);
                let mut server = Self::new(plan, load, admin, None, interrupt);
                server.hooks = place.hooks.clone();
                server.identify()?;
                Ok(server)
            }
            Place::Managed(managed) => {
                Self::open_private(plan, managed, source, journal, interrupt)
            }
        }
    }

    pub(super) fn new(
        plan: &Plan,
        mut load: Endpoint,
        mut admin: Endpoint,
        private: Option<PrivateServer>,
        interrupt: &Interrupt,
    ) -> Self {
        load.interrupt = interrupt.clone();
        admin.interrupt = interrupt.clone();
        let start_timeout = plan.target.start_timeout.0;
        let limit = start_timeout.max(plan.target.connect_timeout.0);
        Self {
            control: Control::new(admin.clone(), Some(limit)),
            handed: Control::new(admin.clone(), None),
            load,
            admin,
            identity: identity::unknown(),
            private,
            prepared: Prepared::default(),
            hooks: Hooks::default(),
            hidden: secret_variables(plan),
            interrupt: interrupt.clone(),
            start_timeout,
            base_options: Vec::new(),
            variant_options: Vec::new(),
            run_settings: Vec::new(),
            run_changes: Vec::new(),
            variant_changes: Vec::new(),
            before_variants: BTreeMap::new(),
            baseline: None,
            as_applied: BTreeMap::new(),
            overtaken: Overtaken::default(),
            lock: None,
            locked: false,
            raised: Vec::new(),
            private_entry: None,
            closed: false,
        }
    }

    pub(super) fn close_connections(&mut self) {
        self.control.close();
        self.handed.close();
    }

    pub(super) fn identify(&mut self) -> Result<(), TargetError> {
        self.identity = identity::identify(&mut self.control, &self.admin, self.private.is_some())?;
        self.before_variants.clone_from(&self.identity.variables);
        // The way the load goes.
        let mut load = self.load.clone();
        load.database = None;
        let limit = load.connect_timeout;
        // A login that fails is explained by the preflight; it must not hide behind a figure.
        self.identity.round_trip = identity::round_trip(&mut Control::new(load, Some(limit)))
            .or_else(|_| identity::round_trip(&mut self.control))?;
        Ok(())
    }

    /// An administrator's connection, alive when it is handed out and opened again when it was lost. Its
    /// statements may take as long as the server lives.
    ///
    /// # Errors
    /// The server does not answer any more; of a private server that ended, how, and its last words.
    pub fn admin(&mut self) -> Result<&mut Attended, TargetError> {
        if let Some(death) = self.private.as_mut().and_then(PrivateServer::death) {
            return Err(death);
        }
        self.handed.conn()
    }

    /// Environment variables that hold secrets: no child process may see them.
    pub fn hidden_variables(&self) -> &[String] {
        &self.hidden
    }

    /// How the load connects.
    pub fn load_endpoint(&self) -> &Endpoint {
        &self.load
    }

    /// How control connections connect.
    pub fn admin_endpoint(&self) -> &Endpoint {
        &self.admin
    }

    /// Who the server is, as found when it was opened.
    pub fn identity(&self) -> &ServerIdentity {
        &self.identity
    }

    /// MySQL or MariaDB.
    pub fn flavour(&self) -> Flavour {
        self.identity.flavour
    }

    /// Whether capbench started this server.
    pub fn is_managed(&self) -> bool {
        self.private.is_some()
    }

    /// Process id of a private server that runs.
    pub fn pid(&self) -> Option<u32> {
        self.private.as_ref().and_then(PrivateServer::pid)
    }

    /// Process id of a server on this host, capbench's own or one whose `pid_file` can be read.
    pub fn local_pid(&self) -> Option<u32> {
        self.pid().or_else(|| identity::local_pid(&self.identity))
    }

    /// What became of a private server that ended by itself; `None`: it runs, or is not capbench's.
    pub fn death(&mut self) -> Option<TargetError> {
        self.private.as_mut().and_then(PrivateServer::death)
    }

    /// Data directory of a private server.
    pub fn datadir(&self) -> Option<PathBuf> {
        self.private.as_ref().map(PrivateServer::datadir)
    }

    /// Limits that capbench raised on its private server because the plan needs more than the default and
    /// does not set them itself.
    pub fn raised(&self) -> &[AppliedSetting] {
        &self.raised
    }

    /// All global variables that are settings (see [`super::STATE_VARIABLES`]), names in lower case.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn variables(&mut self) -> Result<BTreeMap<String, String>, TargetError> {
        match self.control.pairs("SHOW GLOBAL VARIABLES") {
            Ok(all) => Ok(settings_only(all)),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// All settings as they were read back once the present variant was applied.
    pub fn as_applied(&self) -> &BTreeMap<String, String> {
        &self.as_applied
    }

    /// Seconds since the server started.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn uptime(&mut self) -> Result<u64, TargetError> {
        let pairs = self.control.pairs("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
        Ok(pairs.first().and_then(|(_, v)| v.parse().ok()).unwrap_or(0))
    }

    /// The largest `innodb_buffer_pool_size` of the server as it is, the run's settings, the private server's
    /// options and all variants: what data is sized against.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn max_buffer_pool(&mut self, plan: &Plan) -> Result<Bytes, TargetError> {
        let own = self
            .control
            .value("SELECT @@GLOBAL.innodb_buffer_pool_size")?
            .and_then(|v| v.parse().ok())
            .unwrap_or(0);
        Ok(Bytes(planned_buffer_pools(plan).fold(own, u64::max)))
    }

    /// Restarts the server: a private one with its current options, another by the plan's hook; then waits
    /// until it answers with a new uptime.
    ///
    /// # Errors
    /// There is no hook, it failed, or the server did not come back within the plan's `start_timeout`.
    pub fn restart(&mut self) -> Result<(), TargetError> {
        self.close_connections();
        if self.private.is_some() {
            self.begin_anew()?;
            return self.start_private();
        }
        let Some(command) = self.hooks.restart.clone() else {
            return Err(TargetError::Unsupported(
                "this server cannot be restarted: the plan has no hook for it\n\
                 hint: add hooks = { restart = \"…\" } under [target], or operator = true to the variant"
                    .to_owned(),
            ));
        };
        let before = Instant::now();
        super::hooks::run_hook(
            "restart",
            &command,
            &[],
            &self.hidden,
            self.start_timeout,
            &self.wish(),
        )?;
        self.wait_for_restart(before)
    }

    /// The user's wish to end, which does not count while everything is put back.
    pub(super) fn wish(&self) -> Interrupt {
        self.admin.interrupt.clone()
    }

    /// From now on this wish to end counts.
    pub(super) fn heed(&mut self, interrupt: &Interrupt) {
        self.admin.interrupt = interrupt.clone();
        self.control.heed(interrupt);
        self.handed.heed(interrupt);
    }

    /// The end of a private server, if that is what is behind `error`.
    pub(super) fn explain(&mut self, error: TargetError) -> TargetError {
        // A process that is being killed has lost its connections before it has ended.
        let patience = match error.code() {
            None if self.private.is_some() => DYING,
            _ => Duration::ZERO,
        };
        let deadline = Instant::now() + patience;
        loop {
            match self.death() {
                Some(death) => return death,
                None if Instant::now() >= deadline => return error,
                None => std::thread::sleep(POLL),
            }
        }
    }

    /// Waits until the server answers and is younger than `since`.
    pub(super) fn wait_for_restart(&mut self, since: Instant) -> Result<(), TargetError> {
        let deadline = Instant::now() + self.start_timeout;
        loop {
            self.control.close();
            let last = match self.uptime() {
                // Uptime counts whole seconds.
                Ok(uptime) if uptime <= since.elapsed().as_secs() + 1 => return self.keep_lock(),
                Ok(uptime) => format!("it answers, but has been up for {uptime} s"),
                Err(error) => error.to_string(),
            };
            if self.wish().raised() {
                return Err(TargetError::Interrupted);
            }
            if Instant::now() >= deadline {
                return Err(TargetError::Lost(format!(
                    "the server did not come back from its restart within {} s: {last}\nhint: raise start_timeout under [target], or look at the server's error log",
                    self.start_timeout.as_secs()
                )));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Puts everything back, and stops and removes a private server.
    ///
    /// # Errors
    /// Something could not be put back, or the private server's folder not be removed.
    pub fn close(mut self, journal: &mut Journal) -> Result<(), TargetError> {
        let restored = self.restore(journal, &Unattended);
        self.closed = true;
        if let Some(private) = self.private.take() {
            private.remove()?;
            if let Some(entry) = self.private_entry.take() {
                journal.undone(entry)?;
            }
        }
        restored
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.closed && self.private.is_none() {
            // Undoing twice does no harm, so the journal, which is out of reach here, may keep these.
            let _ = self.restore(&mut Journal::in_memory(), &Unattended);
        }
    }
}

/// `innodb_buffer_pool_size` wherever the plan sets it, in bytes.
pub(super) fn planned_buffer_pools(plan: &Plan) -> impl Iterator<Item = u64> {
    let managed = match &plan.target.place {
        Place::Managed(managed) => managed.options.as_slice(),
        Place::Server(_) => &[],
    };
    plan.target
        .set
        .iter()
        .chain(managed)
        .chain(
            plan.variants
                .iter()
                .flat_map(|v| v.set.iter().chain(&v.options)),
        )
        .filter(|s| s.name == "innodb_buffer_pool_size")
        .filter_map(|s| match &s.value {
            SettingValue::Integer(n) => u64::try_from(*n).ok(),
            SettingValue::Text(text) => Bytes::parse(text).ok().map(|b| b.0),
            _ => None,
        })
}

/// Environment variables from which the plan reads passwords: no child process may see them.
pub(super) fn secret_variables(plan: &Plan) -> Vec<String> {
    let Place::Server(place) = &plan.target.place else {
        return Vec::new();
    };
    std::iter::once(&place.account)
        .chain(&place.admin)
        .chain(plan.replicas.iter().filter_map(|r| r.account.as_ref()))
        .filter_map(|account| match &account.password {
            PasswordSource::Env(name) => Some(name.clone()),
            _ => None,
        })
        .collect()
}
