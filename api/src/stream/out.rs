//! The ways out.

use mizzle_engine::Event;
use mizzle_engine::operator::Consumer;
use mizzle_engine::plan::Shape;
use mizzle_engine::runtime::{ChannelOp, Receiver, WhenFull, channel};
use mizzle_engine::sink::{self, Collected, Sink, SinkOp};
use mizzle_engine::situation::Act;

use super::Stream;
use crate::build::{Build, Closing};

impl<B: Build> Stream<B> {
    /// Ends the stream in `sink`.
    #[track_caller]
    pub fn sink<S: Sink<B::Out>>(self, sink: S) {
        self.into_sink("sink", |op| SinkOp::new(op, sink), |_| ());
    }

    /// Ends the stream in a list that can be looked at while the query runs and after.
    #[track_caller]
    pub fn collect(self) -> Collected<B::Out> {
        let (sink, collected) = sink::collect();
        self.into_sink("collect", |op| SinkOp::new(op, sink), |_| ());
        collected
    }

    /// Ends the stream in a function that sees every event. It runs on a worker: one that blocks
    /// holds that worker up.
    #[track_caller]
    pub fn for_each(self, f: impl FnMut(Event<B::Out>) + Send + 'static) {
        self.into_sink("for_each", |op| SinkOp::new(op, sink::for_each(f)), |_| ());
    }

    /// Ends the stream in a channel that another thread receives from. It holds `capacity` events, and
    /// where the query waits a batch more; when it is full the query waits, or drops and counts, as `when_full` says. Dropping
    /// the receiver lets the query run on; its events are counted as dropped then.
    #[track_caller]
    pub fn channel(self, capacity: usize, when_full: WhenFull) -> Receiver<B::Out> {
        let (sender, receiver) = channel(capacity.max(1), when_full);
        let room = sender.room();
        self.into_sink(
            "channel",
            |_| ChannelOp::new(sender),
            move |closing| closing.assembler.room(room),
        );
        receiver
    }

    #[track_caller]
    fn into_sink<C: Consumer<B::Out>>(
        self,
        kind: &'static str,
        make: impl FnOnce(mizzle_engine::operator::OpId) -> C,
        prepare: impl FnOnce(&mut Closing<'_>) + 'static,
    ) {
        let stream = self.then(kind, Shape::Sink, |upstream, op| (upstream, op));
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
