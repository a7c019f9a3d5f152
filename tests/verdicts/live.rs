//! Verdicts on real servers. The short one runs always; the long one by `make verdicts`.
//!
//! The throttle is known: a transaction sleeps in the server for a time that a global variable states, which
//! has no other effect here (`net_retry_count`).

use std::path::Path;
use std::process::{Command, Stdio};

use capbench::analysis::{Comparison, Decision, EffectVerdict, SoakOutcome, analyse};
use capbench::record::{CellKind, Run};
use capbench::store;

use crate::servers;

const WORKLOAD: &str = r#"description = "Sleeps in the server as long as a variable says, then reads a row."

[[transaction]]
name = "throttled"
begin = false

[[transaction.group]]
repeat = 1
[[transaction.group.statement]]
class = "sleep"
sql = "SELECT SLEEP(@@global.net_retry_count / 5000)"
parameters = []
[[transaction.group.statement]]
class = "point_select"
sql = "SELECT c FROM sbtest{table} WHERE id=?"
parameters = ["key"]
"#;

/// A variant without any effect on the load.
const SAME: &str = "[[variant]]\nname = \"same\"\nset = { net_write_timeout = 61 }\n\n";

/// A plan for a private server: `baseline` sleeps 21 ms, `same` too, `quicker` as `count` says.
fn plan(binary: &Path, ladder: &str, count: u32, more: &str) -> String {
    format!(
        r#"name = "throttle"
accept = ["same-host", "short-steps", "few-tables", "small-data", "fits-page-cache", "single-workload", "short-soak"]

[target.managed]
binary = "{}"
options = {{ innodb_buffer_pool_size = "32MiB", net_retry_count = 105 }}

[dataset]
tables = 1
rows = 1_000
load_threads = 1

[warmup]
duration = "1s"
threads = 1

[load]
protocol = "text"

[ladder]
workloads = ["throttle.toml"]
discard = "0s"
interval = "100ms"
{ladder}

[[variant]]
name = "baseline"

{SAME}[[variant]]
name = "quicker"
set = {{ net_retry_count = {count} }}
{more}"#,
        binary.display()
    )
}

/// Runs a plan in a folder of its own; the run, and its report.
fn measured(plan: &str, codes: &[i32]) -> (Run, String) {
    let folder = servers::folder();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("tmp")).unwrap();
    std::fs::write(path("plan.toml"), plan).unwrap();
    std::fs::write(path("throttle.toml"), WORKLOAD).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_capbench"))
        .args(["plan.toml", "--out", "run", "--quiet"])
        .current_dir(folder.path())
        .env("TMPDIR", path("tmp"))
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let code = output.status.code().unwrap_or(-1);
    assert!(
        codes.contains(&code),
        "exit code {code}\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let report = std::fs::read_to_string(path("run/report.md")).unwrap();
    (store::open(&path("run")).unwrap(), report)
}

fn deciding(run: &Run, variant: &str) -> Comparison {
    let found = analyse(run).comparisons;
    let mut deciding = found.into_iter().filter(|c| c.deciding);
    deciding.find(|c| c.variant == variant).unwrap()
}

#[test]
fn a_throttle_taken_away_is_found_and_the_load_after_it_is_held() {
    for binary in servers::servers() {
        let ladder = "threads = [4, 8, 16]\nmeasure = \"500ms\"\nrepeats = 3\nrefine = true\nrefine_budget = \"2s\"";
        let more = "\n[soak]\nduration = \"2s\"\n\n[criteria]\nsoak_held = true\n";
        let (run, report) = measured(&plan(&binary, ladder, 25, more).replace(SAME, ""), &[0, 1]);
        // Four times as fast: found whatever else this machine does.
        let quicker = deciding(&run, "quicker");
        assert_eq!(quicker.runs, (3, 3));
        assert_eq!(quicker.tps.verdict, EffectVerdict::Better, "{quicker:?}");
        assert_ne!(quicker.decision, Decision::RollBack, "{quicker:?}");
        assert!(quicker.confounded.is_empty(), "{quicker:?}");
        // Three passes end with `quicker`: the baseline comes once more, then refining and the soak.
        let kinds: Vec<CellKind> = run.cells.iter().map(|c| c.kind).collect();
        assert_eq!(kinds.iter().filter(|k| **k == CellKind::Ladder).count(), 18);
        let after: Vec<_> = run.cells.iter().skip(18).collect();
        assert!(after.iter().all(|c| c.variant == "baseline"), "{after:?}");
        assert_eq!(after[0].kind, CellKind::Reference);
        assert_eq!(after.last().unwrap().kind, CellKind::Soak);
        assert!(run.after.refine.is_some());
        let findings = analyse(&run);
        let soak = findings.soak.as_ref().unwrap();
        assert_ne!(soak.outcome, SoakOutcome::NotRun, "{soak:?}");
        // 0.8 of the highest step, 16, unless a busy machine bent the knee.
        assert!(after.last().unwrap().clients <= 12, "{soak:?}");
        assert!(soak.seconds > 1.5, "{soak:?}");
        for text in [
            "### Soak:",
            "### Refinement",
            "### The baseline through the run",
        ] {
            assert!(report.contains(text), "{text}\n{report}");
        }
    }
}

/// A/A and A/B in one: `same` differs in nothing that matters, `quicker` sleeps 5 % less.
/// `CAPBENCH_VERDICTS` says how many runs (20).
#[test]
#[ignore = "about ten minutes a server; `make verdicts`"]
fn alike_is_not_called_better_and_five_percent_is_found() {
    let runs: u32 = std::env::var("CAPBENCH_VERDICTS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20);
    for binary in servers::servers() {
        let ladder = "threads = [4, 8, 16]\nmeasure = \"400ms\"\nrepeats = 5";
        let text = plan(&binary, ladder, 100, "");
        let (mut alarms, mut found) = (0, 0);
        for number in 1..=runs {
            let (run, _) = measured(&text, &[0]);
            let (same, quicker) = (deciding(&run, "same"), deciding(&run, "quicker"));
            let claimed = matches!(
                same.tps.verdict,
                EffectVerdict::Better | EffectVerdict::Worse
            );
            alarms += u32::from(claimed);
            found += u32::from(quicker.tps.verdict == EffectVerdict::Better);
            #[expect(clippy::print_stderr, reason = "a measurement that people watch")]
            {
                eprintln!(
                    "{number}/{runs}  same: {}  |  quicker: {}",
                    same.tps.why, quicker.tps.why
                );
            }
        }
        #[expect(clippy::print_stderr, reason = "a measurement that people read")]
        {
            eprintln!(
                "{}: {alarms} of {runs} false alarms, +5 % found {found} times",
                binary.display()
            );
        }
        // 5 % and 80 %, each with two standard errors of so many runs.
        let n = f64::from(runs);
        let slack = |share: f64| 2.0 * (share * (1.0 - share) / n).sqrt();
        assert!(
            f64::from(alarms) / n <= 0.05 + slack(0.05),
            "{alarms} of {runs} false alarms"
        );
        assert!(
            f64::from(found) / n >= 0.80 - slack(0.80),
            "{found} of {runs} found"
        );
    }
}
