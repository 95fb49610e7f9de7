//! A partitioned query at work: takes a batch, runs it through the operators, delivers what came out.

mod typed;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::operator::{Cx, Failure, Flow, Lasting, OpId, contained, panic_message};
use crate::plan::Reorder;
use crate::source::BadRecord;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::Timestamp;

use super::context::Node;
use super::engine::Shared;
use super::intake::{Progress, Pulled};
use super::pool::{Pool, Task, TaskRef};
use super::port::Room;
use super::query::{Inflow, QueryCore};
use super::stats::{ChainStats, Counts};
use super::tickets::{Ticket, Tickets};
use super::token::{Queue, Token};

use typed::{Load, Part, Taking, Unwound};
pub(super) use typed::{Typed, Work};

/// Events per batch.
pub const BATCH: usize = 1024;
/// Batches that an exclusive chain with nothing behind it takes before others get their turn.
const ROUNDS: usize = 8;
/// And how long it may take over them.
const ROUNDS_NANOS: u64 = 500_000;

/// What does not depend on a chain's types.
pub(super) struct Frame {
    pub engine: Arc<Shared>,
    pub query: Arc<QueryCore>,
    pub piece: usize,
    pub shard: u16,
    /// The operator that stands for the head, blamed for what the intake does.
    pub head: OpId,
    pub exclusive: bool,
    pub ordered: bool,
    pub ticket_order: bool,
    /// Whether its output goes to sinks, so that latency is known here.
    pub has_sink: bool,
    /// Whether an operator of it goes by processing time.
    pub by_clock: bool,
    /// Where its output goes: none may be full when a batch is taken.
    pub outlets: Box<[Arc<dyn Room>]>,
    /// Where records that a source could not read are handed to.
    pub rejects: Option<Box<dyn Fn(Vec<BadRecord>, Progress) + Send + Sync>>,
    /// Where its events wait, if they do.
    pub inflow: Option<Arc<dyn Inflow>>,
}

impl Frame {
    /// Whether the plan has put `reorder` at the entry of its piece.
    pub(super) fn reorders(&self, reorder: Reorder) -> bool {
        self.query.plan.pieces()[self.piece].reorder == reorder
    }
}

/// A chain. Its types are behind `Work`.
pub(super) struct Chain {
    frame: Frame,
    token: Token,
    /// Belongs to the holder of the token, and at the end to the last ticket. A holder lets go of it
    /// just after the token, so the next one waits for it a moment at most.
    held: Mutex<Held>,
    /// Of a concurrent chain.
    tickets: Option<Box<Tickets<Remains>>>,
    /// Open tickets of a concurrent chain, plus one for the chain itself until it is over.
    open: AtomicUsize,
    counts: Counts,
    this: Weak<Self>,
}

struct Held {
    work: Box<dyn Work>,
    /// What an exclusive chain's context leaves for the next run.
    kept: Lasting,
    /// The earliest timer that is armed, if one is.
    armed: Option<Duration>,
    promised: Progress,
    position: u64,
    over: bool,
}

/// What a ticket leaves to be committed in order.
struct Remains {
    cx: Cx,
    load: Load,
    /// What its state has told, as it were: nothing, but how the stream went on before it.
    before: Progress,
    progress: Progress,
    /// How many events had been taken before it.
    position: u64,
}

impl Chain {
    /// A chain that does `work`.
    pub(super) fn new(frame: Frame, work: Box<dyn Work>) -> Arc<Self> {
        let mut cx = Cx::default();
        if frame.by_clock {
            cx.by_clock(frame.engine.settings().clock.clone());
        }
        let (kept, promised) = (cx.kept(), Progress::NONE);
        let held = Held { work, kept, armed: None, promised, position: 0, over: false };
        let tickets = (!frame.exclusive).then(Box::default);
        Arc::new_cyclic(|this| Self {
            frame,
            token: Token::default(),
            held: Mutex::new(held),
            tickets,
            open: AtomicUsize::new(1),
            counts: Counts::default(),
            this: this.clone(),
        })
    }

    fn tickets(&self) -> &Tickets<Remains> {
        self.tickets.as_ref().expect("a concurrent chain has tickets")
    }

    fn task(&self) -> TaskRef {
        self.this.upgrade().expect("a chain that runs is referred to")
    }

