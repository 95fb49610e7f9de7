//! Where streams fork and meet: share, branches, late events, unions, cuts.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use mizzle_engine::operator::{Branch, OpId, Predicate, SplitLate};
use mizzle_engine::plan::{Head, Shape};
use mizzle_engine::runtime::{Outlet, Port};
use mizzle_engine::time::{Timestamp, Watermarks};

use super::{BoxedStream, Stream, promise};
use crate::build::{Build, Closing, FromPort, FromRetimed, FromShared};
use crate::query::{Duty, GraphRef};

/// A stream that can be cloned: every clone gets every event.
pub type Shared<T> = Stream<FromShared<T>>;

impl<B: 'static> Stream<B> {
    /// Ends the segment here: `close` builds its chains.
    pub(super) fn end(self, close: impl FnOnce(B, &mut Closing<'_>) + 'static) {
        let build = self.build;
        self.graph.borrow_mut().close_segment(self.draft, move |closing| close(build, closing));
    }
}

impl<B: Build> Stream<B> {
    /// Ends the segment here, feeding input `input` of `port`.
    fn end_in(self, port: Arc<Port<B::Out>>, input: u16) {
        self.end(move |build, closing| {
            let outlet = outlet(closing, &port, input);
            build.close(outlet, closing);
        });
    }

    /// A stream that can be cloned, so that several operators can follow it. Each clone gets every
    /// event, cloned; none can change what another sees.
    #[track_caller]
    pub fn share(self) -> Shared<B::Out>
    where
        B::Out: Clone,
    {
        let mut graph = self.graph.borrow_mut();
        let op = graph.add_site("share", Shape::Stateless, Location::caller());
        graph.add_fork(op);
        drop(graph);
        let readers = Rc::new(RefCell::new(Vec::new()));
        let ports = readers.clone();
        let (head, inputs) = (Head::Stream, vec![self.draft.segment]);
        let shared = FromShared { readers };
        let shared = Stream::new(&self.graph, head, inputs, (op, Duty::OneBehind(op)), shared);
        self.end(move |build, closing| {
            let from = closing.assembler.plan().tail_of(closing.segment);
            let fanout = closing.assembler.fanout(op, from, &ports.borrow());
            build.close(fanout, closing);
        });
        shared
    }

    /// The same stream with a type that can be written down, `BoxedStream<T>`. What comes before
    /// becomes a chain of its own and hands its events on by the batch.
    pub fn boxed(self) -> BoxedStream<B::Out> {
        let port = Port::new(1);
        let boxed = self.behind(Duty::Sink, FromPort { port: port.clone() });
        self.end_in(port, 0);
        boxed
    }

    /// Two streams: the events for which `predicate` holds, and the rest.
    #[track_caller]
    pub fn split(
        self,
        predicate: impl Fn(&B::Out) -> bool + Send + Sync + 'static,
    ) -> (BoxedStream<B::Out>, BoxedStream<B::Out>) {
        let mut branches = self.branches();
        let hits = branches.when(predicate);
        (hits, branches.rest())
    }

    /// Branches: each event goes to the first whose predicate holds, else to the rest.
    #[track_caller]
    pub fn branches(self) -> Branches<B::Out> {
        let stream = self.then("branch", Shape::Stateless, |upstream, op| (upstream, op));
        let (graph, segment, op) = (stream.graph.clone(), stream.draft.segment, stream.build.1);
        graph.borrow_mut().add_fork(op);
        let cases =
            Rc::new(RefCell::new(Cases { predicates: Vec::new(), ports: vec![Port::new(1)] }));
        let later = cases.clone();
        stream.end(move |(build, op), closing| {
            let Cases { predicates, ports } = later.take();
            let nexts = ports.iter().map(|port| outlet(closing, port, 0)).collect();
            build.close(Branch::new(op, predicates, nexts), closing);
        });
        Branches { graph, segment, op, cases }
    }

    /// Two streams: the events on time, and the late ones. Events are judged at their source; the
    /// late ones keep their value as it is here, and their stream promises no watermark before its
    /// end. An operator in order further down counts late events it is not spared.
    #[track_caller]
    pub fn split_late(self) -> (BoxedStream<B::Out>, BoxedStream<B::Out>) {
        let stream = self.then("split_late", Shape::Stateless, |upstream, _| upstream);
        let ports = (Port::new(1), Port::new(1));
        let on_time = stream.behind(Duty::Sink, FromPort { port: ports.0.clone() });
        let late = stream.behind(Duty::Optional, FromPort { port: ports.1.clone() });
        stream.end(move |build, closing| {
            let (on_time, late) = (outlet(closing, &ports.0, 0), outlet(closing, &ports.1, 0));
            build.close(SplitLate::new(on_time, late), closing);
        });
        (on_time, late)
    }

    /// The events of both streams. To an operator in order they come by time, then from this stream
    /// before the other; else as they come. The union's watermark is the lower of the two, an input
    /// that is idle or has ended left aside.
    #[track_caller]
    pub fn union<C: Build<Out = B::Out>>(self, other: Stream<C>) -> BoxedStream<B::Out> {
        let (graph, port) = (self.graph.clone(), Port::new(2));
        let union = self.united(
            vec![self.draft.segment, other.draft.segment],
            port.clone(),
            Location::caller(),
        );
        if Rc::ptr_eq(&graph, &other.graph) {
            self.end_in(port.clone(), 0);
            other.end_in(port, 1);
        } else {
            union.refuse("the other stream belongs to another query");
        }
        union
    }

