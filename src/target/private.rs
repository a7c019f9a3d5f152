//! A private server opened: its folder made, its limits raised to what the plan needs, started, and given an
//! administrator that only its socket admits and a load account with rights on the plan's database alone.

use std::time::Duration;

use super::connect::Control;
use super::journal::{Journal, Undo};
use super::locate::Binary;
use super::managed::PrivateServer;
use super::preflight::private_limits;
use super::server::{Server, secret_variables};
use super::snapshot::{DataSource, Prepared};
use super::variables;
use super::{Endpoint, Secret, TargetError};
use crate::interrupt::Interrupt;
use crate::plan::{Address, Managed, Plan, Setting, SettingValue, Tls, TlsMode};
use crate::record::AppliedSetting;

/// Account of the load on a private server.
const LOAD_USER: &str = "capbench";
/// Where it comes from: by name and by address, whichever the server makes of the loopback.
const LOAD_HOSTS: [&str; 2] = ["localhost", "127.0.0.1"];
/// Account of the control connections on a private server.
const ADMIN_USER: &str = "root";

impl Server {
    pub(super) fn open_private(
        plan: &Plan,
        managed: &Managed,
        source: DataSource,
        journal: &mut Journal,
        interrupt: &Interrupt,
    ) -> Result<Self, TargetError> {
        let binary = Binary::find(managed.binary.as_deref()).map_err(TargetError::into_input)?;
        if let Some(folder) = managed
            .directory
            .as_deref()
            .filter(|folder| !folder.is_dir())
        {
            return Err(TargetError::Input(format!(
                "`target.managed.directory` = {} is no folder\nhint: make it, or leave the key out",
                folder.display()
            )));
        }
        let private = PrivateServer::new(
            binary,
            managed.directory.as_deref(),
            secret_variables(plan),
            plan.target.start_timeout.0,
        )?;
        let entry = journal.write(
            "start-private-server",
            &private.folder().to_string_lossy(),
            None,
            None,
            Undo::PrivateServer {
                folder: private.folder().to_owned(),
                pid_file: private.pid_file(),
            },
        )?;
        // Whatever fails from here on drops the private server, and its folder with it.
        match Self::set_up_private(plan, managed, source, private, interrupt) {
            Ok(mut server) => {
                server.private_entry = Some(entry);
                Ok(server)
            }
            Err(error) => {
                journal.undone(entry)?;
                Err(error)
            }
        }
    }

    fn set_up_private(
        plan: &Plan,
        managed: &Managed,
        source: DataSource,
        private: PrivateServer,
        interrupt: &Interrupt,
    ) -> Result<Self, TargetError> {
        let prepared = Prepared::new(source);
        let found = prepared.found();
        if !found {
            private.initialise(&managed.options, interrupt)?;
        }
        let mut raised = private_limits(plan, private.flavour());
        raised.extend(cold_start(plan, managed));
        let mut options: Vec<Setting> = raised.clone();
        options.extend(managed.options.iter().cloned());

        let endpoint = |address, user: &str, password| Endpoint {
            address,
            user: user.to_owned(),
            password,
            database: None,
            tls: Tls {
                mode: TlsMode::Disabled,
                ca: None,
            },
            connect_timeout: plan.target.connect_timeout.0,
            interrupt: interrupt.clone(),
        };
        let socket = Address::Socket(private.socket());
        let loopback = |port| Address::Tcp {
            host: "127.0.0.1".to_owned(),
            port,
        };
        let first = endpoint(socket.clone(), ADMIN_USER, Secret::default());
        let admin = endpoint(socket, ADMIN_USER, random_secret());
        let mut server = Self::new(plan, first.clone(), first, Some(private), interrupt);
        server.base_options = options;
        server.prepared = prepared;
        server.load = endpoint(loopback(0), LOAD_USER, random_secret());
        server.load.database = Some(plan.target.database.clone());
        if found {
            server.use_admin(admin, plan);
            server.start_on_found()?;
            server.start_private()?;
        } else {
            server.start_private()?;
            server.create_accounts(&plan.target.database, &admin)?;
            server.use_admin(admin, plan);
        }
        server.identify()?;
        server.note_raised(&raised);
        Ok(server)
    }

    fn use_admin(&mut self, admin: Endpoint, plan: &Plan) {
        let limit = self.start_timeout.max(plan.target.connect_timeout.0);
        self.control = Control::new(admin.clone(), Some(limit));
        self.handed = Control::new(admin.clone(), None);
        self.admin = admin;
    }

