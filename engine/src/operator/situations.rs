//! The operator that looks for situations among the events of each key.

#[cfg(all(test, not(loom)))]
mod tests;

use std::hash::Hash;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::alarms::{Alarm, AlarmedKeys};
use super::join::Either;
use super::{Consumer, Cx, OpId, earlier};
use crate::event::Event;
use crate::situation::{Act, Layout, Lives, Program, Renewed, Room, Said, TypeId};
use crate::state::{Codec, StateError, Visit, hash, show};
use crate::time::{Timestamp, is_due};

/// Why rules with actions are not taken.
pub const NO_ACTIONS: &str = "a rule has an action, but it is not said how many may wait to be done: \
                              `.actions(capacity, when_full)`";

/// How what was found goes out.
pub trait Reporting<E>: Send + Sync + 'static {
    /// What goes out.
    type Out: Send + 'static;

    /// Gives what was found, and takes it out of `said`.
    fn report(program: &Program<E>, said: &mut Vec<Said<E>>, emit: impl FnMut(Event<Self::Out>));
}

/// Each event by itself, in the order in which they were found.
pub struct OneByOne;

/// All events of one closure together.
pub struct Together;

/// What one event, or one due time, brought: each situation and referenced event, in the order in which they
/// were found, with the name of its rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Closure<E> {
    /// The rules' names, and the events.
    pub found: Vec<(Arc<str>, E)>,
}

impl<E: Send + 'static> Reporting<E> for OneByOne {
    type Out = E;

    #[inline]
    fn report(_: &Program<E>, said: &mut Vec<Said<E>>, mut emit: impl FnMut(Event<E>)) {
        // Mostly none or one.
        if said.len() <= 1 {
            said.pop().into_iter().for_each(|said| emit(Event::new(said.time, said.value)));
            return;
        }
        for Said { time, value, .. } in said.drain(..) {
            emit(Event::new(time, value));
        }
    }
}

impl<E: Send + 'static> Reporting<E> for Together {
    type Out = Closure<E>;

    fn report(
        program: &Program<E>,
        said: &mut Vec<Said<E>>,
        mut emit: impl FnMut(Event<Closure<E>>),
    ) {
        let mut said = said.drain(..).peekable();
        while let Some(Said { by, closure, time, value }) = said.next() {
            let mut found = vec![(program.name_of(by).clone(), value)];
            while let Some(more) = said.next_if(|more| more.closure == closure) {
                found.push((program.name_of(more.by).clone(), more.value));
            }
            emit(Event::new(time, Closure { found }));
        }
    }
}

/// Runs a set of rules for each key.
///
/// It stands in ordered chains: its events come in order of time, and the clock is the time of the event
/// about to be taken. A key has an alarm that is set no later than something is due, as a pattern's keys have. What
/// is to be done about events goes to `acts`.
pub struct SituationMatch<E, K, KF, R, N, A> {
    op: OpId,
    key: KF,
    /// The only key, if there is only one: it is there from the start.
    only: Option<K>,
    program: Arc<Program<E>>,
    codec: Option<Codec<SituationState<K, E>>>,
    reset_on_panic: bool,
    /// Rules with actions are not taken.
    refuses_actions: bool,
    reporting: std::marker::PhantomData<fn() -> R>,
    next: N,
    acts: A,
}

impl<E, K, KF, R, N, A> SituationMatch<E, K, KF, R, N, A> {
    /// `program` for each key that `key` gives, or for the `only` one. With `reset_on_panic` a key whose functions
    /// panic starts afresh.
    pub fn new(
        op: OpId,
        (key, only): (KF, Option<K>),
        program: Arc<Program<E>>,
        codec: Option<Codec<SituationState<K, E>>>,
        reset_on_panic: bool,
        next: N,
        acts: A,
    ) -> Self {
        let (refuses_actions, reporting) = (false, std::marker::PhantomData);
        Self {
            op,
            key,
            only,
            program,
            codec,
            reset_on_panic,
            refuses_actions,
            reporting,
            next,
            acts,
        }
    }

    /// Nobody does actions: rules with some fail the query.
    pub fn refusing_actions(mut self) -> Self {
        self.refuses_actions = true;
        self
    }
}

