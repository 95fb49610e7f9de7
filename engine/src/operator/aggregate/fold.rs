//! Aggregates of the user's own.

use super::{Aggregate, Overflow};

/// See [`fold`].
#[derive(Clone, Copy, Debug)]
pub struct Fold<I, A, M, F> {
    init: I,
    add: A,
    merge: M,
    finish: F,
}

/// An aggregate of your own: `init` makes the accumulator of no values, `add` adds a value, `merge`
/// adds another accumulator that holds later values, `finish` gives the result.
///
/// ```
/// use mizzle_engine::operator::aggregate::{Aggregate, fold};
/// let longest = fold(
///     || 0,
///     |acc: &mut usize, word: &&str| *acc = word.len().max(*acc),
///     |acc: &mut usize, other: &usize| *acc = *other.max(acc),
///     |acc: &usize| *acc,
/// );
/// let mut acc = longest.create();
/// longest.add(&mut acc, &"mizzle");
/// assert_eq!(longest.finish(&acc), Ok(6));
/// ```
pub fn fold<T, Acc, Out, I, A, M, F>(init: I, add: A, merge: M, finish: F) -> Fold<I, A, M, F>
where
    I: Fn() -> Acc,
    A: Fn(&mut Acc, &T),
    M: Fn(&mut Acc, &Acc),
    F: Fn(&Acc) -> Out,
{
    Fold { init, add, merge, finish }
}

impl<T, Acc, Out, I, A, M, F> Aggregate<T> for Fold<I, A, M, F>
where
    Acc: Send + 'static,
    Out: Send + 'static,
    I: Fn() -> Acc + Send + Sync + 'static,
    A: Fn(&mut Acc, &T) + Send + Sync + 'static,
    M: Fn(&mut Acc, &Acc) + Send + Sync + 'static,
    F: Fn(&Acc) -> Out + Send + Sync + 'static,
{
    type Acc = Acc;
    type Out = Out;

    fn create(&self) -> Acc {
        (self.init)()
    }

    #[inline(always)]
    fn add(&self, acc: &mut Acc, value: &T) {
        (self.add)(acc, value);
    }

    fn merge(&self, acc: &mut Acc, other: &Acc) {
        (self.merge)(acc, other);
    }

    fn finish(&self, acc: &Acc) -> Result<Out, Overflow> {
        Ok((self.finish)(acc))
    }
}
