//! What of a chain depends on its types: it is compiled anew for each, so there is as little of it as
//! speed allows. One virtual call per batch leads here.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::event::Batch;
use crate::operator::{Consumer, Cx, Flow, contained};
use crate::runtime::intake::{Intake, Progress, Pulled};

/// What a chain that runs has.
const COMPLETE: &str = "a chain that is not being dropped has its intake and its operators";

/// A panic that came out of the user's code or an intake.
pub struct Unwound {
    pub payload: Box<dyn Any + Send>,
    /// Whether it came while the operators were at work.
    pub at_work: bool,
    /// What the rest of the batch said when it was dropped, if that panicked too.
    pub dropped: Option<String>,
}

/// What a chain asks of its intake.
#[derive(Clone, Copy)]
pub struct Taking {
    /// About so many events.
    pub budget: usize,
    /// If the query has been told to end: how, and how many events wait.
    pub ending: Option<(Flow, usize)>,
    /// What the chain has promised so far.
    pub promised: Progress,
}

/// Something of the user's that a chain lets go of.
#[derive(Clone, Copy)]
pub enum Part {
    /// The rest of a batch.
    Batch,
    /// The operators' state.
    State,
    /// What the intake holds back.
    Intake,
    /// What operators have captured.
    Operators,
}

/// The intake, the operators and, in an exclusive chain, their state. Belongs to the holder of the token.
///
/// What panics in here is caught outside, where that is compiled once.
pub trait Work: Send {
    /// Takes a batch and runs it, in an exclusive chain. Should it unwind, `at_work` tells whether the
    /// operators were at work, and the rest of the batch is yet to be let go of.
    fn round(&mut self, cx: &mut Cx, taking: Taking, at_work: &Cell<bool>) -> (Pulled, Progress);

    /// Takes a batch, in a concurrent chain; without one if nothing has come and nothing is promised.
    /// Should it unwind, the batch is yet to be let go of.
    fn take(&mut self, taking: Taking) -> (Pulled, Progress, Option<Load>);

    /// An exclusive chain is about to let go of the token. `true`: it must look again at once.
    fn rest(&mut self) -> bool;

    /// When the intake must be looked at even if nothing comes.
    fn deadline(&self) -> Option<Duration>;

    /// How many events the intake holds back, and the input that holds the watermark back.
    fn held(&self) -> (usize, Option<usize>);

    /// Nothing more is wanted of the intake.
    fn close(&mut self);

    /// Drops `part`.
    fn let_go(&mut self, part: Part);
}

impl dyn Work {
    /// As [`round`](Work::round), with a panic caught.
    pub fn attempt_round(
        &mut self,
        cx: &mut Cx,
        taking: Taking,
    ) -> Result<(Pulled, Progress), Unwound> {
        let at_work = Cell::new(false);
        let ran = catch_unwind(AssertUnwindSafe(|| self.round(cx, taking, &at_work)));
        ran.map_err(|payload| self.unwound(payload, at_work.get()))
    }

    /// As [`take`](Work::take), with a panic caught.
    pub fn attempt_take(
        &mut self,
        taking: Taking,
    ) -> Result<(Pulled, Progress, Option<Load>), Unwound> {
        let taken = catch_unwind(AssertUnwindSafe(|| self.take(taking)));
        taken.map_err(|payload| self.unwound(payload, false))
    }

    fn unwound(&mut self, payload: Box<dyn Any + Send>, at_work: bool) -> Unwound {
        Unwound { payload, at_work, dropped: self.drop_part(Part::Batch) }
    }

    /// As [`let_go`](Work::let_go): what the user's code said if it panicked.
    pub fn drop_part(&mut self, part: Part) -> Option<String> {
        contained(|| self.let_go(part))
    }
}

/// A batch of a concurrent chain on its way, with a state of its own.
pub trait Job: Send {
    /// Runs the events through the operators.
    fn run(&mut self, cx: &mut Cx);

    /// What is buffered for other chains or outside goes to [`Cx::outbox`].
    fn flush(&mut self, cx: &mut Cx);

