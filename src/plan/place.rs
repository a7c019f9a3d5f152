//! `[target]`: what was typed → where the server is and how to get in.

use std::path::{Path, PathBuf};

use super::diagnostic::{At, Diagnostic};
use super::wire::Fields;
use super::{
    Account, Address, Hooks, Managed, PasswordSource, Place, ServerPlace, Target, Tls, TlsMode,
};

/// Keys of `[target]` that only a server of someone else has.
const SERVER_ONLY: &[&str] = &[
    "target.host",
    "target.port",
    "target.socket",
    "target.user",
    "target.password_env",
    "target.password_file",
    "target.defaults_file",
    "target.tls",
    "target.tls_ca",
];

/// Start-up options that capbench chooses itself for a private server.
const RESERVED: &[&str] = &[
    "bind_address",
    "datadir",
    "defaults_extra_file",
    "defaults_file",
    "no_defaults",
    "pid_file",
    "port",
    "socket",
];

/// Schemas of the server itself.
const SYSTEM_SCHEMAS: &[&str] = &["mysql", "information_schema", "performance_schema", "sys"];

/// Longest name of a database in `MySQL` and `MariaDB`, in characters.
const LONGEST_DATABASE: usize = 64;

/// Makes paths of a plan absolute or relative to the working folder: relative ones start at the plan's folder,
/// `~/` at the home folder.
pub(super) fn resolve(base: &Path, text: &str) -> PathBuf {
    if let Some(rest) = text.strip_prefix("~/")
        && let Some(home) = std::env::var_os("HOME").filter(|h| !h.is_empty())
    {
        return Path::new(&home).join(rest);
    }
    base.join(text)
}

pub(super) fn target(wire: &Fields, base: &Path, problems: &mut Vec<Diagnostic>) -> Target {
    let place = match wire.table("target.managed") {
        Some(at) => Place::Managed(managed(wire, base, &at, problems)),
        None => Place::Server(server(wire, base, problems)),
    };
    let database = wire.text("target.database").unwrap_or_default();
    check_database(&database, wire.at("target.database"), problems);
    let set = wire.settings("target.set");
    super::variants::no_duplicates("target.set", &set, &[], problems);
    Target {
        place,
        database,
        set: set.into_iter().map(|item| item.value).collect(),
        connect_timeout: wire.duration("target.connect_timeout").unwrap_or_default(),
        start_timeout: wire.duration("target.start_timeout").unwrap_or_default(),
        probe: super::replicas::host_probe(wire, problems),
    }
}

fn check_database(name: &str, at: Option<At>, problems: &mut Vec<Diagnostic>) {
    let problem = if name.trim().is_empty() {
        "`target.database` is empty".to_owned()
    } else if SYSTEM_SCHEMAS.contains(&name.to_lowercase().as_str()) {
        format!("`target.database`: `{name}` belongs to the server")
    } else if name.chars().count() > LONGEST_DATABASE {
        "`target.database` is longer than 64 characters".to_owned()
    } else if name.ends_with(' ') || name.contains(['`', '/', '\\', '.', '\n', '\t', '\'', '"']) {
        format!("`target.database`: `{name}` is not a plain name")
    } else {
        return;
    };
    problems.push(
        Diagnostic::error(at, problem)
            .hint("name a database for the test tables alone, such as \"capbench\""),
    );
}

