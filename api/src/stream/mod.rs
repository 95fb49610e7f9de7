//! Streams and the operators that follow them.

mod flags;
mod fork;
mod group;
mod join;
mod keyed;
mod out;
mod pattern;
pub(crate) mod processing_window;
mod rules;
mod shared_steps;
mod situations;
mod stateful;
mod stateless;
mod unkeyed;
mod window;

use std::panic::Location;
use std::time::Duration;

use mizzle_engine::operator::OpId;
use mizzle_engine::plan::{Head, Shape};
use mizzle_engine::source::Source;
use mizzle_engine::time::Watermarks;

use crate::build::{FromPort, FromPush, FromSource, FromSources};
use crate::query::{Draft, Duty, GraphRef};

pub use flags::{Stateful, Stateless};
pub use fork::{Branches, Shared};
pub use group::{FromGroup, Member};
pub use join::{
    AsOfJoined, AsOfJoining, Controlled, IntervalJoined, IntervalJoining, Joining, Steered,
    WindowGathered, WindowJoined, WindowJoining,
};
pub use keyed::{KeyedApply, KeyedProcess, KeyedStream};
pub use pattern::{Matched, MatchedOrTimedOut, Patterned};
pub use processing_window::{ProcessingWindowOp, ProcessingWindowing};
pub use rules::ByRule;
pub use situations::{Changing, Situated, Steady};
pub use stateful::Applied;
pub use stateless::{Debugged, FilterMapped, Filtered, FlatMapped, Inspected, Mapped, Skipping};
pub use unkeyed::Unkeyed;
pub use window::{ApplyOp, WindowOp, Windowing};

/// A stream of events: a source and the operators behind it, up to where it is looked at.
///
/// Every call returns another stream; what a stream does is decided when it reaches a sink, or a
/// point where streams fork or meet.
#[must_use = "a stream does nothing before it reaches a sink"]
pub struct Stream<B> {
    graph: GraphRef,
    draft: Draft,
    build: B,
}

/// A stream whose type can be written down: for struct fields, recursion and long chains.
pub type BoxedStream<T> = Stream<FromPort<T>>;

impl<B> Stream<B> {
    /// A new segment that starts at `head`, with or behind the operator `last`.
    pub(crate) fn new(
        graph: &GraphRef,
        head: Head,
        inputs: Vec<usize>,
        (last, duty): (OpId, Duty),
        build: B,
    ) -> Self {
        let segment = graph.borrow_mut().open_segment(last, duty);
        let draft = Draft { segment, head, inputs, ops: Vec::new() };
        Self { graph: graph.clone(), draft, build }
    }

    /// A stream that reads what this one's segment sends to another chain.
    pub(crate) fn behind<C>(&self, duty: Duty, build: C) -> Stream<C> {
        let segment = self.draft.segment;
        let last = self.graph.borrow().last_op(segment);
        Stream::new(&self.graph, Head::Stream, vec![segment], (last, duty), build)
    }

    /// Adds an operator of `kind` that `wrap` puts behind what there is.
    #[track_caller]
    fn then<C>(
        mut self,
        kind: &'static str,
        shape: Shape,
        wrap: impl FnOnce(B, OpId) -> C,
    ) -> Stream<C> {
        let op = self.draft.add(&self.graph, kind, shape, Location::caller());
        Stream { graph: self.graph, draft: self.draft, build: wrap(self.build, op) }
    }

    /// The same operator, described otherwise.
    fn rebuild<C>(self, build: impl FnOnce(B) -> C) -> Stream<C> {
        Stream { graph: self.graph, draft: self.draft, build: build(self.build) }
    }

    /// The operator that was added last, or the head.
    fn last_op(&self) -> Option<OpId> {
        self.draft.ops.last().copied().or(self.draft.head.op())
    }

    /// Calls the operator that was added last `name`, in reports and errors.
    pub fn name(self, name: &str) -> Self {
        if let Some(op) = self.last_op() {
            self.graph.borrow_mut().site_mut(op).name = name.to_owned();
        }
        self
    }

    /// What has been described so far.
    pub(crate) fn build_mut(&mut self) -> &mut B {
        &mut self.build
    }

    /// Notes down for the plan that its head is several sources: together they are in no order.
    pub(crate) fn not_in_order(&mut self) {
        if let Head::Source { in_order, .. } = &mut self.draft.head {
            *in_order = false;
        }
    }

    fn refuse(&self, reason: impl ToString) {
        if let Some(op) = self.last_op() {
            self.graph.borrow_mut().refuse(op, reason);
        }
    }
}

/// Sets what a head promises about its watermarks, and notes it down for the plan.
fn promise<T: 'static, B>(stream: &mut Stream<B>, watermarks: &Watermarks<T>) {
    if let Err(error) = watermarks.check() {
        stream.refuse(error);
    }
    match &mut stream.draft.head {
        Head::Source { in_order, .. } | Head::Retimed { in_order, .. } => {
            *in_order = watermarks.is_in_order();
        }
        Head::Key { .. }
        | Head::Stream
        | Head::Side { .. }
        | Head::Union { .. }
        | Head::Join { .. }
        | Head::Group { .. } => {}
    }
}

impl<S: Source> Stream<FromSource<S>> {
    /// Says how far the source may be out of order, and so when its event time moves on.
    pub fn watermarks(mut self, watermarks: Watermarks<S::Item>) -> Self {
        promise(&mut self, &watermarks);
        self.build.watermarks = watermarks;
        self
    }
}

impl<S: Source> Stream<FromSources<S>> {
    /// Says how far each of the sources may be out of order, and so when its event time moves on.
    pub fn watermarks(mut self, watermarks: Watermarks<S::Item>) -> Self {
        if let Err(error) = watermarks.check() {
            self.refuse(error);
        }
        self.build.watermarks = watermarks;
        self
    }
}

impl<T: Send + 'static> Stream<FromPush<T>> {
    /// Says how far the source may be out of order, and so when its event time moves on.
    pub fn watermarks(mut self, watermarks: Watermarks<T>) -> Self {
        promise(&mut self, &watermarks);
        self.build.watermarks = watermarks;
        self
    }

    /// Has the source counted as idle when nothing was pushed for `quiet` of processing time and all
    /// that was pushed is taken: it does not hold a union's watermark back then.
    pub fn idle_after(mut self, quiet: Duration) -> Self {
        let watermarks = self.build.watermarks.idle_after(quiet);
        self.build.watermarks = Watermarks::ascending();
        self.watermarks(watermarks)
    }
}
