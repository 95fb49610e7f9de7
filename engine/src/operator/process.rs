//! The general operator: state per key, timers, and a second output.

mod state;

use std::hash::Hash;
use std::marker::PhantomData;

use super::{Consumer, Cx, Flow, OpId, earlier};
use crate::event::Event;
use crate::state::{Codec, StateError, Visit, show};
use crate::time::{Timestamp, is_due};

pub use state::ProcessState;
use state::{By, Said, TimerChange};

/// What a [`Process`] does with events and timers.
pub trait ProcessOp<K, T>: Send + Sync + 'static {
    /// What is kept per key. A key starts with the default.
    type State: Default + Send + 'static;
    /// What goes to the main output.
    type Out: Send + 'static;
    /// What goes to the side output.
    type Side: Send + 'static;

    /// Takes an event of the key.
    fn event(
        &self,
        cx: &mut ProcessCx<'_, K, Self::Out, Self::Side>,
        state: &mut Self::State,
        value: T,
    );

    /// A timer of event time of the key is due. Does nothing unless it is written.
    fn timer(
        &self,
        _cx: &mut ProcessCx<'_, K, Self::Out, Self::Side>,
        _state: &mut Self::State,
        _due: Timestamp,
    ) {
    }

    /// A timer of processing time of the key is due. Does nothing unless it is written.
    fn processing_timer(
        &self,
        _cx: &mut ProcessCx<'_, K, Self::Out, Self::Side>,
        _state: &mut Self::State,
        _due: Timestamp,
    ) {
    }
}

/// What a [`ProcessOp`] is told, and what it may say back. What it says takes effect when it has
/// returned, and not at all if it panics.
pub struct ProcessCx<'a, K, Out, Side> {
    key: &'a K,
    time: Timestamp,
    /// The processing time, where there is one.
    now: Option<Timestamp>,
    late: bool,
    said: &'a mut Said<Out, Side>,
}

/// What is said to those who ask for it in a group's template.
const NO_PROCESSING_TIME: &str = "the members of a group have no processing time";

impl<K, Out, Side> ProcessCx<'_, K, Out, Side> {
    /// The key.
    pub fn key(&self) -> &K {
        self.key
    }

    /// The event's time; in a timer of event time its due time, or the clock's where that was later
    /// already; in one of processing time the newest event time that this operator has seen. It is the
    /// time of all that is emitted.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// Whether the event is late. Never in a timer, and never in an ordered chain, which does not
    /// hand late events to its operators.
    pub fn is_late(&self) -> bool {
        self.late
    }

    /// Sends a value to the main output.
    pub fn emit(&mut self, value: Out) {
        self.said.out.push(value);
    }

    /// Sends a value to the side output.
    pub fn emit_side(&mut self, value: Side) {
        self.said.side.push(value);
    }

    /// Sets a timer of event time for this key, if it has none for that time yet. It fires when the
    /// clock reaches `due`, before events at `due`; at once, after this call, if the clock is there
    /// already. A timer that sets itself again for the time at which it fires never ends.
    pub fn set_timer(&mut self, due: Timestamp) {
        self.said.timers.push(TimerChange::Set(By::Event, due));
    }

    /// Takes back the timer of event time of this key for that time, if it has one.
    pub fn cancel_timer(&mut self, due: Timestamp) {
        self.said.timers.push(TimerChange::Cancel(By::Event, due));
    }

    /// The processing time: what the engine's clock shows, the same for all events of a batch. It never
    /// goes back.
    ///
    /// # Panics
    /// In a group's template: its members have no processing time.
    pub fn now(&self) -> Timestamp {
        self.now.expect(NO_PROCESSING_TIME)
    }

    /// Sets a timer of processing time for this key, if it has none for that time yet. It fires when
    /// the engine's clock reaches `due`, though no event comes, and before events that come then; at
    /// once, after this call, if the clock is there already. When the stream ends it fires too. What
    /// becomes of it is not reproducible: another run has another clock.
    ///
    /// # Panics
    /// In a group's template: its members have no processing time.
    pub fn set_processing_timer(&mut self, due: Timestamp) {
        assert!(self.now.is_some(), "{NO_PROCESSING_TIME}");
        self.said.timers.push(TimerChange::Set(By::Processing, due));
    }

    /// Takes back the timer of processing time of this key for that time, if it has one.
    pub fn cancel_processing_timer(&mut self, due: Timestamp) {
        self.said.timers.push(TimerChange::Cancel(By::Processing, due));
    }

    /// Forgets the key after this call: its state, and all its timers, also those just set.
    pub fn clear(&mut self) {
        self.said.clear = true;
    }
}

