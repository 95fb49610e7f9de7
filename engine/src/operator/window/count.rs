//! Count windows: of so many events of a key, one every so many.
//!
//! They are kept in slices of as many events as divides both numbers; a window that is complete is
//! merged from its slices.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::driven::{Driven, DrivenState, Rule, Stretch, driven_kind};
use super::{InvalidWindow, Windows, not_zero};
use crate::operator::aggregate::Aggregate;
use crate::time::Timestamp;

/// Count windows: made by [`Windows::count`] and [`Windows::sliding_count`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountWindows {
    size: u64,
    every: u64,
    /// How many events make a slice.
    slice: u64,
}

impl Windows {
    /// Windows of `n` events of a key, side by side. At the end of the stream those that are left, if
    /// any, are a window of their own.
    pub fn count(n: u64) -> CountWindows {
        Self::sliding_count(n, n)
    }

    /// Windows of `n` events of a key, one beginning every `every` of them. The first is complete with
    /// the `n`th event; at the end of the stream events that have been in none are in a last one. If
    /// `every` is more than `n`, events between two windows are in none: they are filtered out.
    ///
    /// A result is merged from as many parts as the greatest common divisor of both goes into `n`.
    pub fn sliding_count(n: u64, every: u64) -> CountWindows {
        let (mut slice, mut rest) = (n, every);
        while rest > 0 {
            (slice, rest) = (rest, slice % rest);
        }
        CountWindows { size: n, every, slice }
    }
}

/// What is kept of a key.
#[derive(Serialize, Deserialize)]
pub struct Counted<Acc> {
    /// Full slices, the earliest first.
    slices: VecDeque<Stretch<Acc>>,
    /// The slice that is being filled.
    current: Option<Stretch<Acc>>,
    /// How many events have been in no window yet.
    fresh: u64,
    /// How many events come before the next window begins.
    between: u64,
}

impl<Acc> Counted<Acc> {
    /// All that there is, earliest first.
    fn total<T, A: Aggregate<T, Acc = Acc>>(&mut self, aggregate: &A) -> Option<Stretch<Acc>> {
        if self.slices.is_empty() {
            return self.current.take();
        }
        let mut parts = self.slices.iter().chain(&self.current);
        let mut total = parts.next()?.copy(aggregate);
        parts.for_each(|part| total.merge(aggregate, part));
        Some(total)
    }
}

impl<T: Send + 'static> Rule<T> for CountWindows {
    type Held<Acc: Send + 'static> = Counted<Acc>;

    fn begins(&self, _: &T) -> bool {
        true
    }

    fn nothing<Acc: Send + 'static>(&self) -> Counted<Acc> {
        Counted { slices: VecDeque::new(), current: None, fresh: 0, between: 0 }
    }

    #[inline]
    fn take<A: Aggregate<T>>(
        &self,
        aggregate: &A,
        held: &mut Counted<A::Acc>,
        time: Timestamp,
        value: &T,
    ) -> Option<Stretch<A::Acc>> {
        if held.between > 0 {
            held.between -= 1;
            return None;
        }
        held.fresh += 1;
        let current = match &mut held.current {
            Some(current) => {
                current.add(aggregate, time, value);
                current
            }
            none => none.insert(Stretch::of(aggregate, time, value)),
        };
        let complete = held.slices.len() as u64 + 1 == self.size / self.slice;
        if current.count < self.slice {
            return None;
        }
        let window = if complete { held.total(aggregate) } else { None };
        held.slices.extend(held.current.take());
        if complete {
            held.fresh = 0;
            let passed = self.every / self.slice;
            let kept = held.slices.len() as u64;
            held.slices.drain(..passed.min(kept) as usize);
            held.between = self.every.saturating_sub(self.size);
        }
        window
    }

    fn is_over<Acc: Send + 'static>(&self, held: &Counted<Acc>) -> bool {
        held.slices.is_empty() && held.current.is_none() && held.between == 0
    }

    fn rest<A: Aggregate<T>>(
        &self,
        aggregate: &A,
        mut held: Counted<A::Acc>,
    ) -> Option<Stretch<A::Acc>> {
        if held.fresh == 0 { None } else { held.total(aggregate) }
    }
}

driven_kind!([] CountWindows, Counted, |windows| {
    not_zero("count", windows.size > 0)?;
    not_zero("hop", windows.every > 0)
});
