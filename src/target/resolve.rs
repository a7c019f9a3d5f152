//! From the plan to endpoints: where the server is and with which account, password in hand.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::option_file::ClientOptions;
use super::{Endpoint, Secret, TargetError};
use crate::interrupt::Interrupt;
use crate::plan::{Account, Address, PasswordSource, Place, Plan, ServerPlace, Tls, TlsMode};

const DEFAULT_PORT: u16 = 3306;

/// The load's endpoint and the administrator's, with their passwords.
///
/// Precedence, for each value by itself: what the plan states; then the option file of the account
/// (`[client]`, read only when the plan names it as the source of the password); then the
/// default (port 3306, host `localhost`). An address is not stated when its host is empty, and a port
/// not when it is 0: then the option file's `socket`, or `host` and `port`, count, where a socket
/// beside no host or `localhost` wins, as in the client programs. `ssl-ca` and a
/// stricter `ssl-mode` of the option file apply when the plan leaves them at their defaults.
///
/// # Errors
/// A source of a user or a password is missing or unreadable; the plan asks for a private server,
/// which has no address before it is started.
pub fn resolve(plan: &Plan) -> Result<(Endpoint, Endpoint), TargetError> {
    let Place::Server(place) = &plan.target.place else {
        return Err(TargetError::Private(
            "a private server has no address before it is started".to_owned(),
        ));
    };
    let timeout = plan.target.connect_timeout.0;
    let load = endpoint(place, &place.account, None, timeout)?;
    let admin = match &place.admin {
        Some(account) => endpoint(place, account, Some(&load), timeout)?,
        None => load.clone(),
    };
    // The database may not exist yet, so that no connection can depend on it before it is made.
    let load = Endpoint {
        database: Some(plan.target.database.clone()),
        ..load
    };
    Ok((load, admin))
}

/// Name and endpoint of each replica of the plan, with the control account where it has none of its own.
///
/// # Errors
/// As [`resolve`], for the account of a replica.
pub fn replicas(plan: &Plan) -> Result<Vec<(String, Endpoint)>, TargetError> {
    let Place::Server(place) = &plan.target.place else {
        return Ok(Vec::new());
    };
    let timeout = plan.target.connect_timeout.0;
    plan.replicas
        .iter()
        .map(|replica| {
            let place = ServerPlace {
                address: replica.address.clone(),
                ..place.clone()
            };
            let account = replica
                .account
                .as_ref()
                .or(place.admin.as_ref())
                .unwrap_or(&place.account);
            Ok((
                replica.name.clone(),
                endpoint(&place, account, None, timeout)?,
            ))
        })
        .collect()
}

/// The endpoint of one account; the other account's address serves where its own option file names none.
fn endpoint(
    place: &ServerPlace,
    account: &Account,
    other: Option<&Endpoint>,
    connect_timeout: Duration,
) -> Result<Endpoint, TargetError> {
    let options = match &account.password {
        PasswordSource::OptionFile(path) => {
            let path = match path {
                Some(path) => path.clone(),
                None => home_option_file()?,
            };
            Some((ClientOptions::read(&path)?, path))
        }
        _ => None,
    };
    let options = options.as_ref();
    let user = account
        .user
        .clone()
        .or_else(|| options.and_then(|(o, _)| o.get("user").map(str::to_owned)))
        .filter(|user| !user.is_empty())
        .ok_or_else(|| no_user(options.map(|(_, path)| path.as_path())))?;
    let password = match &account.password {
        PasswordSource::Empty => String::new(),
        PasswordSource::Env(name) => std::env::var(name).map_err(|_| {
            TargetError::Account(format!(
                "environment variable `{name}`, the password of `{user}`, is not set\nhint: read -rs {name} && export {name}"
            ))
        })?,
        PasswordSource::File(path) => first_line(path)?,
        PasswordSource::OptionFile(_) => options
            .and_then(|(o, _)| o.get("password"))
            .unwrap_or_default()
            .to_owned(),
    };
    let address = address(
        &place.address,
        options.map(|(o, p)| (o, p.as_path())),
        other,
    )?;
    Ok(Endpoint {
        address,
        user,
        password: Secret::new(password),
        database: None,
        tls: tls(&place.tls, options.map(|(o, _)| o)),
        connect_timeout,
        interrupt: Interrupt::new(),
    })
}

fn no_user(file: Option<&Path>) -> TargetError {
    TargetError::Account(match file {
        Some(file) => format!(
            "neither the plan nor `{}` names a user\nhint: add `user = …` under [client] there, or `user = \"…\"` in the plan",
            file.display()
        ),
        None => "the plan names no user\nhint: add `user = \"…\"` under [target]".to_owned(),
    })
}

fn home_option_file() -> Result<PathBuf, TargetError> {
    std::env::home_dir()
        .map(|home| home.join(".my.cnf"))
        .ok_or_else(|| {
            TargetError::Account(
                "there is no home directory to look for .my.cnf in\nhint: state defaults_file in the plan"
                    .to_owned(),
            )
        })
}

