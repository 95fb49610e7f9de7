//! Windows by event time.

use std::hash::Hash;
use std::marker::PhantomData;

use mizzle_engine::operator::aggregate::Aggregate;
use mizzle_engine::operator::{Consumer, OpId, Window, WindowState, Windowed, Windows};
use mizzle_engine::plan::Shape;
use mizzle_engine::state::{Codec, hash};

use super::keyed::KeyedStream;
use super::{Stateful, Stream};
use crate::build::{Build, Closing};

/// A stream divided into windows, still without what is to be made of each.
#[must_use = "a window without an aggregate does nothing"]
pub struct Windowing<B, K, KF> {
    stream: Stream<B>,
    key: KF,
    windows: Windows,
    shape: Shape,
    keys: PhantomData<fn() -> K>,
}

impl<B: Build> Stream<B> {
    /// Divides all events together into windows of event time.
    pub fn window(
        self,
        windows: Windows,
    ) -> Windowing<B, (), impl Fn(&B::Out) + Clone + Send + Sync + 'static> {
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
    /// Divides the events of each key into windows of event time.
    pub fn window(self, windows: Windows) -> Windowing<B, K, KF> {
        let Self { stream, key, keys } = self;
        Windowing { stream, key, windows, shape: Shape::Keyed, keys }
    }
}

/// A stream of windows' results.
pub struct WindowOp<B: Build, K, KF, A: Aggregate<B::Out>> {
    pub(super) upstream: B,
    pub(super) op: OpId,
    pub(super) key: KF,
    pub(super) windows: Windows,
    pub(super) aggregate: A,
    codec: Option<Codec<WindowState<K, A::Acc>>>,
    keyed: bool,
}

impl<B, K, KF> Windowing<B, K, KF>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
{
    /// What `aggregate` makes of the events of each window, once the watermark has reached its end.
    /// A result happens one microsecond before the end of its window.
    #[track_caller]
    pub fn aggregate<A: Aggregate<B::Out>>(self, aggregate: A) -> Stream<WindowOp<B, K, KF, A>> {
        let Self { stream, key, windows, shape, .. } = self;
        let keyed = shape == Shape::Keyed;
        let checked = windows.check();
        let stream = stream.then("window", shape, |upstream, op| WindowOp {
            upstream,
            op,
            key,
            windows,
            aggregate,
            codec: None,
            keyed,
        });
        if let Err(error) = checked {
            stream.refuse(error);
        }
        stream
    }
}

impl<B, K, KF, A> Build for WindowOp<B, K, KF, A>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    A: Aggregate<B::Out>,
{
    type Out = Windowed<K, A::Out>;
    type Head = B::Head;

    fn close<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, key, windows, aggregate, codec, keyed } = self;
        let route = key.clone();
        let consumer = Window::new(op, windows, key, aggregate, codec, next);
        if keyed {
            closing.keyed(upstream, op, consumer, move |value: &B::Out| hash(&route(value)));
        } else {
            closing.stateful(upstream, op, consumer);
        }
    }
}

impl<B, K, KF, A> Stateful for WindowOp<B, K, KF, A>
where
    B: Build,
    K: 'static,
    A: Aggregate<B::Out>,
    WindowOp<B, K, KF, A>: Build,
{
    type State = WindowState<K, A::Acc>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}
