//! The operator that looks for a pattern among the events of each key.

#[cfg(all(test, not(loom)))]
mod tests;

use std::hash::Hash;
use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use super::alarms::{Alarm, AlarmedKeys};
use super::{Consumer, Cx, OpId, earlier};
use crate::cep::{Bound, Dropped, Facts, Found, Matches, Program, Room, after};
use crate::event::Event;
use crate::state::{Codec, StateError, Visit, hash, show};
use crate::time::{Timestamp, is_due};

/// What becomes of matches, and of partial matches whose time is over.
pub trait Select<E>: Send + Sync + 'static {
    /// What a match becomes.
    type Out: Send + 'static;
    /// What a timeout becomes.
    type Side: Send + 'static;

    /// Whether timeouts are looked at.
    const TIMEOUTS: bool;

    /// Makes something of a match.
    fn matched(&self, events: &Bound<'_, E>) -> Self::Out;

    /// Makes something of a timeout, if anything.
    fn timed_out(&self, events: &Bound<'_, E>) -> Option<Self::Side>;
}

/// Runs a pattern's program for each key.
///
/// It stands in ordered chains: its events come in order of time, and the clock is the time of the event
/// about to be taken. A key has an alarm that is set no later than something is due, as a rule's keys have. A
/// key that stands where a new one would is forgotten; one that is not there is not kept for an event that
/// begins nothing.
pub struct PatternMatch<E, K, KF, S, N, T> {
    op: OpId,
    key: KF,
    program: Program<E>,
    select: S,
    codec: Option<Codec<PatternState<K, E>>>,
    reset_on_panic: bool,
    next: N,
    side: T,
}

impl<E, K, KF, S, N, T> PatternMatch<E, K, KF, S, N, T> {
    /// `program` for each key that `key` gives; what `select` makes of matches goes to `next`, what it makes
    /// of timeouts to `side`. With `reset_on_panic` a key whose functions panic starts afresh.
    #[expect(clippy::too_many_arguments, reason = "an operator is what it is made of")]
    pub fn new(
        op: OpId,
        key: KF,
        program: Program<E>,
        select: S,
        codec: Option<Codec<PatternState<K, E>>>,
        reset_on_panic: bool,
        next: N,
        side: T,
    ) -> Self {
        Self { op, key, program, select, codec, reset_on_panic, next, side }
    }
}

/// What a [`PatternMatch`] remembers: the keys' partial matches and alarms, and its clock.
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, E: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, E: Deserialize<'de>"
))]
pub struct PatternState<K, E> {
    keys: AlarmedKeys<K, Matches<E>>,
    clock: Timestamp,
}

impl<K: Hash + Eq, E> PatternState<K, E> {
    fn new() -> Self {
        Self { keys: AlarmedKeys::default(), clock: Timestamp::MIN }
    }

    /// How many keys something is remembered of.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether nothing is remembered of any key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many alarms are held, with those that are no longer meant.
    pub fn alarms(&self) -> usize {
        self.keys.alarms()
    }
}

/// What matches and timeouts became; kept from call to call for its room.
struct Said<U, V> {
    room: Room,
    out: Vec<Event<U>>,
    side: Vec<Event<V>>,
    dropped: Dropped,
}

impl<U, V> Said<U, V> {
    fn reset(&mut self) {
        self.room.clear();
        self.out.clear();
        self.side.clear();
        self.dropped = Dropped::default();
    }

    fn hear<E, S: Select<E, Out = U, Side = V>>(
        select: &S,
        (out, side): (&mut Vec<Event<U>>, &mut Vec<Event<V>>),
        time: Timestamp,
        found: Found<'_, E>,
    ) {
        match found {
            Found::Match(events) => out.push(Event::new(time, select.matched(&events))),
            Found::Timeout(events) => {
                side.extend(select.timed_out(&events).map(|value| Event::new(time, value)));
            }
        }
    }
}

/// Which key starts afresh if a function panics.
enum Again<'a, K> {
    Key(&'a K),
    Place(u32),
}

/// The state of a [`PatternMatch`] in its chain.
pub struct Run<K, E, U, V, N, T> {
    own: PatternState<K, E>,
    said: Said<U, V>,
    next: N,
    side: T,
}

type RunOf<E, K, S, N, T> = Run<
    K,
    E,
    <S as Select<E>>::Out,
    <S as Select<E>>::Side,
    <N as Consumer<<S as Select<E>>::Out>>::State,
    <T as Consumer<<S as Select<E>>::Side>>::State,
>;

impl<K: Hash + Eq, E, U, V, N, T> Run<K, E, U, V, N, T> {
    /// What is remembered of the keys.
    pub fn keys(&self) -> &PatternState<K, E> {
        &self.own
    }
}

