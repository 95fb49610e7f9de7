//! Joins of rows that lie in one window.

use std::hash::Hash;
use std::time::Duration;

use mizzle_engine::operator::aggregate::Aggregate;
use mizzle_engine::operator::join::{
    Either, Full, Inner, Left, Matching, PairedRows, Pairs, Right,
};
use mizzle_engine::operator::{Consumer, FlatMap, OpId, Trigger, Updatable, WindowKind, Windowed};
use mizzle_engine::state::Codec;

use super::Joining;
use crate::build::{Build, Closing, FromSides, Joint};
use crate::stream::{Stateful, Stream};

/// Two streams whose rows match by key and window, still without what is to come out.
#[must_use = "a join does nothing before it is said what comes out: `.inner()` or the like"]
pub struct WindowJoining<L, R, K, KF, W> {
    pub(super) joining: Joining<L, R, K, KF>,
    pub(super) windows: W,
}

/// A stream behind a window over both sides of a join.
pub struct WindowGathered<L, R, K, KF, W, A>
where
    W: WindowKind<Either<L, R>, K>,
    A: Aggregate<Either<L, R>>,
{
    upstream: FromSides<Either<L, R>>,
    op: OpId,
    windows: W,
    key: KF,
    aggregate: A,
    codec: Option<Codec<W::State<A::Acc>>>,
}

/// A stream behind a join of windows.
pub struct WindowJoined<L, R, K, KF, W, M>(WindowGathered<L, R, K, KF, W, Pairs<M, L, R>>)
where
    L: Clone + Send + 'static,
    R: Clone + Send + 'static,
    W: WindowKind<Either<L, R>, K>,
    M: Matching<L, R>;

impl<L, R, K, KF, W: Updatable> WindowJoining<L, R, K, KF, W> {
    /// Keeps each window for `lateness` longer than its end: a late row that belongs to it changes it, and
    /// what the window gives then comes out at once, marked as [`Corrected`](crate::Phase::Corrected): all of
    /// its rows, in the place of those that it gave before.
    pub fn allowed_lateness(self, lateness: Duration) -> WindowJoining<L, R, K, KF, W::Updating> {
        self.updated(|windows| windows.updated(|updates| updates.allow(lateness)))
    }

    /// Gives results before a window is over too, marked as [`Early`](crate::Phase::Early): each time all
    /// rows that the window has so far. Of each sort of trigger there can be one.
    pub fn early(self, trigger: Trigger) -> WindowJoining<L, R, K, KF, W::Updating> {
        self.updated(|windows| windows.updated(|updates| updates.early(trigger)))
    }

    fn updated(
        self,
        change: impl FnOnce(W) -> W::Updating,
    ) -> WindowJoining<L, R, K, KF, W::Updating> {
        let Self { joining, windows } = self;
        WindowJoining { joining, windows: change(windows) }
    }
}

