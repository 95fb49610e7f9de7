//! Rows of two sides in the order in which one side finds the other as of its time.

use serde::{Deserialize, Serialize};

use super::Either;
use crate::event::Event;
use crate::time::{Reorder, Timestamp};

/// Holds rows back until the watermark has passed their time, in a chain that is not ordered.
///
/// They leave in order of time; of one time right rows go first, so that a left one finds them; else in
/// order of arrival.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sorted<L, R> {
    held: Reorder<Either<L, R>>,
}

impl<L, R> Default for Sorted<L, R> {
    fn default() -> Self {
        Self { held: Reorder::new() }
    }
}

impl<L, R> Sorted<L, R> {
    #[inline]
    pub(super) fn push(&mut self, event: Event<Either<L, R>>) {
        self.held.push(event);
    }

    /// When some of them are due, or a little earlier.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.held.earliest().map(Timestamp::next)
    }

    /// Hands out every row that is earlier than `watermark`: of those at it more may come.
    pub(super) fn release(
        &mut self,
        watermark: Timestamp,
        f: &mut impl FnMut(Timestamp, Either<L, R>),
    ) {
        if watermark > Timestamp::MIN {
            self.release_through(watermark.previous(), f);
        }
    }

    /// Hands out every row that is not later than `last`, after which nothing comes that is not.
    pub(super) fn release_through(
        &mut self,
        last: Timestamp,
        f: &mut impl FnMut(Timestamp, Either<L, R>),
    ) {
        // Left rows of one time, until the right ones are through.
        let mut lefts: Vec<Event<L>> = Vec::new();
        self.held.release(last, &mut |Event { time, value }| {
            if lefts.first().is_some_and(|left| left.time < time) {
                lefts.drain(..).for_each(|left| f(left.time, Either::Left(left.value)));
            }
            match value {
                Either::Left(value) => lefts.push(Event::new(time, value)),
                right => f(time, right),
            }
        });
        lefts.drain(..).for_each(|left| f(left.time, Either::Left(left.value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn right_rows_of_one_time_go_first() {
        let at = Timestamp::from_micros;
        let mut sorted = Sorted::default();
        let rows = [(2, Either::Left('a')), (2, Either::Right(1)), (1, Either::Left('b'))];
        let more = [(2, Either::Left('c')), (2, Either::Right(2)), (3, Either::Right(3))];
        rows.into_iter().chain(more).for_each(|(t, row)| sorted.push(Event::new(at(t), row)));
        let mut seen = Vec::new();
        sorted.release(at(2), &mut |time, row| seen.push((time.as_micros(), row)));
        assert_eq!(seen, [(1, Either::Left('b'))]);
        sorted.release(at(3), &mut |time, row| seen.push((time.as_micros(), row)));
        let rights = [(2, Either::Right(1)), (2, Either::Right(2))];
        let lefts = [(2, Either::Left('a')), (2, Either::Left('c'))];
        assert_eq!(seen[1..], [rights, lefts].concat());
        assert_eq!(sorted.due(), Some(at(4)));
    }
}
