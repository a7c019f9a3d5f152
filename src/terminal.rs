//! The screen: progress on stderr, data on stdout. The only place that writes to either.

use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::interrupt::Interrupt;
use crate::plan::Warning;
use crate::units::{PerSecond, Span};

/// Something for stdout was lost.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes to the screen; quiet keeps progress back, never warnings and errors.
#[derive(Debug)]
pub struct Terminal {
    quiet: bool,
    /// The bar that is on the screen, so that lines go above it.
    bar: Mutex<Option<ProgressBar>>,
}

/// How often a long stage says how far it is when stderr is not a terminal.
const PLAIN_PROGRESS: Duration = Duration::from_secs(10);

impl Terminal {
    /// The process's own screen.
    pub fn new(quiet: bool) -> Self {
        Self {
            quiet,
            bar: Mutex::new(None),
        }
    }

    /// A line of data for stdout. A reader that went away (`| head`) is not an error; any other failure to
    /// write is remembered, see [`Terminal::lost_data`].
    pub fn data(text: &str) {
        let mut out = anstream::stdout().lock();
        let newline: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
        let written = out
            .write_all(text.as_bytes())
            .and_then(|()| out.write_all(newline))
            .and_then(|()| out.flush());
        if written.is_err_and(|error| error.kind() != std::io::ErrorKind::BrokenPipe) {
            LOST.store(true, Ordering::SeqCst);
        }
    }

    /// Whether data could not be written to stdout (a full disk behind `>`).
    pub fn lost_data() -> bool {
        LOST.load(Ordering::SeqCst)
    }

    /// A line of progress.
    pub fn say(&self, text: impl Display) {
        if !self.quiet {
            self.line(&text.to_string());
        }
    }

    /// A warning about plan, server or machine.
    pub fn warn(&self, text: impl Display) {
        self.line(&format!("\x1b[33mwarning\x1b[0m: {text}"));
    }

    /// A warning of the method; an accepted one is shown as such.
    pub fn warning(&self, warning: &Warning) {
        if warning.accepted {
            self.say(format_args!(
                "note: {} (`{}`, accepted in the plan)",
                warning.text, warning.name
            ));
        } else {
            self.warn(format_args!("{} (`{}`)", warning.text, warning.name));
        }
    }

    /// An error with its causes.
    pub fn error(&self, error: &anyhow::Error) {
        self.line(&format!("\x1b[31;1merror\x1b[0m: {}", words(error)));
    }

    /// Text that brings its own form (rendered diagnostics).
    pub fn raw(&self, text: &str) {
        self.line(text.trim_end_matches('\n'));
    }

    /// Whether stderr shows colours.
    pub fn colour() -> bool {
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    }

    fn line(&self, text: &str) {
        let write = || {
            let _ = writeln!(anstream::stderr().lock(), "{text}");
        };
        let bar = self
            .bar
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Whether a person can answer.
    pub fn can_ask() -> bool {
        std::io::stdin().is_terminal()
    }

    /// Asks a person to do something and waits for Enter. `false`: nobody is there, or the answer is "no".
    pub fn ask(&self, request: &str, interrupt: &Interrupt) -> bool {
        if !Self::can_ask() {
            self.warn(format_args!(
                "{request}\nnobody can answer: standard input is not a terminal"
            ));
            return false;
        }
        self.line(&format!(
            "{request}\npress Enter when it is done, or type no"
        ));
        let (answer, answered) = mpsc::channel();
        // A read cannot be called off: the thread stays behind when the user interrupts instead of answering.
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = std::io::stdin().read_line(&mut line);
            let _ =
                answer.send(read.is_ok_and(|n| n > 0) && !line.trim().eq_ignore_ascii_case("no"));
        });
        loop {
            match answered.recv_timeout(Duration::from_millis(200)) {
                Ok(done) => return done,
                Err(mpsc::RecvTimeoutError::Timeout) if !interrupt.raised() => {}
                Err(_) => return false,
            }
        }
    }

    /// Starts a bar over `total` steps of `what` (`rows`), `first` of which are done already. On something that is not a terminal it
    /// becomes a line every ten seconds.
    pub fn bar(&self, label: &str, what: &'static str, first: u64, total: u64) -> Bar<'_> {
        let shown = !self.quiet && std::io::stderr().is_terminal();
        let bar = shown.then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let template = "{msg} {bar:30} {percent:>3}% · {human_pos} of {human_len} · {per_sec} · {eta} left";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_message(label.to_owned());
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        self.bar
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(&bar);
        let now = Instant::now();
        Bar {
            terminal: self,
            shown: bar,
            label: label.to_owned(),
            what,
            first,
            total,
            started: now,
            said: Mutex::new(now),
        }
    }
}

/// An error with its causes. A cause that the text before already holds is not repeated.
pub fn words(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Progress of one long stage. Ends when dropped.
#[derive(Debug)]
pub struct Bar<'t> {
    terminal: &'t Terminal,
    shown: Option<ProgressBar>,
    label: String,
    what: &'static str,
    /// Steps that were done before this bar began; they tell nothing about the rate.
    first: u64,
    total: u64,
    started: Instant,
    said: Mutex<Instant>,
}

impl Bar<'_> {
    /// `done` steps are done.
    pub fn at(&self, done: u64) {
        if let Some(bar) = &self.shown {
            bar.set_position(done);
            return;
        }
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.elapsed() < PLAIN_PROGRESS {
            return;
        }
        *said = Instant::now();
        let rate = done.saturating_sub(self.first) as f64 / self.started.elapsed().as_secs_f64();
        let rest = self.total.saturating_sub(done) as f64;
        let left = Duration::try_from_secs_f64((rest / rate).ceil())
            .map_or_else(|_| "unknown time".to_owned(), |left| Span(left).to_string());
        self.terminal.say(format_args!(
            "{}: {done} of {} {} ({}), {left} left",
            self.label,
            self.total,
            self.what,
            PerSecond(rate)
        ));
    }
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        *self
            .terminal
            .bar
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
