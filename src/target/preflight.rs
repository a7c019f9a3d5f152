//! Limits that a run would meet half-way, found beforehand by arithmetic.

use std::collections::BTreeMap;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::server::Server;
use super::{TargetError, headroom};
use crate::plan::{Address, Place, Plan, Protocol, Setting, SettingValue, Step};
use crate::record::{Flavour, HostFacts};

/// Connections beside the load: administrator, capbench's own, probe, guard, the killer of hung
/// queries, and room for a DBA who looks on.
const CONTROL_CONNECTIONS: u64 = 10;
/// Clients that log in at the same time, over all workers: a server accepts them one by one, and its queue of new
/// ones is short (`back_log`, 80 by default on `MariaDB`).
pub const LOGINS: u16 = 48;
/// Default of `max_connections` in all flavours.
const DEFAULT_MAX_CONNECTIONS: u64 = 151;
/// Default of `max_prepared_stmt_count` in all flavours.
const DEFAULT_MAX_PREPARED: u64 = 16_382;
/// Files that capbench holds open beside one socket a client.
const OWN_FILES: u64 = 64;

/// A limit that is too low for the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The variable or limit.
    pub name: String,
    /// What the plan needs.
    pub needed: u64,
    /// What there is.
    pub available: u64,
    /// The arithmetic, in words.
    pub why: String,
    /// The statement or command that fixes it.
    pub fix: String,
    /// Whether the run would fail; otherwise it is a note.
    pub blocking: bool,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.blocking {
            write!(
                f,
                "`{}` is {}, but {} are needed: {}\nhint: {}",
                self.name, self.available, self.needed, self.why, self.fix
            )
        } else {
            write!(f, "`{}` is {}\nhint: {}", self.name, self.why, self.fix)
        }
    }
}

/// What a plan needs at most at any one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Needs {
    /// Concurrent clients of the load.
    pub(super) clients: u64,
    /// Connections in all.
    pub(super) connections: u64,
    /// Server-side prepared statements.
    prepared: u64,
    /// The workload that needs them, and the count for one client.
    prepared_by: String,
    prepared_each: u64,
}

/// Largest number of concurrent clients of any step.
pub(super) fn ladder_clients(plan: &Plan) -> u64 {
    plan.ladder
        .steps
        .iter()
        .map(|step| match (step, &plan.ladder.open) {
            (Step::Threads(n), _) => u64::from(*n),
            (Step::Rate(_), Some(open)) => u64::from(open.clients),
            (Step::Rate(_), None) => 1,
        })
        .max()
        .unwrap_or(0)
}

pub(super) fn needs(plan: &Plan) -> Needs {
    let ladder = ladder_clients(plan);
    let warmup = plan
        .warmup
        .workload
        .as_ref()
        .map_or(0, |_| u64::from(plan.warmup.threads));
    let clients = ladder.max(warmup);
    let at_once = clients.max(u64::from(plan.dataset.load_threads));
    let mut needs = Needs {
        clients,
        connections: at_once + CONTROL_CONNECTIONS,
        prepared: 0,
        prepared_by: String::new(),
        prepared_each: 0,
    };
    if plan.load.protocol == Protocol::Prepared {
        let bound = match plan.load.max_prepared_per_connection {
            0 => u64::MAX,
            n => u64::from(n),
        };
        let programs = plan.ladder.workloads.iter().map(|w| (w, ladder));
        let programs = programs.chain(plan.warmup.workload.iter().map(|w| (w, warmup)));
        for (program, clients) in programs {
            let each = program
                .prepared_statements_per_client(plan.dataset.tables)
                .min(bound);
            if clients * each > needs.prepared {
                needs.prepared = clients * each;
                needs.prepared_by.clone_from(&program.name);
                needs.prepared_each = each;
            }
        }
    }
    needs
}

/// Every limit of this server and this host that the plan would run into, after the plan's own settings have
/// raised what they raise; its variables as they were when it was opened. Raises capbench's own soft limit of open
/// files as far as the hard one allows. Also what would be tight, as notes; `host` is this machine.
///
/// # Errors
/// The server does not answer.
pub fn preflight(
    plan: &Plan,
    server: &mut Server,
    host: &HostFacts,
) -> Result<Vec<Limit>, TargetError> {
    let variables = &server.identity().variables;
    let mut limits = server_limits(plan, variables, server.flavour());
    let needs = needs(plan);
    let memory = server.identity().local.then_some(host.memory);
    let memory = memory.filter(|memory| memory.0 > 0);
    limits.extend(headroom::notes(plan, &needs, variables, memory));
    limits.extend(open_files(&needs, raise_open_files()));
    if matches!(server.load_endpoint().address, Address::Tcp { .. }) {
        limits.extend(ports(&needs));
    }
    if !server.is_managed() {
        limits.extend(headroom::clock(server)?);
    }
    Ok(limits)
}

