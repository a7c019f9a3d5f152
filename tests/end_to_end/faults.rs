//! Faults at moments of their own choosing: whatever happens, the server is as it was, or is said not to be and can
//! be put back. `CAPBENCH_KILLS=20` is the long form (`make faults`).

use std::time::Duration;

use mysql::prelude::Queryable as _;
use rustix::process::Signal;

use crate::external::{LADDER, command, make_accounts, make_foreign, plan, run};
use crate::lab::Lab;
use crate::servers::{self, External};

/// Everything that a run must leave as it was: variables, accounts, and tables that are not capbench's.
pub(crate) fn picture(external: &External) -> Vec<String> {
    let mut root = external.root();
    let mut all = Vec::new();
    for sql in [
        "SHOW GLOBAL VARIABLES",
        "SELECT user, host FROM mysql.user ORDER BY 1, 2",
        "SELECT CONCAT(table_schema, '.', table_name), table_comment FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'performance_schema') AND table_comment <> 'capbench' ORDER BY 1",
    ] {
        let rows: Vec<(String, String)> = root.query(sql).unwrap();
        all.extend(
            rows.into_iter()
                .filter(|(name, _)| !name.starts_with("gtid"))
                .map(|(name, value)| format!("{name} = {value}")),
        );
    }
    all
}

#[test]
fn killed_at_random_moments_and_put_back() {
    let kills: u64 = std::env::var("CAPBENCH_KILLS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(3);
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        lab.write("plan.toml", &plan(&external, LADDER));
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let before = picture(&external);
        for round in 0..kills {
            let out = format!("run{round}");
            let mut running = lab.start(command(&lab, &["plan.toml", "--out", &out]));
            running.said("connecting to");
            // Spread over a run of about six seconds, not twice at the same point.
            let moment = (round * 2_654_435_761) % 6_000;
            std::thread::sleep(Duration::from_millis(moment));
            running.signal(Signal::KILL);
            running.wait();
            if lab.path(&format!("{out}/journal.jsonl")).exists() {
                run(&lab, &["restore", &out]).expect(0);
            }
            assert_eq!(picture(&external), before, "after {moment} ms");
            run(&lab, &["check", "plan.toml"]).expect(0);
        }
    }
}

#[test]
fn a_value_that_the_server_refuses_changes_nothing() {
    for binary in servers::servers() {
        let external = External::start(&binary);
        let lab = Lab::new();
        // A set of words, which no table of values tells beforehand.
        let refused = plan(&external, LADDER).replace(
            "set = { max_connections = 321 }",
            "set = { max_connections = 321, sql_mode = \"NO_SUCH_MODE\" }",
        );
        lab.write("plan.toml", &refused);
        make_foreign(&external);
        make_accounts(&lab, &external, &binary);
        let before = picture(&external);
        run(&lab, &["plan.toml", "--out", "run"])
            .expect(3)
            .says("NO_SUCH_MODE");
        assert_eq!(picture(&external), before);
        assert!(!lab.path("run").exists());
    }
}
