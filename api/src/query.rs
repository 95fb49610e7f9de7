//! A query as it is being described.

use std::any::Any;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use mizzle_engine::operator::OpId;
use mizzle_engine::plan::{Head, Plan, Segment, Shape, Site, Spec};
use mizzle_engine::runtime::{Assembler, Line, Port, PushHandle};
use mizzle_engine::source::{BadRecord, Source};
use mizzle_engine::time::{Timestamp, Watermarks};

use crate::build::{Closing, Described, FromPort, FromPush, FromSource, FromSources};
use crate::engine::Engine;
use crate::stream::{Stream, processing_window};

/// Why a query was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An operator was given something that makes no sense.
    #[error("operator {operator:?} ({location}): {reason}")]
    Operator {
        /// Its name.
        operator: String,
        /// The source line that made it.
        location: String,
        /// What is wrong.
        reason: String,
    },
    /// A stream that leads nowhere.
    #[error("the stream behind {operator:?} ({location}) ends in no sink")]
    Unused {
        /// The name of the last operator on it, or of the source.
        operator: String,
        /// The source line that made it.
        location: String,
    },
    /// A query without a source.
    #[error("query {0:?} has no source")]
    Empty(String),
}

/// A query that is being described: a DAG of operators from sources to sinks.
///
/// ```
/// use mizzle::{Engine, Query, source};
/// use mizzle::time::Timestamp;
///
/// let query = Query::new("squares");
/// let squares = query
///     .source("numbers", source::from_iter(1..=3i64, |&n| Timestamp::from_secs(n)))
///     .map(|n| n * n)
///     .collect();
/// let engine = Engine::new()?;
/// engine.submit(query)?.wait();
/// assert_eq!(squares.values(), [1, 4, 9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Query {
    name: String,
    graph: GraphRef,
}

pub(crate) type GraphRef = Rc<RefCell<Graph>>;
type Closer = Box<dyn FnOnce(&mut Closing<'_>)>;

struct Closed {
    segment: Segment,
    /// What builds its chains.
    close: Closer,
}

/// Whether a stream may be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// It must lead to a sink.
    Sink,
    /// It may be left as it is: a second output.
    Optional,
    /// It may be left as it is, if another one behind this operator leads to a sink.
    OneBehind(OpId),
}

/// A segment gets its number with its head, so that inputs have smaller numbers, and is closed by
/// what ends it. One that never is, is a stream that nobody uses.
struct Slot {
    /// The operator that was added last, or the one that it starts behind.
    last: OpId,
    duty: Duty,
    /// Whether something was put behind its head.
    continued: bool,
    closed: Option<Closed>,
}

/// Why a side output in a template is refused.
const SIDE_IN_TEMPLATE: &str = "in a group's template its side output cannot be used: emit what it has \
                                to say to the main output";
/// Why a window of processing time in a template is.
const CLOCK_IN_TEMPLATE: &str = "the members of a group have no processing time: put it before or \
                                 behind the group";

/// What has been described so far.
#[derive(Default)]
pub(crate) struct Graph {
    sites: Vec<Site>,
    segments: Vec<Slot>,
    /// Operators behind which at least one stream must lead to a sink.
    forks: Vec<OpId>,
    errors: Vec<BuildError>,
    /// It has been submitted, refused or dropped: whatever is still put behind its streams is let go of,
    /// so that nobody waits for it.
    gone: bool,
    /// The lines of push sources, type-erased: dropped with the description, they tell those who push.
    lines: Vec<Box<dyn Any>>,
    /// What an engine must be for a subscription of this query.
    checks: Vec<(OpId, Check)>,
}

/// Says why an engine cannot serve a subscription.
type Check = Box<dyn FnOnce(&Engine) -> Result<(), String>>;

/// A segment that is being described.
pub(crate) struct Draft {
    pub segment: usize,
    pub head: Head,
    pub inputs: Vec<usize>,
    pub ops: Vec<OpId>,
}

impl Draft {
    /// Adds an operator. Compiled once: the streams it is added to are of as many types as there are calls.
    pub(crate) fn add(
        &mut self,
        graph: &GraphRef,
        kind: &'static str,
        shape: Shape,
        location: &'static Location<'static>,
    ) -> OpId {
        let mut graph = graph.borrow_mut();
        let op = graph.add_site(kind, shape, location);
        graph.add_op(self.segment, op);
        self.ops.push(op);
        op
    }
}