    /// The end of the batch, as [`end_batch`].
    fn end(&mut self, cx: &mut Cx, before: Progress, now: Progress);

    /// A panic has unwound: drops what is left of the batch, or the state, to begin with a new one.
    fn let_go(&mut self, part: Part);
}

/// A batch on its way.
pub type Load = Box<dyn Job>;

/// Dropped by a panic that unwinds through it, it notes that the operators were at work.
struct AtWork<'a>(&'a Cell<bool>);

impl Drop for AtWork<'_> {
    #[cold]
    fn drop(&mut self) {
        self.0.set(true);
    }
}

/// The typed part of a chain.
pub struct Typed<I: Intake, C: Consumer<I::Item>> {
    /// Taken out only when the chain is dropped, as the operators are.
    intake: Option<I>,
    consumer: Option<Arc<C>>,
    /// What is being taken: its room is kept from run to run while there is more.
    batch: Batch<I::Item>,
    /// Of an exclusive chain.
    state: Option<C::State>,
}

impl<I: Intake, C: Consumer<I::Item>> Typed<I, C> {
    pub fn new(intake: I, consumer: Arc<C>, exclusive: bool) -> Self {
        assert!(exclusive || !C::REMEMBERS, "what remembers something is run by one at a time");
        let state = exclusive.then(|| consumer.state());
        Self { intake: Some(intake), consumer: Some(consumer), batch: Batch::default(), state }
    }

    fn intake(&self) -> &I {
        self.intake.as_ref().expect(COMPLETE)
    }

    /// Takes a batch and runs it through the operators, in one loop as far as the intake can: the rest
    /// of the batch is still to be run. A function of its own, so that the loop has all registers to
    /// itself.
    #[inline(never)]
    fn run_fused(
        (intake, consumer): (&mut I, &C),
        budget: usize,
        batch: &mut Batch<I::Item>,
        (state, cx): (&mut C::State, &mut Cx),
        at_work: &Cell<bool>,
    ) -> Pulled {
        if C::WHOLE_BATCHES {
            let pulled = intake.take(budget, batch);
            let running = AtWork(at_work);
            consumer.batch(state, cx, batch);
            std::mem::forget(running);
            return pulled;
        }
        intake.pull(budget, batch, &mut |event, late| {
            cx.late = late;
            let running = AtWork(at_work);
            consumer.event(state, cx, event);
            std::mem::forget(running);
        })
    }
}

/// Runs every event of a batch through the operators.
#[inline(never)]
fn run_batch<T, C>(consumer: &C, state: &mut C::State, cx: &mut Cx, batch: &mut Batch<T>)
where
    C: Consumer<T>,
{
    consumer.batch(state, cx, batch);
}

/// The end of a batch: the watermark, the end of the stream where it is that, and the flush.
fn end_batch<T, C>(
    consumer: &C,
    state: &mut C::State,
    cx: &mut Cx,
    (before, now): (Progress, Progress),
) where
    C: Consumer<T>,
{
    cx.late = false;
    cx.flow = now.flow;
    cx.turned = now.flow != before.flow;
    if now.flow != Flow::Halted && now.watermark > before.watermark {
        // Before the end too: whether the end came in a batch of its own must not show.
        consumer.watermark(state, cx, now.watermark);
    }
    if now.flow == Flow::Ended {
        consumer.end(state, cx);
    }
    consumer.flush(state, cx);
}

/// Tells the intake if the query is to end.
fn pass_on_ending(intake: &mut impl Intake, taking: Taking) {
    if let Some((flow, waiting)) = taking.ending {
        intake.ending(flow, waiting);
    }
}

