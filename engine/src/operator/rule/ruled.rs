//! The operator that runs a rule for every key.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use super::{Answer, Rule};
use crate::event::Event;
use crate::operator::{Consumer, Cx, OpId, earlier};
use crate::state::{Codec, Keyed, StateError, Visit, show};
use crate::time::{Timestamp, is_due};

/// Runs a [`Rule`] for every key.
///
/// A key has at most one alarm that counts, set no later than it is to be woken and moved on when it rings
/// too early: so an event that only makes a key wait longer, as most do, touches no alarm. Wake-ups come in
/// order of their due times, those at one time in order of arrival of their keys.
pub struct Ruled<T, K, KF, R: Rule<T>, N> {
    op: OpId,
    key: KF,
    rule: R,
    codec: Option<Codec<RuledState<K, R::State>>>,
    reset_on_panic: bool,
    next: N,
    input: PhantomData<fn(T)>,
}

impl<T, K, KF, R: Rule<T>, N> Ruled<T, K, KF, R, N> {
    /// `rule` for each key that `key` gives, in front of `next`; for all events together the key is `()`.
    /// With `reset_on_panic` a key whose rule panics starts afresh.
    pub fn new(
        op: OpId,
        key: KF,
        rule: R,
        codec: Option<Codec<RuledState<K, R::State>>>,
        reset_on_panic: bool,
        next: N,
    ) -> Self {
        Self { op, key, rule, codec, reset_on_panic, next, input: PhantomData }
    }
}

/// What a [`Ruled`] remembers: the keys' states and alarms, and its clock.
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, S: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, S: Deserialize<'de>"
))]
pub struct RuledState<K, S> {
    keys: Keyed<K, Held<S>>,
    /// By time and the key's arrival.
    alarms: Alarms<K>,
    arrivals: u64,
    /// What comes out is not earlier than this: the last watermark, in an ordered chain the time of the
    /// newest event.
    clock: Timestamp,
}

type Alarms<K> = BTreeMap<(Timestamp, u64), K>;

/// What is held of a key.
#[derive(Serialize, Deserialize)]
struct Held<S> {
    state: S,
    arrival: u64,
    /// When its alarm rings, if it has one.
    alarm: Option<Timestamp>,
}

impl<S> Held<S> {
    /// Sets the key's alarm, if it has none that rings by `due`.
    #[inline]
    fn wake_by<K: Clone>(&mut self, due: Timestamp, key: &K, alarms: &mut Alarms<K>) {
        if self.alarm.is_none_or(|set| due < set) {
            self.alarm = Some(due);
            alarms.insert((due, self.arrival), key.clone());
        }
    }
}

impl<K: Hash + Eq + Clone, S> RuledState<K, S> {
    fn new() -> Self {
        let (keys, alarms) = (Keyed::new(), BTreeMap::new());
        Self { keys, alarms, arrivals: 0, clock: Timestamp::MIN }
    }

    /// How many keys something is remembered of.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether nothing is remembered of any key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// How many alarms are set.
    pub fn alarms(&self) -> usize {
        self.alarms.len()
    }

    fn forget(&mut self, key: &K) {
        if let Some(Held { arrival, alarm: Some(set), .. }) = self.keys.remove(key) {
            self.alarms.remove(&(set, arrival));
        }
    }

    /// Hands an event to its key.
    #[inline]
    fn take<T, R: Rule<T, State = S>>(
        &mut self,
        rule: &R,
        key: K,
        event: Event<T>,
        late: bool,
        said: &mut Said<R::Out>,
    ) -> Answer<R::Out> {
        let Self { keys, alarms, arrivals, clock } = self;
        let (key, held) = keys.entry_with_key(key, || {
            *arrivals += 1;
            Held { state: rule.start(), arrival: *arrivals, alarm: None }
        });
        if !R::WAITS && is_awaited(rule, &held.state, event.time) {
            wake_until(rule, &mut held.state, event.time, said);
            if !R::LASTS && rule.due(&held.state).is_none() {
                held.state = rule.start();
            }
            said.before = said.events.len();
        }
        let answer = rule.event(&mut held.state, event, late);
        if is_awaited(rule, &held.state, *clock) {
            wake_until(rule, &mut held.state, *clock, said);
        }
        match rule.due(&held.state) {
            Some(due) => held.wake_by(due, key, alarms),
            None if R::LASTS => {}
            None => {
                let key = key.clone();
                self.forget(&key);
            }
        }
        answer
    }

    /// An alarm of `key` rings: the key says what it has to say by `clock`, but only until the next alarm
    /// rings, or it wanted to sleep longer.
    fn ring<T, R: Rule<T, State = S>>(
        &mut self,
        rule: &R,
        (alarm, arrival): (Timestamp, u64),
        key: K,
        clock: Timestamp,
        said: &mut Said<R::Out>,
    ) {
        let held = self.keys.get_mut(&key);
        let rings = |held: &&mut Held<S>| held.arrival == arrival && held.alarm == Some(alarm);
        let Some(held) = held.filter(rings) else { return };
        held.alarm = None;
        let next = self.alarms.first_key_value().map(|(&next, _)| next);
        while let Some(due) = rule.due(&held.state) {
            if !is_due(due, clock) || next.is_some_and(|next| next < (due, arrival)) {
                return held.wake_by(due, &key, &mut self.alarms);
            }
            said.events.extend(rule.wake(&mut held.state, due));
        }
        if !R::LASTS {
            self.keys.remove(&key);
        }
    }
}

/// Whether a key is to be woken by `clock`.
#[inline(always)]
fn is_awaited<T, R: Rule<T>>(rule: &R, state: &R::State, clock: Timestamp) -> bool {
    rule.due(state).is_some_and(|due| is_due(due, clock))
}

