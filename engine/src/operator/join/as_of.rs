//! The as-of join, and the lookup in a table that changes.

use std::hash::Hash;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::sorted::Sorted;
use super::{Either, Finding};
use crate::event::Event;
use crate::operator::{Consumer, Cx, OpId, Predicate, earlier};
use crate::state::{Codec, Slots, StateError, Visit, show};
use crate::time::{Reorder, Timestamp, is_due, is_late};

/// How long a right row of an [`AsOf`] is found.
pub struct Lifetime<R> {
    /// Longest after its time, which is included; `None`: until a newer one of its key comes.
    pub age: Option<Duration>,
    /// A row for which this holds is not found itself: it removes what its key has.
    pub removes: Option<Predicate<R>>,
}

impl<R> Lifetime<R> {
    /// Until a newer row of the key comes.
    pub fn unlimited() -> Self {
        Self { age: None, removes: None }
    }

    /// The first instant at which a row of `time` is not found any more, if there is one.
    fn end(&self, time: Timestamp) -> Option<Timestamp> {
        self.age.map(|age| (time + age).next())
    }

    fn removes(&self, row: &R) -> bool {
        self.removes.as_ref().is_some_and(|removes| removes(row))
    }
}

/// What is held of a key.
#[derive(Debug, Serialize, Deserialize)]
struct Held<R> {
    newest: Option<Event<R>>,
    /// Whether an end is among those to come.
    armed: bool,
}

/// What an [`AsOf`] remembers: the newest right row of each key, and in a chain that is not ordered the
/// rows whose time the watermark has not passed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, L: Serialize, R: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, L: Deserialize<'de>, R: Deserialize<'de>"
))]
pub struct AsOfState<K, L, R> {
    waiting: Sorted<L, R>,
    found: Found<K, R>,
    clock: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, R: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, R: Deserialize<'de>"
))]
struct Found<K, R> {
    keys: Slots<K, Held<R>>,
    /// When to look whether the newest row of a key is too old, and the place of that key. At most one
    /// for each key.
    ends: Reorder<u32>,
}

impl<K: Hash + Eq, R> Found<K, R> {
    fn put(&mut self, key: K, row: Event<R>, lifetime: &Lifetime<R>) {
        if lifetime.removes(&row.value) {
            return self.remove(&key);
        }
        let place = self.keys.find_or_insert(key, || Held { newest: None, armed: false });
        let held = self.keys.at(place);
        if let Some(end) = lifetime.end(row.time).filter(|_| !held.armed) {
            held.armed = true;
            self.ends.push(Event::new(end, place));
        }
        held.newest = Some(row);
    }

    fn remove(&mut self, key: &K) {
        let Some(place) = self.keys.find(key) else { return };
        let held = self.keys.at(place);
        held.newest = None;
        // Its end will find it by its place.
        if !held.armed {
            self.keys.remove(place);
        }
    }

    /// The right row for a left one of `key` at `time`.
    fn get(&mut self, key: &K, time: Timestamp, lifetime: &Lifetime<R>) -> Option<&R> {
        let place = self.keys.find(key)?;
        let row = self.keys.at(place).newest.as_ref()?;
        let ended = lifetime.end(row.time).is_some_and(|end| is_due(end, time));
        (!ended).then_some(&row.value)
    }

    /// Removes the keys whose newest row is too old at `clock`.
    fn expire(&mut self, clock: Timestamp, lifetime: &Lifetime<R>) {
        let Self { keys, ends } = self;
        let mut again = Vec::new();
        ends.release(clock, &mut |Event { value: place, .. }| {
            let newest = keys.at(place).newest.as_ref();
            match newest.and_then(|row| lifetime.end(row.time)) {
                // A newer row has come meanwhile.
                Some(end) if !is_due(end, clock) => again.push(Event::new(end, place)),
                _ => keys.remove(place),
            }
        });
        again.into_iter().for_each(|end| ends.push(end));
        if keys.is_sparse() {
            let moved = keys.close_up();
            ends.values_mut().for_each(|place| *place = moved[*place as usize]);
        }
    }
}

