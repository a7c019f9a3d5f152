//! What is measured, and how long.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

/// One run of the bench.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Pairs of measurements, sysbench and capbench in turn.
    pub(crate) pairs: usize,
    /// Seconds of one measurement.
    pub(crate) seconds: u64,
    /// Tables of the throughput trials.
    pub(crate) tables: u32,
    /// Rows of each.
    pub(crate) rows: u64,
    pub(crate) workloads: Vec<String>,
    /// Clients of the throughput trials.
    pub(crate) clients: Vec<u32>,
    /// Clients of the memory trial; 0: none.
    pub(crate) memory_clients: u32,
    /// Rows per table of the loading trials (four tables, and one of four times as many); 0: none.
    pub(crate) load_rows: u64,
    /// Server and client on cores of their own (not while loading).
    pub(crate) pin: bool,
    /// `mariadb`, `mysql`; those that are there.
    pub(crate) only: Option<String>,
    /// Where the Markdown goes.
    pub(crate) write: Option<PathBuf>,
    pub(crate) quick: bool,
}

/// Clients of the throughput trials.
const CLIENTS: [u32; 4] = [8, 16, 64, 256];

const USAGE: &str = "\
usage: cargo bench --bench bench -- [OPTIONS], or make bench BENCH=OPTIONS
  --quick             the tiniest setting: shows that it works, measures nothing
  --pairs N           pairs in turn (6)            --seconds N    of one measurement (2)
  --workloads A,B     (four oltp workloads)        --clients A,B  (8,16,64,256)
  --tables N          (4)                          --rows N       per table (250000)
  --memory N          clients of the memory trial, 0: none (1000)
  --loading N         rows per table of the loading trials, 0: none (1000000)
  --server NAME       mariadb or mysql only        --no-pin       no cores of their own
  --write FILE        the result as Markdown";

impl Settings {
    /// From the arguments; `--bench` is what cargo adds.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut settings = Self {
            pairs: 6,
            seconds: 2,
            tables: 4,
            rows: 250_000,
            workloads: [
                "oltp_point_select",
                "oltp_read_only",
                "oltp_read_write",
                "oltp_write_only",
            ]
            .map(String::from)
            .to_vec(),
            clients: CLIENTS.to_vec(),
            memory_clients: 1000,
            load_rows: 1_000_000,
            pin: std::thread::available_parallelism().is_ok_and(|n| n.get() > 1),
            only: None,
            write: None,
            quick: false,
        };
        if arguments.iter().any(|a| a == "--quick") {
            settings.quick = true;
            settings.pairs = 1;
            settings.seconds = 1;
            settings.tables = 2;
            settings.rows = 1000;
            settings.workloads.truncate(3);
            settings.clients = vec![2];
            settings.memory_clients = 20;
            settings.load_rows = 1000;
        }
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            match name.as_str() {
                "--quick" | "--bench" => continue,
                "--no-pin" => {
                    settings.pin = false;
                    continue;
                }
                "--help" => bail!("{USAGE}"),
                _ => {}
            }
            let Some(value) = rest.next() else {
                bail!("option {name} is unknown or lacks its value\n{USAGE}");
            };
            match name.as_str() {
                "--pairs" => settings.pairs = value.parse::<usize>()?.max(1),
                "--seconds" => settings.seconds = value.parse::<u64>()?.max(1),
                "--tables" => settings.tables = value.parse::<u32>()?.max(1),
                "--rows" => settings.rows = value.parse::<u64>()?.max(200),
                "--memory" => settings.memory_clients = value.parse()?,
                "--loading" => settings.load_rows = value.parse()?,
                "--workloads" => settings.workloads = value.split(',').map(String::from).collect(),
                "--clients" => {
                    settings.clients =
                        value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                "--server" => settings.only = Some(value.clone()),
                "--write" => settings.write = Some(PathBuf::from(value)),
                _ => bail!("unknown option {name}\n{USAGE}"),
            }
        }
        Ok(settings)
    }

    /// Whether `workload` is also measured at 16 clients, unless clients were asked for.
    pub(crate) fn wants_16(&self, workload: &str) -> bool {
        self.clients != CLIENTS || ["oltp_point_select", "oltp_read_write"].contains(&workload)
    }

    /// Most clients of any trial.
    pub(crate) fn most_clients(&self) -> u32 {
        let most = self.clients.iter().copied().max().unwrap_or(1);
        most.max(self.memory_clients).max(1)
    }

    /// Server programs: MariaDB, and MySQL when tests/servers/mysql-9.7.sh has been run.
    pub(crate) fn servers(&self) -> Result<Vec<PathBuf>> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        let mariadb = std::env::split_paths(&folders)
            .chain(["/usr/sbin", "/usr/local/sbin", "/usr/libexec"].map(PathBuf::from))
            .map(|folder| folder.join("mariadbd"))
            .find(|path| path.is_file());
        let mysql = std::env::var_os("CAPBENCH_TEST_MYSQL").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/servers/mysql-9.7/mysqld"),
            PathBuf::from,
        );
        let wanted = |name: &str| self.only.as_deref().is_none_or(|only| only == name);
        let mut found = Vec::new();
        if wanted("mariadb") {
            match mariadb {
                Some(path) => found.push(path),
                None => eprintln!("left out: MariaDB is not installed"),
            }
        }
        if wanted("mysql") {
            if mysql.is_file() {
                found.push(mysql);
            } else {
                eprintln!("left out: MySQL 9.7 (`make mysql` puts it into target/)");
            }
        }
        if found.is_empty() {
            bail!("no server to measure with\nhint: sh tests/servers/need.sh mariadb");
        }
        Ok(found)
    }
}