/// The arithmetic on the server's variables.
fn server_limits(
    plan: &Plan,
    variables: &BTreeMap<String, String>,
    flavour: Flavour,
) -> Vec<Limit> {
    let needs = needs(plan);
    let available = |name: &str| {
        let planned = plan.target.set.iter().find(|s| s.name == name);
        match planned.map(|s| &s.value) {
            Some(SettingValue::Integer(n)) => u64::try_from(*n).ok(),
            _ => variables.get(name).and_then(|v| v.parse().ok()),
        }
    };
    let fix = |name: &str, value: u64| {
        format!(
            "SET GLOBAL {name} = {value}; or set = {{ {name} = {value} }} under [target], which puts it back at the end"
        )
    };
    let mut limits = Vec::new();
    let mut check = |name: &str, needed: u64, why: String| {
        limits.extend(variant_limits(plan, name, needed, &why));
        if let Some(available) = available(name).filter(|a| *a < needed) {
            limits.push(Limit {
                name: name.to_owned(),
                needed,
                available,
                why,
                fix: fix(name, round_up(needed)),
                blocking: true,
            });
        }
    };
    check(
        "max_connections",
        needs.connections,
        format!(
            "{} clients or loading threads and {CONTROL_CONNECTIONS} connections for control",
            needs.connections - CONTROL_CONNECTIONS
        ),
    );
    if available("max_user_connections").is_some_and(|n| n > 0) {
        check(
            "max_user_connections",
            needs.connections - CONTROL_CONNECTIONS,
            "all clients use one account".to_owned(),
        );
    }
    check(
        "max_prepared_stmt_count",
        needs.prepared,
        format!(
            "{} clients × {} statements that each prepares for {} over {} tables",
            needs.prepared.checked_div(needs.prepared_each).unwrap_or(0),
            needs.prepared_each,
            needs.prepared_by,
            plan.dataset.tables
        ),
    );
    if let Some(files) = available("open_files_limit") {
        // The server itself wants connections + 10 + 2 × table_open_cache (manual, open_files_limit).
        let cache = available("table_open_cache").unwrap_or(0);
        let needed = needs.connections + 10 + u64::from(plan.dataset.tables).min(cache);
        if files > 0 && files < needed {
            limits.push(Limit {
                name: "open_files_limit".to_owned(),
                needed,
                available: files,
                why: format!(
                    "one file a connection and table: {} connections, {} tables",
                    needs.connections, plan.dataset.tables
                ),
                fix: format!(
                    "start the server with --open-files-limit={} and a `ulimit -n` that allows it",
                    round_up(needed)
                ),
                blocking: true,
            });
        }
    }
    let infile_off = variables
        .get("local_infile")
        .is_some_and(|v| v.eq_ignore_ascii_case("off") || v == "0");
    let planned = plan.target.set.iter().any(|s| s.name == "local_infile");
    if infile_off && !planned && !plan.dataset.existing {
        limits.push(Limit {
            name: "local_infile".to_owned(),
            needed: 1,
            available: 0,
            why: match flavour {
                Flavour::MySql => {
                    "off, as MySQL has it by default: data is loaded by INSERT, which is slower"
                }
                Flavour::MariaDb => "off: data is loaded by INSERT, which is slower",
            }
            .to_owned(),
            fix: "SET GLOBAL local_infile = ON; or set = { local_infile = true } under [target]"
                .to_owned(),
            blocking: false,
        });
    }
    limits
}

/// Variants that set a limit lower than the ladder needs.
fn variant_limits(plan: &Plan, name: &str, needed: u64, why: &str) -> Vec<Limit> {
    let value = |setting: &Setting| match setting.value {
        SettingValue::Integer(n) if setting.name == name => u64::try_from(n).ok(),
        _ => None,
    };
    plan.variants
        .iter()
        .flat_map(|v| v.set.iter().chain(&v.options).map(move |s| (v, s)))
        .filter_map(|(variant, setting)| {
            let available = value(setting).filter(|n| *n < needed)?;
            Some(Limit {
                name: name.to_owned(),
                needed,
                available,
                why: format!("variant `{}` sets it so, against {why}", variant.name),
                fix: format!("at least {needed} in the variant, or fewer clients in the ladder"),
                blocking: true,
            })
        })
        .collect()
}