impl<L, R, K, KF, W> WindowJoining<L, R, K, KF, W>
where
    L: Send + 'static,
    R: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Clone + Send + Sync + 'static,
    W: WindowKind<Either<L, R>, K>,
{
    /// What `aggregate` makes of the rows of both sides in each window: for what pairs do not tell.
    #[track_caller]
    pub fn aggregate<A>(self, aggregate: A) -> Stream<WindowGathered<L, R, K, KF, W, A>>
    where
        A: Aggregate<Either<L, R>>,
    {
        let Self { joining: Joining { stream, key, shape, .. }, windows } = self;
        let (kind, sums) = (windows.check(), aggregate.check());
        let stream = stream.then("window_join", shape, |upstream, op| WindowGathered {
            upstream,
            op,
            windows,
            key,
            aggregate,
            codec: None,
        });
        if let Err(error) = kind {
            stream.refuse(error);
        }
        if let Err(error) = sums {
            stream.refuse(error);
        }
        stream
    }

    /// Each left row of a window with each right one, as `(L, R)` with the bounds of the window.
    #[track_caller]
    pub fn inner(self) -> Stream<WindowJoined<L, R, K, KF, W, Inner>>
    where
        L: Clone,
        R: Clone,
    {
        self.matched(Inner)
    }

    /// As [`inner`](Self::inner), and the left rows of windows without a right one: `(L, Option<R>)`.
    #[track_caller]
    pub fn left(self) -> Stream<WindowJoined<L, R, K, KF, W, Left>>
    where
        L: Clone,
        R: Clone,
    {
        self.matched(Left)
    }

    /// As [`inner`](Self::inner), and the right rows of windows without a left one: `(Option<L>, R)`.
    #[track_caller]
    pub fn right(self) -> Stream<WindowJoined<L, R, K, KF, W, Right>>
    where
        L: Clone,
        R: Clone,
    {
        self.matched(Right)
    }

    /// As [`inner`](Self::inner), and the rows of windows without the other side: `(Option<L>,
    /// Option<R>)`.
    #[track_caller]
    pub fn full(self) -> Stream<WindowJoined<L, R, K, KF, W, Full>>
    where
        L: Clone,
        R: Clone,
    {
        self.matched(Full)
    }

    #[track_caller]
    fn matched<M>(self, matching: M) -> Stream<WindowJoined<L, R, K, KF, W, M>>
    where
        L: Clone,
        R: Clone,
        M: Matching<L, R>,
    {
        let Stream { graph, draft, build } = self.aggregate(Pairs::new(matching));
        Stream { graph, draft, build: WindowJoined(build) }
    }
}

impl<L, R, K, KF, W, A> Build for WindowGathered<L, R, K, KF, W, A>
where
    L: Send + 'static,
    R: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Clone + Send + Sync + 'static,
    W: WindowKind<Either<L, R>, K>,
    A: Aggregate<Either<L, R>>,
{
    type Out = Windowed<K, A::Out>;
    type Head = FromSides<Either<L, R>>;

    const JOINT: Joint = Joint::Linked;

    fn close<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, windows, key, aggregate, codec } = self;
        closing.join(upstream, op, windows.operator(op, key, aggregate, codec, next));
    }
}

impl<L, R, K, KF, W, A> Stateful for WindowGathered<L, R, K, KF, W, A>
where
    K: 'static,
    W: WindowKind<Either<L, R>, K>,
    A: Aggregate<Either<L, R>>,
    WindowGathered<L, R, K, KF, W, A>: Build,
{
    type State = W::State<A::Acc>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}

impl<L, R, K, KF, W, M> Build for WindowJoined<L, R, K, KF, W, M>
where
    L: Clone + Send + 'static,
    R: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Clone + Send + Sync + 'static,
    W: WindowKind<Either<L, R>, K>,
    M: Matching<L, R>,
{
    type Out = Windowed<K, M::Out>;
    type Head = FromSides<Either<L, R>>;

    const JOINT: Joint = Joint::Linked;

    fn close<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let one_by_one = FlatMap::<_, _, _, false>::new(self.0.op, each::<K, M::Out>, next);
        self.0.close(one_by_one, closing);
    }
}

/// Each of the results of a window, with its bounds.
fn each<K: Clone, U>(window: Windowed<K, Vec<U>>) -> impl Iterator<Item = Windowed<K, U>> {
    let Windowed { key, start, end, phase, value } = window;
    value.into_iter().map(move |value| Windowed { key: key.clone(), start, end, phase, value })
}

impl<L, R, K, KF, W, M> Stateful for WindowJoined<L, R, K, KF, W, M>
where
    L: Clone + Send + 'static,
    R: Clone + Send + 'static,
    K: 'static,
    W: WindowKind<Either<L, R>, K>,
    M: Matching<L, R>,
    WindowJoined<L, R, K, KF, W, M>: Build,
{
    type State = W::State<PairedRows<L, R>>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.0.codec
    }
}
