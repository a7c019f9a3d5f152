//! MySQL option files, as the client programs read them.
//!
//! Rules after the server manuals (“Using Option Files”): groups in brackets, `name = value`,
//! `-` and `_` alike in names, `#` and `;` start a comment line, `#` also ends an unquoted value,
//! one pair of single or double quotes is removed, `\b \t \n \r \s \\ \" \'` are escapes, the last
//! of several values wins, `!include FILE` and `!includedir DIR` are followed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::TargetError;

/// Groups that apply to capbench; a later line wins over an earlier one, whatever its group.
const GROUPS: [&str; 4] = ["client", "client-server", "client-mariadb", "capbench"];

/// Includes within includes beyond this depth are taken for a cycle.
const MAX_DEPTH: u32 = 10;

/// The options of the client groups of one file: name (with `_`) → value.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ClientOptions {
    values: BTreeMap<String, String>,
}

impl ClientOptions {
    /// Reads `path` and what it includes.
    pub(crate) fn read(path: &Path) -> Result<Self, TargetError> {
        let mut options = Self::default();
        options.read_into(path, 0)?;
        Ok(options)
    }

    /// The value of `name`; `None` if absent. An option without a value is an empty text.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    fn read_into(&mut self, path: &Path, depth: u32) -> Result<(), TargetError> {
        if depth > MAX_DEPTH {
            return Err(TargetError::Account(format!(
                "option file `{}` is included too deeply (more than {MAX_DEPTH} levels); does it include itself?",
                path.display()
            )));
        }
        let text = std::fs::read(path).map_err(TargetError::file("read", path))?;
        let text = String::from_utf8_lossy(&text);
        let mut applies = false;
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') || line.starts_with(';') {
                continue;
            }
            if let Some(rest) = line.strip_prefix('!') {
                self.include(rest, path, depth)?;
            } else if let Some(rest) = line.strip_prefix('[') {
                let group = rest.split(']').next().unwrap_or_default().trim();
                applies = GROUPS.contains(&group);
            } else if applies {
                let (name, value) = parse_line(line);
                self.values.insert(name, value);
            }
        }
        Ok(())
    }

    fn include(&mut self, directive: &str, from: &Path, depth: u32) -> Result<(), TargetError> {
        let base = from.parent().unwrap_or(Path::new("."));
        if let Some(folder) = directive.strip_prefix("includedir") {
            let folder = base.join(folder.trim());
            let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
                .map_err(TargetError::file("read", &folder))?
                .filter_map(|entry| entry.ok().map(|e| e.path()))
                .filter(|p| p.extension().is_some_and(|e| e == "cnf"))
                .collect();
            files.sort();
            files.iter().try_for_each(|f| self.read_into(f, depth + 1))
        } else if let Some(file) = directive.strip_prefix("include") {
            self.read_into(&base.join(file.trim()), depth + 1)
        } else {
            Ok(())
        }
    }
}

/// `name [= value]` of a trimmed line.
fn parse_line(line: &str) -> (String, String) {
    let line = strip_comment(line).trim_end();
    let (name, value) = line.split_once('=').unwrap_or((line, ""));
    let name = name.trim().replace('-', "_");
    let name = name.strip_prefix("loose_").unwrap_or(&name).to_owned();
    (name, unescape(unquote(value.trim())))
}

/// Cuts a `#` comment that stands outside quotes.
fn strip_comment(line: &str) -> &str {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quote.is_some() => escaped = true,
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            '#' if quote.is_none() => return &line[..at],
            _ => {}
        }
    }
    line
}

fn unquote(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote))
        {
            return inner;
        }
    }
    value
}

fn unescape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('s') => out.push(' '),
            Some(c @ ('\\' | '"' | '\'')) => out.push(c),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> ClientOptions {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.cnf");
        std::fs::write(&path, text).unwrap();
        ClientOptions::read(&path).unwrap()
    }

    #[test]
    fn client_groups_only_and_the_last_value_wins() {
        let options = read(
            "user = nobody\n[mysqld]\nuser = mysql\n[client]\nuser=first\n; no\n# no\n\n\
             [mysql]\nuser = other\n[client]\n  user =  second \nport=3307 # inline\n\
             ssl-ca=/etc/ca.pem\nloose-compress\n",
        );
        assert_eq!(options.get("user"), Some("second"));
        assert_eq!(options.get("port"), Some("3307"));
        assert_eq!(options.get("ssl_ca"), Some("/etc/ca.pem"));
        assert_eq!(options.get("compress"), Some(""));
        assert_eq!(options.get("socket"), None);
    }

    #[test]
    fn quotes_escapes_and_comments() {
        for (line, password) in [
            ("password = plain", "plain"),
            ("password=\"with # hash\" # comment", "with # hash"),
            ("password='sin\"gle'", "sin\"gle"),
            ("password = a=b", "a=b"),
            ("password = back\\\\slash", "back\\slash"),
            ("password = \"say \\\"hi\\\" # x\"", "say \"hi\" # x"),
            ("password = a\\sb\\qc", "a b\\qc"),
            ("password = cut#here", "cut"),
            ("password = ", ""),
            ("password = \"", "\""),
        ] {
            assert_eq!(
                read(&format!("[client]\n{line}\n")).get("password"),
                Some(password),
                "{line}"
            );
        }
    }

    #[test]
    fn includes_are_followed_but_not_forever() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("d")).unwrap();
        std::fs::write(at("d/b.cnf"), "[client]\nuser = b\n").unwrap();
        std::fs::write(at("d/a.cnf"), "[client]\nuser = a\nport = 1\n").unwrap();
        std::fs::write(at("d/z.txt"), "[client]\nuser = z\n").unwrap();
        std::fs::write(at("my.cnf"), "!includedir d\n[client]\nhost = h\n").unwrap();
        let options = ClientOptions::read(&at("my.cnf")).unwrap();
        assert_eq!(options.get("user"), Some("b"));
        assert_eq!(options.get("port"), Some("1"));
        assert_eq!(options.get("host"), Some("h"));
        std::fs::write(at("loop.cnf"), "!include loop.cnf\n").unwrap();
        assert!(matches!(
            ClientOptions::read(&at("loop.cnf")),
            Err(TargetError::Account(_))
        ));
        assert!(matches!(
            ClientOptions::read(&at("absent.cnf")),
            Err(TargetError::File { .. })
        ));
    }
}
