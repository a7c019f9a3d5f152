//! The committed reference plan and documentation are the table of keys.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use capbench::plan;

/// Compares a committed file with its generated text; `CAPBENCH_BLESS=1` writes it instead.
fn committed(path: &str, generated: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("CAPBENCH_BLESS").is_some() {
        std::fs::write(&file, generated).unwrap();
    }
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        text == generated,
        "{path} differs from the table of keys; CAPBENCH_BLESS=1 cargo test --test plan_reference writes it"
    );
}

#[test]
fn reference_plan_is_generated() {
    committed("plans/reference.toml", &plan::reference());
}

#[test]
fn documentation_is_generated() {
    committed("docs/plan.md", &plan::documentation());
}

const MINIMAL: &str = r#"
name = "reference"
[target]
host = "127.0.0.1"
[ladder]
workloads = ["oltp_read_only", "oltp_read_write", "oltp_write_only"]
threads = [8, 16, 32, 64, 128]
"#;

#[test]
fn reference_plan_states_the_defaults() {
    let base = Path::new("");
    let reference = plan::parse(&plan::reference(), "reference.toml", base).unwrap();
    let minimal = plan::parse(MINIMAL, "minimal.toml", base).unwrap();
    assert_eq!(format!("{reference:#?}"), format!("{minimal:#?}"));
    assert_eq!(reference.warnings, []);
}

/// Every default and example, stated alone, is a value that its key takes.
#[test]
fn every_example_is_accepted() {
    for key in plan::keys::KEYS {
        let value = key.default.unwrap_or(key.example);
        let (head, path) = match key.path.strip_prefix("variant.") {
            Some(name) => ("[[variant]]\n", name),
            None => ("", key.path),
        };
        let source = format!("{head}{path} = {value}\n");
        let from = source.len() - value.len() - 1;
        let problems = plan::parse(&source, "p", Path::new("")).unwrap_err();
        for problem in problems.diagnostics() {
            let inside = problem.span.as_ref().is_some_and(|at| at.start >= from);
            assert!(!inside, "{source}{problems}");
        }
    }
}

/// The defaults as a person would check them, once, against the documentation of the method.
#[test]
fn defaults_are_the_method() {
    let mut plan = plan::parse(MINIMAL, "minimal.toml", Path::new("")).unwrap();
    // What the workloads do is another test's.
    assert_eq!(
        plan.warmup.workload.take().unwrap().name,
        "oltp_point_select"
    );
    assert_eq!(plan.ladder.workloads.drain(..).len(), 3);
    insta::assert_debug_snapshot!(plan);
}
