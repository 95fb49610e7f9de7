//! The interval join.

use std::hash::Hash;
use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use jiff::SignedDuration;
use serde::{Deserialize, Serialize};

use super::rows::{Row, Rows};
use super::{Either, Matching};
use crate::event::Event;
use crate::operator::{Consumer, Cx, OpId, earlier};
use crate::state::{Codec, Slots, StateError, Visit, show};
use crate::time::{Reorder, Timestamp, is_due, is_late};

/// How long after a left row, or before it, its partners on the right may be: both bounds included.
///
/// ```
/// use std::time::Duration;
/// use mizzle_engine::operator::join::Interval;
/// use mizzle_engine::time::SignedDuration;
/// let secs = SignedDuration::from_secs;
/// assert_eq!(Interval::around(Duration::from_secs(5)), Interval::from(secs(-5)..=secs(5)));
/// assert_eq!(Interval::before(Duration::from_secs(5)), Interval::from(secs(-5)..=secs(0)));
/// let empty = Interval::from(secs(1)..=secs(0)).check().unwrap_err();
/// assert_eq!(empty.to_string(), "the interval from 1000000 us to 0 us is empty");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Microseconds.
    lower: i64,
    upper: i64,
}

/// An interval that holds no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("the interval from {lower} us to {upper} us is empty")]
pub struct InvalidInterval {
    /// Its lower bound in microseconds.
    pub lower: i64,
    /// Its upper bound in microseconds.
    pub upper: i64,
}

impl Interval {
    /// Right rows up to `duration` before the left one, to its time.
    pub fn before(duration: Duration) -> Self {
        Self { lower: Self::around(duration).lower, upper: 0 }
    }

    /// Right rows from the left one's time to `duration` after it.
    pub fn after(duration: Duration) -> Self {
        Self { lower: 0, upper: Self::around(duration).upper }
    }

    /// Right rows up to `duration` before or after the left one.
    pub fn around(duration: Duration) -> Self {
        let upper = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Self { lower: -upper, upper }
    }

    /// Whether any time is in it.
    pub fn check(&self) -> Result<(), InvalidInterval> {
        let Self { lower, upper } = *self;
        if lower <= upper { Ok(()) } else { Err(InvalidInterval { lower, upper }) }
    }

    /// The first and the last time of right rows that match a left one at `time`.
    fn of_left(&self, time: Timestamp) -> (Timestamp, Timestamp) {
        let by = |micros| Timestamp::from_micros(time.as_micros().saturating_add(micros));
        (by(self.lower), by(self.upper))
    }

    /// The first and the last time of left rows that match a right one at `time`.
    fn of_right(&self, time: Timestamp) -> (Timestamp, Timestamp) {
        let by = |micros| Timestamp::from_micros(time.as_micros().saturating_sub(micros));
        (by(self.upper), by(self.lower))
    }
}

/// The least number of whole microseconds that is not below `duration`; saturates.
fn ceil(duration: SignedDuration) -> i64 {
    let micros = -(-duration.as_nanos()).div_euclid(1_000);
    micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// The greatest that is not above it.
fn floor(duration: SignedDuration) -> i64 {
    let micros = duration.as_nanos().div_euclid(1_000);
    micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// As time stamps are whole microseconds, parts of one make no difference.
impl From<RangeInclusive<SignedDuration>> for Interval {
    fn from(range: RangeInclusive<SignedDuration>) -> Self {
        Self { lower: ceil(*range.start()), upper: floor(*range.end()) }
    }
}

/// Without the upper bound.
impl From<Range<SignedDuration>> for Interval {
    fn from(range: Range<SignedDuration>) -> Self {
        Self { lower: ceil(range.start), upper: ceil(range.end).saturating_sub(1) }
    }
}

/// The rows of a key.
#[derive(Debug, Serialize, Deserialize)]
struct Sides<L, R> {
    left: Rows<L>,
    right: Rows<R>,
}

impl<L, R> Sides<L, R> {
    fn is_empty(&self) -> bool {
        self.left.is_empty() && self.right.is_empty()
    }
}

/// What an [`IntervalJoin`] remembers: the rows that can still have partners, and when each is let go.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, L: Serialize, R: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, L: Deserialize<'de>, R: Deserialize<'de>"
))]
pub struct IntervalState<K, L, R> {
    keys: Slots<K, Sides<L, R>>,
    /// For each left row the first instant at which no partner can come any more, and the place of its
    /// key. What is due first is the first of its key.
    left: Reorder<u32>,
    /// The same for right rows.
    right: Reorder<u32>,
    clock: Timestamp,
}