    /// Starts the private server with its current options and waits until the administrator gets in.
    pub(super) fn start_private(&mut self) -> Result<(), TargetError> {
        let mut options = self.base_options.clone();
        options.extend(self.variant_options.iter().cloned());
        options.extend(self.accounts_option(&self.new_passwords())?);
        let admin = self.admin.clone();
        let interrupt = self.wish();
        let Some(private) = &mut self.private else {
            return Ok(());
        };
        private.start(&options, &interrupt, |_| {
            super::connect::connect(&admin, Some(Duration::from_secs(5))).is_ok()
        })?;
        self.remove_accounts_file();
        let Some(private) = &self.private else {
            return Ok(());
        };
        if let Address::Tcp { port, .. } = &mut self.load.address {
            *port = private.port();
        }
        Ok(())
    }

    /// Removes anonymous and remote administrators, gives root a password, and makes the load's account.
    fn create_accounts(&mut self, database: &str, admin: &Endpoint) -> Result<(), TargetError> {
        // Not part of what a replica or a recovery would replay, and it keeps passwords out of the binary log.
        self.control.run("SET sql_log_bin = 0")?;
        let accounts = self.control.pairs("SELECT user, host FROM mysql.user")?;
        for (user, host) in accounts {
            if user.is_empty() || (user == ADMIN_USER && host != "localhost") {
                self.control.run(&format!(
                    "DROP USER {}@{}",
                    variables::quoted(&user),
                    variables::quoted(&host)
                ))?;
            }
        }
        let quoted_database = database.replace('`', "``");
        for host in LOAD_HOSTS {
            let account = format!("'{LOAD_USER}'@'{host}'");
            self.control.run_secret(
                &format!(
                    "CREATE USER {account} IDENTIFIED BY {}",
                    variables::quoted(self.load.password.reveal())
                ),
                &format!("CREATE USER {account} …"),
            )?;
            self.control.run(&format!(
                "GRANT ALL PRIVILEGES ON `{quoted_database}`.* TO {account}"
            ))?;
        }
        self.control.run_secret(
            &format!(
                "ALTER USER '{ADMIN_USER}'@'localhost' IDENTIFIED BY {}",
                variables::quoted(admin.password.reveal())
            ),
            "ALTER USER root …",
        )
    }

    /// Statements that give the accounts of a private server that another run made this run's passwords.
    fn new_passwords(&self) -> Vec<String> {
        let password = |account: String, secret: &Secret| {
            format!(
                "ALTER USER {account} IDENTIFIED BY {}",
                variables::quoted(secret.reveal())
            )
        };
        // Passwords stay out of the binary log.
        std::iter::once("SET sql_log_bin = 0".to_owned())
            .chain(
                LOAD_HOSTS
                    .iter()
                    .map(|host| password(format!("'{LOAD_USER}'@'{host}'"), &self.load.password)),
            )
            .chain(std::iter::once(password(
                format!("'{ADMIN_USER}'@'localhost'"),
                &self.admin.password,
            )))
            .collect()
    }

    fn note_raised(&mut self, raised: &[Setting]) {
        self.raised = raised
            .iter()
            .map(|s| AppliedSetting {
                name: s.name.clone(),
                before: None,
                asked: variables::shown(&s.value),
                took: self.identity.variables.get(&s.name).cloned(),
            })
            .collect();
    }
}

/// Options with which a restart of a private server is a cold start: both servers otherwise fill the buffer
/// pool at their start with what it held at their end, in the background. What the plan states stays.
fn cold_start(plan: &Plan, managed: &Managed) -> Vec<Setting> {
    [
        "innodb_buffer_pool_dump_at_shutdown",
        "innodb_buffer_pool_load_at_startup",
    ]
    .into_iter()
    .filter(|name| {
        let stated = managed.options.iter().chain(&plan.target.set);
        stated.into_iter().all(|setting| setting.name != *name)
    })
    .map(|name| Setting {
        name: name.to_owned(),
        value: SettingValue::Bool(false),
    })
    .collect()
}

/// A password for an account of a private server: 128 bits, with the character classes that a
/// validation plugin may want.
fn random_secret() -> Secret {
    Secret::new(format!("aA1-{:032x}", rand::random::<u128>()))
}
