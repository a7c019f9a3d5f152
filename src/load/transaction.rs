//! What a client does with its connection: transactions, statement by statement.

use std::sync::atomic::Ordering;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::arrivals::Arrival;
use super::client::{Cause, Client, State, Trouble, is_lost, stream};
use super::context::{Context, Stage};
use super::script::{Command, Plot, Scene, Source};
use super::values::{template, write_template};
use super::wire::{Answer, Execute, ServerError, WireError, close, prepare, query};

/// The transaction lost and may be tried again: record changed (`MariaDB`), lock wait time-out, deadlock.
const RETRY: [u16; 3] = [1020, 1205, 1213];
/// The server no longer knows the prepared statement, or failed to prepare it again.
const UNPREPARED: [u16; 2] = [1243, 1615];
/// Someone's KILL QUERY, or the server's own limit on a statement's time (`MariaDB` `max_statement_time`,
/// `MySQL` `max_execution_time`): this statement was ended, the connection lives, and the next one may well
/// succeed. The transaction has failed; it is not tried again, since whoever ended it meant it. The cell goes
/// on: unlike a missing table, nothing says that others will fail too, and `max_errors` guards against that.
const INTERRUPTED: [u16; 3] = [1317, 1969, 3024];
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

/// Where a client goes on from.
#[derive(Debug, Clone, Copy)]
enum Point {
    /// It is connected and has no work.
    Next,
    /// It has a transaction to try, from the first command on.
    Attempt,
    /// It enters this group of the transaction, or ends it.
    Group(usize),
    /// It enters the body of the group, once more.
    Body,
    /// It sends the statement.
    Statement,
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
    /// The statement in [`Script::commands`](super::script::Script).
    command: usize,
    pub(super) table: u32,
    pub(super) binds: Vec<Bound>,
    pub(super) texts: Vec<u8>,
    /// When it became due.
    due: u64,
    /// When a client took it up.
    begun: u64,
    /// When the command under way was sent.
    sent: u64,
    /// The class of the command under way.
    class: u16,
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
        self.start(ctx, arrival, now);
        self.proceed(ctx, Point::Attempt, now)
    }

    #[inline]
    fn start(&mut self, ctx: &mut Context<'_>, arrival: Option<Arrival>, now: u64) {
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
    }

    /// From `point` on until something is sent or there is nothing to do. A loop, and not functions that
    /// call each other in a circle: this is what a query costs the client.
    fn proceed(
        &mut self,
        ctx: &mut Context<'_>,
        mut point: Point,
        now: u64,
    ) -> Result<(), Trouble> {
        loop {
            point = match point {
                Point::Next => match self.seek(ctx, now) {
                    Some(point) => point,
                    None => return Ok(()),
                },
                Point::Attempt => {
                    self.choose_plot(ctx);
                    if self.plot(ctx).begin {
                        return self.text(ctx, "BEGIN", Step::Begin, now);
                    }
                    Point::Group(0)
                }
                Point::Group(group) => {
                    let plot = self.plot(ctx);
                    if group < plot.groups.len() {
                        self.enter_group(ctx, group);
                        Point::Body
                    } else if plot.begin {
                        return self.text(ctx, "COMMIT", Step::Commit, now);
                    } else {
                        self.finish(ctx, now);
                        Point::Next
                    }
                }
                Point::Body => {
                    self.enter_body(ctx);
                    Point::Statement
                }
                Point::Statement => return self.statement(ctx, now),
            }
        }
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

    fn choose_plot(&mut self, ctx: &Context<'_>) {
        let script = &ctx.shared.script;
        self.progress.plot = 0;
        if script.plots.len() > 1 {
            let mut ticket = self.rng.random_range(0..script.weights);
            for (index, plot) in script.plots.iter().enumerate() {
                self.progress.plot = index;
                match ticket.checked_sub(plot.weight) {
                    Some(rest) => ticket = rest,
                    None => break,
                }
            }
        }
    }

    fn plot<'a>(&self, ctx: &Context<'a>) -> &'a Plot {
        &ctx.shared.script.plots[self.progress.plot]
    }

    fn scene<'a>(&self, ctx: &Context<'a>) -> &'a Scene {
        &self.plot(ctx).groups[self.progress.group]
    }

    fn command<'a>(&self, ctx: &Context<'a>) -> &'a Command {
        &ctx.shared.script.commands[self.progress.command]
    }

    /// The class of the command under way.
    pub(super) fn class(&self) -> u16 {
        self.progress.class
    }

    fn enter_group(&mut self, ctx: &Context<'_>, group: usize) {
        let tables = ctx.shared.tables;
        self.progress.group = group;
        self.progress.repetition = 0;
        self.progress.table = if ctx.shared.script.own_table {
            self.index % tables + 1
        } else if tables == 1 {
            1
        } else {
            self.rng.random_range(1..=tables)
        };
    }

    fn enter_body(&mut self, ctx: &Context<'_>) {
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
    }

    /// Sends the statement, or has it prepared first.
    fn statement(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        let shared = ctx.shared;
        self.progress.command = usize::from(self.scene(ctx).commands[self.progress.statement]);
        let command = self.command(ctx);
        self.progress.class = command.class;
        ctx.out.clear();
        let step = if command.text {
            query(&mut ctx.out, |out| self.write_sql(shared, command, out));
            Step::Statement
        } else {
            let table = self.progress.table;
            if let Some((id, bind)) = self.prepared.use_it(command.key(table, shared.tables)) {
                self.progress.statement_mark = Some(self.mark());
                let execute = Execute::start(&mut ctx.out, &command.executable, id, bind);
                self.write_values(shared, command, &mut ctx.out);
                execute.finish(&mut ctx.out);
                Step::Statement
            } else {
                if let Some(old) = self.prepared.evict() {
                    close(&mut ctx.out, old);
                }
                prepare(&mut ctx.out, |out| write_template(command, table, out));
                Step::Prepare
            }
        };
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
        let ids = ctx.shared.script.ids;
        self.progress.class = match step {
            Step::Begin => ids.begin,
            Step::Commit => ids.commit,
            _ => ids.rollback,
        };
        ctx.out.clear();
        query(&mut ctx.out, |out| out.extend_from_slice(sql.as_bytes()));
        self.send(ctx, step, now)
    }

    #[inline]
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
            Answer::Refused(error) => self.refused(ctx, *error, now),
            Answer::Prepared { id, parameters } => {
                let command = self.command(ctx);
                let table = self.progress.table;
                if usize::from(parameters) != command.values.len() {
                    return Err(Trouble::Fatal(format!(
                        "the server counts {parameters} parameters, the workload {}: {}",
                        command.values.len(),
                        template(command, table)
                    )));
                }
                let key = command.key(table, ctx.shared.tables);
                self.prepared.insert(key, id);
                self.proceed(ctx, Point::Statement, now)
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
                let class = self.class();
                ctx.statement(class, now.saturating_sub(self.progress.sent));
                self.advance(ctx, now)
            }
        }
    }

    /// The command under way has succeeded.
    fn advance(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        match self.progress.step {
            Step::Begin => self.proceed(ctx, Point::Group(0), now),
            Step::Prepare | Step::Statement => {
                self.progress.reprepares = 0;
                let scene = self.scene(ctx);
                self.progress.statement += 1;
                let point = if self.progress.statement < scene.commands.len() {
                    Point::Statement
                } else {
                    self.progress.repetition += 1;
                    if self.progress.repetition < scene.repeat {
                        Point::Body
                    } else {
                        Point::Group(self.progress.group + 1)
                    }
                };
                self.proceed(ctx, point, now)
            }
            Step::Commit => {
                self.finish(ctx, now);
                self.proceed(ctx, Point::Next, now)
            }
            Step::RollbackAndRetry if ctx.stage == Stage::Over => {
                self.fail_transaction(ctx);
                self.retire(ctx, now);
                Ok(())
            }
            Step::RollbackAndRetry => self.proceed(ctx, Point::Attempt, now),
            Step::RollbackAndLeave => {
                ctx.busy -= 1;
                self.leave(now);
                self.proceed(ctx, Point::Next, now)
            }
        }
    }

    /// The transaction ended well.
    #[inline]
    fn finish(&mut self, ctx: &mut Context<'_>, now: u64) {
        ctx.busy -= 1;
        let mut counts = ctx.stage == Stage::Running;
        let mut finished = false;
        if counts
            && ctx.measuring
            && let Some(limit) = ctx.shared.spec.events
        {
            let ticket = ctx.shared.events.fetch_add(1, Ordering::Relaxed) + 1;
            if ticket == limit {
                ctx.shared.end_at(now);
            }
            counts = ticket <= limit;
            finished = ticket >= limit;
        }
        if counts {
            ctx.tally.done += 1;
            // What waited through the end of the discard has waited in the measured time only since then.
            let due = if ctx.measuring && ctx.open() {
                self.progress.due.max(ctx.measure_from)
            } else {
                self.progress.due
            };
            ctx.tally.latency.record(now.saturating_sub(due));
            if ctx.open() {
                let service = now.saturating_sub(self.progress.begun);
                ctx.tally.service.record(service);
            }
            if ctx.measuring {
                self.done += 1;
            }
        } else {
            ctx.drained += 1;
        }
        if finished {
            // This one still counts; whatever comes next comes after the end.
            ctx.roll(now);
        }
        self.leave(now);
    }

    /// The transaction is over, one way or the other.
    fn leave(&mut self, now: u64) {
        self.enter(State::Ready);
        self.idle_since = now;
    }

    /// What a connected client without work does.
    pub(super) fn next(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        self.proceed(ctx, Point::Next, now)
    }

    /// Looks for work; `None`: there is none now.
    #[inline]
    fn seek(&mut self, ctx: &mut Context<'_>, now: u64) -> Option<Point> {
        if ctx.stage == Stage::Over {
            self.retire(ctx, now);
            return None;
        }
        if ctx.open() {
            let Some(arrival) = ctx.take_arrival(now) else {
                ctx.wait_for_arrival(self.slot);
                return None;
            };
            self.waited(ctx, arrival, now);
            self.start(ctx, Some(arrival), now);
            return Some(Point::Attempt);
        }
        let think = ctx.shared.script.think;
        if think > 0 {
            self.enter(State::Thinking);
            self.wake_at(ctx, now + think);
            return None;
        }
        self.start(ctx, None, now);
        Some(Point::Attempt)
    }

    /// Waiting for a client is the backlog's, what remains is ours.
    fn waited(&self, ctx: &mut Context<'_>, arrival: Arrival, now: u64) {
        ctx.late(now.saturating_sub(arrival.due.max(self.idle_since)));
    }

    /// Starts a transaction that has arrived.
    pub(super) fn take_up(
        &mut self,
        ctx: &mut Context<'_>,
        arrival: Arrival,
        now: u64,
    ) -> Result<(), Trouble> {
        self.waited(ctx, arrival, now);
        self.begin(ctx, Some(arrival), now)
    }

    /// The transaction under way is lost.
    pub(super) fn fail_transaction(&mut self, ctx: &mut Context<'_>) {
        // Saturating: after a fault of the worker it may have been counted out already.
        ctx.busy = ctx.busy.saturating_sub(1);
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
        let rolling_back = matches!(
            self.progress.step,
            Step::RollbackAndRetry | Step::RollbackAndLeave
        );
        // Nobody knows what a ROLLBACK that was interrupted has left: a new connection starts clean.
        if is_lost(code) || rolling_back && INTERRUPTED.contains(&code) {
            return Err(Trouble::Lost {
                code,
                error: Cause::Wire(WireError::Server(error)),
            });
        }
        let class = self.class();
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
        if RETRY.contains(&code) && !rolling_back {
            let again = self.progress.attempt < ctx.shared.spec.options.retries;
            return self.undo(ctx, again, now);
        }
        if INTERRUPTED.contains(&code) {
            return self.undo(ctx, false, now);
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

    /// A statement has failed: undoes the transaction, and starts it again with the same parameters or
    /// counts it as failed.
    fn undo(&mut self, ctx: &mut Context<'_>, again: bool, now: u64) -> Result<(), Trouble> {
        if again {
            self.progress.attempt += 1;
            ctx.tally.retries += 1;
            let mark = self.progress.transaction_mark.clone();
            self.return_to(mark);
        } else {
            ctx.tally.failed += 1;
        }
        if self.plot(ctx).begin {
            // A lock wait time-out or a KILL QUERY has undone the statement only: the rest has to go too.
            let step = if again {
                Step::RollbackAndRetry
            } else {
                Step::RollbackAndLeave
            };
            return self.text(ctx, "ROLLBACK", step, now);
        }
        if again {
            return self.proceed(ctx, Point::Attempt, now);
        }
        ctx.busy -= 1;
        self.leave(now);
        self.proceed(ctx, Point::Next, now)
    }

    /// The server has forgotten the statement: the same again, prepared anew.
    fn prepare_again(&mut self, ctx: &mut Context<'_>, now: u64) -> Result<(), Trouble> {
        let key = self
            .command(ctx)
            .key(self.progress.table, ctx.shared.tables);
        self.progress.reprepares += 1;
        self.prepared.forget(key);
        let mark = self.progress.statement_mark.clone();
        self.return_to(mark);
        self.proceed(ctx, Point::Statement, now)
    }
}