/// To the next round figure, so that a statement to paste looks like one a person would write.
pub(super) fn round_up(n: u64) -> u64 {
    let step = 10_u64.pow(n.max(1).ilog10().saturating_sub(1));
    n.div_ceil(step) * step
}

/// Limits that capbench raises on its own private server because the plan needs more than the default; those
/// that the plan states stay as stated.
pub(super) fn private_limits(plan: &Plan, flavour: Flavour) -> Vec<Setting> {
    let needs = needs(plan);
    let managed = match &plan.target.place {
        Place::Managed(managed) => managed.options.as_slice(),
        Place::Server(_) => &[],
    };
    let stated = |name: &str| {
        managed
            .iter()
            .chain(&plan.target.set)
            .any(|s| s.name == name)
    };
    let raise = |name: &str, needed: u64, default: u64| {
        (needed > default && !stated(name)).then(|| Setting {
            name: name.to_owned(),
            value: SettingValue::Integer(i64::try_from(round_up(needed)).unwrap_or(i64::MAX)),
        })
    };
    let infile = (flavour == Flavour::MySql && !stated("local_infile")).then(|| Setting {
        name: "local_infile".to_owned(),
        value: SettingValue::Bool(true),
    });
    [
        raise(
            "max_connections",
            needs.connections,
            DEFAULT_MAX_CONNECTIONS,
        ),
        raise(
            "max_prepared_stmt_count",
            needs.prepared,
            DEFAULT_MAX_PREPARED,
        ),
        infile,
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Raises this process's soft limit of open files to the hard one and returns what holds then;
/// `None`: no limit.
fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if setrlimit(Resource::Nofile, raised).is_err() {
            return limit.current;
        }
    }
    limit.maximum
}

fn open_files(needs: &Needs, available: Option<u64>) -> Option<Limit> {
    let needed = needs.connections + OWN_FILES;
    let available = available.filter(|a| *a < needed)?;
    Some(Limit {
        name: "ulimit -n".to_owned(),
        needed,
        available,
        why: format!(
            "capbench itself opens one socket a client, {} in all",
            needs.clients
        ),
        fix: format!(
            "ulimit -Hn {0} && ulimit -n {0} before capbench is started (as root, or limits.conf)",
            round_up(needed)
        ),
        blocking: true,
    })
}

