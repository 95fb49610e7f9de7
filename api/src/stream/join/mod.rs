//! Where two streams of different types meet: joins and control streams.

mod as_of;
mod control;
mod interval;
mod window;

use std::cell::RefCell;
use std::hash::Hash;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;

use mizzle_engine::operator::WindowKind;
use mizzle_engine::operator::join::{Either, Interval};
use mizzle_engine::plan::{Head, Shape};
use mizzle_engine::state::hash;

use super::{KeyedStream, Stream};
use crate::build::{Build, Entry, FromSides};
use crate::query::Duty;

pub use as_of::{AsOfJoined, AsOfJoining};
pub use control::{Controlled, Steered};
pub use interval::{IntervalJoined, IntervalJoining};
pub use window::{WindowGathered, WindowJoined, WindowJoining};

/// Two streams as one of rows of either side.
pub(super) type Sides<L, R> = Stream<FromSides<Either<L, R>>>;

/// Two streams whose rows are to be matched by key, still without how far their times may lie apart.
#[must_use = "a join does nothing before it is said what comes out: `.within(..).inner()` or the like"]
pub struct Joining<L, R, K, KF> {
    stream: Sides<L, R>,
    key: KF,
    shape: Shape,
    keys: PhantomData<fn() -> K>,
}

impl<B, K, KF> KeyedStream<B, K, KF>
where
    B: Build,
    K: Hash + Eq + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
{
    /// Joins this stream, the left one, with `right`: rows of one key. What comes next says which times
    /// match: [`within`](Joining::within) so much time of each other, or in one
    /// [`window`](Joining::window); then what comes out: matches only, or unmatched rows too.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mizzle::{Engine, Interval, Query, source};
    /// use mizzle::time::Timestamp;
    ///
    /// let query = Query::new("clicks");
    /// let secs = |time: &(i64, &str)| Timestamp::from_secs(time.0);
    /// let shown = query.source("shown", source::from_iter([(1, "shoes"), (2, "hats")], secs));
    /// let clicked = query.source("clicked", source::from_iter([(4, "shoes"), (9, "hats")], secs));
    /// let within_five = shown
    ///     .key_by(|shown| shown.1)
    ///     .join(clicked.key_by(|clicked| clicked.1))
    ///     .within(Interval::after(Duration::from_secs(5)))
    ///     .left()
    ///     .in_order()
    ///     .map(|(shown, clicked)| (shown.1, clicked.map(|clicked| clicked.0)))
    ///     .collect();
    /// Engine::new()?.submit(query)?.wait();
    /// assert_eq!(within_five.values(), [("shoes", Some(4)), ("hats", None)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn join<C, KR>(
        self,
        right: KeyedStream<C, K, KR>,
    ) -> Joining<
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
        let stream = meet(self.stream, right.stream, First::Left, &key);
        Joining { stream, key, shape: Shape::Keyed, keys: PhantomData }
    }
}

impl<B: Build> Stream<B> {
    /// As [`KeyedStream::join`], of all rows of both streams.
    #[track_caller]
    pub fn join<C: Build>(
        self,
        right: Stream<C>,
    ) -> Joining<B::Out, C::Out, (), impl Fn(&Either<B::Out, C::Out>) + Clone + Send + Sync + 'static>
    {
        let key = |_: &_| ();
        let stream = meet(self, right, First::Left, &key);
        Joining { stream, key, shape: Shape::Single, keys: PhantomData }
    }
}

impl<L: Send + 'static, R: Send + 'static, K, KF> Joining<L, R, K, KF> {
    /// A left row matches the right rows of its key whose time lies in `interval` after its own: an
    /// [`Interval`], or a range of durations with a sign, `SignedDuration::from_secs(-10)..=
    /// SignedDuration::from_secs(5)`. Both bounds are included.
    pub fn within(self, interval: impl Into<Interval>) -> IntervalJoining<L, R, K, KF> {
        IntervalJoining { joining: self, interval: interval.into() }
    }

    /// A left row matches the right rows of its key in the same window, of any kind: see
    /// [`Windows`](crate::Windows). Results come when the window is over, with its bounds.
    pub fn window<W>(self, windows: W) -> WindowJoining<L, R, K, KF, W>
    where
        W: WindowKind<Either<L, R>, K>,
    {
        WindowJoining { joining: self, windows }
    }
}

/// The key of a row of either side.
fn either_key<L, R, K>(
    left: impl Fn(&L) -> K + Clone + Send + Sync + 'static,
    right: impl Fn(&R) -> K + Clone + Send + Sync + 'static,
) -> impl Fn(&Either<L, R>) -> K + Clone + Send + Sync + 'static {
    move |row: &Either<L, R>| match row {
        Either::Left(row) => left(row),
        Either::Right(row) => right(row),
    }
}

/// Which rows of one time come first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum First {
    Left,
    Right,
}

/// The union of two streams as one of rows of either side.
#[track_caller]
pub(super) fn meet<A, B, K>(
    left: Stream<A>,
    right: Stream<B>,
    first: First,
    key: &(impl Fn(&Either<A::Out, B::Out>) -> K + Clone + Send + Sync + 'static),
) -> Sides<A::Out, B::Out>
where
    A: Build,
    B: Build,
    K: Hash,
{
    let graph = left.graph.clone();
    let op = graph.borrow_mut().add_site("union", Shape::Stateless, Location::caller());
    let mut inputs = vec![left.draft.segment, right.draft.segment];
    let entry = Rc::<RefCell<Entry<_>>>::default();
    let sides = FromSides { entry: entry.clone() };
    let (of_left, of_right) = if first == First::Left { (0, 1) } else { (1, 0) };
    inputs.rotate_left(of_left);
    let union = Stream::new(&graph, Head::Join { op }, inputs, (op, Duty::Sink), sides);
    if !Rc::ptr_eq(&graph, &right.graph) {
        union.refuse("the other stream belongs to another query");
        return union;
    }
    let (entry_of_left, key_of_left, key) = (entry.clone(), key.clone(), key.clone());
    left.end(move |build, closing| {
        let route = move |row: &_| hash(&key_of_left(row));
        closing.side(build, &entry_of_left, of_left as u16, Either::Left, route);
    });
    right.end(move |build, closing| {
        closing.side(build, &entry, of_right, Either::Right, move |row: &_| hash(&key(row)));
    });
    union
}
