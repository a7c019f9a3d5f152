//! Plans good and bad: what a person is told.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};

use capbench::plan;

fn plans(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

/// Each bad plan's problems, as shown; the folder's path is taken out.
#[test]
fn bad_plans_say_what_is_wrong() {
    for file in plans("tests/plans/bad") {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let folder = format!("{}/", file.parent().unwrap().display());
        let problems = plan::load(&file).map(|_| ()).expect_err(&name);
        let shown = problems.render(false).replace(&folder, "");
        assert!(!shown.contains("hunter2"), "{name}: shows a password");
        insta::assert_snapshot!(name.as_str(), shown);
        // Colours change nothing but the colours.
        let coloured = problems.render(true).replace(&folder, "");
        assert_eq!(
            anstream::adapter::strip_str(&coloured).to_string(),
            shown,
            "{name}"
        );
        assert!(coloured.contains('\u{1b}'), "{name}");
    }
}

/// Good plans load, and warn of what is listed on a line `# warns: a, b`.
#[test]
fn good_plans_load() {
    for file in plans("tests/plans/good").into_iter().chain(plans("plans")) {
        let loaded = plan::load(&file).unwrap_or_else(|p| panic!("{p}"));
        let stated: Vec<String> = loaded
            .source
            .lines()
            .find_map(|line| line.strip_prefix("# warns: "))
            .map(|names| names.split(", ").map(str::to_owned).collect())
            .unwrap_or_default();
        let open: Vec<String> = loaded
            .plan
            .warnings
            .iter()
            .filter(|w| !w.accepted)
            .map(|w| w.name.clone())
            .collect();
        assert_eq!(open, stated, "{}", file.display());
        for warning in &loaded.plan.warnings {
            assert!(plan::warning_names().contains(&warning.name.as_str()));
        }
    }
}

#[test]
fn warnings_say_what_follows() {
    let source = include_str!("plans/good/every-warning.toml");
    let plan = plan::parse(source, "every-warning.toml", Path::new("")).unwrap();
    let shown: Vec<String> = plan
        .warnings
        .iter()
        .map(|w| format!("{} (accepted: {}): {}", w.name, w.accepted, w.text))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn files_that_are_no_plans() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let message = |path: &Path| {
        let problems = plan::load(path).map(|_| ()).unwrap_err();
        problems
            .render(false)
            .replace(&format!("{}/", folder.path().display()), "")
    };
    std::fs::write(at("latin1.toml"), b"name = \"ok\"\n# caf\xe9\n").unwrap();
    std::fs::write(at("utf16.toml"), b"\xff\xfen\0a\0m\0e\0").unwrap();
    std::fs::write(at("empty.toml"), "").unwrap();
    std::fs::write(at("large.toml"), vec![b'#'; (1 << 20) + 1]).unwrap();
    std::fs::create_dir(at("folder.toml")).unwrap();
    let names = ["absent", "folder", "large", "latin1", "utf16", "empty"];
    let shown: Vec<String> = names
        .iter()
        .map(|name| message(&at(&format!("{name}.toml"))))
        .collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn a_byte_order_mark_and_crlf_are_no_problem() {
    let source = include_str!("../plans/quickstart.toml").replace('\n', "\r\n");
    let plan = plan::parse(&format!("\u{feff}{source}"), "p", Path::new("")).unwrap();
    assert_eq!(plan.name, "quickstart");
}

/// What the documents show as a plan is one.
#[test]
fn plans_in_the_documents_load() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut plans = 0;
    for document in ["README.md", "docs/plan.md"] {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let plan = block.split("```").next().unwrap();
            if plan.starts_with("name = ") {
                capbench::plan::parse(plan, document, root)
                    .unwrap_or_else(|problems| panic!("{problems}"));
                plans += 1;
            }
        }
    }
    assert_eq!(
        plans, 2,
        "README.md and docs/plan.md each show a whole plan"
    );
}