    /// What is asked of the intake now.
    fn taking(&self, promised: Progress) -> Taking {
        let waiting = || self.frame.inflow.as_ref().map_or(0, |inflow| inflow.depth());
        let ending = self.frame.query.control.ending().map(|flow| (flow, waiting()));
        Taking { budget: self.frame.engine.settings().batch, ending, promised }
    }

    /// Looks for an outlet without room and waits there. `Some`: the token has been left.
    fn wait_for_room(&self) -> Option<Queue> {
        self.frame
            .outlets
            .iter()
            .find(|room| !room.has_room() && room.wait(&self.task()))
            .map(|_| self.token.wait())
    }

    fn run_exclusive(&self) {
        let held = &mut *self.held.lock();
        let mut cx = Cx::resumed(self.frame.ordered, self.frame.shard, &mut held.kept);
        let started = self.frame.query.control.now_nanos();
        for round in 1.. {
            if self.frame.query.control.cancelled() {
                return self.abandon(held, cx);
            }
            if let Some(queue) = self.wait_for_room() {
                held.kept = cx.kept();
                return self.queue_again(queue);
            }
            let more = match self.round(held, &mut cx) {
                Ok(more) => more,
                Err(failure) => {
                    self.fail(failure, held.position);
                    return self.abandon(held, cx);
                }
            };
            if held.over {
                return self.finish(held, cx);
            }
            let sole = self.frame.outlets.is_empty()
                && round < ROUNDS
                && self.frame.query.control.now_nanos() - started < ROUNDS_NANOS;
            if !(more && sole) {
                let more = more | held.work.rest();
                self.arm(held, cx.waking_at());
                held.kept = cx.kept();
                return self.queue_again(self.token.release(more));
            }
        }
    }

    /// Takes a batch and runs it. Whether there is more, or why it cannot go on.
    fn round(&self, held: &mut Held, cx: &mut Cx) -> Result<bool, Failure> {
        // The clock is read when the first event asks for it: after that was taken.
        cx.begin_batch();
        let ran = held.work.attempt_round(cx, self.taking(held.promised));
        let (mut pulled, progress) = ran.map_err(|unwound| self.unwound(cx, unwound))?;
        self.hand_over_rejects(&mut pulled, progress);
        // What comes for a chain that is over is dropped, and that is the user's.
        catch_unwind(AssertUnwindSafe(|| self.deliver(cx)))
            .map_err(|payload| self.blame(cx, true, payload))?;
        held.position += pulled.taken;
        self.pulled(&pulled, progress, held);
        self.account_operators(cx);
        held.promised = progress;
        if let Some(message) = pulled.failure {
            return Err(self.head_failure(message));
        }
        if let Some(failure) = cx.take_failure() {
            return Err(failure);
        }
        held.over = progress.flow.is_over();
        Ok(pulled.more)
    }

    /// Whose fault a panic is, which came while the operators were `at_work` or before.
    fn blame(&self, cx: &mut Cx, at_work: bool, payload: Box<dyn Any + Send>) -> Failure {
        let (operator, time) = match cx.take_blame() {
            // A sink is closed at the time of no event.
            Some((operator, Timestamp::MIN | Timestamp::MAX)) => (Some(operator), None),
            Some((operator, time)) => (Some(operator), Some(time)),
            // No function of theirs: what else is the user's there is an event's `Drop`.
            None if at_work => (None, None),
            // It was the source, or a time stamp function.
            None => (Some(self.frame.head), None),
        };
        let message = format!("panicked: {}", panic_message(payload));
        Failure { operator, time, event: cx.take_shown(), message }
    }

    /// The failure that `unwound` is.
    fn unwound(&self, cx: &mut Cx, Unwound { payload, at_work, dropped }: Unwound) -> Failure {
        self.warn(dropped);
        self.blame(cx, at_work, payload)
    }

    /// What the intake reports is the head's failure.
    fn head_failure(&self, message: String) -> Failure {
        Failure { operator: Some(self.frame.head), time: None, event: None, message }
    }

    fn fail(&self, failure: Failure, position: u64) {
        self.frame.query.fail(failure, self.frame.head, position);
    }

    fn hand_over_rejects(&self, pulled: &mut Pulled, progress: Progress) {
        if let Some(rejects) = &self.frame.rejects
            && (!pulled.rejects.is_empty() || progress.flow.is_over())
        {
            let records = std::mem::take(&mut pulled.rejects);
            self.counts.rejected(records.len() as u64);
            rejects(records, progress);
        }
    }

