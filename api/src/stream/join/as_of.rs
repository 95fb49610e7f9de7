//! Joins with the other stream's latest row, and with a table that changes.

use std::hash::Hash;
use std::marker::PhantomData;
use std::time::Duration;

use mizzle_engine::operator::join::{
    AsOf, AsOfState, Either, Finding, Inner, Left, Lifetime, With,
};
use mizzle_engine::operator::{Consumer, OpId};
use mizzle_engine::plan::Shape;
use mizzle_engine::state::Codec;

use super::{First, Sides, either_key, meet};
use crate::build::{Build, Closing, FromSides, Joint};
use crate::stream::{KeyedStream, Stateful, Stream};

/// A stream whose events are to be given what another stream says at their time, still without what is to
/// come out.
#[must_use = "a join does nothing before it is said what comes out: `.inner()` or the like"]
pub struct AsOfJoining<L, R, K, KF> {
    stream: Sides<L, R>,
    kind: &'static str,
    key: KF,
    lifetime: Lifetime<R>,
    shape: Shape,
    keys: PhantomData<fn() -> K>,
}

/// A stream behind an as-of join or a lookup.
pub struct AsOfJoined<L, R, K, KF, M> {
    upstream: FromSides<Either<L, R>>,
    op: OpId,
    key: KF,
    lifetime: Lifetime<R>,
    finding: M,
    codec: Option<Codec<AsOfState<K, L, R>>>,
}

impl<B, K, KF> KeyedStream<B, K, KF>
where
    B: Build,
    K: Hash + Eq + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
{
    /// Gives each event the latest row of its key on `right` at its time: one with that very time is
    /// found too, of several with one time the last. Matches by event time, however late either stream
    /// comes; so an event waits until the watermark of both has passed its time, unless the join is
    /// flagged in-order. What comes next says how old a row may be, and what comes out.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mizzle::{Engine, Query, source};
    /// use mizzle::time::Timestamp;
    ///
    /// let query = Query::new("trades");
    /// let secs = |row: &(i64, i64)| Timestamp::from_secs(row.0);
    /// let trades = query.source("trades", source::from_iter([(1, 10), (5, 20), (60, 30)], secs));
    /// let quotes = query.source("quotes", source::from_iter([(0, 7), (5, 8), (6, 9)], secs));
    /// let priced = trades
    ///     .as_of(quotes)
    ///     .no_older_than(Duration::from_secs(30))
    ///     .left()
    ///     .map(|(trade, quote)| (trade.1, quote.map(|quote| quote.1)))
    ///     .collect();
    /// Engine::new()?.submit(query)?.wait();
    /// assert_eq!(priced.values(), [(10, Some(7)), (20, Some(8)), (30, None)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn as_of<C, KR>(
        self,
        right: KeyedStream<C, K, KR>,
    ) -> AsOfJoining<
        B::Out,
        C::Out,
        K,
        impl Fn(&Either<B::Out, C::Out>) -> K + Clone + Send + Sync + 'static,
    >
    where
        C: Build,
        KR: Fn(&C::Out) -> K + Clone + Send + Sync + 'static,
    {
        let key = either_key(self.key, right.key);
        finding(self.stream, right.stream, "as_of", key, Shape::Keyed)
    }

    /// Gives each event the row that `table` has for its key at its time. Each event of `table` is a row
    /// that stands from its time on, until the next one of its key, or one that
    /// [removes](AsOfJoining::removed_if) it.
    ///
    /// An event waits until the watermark of the table has passed its time: a table that is read from a
    /// file ends and is not waited for any more; for one that changes now and then see
    /// [`idle_after`](Stream::idle_after).
    ///
    /// ```
    /// use mizzle::{Engine, Query, source};
    /// use mizzle::time::Timestamp;
    ///
    /// let query = Query::new("names");
    /// let calls = source::from_iter([(3, 7), (8, 7), (9, 4)], |row| Timestamp::from_secs(row.0));
    /// let names = [(0, 7, "Ann"), (5, 7, "Bob")];
    /// let names = source::from_iter(names, |row| Timestamp::from_secs(row.0));
    /// let named = query
    ///     .source("calls", calls)
    ///     .key_by(|call| call.1)
    ///     .lookup(query.source("names", names).key_by(|row| row.1))
    ///     .left()
    ///     .in_order()
    ///     .map(|(_, row)| row.map_or("nobody", |row| row.2))
    ///     .collect();
    /// Engine::new()?.submit(query)?.wait();
    /// assert_eq!(named.values(), ["Ann", "Bob", "nobody"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn lookup<C, KR>(
        self,
        table: KeyedStream<C, K, KR>,
    ) -> AsOfJoining<
        B::Out,
        C::Out,
        K,
        impl Fn(&Either<B::Out, C::Out>) -> K + Clone + Send + Sync + 'static,
    >
    where
        C: Build,
        KR: Fn(&C::Out) -> K + Clone + Send + Sync + 'static,
    {
        let key = either_key(self.key, table.key);
        finding(self.stream, table.stream, "lookup", key, Shape::Keyed)
    }
}

