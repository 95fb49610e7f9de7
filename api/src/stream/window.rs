//! Windows.

use std::hash::Hash;
use std::marker::PhantomData;
use std::time::Duration;

use mizzle_engine::operator::aggregate::{Aggregate, ToVec, to_vec};
use mizzle_engine::operator::{Consumer, Map, OpId, Trigger, Updatable, WindowKind, Windowed};
use mizzle_engine::plan::Shape;
use mizzle_engine::state::Codec;

use super::keyed::KeyedStream;
use super::{Stateful, Stream};
use crate::build::{Build, Closing, Joint, by_hash};

/// A stream divided into windows, still without what is to be made of each.
#[must_use = "a window without an aggregate does nothing"]
pub struct Windowing<B, K, KF, W> {
    stream: Stream<B>,
    key: KF,
    windows: W,
    shape: Shape,
    keys: PhantomData<fn() -> K>,
}

impl<B: Build> Stream<B> {
    /// Divides all events together into windows: see [`Windows`](crate::Windows).
    pub fn window<W>(
        self,
        windows: W,
    ) -> Windowing<B, (), impl Fn(&B::Out) + Clone + Send + Sync + 'static, W>
    where
        W: WindowKind<B::Out, ()>,
    {
        self.graph.borrow_mut().go_on(self.draft.segment);
        Windowing {
            stream: self,
            key: |_: &B::Out| (),
            windows,
            shape: Shape::Single,
            keys: PhantomData,
        }
    }
}

impl<B: Build, K, KF> KeyedStream<B, K, KF> {
    /// Divides the events of each key into windows: see [`Windows`](crate::Windows).
    pub fn window<W: WindowKind<B::Out, K>>(self, windows: W) -> Windowing<B, K, KF, W> {
        let Self { stream, key, keys } = self;
        Windowing { stream, key, windows, shape: Shape::Keyed, keys }
    }
}

impl<B, K, KF, W: Updatable> Windowing<B, K, KF, W> {
    /// Keeps each window for `lateness` longer than its end: a late event that belongs to it changes
    /// it, and its corrected result comes out at once, marked as
    /// [`Corrected`](crate::Phase::Corrected).
    ///
    /// For that the watermark behind the window is held back, at most by `lateness`.
    pub fn allowed_lateness(self, lateness: Duration) -> Windowing<B, K, KF, W::Updating> {
        self.updated(|windows| windows.updated(|updates| updates.allow(lateness)))
    }

    /// Gives results before a window is over too, marked as [`Early`](crate::Phase::Early): after every
    /// so many events, or at regular times. Of each sort of trigger there can be one.
    pub fn early(self, trigger: Trigger) -> Windowing<B, K, KF, W::Updating> {
        self.updated(|windows| windows.updated(|updates| updates.early(trigger)))
    }

    fn updated(self, change: impl FnOnce(W) -> W::Updating) -> Windowing<B, K, KF, W::Updating> {
        let Self { stream, key, windows, shape, keys } = self;
        Windowing { stream, key, windows: change(windows), shape, keys }
    }
}

/// A stream of windows' results.
pub struct WindowOp<B, K, KF, W, A>
where
    B: Build,
    W: WindowKind<B::Out, K>,
    A: Aggregate<B::Out>,
{
    pub(super) upstream: B,
    pub(super) op: OpId,
    pub(super) key: KF,
    pub(super) windows: W,
    pub(super) aggregate: A,
    codec: Option<Codec<W::State<A::Acc>>>,
}

