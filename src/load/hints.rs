//! Ways out of what servers and systems refuse.

use std::io::{Error, ErrorKind};

use super::wire::WireError;

/// A line for an account or a connection that the server refused; empty if there is none.
pub(super) fn refused(error: &WireError, clients: u32) -> String {
    let WireError::Server(error) = error else {
        return String::new();
    };
    let hint = match error.code {
        1040 => format!(
            "{clients} clients need max_connections above {} (control connections and other users \
             included); raise it in [target] set, or use fewer clients",
            clients.saturating_add(10)
        ),
        1203 | 1226 => format!(
            "{clients} clients need max_user_connections of the account and the server at 0 (no limit) \
             or at least {clients}"
        ),
        1045 => "check user and password; an account for '%' is shadowed by an anonymous account \
                 ''@'localhost' if there is one"
            .into(),
        1044 | 1142 => "the load's account needs rights on the database; `capbench grants PLAN` prints them".into(),
        1049 => "the database does not exist; `capbench prepare PLAN` makes it".into(),
        1129 => "the server has blocked this host after too many failed connections; FLUSH HOSTS frees it".into(),
        1130 => "the server has no account for this host".into(),
        1251 | 1275 | 2059 => "use an account with caching_sha2_password, mysql_native_password or ed25519".into(),
        1698 => "the account uses auth_socket or has no password; use one with a password".into(),
        1820 | 1862 => "the account's password has expired".into(),
        3118 | 4151 => "the account is locked".into(),
        3159 => "the server insists on encryption; set tls mode to \"required\"".into(),
        _ => return String::new(),
    };
    format!("\nhint: {hint}")
}

/// A line for what the network refused; empty if there is none.
pub(super) fn network(error: &Error, clients: u32) -> String {
    let hint = match error.kind() {
        ErrorKind::ConnectionRefused => {
            "nothing listens there; is the server running, and is this its port?".into()
        }
        ErrorKind::NotFound => "there is no such socket; is the server running?".into(),
        ErrorKind::PermissionDenied => "this user may not open the socket".into(),
        ErrorKind::AddrNotAvailable => format!(
            "no local port is left for {clients} clients; widen net.ipv4.ip_local_port_range, or wait a \
             minute for closed connections to be forgotten"
        ),
        ErrorKind::UnexpectedEof => {
            "the server hung up during login; its error log may say why (max_connect_errors, \
             connect_timeout)"
                .into()
        }
        _ => return String::new(),
    };
    format!("\nhint: {hint}")
}

/// A line for a statement that ended the cell; empty if there is none.
pub(super) fn statement(code: u16) -> &'static str {
    match code {
        1461 => {
            "\nhint: each client prepares every statement once per table; raise \
             max_prepared_stmt_count in [target] set, set load.max_prepared_per_connection, or use \
             load.protocol = \"text\""
        }
        1146 => "\nhint: the tables are missing; `capbench prepare PLAN` makes them",
        1290 | 1792 | 1836 => "\nhint: the server or the session is read-only; is this a replica?",
        1114 | 1021 | 28 => "\nhint: the disk or the table space is full",
        1062 => "\nhint: the row exists already; this workload needs fresh tables (reset)",
        1142 | 1143 | 1227 | 1044 => {
            "\nhint: the load's account lacks a right; `capbench grants PLAN` prints them"
        }
        1153 => "\nhint: raise max_allowed_packet on the server",
        _ => "",
    }
}