impl Graph {
    pub(crate) fn add_site(
        &mut self,
        kind: &'static str,
        shape: Shape,
        location: &'static Location<'static>,
    ) -> OpId {
        let op = OpId(self.sites.len() as u32);
        self.sites.push(Site {
            name: kind.to_owned(),
            kind,
            shape,
            in_order: false,
            cut_after: false,
            drawn: None,
            location,
        });
        op
    }

    pub(crate) fn site_mut(&mut self, op: OpId) -> &mut Site {
        &mut self.sites[op.0 as usize]
    }

    /// Notes that `op` was given something that makes no sense; `submit` returns it.
    pub(crate) fn refuse(&mut self, op: OpId, reason: impl ToString) {
        let site = &self.sites[op.0 as usize];
        self.errors.push(BuildError::Operator {
            operator: site.name.clone(),
            location: site.location.to_string(),
            reason: reason.to_string(),
        });
    }

    /// Refuses the query for `op`, unless that is [settled](Self::settle) before it is submitted.
    pub(crate) fn refuse_unless_settled(&mut self, op: OpId, reason: &'static str) {
        self.checks.push((op, Box::new(move |_| Err(reason.to_owned()))));
    }

    /// What `op` was to be refused for is settled.
    pub(crate) fn settle(&mut self, op: OpId) {
        self.checks.retain(|(other, _)| *other != op);
    }

    /// The number of a new segment that starts with or behind the operator `last`.
    pub(crate) fn open_segment(&mut self, last: OpId, duty: Duty) -> usize {
        self.segments.push(Slot { last, duty, continued: false, closed: None });
        self.segments.len() - 1
    }

    /// The operator that was added last to a segment, or the one that it starts behind.
    pub(crate) fn last_op(&self, segment: usize) -> OpId {
        self.segments[segment].last
    }

    /// Notes that `op` was added to a segment.
    pub(crate) fn add_op(&mut self, segment: usize, op: OpId) {
        self.segments[segment].last = op;
        self.go_on(segment);
    }

    /// Something was put behind a segment's head: it cannot be left alone any more.
    pub(crate) fn go_on(&mut self, segment: usize) {
        self.segments[segment].continued = true;
    }

    /// Whether a segment may be left alone as it starts.
    pub(crate) fn duty(&self, segment: usize) -> Duty {
        self.segments[segment].duty
    }

    /// Notes that at least one of the streams behind `op` must lead to a sink.
    pub(crate) fn add_fork(&mut self, op: OpId) {
        self.forks.push(op);
    }

