//! Bottlenecks between the clients and the server: a throttled link, a load machine that is starved.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use capbench::analysis::Cause;

use crate::drill::{drill, ended, plan};
use crate::lab::Lab;
use crate::servers::{self, Server};

/// Bytes a second that all connections together get from the server.
const RATE: f64 = 1.5e6;

/// A proxy on loopback whose answers share a slow link; its threads end with their connections.
struct Proxy {
    port: u16,
    over: Arc<AtomicBool>,
}

impl Proxy {
    fn start(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        // When the link is free again.
        let free = Arc::new(Mutex::new(Instant::now()));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", server)))
                else {
                    continue;
                };
                let (up, down) = (pair(&client, &server), pair(&server, &client));
                std::thread::spawn(move || carry(up, None));
                let free = Arc::clone(&free);
                std::thread::spawn(move || carry(down, Some(&free)));
            }
        });
        Self { port, over }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn pair(from: &TcpStream, to: &TcpStream) -> (TcpStream, TcpStream) {
    to.set_nodelay(true).unwrap();
    (from.try_clone().unwrap(), to.try_clone().unwrap())
}

fn carry((mut from, mut to): (TcpStream, TcpStream), link: Option<&Mutex<Instant>>) {
    let mut piece = [0_u8; 4096];
    while let Ok(length) = from.read(&mut piece) {
        if length == 0 {
            break;
        }
        if let Some(free) = link {
            let wait = {
                let mut free = free.lock().unwrap();
                let now = Instant::now();
                *free = (*free).max(now) + Duration::from_secs_f64(length as f64 / RATE);
                *free - now
            };
            std::thread::sleep(wait);
        }
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

fn target(port: u16) -> String {
    format!("[target]\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"bench\"\ntls = \"disabled\"")
}

/// A server with an account that may do everything, without a password.
pub(crate) fn server(kind: servers::Kind, options: &[&str]) -> Server {
    let server = Server::start(kind, options);
    for host in ["localhost", "127.0.0.1"] {
        server.run(&format!("CREATE USER bench@'{host}'"));
        server.run(&format!(
            "GRANT ALL ON *.* TO bench@'{host}' WITH GRANT OPTION"
        ));
    }
    server
}

#[test]
#[ignore = "a drill: make drills"]
fn a_throttled_link_is_outside_the_server() {
    for kind in servers::kinds() {
        let server = server(kind, &["--innodb-buffer-pool-size=128M"]);
        let proxy = Proxy::start(server.port);
        let lab = Lab::new();
        let plan = plan(
            &target(proxy.port),
            "",
            "workloads = [\"oltp_read_only\"]\nthreads = [8, 16, 32]\nmeasure = \"4s\"",
        );
        let found = drill(&lab, &plan);
        found.names(Cause::OutsideServer);
    }
}

/// Busy loops on one core; they end with this value.
struct Hogs(Vec<Child>);

impl Hogs {
    fn on(core: &str, number: u32) -> Self {
        Self(
            (0..number)
                .map(|_| {
                    Command::new("taskset")
                        .args(["-c", core, "sh", "-c", "while :; do :; done"])
                        .stdin(Stdio::null())
                        .spawn()
                        .unwrap()
                })
                .collect(),
        )
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
#[ignore = "a drill: make drills"]
fn a_client_on_a_starved_core_is_the_load_generator() {
    for kind in servers::kinds() {
        let server = server(kind, &["--innodb-buffer-pool-size=128M"]);
        let lab = Lab::new();
        lab.write(
            "plan.toml",
            &plan(
                &target(server.port),
                "",
                "workloads = [\"oltp_point_select\"]\nthreads = [8, 12, 16]\nmeasure = \"3s\"",
            ),
        );
        let whole = lab.command(&["plan.toml", "--out", "run"]);
        let mut command = Command::new("nice");
        command
            .args(["-n", "10", "taskset", "-c", "0"])
            .arg(whole.get_program())
            .args(whole.get_args())
            .current_dir(lab.path(""))
            .env("TMPDIR", lab.path("tmp"))
            .env("HOME", lab.path(""))
            .stdin(Stdio::null());
        let mut running = lab.start(command);
        running.said("[1/3] oltp_point_select 8 threads");
        let hogs = Hogs::on("0", 2);
        let found = ended(&lab, running);
        drop(hogs);
        found.names(Cause::LoadGenerator);
    }
}
