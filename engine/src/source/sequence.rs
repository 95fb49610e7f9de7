//! Several sources, one after the other.

use std::collections::VecDeque;

use super::{BadRecord, Pull, Source, SourceCx, number};
use crate::event::Event;

/// The events of all `sources`: those of the second when the first has ended, and so on. They are one
/// stream with one watermark; `Query::sources` merges them by time instead.
///
/// ```
/// use mizzle_engine::{source::{Pull, Source, from_iter, sequence}, time::Timestamp};
/// let days = [vec![1, 2], vec![3]].map(|day| from_iter(day, |&n| Timestamp::from_secs(n)));
/// let (mut source, mut seen, mut rejects) = (sequence(days), Vec::new(), Vec::new());
/// while source.pull(10, &mut |event| seen.push(event.value), &mut rejects) != Pull::Ended {}
/// assert_eq!(seen, [1, 2, 3]);
/// ```
pub fn sequence<S: Source>(sources: impl IntoIterator<Item = S>) -> Sequence<S> {
    Sequence { sources: sources.into_iter().collect(), present: 0, cx: None }
}

/// What [`sequence`] returns.
pub struct Sequence<S> {
    /// Those that have not ended.
    sources: VecDeque<S>,
    /// The number of the first of them.
    present: usize,
    cx: Option<SourceCx>,
}

impl<S: Source> Sequence<S> {
    fn start_present(&mut self) {
        if let (Some(source), Some(cx)) = (self.sources.front_mut(), &self.cx) {
            source.start(cx);
        }
    }
}

impl<S: Source> Source for Sequence<S> {
    type Item = S::Item;

    fn pull(
        &mut self,
        budget: usize,
        emit: &mut impl FnMut(Event<S::Item>),
        rejects: &mut Vec<BadRecord>,
    ) -> Pull {
        let Some(source) = self.sources.front_mut() else { return Pull::Ended };
        let from = rejects.len();
        let pull = source.pull(budget, emit, rejects);
        number(rejects, from, self.present);
        if pull != Pull::Ended {
            return pull;
        }
        self.sources.pop_front();
        self.present += 1;
        self.start_present();
        if self.sources.is_empty() { Pull::Ended } else { Pull::More }
    }

    fn check(&self) -> Result<(), String> {
        if self.sources.is_empty() {
            return Err("there is nothing to read".to_owned());
        }
        self.sources.iter().try_for_each(Source::check)
    }

    fn start(&mut self, cx: &SourceCx) {
        self.cx = Some(cx.clone());
        self.start_present();
    }

    fn close(&mut self) -> bool {
        // Those behind it have taken nothing.
        self.sources.truncate(1);
        self.sources.front_mut().is_none_or(Source::close)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::csv;
    use crate::time::Timestamp;

    #[test]
    fn a_bad_record_says_which_input_it_is_from() {
        let files = ["n\n1\nx\n", "n\n", "n\ny\n2\n"];
        let files =
            files.map(|text| csv(text.as_bytes(), |&(n,): &(i64,)| Timestamp::from_secs(n)));
        let (mut source, mut seen, mut rejects) = (sequence(files), Vec::new(), Vec::new());
        while source.pull(1, &mut |event| seen.push(event.value.0), &mut rejects) == Pull::More {}
        assert_eq!(seen, [1, 2]);
        let places: Vec<_> = rejects.iter().map(|bad| (bad.input, bad.line)).collect();
        assert_eq!(places, [(0, 3), (2, 2)]);
    }

    #[test]
    fn of_nothing_there_is_no_sequence() {
        assert!(
            sequence(Vec::<crate::source::Events<std::iter::Empty<Event<()>>>>::new())
                .check()
                .is_err()
        );
    }
}
