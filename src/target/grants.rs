//! The GRANT script that a plan needs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::variables::quoted;
use crate::plan::{Account, Address, Binlog, Place, Plan, ServerPlace};
use crate::record::Flavour;

/// Stands where the password belongs: passwords appear nowhere.
const PASSWORD: &str = "'<password>'";

/// What making, checking and dropping the tables need within the plan's database.
const DATABASE_RIGHTS: &str = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX, ALTER";
/// What the workloads need there.
const LOAD_RIGHTS: &str = "SELECT, INSERT, UPDATE, DELETE";

/// The statements that make the plan's accounts with the least rights it needs on a server of `flavour`
/// (MySQL ≥ 8.0 or MariaDB ≥ 10.5; older ones have only SUPER in place of the split privileges).
pub fn grants(plan: &Plan, flavour: Flavour) -> String {
    let place = match &plan.target.place {
        Place::Managed(_) => {
            return "-- a private server makes its own accounts; no grants are needed\n".to_owned();
        }
        Place::Server(place) => place,
    };
    let database = format!("`{}`", plan.target.database.replace('`', "``"));
    let load = accounts(&place.account, &place.address, "capbench_load");
    let mut script = format!(
        "-- accounts for capbench plan “{}”; put passwords in place of {PASSWORD}\n\
         CREATE DATABASE IF NOT EXISTS {database};\n\n\
         -- the load: no administrative rights, or it would bypass read_only and max_connections\n\
         {}GRANT {} ON {database}.* TO {};\n",
        plan.name.replace(['\n', '\r'], " "),
        create(&load),
        if place.admin.is_some() {
            LOAD_RIGHTS
        } else {
            DATABASE_RIGHTS
        },
        load.join(", ")
    );
    let admin = if let Some(admin) = &place.admin {
        let admin = accounts(admin, &place.address, "capbench_admin");
        let _ = write!(
            script,
            "\n-- control: reads status, changes and restores variables, ends hung queries\n\
             {}GRANT {DATABASE_RIGHTS} ON {database}.* TO {};\n",
            create(&admin),
            admin.join(", ")
        );
        admin
    } else {
        script.push_str(
            "\n-- the plan states no admin, so that the load's account is used for control as well;\n\
             -- better state admin under [target] and give these to that account\n",
        );
        load
    };
    let admin = admin.join(", ");
    let global: Vec<&str> = global_rights(plan, place, flavour).into_iter().collect();
    let _ = writeln!(script, "GRANT {} ON *.* TO {admin};", global.join(", "));
    if flavour == Flavour::MySql {
        let _ = writeln!(script, "GRANT SELECT ON performance_schema.* TO {admin};");
    }
    if matches!(&place.address, Address::Socket(_)) || is_loopback(&place.address) {
        script.push_str(
            "\n-- where anonymous accounts exist (SELECT host FROM mysql.user WHERE user = ''), they stand before\n\
             -- '…'@'%' and the server answers error 1045; the accounts above name the host and are not affected\n",
        );
    }
    script
}

