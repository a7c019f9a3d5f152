//! The server under both tools: private, started and filled by capbench itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use capbench::dataset;
use capbench::interrupt::Interrupt;
use capbench::plan::{self, Plan};
use capbench::record::Flavour;
use capbench::target::{FastLoad, Journal, Server};
use capbench::workload::TableLayout;
use mysql::prelude::Queryable as _;

use crate::child::Way;
use crate::settings::Settings;

/// Database of all trials.
pub(crate) const DATABASE: &str = "bench";
/// Core of the server when pinned; the tools get the next.
const SERVER_CORE: usize = 0;
/// Core of the tools when pinned.
pub(crate) const CLIENT_CORE: usize = 1;

/// A running server with the tables of the throughput trials.
pub(crate) struct Subject {
    server: Option<Server>,
    journal: Journal,
    interrupt: Interrupt,
    binary: String,
    pub(crate) buffer_pool: u64,
}

/// The plan of all trials, in capbench's own words.
pub(crate) fn plan_text(settings: &Settings, binary: &str, tables: u32, rows: u64) -> String {
    // The default on MySQL ≥ 8; sysbench and capbench would both pay for it. MariaDB has it off.
    let binary_log = if binary.ends_with("mysqld") {
        ", skip_log_bin = true"
    } else {
        ""
    };
    let threads = settings.most_clients();
    format!(
        "name = \"bench\"\nseed = 42\n\
         [target]\ndatabase = \"{DATABASE}\"\n\
         [target.managed]\nbinary = {binary:?}\n\
         options = {{ innodb_buffer_pool_size = \"1GiB\"{binary_log} }}\n\
         [dataset]\ntables = {tables}\nrows = {rows}\nload_threads = 4\n\
         [ladder]\nworkloads = [\"oltp_read_write\"]\nthreads = [{threads}]\n"
    )
}

fn parse(text: &str) -> Result<Plan> {
    plan::parse(text, "bench.toml", Path::new("")).map_err(|problems| anyhow!("{problems}"))
}

impl Subject {
    /// Starts the server `binary` and prepares the tables of the throughput trials.
    pub(crate) fn start(settings: &Settings, binary: &Path) -> Result<Self> {
        let binary = binary.display().to_string();
        let interrupt = Interrupt::new();
        interrupt.at_last_resort(capbench::target::end_private_servers);
        interrupt
            .listen(|_| eprintln!("ending; the server is being removed"))
            .context("cannot listen for Ctrl-C")?;
        let plan = parse(&plan_text(
            settings,
            &binary,
            settings.tables,
            settings.rows,
        ))?;
        let mut journal = Journal::in_memory();
        let mut server = Server::open(&plan, &mut journal, &interrupt)?;
        let pool = server.max_buffer_pool(&plan)?;
        let resolved = dataset::plan_size(&plan.dataset, pool);
        dataset::prepare(
            server.admin_endpoint(),
            &plan,
            TableLayout::Standard,
            &resolved,
            &dataset::Silent,
            &interrupt,
        )?;
        Ok(Self {
            server: Some(server),
            journal,
            interrupt,
            binary,
            buffer_pool: pool.0,
        })
    }

    fn server(&self) -> Result<&Server> {
        self.server.as_ref().context("the server is closed")
    }

    pub(crate) fn plan_text(&self, settings: &Settings, tables: u32, rows: u64) -> String {
        plan_text(settings, &self.binary, tables, rows)
    }

    /// Name and version for headings.
    pub(crate) fn title(&self) -> String {
        self.server.as_ref().map_or_else(String::new, |server| {
            let name = match server.flavour() {
                Flavour::MariaDb => "MariaDB",
                Flavour::MySql => "MySQL",
            };
            let version = &server.identity().version;
            format!("{name} {}", version.split('-').next().unwrap_or(version))
        })
    }

    pub(crate) fn flavour(&self) -> Result<Flavour> {
        Ok(self.server()?.flavour())
    }

    /// The way of the load.
    pub(crate) fn load_way(&self) -> Result<Way> {
        Ok(Way::new(self.server()?.load_endpoint()))
    }