    /// Fills a segment.
    pub(crate) fn close_segment(
        &mut self,
        draft: Draft,
        close: impl FnOnce(&mut Closing<'_>) + 'static,
    ) {
        if self.gone {
            return;
        }
        let segment = Segment { head: draft.head, inputs: draft.inputs, ops: draft.ops };
        self.segments[draft.segment].closed = Some(Closed { segment, close: Box::new(close) });
    }

    /// The operator behind which a stream leads nowhere, if there is one.
    fn loose_end(&self) -> Option<OpId> {
        let mut open = self.segments.iter().filter(|slot| slot.closed.is_none());
        let loose = open.find(|slot| slot.continued || slot.duty == Duty::Sink);
        let used = |slot: &Slot, fork| slot.closed.is_some() && slot.duty == Duty::OneBehind(fork);
        let mut forks = self.forks.iter().copied();
        loose
            .map(|slot| slot.last)
            .or_else(|| forks.find(|&fork| !self.segments.iter().any(|slot| used(slot, fork))))
    }

    /// An operator that cannot stand in a group's template as it does, if there is one, and why: a lane has
    /// one way out for all its members, and no processing time for any.
    fn unfit_for_template(&self) -> Option<(OpId, &'static str)> {
        let closed = || self.segments.iter().filter_map(|slot| slot.closed.as_ref());
        let templates = || closed().filter(|it| matches!(it.segment.head, Head::Group { .. }));
        let side = closed().find_map(|it| match it.segment.head {
            Head::Side { op } if templates().any(|it| it.segment.ops.contains(&op)) => Some(op),
            _ => None,
        });
        let by_clock = || {
            let mut ops = templates().flat_map(|it| it.segment.ops.iter().copied());
            ops.find(|op| self.sites[op.0 as usize].kind == processing_window::KIND)
        };
        let side = side.map(|op| (op, SIDE_IN_TEMPLATE));
        side.or_else(|| by_clock().map(|op| (op, CLOCK_IN_TEMPLATE)))
    }

    /// The description, if nothing is wrong with it.
    fn check(&self, query: &str) -> Result<Spec, BuildError> {
        if let Some(error) = self.errors.first() {
            return Err(error.clone());
        }
        if let Some(op) = self.loose_end() {
            let site = &self.sites[op.0 as usize];
            let (operator, location) = (site.name.clone(), site.location.to_string());
            return Err(BuildError::Unused { operator, location });
        }
        if let Some((op, reason)) = self.unfit_for_template() {
            let site = &self.sites[op.0 as usize];
            let (operator, location) = (site.name.clone(), site.location.to_string());
            return Err(BuildError::Operator { operator, location, reason: reason.to_owned() });
        }
        let spec = self.spec();
        if spec.segments.is_empty() { Err(BuildError::Empty(query.to_owned())) } else { Ok(spec) }
    }

    /// Takes out what builds the chains, and the lines. What streams that are still about do to the
    /// rest comes to nothing.
    fn take(&mut self) -> (Vec<Closer>, Vec<Box<dyn Any>>) {
        self.gone = true;
        let closed = self.segments.iter_mut().filter_map(|slot| slot.closed.take());
        (closed.map(|closed| closed.close).collect(), std::mem::take(&mut self.lines))
    }

    /// The description without the segments that nobody uses.
    pub(crate) fn spec(&self) -> Spec {
        let used: Vec<usize> =
            (0..self.segments.len()).filter(|&n| self.segments[n].closed.is_some()).collect();
        let renumber = |old: &usize| used.binary_search(old).ok();
        let closed = self.segments.iter().filter_map(|slot| slot.closed.as_ref());
        let segments = closed.map(|closed| {
            let inputs = closed.segment.inputs.iter().filter_map(renumber).collect();
            Segment { inputs, ..closed.segment.clone() }
        });
        Spec { sites: self.sites.clone(), segments: segments.collect() }
    }
}

impl Query {
    /// An empty query called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), graph: GraphRef::default() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A stream of what `source` gives, taken to be in order of event time until
    /// [`watermarks`](Stream::watermarks) says otherwise.
    #[track_caller]
    pub fn source<S: Source>(&self, name: &str, source: S) -> Stream<FromSource<S>> {
        let checked = source.check();
        let build = FromSource { source, watermarks: Watermarks::ascending(), rejects: None };
        self.head(name, build, checked)
    }

    /// As [`source`](Query::source), with the records that cannot be read as a stream of their own.
    /// They are counted in any case. The second stream promises no watermark before its end.
    #[track_caller]
    pub fn source_with_rejects<S: Source>(
        &self,
        name: &str,
        source: S,
    ) -> (Stream<FromSource<S>>, Stream<FromPort<BadRecord>>) {
        let (port, checked) = (Port::new(1), source.check());
        let build =
            FromSource { source, watermarks: Watermarks::ascending(), rejects: Some(port.clone()) };
        let stream = self.head(name, build, checked);
        let rejects = stream.behind(Duty::Optional, FromPort { port });
        (stream, rejects)
    }

    /// A stream of what several sources of one type give, files for instance, read side by side. Each is
    /// judged by [`watermarks`](Stream::watermarks) of its own, and all together promise the lowest of
    /// theirs, those that ended or are idle left aside: what is far ahead in one makes nothing of
    /// another late. To an operator in order the events come by time, then in the order of `sources`;
    /// else as they come. For one after the other, see [`source::sequence`](crate::source::sequence).
    ///
    /// ```
    /// use mizzle::{Engine, Query, source};
    /// use mizzle::time::Timestamp;
    ///
    /// let query = Query::new("rooms");
    /// let rooms = ["1\n4\n", "2\n3\n"];
    /// let rooms = rooms.map(|text| source::json_lines(text.as_bytes(), |&n: &i64| Timestamp::from_secs(n)));
    /// let seen = query.sources("rooms", rooms).apply_stateful((), |(), n| n).in_order().collect();
    /// let engine = Engine::new()?;
    /// engine.submit(query)?.wait();
    /// assert_eq!(seen.values(), [1, 2, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn sources<S: Source>(
        &self,
        name: &str,
        sources: impl IntoIterator<Item = S>,
    ) -> Stream<FromSources<S>> {
        self.several(name, sources.into_iter().collect(), None)
    }

