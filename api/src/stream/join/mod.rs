//! Where two streams of different types meet: joins and control streams.

mod as_of;
mod control;
mod interval;
mod window;

use std::hash::Hash;
use std::marker::PhantomData;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use mizzle_engine::operator::join::{Either, Interval};
use mizzle_engine::operator::{Map, Windows};
use mizzle_engine::plan::Shape;
use mizzle_engine::runtime::Port;

use super::fork::outlet;
use super::{BoxedStream, KeyedStream, Stream};
use crate::build::Build;

pub use as_of::{AsOfJoined, AsOfJoining};
pub use control::{Controlled, Steered};
pub use interval::{IntervalJoined, IntervalJoining};
pub use window::{WindowJoined, WindowJoining};

/// Two streams whose rows are to be matched by key, still without how far their times may lie apart.
#[must_use = "a join does nothing before it is said what comes out: `.within(..).inner()` or the like"]
pub struct Joining<L, R, K, KF> {
    stream: BoxedStream<Either<L, R>>,
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
        let stream = meet((self.stream, Either::Left), (right.stream, Either::Right));
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
        let stream = meet((self, Either::Left), (right, Either::Right));
        Joining { stream, key: |_: &_| (), shape: Shape::Single, keys: PhantomData }
    }
}

impl<L: Send + 'static, R: Send + 'static, K, KF> Joining<L, R, K, KF> {
    /// A left row matches the right rows of its key whose time lies in `interval` after its own: an
    /// [`Interval`], or a range of durations with a sign, `SignedDuration::from_secs(-10)..=
    /// SignedDuration::from_secs(5)`. Both bounds are included.
    pub fn within(self, interval: impl Into<Interval>) -> IntervalJoining<L, R, K, KF> {
        IntervalJoining { joining: self, interval: interval.into() }
    }

    /// A left row matches the right rows of its key in the same window. Results come when the window
    /// closes, with its bounds.
    pub fn window(self, windows: Windows) -> WindowJoining<L, R, K, KF> {
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

/// The union of two streams as one of rows of either side. Of one time those of the first come first.
#[track_caller]
fn meet<L, R, A, B>(
    (first, of_first): (Stream<A>, impl Fn(A::Out) -> Either<L, R> + Send + Sync + 'static),
    (second, of_second): (Stream<B>, impl Fn(B::Out) -> Either<L, R> + Send + Sync + 'static),
) -> BoxedStream<Either<L, R>>
where
    A: Build,
    B: Build,
    L: Send + 'static,
    R: Send + 'static,
{
    let port = Port::new(2);
    let inputs = vec![first.draft.segment, second.draft.segment];
    let union = first.united(inputs, port.clone(), Location::caller());
    if Rc::ptr_eq(&first.graph, &second.graph) {
        first.end_as(port.clone(), 0, of_first);
        second.end_as(port, 1, of_second);
    } else {
        union.refuse("the other stream belongs to another query");
    }
    union
}

impl<B: Build> Stream<B> {
    /// Ends the segment here, feeding input `input` of `port` with what `wrap` makes of its events.
    fn end_as<T: Send + 'static>(
        self,
        port: Arc<Port<T>>,
        input: u16,
        wrap: impl Fn(B::Out) -> T + Send + Sync + 'static,
    ) {
        let op = self.last_op().unwrap_or_default();
        self.end(move |build, closing| {
            let outlet = outlet(closing, &port, input);
            build.close(Map::<_, _, _, false>::new(op, wrap, outlet), closing);
        });
    }
}
