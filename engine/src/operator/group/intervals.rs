//! Which of many intervals a value lies in.
//!
//! Intervals are kept in runs, each sorted by lower bound under a tree of the greatest upper bound
//! below each node. Runs have sizes of powers of two, as the digits of a counter: an interval that
//! comes is merged with the runs that are no longer than itself, which costs a logarithm per interval,
//! and one that goes is marked and left out when its run is next merged, or when half of it is marked.
//! A value looks into every run, and there only where something is that it lies in.

use std::cmp::Ordering;
use std::ops::{Bound, RangeBounds};

/// An interval of values: what a member on a range is added for.
///
/// ```
/// use mizzle_engine::operator::group::Span;
/// assert_eq!(Span::new((std::ops::Bound::Excluded(7), std::ops::Bound::Unbounded)), Span::above(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<V> {
    /// Where it begins.
    pub from: Bound<V>,
    /// Where it ends.
    pub to: Bound<V>,
}

impl<V: Clone> Span<V> {
    /// The values of a range: `Span::new(10..20)`, `Span::new(..=0.5)`.
    pub fn new(range: impl RangeBounds<V>) -> Self {
        Self { from: range.start_bound().cloned(), to: range.end_bound().cloned() }
    }

    /// The values greater than `value`.
    pub fn above(value: V) -> Self {
        Self { from: Bound::Excluded(value), to: Bound::Unbounded }
    }
}

impl<V: PartialOrd> Span<V> {
    /// Why no value lies in it, if that is so.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let value = |bound: &Bound<V>| match bound {
            Bound::Included(value) | Bound::Excluded(value) => value.partial_cmp(value).is_some(),
            Bound::Unbounded => true,
        };
        if !value(&self.from) || !value(&self.to) {
            return Some(
                "a bound that is not comparable, such as NaN, has nothing below or above it",
            );
        }
        let (from, to) = match (&self.from, &self.to) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => return None,
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => (from, to),
        };
        let both = matches!((&self.from, &self.to), (Bound::Included(_), Bound::Included(_)));
        match from.partial_cmp(to) {
            Some(Ordering::Less) => None,
            Some(Ordering::Equal) if both => None,
            _ => Some("the interval is empty"),
        }
    }

    fn begins_by(&self, value: &V) -> bool {
        match &self.from {
            Bound::Included(from) => from <= value,
            Bound::Excluded(from) => from < value,
            Bound::Unbounded => true,
        }
    }
}

/// Whether an interval that ends at `to` reaches `value`.
fn reaches<V: PartialOrd>(to: &Bound<V>, value: &V) -> bool {
    match to {
        Bound::Included(to) => value <= to,
        Bound::Excluded(to) => value < to,
        Bound::Unbounded => true,
    }
}

/// Compares bounds of one side: where one without a bound stands, and one that includes its value.
fn compare<V: PartialOrd>(
    a: &Bound<V>,
    b: &Bound<V>,
    unbounded: Ordering,
    included: Ordering,
) -> Ordering {
    let value = |bound: &Bound<V>| match bound {
        Bound::Included(_) => 0,
        _ => 1,
    };
    match (a, b) {
        (Bound::Unbounded, Bound::Unbounded) => Ordering::Equal,
        (Bound::Unbounded, _) => unbounded,
        (_, Bound::Unbounded) => unbounded.reverse(),
        (Bound::Included(x) | Bound::Excluded(x), Bound::Included(y) | Bound::Excluded(y)) => {
            let by_kind = if included == Ordering::Less {
                value(a).cmp(&value(b))
            } else {
                value(b).cmp(&value(a))
            };
            x.partial_cmp(y).unwrap_or(Ordering::Equal).then(by_kind)
        }
    }
}

fn by_from<V: PartialOrd>(a: &Bound<V>, b: &Bound<V>) -> Ordering {
    compare(a, b, Ordering::Less, Ordering::Less)
}

fn by_to<V: PartialOrd>(a: &Bound<V>, b: &Bound<V>) -> Ordering {
    compare(a, b, Ordering::Greater, Ordering::Greater)
}

/// Intervals, each with a number.
pub struct Intervals<V> {
    /// Of these, run `i` holds at most `2^i` intervals, or none.
    runs: Vec<Run<V>>,
}

impl<V> Default for Intervals<V> {
    fn default() -> Self {
        Self { runs: Vec::new() }
    }
}

struct Entry<V> {
    span: Span<V>,
    number: u32,
    gone: bool,
}

struct Run<V> {
    /// By lower bound.
    entries: Vec<Entry<V>>,
    /// An implicit tree over `entries`: node `n` has children `2n` and `2n + 1`; each holds the position of
    /// the entry below it that reaches furthest.
    furthest: Vec<u32>,
    gone: usize,
}

impl<V> Default for Run<V> {
    fn default() -> Self {
        Self { entries: Vec::new(), furthest: Vec::new(), gone: 0 }
    }
}

impl<V: PartialOrd> Run<V> {
    fn build(mut entries: Vec<Entry<V>>) -> Self {
        // Those of one lower bound in the order of their numbers: stable.
        entries.sort_by(|a, b| by_from(&a.span.from, &b.span.from));
        let leaves = entries.len().next_power_of_two();
        let mut furthest = vec![u32::MAX; 2 * leaves];
        for position in 0..entries.len() {
            furthest[leaves + position] = position as u32;
        }
        let run = |furthest: &[u32], node: usize| {
            let (left, right) = (furthest[2 * node], furthest[2 * node + 1]);
            match (entries.get(left as usize), entries.get(right as usize)) {
                (Some(a), Some(b)) if by_to(&a.span.to, &b.span.to).is_lt() => right,
                (Some(_), _) => left,
                _ => right,
            }
        };
        for node in (1..leaves).rev() {
            furthest[node] = run(&furthest, node);
        }
        Self { entries, furthest, gone: 0 }
    }

