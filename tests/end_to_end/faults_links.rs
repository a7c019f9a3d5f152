//! Faults of the network between capbench and a server of others: slowed, cut, cut to the end.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::faults_server::{Drill, ONE_STEP, STEPS};
use crate::servers;

/// The link passes everything.
const WHOLE: u8 = 0;
/// Every answer is held back for [`SLOWNESS`].
const SLOW: u8 = 1;
/// Nothing gets through, and nobody gets in.
const CUT: u8 = 2;
/// The test is over.
const OVER: u8 = 3;

/// What a slow link adds to each answer.
const SLOWNESS: Duration = Duration::from_millis(15);

/// A link to a server whose state a test changes while a run goes through it.
struct Link {
    port: u16,
    state: Arc<AtomicU8>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Link {
    /// To the server on `port` of this host; the threads end with the link.
    fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let link = Self {
            port: listener.local_addr().unwrap().port(),
            state: Arc::new(AtomicU8::new(WHOLE)),
            open: Arc::default(),
        };
        let (state, open) = (Arc::clone(&link.state), Arc::clone(&link.open));
        std::thread::spawn(move || {
            loop {
                let now = state.load(Ordering::SeqCst);
                if now == OVER {
                    return;
                }
                let Ok((client, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                // Without a server behind it a connection ends at once.
                let Some(server) = (now != CUT)
                    .then(|| TcpStream::connect(("127.0.0.1", port)).ok())
                    .flatten()
                else {
                    continue;
                };
                client.set_nonblocking(false).unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                    open.lock().unwrap().push(stream.try_clone().unwrap());
                }
                let up = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pass(up.0, up.1, None));
                let state = Arc::clone(&state);
                std::thread::spawn(move || pass(server, client, Some(&state)));
            }
        });
        link
    }

    fn set(&self, state: u8) {
        self.state.store(state, Ordering::SeqCst);
        if state >= CUT {
            for stream in self.open.lock().unwrap().drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.set(OVER);
    }
}

/// One direction of a connection until either end closes.
fn pass(mut from: TcpStream, mut to: TcpStream, state: Option<&AtomicU8>) {
    let mut buffer = vec![0; 65536];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        if state.is_some_and(|state| state.load(Ordering::SeqCst) == SLOW) {
            std::thread::sleep(SLOWNESS);
        }
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// A drill whose plan goes through a link.
fn linked(binary: &Path, rest: &str) -> (Drill, Link) {
    let link = Mutex::new(None);
    let drill = Drill::new(binary, rest, |plan, external| {
        let new = Link::to(external.port);
        let through = plan.replace(
            &format!("port = {}", external.port),
            &format!("port = {}", new.port),
        );
        *link.lock().unwrap() = Some(new);
        through
    });
    (drill, link.into_inner().unwrap().unwrap())
}

#[test]
fn a_link_that_slows_down() {
    for binary in servers::servers() {
        let (drill, link) = linked(&binary, STEPS);
        let mut running = drill.under_a_step();
        running.said("[2/2]");
        link.set(SLOW);
        running.wait().measured();
        assert_eq!(drill.column("status"), ["completed", "completed"]);
        // 20 answers in a transaction, each of them late.
        let longest: f64 = drill.column("lat_max_ms")[1].parse().unwrap();
        assert!(longest > 19.0 * SLOWNESS.as_secs_f64() * 1e3, "{longest}");
        drill.report();
        link.set(WHOLE);
        drill.unchanged();
    }
}

#[test]
fn a_link_that_is_cut_and_comes_back() {
    for binary in servers::servers() {
        let (drill, link) = linked(&binary, ONE_STEP);
        let running = drill.under_a_step();
        link.set(CUT);
        std::thread::sleep(Duration::from_secs(1));
        link.set(WHOLE);
        running.wait().measured();
        assert_eq!(drill.column("status"), ["completed"]);
        assert_ne!(drill.column("validity"), ["valid"]);
        let reconnects: u64 = drill.column("reconnects")[0].parse().unwrap();
        assert!(reconnects >= 2, "{reconnects}");
        assert!(drill.report().contains("clients missing"));
        drill.unchanged();
    }
}

#[test]
#[ignore = "slow; make faults runs it"]
fn a_link_that_is_cut_to_the_end() {
    for binary in servers::servers() {
        let (drill, link) = linked(&binary, STEPS);
        let running = drill.under_a_step();
        link.set(CUT);
        running
            .wait()
            .expect(3)
            .says("the server was not put back")
            .says("capbench restore run");
        assert_eq!(drill.column("validity"), ["invalid", "invalid"]);
        drill.report();
        link.set(WHOLE);
        drill.restored();
    }
}
