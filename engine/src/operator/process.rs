//! The general operator: state per key, timers, and a second output.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use super::{Consumer, Cx, OpId, earlier};
use crate::event::Event;
use crate::state::{Codec, Keyed, StateError, Visit, show};
use crate::time::{Timestamp, is_due};

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

    /// A timer of the key is due. Does nothing unless it is written.
    fn timer(
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
    late: bool,
    said: &'a mut Said<Out, Side>,
}

impl<K, Out, Side> ProcessCx<'_, K, Out, Side> {
    /// The key.
    pub fn key(&self) -> &K {
        self.key
    }

    /// The event's time; in a timer its due time, or the clock's where that was later already. It is
    /// the time of all that is emitted.
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

    /// Sets a timer for this key, if it has none for that time yet. It fires when the clock reaches
    /// `due`, before events at `due`; at once, after this call, if the clock is there already. A
    /// timer that sets itself again for the time at which it fires never ends.
    pub fn set_timer(&mut self, due: Timestamp) {
        self.said.timers.push(TimerChange::Set(due));
    }

    /// Takes back the timer of this key for that time, if it has one.
    pub fn cancel_timer(&mut self, due: Timestamp) {
        self.said.timers.push(TimerChange::Cancel(due));
    }

    /// Forgets the key after this call: its state, and all its timers, also those just set.
    pub fn clear(&mut self) {
        self.said.clear = true;
    }
}

enum TimerChange {
    Set(Timestamp),
    Cancel(Timestamp),
}

/// What a handler has said; kept from call to call for its room.
struct Said<Out, Side> {
    out: Vec<Out>,
    side: Vec<Side>,
    timers: Vec<TimerChange>,
    clear: bool,
}

impl<Out, Side> Said<Out, Side> {
    /// Forgets what a handler said that did not return.
    fn reset(&mut self) {
        self.out.clear();
        self.side.clear();
        self.timers.clear();
        self.clear = false;
    }
}

/// What a [`Process`] remembers: the keys' states and timers, and its clock.
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, S: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, S: Deserialize<'de>"
))]
pub struct ProcessState<K, S> {
    keys: Keyed<K, Held<S>>,
    /// By due time and the key's arrival.
    timers: BTreeMap<(Timestamp, u64), K>,
    arrivals: u64,
    clock: Timestamp,
}

/// What is held of a key.
#[derive(Serialize, Deserialize)]
struct Held<S> {
    state: S,
    arrival: u64,
    /// When its timers are due, in order.
    dues: VecDeque<Timestamp>,
}

impl<S> Held<S> {
    fn apply<K: Clone>(
        &mut self,
        key: &K,
        change: TimerChange,
        timers: &mut BTreeMap<(Timestamp, u64), K>,
    ) {
        match change {
            TimerChange::Set(due) => {
                if let Err(position) = self.dues.binary_search(&due) {
                    self.dues.insert(position, due);
                    timers.insert((due, self.arrival), key.clone());
                }
            }
            TimerChange::Cancel(due) => {
                if let Ok(position) = self.dues.binary_search(&due) {
                    self.dues.remove(position);
                    timers.remove(&(due, self.arrival));
                }
            }
        }
    }

    fn cancel_all<K>(&mut self, timers: &mut BTreeMap<(Timestamp, u64), K>) {
        for due in self.dues.drain(..) {
            timers.remove(&(due, self.arrival));
        }
    }
}