    fn find(&self, value: &V, hit: &mut impl FnMut(u32)) {
        // Entries from here on begin behind the value.
        let end = self.entries.partition_point(|entry| entry.span.begins_by(value));
        if end > 0 {
            let leaves = self.furthest.len() / 2;
            self.descend(1, 0, leaves, end, value, hit);
        }
    }

    /// Reports what reaches `value` among the first `end` entries below `node`, which stands for
    /// `width` entries from `first` on.
    fn descend(
        &self,
        node: usize,
        first: usize,
        width: usize,
        end: usize,
        value: &V,
        hit: &mut impl FnMut(u32),
    ) {
        if first >= end {
            return;
        }
        let Some(furthest) = self.entries.get(self.furthest[node] as usize) else { return };
        if !reaches(&furthest.span.to, value) {
            return;
        }
        if width == 1 {
            if !furthest.gone {
                hit(furthest.number);
            }
            return;
        }
        self.descend(2 * node, first, width / 2, end, value, hit);
        self.descend(2 * node + 1, first + width / 2, width / 2, end, value, hit);
    }
}

impl<V: PartialOrd + Clone> Intervals<V> {
    /// Adds `span` under `number`.
    pub fn insert(&mut self, span: Span<V>, number: u32) {
        let mut entries = vec![Entry { span, number, gone: false }];
        for level in 0.. {
            if self.runs.len() <= level {
                self.runs.push(Run::default());
            }
            let run = &mut self.runs[level];
            if run.entries.is_empty() && entries.len() <= 1 << level {
                *run = Run::build(entries);
                return;
            }
            let mut more = std::mem::take(run).entries;
            more.retain(|entry| !entry.gone);
            more.append(&mut entries);
            entries = more;
        }
    }

    /// Takes `number` out, which was added with `span`.
    pub fn remove(&mut self, span: &Span<V>, number: u32) {
        for run in &mut self.runs {
            let from = run.entries.partition_point(|e| by_from(&e.span.from, &span.from).is_lt());
            let same = run.entries[from..]
                .iter_mut()
                .take_while(|entry| by_from(&entry.span.from, &span.from).is_eq())
                .find(|entry| entry.number == number && !entry.gone);
            let Some(entry) = same else { continue };
            entry.gone = true;
            run.gone += 1;
            if 2 * run.gone >= run.entries.len() {
                let mut entries = std::mem::take(run).entries;
                entries.retain(|entry| !entry.gone);
                if !entries.is_empty() {
                    *run = Run::build(entries);
                }
            }
            break;
        }
        while self.runs.last().is_some_and(|run| run.entries.is_empty()) {
            self.runs.pop();
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Hands `hit` the numbers of all intervals that `value` lies in, in no particular order.
    pub fn find(&self, value: &V, mut hit: impl FnMut(u32)) {
        for run in &self.runs {
            run.find(value, &mut hit);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bound() -> impl Strategy<Value = Bound<i8>> {
        prop_oneof![
            (-9..9i8).prop_map(Bound::Included),
            (-9..9i8).prop_map(Bound::Excluded),
            Just(Bound::Unbounded)
        ]
    }

    proptest! {
        /// Against looking at every interval, with removals between.
        #[test]
        fn finds_what_contains(steps in proptest::collection::vec((bound(), bound(), any::<bool>(), 0..64usize), 1..120)) {
            let mut intervals = Intervals::default();
            let mut naive: Vec<(Span<i8>, u32)> = Vec::new();
            for (number, (from, to, removes, which)) in steps.into_iter().enumerate() {
                let span = Span { from, to };
                if span.fault().is_none() {
                    intervals.insert(span, number as u32);
                    naive.push((span, number as u32));
                }
                if removes && !naive.is_empty() {
                    let (span, number) = naive.remove(which % naive.len());
                    intervals.remove(&span, number);
                }
                for value in -10..10i8 {
                    let mut found = Vec::new();
                    intervals.find(&value, |number| found.push(number));
                    found.sort_unstable();
                    let contains = |(span, _): &&(Span<i8>, u32)| (span.from, span.to).contains(&value);
                    let expected: Vec<_> = naive.iter().filter(contains).map(|&(_, n)| n).collect();
                    prop_assert_eq!(found, expected, "value {}", value);
                }
            }
        }

        #[test]
        fn refuses_exactly_what_holds_nothing(from in bound(), to in bound()) {
            // Open intervals between neighbours hold values of a finer type.
            let holds = (-100..100i32).any(|tenth| {
                let scale = |bound: Bound<i8>| bound.map(|value| i32::from(value) * 10);
                (scale(from), scale(to)).contains(&tenth)
            });
            prop_assert_eq!(Span { from, to }.fault().is_none(), holds);
        }
    }

    #[test]
    fn nan_bounds_nothing() {
        assert!(Span { from: Bound::Included(f64::NAN), to: Bound::Unbounded }.fault().is_some());
        let mut intervals = Intervals::default();
        intervals.insert(Span { from: Bound::Included(1.0), to: Bound::Unbounded }, 0);
        intervals.find(&f64::NAN, |_| panic!("NaN lies in no interval with a bound"));
    }

    #[test]
    fn what_is_removed_leaves_nothing_behind() {
        let span = |from: u32| Span { from: Bound::Included(from), to: Bound::Unbounded };
        let mut intervals = Intervals::default();
        (0..1000).for_each(|number| intervals.insert(span(number % 7), number));
        (0..1000).for_each(|number| intervals.remove(&span(number % 7), number));
        assert!(intervals.runs.is_empty());
    }
}
