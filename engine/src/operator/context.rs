//! What an operator is told about the element it is handed, and what it may say back.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::OpId;
use super::group::Name;
use super::processing_time::ProcessingTime;
use crate::time::Timestamp;

/// Handed to an operator with every element.
#[derive(Default)]
pub struct Cx {
    /// Whether the event being processed was late at its source.
    pub late: bool,
    /// Whether the chain is ordered: its clock is the time of the event about to be processed, and
    /// its operators only count late events.
    pub ordered: bool,
    /// Which of the chain's shards is running; 0 where there is only one.
    pub shard: u16,
    /// How the chain goes on: passed on to other chains by its outlets.
    pub flow: Flow,
    /// Whether that has changed with this batch: told to other chains though there be nothing else.
    pub turned: bool,
    /// Nanoseconds on the engine's clock at which the oldest event of the batch entered the engine.
    pub born: u64,
    /// What is counted about this chain.
    pub counters: Counters,
    /// What this batch leaves behind for other chains, in the order in which it was flushed.
    pub outbox: Vec<Box<dyn Parcel>>,
    /// What a group's lane gathers; `None` in every other chain.
    pub(super) gathering: Option<Box<Gathering>>,
    // What few chains ever need is boxed: there may be a great many of them.
    pub(super) processing: Option<Box<ProcessingTime>>,
    trouble: Option<Box<Trouble>>,
    /// The event being processed, in words, where the user asked for that.
    #[expect(clippy::box_collection, reason = "a pointer takes less than an empty collection")]
    pub(super) shown: Option<Box<String>>,
}

/// What of a context outlasts the work it was made for: nothing, in most chains.
#[derive(Default)]
pub(crate) struct Lasting {
    gathering: Option<Box<Gathering>>,
    processing: Option<Box<ProcessingTime>>,
}

/// What went wrong in a batch.
#[derive(Default)]
struct Trouble {
    /// Why an operator cannot go on.
    failure: Option<Failure>,
    /// Whose user function panicked, and at which event time.
    blame: Option<(OpId, Timestamp)>,
}

/// What a group's lane gathers until a batch is over.
pub(super) struct Gathering {
    /// The group.
    pub group: u32,
    /// Whose results are being made.
    pub member: Name,
    /// How many there have been, ever.
    pub emitted: u64,
    /// The results.
    pub results: Box<dyn Any + Send>,
}

impl Gathering {
    /// The results that come are `member`'s. How many there have been so far.
    #[inline(always)]
    pub fn enter(&mut self, member: Name) -> u64 {
        self.member = member;
        self.emitted
    }
}

/// Something said to a chain's first operator through its inbox, so that it has a place among the
/// events: what it is, those two know.
pub type Note = Box<dyn Any + Send>;

/// How a stream goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// More may come at any time.
    #[default]
    Active,
    /// Quiet: it does not hold the watermark back until it is active again.
    Idle,
    /// Nothing more comes, and what is open fires.
    Ended,
    /// Nothing more comes, and nothing fires.
    Halted,
}

impl Flow {
    /// Whether nothing more comes.
    pub fn is_over(self) -> bool {
        matches!(self, Flow::Ended | Flow::Halted)
    }
}

/// Counts of a chain since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Late events that an operator did not take into account.
    pub late: u64,
    /// Events that went nowhere: the stream they were meant for is not used, or a sink dropped them.
    pub dropped: u64,
    /// Events that failed: their result does not fit its type, or their panic was skipped.
    pub failed: u64,
    /// Partial matches of patterns, lifespans and candidates of situations that were dropped or refused at a cap.
    pub given_up: u64,
    /// Events that left the chain, to other chains and to sinks.
    pub out: u64,
}

/// Elements on their way to another chain.
pub trait Parcel: Send {
    /// Puts them into that chain's inbox. Never blocks and never refuses.
    fn deliver(self: Box<Self>);
}

/// Why a query cannot go on.
#[derive(Debug)]
pub struct Failure {
    /// The operator that failed. `None`: none was at work, but an event was being dropped.
    pub operator: Option<OpId>,
    /// The event time it was working at, where there was one.
    pub time: Option<Timestamp>,
    /// The event being processed, in words, where the user asked for that.
    pub event: Option<String>,
    /// What happened.
    pub message: String,
}

impl Cx {
    /// For a chain that is ordered or not, run as shard `shard`.
    pub fn new(ordered: bool, shard: u16) -> Self {
        Self { ordered, shard, ..Self::default() }
    }

    /// The same, going on with what was kept.
    pub(crate) fn resumed(ordered: bool, shard: u16, kept: &mut Lasting) -> Self {
        let Lasting { gathering, processing } = std::mem::take(kept);
        Self { gathering, processing, ..Self::new(ordered, shard) }
    }

    /// What is to be kept of it.
    pub(crate) fn kept(&mut self) -> Lasting {
        Lasting { gathering: self.gathering.take(), processing: self.processing.take() }
    }

    /// What this lane gathers.
    #[inline(always)]
    pub(super) fn gathering(&mut self) -> &mut Gathering {
        self.gathering.as_mut().expect("a lane opens its exit before its members run")
    }

