//! Joins of rows that lie so much time apart.

use std::hash::Hash;

use mizzle_engine::operator::join::{
    Either, Full, Inner, Interval, IntervalJoin, IntervalState, Left, Matching, Right, With,
};
use mizzle_engine::operator::{Consumer, OpId};
use mizzle_engine::state::Codec;

use super::Joining;
use crate::build::{Build, Closing, FromSides, Joint};
use crate::stream::{Stateful, Stream};

/// Two streams whose rows match by key and time, still without what is to come out.
#[must_use = "a join does nothing before it is said what comes out: `.inner()` or the like"]
pub struct IntervalJoining<L, R, K, KF> {
    pub(super) joining: Joining<L, R, K, KF>,
    pub(super) interval: Interval,
}

/// A stream behind an interval join.
pub struct IntervalJoined<L, R, K, KF, M> {
    upstream: FromSides<Either<L, R>>,
    op: OpId,
    interval: Interval,
    key: KF,
    matching: M,
    codec: Option<Codec<IntervalState<K, L, R>>>,
}

impl<L, R, K, KF> IntervalJoining<L, R, K, KF>
where
    L: Send + 'static,
    R: Send + 'static,
    K: Hash + Eq + Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Clone + Send + Sync + 'static,
{
    /// Each two rows that match, as `(L, R)`, when the later one comes and with its time.
    #[track_caller]
    pub fn inner(self) -> Stream<IntervalJoined<L, R, K, KF, Inner>>
    where
        Inner: Matching<L, R>,
    {
        self.matched(Inner)
    }

    /// What `f` makes of each two rows that match; neither is cloned.
    #[track_caller]
    pub fn inner_with<U, F>(self, f: F) -> Stream<IntervalJoined<L, R, K, KF, With<F>>>
    where
        U: Send + 'static,
        F: Fn(&L, &R) -> U + Send + Sync + 'static,
    {
        self.matched(With(f))
    }

    /// Each two rows that match, and each left row that nothing matched, as `(L, Option<R>)`.
    ///
    /// A row comes out unmatched when no partner can come any more, with the later of its own time and
    /// that of its last possible partner.
    #[track_caller]
    pub fn left(self) -> Stream<IntervalJoined<L, R, K, KF, Left>>
    where
        Left: Matching<L, R>,
    {
        self.matched(Left)
    }

    /// Each two rows that match, and each right row that nothing matched, as `(Option<L>, R)`. See
    /// [`left`](Self::left).
    #[track_caller]
    pub fn right(self) -> Stream<IntervalJoined<L, R, K, KF, Right>>
    where
        Right: Matching<L, R>,
    {
        self.matched(Right)
    }

    /// Each two rows that match, and each row of either side that nothing matched, as `(Option<L>,
    /// Option<R>)`: one of them at least is there. See [`left`](Self::left).
    #[track_caller]
    pub fn full(self) -> Stream<IntervalJoined<L, R, K, KF, Full>>
    where
        Full: Matching<L, R>,
    {
        self.matched(Full)
    }

    #[track_caller]
    fn matched<M: Matching<L, R>>(self, matching: M) -> Stream<IntervalJoined<L, R, K, KF, M>> {
        let Self { joining: Joining { stream, key, shape, .. }, interval } = self;
        let checked = interval.check();
        let stream = stream.then("interval_join", shape, |upstream, op| IntervalJoined {
            upstream,
            op,
            interval,
            key,
            matching,
            codec: None,
        });
        if let Err(error) = checked {
            stream.refuse(error);
        }
        stream
    }
}

impl<L, R, K, KF, M> Build for IntervalJoined<L, R, K, KF, M>
where
    L: Send + 'static,
    R: Send + 'static,
    K: Hash + Eq + Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Clone + Send + Sync + 'static,
    M: Matching<L, R>,
{
    type Out = M::Out;
    type Head = FromSides<Either<L, R>>;

    const JOINT: Joint = Joint::Linked;

    fn close<N: Consumer<M::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, interval, key, matching, codec } = self;
        let consumer = IntervalJoin::new(op, interval, key, matching, codec, next);
        closing.join(upstream, op, consumer);
    }
}

impl<L, R, K, KF, M> Stateful for IntervalJoined<L, R, K, KF, M>
where
    L: 'static,
    R: 'static,
    K: 'static,
    IntervalJoined<L, R, K, KF, M>: Build,
{
    type State = IntervalState<K, L, R>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}