impl<I: Intake, C: Consumer<I::Item>> Work for Typed<I, C> {
    fn round(&mut self, cx: &mut Cx, taking: Taking, at_work: &Cell<bool>) -> (Pulled, Progress) {
        let Self { intake, consumer, batch, state } = self;
        let intake = intake.as_mut().expect(COMPLETE);
        let consumer = consumer.as_deref().expect(COMPLETE);
        let state = state.as_mut().expect("an exclusive chain has a state");
        pass_on_ending(intake, taking);
        let mut before = taking.promised;
        let standing = intake.standing();
        if standing > before.watermark {
            before.watermark = standing;
            consumer.watermark(state, cx, standing);
        }
        let both = (&mut *intake, consumer);
        let mut pulled =
            Self::run_fused(both, taking.budget, batch, (&mut *state, &mut *cx), at_work);
        let ending = AtWork(at_work);
        if !batch.is_empty() {
            run_batch(consumer, state, cx, batch);
        }
        let progress = intake.progress();
        cx.born = pulled.born;
        end_batch(consumer, state, cx, (before, progress));
        if !pulled.notes.is_empty() {
            for note in pulled.notes.drain(..) {
                consumer.note(state, cx, note);
            }
            consumer.flush(state, cx);
        }
        if !pulled.more {
            // Without input no buffer is kept.
            *batch = Batch::default();
        }
        std::mem::forget(ending);
        (pulled, progress)
    }

    fn take(&mut self, taking: Taking) -> (Pulled, Progress, Option<Load>) {
        if const { C::REMEMBERS } {
            unreachable!("a chain that remembers something is exclusive");
        }
        let intake = self.intake.as_mut().expect(COMPLETE);
        pass_on_ending(intake, taking);
        let pulled = intake.take(taking.budget, &mut self.batch);
        let progress = intake.progress();
        if self.batch.is_empty() && progress == taking.promised {
            return (pulled, progress, None);
        }
        let batch = std::mem::take(&mut self.batch);
        let consumer = self.consumer.clone().expect(COMPLETE);
        (pulled, progress, Some(Box::new(Ticketed { batch, state: None, consumer })))
    }

    fn rest(&mut self) -> bool {
        let consumer = self.consumer.as_deref().expect(COMPLETE);
        let state = self.state.as_ref().expect("an exclusive chain has a state");
        let next_timer = consumer.next_timer(state);
        self.intake.as_mut().expect(COMPLETE).rest(next_timer)
    }

    fn deadline(&self) -> Option<Duration> {
        self.intake().deadline()
    }

    fn held(&self) -> (usize, Option<usize>) {
        (self.intake().held(), self.intake().holding())
    }

    fn close(&mut self) {
        self.intake.as_mut().expect(COMPLETE).close();
    }

    fn let_go(&mut self, part: Part) {
        match part {
            Part::Batch => self.batch = Batch::default(),
            Part::State => self.state = None,
            Part::Intake => self.intake = None,
            Part::Operators => self.consumer = None,
        }
    }
}

/// A batch of a concurrent chain.
struct Ticketed<T, C: Consumer<T>> {
    batch: Batch<T>,
    /// Once it has run.
    state: Option<C::State>,
    consumer: Arc<C>,
}

impl<T, C: Consumer<T>> Ticketed<T, C> {
    fn parts(&mut self) -> (&C, &mut C::State, &mut Batch<T>) {
        let Self { batch, state, consumer } = self;
        (consumer, state.get_or_insert_with(|| consumer.state()), batch)
    }
}

impl<T: Send + 'static, C: Consumer<T>> Job for Ticketed<T, C> {
    fn run(&mut self, cx: &mut Cx) {
        let (consumer, state, batch) = self.parts();
        run_batch(consumer, state, cx, batch);
    }

    fn flush(&mut self, cx: &mut Cx) {
        let (consumer, state, _) = self.parts();
        consumer.flush(state, cx);
    }

    fn end(&mut self, cx: &mut Cx, before: Progress, now: Progress) {
        let (consumer, state, _) = self.parts();
        end_batch(consumer, state, cx, (before, now));
    }

    fn let_go(&mut self, part: Part) {
        match part {
            Part::Batch => self.batch.clear(),
            Part::State => self.state = None,
            Part::Intake | Part::Operators => {}
        }
    }
}
