//! A partitioned query at work: takes a batch, runs it through the operators, delivers what came out.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::event::Batch;
use crate::operator::{Consumer, Cx, Failure, Flow, OpId, contained, panic_message};
use crate::source::BadRecord;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::time::Timestamp;

use super::engine::Shared;
use super::intake::{Intake, Progress, Pulled};
use super::pool::{Pool, Task, TaskRef};
use super::port::Room;
use super::query::{ChainView, Inflow, QueryCore};
use super::stats::{ChainStats, Counts};
use super::tickets::{Ticket, Tickets};
use super::token::{Queue, Token};

/// Events per batch.
pub const BATCH: usize = 1024;
/// Batches that an exclusive chain with nothing behind it takes before others get their turn.
const ROUNDS: usize = 8;
/// And how long it may take over them.
const ROUNDS_NANOS: u64 = 500_000;

/// What a chain that runs has.
const COMPLETE: &str = "a chain that is not being dropped has its intake and its operators";

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

/// A chain: intake, operators, and for an exclusive one their state.
pub(super) struct Chain<I: Intake, C: Consumer<I::Item>> {
    frame: Frame,
    token: Token,
    /// Taken out only when the chain is dropped, as the intake is.
    consumer: Option<Arc<C>>,
    /// Belongs to the holder of the token, and at the end to the last ticket. A holder lets go of it
    /// just after the token, so the next one waits for it a moment at most.
    work: Mutex<Work<I, C::State>>,
    /// Of a concurrent chain.
    tickets: Option<Box<Tickets<Remains<C::State>>>>,
    /// Open tickets of a concurrent chain, plus one for the chain itself until it is over.
    open: AtomicUsize,
    counts: Counts,
    this: Weak<Self>,
}

struct Work<I: Intake, S> {
    intake: Option<I>,
    /// What an exclusive chain takes at a time: kept from run to run while there is more.
    batch: Option<Box<Batch<I::Item>>>,
    /// The state of an exclusive chain.
    state: Option<(S, Cx)>,
    /// The earliest timer that is armed, if one is.
    armed: Option<Duration>,
    promised: Progress,
    position: u64,
    over: bool,
}

impl<I: Intake, S> Work<I, S> {
    fn intake(&mut self) -> &mut I {
        self.intake.as_mut().expect(COMPLETE)
    }
}

/// What a ticket leaves to be committed in order.
struct Remains<S> {
    cx: Cx,
    state: S,
    /// What its state has told, as it were: nothing, but how the stream went on before it.
    before: Progress,
    progress: Progress,
    /// How many events had been taken before it.
    position: u64,
}

/// Dropped by a panic that unwinds through it, it notes that the operators were at work.
struct AtWork<'a>(&'a Cell<bool>);

impl Drop for AtWork<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.set(true);
    }
}

impl<I: Intake, C: Consumer<I::Item>> Chain<I, C> {
    pub(super) fn new(frame: Frame, intake: I, consumer: Arc<C>) -> Arc<Self> {
        let state = frame.exclusive.then(|| {
            let mut cx = Cx::new(frame.ordered, frame.shard);
            if frame.by_clock {
                cx.by_clock(frame.engine.settings().clock.clone());
            }
            (consumer.state(), cx)
        });
        let tickets = (!frame.exclusive).then(Box::default);
        Arc::new_cyclic(|this| Self {
            frame,
            token: Token::default(),
            consumer: Some(consumer),
            work: Mutex::new(Work {
                intake: Some(intake),
                batch: None,
                state,
                armed: None,
                promised: Progress::NONE,
                position: 0,
                over: false,
            }),
            tickets,
            open: AtomicUsize::new(1),
            counts: Counts::default(),
            this: this.clone(),
        })
    }

    fn tickets(&self) -> &Tickets<Remains<C::State>> {
        self.tickets.as_ref().expect("a concurrent chain has tickets")
    }

    fn batch_size(&self) -> usize {
        self.frame.engine.settings().batch
    }

    fn consumer(&self) -> &C {
        self.consumer.as_ref().expect(COMPLETE)
    }

