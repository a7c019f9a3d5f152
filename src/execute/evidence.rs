//! What is looked at around cells and ladders, never while load is measured: plans and digests.

use std::time::Duration;

use super::Session;
use crate::plan::{HostProbe, Protocol};
use crate::probe::remote::Busy;
use crate::probe::{self, digests};
use crate::record::{CellRecord, Flavour, LadderPlans, StatementPlan, reason};
use crate::target::{self, Endpoint};
use crate::workload::Program;

/// How long one statement of a look may take.
const LIMIT: Duration = Duration::from_secs(5);

impl Session<'_> {
    /// Notes a signal that is missing, once.
    pub(super) fn missing(&mut self, what: String) {
        if !self.run.unavailable.contains(&what) {
            self.run.unavailable.push(what);
        }
    }

    /// Puts what the probes brought into a cell's record; `before`: the digests before its load.
    pub(super) fn keep(
        &mut self,
        record: &mut CellRecord,
        readings: probe::Recording,
        before: Option<digests::Look>,
    ) {
        record.server = readings.server;
        record.host = readings.host;
        record.evidence.server_host = readings.server_host;
        record.evidence.replicas = readings.replicas;
        for missing in readings.unavailable {
            self.missing(missing);
        }
        if let Some(before) = before
            && let Some(after) = self.digests()
        {
            record.evidence.digests = digests::between(&before, &after);
        }
    }

    /// Plans of a workload's statements before a ladder; where they go on is handed back.
    pub(super) fn plans_before(&mut self, repeat: u32, variant: &str, program: &Program) -> usize {
        let mut plans = LadderPlans {
            repeat,
            variant: variant.to_owned(),
            workload: program.name.clone(),
            ..LadderPlans::default()
        };
        match self.plans(program) {
            Ok(found) => plans.before = found,
            Err(why) => plans.problem = Some(why),
        }
        self.run.evidence.plans.push(plans);
        self.run.evidence.plans.len() - 1
    }

    /// The same after the ladder.
    pub(super) fn plans_after(&mut self, place: usize, program: &Program) {
        let found = self.plans(program);
        if let Some(plans) = self.run.evidence.plans.get_mut(place) {
            match found {
                Ok(found) => plans.after = found,
                Err(why) => plans.problem = Some(why),
            }
        }
    }

    fn plans(&mut self, program: &Program) -> Result<Vec<StatementPlan>, String> {
        let mut conn = target::connect(self.server.load_endpoint(), Some(LIMIT))
            .map_err(|error| reason(&error.to_string()))?;
        probe::explain::explain(&mut conn, program, self.rows())
            .map_err(|error| target::words(&error))
    }

    /// Statement digests now, `None` when there are none; why is noted.
    pub(super) fn digests(&mut self) -> Option<digests::Look> {
        let database = self.plan.target.database.clone();
        let look = target::connect(self.server.admin_endpoint(), Some(LIMIT))
            .map_err(|error| format!("statement digests: {}", reason(&error.to_string())))
            .and_then(|mut conn| digests::look(&mut conn, &database));
        let maria = self.server.identity().flavour == Flavour::MariaDb;
        if maria && look.is_ok() && self.plan.load.protocol == Protocol::Prepared {
            self.missing(
                "statement digests: MariaDB counts no executions of prepared statements (load.protocol = \"text\" would be seen)"
                    .to_owned(),
            );
        }
        match look {
            Ok(look) => Some(look),
            Err(why) => {
                self.missing(why);
                None
            }
        }
    }

    /// The probes beside those of the server and of this host; `busy` is told the CPU of the server's.
    pub(super) fn watch_others(&mut self, recorder: &mut probe::Recorder, busy: &Busy) {
        if let Some(host) = &self.plan.target.probe {
            self.run.evidence.server_host = Some(host.to_string());
            let source = match host.clone() {
                HostProbe::Exporter { host, port, path } => {
                    probe::remote::Source::Exporter { host, port, path }
                }
                HostProbe::Command(command) => probe::remote::Source::Command {
                    command,
                    hidden: self.server.hidden_variables().to_vec(),
                },
            };
            recorder.also(
                probe::Also::ServerHost,
                Box::new(probe::remote::Probe::new(source, busy.clone())),
            );
        }
        let replicas: Vec<(String, Endpoint)> = match target::replicas(self.plan) {
            Ok(replicas) => replicas,
            Err(error) => {
                self.missing(format!("replicas: {}", reason(&error.to_string())));
                return;
            }
        };
        self.run.evidence.replicas = replicas.iter().map(|(name, _)| name.clone()).collect();
        for (name, endpoint) in replicas {
            match target::connect(&endpoint, Some(LIMIT)) {
                Ok(conn) => recorder.also(
                    probe::Also::Replica,
                    Box::new(probe::replica::Probe::new(&name, conn)),
                ),
                Err(error) => {
                    self.missing(format!("replica {name}: {}", reason(&error.to_string())));
                }
            }
        }
    }
}
