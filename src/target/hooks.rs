//! Changes that capbench cannot make itself: the plan's shell commands, and a person.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::TargetError;
use super::process::{end_group, tail, wait_for_child};
use crate::interrupt::Interrupt;

/// Lines of a hook's output that its failure shows.
const OUTPUT_LINES: usize = 8;

/// The person at the terminal.
pub trait Operator {
    /// Asks for a change and waits. `true`: it has been made; `false`: it will not be, or nobody is there.
    fn ask(&self, request: &str) -> bool;
}

/// Nobody is there: every request is declined.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unattended;

impl Operator for Unattended {
    fn ask(&self, _request: &str) -> bool {
        false
    }
}

/// Runs one hook by `sh -c` in a process group of its own, so that Ctrl-C cannot cut a change in half.
pub(crate) fn run_hook(
    hook: &'static str,
    command: &str,
    environment: &[(&str, &str)],
    hidden: &[String],
    timeout: Duration,
    interrupt: &Interrupt,
) -> Result<(), TargetError> {
    let failed = |reason: String| TargetError::Hook { hook, reason };
    // A file, not a pipe: what the hook leaves running may hold it open for ever.
    let mut output = tempfile::tempfile().map_err(|e| failed(e.to_string()))?;
    let handle = || output.try_clone().map_err(|e| failed(e.to_string()));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(handle()?)
        .stderr(handle()?)
        .process_group(0);
    for name in hidden {
        shell.env_remove(name);
    }
    let mut child = shell.spawn().map_err(|e| failed(e.to_string()))?;
    match wait_for_child(&mut child, timeout, interrupt) {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(failed(format!(
            "{status}{}",
            tail(&mut output, OUTPUT_LINES)
        ))),
        Ok(None) => {
            end_group(&mut child, Duration::from_secs(2), &Interrupt::new());
            Err(failed(format!(
                "it ran longer than {} s{}\nhint: raise start_timeout under [target]",
                timeout.as_secs(),
                tail(&mut output, OUTPUT_LINES)
            )))
        }
        Err(error) => {
            end_group(&mut child, Duration::from_secs(2), &Interrupt::new());
            Err(error)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    fn run(command: &str, environment: &[(&str, &str)]) -> Result<(), TargetError> {
        run_hook(
            "apply",
            command,
            environment,
            &["PATH_SECRET".to_owned()],
            Duration::from_secs(20),
            &Interrupt::new(),
        )
    }

    #[test]
    fn a_hook_sees_its_variables_and_its_failure_shows_its_words() {
        run(
            "test \"$CAPBENCH_OPTIONS\" = '--skip-log-bin --x=1'",
            &[("CAPBENCH_OPTIONS", "--skip-log-bin --x=1")],
        )
        .unwrap();
        let error = run("echo no such host >&2; exit 7", &[])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no such host") && error.contains('7'),
            "{error}"
        );
    }

    #[test]
    fn a_hook_that_hangs_is_ended() {
        let error = run_hook(
            "restart",
            "sleep 600",
            &[],
            &[],
            Duration::from_millis(50),
            &Interrupt::new(),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("longer"), "{error}");
        let interrupt = Interrupt::new();
        interrupt.raise();
        assert!(
            run_hook(
                "restart",
                "sleep 600",
                &[],
                &[],
                Duration::from_secs(60),
                &interrupt
            )
            .unwrap_err()
            .is_interrupt()
        );
    }
}
