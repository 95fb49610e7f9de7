//! A query as it is being described.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

use mizzle_engine::operator::OpId;
use mizzle_engine::plan::{Head, Plan, Segment, Shape, Site, Spec};
use mizzle_engine::runtime::{Assembler, Line, Port, PushHandle};
use mizzle_engine::source::{BadRecord, Source};
use mizzle_engine::time::{Timestamp, Watermarks};

use crate::build::{Closing, Described, FromPort, FromPush, FromSource};
use crate::engine::Engine;
use crate::stream::Stream;

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
    /// A source whose stream ends nowhere.
    #[error("the stream of source {source_name:?} ({location}) ends in no sink")]
    Unused {
        /// The source's name.
        source_name: String,
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

/// What has been described so far.
#[derive(Default)]
pub(crate) struct Graph {
    sites: Vec<Site>,
    /// A segment gets its number with its head, so that inputs have smaller numbers, and is filled
    /// when it is closed. One that never is, is a stream that nobody uses.
    segments: Vec<Option<Closed>>,
    errors: Vec<BuildError>,
    /// Sources whose stream has not reached a sink, or another point where it is closed.
    open_sources: Vec<OpId>,
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

    /// The number of a new segment.
    pub(crate) fn open_segment(&mut self) -> usize {
        self.segments.push(None);
        self.segments.len() - 1
    }

    /// Fills a segment.
    pub(crate) fn close_segment(
        &mut self,
        draft: Draft,
        close: impl FnOnce(&mut Closing<'_>) + 'static,
    ) {
        if let Head::Source { op, .. } | Head::Key { op, .. } = draft.head {
            self.open_sources.retain(|&open| open != op);
        }
        let segment = Segment { head: draft.head, inputs: draft.inputs, ops: draft.ops };
        self.segments[draft.segment] = Some(Closed { segment, close: Box::new(close) });
    }

    /// The description without the segments that nobody uses.
    fn spec(&self) -> Spec {
        let used: Vec<usize> =
            (0..self.segments.len()).filter(|&number| self.segments[number].is_some()).collect();
        let renumber = |old: &usize| used.binary_search(old).ok();
        let segments = self.segments.iter().flatten().map(|closed| {
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
        let build = FromSource { source, watermarks: Watermarks::ascending(), rejects: None };
        self.head(name, build)
    }

    /// As [`source`](Query::source), with the records that cannot be read as a stream of their own.
    /// They are counted in any case. The second stream promises no watermark before its end.
    #[track_caller]
    pub fn source_with_rejects<S: Source>(
        &self,
        name: &str,
        source: S,
    ) -> (Stream<FromSource<S>>, Stream<FromPort<BadRecord>>) {
        let port = Port::new(1);
        let build =
            FromSource { source, watermarks: Watermarks::ascending(), rejects: Some(port.clone()) };
        let stream = self.head(name, build);
        let rejects = stream.behind(FromPort { port });
        (stream, rejects)
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
        (
            handle,
            self.head(
                name,
                FromPush { line: Described(line), watermarks: Watermarks::ascending() },
            ),
        )
    }

    #[track_caller]
    fn head<B>(&self, name: &str, build: B) -> Stream<B> {
        let op = self.head_site("source", name);
        Stream::new(&self.graph, Head::Source { op, in_order: true }, Vec::new(), build)
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
        Stream::new(&self.graph, head(op), Vec::new(), build)
    }

    #[track_caller]
    fn head_site(&self, kind: &'static str, name: &str) -> OpId {
        let mut graph = self.graph.borrow_mut();
        let op = graph.add_site(kind, Shape::Stateless, Location::caller());
        graph.site_mut(op).name = name.to_owned();
        graph.open_sources.push(op);
        op
    }

    /// The plan that `workers` workers would get. See [`Plan::explain`].
    pub fn plan(&self, workers: usize) -> Plan {
        Plan::new(self.graph.borrow().spec(), workers.max(1))
    }

    /// Checks the description and takes it apart: name, description, and what builds its chains.
    pub(crate) fn finish(
        self,
        engine: &Engine,
    ) -> Result<(String, Spec, impl FnOnce(&mut Assembler) + use<>), BuildError> {
        let mut graph = std::mem::take(&mut *self.graph.borrow_mut());
        for (op, check) in std::mem::take(&mut graph.checks) {
            if let Err(reason) = check(engine) {
                graph.refuse(op, reason);
            }
        }
        if let Some(error) = graph.errors.first() {
            return Err(error.clone());
        }
        if let Some(&op) = graph.open_sources.first() {
            let site = &graph.sites[op.0 as usize];
            let (source_name, location) = (site.name.clone(), site.location.to_string());
            return Err(BuildError::Unused { source_name, location });
        }
        let spec = graph.spec();
        if spec.segments.is_empty() {
            return Err(BuildError::Empty(self.name));
        }
        // A segment has a smaller number than those that read it: built in reverse, every chain
        // finds the inboxes behind it.
        let closed: Vec<Closer> = graph.segments.into_iter().flatten().map(|it| it.close).collect();
        let assemble = |assembler: &mut Assembler| {
            for (segment, close) in closed.into_iter().enumerate().rev() {
                close(&mut Closing { assembler, segment });
            }
        };
        Ok((self.name, spec, assemble))
    }
}
