//! The import table of ARCHITECTURE.md is true.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The module names behind every `crate::` in a source text.
fn imports(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &text[at + "crate::".len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 0;
            for item in list.split_inclusive([',', '{', '}']) {
                if depth == 0 {
                    let name: String = item
                        .trim()
                        .chars()
                        .take_while(|c| c.is_alphanumeric() || *c == '_')
                        .collect();
                    found.insert(name);
                }
                depth += i32::from(item.ends_with('{')) - i32::from(item.ends_with('}'));
                if depth < 0 {
                    break;
                }
            }
        } else {
            found.insert(
                rest.chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect(),
            );
        }
    }
    found.remove("");
    found
}

#[test]
fn imports_are_those_of_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let names = |cell: &str| -> BTreeSet<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let table: BTreeMap<String, BTreeSet<String>> = text
        .lines()
        .skip_while(|line| !line.starts_with("| module |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            (names(cells[1]).first().unwrap().clone(), names(cells[2]))
        })
        .collect();
    assert!(table.len() > 10, "the table of modules was not found");

    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let relative = file.strip_prefix(root.join("src")).unwrap();
        let module = relative
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_string_lossy()
            .replace(".rs", "");
        if module == "lib" || module == "main" {
            continue;
        }
        let allowed = table
            .get(&module)
            .unwrap_or_else(|| panic!("`{module}` has no row in ARCHITECTURE.md"));
        for import in imports(&std::fs::read_to_string(&file).unwrap()) {
            if import != module && !allowed.contains(&import) {
                wrong.push(format!("{}: crate::{import}", relative.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "imports that the table does not allow:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn imports_are_found_in_every_form() {
    let text = "use crate::plan::Plan; use crate::{units::{Bytes, Span}, record}; fn f() { crate::load::run() }";
    let expected: BTreeSet<String> = ["plan", "units", "record", "load"]
        .map(str::to_owned)
        .into();
    assert_eq!(imports(text), expected);
}
