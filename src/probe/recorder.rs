//! Samples the probes once an interval, on the cell's clock and off the load's path.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::names::PROBE_MS;
use super::{host, server};
use crate::record::Sample;

/// How long [`Recorder::finish`] waits for the last samples before it leaves a hanging probe behind.
const LAST_SAMPLE: Duration = Duration::from_secs(2);
/// What probes of other hosts get beyond that: their readings take longer.
const FROM_AFAR: Duration = Duration::from_secs(4);

/// Something that can be sampled.
pub trait Sampled: Send {
    /// One reading; its `at` is set by the recorder.
    ///
    /// # Errors
    /// Why there is none; the recorder then ends this probe.
    fn sample(&mut self) -> Result<Sample, String>;

    /// Signals that cannot be read, each with the reason; asked once, after the first sample.
    fn unavailable(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the next reading may succeed where one has failed; the recorder then goes on.
    fn survives_errors(&self) -> bool {
        false
    }
}

/// A probe beside those of the server and of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Also {
    /// The server's own host, from afar.
    ServerHost,
    /// A replica; there may be several.
    Replica,
}

impl Sampled for server::Probe {
    fn sample(&mut self) -> Result<Sample, String> {
        Self::sample(self).map_err(|error| error.to_string())
    }

    fn unavailable(&self) -> Vec<String> {
        Self::unavailable(self)
    }
}

impl Sampled for host::Probe {
    fn sample(&mut self) -> Result<Sample, String> {
        Ok(Self::sample(self))
    }

    fn unavailable(&self) -> Vec<String> {
        Self::unavailable(self)
    }
}

impl<F: FnMut() -> Result<Sample, String> + Send> Sampled for F {
    fn sample(&mut self) -> Result<Sample, String> {
        self()
    }
}

/// What the probes brought.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Recording {
    /// Server samples in order of time.
    pub server: Vec<Sample>,
    /// Host samples in order of time.
    pub host: Vec<Sample>,
    /// Samples of the server's own host, where it has a probe, in order of time.
    pub server_host: Vec<Sample>,
    /// Samples of all replicas in order of time.
    pub replicas: Vec<Sample>,
    /// Signals that could not be read, with the reason.
    pub unavailable: Vec<String>,
}

/// One thread a probe: a server that hangs holds up neither the host's samples nor the end.
pub struct Recorder {
    started: Instant,
    origin: Option<Instant>,
    interval: Duration,
    server: Option<Sampler>,
    host: Option<Sampler>,
    others: Vec<(Also, Sampler)>,
}

/// What a thread has brought so far.
#[derive(Default)]
struct Taken {
    samples: Vec<(Instant, Sample)>,
    unavailable: Vec<String>,
}

struct Sampler {
    commands: Sender<Command>,
    ended: Receiver<()>,
    taken: Arc<Mutex<Taken>>,
}

enum Command {
    /// Take an extra sample now, and the next ones at whole intervals from here.
    Sample,
    /// Take a last sample and end.
    Finish,
}

impl Recorder {
    /// Starts sampling every `interval`, the first time at once. `None` leaves a probe out. Call it
    /// before the load connects, and [`Self::released`] when its clients are released.
    pub fn start(
        server: Option<Box<dyn Sampled>>,
        host: Option<Box<dyn Sampled>>,
        interval: Duration,
    ) -> Self {
        Self {
            started: Instant::now(),
            origin: None,
            interval,
            others: Vec::new(),
            server: server.and_then(|probe| Sampler::spawn("probe-server", probe, interval)),
            host: host.and_then(|probe| Sampler::spawn("probe-host", probe, interval)),
        }
    }

    /// Starts a further probe, the first reading at once.
    pub fn also(&mut self, what: Also, probe: Box<dyn Sampled>) {
        let sampler = Sampler::spawn("probe-other", probe, self.interval);
        self.others.extend(sampler.map(|sampler| (what, sampler)));
    }

