//! What all drills share: a plan for a private server, the run, and what was found at its ladder.

use std::path::{Path, PathBuf};
use std::process::Command;

use capbench::analysis::{self, Bottleneck, Cause, Findings};
use capbench::record::Run;
use capbench::store;

use crate::lab::{Lab, Running};

/// A plan for a private server: its options, what else stands before the ladder, and the ladder's keys.
pub(crate) fn private(binary: &Path, options: &str, before: &str, ladder: &str) -> String {
    plan(
        &format!(
            "[target.managed]\nbinary = \"{}\"\noptions = {{ {options} }}",
            binary.display()
        ),
        before,
        ladder,
    )
}

/// A plan for any target.
pub(crate) fn plan(target: &str, before: &str, ladder: &str) -> String {
    let dataset = if before.contains("[dataset]") {
        ""
    } else {
        "[dataset]\ntables = 2\nrows = 5_000\nload_threads = 2\n"
    };
    format!(
        r#"name = "drill"
accept = ["same-host", "short-steps", "few-tables", "small-data", "fits-page-cache"]

{target}

{dataset}
{before}

[warmup]
duration = "0s"

[ladder]
discard = "500ms"
interval = "250ms"
{ladder}
"#
    )
}

/// What a run brought.
pub(crate) struct Found {
    pub(crate) run: Run,
    pub(crate) findings: Findings,
    pub(crate) report: String,
}

impl Found {
    /// Reads the run folder `run` of the lab.
    pub(crate) fn read(lab: &Lab) -> Self {
        let run = store::open(&lab.path("run")).unwrap();
        let findings = analysis::analyse(&run);
        Self {
            run,
            findings,
            report: lab.read("run/report.md"),
        }
    }

    /// What stops the first ladder, at its knee and beyond.
    pub(crate) fn bottlenecks(&self) -> Vec<&Bottleneck> {
        let ladder = &self.findings.ladders[0];
        ladder.bottleneck.iter().chain(&ladder.beyond).collect()
    }

    /// The cause is named first, at the knee or beyond it. On a machine that others keep busy they stand
    /// first, and rightly: then the cause must stand beside them.
    #[track_caller]
    pub(crate) fn names(&self, cause: Cause) -> &Bottleneck {
        let crowded = |b: &Bottleneck| {
            b.evidence
                .iter()
                .any(|e| e.cause == Cause::OtherProcesses && e.met == Some(true))
        };
        let named = |b: &&&Bottleneck| {
            b.primary == cause || (crowded(b) && b.contributing.contains(&cause))
        };
        let all = self.bottlenecks();
        match all.iter().find(named) {
            Some(bottleneck) => bottleneck,
            None => panic!(
                "{cause:?} is not named:\n{}\nmissing: {:?}\nevidence: {:#?}\n{:#?}",
                all.iter()
                    .map(|b| b.sentence.clone())
                    .collect::<Vec<_>>()
                    .join("\n"),
                all.iter().map(|b| &b.missing).collect::<Vec<_>>(),
                all.iter()
                    .flat_map(|b| &b.evidence)
                    .map(|e| format!(
                        "{:?} {}: {} ({}) {:?}",
                        e.cause, e.signal, e.value, e.threshold, e.met
                    ))
                    .collect::<Vec<_>>(),
                self.findings
                    .cells
                    .iter()
                    .map(|c| format!("{} {:?} {:?} {:?}", c.step, c.tps, c.status, c.reasons))
                    .collect::<Vec<_>>(),
            ),
        }
    }
}

/// Runs a plan to its end.
pub(crate) fn drill(lab: &Lab, plan: &str) -> Found {
    lab.write("plan.toml", plan);
    ended(lab, lab.start(lab.command(&["plan.toml", "--out", "run"])))
}

/// Waits for a run; whatever its verdict, it must have measured.
pub(crate) fn ended(lab: &Lab, running: Running) -> Found {
    let ended = running.wait();
    assert!(
        [0, 1, 4].contains(&ended.code),
        "exit {}:\n{}\n{}",
        ended.code,
        ended.stdout,
        ended.stderr
    );
    Found::read(lab)
}

/// A server program whose flushes and page reads are slow while the lab's file `slow` exists; `None`
/// without a C compiler.
#[allow(clippy::print_stderr, reason = "says what was left out")]
pub(crate) fn slow_io(lab: &Lab, binary: &Path, fsync_ms: u32, pread_ms: u32) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drills/slow_io.c");
    let library = lab.path("slow_io.so");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source)
        .output();
    match made {
        Ok(output) => assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => {
            eprintln!("skipped: no C compiler for slow_io.c ({error})");
            return None;
        }
    }
    let first = format!(
        "export LD_PRELOAD={} DRILL_FLAG={} DRILL_FSYNC_MS={fsync_ms} DRILL_PREAD_MS={pread_ms}",
        library.display(),
        lab.path("slow").display(),
    );
    Some(wrapped(lab, binary, &first))
}

/// A server program that does something `first` and becomes `binary`.
pub(crate) fn wrapped(lab: &Lab, binary: &Path, first: &str) -> PathBuf {
    let wrapper = lab.path("wrapped-server");
    let script = format!("#!/bin/sh\n{first}\nexec {} \"$@\"\n", binary.display());
    std::fs::write(&wrapper, script).unwrap();
    let runnable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&wrapper, runnable).unwrap();
    wrapper
}

/// Runs a plan on a server of [`slow_io`]: what is slow is so from the first cell on.
pub(crate) fn slow_drill(lab: &Lab, plan: &str) -> Found {
    lab.write("plan.toml", plan);
    let mut running = lab.start(lab.command(&["plan.toml", "--out", "run"]));
    running.said("[1/");
    lab.write("slow", "");
    ended(lab, running)
}