fn is_loopback(address: &Address) -> bool {
    matches!(address, Address::Tcp { host, .. }
        if host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

/// The account under every name by which the server may know this machine: a server with
/// `skip_name_resolve` knows the loopback by its address only.
fn accounts(account: &Account, address: &Address, otherwise: &str) -> Vec<String> {
    let user = account.user.as_deref().unwrap_or(otherwise);
    let hosts: &[&str] = match address {
        Address::Socket(_) => &["localhost"],
        Address::Tcp { .. } if is_loopback(address) => &["localhost", "127.0.0.1"],
        Address::Tcp { .. } => &["%"],
    };
    hosts
        .iter()
        .map(|host| format!("{}@{}", quoted(user), quoted(host)))
        .collect()
}

/// The statements that make accounts which may be there already.
fn create(accounts: &[String]) -> String {
    accounts.iter().fold(String::new(), |mut all, account| {
        let _ = writeln!(
            all,
            "CREATE USER IF NOT EXISTS {account} IDENTIFIED BY {PASSWORD};"
        );
        all
    })
}

/// Rights on everything: to see processes, status and replicas, to end queries, to change what the plan changes.
fn global_rights(plan: &Plan, place: &ServerPlace, flavour: Flavour) -> BTreeSet<&'static str> {
    let changes = plan.target.set.iter().chain(
        plan.variants
            .iter()
            .filter(|v| !v.operator)
            .flat_map(|v| &v.set),
    );
    // `sql_log_bin` of a session.
    let unlogged = plan.dataset.binlog == Some(Binlog::Unlogged);
    match flavour {
        Flavour::MySql => {
            let mut rights = BTreeSet::from(["PROCESS", "REPLICATION CLIENT", "CONNECTION_ADMIN"]);
            if changes.count() > 0 {
                rights.insert("SYSTEM_VARIABLES_ADMIN");
            }
            if unlogged {
                rights.insert("SESSION_VARIABLES_ADMIN");
            }
            let persists = plan
                .variants
                .iter()
                .any(|v| v.restart && !v.operator && !v.set.is_empty());
            if persists && (place.hooks.restart.is_some() || place.hooks.apply.is_some()) {
                rights.insert("PERSIST_RO_VARIABLES_ADMIN");
            }
            rights
        }
        Flavour::MariaDb => {
            let mut rights = BTreeSet::from([
                "PROCESS",
                "BINLOG MONITOR",
                "SLAVE MONITOR",
                "CONNECTION ADMIN",
            ]);
            if unlogged {
                rights.insert("BINLOG ADMIN");
            }
            rights.extend(changes.map(|s| mariadb_right(&s.name)));
            rights
        }
    }
}

/// The privilege that sets a variable on MariaDB ≥ 10.5 (manual, “GRANT”, lists of variables by
/// privilege); SUPER for all that no split privilege covers.
fn mariadb_right(variable: &str) -> &'static str {
    const CONNECTION: [&str; 8] = [
        "connect_timeout",
        "extra_max_connections",
        "init_connect",
        "max_connect_errors",
        "max_connections",
        "max_password_errors",
        "secure_auth",
        "slow_launch_time",
    ];
    const BINLOG: [&str; 8] = [
        "binlog_cache_size",
        "binlog_format",
        "binlog_row_image",
        "binlog_stmt_cache_size",
        "max_binlog_cache_size",
        "max_binlog_size",
        "max_binlog_stmt_cache_size",
        "sync_binlog",
    ];
    if CONNECTION.contains(&variable) {
        "CONNECTION ADMIN"
    } else if BINLOG.contains(&variable) {
        "BINLOG ADMIN"
    } else {
        "SUPER"
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::super::testing::{external, plan, setting, variant};
    use super::*;
    use crate::plan::PasswordSource;

    fn example() -> Plan {
        let mut plan = plan();
        let mut place = external("10.0.0.5", "bench");
        place.admin = Some(Account {
            user: Some("bench_admin".to_owned()),
            password: PasswordSource::Env("X".to_owned()),
        });
        place.hooks.restart = Some("ssh db restart".to_owned());
        plan.target.place = Place::Server(place);
        plan.target.set = vec![setting("max_connections", 500)];
        let mut pool = variant("pool");
        pool.set = vec![setting("innodb_buffer_pool_size", 1 << 30)];
        pool.restart = true;
        plan.variants.push(pool);
        plan
    }

    #[test]
    fn mysql_script() {
        insta::assert_snapshot!(grants(&example(), Flavour::MySql), @r"
        -- accounts for capbench plan “test”; put passwords in place of '<password>'
        CREATE DATABASE IF NOT EXISTS `bench`;

        -- the load: no administrative rights, or it would bypass read_only and max_connections
        CREATE USER IF NOT EXISTS 'bench'@'%' IDENTIFIED BY '<password>';
        GRANT SELECT, INSERT, UPDATE, DELETE ON `bench`.* TO 'bench'@'%';

        -- control: reads status, changes and restores variables, ends hung queries
        CREATE USER IF NOT EXISTS 'bench_admin'@'%' IDENTIFIED BY '<password>';
        GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX, ALTER ON `bench`.* TO 'bench_admin'@'%';
        GRANT CONNECTION_ADMIN, PERSIST_RO_VARIABLES_ADMIN, PROCESS, REPLICATION CLIENT, SYSTEM_VARIABLES_ADMIN ON *.* TO 'bench_admin'@'%';
        GRANT SELECT ON performance_schema.* TO 'bench_admin'@'%';
        ");
    }

    #[test]
    fn mariadb_script() {
        insta::assert_snapshot!(grants(&example(), Flavour::MariaDb), @r"
        -- accounts for capbench plan “test”; put passwords in place of '<password>'
        CREATE DATABASE IF NOT EXISTS `bench`;

        -- the load: no administrative rights, or it would bypass read_only and max_connections
        CREATE USER IF NOT EXISTS 'bench'@'%' IDENTIFIED BY '<password>';
        GRANT SELECT, INSERT, UPDATE, DELETE ON `bench`.* TO 'bench'@'%';

        -- control: reads status, changes and restores variables, ends hung queries
        CREATE USER IF NOT EXISTS 'bench_admin'@'%' IDENTIFIED BY '<password>';
        GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX, ALTER ON `bench`.* TO 'bench_admin'@'%';
        GRANT BINLOG MONITOR, CONNECTION ADMIN, PROCESS, SLAVE MONITOR, SUPER ON *.* TO 'bench_admin'@'%';
        ");
    }

    #[test]
    fn without_an_admin_and_without_changes() {
        let mut plan = plan();
        let mut place = external("", "b");
        place.address = Address::Socket("/run/mysqld/mysqld.sock".into());
        plan.target.place = Place::Server(place);
        insta::assert_snapshot!(grants(&plan, Flavour::MariaDb), @r"
        -- accounts for capbench plan “test”; put passwords in place of '<password>'
        CREATE DATABASE IF NOT EXISTS `bench`;

        -- the load: no administrative rights, or it would bypass read_only and max_connections
        CREATE USER IF NOT EXISTS 'b'@'localhost' IDENTIFIED BY '<password>';
        GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX, ALTER ON `bench`.* TO 'b'@'localhost';

        -- the plan states no admin, so that the load's account is used for control as well;
        -- better state admin under [target] and give these to that account
        GRANT BINLOG MONITOR, CONNECTION ADMIN, PROCESS, SLAVE MONITOR ON *.* TO 'b'@'localhost';

        -- where anonymous accounts exist (SELECT host FROM mysql.user WHERE user = ''), they stand before
        -- '…'@'%' and the server answers error 1045; the accounts above name the host and are not affected
        ");
    }
}