    fn samplers(&self) -> impl Iterator<Item = &Sampler> {
        let others = self.others.iter().map(|(_, sampler)| sampler);
        self.server.iter().chain(&self.host).chain(others)
    }

    /// The clients were released at `origin`: sample times count from there, earlier ones are
    /// negative. Asks for a sample right now as well. Never waits.
    pub fn released(&mut self, origin: Instant) {
        self.origin = Some(origin);
        for sampler in self.samplers() {
            // A thread that has ended takes no more.
            let _ = sampler.commands.send(Command::Sample);
        }
    }

    /// Takes a last sample of each probe and ends. A probe that does not answer within two seconds is
    /// left behind; its thread ends with its connection's time limit.
    pub fn finish(self) -> Recording {
        let origin = self.origin.unwrap_or(self.started);
        let deadline = Instant::now() + LAST_SAMPLE;
        for sampler in self.samplers() {
            let _ = sampler.commands.send(Command::Finish);
        }
        let mut recording = Recording::default();
        if let Some(host) = self.host {
            recording.host = host.collect("host", origin, deadline, &mut recording.unavailable);
        }
        if let Some(server) = self.server {
            recording.server =
                server.collect("server", origin, deadline, &mut recording.unavailable);
        }
        let deadline = deadline + FROM_AFAR;
        for (what, sampler) in self.others {
            let (name, samples) = match what {
                Also::ServerHost => ("server's host", &mut recording.server_host),
                Also::Replica => ("replica", &mut recording.replicas),
            };
            samples.extend(sampler.collect(name, origin, deadline, &mut recording.unavailable));
        }
        recording.replicas.sort_by(|a, b| a.at.total_cmp(&b.at));
        recording
    }
}

impl Sampler {
    /// `None` when the system gives no thread.
    fn spawn(name: &str, probe: Box<dyn Sampled>, interval: Duration) -> Option<Self> {
        let (commands, orders) = mpsc::channel();
        let (over, ended) = mpsc::channel();
        let taken = Arc::new(Mutex::new(Taken::default()));
        let own = Arc::clone(&taken);
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                sample_until_told(probe, interval.max(Duration::from_millis(1)), &orders, &own);
                let _ = over.send(());
            })
            .ok()?;
        Some(Self {
            commands,
            ended,
            taken,
        })
    }

    fn collect(
        self,
        what: &str,
        origin: Instant,
        deadline: Instant,
        unavailable: &mut Vec<String>,
    ) -> Vec<Sample> {
        let left = deadline.saturating_duration_since(Instant::now());
        if self.ended.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
            unavailable.push(format!("{what} probe: no answer at the end of a cell"));
        }
        let taken = std::mem::take(&mut *lock(&self.taken));
        unavailable.extend(taken.unavailable);
        taken
            .samples
            .into_iter()
            .map(|(at, sample)| Sample {
                at: signed_seconds(origin, at),
                ..sample
            })
            .collect()
    }
}

