//! Events from an iterator.

use super::{BadRecord, Pull, Source};
use crate::event::Event;
use crate::time::Timestamp;

/// The events that an iterable gives, in its order.
///
/// ```
/// use mizzle_engine::{Event, source::{Pull, Source, events}, time::Timestamp};
/// let mut source = events((1..=3).map(|s| Event::new(Timestamp::from_secs(s), s)));
/// let mut seen = Vec::new();
/// let mut rejects = Vec::new();
/// assert_eq!(source.pull(2, &mut |event| seen.push(event.value), &mut rejects), Pull::More);
/// assert_eq!(source.pull(2, &mut |event| seen.push(event.value), &mut rejects), Pull::Ended);
/// assert_eq!(seen, [1, 2, 3]);
/// ```
pub fn events<T, I>(events: I) -> Events<I::IntoIter>
where
    I: IntoIterator<Item = Event<T>>,
{
    Events { iter: events.into_iter() }
}

/// The values that an iterable gives, in its order, each at the time that `time` finds in it.
pub fn from_iter<I, F>(values: I, time: F) -> FromIter<I::IntoIter, F>
where
    I: IntoIterator,
    F: Fn(&I::Item) -> Timestamp,
{
    FromIter { iter: values.into_iter(), time }
}

/// What [`events`] returns.
#[derive(Debug)]
pub struct Events<I> {
    iter: I,
}

/// What [`from_iter`] returns.
#[derive(Debug)]
pub struct FromIter<I, F> {
    iter: I,
    time: F,
}

impl<T, I> Source for Events<I>
where
    T: Send + 'static,
    I: Iterator<Item = Event<T>> + Send + 'static,
{
    type Item = T;

    #[expect(
        clippy::redundant_closure,
        reason = "a reference to a closure is called for every event, a closure is compiled in"
    )]
    #[inline]
    fn pull(
        &mut self,
        budget: usize,
        emit: &mut impl FnMut(Event<T>),
        _: &mut Vec<BadRecord>,
    ) -> Pull {
        // Through a closure: a reference to a function, called as one, is not compiled into the loop.
        pull_each(&mut self.iter, budget, |event| emit(event))
    }
}

impl<T, I, F> Source for FromIter<I, F>
where
    T: Send + 'static,
    I: Iterator<Item = T> + Send + 'static,
    F: Fn(&T) -> Timestamp + Send + 'static,
{
    type Item = T;

    #[inline]
    fn pull(
        &mut self,
        budget: usize,
        emit: &mut impl FnMut(Event<T>),
        _: &mut Vec<BadRecord>,
    ) -> Pull {
        pull_each(&mut self.iter, budget, |value| emit(Event::new((self.time)(&value), value)))
    }
}

#[inline]
fn pull_each<I: Iterator>(iter: &mut I, budget: usize, mut take: impl FnMut(I::Item)) -> Pull {
    let mut left = budget;
    for item in iter.by_ref().take(budget) {
        left -= 1;
        take(item);
    }
    // Only an iterator that has nothing more leaves some of the budget.
    if left == 0 { Pull::More } else { Pull::Ended }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::sync::atomic::{AtomicUsize, Ordering};

    fn pull<S: Source>(source: &mut S, budget: usize) -> (Vec<Event<S::Item>>, Pull) {
        let mut seen = Vec::new();
        let pull = source.pull(budget, &mut |event| seen.push(event), &mut Vec::new());
        (seen, pull)
    }

    #[test]
    fn ends_only_when_exhausted() {
        let mut source = from_iter(vec![3, 1], |s| Timestamp::from_secs(*s));
        assert_eq!(pull(&mut source, 0), (vec![], Pull::More));
        let event = |s| Event::new(Timestamp::from_secs(s), s);
        assert_eq!(pull(&mut source, 1), (vec![event(3)], Pull::More));
        assert_eq!(pull(&mut source, 1), (vec![event(1)], Pull::More));
        assert_eq!(pull(&mut source, 1), (vec![], Pull::Ended));
        assert_eq!(pull(&mut events(Vec::<Event<()>>::new()), 9), (vec![], Pull::Ended));
    }

    #[test]
    fn takes_no_more_than_its_budget() {
        let taken = Arc::new(AtomicUsize::new(0));
        let count = taken.clone();
        let mut source = from_iter(
            (0..10).inspect(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            }),
            |s| Timestamp::from_secs(*s),
        );
        assert_eq!(pull(&mut source, 4).0.len(), 4);
        assert_eq!(taken.load(Ordering::Relaxed), 4);
    }
}