fn managed(wire: &Fields, base: &Path, at: &At, problems: &mut Vec<Diagnostic>) -> Managed {
    for path in SERVER_ONLY {
        if let Some(key) = wire.key_at(path) {
            problems.push(
                Diagnostic::error(key, format!("`{path}` and [target.managed] exclude each other"))
                    .also(at.clone(), "a private server is asked for here")
                    .hint("capbench chooses address and accounts of a private server itself; keep one of the two"),
            );
        }
    }
    for path in ["target.admin", "target.hooks", "target.probe"] {
        if let Some(table) = wire.table(path) {
            problems.push(
                Diagnostic::error(
                    table,
                    format!("[{path}] and [target.managed] exclude each other"),
                )
                .also(at.clone(), "a private server is asked for here")
                .hint("capbench administers a private server itself; leave it out"),
            );
        }
    }
    let options = wire.settings("target.managed.options");
    super::variants::no_duplicates("target.managed.options", &options, &[], problems);
    check_reserved("target.managed.options", &options, problems);
    let binary = wire.text("target.managed.binary").map(|text| {
        // A bare name is looked up in PATH.
        if text.contains('/') {
            resolve(base, &text)
        } else {
            PathBuf::from(text)
        }
    });
    Managed {
        binary,
        directory: wire
            .text("target.managed.directory")
            .map(|text| resolve(base, &text)),
        options: options.into_iter().map(|item| item.value).collect(),
        cache: wire.flag("target.managed.cache"),
    }
}

/// Refuses start-up options that would take a private server out of capbench's hands.
pub(super) fn check_reserved(
    path: &str,
    options: &[super::value::Item<super::Setting>],
    problems: &mut Vec<Diagnostic>,
) {
    for item in options {
        if RESERVED.contains(&item.value.name.as_str()) {
            problems.push(
                Diagnostic::error(
                    item.at.clone(),
                    format!(
                        "`{path}`: capbench sets `{}` of a private server itself",
                        item.value.name
                    ),
                )
                .hint("leave it out; the folder is chosen by [target.managed] directory"),
            );
        }
    }
}

fn server(wire: &Fields, base: &Path, problems: &mut Vec<Diagnostic>) -> ServerPlace {
    let tls = tls(wire, base, problems);
    let hooks = Hooks {
        apply: hook(wire, "target.hooks.apply", problems),
        restart: hook(wire, "target.hooks.restart", problems),
    };
    ServerPlace {
        address: address(wire, base, problems),
        account: account(wire, "target", base, problems),
        admin: wire
            .table("target.admin")
            .map(|_| account(wire, "target.admin", base, problems)),
        tls,
        hooks,
    }
}

fn hook(wire: &Fields, path: &str, problems: &mut Vec<Diagnostic>) -> Option<String> {
    let command = wire.text(path)?;
    if command.trim().is_empty() {
        problems.push(
            Diagnostic::error(wire.at(path), format!("`{path}` is empty"))
                .hint("write a shell command, or leave the key out"),
        );
    }
    Some(command)
}

fn address(wire: &Fields, base: &Path, problems: &mut Vec<Diagnostic>) -> Address {
    let host = wire.text("target.host");
    let socket = wire.text("target.socket");
    if let (Some(at), Some(other)) = (wire.key_at("target.socket"), wire.key_at("target.host")) {
        problems.push(
            Diagnostic::error(at, "`target.host` and `target.socket` exclude each other")
                .also(other, "the host stands here")
                .hint("keep the one by which the application connects"),
        );
    } else if let (Some(at), Some(_)) = (wire.key_at("target.port"), &socket) {
        problems.push(
            Diagnostic::error(at, "`target.port` has no meaning with `target.socket`")
                .hint("leave the port out, or state `host` instead of `socket`"),
        );
    }
    if wire.missing("target.host") && wire.missing("target.socket") {
        problems.push(
            Diagnostic::error(wire.table("target"), "the plan names no server")
                .hint("state `host` or `socket` in [target], or add [target.managed] for a private server"),
        );
    }
    if let Some(host) = &host
        && (host.trim() != host || host.is_empty() || host.contains([' ', '/', '@', '\t', '\n']))
    {
        problems.push(
            Diagnostic::error(
                wire.at("target.host"),
                "`target.host` is not a host name or address",
            )
            .hint("write the name or address alone; port, user and database have keys of their own")
            // Someone may have pasted a URL with a password in it.
            .secret(),
        );
    } else if let Some((name, port)) = host.as_ref().and_then(|h| h.split_once(':'))
        && !port.contains(':')
    {
        problems.push(
            Diagnostic::error(
                wire.at("target.host"),
                format!("`target.host` holds the port {port}"),
            )
            .hint(format!("write host = \"{name}\" and port = {port}")),
        );
    }
    match (host, socket) {
        (None, Some(socket)) => Address::Socket(resolve(base, &socket)),
        (host, _) => Address::Tcp {
            host: host.unwrap_or_default(),
            port: u16::try_from(wire.count("target.port")).unwrap_or_default(),
        },
    }
}