impl<K: Hash + Eq + Clone, S: Default> ProcessState<K, S> {
    fn new() -> Self {
        let (keys, timers) = (Keyed::new(), BTreeMap::new());
        Self { keys, timers, arrivals: 0, clock: Timestamp::MIN }
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.timers.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Runs `handler` for an event of `key`, and does what it said about timers.
    fn with_event<Out, Side>(
        &mut self,
        key: K,
        said: &mut Said<Out, Side>,
        handler: impl FnOnce(&K, &mut S, &mut Said<Out, Side>),
    ) {
        let arrivals = &mut self.arrivals;
        let (key, held) = self.keys.entry_with_key(key, || {
            *arrivals += 1;
            Held { state: S::default(), arrival: *arrivals, dues: VecDeque::new() }
        });
        handler(key, &mut held.state, said);
        for change in said.timers.drain(..) {
            held.apply(key, change, &mut self.timers);
        }
        if said.clear {
            let key = key.clone();
            self.forget(&key);
        }
    }

    /// Runs `handler` for the first timer, which is `key`'s, and does what it said about timers;
    /// at the end of the stream no timer is set any more.
    fn with_timer<Out, Side>(
        &mut self,
        key: K,
        ending: bool,
        said: &mut Said<Out, Side>,
        handler: impl FnOnce(&K, &mut S, &mut Said<Out, Side>),
    ) {
        let held = self.keys.get_mut(&key).expect("a key with a timer is held");
        held.dues.pop_front();
        handler(&key, &mut held.state, said);
        for change in said.timers.drain(..) {
            if !(ending && matches!(change, TimerChange::Set(_))) {
                held.apply(&key, change, &mut self.timers);
            }
        }
        if said.clear {
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &K) {
        if let Some(mut held) = self.keys.remove(key) {
            held.cancel_all(&mut self.timers);
        }
    }
}

/// Runs a [`ProcessOp`] per key.
///
/// Timers fire in order of their due time, those due at the same time in order of arrival of their
/// keys. The clock is the watermark, in an ordered chain the time of the event about to be taken; in
/// a timer it is the timer's due time. When the stream ends all timers fire once, and timers set
/// meanwhile are dropped.
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

    /// Fires all that is due at `clock`.
    fn fire(&self, run: &mut RunOf<T, K, P, N, S>, cx: &mut Cx, clock: Timestamp, ending: bool) {
        let late = std::mem::replace(&mut cx.late, false);
        while let Some(timer) = run.own.timers.first_entry()
            && is_due(timer.key().0, clock)
        {
            let ((due, _), key) = timer.remove_entry();
            let time = due.max(run.own.clock);
            run.own.clock = time;
            self.handle(run, cx, time, |own, said, at_work| {
                if self.reset_on_panic {
                    *at_work = Some(key.clone());
                }
                own.with_timer(key, ending, said, |key, state, said| {
                    let mut told = ProcessCx { key, time, late: false, said };
                    self.process.timer(&mut told, state, due);
                });
            });
        }
        cx.late = late;
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

    fn state(&self) -> Self::State {
        let said = Said { out: Vec::new(), side: Vec::new(), timers: Vec::new(), clear: false };
        let (next, side) = (self.next.state(), self.side.state());
        Run { own: ProcessState::new(), said, next, side }
    }

    #[inline]
    fn event(&self, run: &mut Self::State, cx: &mut Cx, Event { time, value }: Event<T>) {
        if cx.refuses_late() {
            return cx.discard(self.op, time, value);
        }
        if cx.ordered {
            self.fire(run, cx, time, false);
            run.own.clock = run.own.clock.max(time);
        }
        let late = cx.late;
        self.handle(run, cx, time, |own, said, at_work| {
            let key = (self.key)(&value);
            if self.reset_on_panic {
                *at_work = Some(key.clone());
            }
            own.with_event(key, said, |key, state, said| {
                self.process.event(&mut ProcessCx { key, time, late, said }, state, value);
            });
        });
        self.fire(run, cx, run.own.clock, false);
    }

    fn watermark(&self, run: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        // No clock is later than the last instant: timers set from then on would fire for ever.
        self.fire(run, cx, watermark, watermark == Timestamp::MAX);
        run.own.clock = run.own.clock.max(watermark);
        self.next.watermark(&mut run.next, cx, watermark);
        self.side.watermark(&mut run.side, cx, watermark);
    }

    fn end(&self, run: &mut Self::State, cx: &mut Cx) {
        self.fire(run, cx, Timestamp::MAX, true);
        self.next.end(&mut run.next, cx);
        self.side.end(&mut run.side, cx);
    }

    fn flush(&self, run: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut run.next, cx);
        self.side.flush(&mut run.side, cx);
    }

    fn next_timer(&self, run: &Self::State) -> Option<Timestamp> {
        let behind = earlier(self.next.next_timer(&run.next), self.side.next_timer(&run.side));
        earlier(run.own.next_due(), behind)
    }

    fn visit(&self, run: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut run.own)?;
        self.next.visit(&mut run.next, visit)?;
        self.side.visit(&mut run.side, visit)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