/// One client needs one local port towards one server address.
fn ports(needs: &Needs) -> Option<Limit> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut ends = range.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(low)), Some(Ok(high))) = (ends.next(), ends.next()) else {
        return None;
    };
    let available = (high + 1).saturating_sub(low);
    (available < needs.connections).then(|| Limit {
        name: "net.ipv4.ip_local_port_range".to_owned(),
        needed: needs.connections,
        available,
        why: "every connection needs a local port of its own".to_owned(),
        fix: "sysctl net.ipv4.ip_local_port_range='1024 65535', or connect by socket".to_owned(),
        blocking: true,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::super::testing::{plan, program, setting, variant};
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    fn defaults() -> BTreeMap<String, String> {
        map(&[
            ("max_connections", "151"),
            ("max_prepared_stmt_count", "16382"),
            ("max_user_connections", "0"),
            ("open_files_limit", "32184"),
            ("table_open_cache", "2000"),
        ])
    }

    fn names(limits: &[Limit]) -> Vec<&str> {
        limits.iter().map(|l| l.name.as_str()).collect()
    }

    #[test]
    fn sixteen_tables_pass_the_default_between_64_and_128_threads() {
        // oltp_read_write: 9 statements a table; BEGIN and COMMIT are never prepared.
        let mut plan = plan();
        plan.dataset.tables = 16;
        plan.ladder.workloads = vec![program("oltp_read_write", 9)];
        plan.ladder.steps = vec![Step::Threads(64)];
        assert_eq!(
            names(&server_limits(&plan, &defaults(), Flavour::MySql)),
            [""; 0]
        );
        plan.ladder.steps.push(Step::Threads(128));
        let limits = server_limits(&plan, &defaults(), Flavour::MySql);
        assert_eq!(names(&limits), ["max_prepared_stmt_count"]);
        assert_eq!((limits[0].needed, limits[0].available), (128 * 144, 16_382));
        assert!(
            limits[0].fix.contains("max_prepared_stmt_count = 19000"),
            "{}",
            limits[0].fix
        );
        plan.load.protocol = Protocol::Text;
        assert!(server_limits(&plan, &defaults(), Flavour::MySql).is_empty());
        plan.load.protocol = Protocol::Prepared;
        plan.load.max_prepared_per_connection = 100;
        assert!(server_limits(&plan, &defaults(), Flavour::MySql).is_empty());
    }

    #[test]
    fn connections_count_clients_loaders_and_control() {
        let mut plan = plan();
        plan.ladder.steps = vec![Step::Threads(141)];
        assert!(server_limits(&plan, &defaults(), Flavour::MySql).is_empty());
        plan.ladder.steps = vec![Step::Threads(142)];
        let limits = server_limits(&plan, &defaults(), Flavour::MySql);
        assert_eq!(names(&limits), ["max_connections"]);
        assert_eq!(limits[0].needed, 152);
        plan.target.set = vec![Setting {
            name: "max_connections".to_owned(),
            value: SettingValue::Integer(152),
        }];
        assert!(server_limits(&plan, &defaults(), Flavour::MySql).is_empty());
        plan.ladder.steps = vec![Step::Threads(1)];
        plan.dataset.load_threads = 200;
        assert_eq!(
            names(&server_limits(&plan, &defaults(), Flavour::MySql)),
            ["max_connections"]
        );
    }

    #[test]
    fn a_variant_that_sets_a_limit_too_low_is_found() {
        let mut plan = plan();
        plan.ladder.steps = vec![Step::Threads(100)];
        let mut low = variant("few connections");
        low.set = vec![setting("max_connections", 109)];
        plan.variants.push(low);
        let limits = server_limits(&plan, &defaults(), Flavour::MySql);
        assert_eq!(names(&limits), ["max_connections"]);
        assert!(limits[0].why.contains("`few connections`"));
        plan.variants[1].set = vec![setting("max_connections", 110)];
        assert!(server_limits(&plan, &defaults(), Flavour::MySql).is_empty());
    }

    #[test]
    fn local_infile_is_a_note() {
        let mut variables = defaults();
        variables.insert("local_infile".to_owned(), "OFF".to_owned());
        let limits = server_limits(&plan(), &variables, Flavour::MySql);
        assert_eq!(names(&limits), ["local_infile"]);
        assert!(!limits[0].blocking);
    }

    #[test]
    fn a_private_server_gets_what_the_plan_needs_and_does_not_state() {
        let mut plan = plan();
        plan.ladder.workloads = vec![program("oltp_read_write", 9)];
        plan.dataset.tables = 16;
        plan.ladder.steps = vec![Step::Threads(256)];
        let raised = private_limits(&plan, Flavour::MariaDb);
        let value = |name: &str| {
            raised
                .iter()
                .find(|s| s.name == name)
                .map(|s| s.value.clone())
        };
        assert_eq!(value("max_connections"), Some(SettingValue::Integer(270)));
        assert_eq!(
            value("max_prepared_stmt_count"),
            Some(SettingValue::Integer(37_000))
        );
        plan.target.set = vec![Setting {
            name: "max_connections".to_owned(),
            value: SettingValue::Integer(500),
        }];
        assert!(
            private_limits(&plan, Flavour::MariaDb)
                .iter()
                .all(|s| s.name != "max_connections")
        );
        plan.ladder.steps = vec![Step::Threads(8)];
        assert!(private_limits(&plan, Flavour::MariaDb).is_empty());
    }

    #[test]
    fn open_files_of_this_process() {
        let mut plan = plan();
        plan.ladder.steps = vec![Step::Threads(1000)];
        let needs = needs(&plan);
        assert_eq!(open_files(&needs, Some(1024)).unwrap().needed, 1074);
        assert_eq!(open_files(&needs, Some(1074)), None);
        assert_eq!(open_files(&needs, None), None);
    }

    #[test]
    fn round_figures() {
        for (n, up) in [(1, 1), (152, 160), (18_432, 19_000), (100, 100), (0, 0)] {
            assert_eq!(round_up(n), up);
        }
    }
}
