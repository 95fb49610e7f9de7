//! The rows of a window, matched with each other.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use super::{Either, Matching};
use crate::operator::aggregate::{Aggregate, Overflow};

/// The rows of a window: what a join of windows keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PairedRows<L, R> {
    left: Vec<L>,
    right: Vec<R>,
}

/// An aggregate of both sides of a join: each left row of a window with each right one, and rows of a
/// window without the other side, as the join asks for them.
///
/// The pairs come by left row, then by right row, each side in order of arrival in the window.
pub struct Pairs<M, L, R> {
    matching: M,
    rows: PhantomData<fn(L, R)>,
}

impl<M, L, R> Pairs<M, L, R> {
    /// Rows as `matching` gives them.
    pub fn new(matching: M) -> Self {
        Self { matching, rows: PhantomData }
    }
}

impl<M, L, R> Aggregate<Either<L, R>> for Pairs<M, L, R>
where
    L: Clone + Send + 'static,
    R: Clone + Send + 'static,
    M: Matching<L, R>,
{
    type Acc = PairedRows<L, R>;
    type Out = Vec<M::Out>;

    fn create(&self) -> Self::Acc {
        PairedRows { left: Vec::new(), right: Vec::new() }
    }

    fn add(&self, acc: &mut Self::Acc, row: &Either<L, R>) {
        match row {
            Either::Left(row) => acc.left.push(row.clone()),
            Either::Right(row) => acc.right.push(row.clone()),
        }
    }

    fn merge(&self, acc: &mut Self::Acc, other: &Self::Acc) {
        acc.left.extend_from_slice(&other.left);
        acc.right.extend_from_slice(&other.right);
    }

    fn finish(&self, acc: &Self::Acc) -> Result<Self::Out, Overflow> {
        let PairedRows { left, right } = acc;
        let matching = &self.matching;
        Ok(if right.is_empty() {
            left.iter().filter_map(|left| matching.left(left.clone())).collect()
        } else if left.is_empty() {
            right.iter().filter_map(|right| matching.right(right.clone())).collect()
        } else {
            let with_all = |left| right.iter().map(move |right| matching.pair(left, right));
            left.iter().flat_map(with_all).collect()
        })
    }
}
