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

/// Every line that is commented out is a key that can be stated as shown.
#[test]
fn every_example_is_a_value() {
    for key in plan::keys::KEYS {
        let text = key.default.unwrap_or(key.example);
        let document = format!("x = {text}");
        assert!(document.parse::<toml::Table>().is_ok(), "{}: {text}", key.path);
    }
    let examples = [
        (
            "target = {",
            vec!["socket", "user", "password_env", "set"],
            "} ",
        ),
    ];
    let _ = examples;
}

/// The defaults as a person would check them, once, against the documentation of the method.
#[test]
fn defaults_are_the_method() {
    let plan = plan::parse(MINIMAL, "minimal.toml", Path::new("")).unwrap();
    insta::assert_debug_snapshot!(plan);
}