    fn task(&self) -> TaskRef {
        self.this.upgrade().expect("a chain that runs is referred to")
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
        let mut work = self.work.lock();
        let work = &mut *work;
        let started = self.frame.query.control.now_nanos();
        let mut batch = work.batch.take().map_or_else(Batch::default, |batch| *batch);
        for round in 1.. {
            if self.frame.query.control.cancelled() {
                return self.abandon(work);
            }
            if let Some(queue) = self.wait_for_room() {
                return self.queue_again(queue);
            }
            let more = match self.round(work, &mut batch) {
                Ok(more) => more,
                Err(failure) => {
                    self.fail(failure, work.position);
                    return self.abandon(work);
                }
            };
            if work.over {
                return self.finish(work);
            }
            let sole = self.frame.outlets.is_empty()
                && round < ROUNDS
                && self.frame.query.control.now_nanos() - started < ROUNDS_NANOS;
            if !(more && sole) {
                if more {
                    // A chain without input keeps no buffer.
                    work.batch = Some(Box::new(batch));
                }
                let more = more | self.rest(work);
                self.arm(work);
                return self.queue_again(self.token.release(more));
            }
        }
    }

    /// Takes a batch and runs it. Whether there is more, or why it cannot go on.
    fn round(
        &self,
        work: &mut Work<I, C::State>,
        batch: &mut Batch<I::Item>,
    ) -> Result<bool, Failure> {
        let Work { intake, state, promised, .. } = work;
        let intake = intake.as_mut().expect(COMPLETE);
        let (state, cx) = state.as_mut().expect("an exclusive chain has a state");
        let at_work = Cell::new(false);
        // The clock is read when the first event asks for it: after that was taken.
        cx.begin_batch();
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.pass_on_ending(intake);
            let standing = intake.standing();
            if standing > promised.watermark {
                promised.watermark = standing;
                self.consumer().watermark(state, cx, standing);
            }
            let mut pulled = self.run_fused(intake, batch, state, cx, &at_work);
            let closing = AtWork(&at_work);
            if !batch.is_empty() {
                self.run_batch(batch, state, cx);
            }
            let progress = intake.progress();
            cx.born = pulled.born;
            self.close_batch(state, cx, *promised, progress);
            if !pulled.notes.is_empty() {
                for note in pulled.notes.drain(..) {
                    self.consumer().note(state, cx, note);
                }
                self.consumer().flush(state, cx);
            }
            self.hand_over_rejects(&mut pulled, progress);
            // What comes for a chain that is over is dropped, and that is the user's.
            self.deliver(cx);
            std::mem::forget(closing);
            (pulled, progress)
        }));
        let (pulled, progress) = ran.map_err(|payload| self.blame(cx, at_work.get(), payload))?;
        work.position += pulled.taken;
        self.counts.pulled(&pulled, progress, intake.held(), intake.holding());
        self.account_operators(cx);
        work.promised = progress;
        if let Some(message) = pulled.failure {
            return Err(self.head_failure(message));
        }
        if let Some(failure) = cx.take_failure() {
            return Err(failure);
        }
        work.over = progress.flow.is_over();
        Ok(pulled.more)
    }

    /// Tells the intake if the query is to end.
    fn pass_on_ending(&self, intake: &mut I) {
        if let Some(flow) = self.frame.query.control.ending() {
            intake.ending(flow, self.frame.inflow.as_ref().map_or(0, |inflow| inflow.depth()));
        }
    }

    /// Tells the intake when this chain must run even if nothing comes. `true`: at once.
    fn rest(&self, work: &mut Work<I, C::State>) -> bool {
        let Work { intake, state, .. } = work;
        let intake = intake.as_mut().expect(COMPLETE);
        let (state, _) = state.as_ref().expect("an exclusive chain has a state");
        intake.rest(self.consumer().next_timer(state))
    }

    /// Takes a batch and runs it through the operators, in one loop as far as the intake can: the rest
    /// of the batch is still to be run. A function of its own, so that the loop has all registers to
    /// itself.
    #[inline(never)]
    fn run_fused(
        &self,
        intake: &mut I,
        batch: &mut Batch<I::Item>,
        state: &mut C::State,
        cx: &mut Cx,
        at_work: &Cell<bool>,
    ) -> Pulled {
        let consumer = self.consumer();
        if C::WHOLE_BATCHES {
            let pulled = intake.take(self.batch_size(), batch);
            let running = AtWork(at_work);
            consumer.batch(state, cx, batch);
            std::mem::forget(running);
            return pulled;
        }
        intake.pull(self.batch_size(), batch, &mut |event, late| {
            cx.late = late;
            let running = AtWork(at_work);
            consumer.event(state, cx, event);
            std::mem::forget(running);
        })
    }

    /// Runs every event of a batch through the operators.
    #[inline(never)]
    fn run_batch(&self, batch: &mut Batch<I::Item>, state: &mut C::State, cx: &mut Cx) {
        self.consumer().batch(state, cx, batch);
    }

    /// The end of a batch: the watermark, the end of the stream where it is that, and the flush.
    fn close_batch(&self, state: &mut C::State, cx: &mut Cx, before: Progress, now: Progress) {
        cx.late = false;
        cx.flow = now.flow;
        cx.turned = now.flow != before.flow;
        if now.flow != Flow::Halted && now.watermark > before.watermark {
            // Before the end too: whether the end came in a batch of its own must not show.
            self.consumer().watermark(state, cx, now.watermark);
        }
        if now.flow == Flow::Ended {
            self.consumer().end(state, cx);
        }
        self.consumer().flush(state, cx);
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
        let mut work = self.work.lock();
        if self.frame.query.control.cancelled() {
            return self.abandon(&mut work);
        }
        if let Some(queue) = self.wait_for_room() {
            return self.queue_again(queue);
        }
        let mut batch = Batch::default();
        let taken = {
            let intake = work.intake();
            catch_unwind(AssertUnwindSafe(|| {
                self.pass_on_ending(intake);
                let mut pulled = intake.take(self.batch_size(), &mut batch);
                let progress = intake.progress();
                self.hand_over_rejects(&mut pulled, progress);
                (pulled, progress)
            }))
        };
        let taken = match taken {
            Ok((Pulled { failure: Some(message), .. }, _)) => Err(self.head_failure(message)),
            Ok(taken) => Ok(taken),
            Err(payload) => Err(self.blame(&mut Cx::default(), false, payload)),
        };
        let (pulled, progress) = match taken {
            Ok(taken) => taken,
            Err(failure) => {
                self.fail(failure, work.position);
                self.warn(contained(|| drop(batch)));
                return self.abandon(&mut work);
            }
        };
        let (position, before) = (work.position, work.promised.flow);
        work.position += pulled.taken;
        let (held, holding) = (work.intake().held(), work.intake().holding());
        self.counts.pulled(&pulled, progress, held, holding);
        let news = !batch.is_empty() || progress != work.promised;
        work.promised = progress;
        work.over = progress.flow.is_over();
        self.arm(&mut work);
        if !news {
            drop(work);
            return self.queue_again(self.token.release(pulled.more));
        }
        // Relaxed: the token orders the takers; the count only has to reach 0 once.
        self.open.fetch_add(1, Ordering::Relaxed);
        let ticket = self.tickets().open();
        drop(work);
        self.queue_again(self.token.release(pulled.more));
        self.process(ticket, batch, pulled.born, (before, progress), position);
    }

    /// Runs a batch of a concurrent chain, outside the token, and retires its ticket.
    fn process(
        &self,
        ticket: Ticket,
        mut batch: Batch<I::Item>,
        born: u64,
        (before, progress): (Flow, Progress),
        position: u64,
    ) {
        let before = Progress { flow: before, ..Progress::NONE };
        let mut state = self.consumer().state();
        let mut cx = Cx::new(false, self.frame.shard);
        cx.born = born;
        let ran = catch_unwind(AssertUnwindSafe(|| {
            self.run_batch(&mut batch, &mut state, &mut cx);
            if self.frame.ticket_order {
                self.close_batch(&mut state, &mut cx, before, progress);
            } else {
                // Ahead of lower tickets these may tell nothing but themselves: that the stream is
                // idle would let the watermark downstream pass events that are still on their way.
                cx.flow = Flow::Active;
                self.consumer().flush(&mut state, &mut cx);
                self.deliver(&mut cx);
            }
        }));
        if let Err(payload) = ran {
            let failure = self.blame(&mut cx, true, payload);
            self.fail(failure, position);
            // Nothing of the batch gets out; what is let go of is the user's.
            self.warn(contained(|| cx.outbox.clear()));
            self.warn(contained(|| state = self.consumer().state()));
        }
        self.account_operators(&mut cx);
        let remains = Remains { cx, state, before, progress, position };
        self.tickets().retire(ticket, remains, |remains| self.commit(remains));
        self.close_ticket();
    }

    /// Lets out what a ticket left, in the order of tickets.
    fn commit(&self, mut remains: Remains<C::State>) {
        let Remains { progress, position, .. } = remains;
        let let_out = AssertUnwindSafe(|| self.let_out(&mut remains));
        if let Err(payload) = catch_unwind(let_out) {
            let failure = self.blame(&mut remains.cx, true, payload);
            self.fail(failure, position);
        }
        self.warn(contained(|| drop(remains)));
        if progress.flow.is_over() {
            let mut work = self.work.lock();
            self.warn(contained(|| work.intake().close()));
            drop(work);
            self.token.finish();
            self.close_ticket();
        }
    }

    fn let_out(&self, Remains { cx, state, before, progress, .. }: &mut Remains<C::State>) {
        if !self.frame.ticket_order {
            cx.counters = Default::default();
            self.close_batch(state, cx, *before, *progress);
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

    fn arm(&self, work: &mut Work<I, C::State>) {
        let by_clock = work.state.as_ref().and_then(|(_, cx)| cx.waking_at());
        let by_clock = by_clock.map(|due| self.frame.engine.monotonic_at(due));
        let due = work.intake().deadline().into_iter().chain(by_clock).min();
        if let Some(due) = due
            && work.armed.is_none_or(|armed| due < armed || armed <= self.frame.engine.monotonic())
        {
            work.armed = Some(due);
            let this: Weak<dyn Task> = self.this.clone();
            self.frame.engine.arm(due, this);
        }
    }

    /// The stream is over: lets go of everything.
    fn finish(&self, work: &mut Work<I, C::State>) {
        for message in self.let_go(work).into_iter().flatten() {
            let message = format!("panicked: {message}");
            let failure = Failure { operator: None, time: None, event: None, message };
            self.fail(failure, work.position);
        }
        self.token.finish();
        self.close_ticket();
    }

    /// The query is cancelled or failed: lets go of everything, whatever it was at.
    fn abandon(&self, work: &mut Work<I, C::State>) {
        self.let_go(work).into_iter().for_each(|message| self.warn(message));
        self.token.finish();
        self.close_ticket();
    }

    /// Drops what waits and what is kept. It is the user's, so that may panic: what each said then.
    fn let_go(&self, work: &mut Work<I, C::State>) -> [Option<String>; 3] {
        [
            contained(|| work.intake().close()),
            contained(|| work.batch = None),
            contained(|| work.state = None),
        ]
    }

    /// Tells of a panic that changes nothing any more.
    fn warn(&self, message: Option<String>) {
        if let Some(message) = message {
            tracing::warn!(query = %self.frame.query.id, "panicked when dropped: {message}");
        }
    }
}

impl<I: Intake, C: Consumer<I::Item>> Drop for Chain<I, C> {
    /// What an intake holds back and what operators have captured is the user's, and whoever refers
    /// to the chain last may be a worker.
    fn drop(&mut self) {
        let intake = self.work.lock().intake.take();
        self.warn(contained(|| drop(intake)));
        let consumer = self.consumer.take();
        self.warn(contained(|| drop(consumer)));
    }
}

impl<I: Intake, C: Consumer<I::Item>> Task for Chain<I, C> {
    fn token(&self) -> &Token {
        &self.token
    }

    fn pool(&self) -> &Arc<Pool> {
        self.frame.engine.pool()
    }

    fn run(self: Arc<Self>) {
        if self.frame.exclusive {
            self.run_exclusive();
        } else if self.work.lock().over {
            // Everything has been taken; the last ticket ends the chain. Unless it is cancelled,
            // which that ticket sees no more.
            self.queue_again(self.token.release(false));
        } else {
            self.run_concurrent();
        }
    }
}

impl<I: Intake, C: Consumer<I::Item>> ChainView for Chain<I, C> {
    fn stats(&self) -> ChainStats {
        self.counts.read(self.frame.inflow.as_ref().map_or(0, |inflow| inflow.depth()))
    }

    fn leave(&self) {
        if let Some(inflow) = &self.frame.inflow {
            inflow.leave();
        }
    }

    fn place(&self) -> (usize, u16) {
        (self.frame.piece, self.frame.shard)
    }
}
