//! Windows by processing time.

use std::hash::Hash;
use std::marker::PhantomData;

use mizzle_engine::operator::aggregate::Aggregate;
use mizzle_engine::operator::{Consumer, OpId, ProcessingWindow, WindowState, Windowed, Windows};
use mizzle_engine::plan::Shape;
use mizzle_engine::state::Codec;

use super::keyed::KeyedStream;
use super::{Stateful, Stream};
use crate::build::{Build, Closing, Joint, by_hash};

/// What windows by processing time are called in plans.
pub(crate) const KIND: &str = "processing_window";

/// A stream divided into windows of processing time, still without what is to be made of each.
#[must_use = "a window without an aggregate does nothing"]
pub struct ProcessingWindowing<B, K, KF> {
    stream: Stream<B>,
    key: KF,
    windows: Windows,
    shape: Shape,
    keys: PhantomData<fn() -> K>,
}

impl<B: Build> Stream<B> {
    /// Divides all events together into windows of processing time: an event belongs to those that are
    /// open by the engine's clock when it is processed, whatever its own time is. A window closes when
    /// the clock reaches its end, though no event comes. What comes out differs from run to run; where
    /// it should not, use [`window`](Stream::window).
    ///
    /// ```
    /// use std::time::Duration;
    /// use mizzle::aggregate::count;
    /// use mizzle::time::Timestamp;
    /// use mizzle::{Engine, Query, Windows, source};
    ///
    /// let query = Query::new("load");
    /// let per_second = query
    ///     .source("requests", source::from_iter(0..1_000i64, |_| Timestamp::from_secs(0)))
    ///     .processing_window(Windows::tumbling(Duration::from_secs(1)))
    ///     .aggregate(count())
    ///     .collect();
    /// let engine = Engine::new()?;
    /// engine.submit(query)?.wait();
    /// assert_eq!(per_second.values().iter().map(|window| window.value).sum::<u64>(), 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn processing_window(
        self,
        windows: Windows,
    ) -> ProcessingWindowing<B, (), impl Fn(&B::Out) + Clone + Send + Sync + 'static> {
        self.graph.borrow_mut().go_on(self.draft.segment);
        ProcessingWindowing {
            stream: self,
            key: |_: &B::Out| (),
            windows,
            shape: Shape::Single,
            keys: PhantomData,
        }
    }
}

impl<B: Build, K, KF> KeyedStream<B, K, KF> {
    /// Divides the events of each key into windows of processing time: see
    /// [`Stream::processing_window`].
    pub fn processing_window(self, windows: Windows) -> ProcessingWindowing<B, K, KF> {
        let Self { stream, key, keys } = self;
        ProcessingWindowing { stream, key, windows, shape: Shape::Keyed, keys }
    }
}

/// A stream of the results of windows by processing time.
pub struct ProcessingWindowOp<B: Build, K, KF, A: Aggregate<B::Out>> {
    upstream: B,
    op: OpId,
    key: KF,
    windows: Windows,
    aggregate: A,
    codec: Option<Codec<WindowState<K, A::Acc>>>,
}

impl<B, K, KF> ProcessingWindowing<B, K, KF>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
{
    /// What `aggregate` makes of the events of each window, once the clock has reached its end. A result
    /// happens one microsecond before the end of its window, but not before the watermark.
    #[track_caller]
    pub fn aggregate<A: Aggregate<B::Out>>(
        self,
        aggregate: A,
    ) -> Stream<ProcessingWindowOp<B, K, KF, A>> {
        let Self { stream, key, windows, shape, .. } = self;
        let checked = windows.check();
        let stream = stream.then(KIND, shape, |upstream, op| ProcessingWindowOp {
            upstream,
            op,
            key,
            windows,
            aggregate,
            codec: None,
        });
        if let Err(error) = checked {
            stream.refuse(error);
        }
        stream
    }
}

impl<B, K, KF, A> Build for ProcessingWindowOp<B, K, KF, A>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    A: Aggregate<B::Out>,
{
    type Out = Windowed<K, A::Out>;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT.later();

    fn close<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, key, windows, aggregate, codec } = self;
        let route = key.clone();
        let consumer = ProcessingWindow::new(op, windows, key, aggregate, codec, next);
        closing.assembler.by_clock();
        closing.keyed(upstream, op, consumer, by_hash(route));
    }
}

impl<B, K, KF, A> Stateful for ProcessingWindowOp<B, K, KF, A>
where
    B: Build,
    K: 'static,
    A: Aggregate<B::Out>,
    ProcessingWindowOp<B, K, KF, A>: Build,
{
    type State = WindowState<K, A::Acc>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}