    /// Runs a user's function. Should it panic, its operator and the event's time are known; when it
    /// does not, this costs nothing.
    #[inline(always)]
    pub fn call<R>(&mut self, operator: OpId, time: Timestamp, f: impl FnOnce() -> R) -> R {
        let on_panic = self.on_panic(operator, time);
        let result = f();
        on_panic.disarm();
        result
    }

    /// As [`call`](Self::call); if the operator `SKIPS`, a panic gives `None` and is counted as a failed
    /// event.
    #[inline(always)]
    pub fn attempt<const SKIPS: bool, R>(
        &mut self,
        operator: OpId,
        time: Timestamp,
        f: impl FnOnce() -> R,
    ) -> Option<R> {
        if SKIPS { self.caught(f) } else { Some(self.call(operator, time, f)) }
    }

    /// Runs a user's function whose panic is to harm nothing else: it gives `None` and is counted as a
    /// failed event.
    pub(super) fn caught<R>(&mut self, f: impl FnOnce() -> R) -> Option<R> {
        let result = catch_unwind(AssertUnwindSafe(f)).ok();
        self.counters.failed += u64::from(result.is_none());
        result
    }

    /// Drops what is the user's and goes no further, as [`call`](Self::call) does it.
    #[inline(always)]
    pub fn discard<T>(&mut self, operator: OpId, time: Timestamp, value: T) {
        self.call(operator, time, || drop(value));
    }

    /// As [`call`](Self::call) for what stands between this and [`OnPanic::disarm`]: where a closure
    /// would become a call of its own.
    #[inline(always)]
    pub(super) fn on_panic(&mut self, operator: OpId, time: Timestamp) -> OnPanic<'_> {
        OnPanic { trouble: &mut self.trouble, operator, time }
    }

    /// Whether the event at hand is late and this chain does not take late events into account; it
    /// is counted then, and the operator is done with it.
    #[inline(always)]
    pub fn refuses_late(&mut self) -> bool {
        let refused = self.late & self.ordered;
        if refused {
            self.counters.late += 1;
        }
        refused
    }

    /// Whether a corrected result counts as late for what follows. It does in an ordered chain, where
    /// later results have been passed on already; elsewhere the operator holds its watermark back for
    /// it. A group's watermark is held back by none of its members.
    pub(super) fn is_past_correcting(&self) -> bool {
        self.ordered || self.gathering.is_some()
    }

    /// Ends the query: an operator that cannot go on says why. The first reason counts.
    pub fn fail(&mut self, operator: OpId, time: Option<Timestamp>, message: impl Into<String>) {
        let failure = &mut self.trouble.get_or_insert_default().failure;
        failure.get_or_insert_with(|| {
            let (operator, message) = (Some(operator), message.into());
            Failure { operator, time, event: None, message }
        });
    }

    /// Takes the reason out, if an operator gave one.
    pub(crate) fn take_failure(&mut self) -> Option<Failure> {
        self.trouble.as_mut()?.failure.take()
    }

    /// Takes the event in words, if one was being processed that is to be shown.
    pub(crate) fn take_shown(&mut self) -> Option<String> {
        self.shown.take().map(|shown| *shown).filter(|shown| !shown.is_empty())
    }

    /// The operator whose user function panicked, and the event time, since the last call.
    pub(crate) fn take_blame(&mut self) -> Option<(OpId, Timestamp)> {
        self.trouble.as_mut()?.blame.take()
    }
}

/// Dropped by an unwinding panic, it notes who is to blame.
pub(super) struct OnPanic<'a> {
    trouble: &'a mut Option<Box<Trouble>>,
    operator: OpId,
    time: Timestamp,
}

impl OnPanic<'_> {
    #[inline(always)]
    pub(super) fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for OnPanic<'_> {
    #[cold]
    fn drop(&mut self) {
        self.trouble.get_or_insert_default().blame = Some((self.operator, self.time));
    }
}

/// Runs what may drop a value of the user's, whose panic must not take the worker along: what it
/// said then.
pub(crate) fn contained(f: impl FnOnce()) -> Option<String> {
    // Compiled once: this is called with a great many types of closures.
    fn run(f: &mut dyn FnMut()) -> Option<String> {
        catch_unwind(AssertUnwindSafe(f)).err().map(panic_message)
    }
    let mut f = Some(f);
    run(&mut || {
        if let Some(f) = f.take() {
            f();
        }
    })
}

/// The text of a panic.
pub(crate) fn panic_message(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => (*text).to_owned(),
            Err(payload) => {
                // It is the user's, and may panic again when it is dropped. What that brings is forgotten: it
                // might do so for ever.
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
                dropped.unwrap_or_else(std::mem::forget);
                "a panic without a text".to_owned()
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_blamed_on_its_operator() {
        let mut cx = Cx::default();
        let time = Timestamp::from_secs(3);
        let unwound = catch_unwind(AssertUnwindSafe(|| cx.call(OpId(7), time, || panic!("boom"))));
        assert_eq!(panic_message(unwound.unwrap_err()), "boom");
        assert_eq!(cx.take_blame(), Some((OpId(7), time)));
        cx.call(OpId(7), time, || ());
        assert_eq!(cx.take_blame(), None);
    }
}