fn sample_until_told(
    mut probe: Box<dyn Sampled>,
    interval: Duration,
    orders: &Receiver<Command>,
    taken: &Mutex<Taken>,
) {
    let mut first = true;
    let mut last = false;
    let mut due = Instant::now();
    loop {
        let asked = Instant::now();
        let result = probe.sample();
        let took = asked.elapsed();
        let at = asked + took / 2;
        let news = if std::mem::take(&mut first) {
            probe.unavailable()
        } else {
            Vec::new()
        };
        {
            let mut taken = lock(taken);
            taken.unavailable.extend(news);
            match result {
                Ok(mut sample) => {
                    let millis = took.as_secs_f64() * 1e3;
                    sample.values.insert(PROBE_MS.to_owned(), millis);
                    taken.samples.push((at, sample));
                }
                Err(error) if probe.survives_errors() => {
                    if !taken.unavailable.contains(&error) {
                        taken.unavailable.push(error);
                    }
                }
                // After a failure a connection is out of step: no further answer could be trusted.
                Err(error) => {
                    taken.unavailable.push(format!("probe ended: {error}"));
                    last = true;
                }
            }
        }
        if last {
            return;
        }
        // Overslept intervals are left out, not made up for.
        due += interval;
        let now = Instant::now();
        while due <= now {
            due += interval;
        }
        match orders.recv_timeout(due - now) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Command::Sample) => due = Instant::now(),
            Ok(Command::Finish) => last = true,
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A probe that panicked leaves what it had brought.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn signed_seconds(origin: Instant, at: Instant) -> f64 {
    match at.checked_duration_since(origin) {
        Some(after) => after.as_secs_f64(),
        None => -origin.duration_since(at).as_secs_f64(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::float_cmp)]
mod tests {
    use super::*;

    /// A probe that counts its samples and tells of each.
    fn counting(told: &Sender<()>) -> Box<dyn Sampled> {
        let told = told.clone();
        let mut n = 0.0;
        Box::new(move || {
            n += 1.0;
            let _ = told.send(());
            Ok(Sample {
                at: 0.0,
                values: [("n".to_owned(), n)].into(),
            })
        })
    }

    #[test]
    fn samples_stand_before_at_and_after_the_release() {
        let (server, server_taken) = std::sync::mpsc::channel();
        let (host, host_taken) = std::sync::mpsc::channel();
        let mut recorder = Recorder::start(
            Some(counting(&server)),
            Some(counting(&host)),
            Duration::from_millis(10),
        );
        // On a busy machine a thread may start late: wait for what is to be seen, not for a time. A second
        // sample that is being taken means that the first one has its time.
        for taken in [&server_taken, &host_taken, &server_taken, &host_taken] {
            taken.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        recorder.released(Instant::now());
        for taken in [&server_taken, &host_taken] {
            taken.try_iter().for_each(drop);
            taken.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        let recording = recorder.finish();
        for samples in [&recording.server, &recording.host] {
            assert!(samples.len() >= 3, "{samples:?}");
            assert!(samples.first().unwrap().at < 0.0);
            assert!(samples.last().unwrap().at > 0.0);
            assert!(samples.windows(2).all(|w| w[0].at <= w[1].at));
            assert!(
                samples
                    .windows(2)
                    .all(|w| w[0].values["n"] < w[1].values["n"])
            );
        }
        assert_eq!(recording.unavailable, Vec::<String>::new());
    }

    #[test]
    fn a_hanging_server_holds_up_neither_the_end_nor_the_host() {
        let (_keep, never) = mpsc::channel::<()>();
        let mut first = true;
        let hanging = move || {
            if !std::mem::take(&mut first) {
                // Ends with the test, when `_keep` is dropped.
                let _ = never.recv();
            }
            Ok(Sample::default())
        };
        let (told, taken) = std::sync::mpsc::channel();
        let mut recorder = Recorder::start(
            Some(Box::new(hanging)),
            Some(counting(&told)),
            Duration::from_millis(5),
        );
        recorder.released(Instant::now());
        for _ in 0..2 {
            taken.recv_timeout(Duration::from_secs(30)).unwrap();
        }
        let recording = recorder.finish();
        assert_eq!(recording.server.len(), 1);
        assert!(recording.host.len() >= 2);
        assert_eq!(
            recording.unavailable,
            ["server probe: no answer at the end of a cell"]
        );
    }

    #[test]
    fn a_failed_sample_ends_that_probe_and_says_why() {
        let recorder = Recorder::start(
            Some(Box::new(|| Err("gone away".to_owned()))),
            None,
            Duration::from_millis(5),
        );
        let recording = recorder.finish();
        assert!(recording.server.is_empty());
        assert_eq!(recording.unavailable, ["probe ended: gone away"]);
    }
}
