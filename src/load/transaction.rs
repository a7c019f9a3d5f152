//! What a client does with its connection: transactions, statement by statement.

use std::sync::atomic::Ordering;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::arrivals::Arrival;
use super::client::{Cause, Client, State, Trouble, is_lost, stream};
use super::context::{Context, Stage};
use super::script::{Command, Draw, Plot, Scene, Source};
use super::values::{template, write_template};
use super::wire::{Answer, Execute, ServerError, WireError, close, prepare, query};

/// The transaction lost and may be tried again: record changed (`MariaDB`), lock wait time-out, deadlock.
const RETRY: [u16; 3] = [1020, 1205, 1213];
/// The server no longer knows the prepared statement, or failed to prepare it again.
const UNPREPARED: [u16; 2] = [1243, 1615];
/// Attempts to prepare a statement again in a row.
const MOST_REPREPARES: u8 = 3;

/// What the server is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    #[default]
    Begin,
    /// The statement is being prepared.
    Prepare,
    Statement,
    Commit,
    /// ROLLBACK, then the transaction again.
    RollbackAndRetry,
    /// ROLLBACK after the last attempt.
    RollbackAndLeave,
}

/// A point in a client's random streams.
#[derive(Debug, Clone)]
struct Mark {
    rng: Xoshiro256PlusPlus,
    sequence: i64,
    unique: usize,
}

/// A bound value: a number, or a part of [`Progress::texts`].
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bound {
    pub(super) number: i64,
    pub(super) text: (usize, usize),
}

/// Where a client stands in its transaction.
#[derive(Debug, Default)]
pub(super) struct Progress {
    step: Step,
    plot: usize,
    group: usize,
    repetition: u32,
    statement: usize,
    pub(super) table: u32,
    pub(super) binds: Vec<Bound>,
    pub(super) texts: Vec<u8>,
    /// When it became due.
    due: u64,
    /// When a client took it up.
    begun: u64,
    /// When the command under way was sent.
    sent: u64,
    attempt: u32,
    reprepares: u8,
    /// Counts up from 1.
    pub(super) sequence: i64,
    /// Shared unique numbers drawn in this transaction, kept for another attempt.
    pub(super) uniques: Vec<u32>,
    pub(super) unique: usize,
    transaction_mark: Option<Mark>,
    statement_mark: Option<Mark>,
}

impl Client {
    /// Starts a transaction: its own next one, or the one that has arrived.
    pub(super) fn begin(
        &mut self,
        ctx: &mut Context<'_>,
        arrival: Option<Arrival>,
        now: u64,
    ) -> Result<(), Trouble> {
        self.enter(State::Busy);
        ctx.busy += 1;
        let progress = &mut self.progress;
        progress.begun = now;
        progress.due = now;
        progress.attempt = 0;
        match arrival {
            Some(arrival) => {
                progress.due = arrival.due;
                // Which client takes it up is chance; what it asks is not.
                self.rng = stream(ctx.shared.spec.seed, 1, arrival.number);
            }
            None => ctx.tally.arrivals += 1,
        }
        progress.uniques.clear();
        progress.unique = 0;
        self.progress.transaction_mark = Some(self.mark());
        self.attempt(ctx, now)
    }

    fn mark(&self) -> Mark {
        Mark {
            rng: self.rng.clone(),
            sequence: self.progress.sequence,
            unique: self.progress.unique,
        }
    }

    fn return_to(&mut self, mark: Option<Mark>) {
        if let Some(mark) = mark {
            self.rng = mark.rng;
            self.progress.sequence = mark.sequence;
            self.progress.unique = mark.unique;
        }
    }

    /// An attempt, from the first command on.
    fn attempt(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        let script = &ctx.shared.script;
        self.progress.plot = if script.plots.len() == 1 {
            0
        } else {
            let mut ticket = self.rng.random_range(0..script.weights);
            let mut chosen = 0;
            for (index, plot) in script.plots.iter().enumerate() {
                chosen = index;
                match ticket.checked_sub(plot.weight) {
                    Some(rest) => ticket = rest,
                    None => break,
                }
            }
            chosen
        };
        if self.plot(ctx).begin {
            self.text(ctx, "BEGIN", Step::Begin, now)
        } else {
            self.enter_group(ctx, 0, now)
        }
    }