/// What a [`SituationMatch`] remembers: the keys' open lifespans and alarms, and its clock.
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, E: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, E: Deserialize<'de>"
))]
pub struct SituationState<K, E> {
    keys: AlarmedKeys<K, Lives<E>>,
    clock: Timestamp,
    /// The rules under which it was made.
    layout: Layout,
}

impl<K: Hash + Eq, E> SituationState<K, E> {
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

/// The state of a [`SituationMatch`] in its chain.
pub struct Run<K, E, N, A> {
    own: SituationState<K, E>,
    /// The rules that hold now.
    program: Arc<Program<E>>,
    room: Room<E>,
    next: N,
    acts: A,
}

impl<K: Hash + Eq, E, N, A> Run<K, E, N, A> {
    /// What is remembered of the keys.
    pub fn keys(&self) -> &SituationState<K, E> {
        &self.own
    }
}

type RunOf<E, K, R, N, A> =
    Run<K, E, <N as Consumer<<R as Reporting<E>>::Out>>::State, <A as Consumer<Act<E>>>::State>;

/// Which key starts afresh if a function panics.
#[derive(Clone, Copy)]
enum Again<'a, K> {
    None,
    Key(&'a K),
    Place(u32),
}

impl<E, K, KF, R, N, A> SituationMatch<E, K, KF, R, N, A>
where
    E: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + Sync + 'static,
    KF: Fn(&E) -> K + Send + Sync + 'static,
    R: Reporting<E>,
    N: Consumer<R::Out>,
    A: Consumer<Act<E>>,
{
    /// Offers an event to the only key.
    #[inline]
    fn take_as_only(
        program: &Program<E>,
        own: &mut SituationState<K, E>,
        room: &mut Room<E>,
        (of, event): (TypeId, Event<E>),
    ) {
        // It is the first.
        let lives = own.keys.at(0);
        program.event(lives, room, of, event);
        if let Some(due) = lives.due() {
            own.keys.wake_by(0, due);
        }
    }

    /// Offers an event to its key.
    fn take(
        program: &Program<E>,
        own: &mut SituationState<K, E>,
        room: &mut Room<E>,
        key: K,
        (of, event): (TypeId, Event<E>),
    ) {
        let keys = &mut own.keys;
        let time = event.time;
        let hash = hash(&key);
        let place = match keys.find_hashed(hash, &key) {
            Some(place) => place,
            None if program.begins_nothing(of) => return,
            None => {
                let mut lives = program.fresh(time);
                // What is due at this very time comes before the event, though it makes the key known.
                program.clock(&mut lives, room, (time, false));
                keys.insert(hash, key, lives)
            }
        };
        let lives = keys.at(place);
        program.event(lives, room, of, event);
        if program.is_fresh(lives, time) {
            keys.forget(place, false);
        } else if let Some(due) = lives.due() {
            keys.wake_by(place, due);
        }
    }

    /// An alarm rings: what of its key is due by then happens.
    fn ring(
        program: &Program<E>,
        own: &mut SituationState<K, E>,
        room: &mut Room<E>,
        (alarm, ending): (&Alarm, bool),
        is_only: bool,
    ) {
        let Some(lives) = own.keys.rung_by(alarm) else { return };
        program.clock(lives, room, (alarm.due, ending));
        if !is_only && program.is_fresh(lives, alarm.due) {
            own.keys.forget(alarm.place, false);
        } else if let Some(due) = lives.due() {
            own.keys.wake_by(alarm.place, due);
        }
    }

    /// Runs `work` with the user's functions in it. If one panics and that is to reset its key only, the
    /// key starts afresh, and what it had said goes nowhere.
    #[inline]
    fn attempt<X>(
        &self,
        run: &mut RunOf<E, K, R, N, A>,
        cx: &mut Cx,
        time: Timestamp,
        again: Again<'_, K>,
        work: impl FnOnce(&Program<E>, &mut SituationState<K, E>, &mut Room<E>) -> X,
    ) -> Option<X> {
        let Run { own, room, program, .. } = run;
        if !self.reset_on_panic {
            return Some(cx.call(self.op, time, || work(program, own, room)));
        }
        let done = cx.caught(|| work(program, own, room));
        if done.is_none() {
            room.clear();
            // The key's own functions may panic again: then they are to blame.
            cx.call(self.op, time, || {
                let place = match again {
                    Again::None => None,
                    Again::Key(key) => own.keys.find(key),
                    Again::Place(place) => Some(place),
                };
                match place {
                    Some(place) if self.only.is_none() => own.keys.forget(place, false),
                    Some(place) => {
                        *own.keys.at(place) = program.fresh(time);
                        if let Some(due) = own.keys.at(place).due() {
                            own.keys.wake_by(place, due);
                        }
                    }
                    None => {}
                }
            });
        }
        done
    }

    /// Passes on what was found.
    #[inline]
    fn push(&self, run: &mut RunOf<E, K, R, N, A>, cx: &mut Cx, time: Timestamp) {
        let Run { room, next, acts, program, .. } = run;
        cx.counters.given_up += std::mem::take(&mut room.dropped.count);
        if let Some(why) = room.dropped.fails.take() {
            cx.fail(self.op, Some(time), &*why);
        }
        R::report(program, &mut room.said_by, |event| self.next.event(next, cx, event));
        if !room.acts.is_empty() {
            for act in room.acts.drain(..) {
                self.acts.event(acts, cx, Event::new(time, act));
            }
        }
    }

    /// Lets all that is due at `clock` happen, in order of due times, at one time in order of arrival of
    /// the keys.
    #[inline]
    fn fire(&self, run: &mut RunOf<E, K, R, N, A>, cx: &mut Cx, clock: Timestamp) {
        if run.own.keys.next().is_some_and(|due| is_due(due, clock)) {
            self.fire_due(run, cx, clock);
        }
    }

    fn fire_due(&self, run: &mut RunOf<E, K, R, N, A>, cx: &mut Cx, clock: Timestamp) {
        let ending = clock == Timestamp::MAX;
        let late = std::mem::replace(&mut cx.late, false);
        let is_only = self.only.is_some();
        while let Some(alarm) = run.own.keys.pop_if(|due| is_due(due, clock)) {
            let again = Again::Place(alarm.place);
            self.attempt(run, cx, alarm.due, again, |program, own, room| {
                Self::ring(program, own, room, (&alarm, ending), is_only);
            });
            self.push(run, cx, alarm.due);
        }
        cx.late = late;
    }

    /// From now on `program` holds.
    fn change(
        &self,
        run: &mut RunOf<E, K, R, N, A>,
        cx: &mut Cx,
        time: Timestamp,
        program: Arc<Program<E>>,
    ) {
        if self.refuses_actions && program.has_actions() {
            return cx.fail(self.op, Some(time), NO_ACTIONS);
        }
        let before = std::mem::replace(&mut run.program, program);
        self.attempt(run, cx, time, Again::None, |program, own, _| {
            program.take_over(own, time, &|part| program.renews(&before, part));
        });
    }
}

impl<E: Clone> Program<E> {
    /// Gives a state that was made under other rules the shape that it has under these.
    fn take_over<K: Hash + Eq>(
        &self,
        own: &mut SituationState<K, E>,
        now: Timestamp,
        renewed: &dyn Fn(Renewed<'_>) -> bool,
    ) {
        let old = std::mem::replace(&mut own.layout, self.layout());
        own.keys.change_all(|lives| self.adopt(&old, lives, now, renewed), Lives::due);
    }
}

impl<E, K, KF, R, N, A> Consumer<E> for SituationMatch<E, K, KF, R, N, A>
where
    E: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + Sync + 'static,
    KF: Fn(&E) -> K + Send + Sync + 'static,
    R: Reporting<E>,
    N: Consumer<R::Out>,
    A: Consumer<Act<E>>,
{
    type State = RunOf<E, K, R, N, A>;

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        let mut keys = AlarmedKeys::default();
        if let Some(key) = &self.only {
            let lives = self.program.fresh(Timestamp::MIN);
            let due = lives.due();
            let place = keys.insert(hash(key), key.clone(), lives);
            due.into_iter().for_each(|due| keys.wake_by(place, due));
        }
        let layout = self.program.layout();
        Run {
            own: SituationState { keys, clock: Timestamp::MIN, layout },
            program: self.program.clone(),
            room: Room::default(),
            next: self.next.state(),
            acts: self.acts.state(),
        }
    }