impl<E, K, KF, S, N, T> PatternMatch<E, K, KF, S, N, T>
where
    E: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&E) -> K + Send + Sync + 'static,
    S: Select<E>,
    N: Consumer<S::Out>,
    T: Consumer<S::Side>,
{
    /// Offers an event to its key.
    fn take(
        &self,
        own: &mut PatternState<K, E>,
        said: &mut Said<S::Out, S::Side>,
        key: K,
        event: Event<E>,
        facts: Facts,
    ) {
        let Said { room, out, side, dropped } = said;
        let time = event.time;
        let mut found = |found: Found<'_, E>| {
            Said::hear(&self.select, (&mut *out, &mut *side), time, found);
        };
        let program = &self.program;
        let keys = &mut own.keys;
        let hash = hash(&key);
        if let Some(place) = keys.find_hashed(hash, &key) {
            let matches = keys.at(place);
            *dropped = program.event(matches, room, event, facts, &mut found);
            if program.is_fresh(matches) {
                keys.forget(place, self.lives_alike());
            } else {
                self.arm(keys, place, time);
            }
            return;
        }
        if program.begins_nothing(facts) {
            return;
        }
        let mut matches = program.fresh(time, room);
        *dropped = program.event(&mut matches, room, event, facts, &mut found);
        if !program.is_fresh(&matches) {
            let place = keys.insert(hash, key, matches);
            self.arm(keys, place, time);
        }
    }

    /// Whether each run has an alarm of its own.
    fn lives_alike(&self) -> bool {
        self.program.lifetime().is_some()
    }

    /// Sets an alarm for what an event at `time` has changed. Where runs live alike, each that begins gets one of
    /// its own: those come in order.
    #[inline]
    fn arm(&self, keys: &mut AlarmedKeys<K, Matches<E>>, place: u32, time: Timestamp) {
        let matches = keys.at(place);
        match self.program.lifetime() {
            Some(lifetime) if self.program.has_begun(matches) => {
                keys.wake_also(place, after(time, lifetime));
            }
            Some(_) => {}
            None => {
                if let Some(due) = self.program.due(matches) {
                    keys.wake_by(place, due);
                }
            }
        }
    }

    /// An alarm rings: what of its key is due by then happens.
    fn ring(
        &self,
        own: &mut PatternState<K, E>,
        said: &mut Said<S::Out, S::Side>,
        alarm: &Alarm,
        ending: bool,
    ) {
        let Said { room, out, side, dropped } = said;
        let mut hear = |time: Timestamp, found: Found<'_, E>| {
            Said::hear(&self.select, (&mut *out, &mut *side), time, found);
        };
        let Some(matches) = own.keys.rung_by(alarm) else { return };
        if !S::TIMEOUTS && self.program.only_expires(matches, alarm.due) {
            return own.keys.forget(alarm.place, false);
        }
        *dropped = self.program.clock(matches, room, (alarm.due, ending), &mut hear);
        if self.program.is_fresh(matches) {
            own.keys.forget(alarm.place, false);
        } else if !self.lives_alike() {
            let due = self.program.due(matches);
            if let Some(due) = due.filter(|&due| !(ending && due == Timestamp::MAX)) {
                own.keys.wake_by(alarm.place, due);
            }
        }
    }

    /// Runs `work` with the user's functions in it. If one panics and that is to reset its key only, the
    /// key, which `again` finds then, starts afresh, and what it had said goes nowhere.
    fn attempt<X>(
        &self,
        run: &mut RunOf<E, K, S, N, T>,
        cx: &mut Cx,
        time: Timestamp,
        again: Option<Again<'_, K>>,
        work: impl FnOnce(&mut PatternState<K, E>, &mut Said<S::Out, S::Side>) -> X,
    ) -> Option<X> {
        let (own, said) = (&mut run.own, &mut run.said);
        if !self.reset_on_panic {
            return Some(cx.call(self.op, time, || work(own, said)));
        }
        let done = cx.caught(|| work(own, said));
        if done.is_none() {
            run.said.reset();
            // The key's own functions may panic again: then they are to blame.
            cx.call(self.op, time, || {
                let place = match again {
                    Some(Again::Key(key)) => run.own.keys.find(key),
                    Some(Again::Place(place)) => Some(place),
                    None => None,
                };
                place.into_iter().for_each(|place| run.own.keys.forget(place, self.lives_alike()));
            });
        }
        done
    }

    /// Passes on what was said.
    fn push(&self, run: &mut RunOf<E, K, S, N, T>, cx: &mut Cx, time: Timestamp) {
        let Dropped { runs, fails } = std::mem::take(&mut run.said.dropped);
        cx.counters.given_up += runs;
        if fails {
            cx.fail(self.op, Some(time), "a key has more partial matches than its cap allows");
        }
        for event in run.said.out.drain(..) {
            self.next.event(&mut run.next, cx, event);
        }
        for event in run.said.side.drain(..) {
            self.side.event(&mut run.side, cx, event);
        }
    }

    /// Lets all that is due at `clock` happen, in order of due times, at one time in order of arrival of
    /// the keys.
    fn fire(&self, run: &mut RunOf<E, K, S, N, T>, cx: &mut Cx, clock: Timestamp) {
        if run.own.keys.next().is_none_or(|due| !is_due(due, clock)) {
            return;
        }
        let ending = clock == Timestamp::MAX;
        let late = std::mem::replace(&mut cx.late, false);
        while let Some(alarm) = run.own.keys.pop_if(|due| is_due(due, clock)) {
            let again = Some(Again::Place(alarm.place));
            self.attempt(run, cx, alarm.due, again, |own, said| {
                self.ring(own, said, &alarm, ending)
            });
            self.push(run, cx, alarm.due);
        }
        cx.late = late;
    }

    /// No event comes any more: what has not been decided is, key by key.
    fn finish(&self, run: &mut RunOf<E, K, S, N, T>, cx: &mut Cx) {
        let time = run.own.clock;
        for mut matches in run.own.keys.take_all() {
            self.attempt(run, cx, time, None, |_, Said { room, out, side, .. }| {
                let mut found = |found: Found<'_, E>| {
                    Said::hear(&self.select, (&mut *out, &mut *side), time, found);
                };
                self.program.end(&mut matches, room, time, &mut found);
            });
            self.push(run, cx, time);
        }
    }
}

