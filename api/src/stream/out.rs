//! The ways out.

use mizzle_engine::Event;
use mizzle_engine::operator::Consumer;
use mizzle_engine::plan::Shape;
use mizzle_engine::runtime::{
    ChannelOp, ContextHandle, ContextOp, Feed, Receiver, WhenFull, channel,
};
use mizzle_engine::sink::{self, Collected, Sink, SinkOp};
use mizzle_engine::situation::Act;

use super::Stream;
use crate::build::{Build, Closing};

impl<B: Build> Stream<B> {
    /// Ends the stream in `sink`.
    #[track_caller]
    pub fn sink<S: Sink<B::Out>>(self, sink: S) {
        self.into_sink(Shape::Sink, "sink", |op| SinkOp::new(op, sink), |_| ());
    }

    /// Ends the stream in a list that can be looked at while the query runs and after.
    #[track_caller]
    pub fn collect(self) -> Collected<B::Out> {
        let (sink, collected) = sink::collect();
        self.into_sink(Shape::Sink, "collect", |op| SinkOp::new(op, sink), |_| ());
        collected
    }

    /// Ends the stream in a function that sees every event. It runs on a worker: one that blocks
    /// holds that worker up.
    #[track_caller]
    pub fn for_each(self, f: impl FnMut(Event<B::Out>) + Send + 'static) {
        self.into_sink(Shape::Sink, "for_each", |op| SinkOp::new(op, sink::for_each(f)), |_| ());
    }

    /// Ends the stream in a channel that another thread receives from. It holds `capacity` events, and
    /// where the query waits a batch more; when it is full the query waits, or drops and counts, as `when_full` says. Dropping
    /// the receiver lets the query run on; its events are counted as dropped then.
    #[track_caller]
    pub fn channel(self, capacity: usize, when_full: WhenFull) -> Receiver<B::Out> {
        let (sender, receiver) = channel(capacity.max(1), when_full);
        let room = sender.room();
        self.into_sink(
            Shape::Sink,
            "channel",
            |_| ChannelOp::new(sender),
            move |closing| closing.assembler.room(room),
        );
        receiver
    }

    /// Ends the stream in a context: each event goes to the end of its input queue. As far as nothing before it
    /// is split by key, events arrive in the order in which the source gave them, whatever the number of
    /// workers; nothing is reordered by event time. The query waits as long as
    /// that is full; what the context had no room for when the query was over still goes in. When the
    /// context has ended the query runs on, and its events are counted as dropped.
    ///
    /// ```
    /// use mizzle::{Engine, Query, source};
    /// use mizzle::context::Handlers;
    /// use mizzle::time::Timestamp;
    ///
    /// let engine = Engine::new()?;
    /// let handlers = Handlers::new().on(|n: &u32| Some(n), |sum: &mut u32, n, _| *sum += n);
    /// let adder = engine.context("adder").start(handlers, 0);
    /// let query = Query::new("to a context");
    /// query.source("numbers", source::from_iter(1..=4, |n| Timestamp::from_secs(i64::from(*n)))).to_context(&adder);
    /// engine.submit(query)?.wait();
    /// adder.drain();
    /// adder.wait();
    /// assert_eq!(adder.stats().input, 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn to_context(self, context: &ContextHandle<B::Out>)
    where
        B::Out: Sync,
    {
        let feed = Feed::new(context);
        let room = feed.clone();
        self.into_sink(
            // Guarded: what comes from several workers arrives as one order.
            Shape::Single,
            "to_context",
            |_| ContextOp::new(feed),
            move |closing| closing.assembler.room(room),
        );
    }

    #[track_caller]
    fn into_sink<C: Consumer<B::Out>>(
        self,
        shape: Shape,
        kind: &'static str,
        make: impl FnOnce(mizzle_engine::operator::OpId) -> C,
        prepare: impl FnOnce(&mut Closing<'_>) + 'static,
    ) {
        let stream = self.then(kind, shape, |upstream, op| (upstream, op));
        let (build, op) = stream.build;
        let consumer = make(op);
        stream.graph.borrow_mut().close_segment(stream.draft, move |closing| {
            closing.assembler.sink();
            prepare(closing);
            closing.sink(build, op, consumer);
        });
    }
}

impl<B, E> Stream<B>
where
    B: Build<Out = Act<E>>,
    E: Send + 'static,
{
    /// Ends the stream at the action thread.
    #[track_caller]
    pub(super) fn act(self, capacity: usize, when_full: WhenFull) {
        let stream = self.then("actions", Shape::Sink, |upstream, op| (upstream, op));
        let (build, op) = stream.build;
        stream.graph.borrow_mut().close_segment(stream.draft, move |closing| {
            closing.assembler.sink();
            let consumer = closing.assembler.actions::<E>(op, capacity, when_full);
            closing.sink(build, op, consumer);
        });
    }
}