    fn deliver(&self, cx: &mut Cx) {
        cx.outbox.drain(..).for_each(|parcel| parcel.deliver());
    }

    /// Accounts for a look at the intake.
    fn pulled(&self, pulled: &Pulled, progress: Progress, held: &Held) {
        let (events, holding) = held.work.held();
        self.counts.pulled(pulled, progress, events, holding);
        self.frame.engine.record_taken(pulled.taken);
    }

    fn account_operators(&self, cx: &mut Cx) {
        let counters = std::mem::take(&mut cx.counters);
        if self.frame.has_sink && counters.out > 0 && cx.born > 0 {
            let nanos = self.frame.query.control.now_nanos().saturating_sub(cx.born);
            self.counts.latency(counters.out, nanos);
            self.frame.engine.record_latency(nanos, counters.out);
        }
        self.counts.operators(counters);
    }

    fn run_concurrent(&self) {
        let mut held = self.held.lock();
        if self.frame.query.control.cancelled() {
            return self.abandon(&mut held, Cx::default());
        }
        if let Some(queue) = self.wait_for_room() {
            return self.queue_again(queue);
        }
        let taking = self.taking(held.promised);
        let (pulled, progress, load) = match held.work.attempt_take(taking) {
            Ok((Pulled { failure: Some(message), .. }, _, load)) => {
                self.warn(contained(|| drop(load)));
                self.fail(self.head_failure(message), held.position);
                return self.abandon(&mut held, Cx::default());
            }
            Ok((mut pulled, progress, load)) => {
                self.hand_over_rejects(&mut pulled, progress);
                (pulled, progress, load)
            }
            Err(unwound) => {
                let failure = self.unwound(&mut Cx::default(), unwound);
                self.fail(failure, held.position);
                return self.abandon(&mut held, Cx::default());
            }
        };
        let (position, before) = (held.position, held.promised.flow);
        held.position += pulled.taken;
        self.pulled(&pulled, progress, &held);
        held.promised = progress;
        held.over = progress.flow.is_over();
        self.arm(&mut held, None);
        let Some(load) = load else {
            drop(held);
            return self.queue_again(self.token.release(pulled.more));
        };
        // Relaxed: the token orders the takers; the count only has to reach 0 once.
        self.open.fetch_add(1, Ordering::Relaxed);
        let ticket = self.tickets().open();
        drop(held);
        self.queue_again(self.token.release(pulled.more));
        let mut cx = Cx::new(false, self.frame.shard);
        cx.born = pulled.born;
        let before = Progress { flow: before, ..Progress::NONE };
        self.process(ticket, Remains { cx, load, before, progress, position });
    }

    /// Runs a batch of a concurrent chain, outside the token, and retires its ticket.
    fn process(&self, ticket: Ticket, mut remains: Remains) {
        let Remains { cx, load, before, progress, position } = &mut remains;
        let ran = catch_unwind(AssertUnwindSafe(|| {
            load.run(cx);
            if self.frame.ticket_order {
                load.end(cx, *before, *progress);
            } else {
                // Ahead of lower tickets these may tell nothing but themselves: that the stream is
                // idle would let the watermark downstream pass events that are still on their way.
                cx.flow = Flow::Active;
                load.flush(cx);
                self.deliver(cx);
            }
        }));
        if let Err(payload) = ran {
            let failure = self.blame(cx, true, payload);
            self.fail(failure, *position);
            // Nothing of the batch gets out; what is let go of is the user's.
            self.warn(contained(|| cx.outbox.clear()));
            for part in [Part::Batch, Part::State] {
                self.warn(contained(|| load.let_go(part)));
            }
        }
        self.account_operators(cx);
        self.tickets().retire(ticket, remains, |remains| self.commit(remains));
        self.close_ticket();
    }

    /// Lets out what a ticket left, in the order of tickets.
    fn commit(&self, mut remains: Remains) {
        let Remains { progress, position, .. } = remains;
        let let_out = AssertUnwindSafe(|| self.let_out(&mut remains));
        if let Err(payload) = catch_unwind(let_out) {
            let failure = self.blame(&mut remains.cx, true, payload);
            self.fail(failure, position);
        }
        self.warn(contained(|| drop(remains)));
        if progress.flow.is_over() {
            let message = contained(|| self.held.lock().work.close());
            self.warn(message);
            self.token.finish();
            self.close_ticket();
        }
    }