fn first_line(path: &Path) -> Result<String, TargetError> {
    let text = std::fs::read_to_string(path).map_err(TargetError::file("read", path))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn address(
    stated: &Address,
    options: Option<(&ClientOptions, &Path)>,
    other: Option<&Endpoint>,
) -> Result<Address, TargetError> {
    let (host, port) = match stated {
        Address::Socket(_) => return Ok(stated.clone()),
        Address::Tcp { host, port } => (host.as_str(), *port),
    };
    let option = |name: &str| {
        options
            .and_then(|(o, _)| o.get(name))
            .filter(|v| !v.is_empty())
    };
    let port = match (port, option("port"), options) {
        (0, Some(text), Some((_, path))) => text.parse().map_err(|_| {
            TargetError::Account(format!(
                "port `{text}` in `{}` is not a port number",
                path.display()
            ))
        })?,
        (0, _, _) => DEFAULT_PORT,
        (port, _, _) => port,
    };
    if !host.is_empty() {
        return Ok(Address::Tcp {
            host: host.to_owned(),
            port,
        });
    }
    let host = option("host");
    if let (None | Some("localhost"), Some(socket)) = (host, option("socket")) {
        return Ok(Address::Socket(PathBuf::from(socket)));
    }
    Ok(match (host, other) {
        (None, Some(other)) => other.address.clone(),
        (host, _) => Address::Tcp {
            host: host.unwrap_or("localhost").to_owned(),
            port,
        },
    })
}

fn tls(stated: &Tls, options: Option<&ClientOptions>) -> Tls {
    let option = |name: &str| options.and_then(|o| o.get(name)).filter(|v| !v.is_empty());
    let mode = match (stated.mode, option("ssl_mode")) {
        (TlsMode::Preferred, Some(mode)) => match mode.to_ascii_uppercase().as_str() {
            "REQUIRED" => TlsMode::Required,
            "VERIFY_CA" => TlsMode::VerifyCa,
            "VERIFY_IDENTITY" => TlsMode::VerifyIdentity,
            _ => TlsMode::Preferred,
        },
        (mode, _) => mode,
    };
    Tls {
        mode,
        ca: stated
            .ca
            .clone()
            .or_else(|| option("ssl_ca").map(PathBuf::from)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;
    use crate::plan::Hooks;

    fn place(host: &str, port: u16, account: Account) -> ServerPlace {
        ServerPlace {
            address: Address::Tcp {
                host: host.to_owned(),
                port,
            },
            account,
            admin: None,
            tls: Tls {
                mode: TlsMode::Preferred,
                ca: None,
            },
            hooks: Hooks::default(),
        }
    }

    fn account(user: Option<&str>, password: PasswordSource) -> Account {
        Account {
            user: user.map(str::to_owned),
            password,
        }
    }

    fn with_file(
        text: &str,
        host: &str,
        port: u16,
        user: Option<&str>,
    ) -> Result<Endpoint, TargetError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.cnf");
        std::fs::write(&path, text).unwrap();
        let place = place(
            host,
            port,
            account(user, PasswordSource::OptionFile(Some(path))),
        );
        endpoint(&place, &place.account, None, Duration::from_secs(1))
    }

    #[test]
    fn the_plan_wins_over_the_option_file() {
        let file = "[client]\nuser=f\npassword=secret\nhost=db\nport=3307\nsocket=/s\nssl-ca=/ca\nssl-mode=required\n";
        let e = with_file(file, "10.0.0.5", 3306, Some("p")).unwrap();
        assert_eq!(e.address.to_string(), "10.0.0.5:3306");
        assert_eq!((e.user.as_str(), e.password.reveal()), ("p", "secret"));
        let e = with_file(file, "", 0, None).unwrap();
        assert_eq!(e.address.to_string(), "db:3307");
        assert_eq!(e.user, "f");
        assert_eq!(e.tls.mode, TlsMode::Required);
        assert_eq!(e.tls.ca, Some(PathBuf::from("/ca")));
        let e = with_file("[client]\nuser=f\nsocket=/run/s\n", "", 0, None).unwrap();
        assert_eq!(e.address, Address::Socket("/run/s".into()));
        let e = with_file("[client]\nuser=f\n", "", 0, None).unwrap();
        assert_eq!(e.address.to_string(), "localhost:3306");
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = with_file("[client]\n", "h", 1, None)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("names a user") && error.contains("my.cnf"),
            "{error}"
        );
        let error = with_file("[client]\nuser=u\nport=x\n", "", 0, None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("`x`"), "{error}");
        let name = "CAPBENCH_TEST_SURELY_UNSET";
        let place = place(
            "h",
            1,
            account(Some("u"), PasswordSource::Env(name.to_owned())),
        );
        let error = endpoint(&place, &place.account, None, Duration::from_secs(1))
            .unwrap_err()
            .to_string();
        assert!(error.contains(name), "{error}");
    }

    #[test]
    fn a_password_file_is_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pw");
        std::fs::write(&path, "pa ss \r\nsecond\n").unwrap();
        assert_eq!(first_line(&path).unwrap(), "pa ss ");
    }
}