impl<K: Hash + Eq, L, R> IntervalState<K, L, R> {
    fn new() -> Self {
        let (left, right) = (Reorder::new(), Reorder::new());
        Self { keys: Slots::default(), left, right, clock: Timestamp::MIN }
    }

    fn next_due(&self) -> Option<Timestamp> {
        earlier(self.left.earliest(), self.right.earliest())
    }

    /// Gives room back where keys have gone.
    fn close_up(&mut self) {
        if self.keys.is_sparse() {
            let moved = self.keys.close_up();
            for place in self.left.values_mut().chain(self.right.values_mut()) {
                *place = moved[*place as usize];
            }
        }
    }
}

/// Matches rows of two streams by key and by how far their times lie apart.
///
/// A row is kept as long as partners can come. Each pair comes out when the later row comes; the partners
/// of one row in order of their time, those of one time in order of arrival. A row that nothing matched
/// comes out, if its side is asked for, when the clock has passed the last possible partner; those of one
/// instant left rows first, each side in order of arrival.
pub struct IntervalJoin<K, L, R, KF, M, N> {
    op: OpId,
    interval: Interval,
    key: KF,
    matching: M,
    codec: Option<Codec<IntervalState<K, L, R>>>,
    next: N,
    rows: PhantomData<fn(L, R)>,
}

impl<K, L, R, KF, M, N> IntervalJoin<K, L, R, KF, M, N> {
    /// Rows whose `key` is the same and whose times are within `interval`, as `matching` gives them, in
    /// front of `next`.
    ///
    /// # Panics
    ///
    /// If [`interval.check()`](Interval::check) fails.
    pub fn new(
        op: OpId,
        interval: Interval,
        key: KF,
        matching: M,
        codec: Option<Codec<IntervalState<K, L, R>>>,
        next: N,
    ) -> Self {
        if let Err(invalid) = interval.check() {
            panic!("{invalid}");
        }
        Self { op, interval, key, matching, codec, next, rows: PhantomData }
    }
}

type State<K, L, R, N> = (IntervalState<K, L, R>, N);

impl<K, L, R, KF, M, N> IntervalJoin<K, L, R, KF, M, N>
where
    K: Hash + Eq + Send + 'static,
    L: Send + 'static,
    R: Send + 'static,
    M: Matching<L, R>,
    N: Consumer<M::Out>,
{
    #[inline]
    fn left(&self, (own, next): &mut State<K, L, R, N::State>, cx: &mut Cx, key: K, row: Event<L>) {
        let Event { time, value } = row;
        let (first, last) = self.interval.of_left(time);
        let due = last.next();
        let mut row = Row { time, matched: false, value };
        let stays = !is_due(due, own.clock);
        let Some(place) = place_of(&mut own.keys, key, stays) else {
            return self.unmatched_left(next, cx, row);
        };
        let sides = own.keys.at(place);
        sides.right.between(first, last, |right| {
            (row.matched, right.matched) = (true, true);
            let pair = || self.matching.pair(&row.value, &right.value);
            let pair = cx.call(self.op, time, pair);
            self.next.event(next, cx, Event::new(time.max(right.time), pair));
        });
        if stays {
            sides.left.insert(row);
            own.left.push(Event::new(due, place));
        } else {
            self.unmatched_left(next, cx, row);
        }
    }

    #[inline]
    fn right(
        &self,
        (own, next): &mut State<K, L, R, N::State>,
        cx: &mut Cx,
        key: K,
        row: Event<R>,
    ) {
        let Event { time, value } = row;
        let (first, last) = self.interval.of_right(time);
        let due = last.next();
        let mut row = Row { time, matched: false, value };
        let stays = !is_due(due, own.clock);
        let Some(place) = place_of(&mut own.keys, key, stays) else {
            return self.unmatched_right(next, cx, row);
        };
        let sides = own.keys.at(place);
        sides.left.between(first, last, |left| {
            (row.matched, left.matched) = (true, true);
            let pair = || self.matching.pair(&left.value, &row.value);
            let pair = cx.call(self.op, time, pair);
            self.next.event(next, cx, Event::new(time.max(left.time), pair));
        });
        if stays {
            sides.right.insert(row);
            own.right.push(Event::new(due, place));
        } else {
            self.unmatched_right(next, cx, row);
        }
    }

    /// A left row is let go.
    fn unmatched_left(&self, next: &mut N::State, cx: &mut Cx, row: Row<L>) {
        let time = row.time.max(self.interval.of_left(row.time).1);
        let give = || if row.matched { None } else { self.matching.left(row.value) };
        if let Some(out) = cx.call(self.op, time, give) {
            self.next.event(next, cx, Event::new(time, out));
        }
    }

    /// A right row is let go.
    fn unmatched_right(&self, next: &mut N::State, cx: &mut Cx, row: Row<R>) {
        let time = row.time.max(self.interval.of_right(row.time).1);
        let give = || if row.matched { None } else { self.matching.right(row.value) };
        if let Some(out) = cx.call(self.op, time, give) {
            self.next.event(next, cx, Event::new(time, out));
        }
    }

    /// Lets go of what can have no partner any more at `clock`.
    #[inline]
    fn fire(&self, state: &mut State<K, L, R, N::State>, cx: &mut Cx, clock: Timestamp) {
        if state.0.next_due().is_some_and(|due| is_due(due, clock)) {
            self.fire_due(state, cx, clock);
        }
    }

    #[inline(never)]
    fn fire_due(&self, state: &mut State<K, L, R, N::State>, cx: &mut Cx, clock: Timestamp) {
        cx.late = false;
        if M::FULL {
            // Instant by instant, so that both sides come out in one order of time.
            while let Some(due) = state.0.next_due().filter(|&due| is_due(due, clock)) {
                self.fire_sides(state, cx, due);
            }
        } else {
            self.fire_sides(state, cx, clock);
        }
        state.0.close_up();
    }

    fn fire_sides(&self, state: &mut State<K, L, R, N::State>, cx: &mut Cx, clock: Timestamp) {
        let (IntervalState { keys, left, right, .. }, next) = state;
        left.release(clock, &mut |Event { value: place, .. }| {
            let row = leaving(keys, place, |sides| sides.left.pop_front());
            self.unmatched_left(next, cx, row);
        });
        right.release(clock, &mut |Event { value: place, .. }| {
            let row = leaving(keys, place, |sides| sides.right.pop_front());
            self.unmatched_right(next, cx, row);
        });
    }
}

