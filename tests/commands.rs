//! The commands that need no server: what they print and how they end.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::path::Path;
use std::process::{Command, Output};

/// Each file in `tests/cmd` is a conversation: a command line and what it prints. `TRYCMD=overwrite` writes
/// them anew.
#[test]
fn conversations() {
    trycmd::TestCases::new()
        // Nothing of a test outlives it.
        .env("CAPBENCH_CACHE_SIZE", "0")
        .case("tests/cmd/*.trycmd")
        .case("tests/cmd/*.toml")
        .run();
}

fn capbench(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_capbench"))
        .args(args)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn a_report_is_written_again_from_the_records_alone() {
    let lab = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/run-hot-rows");
    copy(&fixture, &lab.path().join("run"));
    let first = capbench(lab.path(), &["report", "run"]);
    assert!(first.status.success(), "{first:?}");
    let text = String::from_utf8(first.stdout).unwrap();
    assert!(text.contains("run/report.md"), "{text}");
    assert!(
        first.stderr.is_empty(),
        "{:?}",
        String::from_utf8(first.stderr)
    );
    let report = std::fs::read(lab.path().join("run/report.md")).unwrap();
    assert!(report.starts_with(b"# Capacity report"));
    std::fs::remove_file(lab.path().join("run/report.md")).unwrap();
    assert!(capbench(lab.path(), &["report", "run"]).status.success());
    assert_eq!(
        std::fs::read(lab.path().join("run/report.md")).unwrap(),
        report
    );

    // A template of the user's own.
    std::fs::write(lab.path().join("mine.j2"), "{{ summary.name }}!\n").unwrap();
    let own = capbench(lab.path(), &["report", "run", "--template", "mine.j2"]);
    assert!(own.status.success(), "{own:?}");
    let report = std::fs::read_to_string(lab.path().join("run/report.md")).unwrap();
    assert!(report.trim_end().ends_with('!'), "{report}");
    std::fs::write(lab.path().join("mine.j2"), "{{ summary.nothing_such }}\n").unwrap();
    let wrong = capbench(lab.path(), &["report", "run", "--template", "mine.j2"]);
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("mine.j2") && said.contains('1'), "{said}");
}

#[test]
fn a_report_on_less_says_so_and_one_on_nothing_is_refused() {
    let lab = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/run-hot-rows");
    copy(&fixture, &lab.path().join("run"));
    let server = lab.path().join("run/server.csv");
    let whole = std::fs::read(&server).unwrap();
    std::fs::write(&server, &whole[..whole.len() / 2]).unwrap();
    let less = capbench(lab.path(), &["report", "run"]);
    assert!(less.status.success(), "{less:?}");
    let said = String::from_utf8(less.stderr).unwrap();
    assert!(
        said.contains("warning") && said.contains("server.csv: ends within line"),
        "{said}"
    );

    let before = std::fs::read(lab.path().join("run/cells.csv")).unwrap();
    std::fs::remove_file(lab.path().join("run/intervals.csv")).unwrap();
    let nothing = capbench(lab.path(), &["report", "run"]);
    assert_eq!(nothing.status.code(), Some(2));
    let said = String::from_utf8(nothing.stderr).unwrap();
    assert!(
        said.contains("intervals.csv") && said.contains("missing"),
        "{said}"
    );
    let after = std::fs::read(lab.path().join("run/cells.csv")).unwrap();
    assert_eq!(before, after, "a report on nothing undoes the one there is");
}

#[test]
fn a_plan_that_asks_a_person_does_not_begin_without_one() {
    let lab = tempfile::tempdir().unwrap();
    let plan = "name = \"p\"\n[target]\nhost = \"127.0.0.1\"\nport = 1\nuser = \"u\"\n\
        [dataset]\nrows = 10\n[ladder]\nworkloads = [\"oltp_read_only\"]\nthreads = [1]\n\
        [[variant]]\nname = \"as it is\"\n\
        [[variant]]\nname = \"moved disk\"\noperator = true\nset = { sync_binlog = 0 }\n";
    std::fs::write(lab.path().join("p.toml"), plan).unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_capbench"))
        .arg("p.toml")
        .stdin(std::process::Stdio::null())
        .current_dir(lab.path())
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("`moved disk` is applied by a person") && said.contains("hint:"),
        "{said}"
    );
    assert!(!lab.path().join("reports").exists(), "nothing was begun");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let shell = format!(
        "{} workload show oltp_read_write | head -n 1; exit ${{PIPESTATUS:-0}}",
        env!("CARGO_BIN_EXE_capbench")
    );
    let ended = Command::new("sh").args(["-c", &shell]).output().unwrap();
    assert!(
        ended.stderr.is_empty(),
        "{:?}",
        String::from_utf8(ended.stderr)
    );
}
