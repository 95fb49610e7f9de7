//! The best few.

use std::marker::PhantomData;

use super::{Aggregate, InvalidAggregate, Overflow};

/// See [`top`].
#[derive(Clone, Copy, Debug)]
pub struct Top<F, S> {
    n: usize,
    score: F,
    scores: PhantomData<fn() -> S>,
}

/// The `n` events with the highest score, the highest first, of equal ones the first first; all, if
/// there are fewer. [`Reverse`](std::cmp::Reverse) around the score gives the lowest.
///
/// A score that does not equal itself, as NaN does not, is ignored. An `n` of zero is refused.
///
/// ```
/// use mizzle_engine::operator::aggregate::{Aggregate, top};
/// let longest = top(2, |word: &&str| word.len());
/// let mut acc = longest.create();
/// ["to", "be", "or", "not", "to", "be"].iter().for_each(|word| longest.add(&mut acc, word));
/// assert_eq!(longest.finish(&acc), Ok(vec!["not", "to"]));
/// ```
pub fn top<T: Clone, S: PartialOrd + Clone, F: Fn(&T) -> S>(n: usize, score: F) -> Top<F, S> {
    Top { n, score, scores: PhantomData }
}

impl<F, S: PartialOrd> Top<F, S> {
    /// Where something with this score goes, if it is among the best.
    #[inline]
    fn place<T>(&self, best: &[(S, T)], score: &S) -> Option<usize> {
        // Only NaN and its like are not equal to themselves.
        #[allow(clippy::eq_op)]
        let comparable = score == score;
        let last = best.last().filter(|_| best.len() == self.n);
        if !comparable || last.is_some_and(|(last, _)| last >= score) {
            return None;
        }
        Some(best.partition_point(|(better, _)| better >= score))
    }

    fn put<T>(&self, best: &mut Vec<(S, T)>, place: usize, entry: (S, T)) {
        if best.len() == self.n {
            best.pop();
        }
        best.insert(place, entry);
    }
}

impl<T, S, F> Aggregate<T> for Top<F, S>
where
    T: Clone + Send + 'static,
    S: PartialOrd + Clone + Send + 'static,
    F: Fn(&T) -> S + Send + Sync + 'static,
{
    /// The best so far, the best first.
    type Acc = Vec<(S, T)>;
    type Out = Vec<T>;

    fn check(&self) -> Result<(), InvalidAggregate> {
        if self.n == 0 { Err(InvalidAggregate::TopOfNone) } else { Ok(()) }
    }

    fn create(&self) -> Vec<(S, T)> {
        Vec::new()
    }

    #[inline]
    fn add(&self, best: &mut Vec<(S, T)>, value: &T) {
        let score = (self.score)(value);
        if let Some(place) = self.place(best, &score) {
            self.put(best, place, (score, value.clone()));
        }
    }

    fn merge(&self, best: &mut Vec<(S, T)>, other: &Vec<(S, T)>) {
        for (score, value) in other {
            // The rest of the other has no higher score.
            let Some(place) = self.place(best, score) else { return };
            self.put(best, place, (score.clone(), value.clone()));
        }
    }

    fn finish(&self, best: &Vec<(S, T)>) -> Result<Vec<T>, Overflow> {
        Ok(best.iter().map(|(_, value)| value.clone()).collect())
    }
}