    fn let_out(&self, Remains { cx, load, before, progress, .. }: &mut Remains) {
        if !self.frame.ticket_order {
            cx.counters = Default::default();
            load.end(cx, *before, *progress);
        }
        self.deliver(cx);
    }

    /// One ticket less, or the chain itself: the last one ends the chain.
    fn close_ticket(&self) {
        // AcqRel: what every ticket did is seen by the one that reports the chain over.
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.frame.query.chain_over();
        }
    }

    fn queue_again(&self, queue: Queue) {
        if queue == Queue::Now {
            Pool::offer(self.task());
        }
    }

    /// Has the chain run when its intake asks for it, or an operator at `by_clock`.
    fn arm(&self, held: &mut Held, by_clock: Option<Timestamp>) {
        let by_clock = by_clock.map(|due| self.frame.engine.monotonic_at(due));
        let due = held.work.deadline().into_iter().chain(by_clock).min();
        if let Some(due) = due
            && held.armed.is_none_or(|armed| due < armed || armed <= self.frame.engine.monotonic())
        {
            held.armed = Some(due);
            let this: Weak<dyn Task> = self.this.clone();
            self.frame.engine.arm(due, this);
        }
    }

    /// The stream is over: lets go of everything.
    fn finish(&self, held: &mut Held, cx: Cx) {
        for message in self.let_go(held, cx).into_iter().flatten() {
            let message = format!("panicked: {message}");
            let failure = Failure { operator: None, time: None, event: None, message };
            self.fail(failure, held.position);
        }
        self.token.finish();
        self.close_ticket();
    }

    /// The query is cancelled or failed: lets go of everything, whatever it was at.
    fn abandon(&self, held: &mut Held, cx: Cx) {
        self.let_go(held, cx).into_iter().for_each(|message| self.warn(message));
        self.token.finish();
        self.close_ticket();
    }

    /// Drops what waits and what is kept. It is the user's, so that may panic: what each said then.
    fn let_go(&self, held: &mut Held, cx: Cx) -> [Option<String>; 4] {
        let closed = contained(|| held.work.close());
        let [batch, state] = [Part::Batch, Part::State].map(|part| held.work.drop_part(part));
        [closed, batch, state, contained(|| drop(cx))]
    }

    /// Tells of a panic that changes nothing any more.
    fn warn(&self, message: Option<String>) {
        if let Some(message) = message {
            tracing::warn!(query = %self.frame.query.id, "panicked when dropped: {message}");
        }
    }
}

impl Drop for Chain {
    /// What is dropped is the user's, and whoever refers to the chain last may be a worker.
    fn drop(&mut self) {
        let mut held = self.held.lock();
        let parts = [Part::Intake, Part::Operators].map(|part| held.work.drop_part(part));
        let kept = std::mem::take(&mut held.kept);
        drop(held);
        let kept = contained(|| drop(kept));
        parts.into_iter().chain([kept]).for_each(|message| self.warn(message));
    }
}

impl Task for Chain {
    fn token(&self) -> &Token {
        &self.token
    }

    fn pool(&self) -> &Arc<Pool> {
        self.frame.engine.pool()
    }

    fn query(&self) -> Option<Node> {
        self.frame.query.node()
    }

    fn run(self: Arc<Self>) {
        if self.frame.exclusive {
            self.run_exclusive();
        } else if self.held.lock().over {
            // Everything has been taken; the last ticket ends the chain. Unless it is cancelled,
            // which that ticket sees no more.
            self.queue_again(self.token.release(false));
        } else {
            self.run_concurrent();
        }
    }
}

/// As its query sees it.
impl Chain {
    pub(super) fn stats(&self) -> ChainStats {
        self.counts.read(self.frame.inflow.as_ref().map_or(0, |inflow| inflow.depth()))
    }

    /// The query is cancelled: gives up what it holds of others, even while it runs.
    pub(super) fn leave(&self) {
        if let Some(inflow) = &self.frame.inflow {
            inflow.leave();
        }
    }

    /// Which piece of the plan it runs, and as which shard.
    pub(super) fn place(&self) -> (usize, u16) {
        (self.frame.piece, self.frame.shard)
    }
}
