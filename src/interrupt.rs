//! The user's wish to end: Ctrl-C, Ctrl-\, SIGTERM or SIGHUP. The first signal raises a flag that everything
//! which takes long polls; the second ends the process at once, after the last-resort actions
//! (a private server must not outlive capbench).

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Exit code of an interrupted run (128 + SIGINT).
pub const EXIT_INTERRUPTED: i32 = 130;

type Action = Box<dyn Fn() + Send>;

/// A flag that is raised once and never lowered. Clones share it.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Shared>);

#[derive(Default)]
struct Shared {
    raised: AtomicBool,
    last_resort: Mutex<Vec<Action>>,
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interrupt").field(&self.raised()).finish()
    }
}

impl Interrupt {
    /// Not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks everyone to end.
    pub fn raise(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
    }

    /// Whether someone asked.
    pub fn raised(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }

    /// Adds an action for the second signal. It must be quick, and may run at any moment.
    pub fn at_last_resort(&self, action: impl Fn() + Send + 'static) {
        self.0
            .last_resort
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(action));
    }

    /// Listens for the signals on a thread of its own. `said` is told of each (1 = first).
    ///
    /// # Errors
    /// When the handlers cannot be installed.
    pub fn listen(&self, said: impl Fn(u32) + Send + 'static) -> io::Result<()> {
        let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
        let interrupt = self.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                let mut count = 0;
                for _ in signals.forever() {
                    count += 1;
                    said(count);
                    if count > 1 {
                        let actions = interrupt
                            .0
                            .last_resort
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner);
                        actions.iter().for_each(|action| action());
                        std::process::exit(EXIT_INTERRUPTED);
                    }
                    interrupt.raise();
                }
            })?;
        Ok(())
    }
}