impl<B: Build> Stream<B> {
    /// As [`KeyedStream::as_of`], the latest of all rows of `right`.
    #[track_caller]
    pub fn as_of<C: Build>(
        self,
        right: Stream<C>,
    ) -> AsOfJoining<
        B::Out,
        C::Out,
        (),
        impl Fn(&Either<B::Out, C::Out>) + Clone + Send + Sync + 'static,
    > {
        finding(self, right, "as_of", |_: &_| (), Shape::Single)
    }
}

#[track_caller]
fn finding<A, B, K, KF>(
    left: Stream<A>,
    right: Stream<B>,
    kind: &'static str,
    key: KF,
    shape: Shape,
) -> AsOfJoining<A::Out, B::Out, K, KF>
where
    A: Build,
    B: Build,
    K: Hash,
    KF: Fn(&Either<A::Out, B::Out>) -> K + Clone + Send + Sync + 'static,
{
    // The right side first: of one time its rows are there before the left ones look for them.
    let stream = meet(left, right, First::Right, &key);
    AsOfJoining { stream, kind, key, lifetime: Lifetime::unlimited(), shape, keys: PhantomData }
}

impl<L, R, K, KF> AsOfJoining<L, R, K, KF>
where
    L: Send + 'static,
    R: Send + Sync + 'static,
    K: Hash + Eq + Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Clone + Send + Sync + 'static,
{
    /// A row that is older than `age` at the event's time is not found; one that is exactly as old is.
    /// Keys whose rows are older are forgotten.
    pub fn no_older_than(mut self, age: Duration) -> Self {
        self.lifetime.age = Some(age);
        self
    }

    /// A row of the right side for which `removes` holds is not found itself: it removes the row that its
    /// key has.
    pub fn removed_if(mut self, removes: impl Fn(&R) -> bool + Send + Sync + 'static) -> Self {
        self.lifetime.removes = Some(Box::new(removes));
        self
    }

    /// Each event for which a row is found, with that row: `(L, R)`. Other events are filtered out.
    #[track_caller]
    pub fn inner(self) -> Stream<AsOfJoined<L, R, K, KF, Inner>>
    where
        Inner: Finding<L, R>,
    {
        self.found(Inner)
    }

    /// What `f` makes of each event for which a row is found, and that row, which is not cloned.
    #[track_caller]
    pub fn inner_with<U, F>(self, f: F) -> Stream<AsOfJoined<L, R, K, KF, With<F>>>
    where
        U: Send + 'static,
        F: Fn(L, &R) -> U + Send + Sync + 'static,
    {
        self.found(With(f))
    }

    /// Each event, with the row that is found for it, if one is: `(L, Option<R>)`.
    #[track_caller]
    pub fn left(self) -> Stream<AsOfJoined<L, R, K, KF, Left>>
    where
        Left: Finding<L, R>,
    {
        self.found(Left)
    }

    #[track_caller]
    fn found<M: Finding<L, R>>(self, finding: M) -> Stream<AsOfJoined<L, R, K, KF, M>> {
        let Self { stream, kind, key, lifetime, shape, .. } = self;
        stream.then(kind, shape, |upstream, op| AsOfJoined {
            upstream,
            op,
            key,
            lifetime,
            finding,
            codec: None,
        })
    }
}

impl<L, R, K, KF, M> Build for AsOfJoined<L, R, K, KF, M>
where
    L: Send + 'static,
    R: Send + Sync + 'static,
    K: Hash + Eq + Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Clone + Send + Sync + 'static,
    M: Finding<L, R>,
{
    type Out = M::Out;
    type Head = FromSides<Either<L, R>>;

    const JOINT: Joint = Joint::Linked;

    fn close<N: Consumer<M::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, key, lifetime, finding, codec } = self;
        let consumer = AsOf::new(op, key, lifetime, finding, codec, next);
        closing.join(upstream, op, consumer);
    }
}

impl<L, R, K, KF, M> Stateful for AsOfJoined<L, R, K, KF, M>
where
    L: 'static,
    R: 'static,
    K: 'static,
    AsOfJoined<L, R, K, KF, M>: Build,
{
    type State = AsOfState<K, L, R>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}