/// Runs a [`ProcessOp`] per key.
///
/// Timers fire in order of their due time, those due at the same time in order of arrival of their
/// keys. The clock is the watermark, in an ordered chain the time of the event about to be taken; in
/// a timer it is the timer's due time. Timers of processing time go by the engine's clock instead. When
/// the stream ends all timers fire once, those of processing time last, and timers set meanwhile are
/// dropped.
pub struct Process<T, K, KF, P: ProcessOp<K, T>, N, S> {
    op: OpId,
    key: KF,
    process: P,
    codec: Option<Codec<ProcessState<K, P::State>>>,
    reset_on_panic: bool,
    next: N,
    side: S,
    input: PhantomData<fn(T)>,
}

impl<T, K, KF, P: ProcessOp<K, T>, N, S> Process<T, K, KF, P, N, S> {
    /// `process` for each key that `key` gives, its main output in front of `next` and its side
    /// output in front of `side`. With `reset_on_panic` a key whose handler panics starts afresh,
    /// without timers.
    pub fn new(
        op: OpId,
        key: KF,
        process: P,
        codec: Option<Codec<ProcessState<K, P::State>>>,
        reset_on_panic: bool,
        next: N,
        side: S,
    ) -> Self {
        Self { op, key, process, codec, reset_on_panic, next, side, input: PhantomData }
    }
}

/// The state of a [`Process`] in its chain.
pub struct Run<K, P, Out, Side, N, S> {
    own: ProcessState<K, P>,
    said: Said<Out, Side>,
    next: N,
    side: S,
}

type RunOf<T, K, P, N, S> = Run<
    K,
    <P as ProcessOp<K, T>>::State,
    <P as ProcessOp<K, T>>::Out,
    <P as ProcessOp<K, T>>::Side,
    <N as Consumer<<P as ProcessOp<K, T>>::Out>>::State,
    <S as Consumer<<P as ProcessOp<K, T>>::Side>>::State,
>;

impl<T, K, KF, P, N, S> Process<T, K, KF, P, N, S>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    P: ProcessOp<K, T>,
    N: Consumer<P::Out>,
    S: Consumer<P::Side>,
{
    fn push(&self, run: &mut RunOf<T, K, P, N, S>, cx: &mut Cx, time: Timestamp) {
        for value in run.said.out.drain(..) {
            self.next.event(&mut run.next, cx, Event::new(time, value));
        }
        for value in run.said.side.drain(..) {
            self.side.event(&mut run.side, cx, Event::new(time, value));
        }
    }

    /// Runs `work` with the user's handler in it, which notes down whose key it is at. If it panics and
    /// that is to reset its key only, the key starts afresh, without timers, and what the handler had
    /// said goes nowhere; else that goes on.
    #[inline]
    fn handle(
        &self,
        run: &mut RunOf<T, K, P, N, S>,
        cx: &mut Cx,
        time: Timestamp,
        work: impl FnOnce(&mut ProcessState<K, P::State>, &mut Said<P::Out, P::Side>, &mut Option<K>),
    ) {
        run.said.reset();
        let (own, said) = (&mut run.own, &mut run.said);
        if !self.reset_on_panic {
            cx.call(self.op, time, || work(own, said, &mut None));
        } else {
            let mut key = None;
            if cx.caught(|| work(own, said, &mut key)).is_none() {
                run.said.reset();
                // The key's own functions may panic again: then they are to blame.
                cx.call(self.op, time, || key.map(|key| run.own.forget(&key)));
            }
        }
        self.push(run, cx, time);
    }

    /// Fires all timers that are due at `clock`.
    fn fire(
        &self,
        run: &mut RunOf<T, K, P, N, S>,
        cx: &mut Cx,
        (by, clock): (By, Timestamp),
        ending: bool,
    ) {
        let late = std::mem::replace(&mut cx.late, false);
        let now = cx.now();
        while let Some((due, key)) = run.own.pop_timer(by, |due| is_due(due, clock)) {
            if by == By::Event {
                run.own.clock = due.max(run.own.clock);
                run.own.newest = run.own.newest.max(run.own.clock);
            }
            let time = if by == By::Event { run.own.clock } else { run.own.newest };
            self.handle(run, cx, time, |own, said, at_work| {
                if self.reset_on_panic {
                    *at_work = Some(key.clone());
                }
                own.with_timer(key, (by, due), ending, said, |key, state, said| {
                    let mut told = ProcessCx { key, time, now, late: false, said };
                    match by {
                        By::Event => self.process.timer(&mut told, state, due),
                        By::Processing => self.process.processing_timer(&mut told, state, due),
                    }
                });
            });
        }
        cx.late = late;
    }

    /// Fires the timers of processing time that are due by the clock, and those of event time that they
    /// set for the past.
    #[inline]
    fn fire_by_clock(&self, run: &mut RunOf<T, K, P, N, S>, cx: &mut Cx) {
        while let Some(due) = run.own.next_due(By::Processing)
            && let Some(now) = cx.now()
            && is_due(due, now)
        {
            self.fire(run, cx, (By::Processing, now), false);
            self.fire(run, cx, (By::Event, run.own.clock), false);
        }
    }
}