    fn plot<'a>(&self, ctx: &Context<'a>) -> &'a Plot {
        &ctx.shared.script.plots[self.progress.plot]
    }

    fn scene<'a>(&self, ctx: &Context<'a>) -> &'a Scene {
        &self.plot(ctx).groups[self.progress.group]
    }

    fn command<'a>(&self, ctx: &Context<'a>) -> &'a Command {
        let index = self.scene(ctx).commands[self.progress.statement];
        &ctx.shared.script.commands[usize::from(index)]
    }

    /// The class of the command under way.
    pub(super) fn class(&self, ctx: &Context<'_>) -> u16 {
        let ids = ctx.shared.script.ids;
        match self.progress.step {
            Step::Begin => ids.begin,
            Step::Commit => ids.commit,
            Step::RollbackAndRetry | Step::RollbackAndLeave => ids.rollback,
            Step::Prepare | Step::Statement => self.command(ctx).class,
        }
    }

    fn enter_group(
        &mut self,
        ctx: &mut Context<'_>,
        group: usize,
        now: u64,
    ) -> Result<(), Trouble> {
        let plot = self.plot(ctx);
        if group >= plot.groups.len() {
            return if plot.begin {
                self.text(ctx, "COMMIT", Step::Commit, now)
            } else {
                self.finish(ctx, now)
            };
        }
        let tables = ctx.shared.spec.tables.max(1);
        self.progress.group = group;
        self.progress.repetition = 0;
        self.progress.table = if ctx.shared.script.own_table {
            self.index % tables + 1
        } else if tables == 1 {
            1
        } else {
            self.rng.random_range(1..=tables)
        };
        self.enter_body(ctx, now)
    }

    fn enter_body(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        self.progress.statement = 0;
        self.progress.binds.clear();
        self.progress.texts.clear();
        for source in &self.scene(ctx).binds {
            let bound = if let Source::Text(pattern) = source {
                let start = self.progress.texts.len();
                pattern.fill(&mut self.rng, &mut self.progress.texts);
                Bound {
                    number: 0,
                    text: (start, self.progress.texts.len()),
                }
            } else {
                Bound {
                    number: self.number(ctx.shared, source),
                    text: (0, 0),
                }
            };
            self.progress.binds.push(bound);
        }
        self.statement(ctx, now)
    }

    /// Sends the statement, or has it prepared first.
    fn statement(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        let shared = ctx.shared;
        let command = self.command(ctx);
        self.progress.statement_mark = Some(self.mark());
        let mut out = std::mem::take(&mut ctx.out);
        out.clear();
        let step = if command.text {
            query(&mut out, |out| self.write_sql(shared, command, out));
            Step::Statement
        } else {
            let table = if command.names_table {
                self.progress.table
            } else {
                0
            };
            let key = u64::from(command.number) << 32 | u64::from(table);
            if let Some((id, bind)) = self.prepared.use_it(key) {
                let texts = command.values.iter().map(Draw::text);
                let execute = Execute::start(&mut out, id, texts, bind);
                self.write_values(shared, command, &mut out);
                execute.finish(&mut out);
                Step::Statement
            } else {
                if let Some(old) = self.prepared.evict() {
                    close(&mut out, old);
                }
                prepare(&mut out, |out| write_template(command, table, out));
                Step::Prepare
            }
        };
        ctx.out = out;
        self.send(ctx, step, now)
    }

    /// Sends a command without parameters.
    fn text(
        &mut self,
        ctx: &mut Context<'_>,
        sql: &str,
        step: Step,
        now: u64,
    ) -> Result<(), Trouble> {
        ctx.out.clear();
        query(&mut ctx.out, |out| out.extend_from_slice(sql.as_bytes()));
        self.send(ctx, step, now)
    }

    fn send(&mut self, ctx: &mut Context<'_>, step: Step, now: u64) -> Result<(), Trouble> {
        self.progress.step = step;
        self.progress.sent = now;
        if let Some(wire) = &mut self.wire {
            if step == Step::Prepare {
                wire.expect_prepared();
            } else {
                wire.expect_result();
            }
        }
        if let Some(link) = &mut self.link {
            link.send(&ctx.registry, &ctx.out, &mut ctx.scratch)?;
        }
        Ok(())
    }

    /// The server has answered.
    pub(super) fn answered(
        &mut self,
        ctx: &mut Context<'_>,
        answer: Answer,
        now: u64,
    ) -> Result<(), Trouble> {
        match answer {
            Answer::Refused(error) => self.refused(ctx, error, now),
            Answer::Prepared { id, parameters } => {
                let command = self.command(ctx);
                let table = if command.names_table {
                    self.progress.table
                } else {
                    0
                };
                if usize::from(parameters) != command.values.len() {
                    return Err(Trouble::Fatal(format!(
                        "the server counts {parameters} parameters, the workload {}: {}",
                        command.values.len(),
                        template(command, table)
                    )));
                }
                let key = u64::from(command.number) << 32 | u64::from(table);
                self.prepared.insert(key, id);
                self.statement(ctx, now)
            }
            Answer::Done {
                result_set,
                affected,
            } => {
                if result_set {
                    ctx.tally.reads += 1;
                } else if affected > 0 {
                    ctx.tally.writes += 1;
                } else {
                    ctx.tally.others += 1;
                }
                let class = self.class(ctx);
                ctx.statement(class, now.saturating_sub(self.progress.sent));
                self.advance(ctx, now)
            }
        }
    }

    /// The command under way has succeeded.
    fn advance(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        match self.progress.step {
            Step::Begin => self.enter_group(ctx, 0, now),
            Step::Prepare | Step::Statement => {
                self.progress.reprepares = 0;
                let scene = self.scene(ctx);
                self.progress.statement += 1;
                if self.progress.statement < scene.commands.len() {
                    return self.statement(ctx, now);
                }
                self.progress.repetition += 1;
                if self.progress.repetition < scene.repeat {
                    return self.enter_body(ctx, now);
                }
                self.enter_group(ctx, self.progress.group + 1, now)
            }
            Step::Commit => self.finish(ctx, now),
            Step::RollbackAndRetry if ctx.stage == Stage::Over => {
                self.fail_transaction(ctx);
                self.retire(ctx, now);
                Ok(())
            }
            Step::RollbackAndRetry => self.attempt(ctx, now),
            Step::RollbackAndLeave => {
                ctx.busy -= 1;
                self.leave(ctx, now)
            }
        }
    }

    /// The transaction ended well.
    fn finish(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        ctx.busy -= 1;
        let mut counts = ctx.stage == Stage::Running;
        if counts
            && ctx.measuring
            && let Some(limit) = ctx.shared.spec.events
        {
            let ticket = ctx.shared.events.fetch_add(1, Ordering::Relaxed) + 1;
            if ticket == limit {
                ctx.shared.end_at(now);
            }
            counts = ticket <= limit;
        }
        if counts {
            ctx.tally.done += 1;
            // What waited through the end of the discard has waited in the measured time only since then.
            let due = if ctx.measuring && ctx.open {
                self.progress.due.max(ctx.measure_from)
            } else {
                self.progress.due
            };
            ctx.tally.latency.record(now.saturating_sub(due));
            if ctx.open {
                let service = now.saturating_sub(self.progress.begun);
                ctx.tally.service.record(service);
            }
            if ctx.measuring {
                self.done += 1;
            }
        } else {
            ctx.drained += 1;
        }
        self.leave(ctx, now)
    }

    /// The transaction is over, one way or the other.
    fn leave(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        self.enter(State::Ready);
        self.idle_since = now;
        self.next(ctx, now)
    }

    /// What a connected client without work does.
    pub(super) fn next(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        ctx.roll(now);
        if ctx.stage == Stage::Over {
            self.retire(ctx, now);
            return Ok(());
        }
        if ctx.open {
            return if let Some(arrival) = ctx.take_arrival(now) {
                self.take_up(ctx, arrival, now)
            } else {
                ctx.wait_for_arrival(self.slot);
                Ok(())
            };
        }
        let think = ctx.shared.script.think;
        if think > 0 {
            self.enter(State::Thinking);
            self.wake_at(ctx, now + think);
            return Ok(());
        }
        self.begin(ctx, None, now)
    }

    /// Starts a transaction that has arrived.
    pub(super) fn take_up(
        &mut self,
        ctx: &mut Context<'_>,
        arrival: Arrival,
        now: u64,
    ) -> Result<(), Trouble> {
        // Waiting for a client is the backlog's, what remains is ours.
        ctx.late(now.saturating_sub(arrival.due.max(self.idle_since)));
        self.begin(ctx, Some(arrival), now)
    }

    /// The transaction under way is lost.
    pub(super) fn fail_transaction(&mut self, ctx: &mut Context<'_>) {
        ctx.busy -= 1;
        if self.progress.step == Step::RollbackAndLeave {
            // It counted as failed when its last attempt was.
        } else if ctx.stage == Stage::Over {
            ctx.given_up += 1;
        } else {
            ctx.tally.failed += 1;
        }
    }

    /// The server has refused the command under way.
    fn refused(
        &mut self,
        ctx: &mut Context<'_>,
        error: ServerError,
        now: u64,
    ) -> Result<(), Trouble> {
        let code = error.code;
        if is_lost(code) {
            return Err(Trouble::Lost {
                code,
                error: Cause::Wire(WireError::Server(error)),
            });
        }
        let class = self.class(ctx);
        if self.progress.step != Step::Prepare {
            // Sent and answered, and the server counts it as well.
            ctx.tally.others += 1;
        }
        ctx.tally.error(code, class);
        if ctx.stage == Stage::Over {
            self.fail_transaction(ctx);
            self.retire(ctx, now);
            return Ok(());
        }
        let rolling_back = matches!(
            self.progress.step,
            Step::RollbackAndRetry | Step::RollbackAndLeave
        );
        if RETRY.contains(&code) && !rolling_back {
            return self.lost_the_race(ctx, now);
        }
        if UNPREPARED.contains(&code)
            && self.progress.step == Step::Statement
            && self.progress.reprepares < MOST_REPREPARES
            && !self.command(ctx).text
        {
            return self.prepare_again(ctx, now);
        }
        let sql = match self.progress.step {
            Step::Begin => "BEGIN".into(),
            Step::Commit => "COMMIT".into(),
            Step::RollbackAndRetry | Step::RollbackAndLeave => "ROLLBACK".into(),
            Step::Prepare | Step::Statement => template(self.command(ctx), self.progress.table),
        };
        let hint = super::hints::statement(code);
        Err(Trouble::Fatal(format!(
            "{error}\nstatement `{}`: {sql}{hint}",
            ctx.shared.script.classes[usize::from(class)]
        )))
    }

    /// Deadlock or lock wait: the transaction again, with the same parameters, or no more.
    fn lost_the_race(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        let again = self.progress.attempt < ctx.shared.spec.options.retries;
        if again {
            self.progress.attempt += 1;
            ctx.tally.retries += 1;
            let mark = self.progress.transaction_mark.clone();
            self.return_to(mark);
        } else {
            ctx.tally.failed += 1;
        }
        if self.plot(ctx).begin {
            // A lock wait time-out has undone the statement only: the rest has to go too.
            let step = if again {
                Step::RollbackAndRetry
            } else {
                Step::RollbackAndLeave
            };
            return self.text(ctx, "ROLLBACK", step, now);
        }
        if again {
            return self.attempt(ctx, now);
        }
        ctx.busy -= 1;
        self.leave(ctx, now)
    }

    /// The server has forgotten the statement: the same again, prepared anew.
    fn prepare_again(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        let command = self.command(ctx);
        let table = if command.names_table {
            self.progress.table
        } else {
            0
        };
        self.progress.reprepares += 1;
        self.prepared
            .forget(u64::from(command.number) << 32 | u64::from(table));
        let mark = self.progress.statement_mark.clone();
        self.return_to(mark);
        self.statement(ctx, now)
    }
}