/// An account below `section`. Without a user the option file names it; with a user and no source there
/// is no password.
pub(super) fn account(
    wire: &Fields,
    section: &str,
    base: &Path,
    problems: &mut Vec<Diagnostic>,
) -> Account {
    let path = |name: &str| format!("{section}.{name}");
    let sources = ["password_env", "password_file", "defaults_file"];
    let given: Vec<String> = sources
        .iter()
        .map(|name| path(name))
        .filter(|p| wire.given(p))
        .collect();
    if let [first, second, ..] = given.as_slice() {
        problems.push(
            Diagnostic::error(
                wire.key_at(second),
                format!("`{first}` and `{second}` both say where the password is"),
            )
            .also(wire.key_at(first), "the first stands here")
            .hint("keep one of them"),
        );
    }
    let user = wire.text(&path("user"));
    if user.as_ref().is_some_and(|u| u.trim().is_empty()) {
        problems.push(
            Diagnostic::error(
                wire.at(&path("user")),
                format!("`{}` is empty", path("user")),
            )
            .hint("name the account, or leave the key out to take it from the option file"),
        );
    }
    let password = if let Some(name) = wire.text(&path("password_env")) {
        check_variable(
            &path("password_env"),
            &name,
            wire.at(&path("password_env")),
            problems,
        );
        PasswordSource::Env(name)
    } else if let Some(file) = wire.text(&path("password_file")) {
        PasswordSource::File(resolve(base, &file))
    } else if let Some(file) = wire.text(&path("defaults_file")) {
        PasswordSource::OptionFile(Some(resolve(base, &file)))
    } else if user.is_none() {
        PasswordSource::OptionFile(None)
    } else {
        PasswordSource::Empty
    };
    Account { user, password }
}

/// A name that no environment variable can have is perhaps the password itself: it is not shown.
fn check_variable(path: &str, name: &str, at: Option<At>, problems: &mut Vec<Diagnostic>) {
    let good = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !good {
        problems.push(
            Diagnostic::error(at, format!("`{path}` does not name an environment variable"))
                .hint("state the variable's name, such as \"CAPBENCH_PASSWORD\"; the password goes into the environment, never into the plan")
                .secret(),
        );
    }
}

fn tls(wire: &Fields, base: &Path, problems: &mut Vec<Diagnostic>) -> Tls {
    let mode = match wire.text("target.tls").as_deref() {
        Some("disabled") => TlsMode::Disabled,
        Some("required") => TlsMode::Required,
        Some("verify-ca") => TlsMode::VerifyCa,
        Some("verify-identity") => TlsMode::VerifyIdentity,
        _ => TlsMode::Preferred,
    };
    let ca = wire.text("target.tls_ca").map(|text| resolve(base, &text));
    let checks = matches!(mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity);
    if ca.is_some() && !checks && !wire.broken("target.tls") {
        problems.push(
            Diagnostic::error(
                wire.key_at("target.tls_ca"),
                "`target.tls_ca` is not looked at: this mode checks no certificate",
            )
            .also(wire.at("target.tls"), "the mode stands here")
            .hint("write tls = \"verify-ca\" or \"verify-identity\", or leave `tls_ca` out"),
        );
    }
    Tls { mode, ca }
}