impl<E, K, KF, S, N, T> Consumer<E> for PatternMatch<E, K, KF, S, N, T>
where
    E: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&E) -> K + Send + Sync + 'static,
    S: Select<E>,
    N: Consumer<S::Out>,
    T: Consumer<S::Side>,
{
    type State = RunOf<E, K, S, N, T>;

    fn state(&self) -> Self::State {
        let said = Said {
            room: Room::default(),
            out: Vec::new(),
            side: Vec::new(),
            dropped: Dropped::default(),
        };
        Run { own: PatternState::new(), said, next: self.next.state(), side: self.side.state() }
    }

    fn event(&self, run: &mut Self::State, cx: &mut Cx, event: Event<E>) {
        let time = event.time;
        if cx.refuses_late() {
            return cx.discard(self.op, time, event.value);
        }
        self.fire(run, cx, time);
        run.own.clock = run.own.clock.max(time);
        let ask = || self.program.facts(&event.value);
        let Some(facts) = self.attempt(run, cx, time, None, |_, _| ask()) else { return };
        if self.program.passes_over(facts) {
            return cx.discard(self.op, time, event.value);
        }
        let Some(key) = self.attempt(run, cx, time, None, |_, _| (self.key)(&event.value)) else {
            return;
        };
        let known = self.reset_on_panic.then(|| key.clone());
        let again = known.as_ref().map(Again::Key);
        self.attempt(run, cx, time, again, |own, said| self.take(own, said, key, event, facts));
        self.push(run, cx, time);
    }

    fn watermark(&self, run: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.fire(run, cx, watermark);
        run.own.clock = run.own.clock.max(watermark);
        self.next.watermark(&mut run.next, cx, watermark);
        self.side.watermark(&mut run.side, cx, watermark);
    }

    fn end(&self, run: &mut Self::State, cx: &mut Cx) {
        self.fire(run, cx, Timestamp::MAX);
        self.finish(run, cx);
        self.next.end(&mut run.next, cx);
        self.side.end(&mut run.side, cx);
    }

    fn flush(&self, run: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut run.next, cx);
        self.side.flush(&mut run.side, cx);
    }

    fn next_timer(&self, run: &Self::State) -> Option<Timestamp> {
        let behind = earlier(self.next.next_timer(&run.next), self.side.next_timer(&run.side));
        earlier(run.own.keys.next(), behind)
    }

    fn visit(&self, run: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut run.own)?;
        self.next.visit(&mut run.next, visit)?;
        self.side.visit(&mut run.side, visit)
    }
}

/// Where timeouts go that nobody wants.
pub struct Nowhere<V>(PhantomData<fn(V)>);

impl<V> Default for Nowhere<V> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<V: Send + 'static> Consumer<V> for Nowhere<V> {
    type State = ();

    fn state(&self) {}

    fn event(&self, (): &mut (), cx: &mut Cx, _: Event<V>) {
        cx.counters.dropped += 1;
    }

    fn watermark(&self, (): &mut (), _: &mut Cx, _: Timestamp) {}

    fn end(&self, (): &mut (), _: &mut Cx) {}

    fn flush(&self, (): &mut (), _: &mut Cx) {}

    fn next_timer(&self, (): &()) -> Option<Timestamp> {
        None
    }

    fn visit(&self, (): &mut (), _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}
