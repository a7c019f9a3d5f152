//! The reference plan and the documentation, both written from the table of keys.
//! (Writing into a `String` cannot fail, so those results are let go.)

use std::fmt::Write;

use super::key::{Key, Section};
use super::keys::{KEYS, SECTIONS};
use super::warnings::WARNINGS;

/// Width of comment lines in the reference plan.
const WIDTH: usize = 96;

/// The text of `plans/reference.toml`: every key at its default, explained. What has no default
/// stands commented out with an example; what a plan must state, with an example.
pub fn reference() -> String {
    let mut out = String::new();
    comment(
        &mut out,
        "The reference plan: every key at its default, explained. Generated from the table of keys in src/plan/keys.rs. A plan needs only `name`, [target] and in [ladder] `workloads` and `threads`; leave out what you would not change. Keys without a default stand commented out, with an example.",
    );
    comment(
        &mut out,
        "Durations \"300s\", \"5m\", \"1h30m\", \"500ms\"; sizes \"16GiB\", \"512MiB\"; shares \"30%\" or 0.3. Paths are relative to this file.",
    );
    for section in SECTIONS {
        write_section(&mut out, section);
    }
    out
}

fn write_section(out: &mut String, section: &Section) {
    out.push('\n');
    comment(out, section.meaning);
    let mark = if section.stated { "" } else { "# " };
    let free = KEYS.iter().find(|k| k.path == section.path);
    if !section.path.is_empty() {
        let header = if section.array {
            format!("{mark}[[{}]]\n", section.path)
        } else {
            format!("{mark}[{}]\n", section.path)
        };
        out.push_str(&header);
    }
    if let Some(key) = free {
        // A free table: the entries of its example, one a line.
        let table = format!("example = {}", key.example).parse::<toml::Table>();
        let entries = table
            .ok()
            .and_then(|t| t.get("example")?.as_table().cloned());
        for (name, value) in entries.unwrap_or_default() {
            let _ = writeln!(out, "# {name} = {value}");
        }
        return;
    }
    for key in KEYS
        .iter()
        .filter(|k| k.section() == section.path && !is_section(k))
    {
        out.push('\n');
        let limits = key.kind.limits();
        let mut text = key.meaning.to_owned();
        if !limits.is_empty() {
            let _ = write!(text, " ({limits})");
        }
        if key.required {
            text.push_str(" Required");
            if !key.absent.is_empty() {
                let _ = write!(text, ", or {}", key.absent);
            }
            text.push('.');
        } else if key.default.is_none() {
            let _ = write!(text, " Without it: {}.", key.absent);
        }
        comment(out, &text);
        let line = match key.default {
            Some(default) => format!("{mark}{} = {default}\n", key.name()),
            None if key.required => format!("{mark}{} = {}\n", key.name(), key.example),
            None => format!("# {} = {}\n", key.name(), key.example),
        };
        out.push_str(&line);
    }
}

fn is_section(key: &Key) -> bool {
    SECTIONS.iter().any(|s| s.path == key.path)
}

fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line != "#" {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

/// The text of `docs/plan.md`.
pub fn documentation() -> String {
    let mut out = String::from(INTRODUCTION);
    for section in SECTIONS {
        let title = match (section.path, section.array) {
            ("", _) => "Top level".to_owned(),
            (path, true) => format!("`[[{path}]]`"),
            (path, false) => format!("`[{path}]`"),
        };
        let _ = write!(out, "\n## {title}\n\n{}\n", section.meaning);
        let rows: Vec<&Key> = KEYS
            .iter()
            .filter(|k| k.section() == section.path && !is_section(k))
            .collect();
        if rows.is_empty() {
            continue;
        }
        out.push_str("\n| key | type | default | meaning |\n|---|---|---|---|\n");
        for key in rows {
            out.push_str(&row(key));
        }
    }
    out.push_str(WARNINGS_HEAD);
    for (name, about) in WARNINGS {
        let _ = writeln!(out, "| `{name}` | {about} |");
    }
    out
}

fn row(key: &Key) -> String {
    let limits = key.kind.limits();
    let kind = if limits.is_empty() {
        key.kind.name().to_owned()
    } else {
        format!("{}: {}", key.kind.name(), limits.replace('"', "`"))
    };
    let default = match key.default {
        Some(default) => format!("`{default}`"),
        None if key.required && key.absent.is_empty() => "required".to_owned(),
        None if key.required => format!("required, or {}", key.absent),
        None => format!("without it: {}", key.absent),
    };
    let mut meaning = key.meaning.to_owned();
    if key.default.is_none() {
        let _ = write!(meaning, " Example: `{}`.", key.example);
    }
    if key.since != "0.1" {
        let _ = write!(meaning, " Since {}.", key.since);
    }
    format!(
        "| `{}` | {} | {} | {} |\n",
        key.name(),
        cell(&kind),
        cell(&default),
        cell(&meaning)
    )
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

const INTRODUCTION: &str = "\
# The plan

<!-- Generated from the table of keys in src/plan/keys.rs; `CAPBENCH_BLESS=1 cargo test --test plan_reference` writes it again. -->

A plan is one TOML file that states a whole capacity test: which server, how much data, which
load, what may be changed between two measurements, and what the result must be. It is kept in
git; the same plan gives the same test next year. `plans/quickstart.toml` is a small one that runs
anywhere, `plans/release-checklist.toml` the full one, `plans/reference.toml` has every key at
its default.

The smallest plan:

```toml
name = \"orders-db before cut-over\"

[target]
host = \"10.0.0.5\"
user = \"bench\"
password_env = \"CAPBENCH_PASSWORD\"

[ladder]
workloads = [\"oltp_read_only\", \"oltp_read_write\", \"oltp_write_only\"]
threads = [8, 16, 32, 64, 128]
```

`capbench check plan.toml` reports every problem in one go, with line and way out; nothing is
touched. A key that is not known is refused, with the nearest one that is.

- **Durations** have a unit: `\"300s\"`, `\"5m\"`, `\"1h30m\"`, `\"500ms\"`.
- **Sizes** too: `\"16GiB\"`, `\"512MiB\"`; `K`, `M`, `G`, `T` are powers of 1024 as in MySQL, `kB`,
  `MB`, `GB`, `TB` of 1000. In `set` and `options` a string that is exactly a size becomes bytes.
- **Shares** are `\"30%\"` or `0.3`.
- **Paths** are relative to the plan's folder; `~/` is the home folder.
- **Variables** are named as the server names them; case and `-` or `_` make no difference.
- **Passwords** never stand in a plan: `password_env`, `password_file` or a MySQL option file.
  A stated `user` without any of them has no password; without a `user`, `[client]` of
  `~/.my.cnf` gives both.
";

const WARNINGS_HEAD: &str = "
## Warnings

A departure from the method is a warning, not an error: `capbench check` prints it and the report
repeats it. `accept = [\"name\", …]` at the top of the plan accepts warnings by name; the report then
says so, beside the verdict.

| name | raised when |
|---|---|
";
