//! What tests of the load engine need on a server: an account without rights, tables, counters.

#![allow(dead_code, reason = "not every test file uses every helper")]

pub(crate) mod cells;
pub(crate) mod proxy;

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::support::{Kind, Server};

/// Starts a fresh server with `options` and makes the account bench/secret and the database bench.
pub(crate) fn start(kind: Kind, options: &[&str]) -> Server {
    let mut all = vec!["--max-connections=600", "--innodb-buffer-pool-size=64M"];
    if kind == Kind::MySql {
        all.push("--innodb-redo-log-capacity=64M");
    }
    all.extend(options);
    let server = Server::start(kind, &all);
    // An anonymous account on this host would take the place of bench@'%'.
    match kind {
        Kind::MariaDb => server.run("DELETE FROM mysql.global_priv WHERE user=''"),
        Kind::MySql | Kind::MySql56 => server.run("DELETE FROM mysql.user WHERE user=''"),
    }
    for sql in [
        "FLUSH PRIVILEGES",
        "CREATE DATABASE bench",
        "CREATE USER bench@'%' IDENTIFIED BY 'secret'",
        "GRANT ALL ON bench.* TO bench@'%'",
    ] {
        server.run(sql);
    }
    server
}

/// Makes `tables` standard tables of `rows` rows.
pub(crate) fn prepare(server: &Server, tables: u32, rows: u32) {
    let mut root = server.root();
    root.query_drop("USE bench").unwrap();
    for table in 1..=tables {
        root.query_drop(format!(
            "CREATE TABLE sbtest{table} (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER NOT NULL \
             DEFAULT 0, c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', \
             PRIMARY KEY (id), KEY k_{table} (k)) ENGINE=InnoDB"
        ))
        .unwrap();
        for chunk in (1..=rows).collect::<Vec<_>>().chunks(1000) {
            let values: Vec<String> = chunk
                .iter()
                .map(|id| format!("({id},{id},'c-{id}','pad')"))
                .collect();
            root.query_drop(format!(
                "INSERT INTO sbtest{table} (id,k,c,pad) VALUES {}",
                values.join(",")
            ))
            .unwrap();
        }
    }
}

/// A status counter, read without adding to the counters of statements that clients send.
pub(crate) fn status(root: &mut Conn, name: &str) -> u64 {
    let row: Option<(String, u64)> = root
        .query_first(format!("SHOW GLOBAL STATUS LIKE '{name}'"))
        .unwrap();
    row.unwrap().1
}