impl<T, K, KF, P, N, S> Consumer<T> for Process<T, K, KF, P, N, S>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    P: ProcessOp<K, T>,
    N: Consumer<P::Out>,
    S: Consumer<P::Side>,
{
    type State = RunOf<T, K, P, N, S>;

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        let (next, side) = (self.next.state(), self.side.state());
        Run { own: ProcessState::new(), said: Said::default(), next, side }
    }

    #[inline]
    fn event(&self, run: &mut Self::State, cx: &mut Cx, Event { time, value }: Event<T>) {
        if cx.refuses_late() {
            return cx.discard(self.op, time, value);
        }
        if cx.ordered {
            self.fire(run, cx, (By::Event, time), false);
            run.own.clock = run.own.clock.max(time);
        }
        self.fire_by_clock(run, cx);
        run.own.newest = run.own.newest.max(time);
        let (late, now) = (cx.late, cx.now());
        self.handle(run, cx, time, |own, said, at_work| {
            let key = (self.key)(&value);
            if self.reset_on_panic {
                *at_work = Some(key.clone());
            }
            own.with_event(key, said, |key, state, said| {
                self.process.event(&mut ProcessCx { key, time, now, late, said }, state, value);
            });
        });
        self.fire(run, cx, (By::Event, run.own.clock), false);
        self.fire_by_clock(run, cx);
    }

    fn watermark(&self, run: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        // No clock is later than the last instant: timers set from then on would fire for ever.
        self.fire(run, cx, (By::Event, watermark), watermark == Timestamp::MAX);
        run.own.clock = run.own.clock.max(watermark);
        run.own.newest = run.own.newest.max(watermark);
        self.next.watermark(&mut run.next, cx, watermark);
        self.side.watermark(&mut run.side, cx, watermark);
    }

    fn end(&self, run: &mut Self::State, cx: &mut Cx) {
        self.fire(run, cx, (By::Event, Timestamp::MAX), true);
        self.fire(run, cx, (By::Processing, Timestamp::MAX), true);
        self.next.end(&mut run.next, cx);
        self.side.end(&mut run.side, cx);
    }

    fn flush(&self, run: &mut Self::State, cx: &mut Cx) {
        if cx.flow != Flow::Halted {
            self.fire_by_clock(run, cx);
        }
        if let Some(due) = run.own.next_due(By::Processing) {
            cx.wake_at(due);
        }
        self.next.flush(&mut run.next, cx);
        self.side.flush(&mut run.side, cx);
    }

    fn next_timer(&self, run: &Self::State) -> Option<Timestamp> {
        let behind = earlier(self.next.next_timer(&run.next), self.side.next_timer(&run.side));
        earlier(run.own.next_due(By::Event), behind)
    }

    fn visit(&self, run: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut run.own)?;
        self.next.visit(&mut run.next, visit)?;
        self.side.visit(&mut run.side, visit)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
