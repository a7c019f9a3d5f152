//! Block 1: where and how it was measured.

use std::collections::BTreeMap;

use crate::plan::Arrivals;
use crate::record::{
    AppliedSetting, DatasetFacts, HostFacts, Resumption, Run, RunEnd, ServerIdentity,
};
use crate::report::figures::{
    MISSING, count, duration, figure, instant, or_missing, seconds_between,
};
use crate::units::Bytes;

use super::model::{Environment, Pair, SettingView, VariantView};

/// The variables that decide what a result means, in the order of the report. Servers have one or the
/// other of several names; those that the server does not have are left out.
pub const IMPORTANT_VARIABLES: [&str; 47] = [
    "innodb_buffer_pool_size",
    "innodb_buffer_pool_instances",
    "innodb_redo_log_capacity",
    "innodb_log_file_size",
    "innodb_log_files_in_group",
    "innodb_log_buffer_size",
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "innodb_flush_method",
    // MariaDB 11 splits the flush method into these.
    "innodb_data_file_buffering",
    "innodb_data_file_write_through",
    "innodb_log_file_buffering",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "innodb_doublewrite",
    "innodb_page_size",
    "innodb_adaptive_hash_index",
    "innodb_thread_concurrency",
    "max_connections",
    "max_prepared_stmt_count",
    "table_open_cache",
    "table_open_cache_instances",
    "open_files_limit",
    "thread_cache_size",
    "log_bin",
    "binlog_format",
    "binlog_checksum",
    "binlog_row_image",
    "binlog_cache_size",
    "gtid_mode",
    "enforce_gtid_consistency",
    "gtid_strict_mode",
    "log_replica_updates",
    "log_slave_updates",
    "rpl_semi_sync_source_enabled",
    "rpl_semi_sync_master_enabled",
    "performance_schema",
    "thread_handling",
    "thread_pool_size",
    "transaction_isolation",
    "tx_isolation",
    "autocommit",
    "query_cache_type",
    "slow_query_log",
    "general_log",
    "read_only",
    "version_compile_machine",
];

/// Variables whose value is a number of bytes.
const SIZES: [&str; 6] = [
    "innodb_buffer_pool_size",
    "innodb_redo_log_capacity",
    "innodb_log_file_size",
    "innodb_log_buffer_size",
    "innodb_page_size",
    "binlog_cache_size",
];

pub(super) fn environment(run: &Run) -> Environment {
    Environment {
        author: pairs(&run.environment),
        server: server(run.server.as_ref()),
        variables: run
            .server
            .as_ref()
            .map(|s| variables(&s.variables))
            .unwrap_or_default(),
        settings: run.settings.iter().map(setting).collect(),
        data: data(run.dataset.as_ref()),
        host: host(&run.host),
        test: test(run),
    }
}

fn pairs(words: &[(String, String)]) -> Vec<Pair> {
    words.iter().map(|(n, v)| Pair::new(n, v)).collect()
}

fn variables(all: &BTreeMap<String, String>) -> Vec<Pair> {
    IMPORTANT_VARIABLES
        .iter()
        .filter_map(|&name| Some(Pair::new(name, value_with_size(name, all.get(name)?))))
        .collect()
}

fn value_with_size(name: &str, value: &str) -> String {
    match value.parse::<u64>() {
        Ok(bytes) if SIZES.contains(&name) && bytes >= 1024 => {
            format!("{value} ({})", Bytes(bytes))
        }
        _ if value.is_empty() => "(empty)".to_owned(),
        _ => value.to_owned(),
    }
}

fn setting(applied: &AppliedSetting) -> SettingView {
    let shown = |value: Option<&str>| or_missing(value.map(|v| value_with_size(&applied.name, v)));
    SettingView {
        name: applied.name.clone(),
        before: shown(applied.before.as_deref()),
        asked: shown(Some(&applied.asked)),
        took: shown(applied.took.as_deref()),
    }
}

fn server(server: Option<&ServerIdentity>) -> Vec<Pair> {
    let Some(server) = server else {
        return vec![Pair::new("server", "never reached")];
    };
    let place = if server.local {
        "on the load machine"
    } else {
        "on another machine, as far as can be told"
    };
    vec![
        Pair::new("server", format!("{} {}", server.flavour, server.version)),
        Pair::new("build", &server.comment),
        Pair::new("server id", or_missing(server.uuid.clone())),
        Pair::new("address", format!("{}, {place}", server.address)),
        Pair::new("TLS", &server.tls),
        Pair::new(
            "round trip",
            format!("{} (median of 21 empty queries)", server.round_trip),
        ),
    ]
}