impl<B, K, KF, W> Windowing<B, K, KF, W>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    W: WindowKind<B::Out, K>,
{
    /// What `aggregate` makes of the events of each window, once the window is over. A result happens
    /// one microsecond before the end of its window.
    #[track_caller]
    pub fn aggregate<A: Aggregate<B::Out>>(self, aggregate: A) -> Stream<WindowOp<B, K, KF, W, A>> {
        let Self { stream, key, windows, shape, .. } = self;
        let (kind, sums) = (windows.check(), aggregate.check());
        let stream = stream.then("window", shape, |upstream, op| WindowOp {
            upstream,
            op,
            key,
            windows,
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

    /// What `f` makes of each window's events themselves, once the window is over: given the window, with
    /// nothing as its value, and all its events. They are kept until then, which aggregates do not
    /// need.
    ///
    /// In the order of event time where the window is flagged in-order, else in that of arrival.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use mizzle::{Engine, Query, Windows, source};
    /// # use mizzle::time::Timestamp;
    /// # let query = Query::new("q");
    /// # let numbers = query.source("numbers", source::from_iter(1..=6i64, |&n| Timestamp::from_secs(n)));
    /// let spans = numbers
    ///     .window(Windows::tumbling(Duration::from_secs(4)))
    ///     .apply(|window, numbers| (window.start, numbers.len()))
    ///     .collect();
    /// # Engine::new()?.submit(query)?.wait();
    /// # let spans: Vec<_> = spans.values().into_iter().map(|window| window.value).collect();
    /// assert_eq!(spans, [(Timestamp::EPOCH, 3), (Timestamp::from_secs(4), 3)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn apply<U, F>(self, f: F) -> Stream<ApplyOp<B, K, KF, W, F, U>>
    where
        B::Out: Clone,
        U: Send + 'static,
        F: Fn(&Windowed<K, ()>, Vec<B::Out>) -> U + Send + Sync + 'static,
    {
        let clone: fn(&B::Out) -> B::Out = Clone::clone;
        let Stream { graph, draft, build: gathered } = self.aggregate(to_vec(clone));
        Stream { graph, draft, build: ApplyOp { gathered, f, made: PhantomData } }
    }
}

impl<B, K, KF, W, A> Build for WindowOp<B, K, KF, W, A>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    W: WindowKind<B::Out, K>,
    A: Aggregate<B::Out>,
{
    type Out = Windowed<K, A::Out>;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT.later();

    fn close<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, key, windows, aggregate, codec } = self;
        let route = key.clone();
        let consumer = windows.operator(op, key, aggregate, codec, next);
        closing.keyed(upstream, op, consumer, by_hash(route));
    }
}

impl<B, K, KF, W, A> Stateful for WindowOp<B, K, KF, W, A>
where
    B: Build,
    K: 'static,
    W: WindowKind<B::Out, K>,
    A: Aggregate<B::Out>,
    WindowOp<B, K, KF, W, A>: Build,
{
    type State = W::State<A::Acc>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}

/// A window that keeps its events, with a function of all of them.
type Gathered<B, K, KF, W> =
    WindowOp<B, K, KF, W, ToVec<fn(&<B as Build>::Out) -> <B as Build>::Out>>;

/// A stream of what a function makes of windows' events.
pub struct ApplyOp<B, K, KF, W, F, U>
where
    B: Build,
    B::Out: Clone,
    W: WindowKind<B::Out, K>,
{
    gathered: Gathered<B, K, KF, W>,
    f: F,
    made: PhantomData<fn() -> U>,
}

impl<B, K, KF, W, F, U> Build for ApplyOp<B, K, KF, W, F, U>
where
    B: Build,
    B::Out: Clone,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    W: WindowKind<B::Out, K>,
    U: Send + 'static,
    F: Fn(&Windowed<K, ()>, Vec<B::Out>) -> U + Send + Sync + 'static,
{
    type Out = Windowed<K, U>;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT.later();

    fn close<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { gathered, f, .. } = self;
        let make = move |window: Windowed<K, Vec<B::Out>>| {
            let (window, events) = window.take();
            let value = f(&window, events);
            window.map(|()| value)
        };
        let made = Map::<_, _, _, false>::new(gathered.op, make, next);
        gathered.close(made, closing);
    }
}

impl<B, K, KF, W, F, U> Stateful for ApplyOp<B, K, KF, W, F, U>
where
    B: Build,
    B::Out: Clone,
    K: 'static,
    W: WindowKind<B::Out, K>,
    ApplyOp<B, K, KF, W, F, U>: Build,
    Gathered<B, K, KF, W>: Stateful<State = W::State<Vec<B::Out>>>,
{
    type State = W::State<Vec<B::Out>>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        self.gathered.codec()
    }
}
