//! A link between clients and a server that delays, cuts, stalls, resets and closes, and that keeps its own
//! time of every request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the link does to what the server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Each answer is held back, a different time each, between the two.
    Delay(Duration, Duration),
    /// Both directions pass byte by byte.
    Bytes,
    /// After this many bytes nothing passes for a while, in the middle of an answer.
    Stall(usize, Duration),
    /// After this many bytes the connection is reset (RST), as by a firewall.
    Reset(usize),
    /// After this many bytes the client sees the end of the stream, while what it sends still passes.
    HalfClose(usize),
}

/// One connection's conversation, as the link sees it.
#[derive(Default)]
struct Conversation {
    /// The request under way: when its last byte came, and whether it executes a prepared statement.
    asked: Option<(Instant, bool)>,
    /// When the last byte of the answer was on its way to the client.
    answered: Option<Instant>,
}

impl Conversation {
    /// The request under way is complete, if it was answered.
    fn close(&mut self, times: &Mutex<Vec<(Instant, Duration)>>) {
        if let (Some((asked, true)), Some(answered)) = (self.asked, self.answered) {
            times.lock().unwrap().push((answered, answered - asked));
        }
        (self.asked, self.answered) = (None, None);
    }
}

/// The link. Connections end when it is dropped.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    stop: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    times: Arc<Mutex<Vec<(Instant, Duration)>>>,
}

impl Proxy {
    /// To the server on `port` of this host.
    pub(crate) fn start(port: u16, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            stop: Arc::default(),
            open: Arc::default(),
            times: Arc::default(),
        };
        listener.set_nonblocking(true).unwrap();
        let (stop, open) = (Arc::clone(&proxy.stop), Arc::clone(&proxy.open));
        let times = Arc::clone(&proxy.times);
        std::thread::spawn(move || {
            let number = AtomicU64::new(0);
            while !stop.load(Ordering::SeqCst) {
                let Ok((client, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                client.set_nonblocking(false).unwrap();
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                    open.lock().unwrap().push(stream.try_clone().unwrap());
                }
                let conversation = Arc::new(Mutex::new(Conversation::default()));
                let seed = number.fetch_add(1, Ordering::SeqCst);
                let up = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (talk, when) = (Arc::clone(&conversation), Arc::clone(&times));
                std::thread::spawn(move || requests(up.0, up.1, fault, &talk, &when));
                let when = Arc::clone(&times);
                std::thread::spawn(move || {
                    answers(server, client, fault, seed, &conversation);
                    conversation.lock().unwrap().close(&when);
                });
            }
        });
        proxy
    }

    /// From the last byte of each executed statement to the last byte of its answer, of those that were
    /// answered by `end`, in order of length.
    pub(crate) fn times(&self, end: Instant) -> Vec<Duration> {
        let times = self.times.lock().unwrap();
        let ended = times.iter().filter(|(answered, _)| *answered <= end);
        let mut times: Vec<Duration> = ended.map(|(_, time)| *time).collect();
        times.sort_unstable();
        times
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for stream in self.open.lock().unwrap().iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn requests(
    mut client: TcpStream,
    mut server: TcpStream,
    fault: Fault,
    conversation: &Mutex<Conversation>,
    times: &Mutex<Vec<(Instant, Duration)>>,
) {
    let mut buffer = vec![0; 65536];
    while let Ok(len @ 1..) = client.read(&mut buffer) {
        {
            let now = Instant::now();
            let mut talk = conversation.lock().unwrap();
            if talk.answered.is_some() {
                talk.close(times);
            }
            // COM_STMT_EXECUTE is the first byte after the header of the first packet.
            let executes = talk
                .asked
                .map_or(len > 4 && buffer[4] == 0x17, |(_, executes)| executes);
            talk.asked = Some((now, executes));
        }
        let step = if fault == Fault::Bytes { 1 } else { len };
        for piece in buffer[..len].chunks(step) {
            if server.write_all(piece).is_err() {
                return;
            }
        }
    }
    let _ = server.shutdown(Shutdown::Write);
}

fn answers(
    mut server: TcpStream,
    mut client: TcpStream,
    fault: Fault,
    seed: u64,
    conversation: &Mutex<Conversation>,
) {
    let mut buffer = vec![0; 65536];
    let (mut passed, mut stalled) = (0, false);
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    while let Ok(len @ 1..) = server.read(&mut buffer) {
        // Once per answer, in however many pieces it comes, and only of what is timed: preparing a statement
        // is a part of the first transaction.
        let first = {
            let talk = conversation.lock().unwrap();
            talk.answered.is_none() && talk.asked.is_some_and(|(_, executes)| executes)
        };
        if let (Fault::Delay(least, most), true) = (fault, first) {
            // xorshift64 (Marsaglia 2003)
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let share = (random >> 11) as f64 / (1u64 << 53) as f64;
            std::thread::sleep(least + most.saturating_sub(least).mul_f64(share));
        }
        let limit = match fault {
            Fault::Stall(limit, _) if !stalled => limit,
            Fault::Reset(limit) | Fault::HalfClose(limit) => limit,
            _ => usize::MAX,
        };
        // The middle of an answer: half of what has just come.
        let take = if passed + len > limit { len / 2 } else { len };
        let step = if fault == Fault::Bytes {
            1
        } else {
            take.max(1)
        };
        for piece in buffer[..take].chunks(step) {
            // Within the lock: the client may ask again before this thread goes on.
            let mut talk = conversation.lock().unwrap();
            if client.write_all(piece).is_err() {
                return;
            }
            talk.answered = Some(Instant::now());
        }
        passed += len;
        if take == len {
            continue;
        }
        match fault {
            Fault::Stall(_, pause) => {
                stalled = true;
                std::thread::sleep(pause);
                let mut talk = conversation.lock().unwrap();
                if client.write_all(&buffer[take..len]).is_err() {
                    return;
                }
                talk.answered = Some(Instant::now());
            }
            Fault::Reset(_) => {
                // Dissolving the association sends RST, whoever else holds the socket.
                rustix::net::connect_unspec(&client).unwrap();
                let _ = server.shutdown(Shutdown::Both);
                return;
            }
            _ => {
                let _ = client.shutdown(Shutdown::Write);
                // What the client still says goes on to the server until it closes.
                while let Ok(1..) = server.read(&mut buffer) {}
                return;
            }
        }
    }
    let _ = client.shutdown(Shutdown::Write);
}