fn data(dataset: Option<&DatasetFacts>) -> Vec<Pair> {
    let Some(data) = dataset else {
        return vec![Pair::new("data", "never made")];
    };
    let ratio = data.ratio().map_or_else(
        || format!("{MISSING}: the buffer pool is not known"),
        |ratio| format!("{}× the buffer pool of {}", figure(ratio), data.buffer_pool),
    );
    let origin = match (data.origin.as_str(), data.load_seconds) {
        (origin, Some(seconds)) => format!("{origin} in {}", duration(seconds)),
        (origin, None) => origin.to_owned(),
    };
    let mut pairs = vec![
        Pair::new("tables", count(data.tables.into())),
        Pair::new("rows per table", count(data.rows)),
        Pair::new(
            "size",
            format!("{} of data and indexes, measured after loading", data.bytes),
        ),
        Pair::new("ratio", ratio),
        Pair::new("origin", origin),
    ];
    if let Some(compared) = data.compared {
        pairs.push(Pair::new(
            "checked",
            checked(compared, u64::from(data.tables) * data.rows),
        ));
    }
    pairs
}

/// What of kept tables was held against what had been loaded; `compared` of `all` rows.
fn checked(compared: u64, all: u64) -> String {
    let rows = match compared {
        0 => "no row was read, so that the buffer pool stays cold".to_owned(),
        _ if compared < all => format!(
            "{} of {} rows were compared and equal what was loaded, the others were not read",
            count(compared),
            count(all)
        ),
        _ => format!("all {} rows equal what was loaded", count(all)),
    };
    format!("definitions, first and last id of all tables; {rows}")
}

fn host(host: &HostFacts) -> Vec<Pair> {
    let stolen = host.stolen.map_or_else(
        || MISSING.to_owned(),
        |s| format!("{s} of CPU time since boot"),
    );
    vec![
        Pair::new("load machine", &host.name),
        Pair::new("system", &host.system),
        Pair::new("CPU", format!("{}, {} cores usable", host.cpu, host.cores)),
        Pair::new("memory", host.memory.to_string()),
        Pair::new("stolen", stolen),
    ]
}

fn test(run: &Run) -> Vec<Pair> {
    let ended = run.ended_at.as_deref();
    let took = ended
        .and_then(|end| seconds_between(&run.started_at, end))
        .map_or_else(String::new, |s| format!(", {}", duration(s)));
    let times = format!(
        "{} to {}{took}{}",
        instant(&run.started_at),
        ended.map_or_else(|| MISSING.to_owned(), instant),
        pauses(&run.resumed),
    );
    let mut rows = vec![
        Pair::new("capbench", &run.tool),
        Pair::new("plan", format!("{}, SHA-256 {}", run.name, run.plan_sha256)),
        Pair::new("command", &run.command),
        Pair::new("time", times),
        Pair::new("end", end(&run.end)),
        Pair::new("seed", run.seed.to_string()),
        Pair::new("protocol", format!("{} statements", run.protocol)),
        Pair::new("row access", &run.access),
        Pair::new(
            "step",
            format!(
                "{} measured after {} discarded, intervals of {}",
                run.measure, run.discard, run.interval
            ),
        ),
        Pair::new("passes", run.repeats.to_string()),
        Pair::new("warm-up", &run.warmup),
        Pair::new("data reset", &run.reset),
    ];
    if !run.resumed.is_empty() {
        let times: Vec<String> = run.resumed.iter().map(taken_up_again).collect();
        rows.insert(4, Pair::new("taken up again", times.join(", ")));
    }
    if let Some(open) = run.open {
        let arrivals = match open.arrivals {
            Arrivals::Poisson => "Poisson",
            Arrivals::Even => "evenly spaced",
        };
        rows.push(Pair::new(
            "open loop",
            format!(
                "{arrivals} arrivals shared by at most {} clients; {} may wait, further ones are dropped and counted",
                count(open.clients.into()),
                count(open.backlog.into())
            ),
        ));
    }
    rows
}