/// Wakes a key as often as it wants to be by `clock`.
#[cold]
fn wake_until<T, R: Rule<T>>(
    rule: &R,
    state: &mut R::State,
    clock: Timestamp,
    said: &mut Said<R::Out>,
) {
    while let Some(due) = rule.due(state).filter(|&due| is_due(due, clock)) {
        said.events.extend(rule.wake(state, due));
    }
}

/// What keys said when they were woken; kept from call to call for its room.
struct Said<U> {
    events: Vec<Event<U>>,
    /// How many of these were said before the event at hand.
    before: usize,
}

impl<U> Said<U> {
    fn reset(&mut self) {
        self.events.clear();
        self.before = 0;
    }
}

impl<T, K, KF, R, N> Ruled<T, K, KF, R, N>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    R: Rule<T>,
    N: Consumer<R::Out>,
{
    /// Runs `work` with the user's functions in it. If one panics and that is to reset its key only, the
    /// key, which `again` has then, starts afresh, and what it had said goes nowhere.
    #[inline(always)]
    fn attempt<X>(
        &self,
        run: &mut RunOf<T, K, R, N>,
        cx: &mut Cx,
        time: Timestamp,
        again: Option<K>,
        work: impl FnOnce(&mut RuledState<K, R::State>, &mut Said<R::Out>) -> X,
    ) -> Option<X> {
        let (own, said) = (&mut run.own, &mut run.said);
        if !self.reset_on_panic {
            return Some(cx.call(self.op, time, || work(own, said)));
        }
        let done = cx.caught(|| work(own, said));
        if done.is_none() {
            run.said.reset();
            // The key's own functions may panic again: then they are to blame.
            cx.call(self.op, time, || again.map(|key| run.own.forget(&key)));
        }
        done
    }

    /// Passes on the first `count` of what was said. It is on time: the clock said it, and no event.
    fn push(&self, run: &mut RunOf<T, K, R, N>, cx: &mut Cx, count: usize) {
        let late = std::mem::replace(&mut cx.late, false);
        for Event { time, value } in run.said.events.drain(..count) {
            let time = time.max(run.own.clock);
            self.next.event(&mut run.next, cx, Event::new(time, value));
        }
        cx.late = late;
    }

    /// Wakes all keys that are due at `clock`.
    fn fire(&self, run: &mut RunOf<T, K, R, N>, cx: &mut Cx, clock: Timestamp) {
        while let Some(alarm) = run.own.alarms.first_entry()
            && is_due(alarm.key().0, clock)
        {
            let (at, key) = alarm.remove_entry();
            let again = self.reset_on_panic.then(|| key.clone());
            run.said.reset();
            self.attempt(run, cx, at.0, again, |own, said| {
                own.ring(&self.rule, at, key, clock, said);
            });
            self.push(run, cx, run.said.events.len());
        }
    }
}

/// The state of a [`Ruled`] in its chain.
pub struct Run<K, S, U, N> {
    own: RuledState<K, S>,
    said: Said<U>,
    next: N,
}

type RunOf<T, K, R, N> =
    Run<K, <R as Rule<T>>::State, <R as Rule<T>>::Out, <N as Consumer<<R as Rule<T>>::Out>>::State>;

impl<K, S, U, N> Run<K, S, U, N> {
    /// What is remembered of the keys.
    pub fn keys(&self) -> &RuledState<K, S> {
        &self.own
    }
}

impl<T, K, KF, R, N> Consumer<T> for Ruled<T, K, KF, R, N>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    R: Rule<T>,
    N: Consumer<R::Out>,
{
    type State = RunOf<T, K, R, N>;

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        let said = Said { events: Vec::new(), before: 0 };
        Run { own: RuledState::new(), said, next: self.next.state() }
    }

    #[inline]
    fn event(&self, run: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        let time = event.time;
        if cx.refuses_late() {
            return cx.discard(self.op, time, event.value);
        }
        if cx.ordered {
            self.fire(run, cx, time);
            run.own.clock = run.own.clock.max(time);
        }
        let late = cx.late;
        let Some(key) = self.attempt(run, cx, time, None, |_, _| (self.key)(&event.value)) else {
            return;
        };
        let again = self.reset_on_panic.then(|| key.clone());
        run.said.reset();
        let take =
            |own: &mut RuledState<_, _>, said: &mut _| own.take(&self.rule, key, event, late, said);
        let Some(answer) = self.attempt(run, cx, time, again, take) else { return };
        if run.said.before > 0 {
            self.push(run, cx, run.said.before);
        }
        match answer {
            Answer::Nothing => {}
            Answer::Emit(value) => self.next.event(&mut run.next, cx, Event::new(time, value)),
            Answer::Late => cx.counters.late += 1,
            Answer::Failed => cx.counters.failed += 1,
        }
        if !run.said.events.is_empty() {
            self.push(run, cx, run.said.events.len());
        }
    }

    fn watermark(&self, run: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.fire(run, cx, watermark);
        run.own.clock = run.own.clock.max(watermark);
        self.next.watermark(&mut run.next, cx, watermark);
    }

    fn end(&self, run: &mut Self::State, cx: &mut Cx) {
        self.fire(run, cx, Timestamp::MAX);
        self.next.end(&mut run.next, cx);
    }

    fn flush(&self, run: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut run.next, cx);
    }

    fn next_timer(&self, run: &Self::State) -> Option<Timestamp> {
        let own = run.own.alarms.first_key_value().map(|(&(due, _), _)| due);
        earlier(own, self.next.next_timer(&run.next))
    }

    fn visit(&self, run: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut run.own)?;
        self.next.visit(&mut run.next, visit)
    }
}
