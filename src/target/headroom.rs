//! What would be tight under a plan's load without failing: said as notes, with the arithmetic.

use std::collections::BTreeMap;
use std::time::SystemTime;

use super::preflight::{Limit, Needs, round_up};
use super::server::{Server, planned_buffer_pools};
use super::{LOGINS, TargetError};
use crate::plan::Plan;
use crate::units::Bytes;

/// A server's clock may be so many seconds away from this machine's before it is said [H].
const CLOCK: f64 = 2.0;

/// What each connection may take of the server's memory, as far as the built-in workloads make it: its stack, its
/// packets, one sort, and what it has written and not committed where there is a binary log.
const PER_CONNECTION: [&str; 4] = [
    "thread_stack",
    "net_buffer_length",
    "sort_buffer_size",
    "binlog_cache_size",
];
/// What the server takes once, beside the buffer pool.
const GLOBAL: [&str; 2] = ["innodb_log_buffer_size", "key_buffer_size"];

/// Notes by arithmetic on the server's variables; `memory` is that of the server's host, where it is known.
pub(super) fn notes(
    plan: &Plan,
    needs: &Needs,
    variables: &BTreeMap<String, String>,
    memory: Option<Bytes>,
) -> Vec<Limit> {
    let value = |name: &str| variables.get(name).and_then(|v| v.parse::<u64>().ok());
    [
        table_cache(plan, needs, &value),
        back_log(needs, &value),
        memory.and_then(|memory| memory_use(plan, needs, &value, memory)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

type Value<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// Each instance of the cache holds its own copy of a table, and a copy serves one statement at a time (manual,
/// "How MySQL Opens and Closes Tables"; `table_open_cache_instances`).
fn table_cache(plan: &Plan, needs: &Needs, value: Value<'_>) -> Option<Limit> {
    let available = value("table_open_cache")?;
    let instances = value("table_open_cache_instances").unwrap_or(1).max(1);
    let tables = u64::from(plan.dataset.tables);
    let needed = tables * instances + needs.clients;
    (available < needed).then(|| Limit {
        name: "table_open_cache".to_owned(),
        needed,
        available,
        why: format!(
            "{available}, under {needed} ({tables} tables in {instances} instances of the cache, and {} clients): tables may be opened again and again under load, which Table_open_cache_misses shows",
            needs.clients
        ),
        fix: format!("SET GLOBAL table_open_cache = {}", round_up(needed)),
        blocking: false,
    })
}

/// capbench logs in [`LOGINS`] clients at a time; a server that is slow to accept them drops what its queue does not
/// hold, and the client tries again after a second.
fn back_log(needs: &Needs, value: Value<'_>) -> Option<Limit> {
    let available = value("back_log").filter(|n| *n > 0)?;
    let needed = needs.clients.min(u64::from(LOGINS));
    (available < needed).then(|| Limit {
        name: "back_log".to_owned(),
        needed,
        available,
        why: format!(
            "{available}, and {needed} clients connect at the same time: connecting may take seconds"
        ),
        fix: format!("start the server with --back-log={}", round_up(needed)),
        blocking: false,
    })
}

fn memory_use(plan: &Plan, needs: &Needs, value: Value<'_>, memory: Bytes) -> Option<Limit> {
    let sum = |names: &[&str]| names.iter().filter_map(|name| value(name)).sum::<u64>();
    let own = value("innodb_buffer_pool_size")?;
    let pool = planned_buffer_pools(plan).fold(own, u64::max);
    let each = sum(&PER_CONNECTION);
    let needed = pool + sum(&GLOBAL) + needs.clients * each;
    (needed > memory.0).then(|| Limit {
        name: "memory of the server's host".to_owned(),
        needed,
        available: memory.0,
        why: format!(
            "{memory}, under the {} that the server may take (buffer pool {}, and {} clients × {}): it would swap, or be ended by its system",
            Bytes(needed),
            Bytes(pool),
            needs.clients,
            Bytes(each)
        ),
        fix: "a smaller innodb_buffer_pool_size, or fewer clients".to_owned(),
        blocking: false,
    })
}

/// A server whose clock or time zone is another than this machine's: the times in its logs are not those of the
/// report. Nothing that is measured depends on it.
///
/// # Errors
/// The server does not answer.
pub(super) fn clock(server: &mut Server) -> Result<Vec<Limit>, TargetError> {
    let sql = "SELECT UNIX_TIMESTAMP(NOW(6)), TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(), NOW())";
    let before = SystemTime::now();
    let answer = server.control.pairs(sql)?;
    let after = SystemTime::now();
    let now = |at: SystemTime| {
        at.duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0.0, |since| since.as_secs_f64())
    };
    let Some((seconds, minutes)) = answer.first() else {
        return Ok(Vec::new());
    };
    let (Ok(seconds), Ok(minutes)) = (seconds.parse::<f64>(), minutes.parse::<i32>()) else {
        return Ok(Vec::new());
    };
    let here = jiff::ZonedDateTime::now().offset().seconds() / 60;
    let ahead = seconds - f64::midpoint(now(before), now(after));
    Ok([clock_note(ahead), zone_note(minutes, here)]
        .into_iter()
        .flatten()
        .collect())
}

fn clock_note(ahead: f64) -> Option<Limit> {
    (ahead.abs() > CLOCK).then(|| Limit {
        name: "clock of the server".to_owned(),
        needed: 0,
        available: 0,
        why: format!(
            "{:.0} s {} this machine's: the times in its logs are not those of the report",
            ahead.abs(),
            if ahead > 0.0 { "ahead of" } else { "behind" }
        ),
        fix: "have both set by NTP (timedatectl set-ntp true)".to_owned(),
        blocking: false,
    })
}

/// Both in minutes east of UTC.
fn zone_note(server: i32, here: i32) -> Option<Limit> {
    let shown = |minutes: i32| {
        let sign = if minutes < 0 { '-' } else { '+' };
        let minutes = minutes.unsigned_abs();
        format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    };
    (server != here).then(|| Limit {
        name: "time zone of the server".to_owned(),
        needed: 0,
        available: 0,
        why: format!(
            "{}, this machine's {}: the report's times are UTC, those in the server's logs may not be",
            shown(server),
            shown(here)
        ),
        fix: "SET GLOBAL log_timestamps = UTC where the server has it, or bear it in mind".to_owned(),
        blocking: false,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::preflight::needs;
    use super::super::testing::{plan, setting};
    use super::*;
    use crate::plan::Step;

    fn found(plan: &Plan, variables: &[(&str, u64)], memory: Option<Bytes>) -> Vec<Limit> {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_string()))
            .collect();
        notes(plan, &needs(plan), &variables, memory)
    }

    #[test]
    fn each_instance_of_the_table_cache_holds_every_table() {
        let mut plan = plan();
        plan.dataset.tables = 200;
        plan.ladder.steps = vec![Step::Threads(64)];
        let cache = |open, instances| {
            found(
                &plan,
                &[
                    ("table_open_cache", open),
                    ("table_open_cache_instances", instances),
                ],
                None,
            )
        };
        assert_eq!(cache(3264, 16), []);
        let notes = cache(3263, 16);
        assert_eq!((notes[0].needed, notes[0].blocking), (3264, false));
        assert!(
            notes[0].fix.ends_with("table_open_cache = 3300"),
            "{}",
            notes[0].fix
        );
        assert_eq!(cache(300, 1), []);
    }

    #[test]
    fn the_queue_of_new_connections_must_hold_those_that_log_in_at_once() {
        let mut plan = plan();
        plan.ladder.steps = vec![Step::Threads(1000)];
        assert_eq!(found(&plan, &[("back_log", LOGINS.into())], None), []);
        assert_eq!(
            found(&plan, &[("back_log", u64::from(LOGINS) - 1)], None)[0].needed,
            u64::from(LOGINS)
        );
        plan.ladder.steps = vec![Step::Threads(8)];
        assert_eq!(found(&plan, &[("back_log", 8)], None), []);
    }

    #[test]
    fn memory_is_counted_where_the_host_is_seen() {
        let mut plan = plan();
        plan.ladder.steps = vec![Step::Threads(1000)];
        let variables = [
            ("innodb_buffer_pool_size", 1 << 30),
            ("thread_stack", 1 << 20),
            ("sort_buffer_size", 1 << 20),
        ];
        let enough = Bytes((1 << 30) + 1000 * (2 << 20));
        assert_eq!(found(&plan, &variables, None), []);
        assert_eq!(found(&plan, &variables, Some(enough)), []);
        let tight = found(&plan, &variables, Some(Bytes(enough.0 - 1)));
        assert_eq!(tight[0].needed, enough.0);
        // The largest pool of all variants counts.
        plan.target.set = vec![setting("innodb_buffer_pool_size", 2 << 30)];
        assert_eq!(found(&plan, &variables, Some(enough)).len(), 1);
    }

    #[test]
    fn clocks_and_zones_are_named_with_their_difference() {
        assert_eq!(clock_note(1.9), None);
        assert!(
            clock_note(37.2)
                .unwrap()
                .to_string()
                .contains("37 s ahead of")
        );
        assert!(
            clock_note(-37.2)
                .unwrap()
                .to_string()
                .contains("37 s behind")
        );
        assert_eq!(zone_note(0, 0), None);
        let note = zone_note(-570, 120).unwrap().to_string();
        assert!(
            note.contains("UTC-09:30, this machine's UTC+02:00"),
            "{note}"
        );
    }
}
