//! One cell measured: load, probes on its clock, and what differed around it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::cell::{self, CellObserver, Label};
use super::comparable::{differences, disturbed, lost};
use super::extend::Extension;
use super::guard::{HostCpu, Watch};
use super::sentinel::Sentinel;
use super::written::astray;
use super::{Session, SessionError};
use crate::load::{LoadError, LoadSpec};
use crate::matrix::{self, Cell};
use crate::plan::{Plan, Risk};
use crate::probe::{self, remote::Busy};
use crate::record::{CellKind, CellRecord, CellStatus, reason};
use crate::target::{self, Fingerprint, TargetError};
use crate::workload::Program;

/// How long one reading of the server's status may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// What a cell found on the server before its load.
struct Found {
    variables: BTreeMap<String, String>,
    state: Fingerprint,
}

impl Session<'_> {
    pub(super) fn rows(&self) -> u64 {
        self.run.dataset.as_ref().map_or(0, |facts| facts.rows)
    }

    /// Measures one cell; `left` is what the run will still take, with it. Whatever goes wrong inside it ends up
    /// in its record.
    pub(super) fn cell(
        &mut self,
        cell: &Cell,
        total: usize,
        left: Duration,
    ) -> Result<CellRecord, SessionError> {
        let plan = self.plan;
        let program = &plan.ladder.workloads[cell.workload];
        let label = label(plan, cell, program, total);
        self.announce(cell, &label, left);
        let blank = |status, reason| cell::blank(plan, cell, status, reason);
        let found = match self.look(program)? {
            Ok(found) => found,
            Err(error) => {
                let mut record = blank(CellStatus::Failed, Some(reason(&error.to_string())));
                self.by_the_user(&mut record);
                if record.status == CellStatus::Failed {
                    self.terminal
                        .warn(format_args!("[{}] {}: {error}", label.position, label.text));
                }
                return Ok(record);
            }
        };
        let began = Instant::now();
        let spec = self.spec(cell, program);
        // A soak has its length from the plan: what it looks for is what does not stay steady.
        let extension = Extension::of(&plan.ladder).filter(|_| cell.kind != CellKind::Soak);
        let digests_before = self.digests();
        let busy = Busy::default();
        let recorder = Mutex::new(self.recorder(&busy));
        let released = |at: Instant| {
            recorder
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .released(at);
        };
        let host = Mutex::new(HostCpu::new(self.server.identity().local));
        // The probe on the server's own host knows better than this one.
        let server_cpu = || {
            busy.latest().or_else(|| {
                host.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .since_last()
            })
        };
        let admin = self.server.admin_endpoint().clone();
        let sentinel = Sentinel::start(&plan.guard, self.server);
        let observer = CellObserver::new(
            self.terminal,
            &label,
            &admin,
            Watch::new(&plan.guard),
            &sentinel,
            self.server.pid(),
            &server_cpu,
            &released,
        )
        .until_steady(extension.as_ref());
        let outcome = cell::drive(&spec, &observer, self.interrupt);
        drop(observer);
        let readings = recorder
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .finish();
        let mut record = match outcome {
            Ok(outcome) => {
                if let Some(server) = &mut self.run.server {
                    server.tls.clone_from(&outcome.tls);
                }
                cell::filled(blank(CellStatus::Completed, None), outcome)
            }
            Err(error) => {
                let (status, why) = never_loaded(&error);
                blank(status, Some(why))
            }
        };
        self.by_the_user(&mut record);
        let death = self.server.death();
        if let Some(death) = &death {
            record.status = CellStatus::Failed;
            record.reason = Some(reason(&death.to_string()));
        }
        let death = death.is_some();
        record.evidence.extended_seconds = extension.map(|extension| extension.beyond());
        self.keep(&mut record, readings, digests_before.filter(|_| !death));
        match self.server.variables() {
            Err(_) if death => {}
            Ok(after) => {
                record.differences = lost(&self.expected, &found.variables);
                record
                    .differences
                    .extend(differences(&found.variables, &after));
                let left = self.server.fingerprint(&plan.target.database);
                self.compare(program, &mut record, &found.state, left, began.elapsed());
            }
            Err(error) => record.differences.push(format!(
                "variables could not be read after the cell: {}",
                reason(&error.to_string())
            )),
        }
        // What follows from these ends is said once the run has ended.
        let told = record.status == CellStatus::Interrupted || death;
        if let Some(reason) = record.reason.as_ref().filter(|_| !told) {
            self.terminal.warn(format_args!(
                "[{}] {}: {reason}",
                label.position, label.text
            ));
        }
        Ok(record)
    }

    /// Says what is measured now, and what the run will still take.
    fn announce(&self, cell: &Cell, label: &Label, left: Duration) {
        // Refining may end before its budget does.
        let most = if self.plan.ladder.refine && cell.kind != CellKind::Soak {
            "at most "
        } else {
            ""
        };
        self.terminal.say(format_args!(
            "[{}] {}  ({most}about {} left)",
            label.position,
            label.text,
            matrix::shown(left)
        ));
    }

    /// What failed after the user's wish to end proves nothing against the server: the cell was interrupted, and
    /// a run that is taken up again measures it.
    fn by_the_user(&self, record: &mut CellRecord) {
        if record.status == CellStatus::Failed && self.interrupt.raised() {
            record.status = CellStatus::Interrupted;
            let why = record.reason.as_deref().unwrap_or("n/a");
            record.reason = Some(format!("the user ended it; then: {why}"));
        }
    }

    /// The load of a cell; a soak takes as long as the plan says for it.
    fn spec(&self, cell: &Cell, program: &Program) -> LoadSpec {
        let mut spec = cell::spec(
            self.plan,
            self.server.load_endpoint(),
            self.rows(),
            program,
            cell.step,
        );
        if let (CellKind::Soak, Some(soak)) = (cell.kind, &self.plan.soak) {
            spec.measure = soak.duration.0;
            spec.events = None;
        }
        spec
    }

    /// The settings and all else that a cell finds, its data made ready. The inner error is the cell's, the
    /// outer one the run's.
    fn look(&mut self, program: &Program) -> Result<Result<Found, TargetError>, SessionError> {
        let variables = match self.server.variables() {
            Ok(variables) => variables,
            Err(error) => return Ok(Err(error)),
        };
        self.before_load(program)?;
        let found = self.server.fingerprint(&self.plan.target.database);
        Ok(found.map(|state| Found { variables, state }))
    }

    /// What else differed around a cell, into its record.
    fn compare(
        &mut self,
        program: &Program,
        record: &mut CellRecord,
        found: &Fingerprint,
        left: Result<Fingerprint, TargetError>,
        took: Duration,
    ) {
        let left = match left {
            Ok(left) => left,
            Err(error) => {
                record.differences.push(format!(
                    "tables and rows could not be looked at after the cell: {}",
                    reason(&error.to_string())
                ));
                return;
            }
        };
        record.differences.extend(self.ground.shifted(found));
        record.differences.extend(disturbed(found, &left, took));
        // Tables that something else made may have gaps, and others who were taken on may write.
        let others = [
            Risk::OtherClients,
            Risk::UnseenClients,
            Risk::IsReplica,
            Risk::UnseenSource,
        ];
        let guard = &self.plan.guard;
        if self.plan.dataset.existing || others.iter().any(|risk| guard.acknowledges(*risk)) {
            return;
        }
        match (found.rows, left.rows) {
            (Some(before), Some(after)) => record.differences.extend(astray(
                program,
                record.clients,
                &record.intervals,
                before,
                after,
            )),
            _ => self.missing("rows that the server wrote: its counters cannot be read".to_owned()),
        }
    }

    /// Probes of server and hosts for one cell. A server that gives no connection for it is said to be
    /// unread; the cell itself will tell why.
    fn recorder(&mut self, busy: &Busy) -> probe::Recorder {
        let flavour = self.server.identity().flavour;
        let limit = Some(PROBE_TIMEOUT);
        let server: Option<Box<dyn probe::Sampled>> =
            match target::connect(self.server.admin_endpoint(), limit) {
                Ok(conn) => Some(Box::new(probe::server::Probe::new(conn, flavour))),
                Err(error) => {
                    self.missing(format!("server status: {}", reason(&error.to_string())));
                    None
                }
            };
        let host = probe::host::Probe::new(self.server.local_pid());
        let mut recorder =
            probe::Recorder::start(server, Some(Box::new(host)), self.plan.ladder.interval.0);
        self.watch_others(&mut recorder, busy);
        recorder
    }
}

/// How a cell ended whose clients were never released, and why.
fn never_loaded(error: &LoadError) -> (CellStatus, String) {
    match error {
        LoadError::Interrupted => (
            CellStatus::Interrupted,
            "the user ended it while its clients were connecting".to_owned(),
        ),
        error => (CellStatus::Failed, reason(&error.to_string())),
    }
}

fn label(plan: &Plan, cell: &Cell, program: &Program, total: usize) -> Label {
    let mut text = format!("{} {}", program.name, cell.step);
    if plan.variants.len() > 1 {
        text = format!("{text} · {}", plan.variants[cell.variant].name);
    }
    let position = match cell.kind {
        CellKind::Ladder => format!("{}/{total}", cell.index),
        // How many of these there will be is not known beforehand.
        other => other.as_str().to_owned(),
    };
    Label { position, text }
}