    /// The union, as one of type `T`, of the segments `inputs`, which feed `port`.
    pub(super) fn united<T: Send + 'static>(
        &self,
        inputs: Vec<usize>,
        port: Arc<Port<T>>,
        location: &'static Location<'static>,
    ) -> BoxedStream<T> {
        let op = self.graph.borrow_mut().add_site("union", Shape::Stateless, location);
        let place = (op, Duty::Sink);
        Stream::new(&self.graph, Head::Union { op }, inputs, place, FromPort { port })
    }

    /// As [`union`](Stream::union), of any number of streams of one type, up to 65,535.
    #[track_caller]
    pub fn union_all(self, others: impl IntoIterator<Item = Self>) -> BoxedStream<B::Out> {
        let graph = self.graph.clone();
        let streams: Vec<_> = std::iter::once(self).chain(others).collect();
        let count = u16::try_from(streams.len());
        let port = Port::new(count.unwrap_or(u16::MAX));
        let inputs = streams.iter().map(|stream| stream.draft.segment).collect();
        let union = streams[0].united(inputs, port.clone(), Location::caller());
        if count.is_err() {
            union
                .refuse(format!("{} streams, and no more than 65535 can be united", streams.len()));
        }
        for (input, stream) in streams.into_iter().enumerate() {
            if Rc::ptr_eq(&graph, &stream.graph) {
                stream.end_in(port.clone(), input as u16);
            } else {
                union.refuse("one of the streams belongs to another query");
            }
        }
        union
    }

    /// Gives every event the time that `assign` makes of its value. The order of the old times means
    /// nothing from here on; `watermarks` says how far the new ones may be out of order.
    #[track_caller]
    pub fn assign_timestamps<A>(
        self,
        assign: A,
        watermarks: Watermarks<B::Out>,
    ) -> Stream<FromRetimed<B::Out, A>>
    where
        A: FnMut(&B::Out) -> Timestamp + Send + 'static,
    {
        let op = self.graph.borrow_mut().add_site(
            "assign_timestamps",
            Shape::Stateless,
            Location::caller(),
        );
        let port = Port::new(1);
        let head = Head::Retimed { op, in_order: false };
        let build = FromRetimed { port: port.clone(), assign, watermarks: Watermarks::ascending() };
        let inputs = vec![self.draft.segment];
        let mut stream = Stream::new(&self.graph, head, inputs, (op, Duty::Sink), build);
        promise(&mut stream, &watermarks);
        stream.build.watermarks = watermarks;
        self.end_in(port, 0);
        stream
    }
}

/// What feeds input `input` of `port` from the end of the segment that is being closed.
pub(super) fn outlet<T: Send + 'static>(
    closing: &mut Closing<'_>,
    port: &Arc<Port<T>>,
    input: u16,
) -> Outlet<T> {
    let from = closing.assembler.plan().tail_of(closing.segment);
    closing.assembler.outlet(from, port, input)
}

impl<T: Send + 'static> Clone for Shared<T> {
    /// Another reader of the shared stream, from where it was shared. (Operators that were put
    /// behind a clone are in that clone's type, which cannot be cloned.)
    fn clone(&self) -> Self {
        let readers = self.build.readers.clone();
        let graph = self.graph.borrow();
        let place = (graph.last_op(self.draft.segment), graph.duty(self.draft.segment));
        drop(graph);
        let inputs = self.draft.inputs.clone();
        Stream::new(&self.graph, Head::Stream, inputs, place, FromShared { readers })
    }
}

struct Cases<T> {
    predicates: Vec<Predicate<T>>,
    /// A port per predicate, and one for the rest.
    ports: Vec<Arc<Port<T>>>,
}

impl<T> Default for Cases<T> {
    fn default() -> Self {
        Self { predicates: Vec::new(), ports: Vec::new() }
    }
}

/// Branches of a stream. Events that no branch takes go to [`rest`](Branches::rest), or nowhere
/// (then they are counted as dropped).
pub struct Branches<T> {
    graph: GraphRef,
    segment: usize,
    op: OpId,
    cases: Rc<RefCell<Cases<T>>>,
}

impl<T: Send + 'static> Branches<T> {
    /// The events for which `predicate` holds and no earlier one did.
    pub fn when(
        &mut self,
        predicate: impl Fn(&T) -> bool + Send + Sync + 'static,
    ) -> BoxedStream<T> {
        let port = Port::new(1);
        let mut cases = self.cases.borrow_mut();
        cases.predicates.push(Box::new(predicate));
        // The rest stays last.
        let before_rest = cases.ports.len() - 1;
        cases.ports.insert(before_rest, port.clone());
        drop(cases);
        self.read(port)
    }

    /// The events for which no predicate holds.
    pub fn rest(self) -> BoxedStream<T> {
        let port = self.cases.borrow().ports.last().expect("the rest has a port").clone();
        self.read(port)
    }

    fn read(&self, port: Arc<Port<T>>) -> BoxedStream<T> {
        let place = (self.op, Duty::OneBehind(self.op));
        Stream::new(&self.graph, Head::Stream, vec![self.segment], place, FromPort { port })
    }
}
