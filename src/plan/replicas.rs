//! `[[replica]]` and `[target.probe]`: what is watched beside the server itself.

use std::path::Path;

use super::diagnostic::Diagnostic;
use super::place::account;
use super::wire::{Fields, Wire};
use super::{Address, HostProbe, Replica};

/// Port of a `node_exporter`.
const EXPORTER_PORT: u16 = 9100;

/// The replicas of a plan.
pub(super) fn replicas(wire: &Wire, base: &Path, problems: &mut Vec<Diagnostic>) -> Vec<Replica> {
    let mut found: Vec<Replica> = Vec::new();
    if let (Some(first), Some(managed)) = (wire.replicas.first(), wire.plan.table("target.managed"))
    {
        problems.push(
            Diagnostic::error(first.at.clone(), "a private server has no replicas")
                .also(managed, "a private server is asked for here")
                .hint("leave [[replica]] out"),
        );
    }
    for item in &wire.replicas {
        let fields = &item.value;
        if fields.missing("replica.host") {
            problems.push(
                Diagnostic::error(item.at.clone(), "a replica has no host")
                    .hint("add host = \"…\" below [[replica]]"),
            );
        }
        let host = fields.text("replica.host").unwrap_or_default();
        if fields.given("replica.host") && !fields.broken("replica.host") && !is_host(&host) {
            problems.push(
                Diagnostic::error(
                    fields.at("replica.host"),
                    "`replica.host` is not a host name or address",
                )
                .hint("write the name or address alone; the port has a key of its own")
                .secret(),
            );
        }
        let address = Address::Tcp {
            host,
            port: u16::try_from(fields.count("replica.port")).unwrap_or_default(),
        };
        let name = fields
            .text("replica.name")
            .map_or_else(|| address.to_string(), |name| name.trim().to_owned());
        let at = fields.at("replica.name").or_else(|| Some(item.at.clone()));
        if name.is_empty() || name.contains(['\n', '\t', ',']) {
            problems.push(
                Diagnostic::error(
                    at,
                    "`replica.name` is empty, breaks a line or holds a comma",
                )
                .hint("name the replica as people call it"),
            );
        } else if found.iter().any(|other| other.name == name) {
            problems.push(
                Diagnostic::error(at, format!("two replicas are called `{name}`"))
                    .hint("give each replica a name of its own; its lag is filed under it"),
            );
        }
        let stated = ["user", "password_env", "password_file", "defaults_file"]
            .iter()
            .any(|key| fields.given(&format!("replica.{key}")));
        found.push(Replica {
            name,
            address,
            account: stated.then(|| account(fields, "replica", base, problems)),
        });
    }
    found
}

fn is_host(text: &str) -> bool {
    let spoiled = text.contains([' ', '/', '@', '\t', '\n']);
    // One colon is a port; an IPv6 address has more.
    let port = text.matches(':').count() == 1;
    !text.is_empty() && !spoiled && !port
}

/// How the server's own host is read.
pub(super) fn host_probe(fields: &Fields, problems: &mut Vec<Diagnostic>) -> Option<HostProbe> {
    let table = fields.table("target.probe");
    let (url, command) = (
        fields.text("target.probe.url"),
        fields.text("target.probe.command"),
    );
    if let (Some(url), Some(_)) = (&url, &command) {
        let problem = Diagnostic::error(
            fields.key_at("target.probe.command"),
            "`target.probe.url` and `target.probe.command` exclude each other",
        )
        .hint("keep one of them");
        // A line with an account in it is not shown.
        problems.push(if url.contains('@') {
            problem
        } else {
            problem.also(fields.key_at("target.probe.url"), "the address stands here")
        });
    } else if table.is_some()
        && fields.missing("target.probe.url")
        && fields.missing("target.probe.command")
    {
        problems.push(
            Diagnostic::error(table, "[target.probe] says nothing")
                .hint("state `url` (a node_exporter) or `command` (prints /proc files)"),
        );
    }
    if let Some(command) = command {
        if command.trim().is_empty() {
            problems.push(
                Diagnostic::error(
                    fields.at("target.probe.command"),
                    "`target.probe.command` is empty",
                )
                .hint("write a shell command, or leave the key out"),
            );
        }
        return Some(HostProbe::Command(command));
    }
    let url = url?;
    let exporter = exporter(&url);
    if exporter.is_none() {
        problems.push(
            Diagnostic::error(
                fields.at("target.probe.url"),
                "`target.probe.url` is not an address of plain HTTP",
            )
            .hint("write \"http://HOST:9100/metrics\", without account; where only HTTPS is offered, use `command` with curl or ssh")
            // Someone may have written a password into it.
            .secret(),
        );
    }
    exporter
}

fn exporter(url: &str) -> Option<HostProbe> {
    let rest = url.strip_prefix("http://")?;
    if rest.contains(['@', ' ', '\t', '\r', '\n', '#']) {
        return None;
    }
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, "/metrics"),
    };
    let (host, port) = if let Some(inner) = authority.strip_prefix('[') {
        let (host, after) = inner.split_once(']')?;
        (host, after.strip_prefix(':'))
    } else {
        match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    let port = port.map_or(Some(EXPORTER_PORT), |p| p.parse().ok().filter(|p| *p > 0))?;
    (!host.is_empty()).then(|| HostProbe::Exporter {
        host: host.to_owned(),
        port,
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_exporters() {
        for (url, expected) in [
            ("http://db", Some(("db", 9100, "/metrics"))),
            ("http://db:80/m?a=b", Some(("db", 80, "/m?a=b"))),
            ("http://[::1]:9100/", Some(("::1", 9100, "/"))),
            ("https://db", None),
            ("http://u:p@db", None),
            ("http://db:0/", None),
            ("http://:9100/", None),
            ("http://db/ a", None),
        ] {
            let expected = expected.map(|(host, port, path)| HostProbe::Exporter {
                host: host.to_owned(),
                port,
                path: path.to_owned(),
            });
            assert_eq!(exporter(url), expected, "{url}");
        }
    }

    #[test]
    fn hosts() {
        assert!(is_host("db-1") && is_host("10.0.0.6") && is_host("::1"));
        assert!(!is_host("db:3306") && !is_host("") && !is_host("u@db"));
    }
}