/// Takes a row that is due out, and its key with the last one.
fn leaving<K: Hash + Eq, L, R, T>(
    keys: &mut Slots<K, Sides<L, R>>,
    place: u32,
    pop: impl FnOnce(&mut Sides<L, R>) -> Option<Row<T>>,
) -> Row<T> {
    let sides = keys.at(place);
    let row = pop(sides).expect("a row for each that is due");
    if sides.is_empty() {
        keys.remove(place);
    }
    row
}

/// Where a row's partners are, and itself if it `stays`.
#[inline]
fn place_of<K: Hash + Eq, L, R>(
    keys: &mut Slots<K, Sides<L, R>>,
    key: K,
    stays: bool,
) -> Option<u32> {
    if stays {
        let empty = || Sides { left: Rows::default(), right: Rows::default() };
        Some(keys.find_or_insert(key, empty))
    } else {
        keys.find(&key)
    }
}

impl<K, L, R, KF, M, N> Consumer<Either<L, R>> for IntervalJoin<K, L, R, KF, M, N>
where
    K: Hash + Eq + Send + 'static,
    L: Send + 'static,
    R: Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Send + Sync + 'static,
    M: Matching<L, R>,
    N: Consumer<M::Out>,
{
    type State = State<K, L, R, N::State>;

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        (IntervalState::new(), self.next.state())
    }

    #[inline]
    fn event(
        &self,
        state: &mut Self::State,
        cx: &mut Cx,
        Event { time, value }: Event<Either<L, R>>,
    ) {
        if cx.refuses_late() {
            return cx.discard(self.op, time, value);
        }
        if is_late(time, state.0.clock) {
            cx.counters.late += 1;
            return cx.discard(self.op, time, value);
        }
        if cx.ordered {
            if M::OUTER {
                self.fire(state, cx, time);
            }
            // Else nobody sees when rows go; with the watermark that is done for many at once.
            state.0.clock = time;
        }
        cx.late = false;
        let key = cx.call(self.op, time, || (self.key)(&value));
        match value {
            Either::Left(value) => self.left(state, cx, key, Event::new(time, value)),
            Either::Right(value) => self.right(state, cx, key, Event::new(time, value)),
        }
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.fire(state, cx, watermark);
        state.0.clock = state.0.clock.max(watermark);
        self.next.watermark(&mut state.1, cx, watermark);
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        self.fire(state, cx, Timestamp::MAX);
        self.next.end(&mut state.1, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut state.1, cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        earlier(state.0.next_due(), self.next.next_timer(&state.1))
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut state.0)?;
        self.next.visit(&mut state.1, visit)
    }
}