    #[inline]
    fn event(&self, run: &mut Self::State, cx: &mut Cx, event: Event<E>) {
        let time = event.time;
        if cx.refuses_late() {
            return cx.discard(self.op, time, event.value);
        }
        self.fire(run, cx, time);
        run.own.clock = run.own.clock.max(time);
        let ask = |program: &Program<E>| program.type_of(&event.value);
        let of = self.attempt(run, cx, time, Again::None, |program, _, _| ask(program));
        let Some(of) = of else { return };
        if run.program.passes_over(of) {
            return cx.discard(self.op, time, event.value);
        }
        if let Some(only) = &self.only {
            self.attempt(run, cx, time, Again::Key(only), |program, own, room| {
                Self::take_as_only(program, own, room, (of, event));
            });
            return self.push(run, cx, time);
        }
        let key = self.attempt(run, cx, time, Again::None, |_, _, _| (self.key)(&event.value));
        let Some(key) = key else { return };
        let known = self.reset_on_panic.then(|| key.clone());
        let again = known.as_ref().map_or(Again::None, Again::Key);
        self.attempt(run, cx, time, again, |program, own, room| {
            Self::take(program, own, room, key, (of, event));
        });
        self.push(run, cx, time);
    }

    fn watermark(&self, run: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.fire(run, cx, watermark);
        run.own.clock = run.own.clock.max(watermark);
        self.next.watermark(&mut run.next, cx, watermark);
        self.acts.watermark(&mut run.acts, cx, watermark);
    }