    /// As [`sources`](Query::sources), with the records that cannot be read as a stream of their own, as
    /// by [`source_with_rejects`](Query::source_with_rejects). Each says from which of `sources` it is.
    #[track_caller]
    pub fn sources_with_rejects<S: Source>(
        &self,
        name: &str,
        sources: impl IntoIterator<Item = S>,
    ) -> (Stream<FromSources<S>>, Stream<FromPort<BadRecord>>) {
        let port = Port::new(1);
        let stream = self.several(name, sources.into_iter().collect(), Some(port.clone()));
        let rejects = stream.behind(Duty::Optional, FromPort { port });
        (stream, rejects)
    }

    #[track_caller]
    fn several<S: Source>(
        &self,
        name: &str,
        sources: Vec<S>,
        rejects: Option<Arc<Port<BadRecord>>>,
    ) -> Stream<FromSources<S>> {
        let checked = match &sources[..] {
            [] => Err("there is nothing to read".to_owned()),
            some => some.iter().try_for_each(Source::check),
        };
        let build = FromSources { sources, watermarks: Watermarks::ascending(), rejects };
        let mut stream = self.head(name, build, checked);
        stream.not_in_order();
        stream
    }

    /// A stream of what other threads push through the returned handle; an event happens when
    /// `time` says. Taken to be in order until [`watermarks`](Stream::watermarks) says otherwise.
    #[track_caller]
    pub fn push_source<T: Send + 'static>(
        &self,
        name: &str,
        time: impl Fn(&T) -> Timestamp + Send + Sync + 'static,
    ) -> (PushHandle<T>, Stream<FromPush<T>>) {
        let (line, handle) = Line::new(time);
        self.graph.borrow_mut().lines.push(Box::new(Described(line.clone())));
        let build = FromPush { line: Described(line), watermarks: Watermarks::ascending() };
        (handle, self.head(name, build, Ok(())))
    }

    /// A stream that starts at a source; `checked` says whether that can be read.
    #[track_caller]
    fn head<B>(&self, name: &str, build: B, checked: Result<(), String>) -> Stream<B> {
        let op = self.head_site("source", name);
        if let Err(reason) = checked {
            self.graph.borrow_mut().refuse(op, reason);
        }
        let head = Head::Source { op, in_order: true };
        Stream::new(&self.graph, head, Vec::new(), (op, Duty::Sink), build)
    }

    /// A stream that starts at a shared source; `check` says whether an engine can serve it.
    #[track_caller]
    pub(crate) fn subscription<B>(
        &self,
        name: &str,
        head: impl FnOnce(OpId) -> Head,
        check: impl FnOnce(&Engine) -> Result<(), String> + 'static,
        build: B,
    ) -> Stream<B> {
        let op = self.head_site("subscribe", name);
        self.graph.borrow_mut().checks.push((op, Box::new(check)));
        Stream::new(&self.graph, head(op), Vec::new(), (op, Duty::Sink), build)
    }

    #[track_caller]
    fn head_site(&self, kind: &'static str, name: &str) -> OpId {
        let mut graph = self.graph.borrow_mut();
        let op = graph.add_site(kind, Shape::Stateless, Location::caller());
        graph.site_mut(op).name = name.to_owned();
        op
    }

    /// The plan that `workers` workers would get. See [`Plan::explain`].
    pub fn plan(&self, workers: usize) -> Plan {
        Plan::new(self.graph.borrow().spec(), workers.max(1))
    }

    /// Checks the description and takes it apart: name, description, and what builds its chains.
    pub(crate) fn finish(
        mut self,
        engine: &Engine,
    ) -> Result<(String, Spec, impl FnOnce(&mut Assembler) + use<>), BuildError> {
        let name = std::mem::take(&mut self.name);
        let checks = std::mem::take(&mut self.graph.borrow_mut().checks);
        for (op, check) in checks {
            if let Err(reason) = check(engine) {
                self.graph.borrow_mut().refuse(op, reason);
            }
        }
        let spec = self.graph.borrow().check(&name)?;
        // A segment has a smaller number than those that read it: built in reverse, every chain
        // finds the inboxes behind it.
        let (closed, lines) = self.graph.borrow_mut().take();
        let assemble = |assembler: &mut Assembler| {
            for (segment, close) in closed.into_iter().enumerate().rev() {
                close(&mut Closing { assembler, segment });
            }
            // From here on an engine reads them.
            drop(lines);
        };
        Ok((name, spec, assemble))
    }
}

impl Drop for Query {
    /// Whoever pushes to it or receives from it is told, though streams of it may still be about.
    fn drop(&mut self) {
        let taken = self.graph.borrow_mut().take();
        drop(taken);
    }
}