/// `at 2026-11-30 12:00:00 UTC after cell 2 (the user had ended it; 3m 20s lay between)`.
fn taken_up_again(again: &Resumption) -> String {
    let end = match &again.end {
        Some(RunEnd::Interrupted) => "the user had ended it".to_owned(),
        Some(RunEnd::Failed(why)) => format!("it had failed: {why}"),
        Some(RunEnd::Stopped(why)) => format!("it had been stopped: {why}"),
        Some(RunEnd::Running) => "it had been cut off".to_owned(),
        Some(RunEnd::Completed) | None => "how it had ended is not recorded".to_owned(),
    };
    let place = match again.after_cell {
        0 => "before any cell".to_owned(),
        cell => format!("after cell {cell}"),
    };
    let between = pause(again).map_or_else(
        || "when is not recorded".to_owned(),
        |seconds| format!("{} lay between", duration(seconds)),
    );
    format!("at {} {place} ({end}; {between})", instant(&again.at))
}

/// Seconds in which nothing ran; `None`: the run was cut off, and when is not recorded.
fn pause(again: &Resumption) -> Option<f64> {
    seconds_between(again.ended_at.as_deref()?, &again.at)
}

/// What of a run's time was none.
fn pauses(resumed: &[Resumption]) -> String {
    let known: f64 = resumed.iter().filter_map(pause).sum();
    let unknown = resumed.iter().any(|again| pause(again).is_none());
    match (resumed.is_empty(), known > 0.0, unknown) {
        (true, ..) => String::new(),
        (_, true, true) => format!(
            "; of it {} and a time that is not recorded between its parts",
            duration(known)
        ),
        (_, false, true) => "; of it a time that is not recorded between its parts".to_owned(),
        (_, _, false) => format!("; of it {} between its parts", duration(known)),
    }
}

/// How a run ended, in words.
pub(super) fn end(end: &RunEnd) -> String {
    match end {
        RunEnd::Running => "cut off: capbench did not get to end this run".to_owned(),
        RunEnd::Completed => "all cells were tried".to_owned(),
        RunEnd::Stopped(why) => format!("stopped: {why}"),
        RunEnd::Interrupted => "interrupted by the user".to_owned(),
        RunEnd::Failed(why) => format!("failed: {why}"),
    }
}

pub(super) fn variants(run: &Run) -> Vec<VariantView> {
    run.variants
        .iter()
        .map(|variant| VariantView {
            name: variant.name.clone(),
            restarted: if variant.restarted { "yes" } else { "no" }.to_owned(),
            settings: variant.settings.iter().map(setting).collect(),
            differs: variant
                .differs
                .iter()
                .map(|(name, (baseline, this))| SettingView {
                    name: name.clone(),
                    before: value_with_size(name, baseline),
                    asked: MISSING.to_owned(),
                    took: value_with_size(name, this),
                })
                .collect(),
            several: variant.several,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_not_read_are_never_shown_as_unequal() {
        let shown = [0, 30_000, 60_000].map(|compared| checked(compared, 60_000));
        assert!(
            shown[0].ends_with("no row was read, so that the buffer pool stays cold"),
            "{}",
            shown[0]
        );
        assert!(
            shown[1].ends_with("were compared and equal what was loaded, the others were not read"),
            "{}",
            shown[1]
        );
        assert!(shown[2].contains("all ") && !shown[2].contains("not read"));
    }

    #[test]
    fn a_resumption_says_how_it_had_ended_and_how_long_nothing_ran() {
        let again = |end, ended_at: Option<&str>| Resumption {
            at: "2026-11-30T12:00:00Z".into(),
            after_cell: 2,
            end,
            ended_at: ended_at.map(str::to_owned),
        };
        let user = again(Some(RunEnd::Interrupted), Some("2026-11-30T11:59:00Z"));
        let killed = again(Some(RunEnd::Running), None);
        let minute = duration(60.0);
        let shown = taken_up_again(&user);
        assert!(
            shown.contains("after cell 2 (the user had ended it; ")
                && shown.ends_with(&format!("{minute} lay between)")),
            "{shown}"
        );
        assert!(taken_up_again(&killed).ends_with("(it had been cut off; when is not recorded)"));
        assert_eq!(pauses(&[]), "");
        assert_eq!(
            pauses(&[user.clone(), user.clone()]),
            format!("; of it {} between its parts", duration(120.0))
        );
        assert!(pauses(&[user, killed.clone()]).contains(&format!("{minute} and a time")));
        assert!(pauses(&[killed]).contains("of it a time that is not recorded"));
    }
}