    fn end(&self, run: &mut Self::State, cx: &mut Cx) {
        self.fire(run, cx, Timestamp::MAX);
        self.next.end(&mut run.next, cx);
        self.acts.end(&mut run.acts, cx);
    }

    fn flush(&self, run: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut run.next, cx);
        self.acts.flush(&mut run.acts, cx);
    }

    fn next_timer(&self, run: &Self::State) -> Option<Timestamp> {
        let behind = earlier(self.next.next_timer(&run.next), self.acts.next_timer(&run.acts));
        earlier(run.own.keys.next(), behind)
    }

    fn visit(&self, run: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut run.own)?;
        // It may have been saved under other rules.
        if run.own.layout != run.program.layout() {
            let now = run.own.clock;
            run.program.take_over(&mut run.own, now, &|_| false);
        }
        self.next.visit(&mut run.next, visit)?;
        self.acts.visit(&mut run.acts, visit)
    }
}

/// As [`SituationMatch`], with rules that change while events flow: each right row is the rules that hold from then on.
pub struct SteeredSituations<E, K, KF, R, N, A>(pub SituationMatch<E, K, KF, R, N, A>);

impl<E, C, K, KF, R, N, A> Consumer<Either<E, C>> for SteeredSituations<E, K, KF, R, N, A>
where
    C: Into<Arc<Program<E>>> + Send + 'static,
    E: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + Sync + 'static,
    KF: Fn(&E) -> K + Send + Sync + 'static,
    R: Reporting<E>,
    N: Consumer<R::Out>,
    A: Consumer<Act<E>>,
{
    type State = RunOf<E, K, R, N, A>;

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        self.0.state()
    }

    fn event(&self, run: &mut Self::State, cx: &mut Cx, event: Event<Either<E, C>>) {
        let time = event.time;
        match event.value {
            Either::Left(value) => self.0.event(run, cx, Event::new(time, value)),
            Either::Right(rules) => {
                if cx.refuses_late() {
                    return;
                }
                self.0.fire(run, cx, time);
                run.own.clock = run.own.clock.max(time);
                self.0.change(run, cx, time, rules.into());
            }
        }
    }

    fn watermark(&self, run: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.0.watermark(run, cx, watermark);
    }

    fn end(&self, run: &mut Self::State, cx: &mut Cx) {
        self.0.end(run, cx);
    }

    fn flush(&self, run: &mut Self::State, cx: &mut Cx) {
        self.0.flush(run, cx);
    }

    fn next_timer(&self, run: &Self::State) -> Option<Timestamp> {
        self.0.next_timer(run)
    }

    fn visit(&self, run: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        self.0.visit(run, visit)
    }
}
