//! No text makes the reader panic, show a password, or fail without a reason.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::Path;

use capbench::plan;
use proptest::prelude::*;

const GOOD: &str = include_str!("plans/good/open-loop.toml");

/// Reads and renders; what fails must say why.
fn read(source: &str) -> Result<(), TestCaseError> {
    if let Err(problems) = plan::parse(source, "plan.toml", Path::new("/nowhere")) {
        prop_assert!(!problems.diagnostics().is_empty());
        let shown = problems.render(false);
        prop_assert!(shown.starts_with("error: "), "{shown}");
        let escapes = shown.contains('\u{1b}');
        prop_assert!(!escapes);
        problems.render(true);
    }
    Ok(())
}

/// Text that looks a little like TOML.
fn tomlish() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n".to_owned()),
        Just(" = ".to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just("[[variant]]\n".to_owned()),
        Just("{".to_owned()),
        Just("}".to_owned()),
        Just("\"".to_owned()),
        Just("'''".to_owned()),
        Just(",".to_owned()),
        Just("\u{1b}[31m".to_owned()),
        Just("\r".to_owned()),
        proptest::sample::select(plan::keys::KEYS).prop_map(|k| k.path.to_owned()),
        proptest::sample::select(plan::keys::KEYS)
            .prop_map(|k| { format!("{} = {}\n", k.path, k.default.unwrap_or(k.example)) }),
        proptest::sample::select(plan::keys::SECTIONS).prop_map(|s| format!("[{}]\n", s.path)),
        any::<f64>().prop_map(|n| format!("{n}")),
        any::<i128>().prop_map(|n| format!("{n}")),
        "\\PC{0,8}",
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// A value of any type.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}").replace("NaN", "nan")),
        any::<bool>().prop_map(|b| b.to_string()),
        "[0-9]{1,25}(s|ms|h|%|GiB|x buffer_pool|:00-06:00)?".prop_map(|s| format!("'{s}'")),
        "[^\\x00-\\x1f'\\x7f]{0,12}".prop_map(|s| format!("'{s}'")),
        Just("2024-01-01T00:00:00Z".to_owned()),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(", "))),
            inner.prop_map(|item| format!("{{ a = {item} }}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(source in any::<String>()) {
        read(&source)?;
    }

    #[test]
    fn text_like_toml(source in tomlish()) {
        read(&source)?;
    }

    /// Every key with any value.
    #[test]
    fn any_value(key in proptest::sample::select(plan::keys::KEYS), value in value()) {
        read(&format!("{} = {value}\n", key.path))?;
        if let Some(name) = key.path.strip_prefix("variant.") {
            read(&format!("[[variant]]\n{name} = {value}\n"))?;
        }
    }

    /// A good plan with characters put in, taken out and exchanged, and lines moved.
    #[test]
    fn damaged_plans(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<Option<char>>()), 1..6),
        lines in proptest::option::of((any::<prop::sample::Index>(), any::<prop::sample::Index>())),
    ) {
        let mut chars: Vec<char> = GOOD.chars().collect();
        for (at, edit) in edits {
            let at = at.index(chars.len());
            match edit {
                Some(c) => chars[at] = c,
                None => { chars.remove(at); }
            }
        }
        let source: String = chars.into_iter().collect();
        let mut all: Vec<&str> = source.lines().collect();
        if let Some((a, b)) = lines {
            let (a, b) = (a.index(all.len()), b.index(all.len()));
            all.swap(a, b);
        }
        read(&all.join("\n"))?;
    }

    /// Wherever a password is put, it is never shown.
    #[test]
    fn passwords_are_hidden(
        line in any::<prop::sample::Index>(),
        key in proptest::sample::select(vec!["password", "Password", "\"password\"", "passwd", "admin_password", "target.password"]),
        form in proptest::sample::select(vec!["\"{}\"", "'{}'", "{}", "\"{}", "{ a = \"{}\" }", "[\"{}\"]"]),
    ) {
        let mut lines: Vec<String> = GOOD.lines().map(str::to_owned).collect();
        let at = line.index(lines.len());
        lines.insert(at, format!("{key} = {}", form.replace("{}", "hunter2")));
        let source = lines.join("\n");
        if let Err(problems) = plan::parse(&source, "plan.toml", Path::new("")) {
            prop_assert!(!problems.render(false).contains("hunter2"));
            let debug = format!("{problems:?}");
            prop_assert!(!debug.contains("hunter2"));
        } else {
            prop_assert!(false, "accepted: {key}");
        }
    }
}

#[test]
fn deep_and_long_texts() {
    for source in [
        "[".repeat(100_000),
        format!("name = {}", "[".repeat(100_000)),
        format!("name = {}", "{a=".repeat(100_000)),
        "a = 1\n".repeat(20_000),
        (0..1_000).fold(String::new(), |all, i| all + &format!("k{i} = 1\n")),
        format!("name = \"{}\"", "x".repeat(900_000)),
    ] {
        read(&source).unwrap();
    }
}