    /// The way of the administrator, for preparing.
    pub(crate) fn admin_way(&self) -> Result<Way> {
        Ok(Way::new(self.server()?.admin_endpoint()))
    }

    pub(crate) fn check_interrupt(&self) -> Result<()> {
        if self.interrupt.raised() {
            return Err(anyhow!("interrupted"));
        }
        Ok(())
    }

    /// Puts all threads of the server on one core, or lets them go where they like.
    pub(crate) fn pin(&self, pinned: bool) -> Result<()> {
        let pid = self.server()?.pid().context("the server has no pid")?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let list = if pinned {
            SERVER_CORE.to_string()
        } else {
            format!("0-{}", cores - 1)
        };
        let status = Command::new("taskset")
            .args(["-a", "-c", "-p", &list, &pid.to_string()])
            .stdout(Stdio::null())
            .status()
            .context("cannot run taskset (package util-linux); or use --no-pin")?;
        if !status.success() {
            return Err(anyhow!("taskset could not move the server\nhint: --no-pin"));
        }
        Ok(())
    }

    /// An empty database, and a server that has come to rest.
    pub(crate) fn empty_database(&mut self) -> Result<()> {
        let server = self.server.as_mut().context("the server is closed")?;
        let conn = server.admin()?;
        conn.ask(|conn| {
            conn.query_drop(format!("DROP DATABASE IF EXISTS {DATABASE}"))?;
            conn.query_drop(format!("CREATE DATABASE {DATABASE}"))
        })?;
        self.rest()
    }

    /// Changes the server to settings for loading, if `fast`.
    pub(crate) fn begin_loading(&mut self, fast: bool) -> Result<FastLoad> {
        let server = self.server.as_mut().context("the server is closed")?;
        Ok(if fast {
            server.begin_loading()?
        } else {
            FastLoad::default()
        })
    }

    /// Puts them back.
    pub(crate) fn end_loading(&mut self, changed: FastLoad) -> Result<()> {
        let server = self.server.as_mut().context("the server is closed")?;
        Ok(server.end_loading(changed)?)
    }

    /// Waits, for at most a minute, until few changed pages are left to write.
    pub(crate) fn rest(&mut self) -> Result<()> {
        let server = self.server.as_mut().context("the server is closed")?;
        let conn = server.admin()?;
        let limit = Instant::now() + Duration::from_secs(60);
        conn.ask(|conn| {
            let before: Option<(String, String)> =
                conn.query_first("SHOW GLOBAL VARIABLES LIKE 'innodb_max_dirty_pages_pct'")?;
            conn.query_drop("SET GLOBAL innodb_max_dirty_pages_pct = 0")?;
            while Instant::now() < limit {
                let dirty: Option<(String, u64)> =
                    conn.query_first("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")?;
                if dirty.is_none_or(|(_, pages)| pages < 100) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            if let Some((_, value)) = before {
                conn.query_drop(format!("SET GLOBAL innodb_max_dirty_pages_pct = {value}"))?;
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Whether `tables` tables of `rows` rows answer by primary key and by their index on k.
    pub(crate) fn answers(&mut self, tables: u32, rows: u64) -> Result<()> {
        let server = self.server.as_mut().context("the server is closed")?;
        let conn = server.admin()?;
        for table in 1..=tables {
            let last = format!("SELECT MAX(id) FROM {DATABASE}.sbtest{table} WHERE id >= {rows}");
            let found: Option<u64> = conn.ask(|conn| conn.query_first(last))?;
            let by_k = format!(
                "SELECT id FROM {DATABASE}.sbtest{table} FORCE INDEX (k_{table}) WHERE k > 0 LIMIT 1"
            );
            let _: Option<u64> = conn.ask(|conn| conn.query_first(by_k))?;
            if found != Some(rows) {
                return Err(anyhow!(
                    "table sbtest{table} has not all of its {rows} rows"
                ));
            }
        }
        Ok(())
    }

    /// Stops and removes the server.
    pub(crate) fn close(mut self) -> Result<()> {
        if let Some(server) = self.server.take() {
            server.close(&mut self.journal)?;
        }
        Ok(())
    }
}