/// Gives each left row the newest right row of its key at or before its time.
///
/// Right rows of that very time are found too. In a chain that is not ordered rows of both sides wait until
/// the watermark has passed their time; then they are taken in order of time.
pub struct AsOf<K, L, R, KF, M, N> {
    op: OpId,
    key: KF,
    lifetime: Lifetime<R>,
    finding: M,
    codec: Option<Codec<AsOfState<K, L, R>>>,
    next: N,
}

impl<K, L, R, KF, M, N> AsOf<K, L, R, KF, M, N> {
    /// Left rows with what `lifetime` leaves to be found for their `key`, as `finding` gives them, in
    /// front of `next`.
    pub fn new(
        op: OpId,
        key: KF,
        lifetime: Lifetime<R>,
        finding: M,
        codec: Option<Codec<AsOfState<K, L, R>>>,
        next: N,
    ) -> Self {
        Self { op, key, lifetime, finding, codec, next }
    }
}

impl<K, L, R, KF, M, N> AsOf<K, L, R, KF, M, N>
where
    K: Hash + Eq + Send + 'static,
    L: Send + 'static,
    R: Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Send + Sync + 'static,
    M: Finding<L, R>,
    N: Consumer<M::Out>,
{
    /// Takes a row, now that all before it are through.
    fn take(
        &self,
        found: &mut Found<K, R>,
        next: &mut N::State,
        cx: &mut Cx,
        time: Timestamp,
        row: Either<L, R>,
    ) {
        let out = cx.call(self.op, time, || {
            let key = (self.key)(&row);
            match row {
                Either::Left(left) => {
                    let right = found.get(&key, time, &self.lifetime);
                    self.finding.find(left, right)
                }
                Either::Right(right) => {
                    found.put(key, Event::new(time, right), &self.lifetime);
                    None
                }
            }
        });
        if let Some(out) = out {
            self.next.event(next, cx, Event::new(time, out));
        }
    }

    fn advance(
        &self,
        (own, next): &mut (AsOfState<K, L, R>, N::State),
        cx: &mut Cx,
        watermark: Timestamp,
    ) {
        cx.late = false;
        let AsOfState { waiting, found, clock } = own;
        waiting.release(watermark, &mut |time, row| self.take(found, next, cx, time, row));
        cx.call(self.op, watermark, || found.expire(watermark, &self.lifetime));
        *clock = (*clock).max(watermark);
    }
}

impl<K, L, R, KF, M, N> Consumer<Either<L, R>> for AsOf<K, L, R, KF, M, N>
where
    K: Hash + Eq + Send + 'static,
    L: Send + 'static,
    R: Send + Sync + 'static,
    KF: Fn(&Either<L, R>) -> K + Send + Sync + 'static,
    M: Finding<L, R>,
    N: Consumer<M::Out>,
{
    type State = (AsOfState<K, L, R>, N::State);

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        let found = Found { keys: Slots::default(), ends: Reorder::new() };
        let waiting = Sorted::default();
        (AsOfState { waiting, found, clock: Timestamp::MIN }, self.next.state())
    }

    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<Either<L, R>>) {
        if cx.refuses_late() {
            return cx.discard(self.op, event.time, event.value);
        }
        if is_late(event.time, state.0.clock) {
            cx.counters.late += 1;
            return cx.discard(self.op, event.time, event.value);
        }
        if cx.ordered {
            let (own, next) = state;
            self.take(&mut own.found, next, cx, event.time, event.value);
        } else {
            state.0.waiting.push(event);
        }
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.advance(state, cx, watermark);
        self.next.watermark(&mut state.1, cx, watermark);
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        cx.late = false;
        let (AsOfState { waiting, found, .. }, next) = state;
        let take = &mut |time, row| self.take(found, next, cx, time, row);
        waiting.release_through(Timestamp::MAX, take);
        self.next.end(next, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut state.1, cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        let own = earlier(state.0.waiting.due(), state.0.found.ends.earliest());
        earlier(own, self.next.next_timer(&state.1))
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut state.0)?;
        self.next.visit(&mut state.1, visit)
    }
}
