//! Sources that queries share.

use std::fmt;
use std::hash::Hash;
use std::panic::Location;
use std::sync::Arc;

use mizzle_engine::operator::{Consumer, OpId};
use mizzle_engine::plan::{Head, Segment, Shape, Site, Spec};
use mizzle_engine::runtime::{
    Assembler, KeyIndex, KeySubscription, Lag, Lease, Line, Log, PushHandle, QueryHandle,
    SharedStats, Status, SubscriberStats, Terms,
};
use mizzle_engine::source::Source;
use mizzle_engine::time::{Timestamp, Watermarks};

use crate::build::{Build, Closing, Described};
use crate::engine::Engine;
use crate::query::{BuildError, Query};
use crate::stream::Stream;

/// How many events a subscriber may be behind unless [`SharedSourceBuilder::lag_limit`] says otherwise.
const LAG_LIMIT: usize = 1 << 20;

/// A shared source that is about to be opened.
#[must_use = "call `open`"]
pub struct SharedSourceBuilder<'a, T: Send + 'static> {
    engine: &'a Engine,
    name: String,
    watermarks: Watermarks<T>,
    lag_limit: usize,
    location: &'static Location<'static>,
    input: Box<dyn Input<T>>,
}

/// Where a shared source's events come from.
trait Input<T: Send + 'static> {
    /// Whether they can be read.
    fn check(&self) -> Result<(), String>;

    /// Builds the chain that publishes them on `log`.
    fn assemble(
        self: Box<Self>,
        assembler: &mut Assembler,
        log: &Arc<Log<T>>,
        watermarks: Watermarks<T>,
    );
}

/// The operators of a shared source's query: the source, and what publishes.
const PUBLISH: OpId = OpId(1);

impl<S> Input<S::Item> for S
where
    S: Source,
    S::Item: Clone + Send + Sync,
{
    fn check(&self) -> Result<(), String> {
        Source::check(self)
    }

    fn assemble(
        self: Box<Self>,
        assembler: &mut Assembler,
        log: &Arc<Log<S::Item>>,
        watermarks: Watermarks<S::Item>,
    ) {
        let publish = assembler.publish(PUBLISH, log);
        assembler.source(0, *self, watermarks, None, publish);
    }
}

/// What other threads push.
struct Pushed<T: Send + 'static>(Described<Line<T>>);

impl<T: Clone + Send + Sync + 'static> Input<T> for Pushed<T> {
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn assemble(
        self: Box<Self>,
        assembler: &mut Assembler,
        log: &Arc<Log<T>>,
        watermarks: Watermarks<T>,
    ) {
        let publish = assembler.publish(PUBLISH, log);
        assembler.pushed(0, &self.0.0, watermarks, publish);
    }
}

impl Engine {
    /// A source that any number of queries share. Its events are read and decoded once; queries
    /// [subscribe](Query::subscribe) to it and leave it while it runs. It is a query itself, named
    /// after the source, and reads nothing before [`start`](SharedSource::start).
    ///
    /// ```
    /// use mizzle::{Engine, Query, source};
    /// use mizzle::time::Timestamp;
    ///
    /// let engine = Engine::new()?;
    /// let numbers = source::from_iter(1..=4i64, |&n| Timestamp::from_secs(n));
    /// let numbers = engine.shared_source("numbers", numbers).open()?;
    /// let (squares, odd) = (Query::new("squares"), Query::new("odd"));
    /// let all = squares.subscribe(&numbers).map(|n| n * n).collect();
    /// let by_parity = numbers.key_by(|n| n % 2);
    /// let some = odd.subscribe(&by_parity.at(1)).collect();
    /// let running = [engine.submit(squares)?, engine.submit(odd)?];
    /// numbers.start();
    /// running.iter().for_each(|query| { query.wait(); });
    /// assert_eq!((all.values(), some.values()), (vec![1, 4, 9, 16], vec![1, 3]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn shared_source<S>(&self, name: &str, source: S) -> SharedSourceBuilder<'_, S::Item>
    where
        S: Source,
        S::Item: Clone + Send + Sync,
    {
        self.shared(name, Box::new(source), Location::caller())
    }

    /// As [`shared_source`](Engine::shared_source), of what other threads push through the returned
    /// handle; an event happens when `time` says.
    #[track_caller]
    pub fn shared_push_source<T: Clone + Send + Sync + 'static>(
        &self,
        name: &str,
        time: impl Fn(&T) -> Timestamp + Send + Sync + 'static,
    ) -> (PushHandle<T>, SharedSourceBuilder<'_, T>) {
        let (line, handle) = Line::new(time);
        (handle, self.shared(name, Box::new(Pushed(Described(line))), Location::caller()))
    }

    fn shared<T: Send + 'static>(
        &self,
        name: &str,
        input: Box<dyn Input<T>>,
        location: &'static Location<'static>,
    ) -> SharedSourceBuilder<'_, T> {
        SharedSourceBuilder {
            engine: self,
            name: name.to_owned(),
            watermarks: Watermarks::ascending(),
            lag_limit: LAG_LIMIT,
            location,
            input,
        }
    }
}

impl<T: Clone + Send + Sync + 'static> SharedSourceBuilder<'_, T> {
    /// Says how far the source may be out of order, and so when its event time moves on. It holds for
    /// all subscribers: what is late is late for each.
    pub fn watermarks(mut self, watermarks: Watermarks<T>) -> Self {
        self.watermarks = watermarks;
        self
    }

    /// How many events a subscriber may be behind before what it chose as its [`Lag`] happens; by
    /// default 1,048,576. So many events, and a batch, are held for the slowest.
    pub fn lag_limit(mut self, events: usize) -> Self {
        self.lag_limit = events;
        self
    }

    /// Adds the source to the engine. It takes subscribers now, and reads nothing before it is
    /// [started](SharedSource::start).
    ///
    /// # Errors
    /// Watermarks or a source that make no sense, or a lag limit of 0.
    pub fn open(self) -> Result<SharedSource<T>, BuildError> {
        let refuse = |reason: String| BuildError::Operator {
            operator: self.name.clone(),
            location: self.location.to_string(),
            reason,
        };
        self.watermarks.check().map_err(|error| refuse(error.to_string()))?;
        self.input.check().map_err(refuse)?;
        if self.lag_limit == 0 {
            return Err(refuse("a lag limit must be at least 1 event".to_owned()));
        }
        let log = Log::new(self.name.clone(), self.watermarks.is_in_order(), self.lag_limit);
        let spec = spec(&self.name, self.watermarks.is_in_order(), self.location);
        let (input, watermarks) = (self.input, self.watermarks);
        let query = self.engine.runtime().submit(self.name, spec, |assembler| {
            input.assemble(assembler, &log, watermarks);
        });
        Ok(SharedSource { log, query, lease: None })
    }
}

/// A shared source as a query: a source, and what publishes its events.
fn spec(name: &str, in_order: bool, location: &'static Location<'static>) -> Spec {
    let site = |name: &str, kind, shape| Site {
        name: name.to_owned(),
        kind,
        shape,
        in_order: false,
        cut_after: false,
        drawn: None,
        location,
    };
    let sites =
        vec![site(name, "source", Shape::Stateless), site("publish", "publish", Shape::Sink)];
    let head = Head::Source { op: OpId(0), in_order };
    Spec { sites, segments: vec![Segment { head, inputs: Vec::new(), ops: vec![PUBLISH] }] }
}

/// A source that queries share; made by [`Engine::shared_source`]. Clones are the same source.
pub struct SharedSource<T> {
    pub(crate) log: Arc<Log<T>>,
    pub(crate) query: QueryHandle,
    /// Of one that is derived: it runs until nobody has it.
    pub(crate) lease: Option<Arc<Lease>>,
}

impl<T> Clone for SharedSource<T> {
    fn clone(&self) -> Self {
        let Self { log, query, lease } = self;
        Self { log: log.clone(), query: query.clone(), lease: lease.clone() }
    }
}

impl<T: Clone + Send + Sync + 'static> SharedSource<T> {
    /// Its name.
    pub fn name(&self) -> &str {
        self.log.name()
    }

    /// Has it read. Whoever subscribes before sees everything.
    pub fn start(&self) {
        self.log.start();
    }

    /// Itself as a query: where it stands, how it was planned, what its chain has counted.
    pub fn query(&self) -> &QueryHandle {
        &self.query
    }

    /// Ends it. Subscribers get what it has given, and then everything open in them fires.
    pub fn drain(&self) {
        self.query.drain();
    }

    /// Ends it. Subscribers get what it has given, and nothing open in them fires.
    pub fn stop(&self) {
        self.query.stop();
    }

    /// Abandons what has not been published yet; to subscribers that is as [`stop`](Self::stop).
    pub fn cancel(&self) {
        self.query.cancel();
    }

    /// Waits until it has published its last, and says how it ended.
    pub fn wait(&self) -> Status {
        self.query.wait()
    }

    /// What it has published, what it holds, and what subscribers have lost.
    pub fn stats(&self) -> SharedStats {
        self.log.stats()
    }

    /// Those that subscribe now, in the order in which their queries were submitted.
    pub fn subscribers(&self) -> Vec<SubscriberStats> {
        self.log.subscribers()
    }

    /// The source by the key that `key` gives, for queries on one key each. A panic of `key` is
    /// counted as a failed event of the source; that event has no key.
    pub fn key_by<K>(&self, key: impl Fn(&T) -> K + Send + Sync + 'static) -> KeyedSource<T, K>
    where
        K: Hash + Eq + Send + Sync + 'static,
    {
        KeyedSource { index: KeyIndex::new(&self.log, key), lease: self.lease.clone() }
    }
}

/// A shared source by key; made by [`SharedSource::key_by`]. Clones are the same.
pub struct KeyedSource<T, K> {
    index: Arc<KeyIndex<T, K>>,
    lease: Option<Arc<Lease>>,
}

impl<T, K> Clone for KeyedSource<T, K> {
    fn clone(&self) -> Self {
        Self { index: self.index.clone(), lease: self.lease.clone() }
    }
}

impl<T, K> KeyedSource<T, K>
where
    T: Clone + Send + Sync + 'static,
    K: Hash + Eq + Clone + Send + Sync + 'static,
{
    /// What has the key `key`, to be subscribed to. Events of other keys cost such a query nothing:
    /// for them nothing of it is looked at, copied, woken or run.
    pub fn at(&self, key: K) -> OneKey<T> {
        OneKey { key: self.index.at(key), lease: self.lease.clone() }
    }
}

/// One key of a shared source; made by [`KeyedSource::at`].
pub struct OneKey<T> {
    key: KeySubscription<T>,
    lease: Option<Arc<Lease>>,
}

impl<T> Clone for OneKey<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), lease: self.lease.clone() }
    }
}

/// Something that can be subscribed to: a [`SharedSource`], or one key of it. Implemented by these only.
pub trait Subscribe {
    /// The payload of its events.
    type Item: Clone + Send + Sync + 'static;
    /// Where the stream starts.
    type Head: Build<Out = Self::Item> + Lagging;

    /// Where the stream starts.
    #[doc(hidden)]
    fn head(&self) -> Self::Head;
    /// What events come from.
    #[doc(hidden)]
    fn log(&self) -> &Arc<Log<Self::Item>>;
    /// As what it stands in the plan.
    #[doc(hidden)]
    fn planned(&self, op: OpId) -> Head;
}

impl<T: Clone + Send + Sync + 'static> Subscribe for SharedSource<T> {
    type Item = T;
    type Head = FromLog<T>;

    fn head(&self) -> FromLog<T> {
        let terms = Terms { lease: self.lease.clone(), ..Terms::default() };
        FromLog { log: self.log.clone(), terms }
    }

    fn log(&self) -> &Arc<Log<T>> {
        &self.log
    }

    fn planned(&self, op: OpId) -> Head {
        Head::Source { op, in_order: self.log.is_in_order() }
    }
}

impl<T: Clone + Send + Sync + 'static> Subscribe for OneKey<T> {
    type Item = T;
    type Head = FromKey<T>;

    fn head(&self) -> FromKey<T> {
        let terms = Terms { lease: self.lease.clone(), ..Terms::default() };
        FromKey { key: self.key.clone(), terms }
    }

    fn log(&self) -> &Arc<Log<T>> {
        self.key.log()
    }

    fn planned(&self, op: OpId) -> Head {
        Head::Key { op, in_order: self.log().is_in_order() }
    }
}

impl Query {
    /// A stream of what a shared source publishes from the moment on in which this query is submitted,
    /// in the source's order and with its watermarks; of everything, or of one key. Operators flagged
    /// in-order find their events as behind a source that is declared as the shared one is.
    #[track_caller]
    pub fn subscribe<S: Subscribe>(&self, to: &S) -> Stream<S::Head> {
        let log = to.log().clone();
        let check = move |engine: &Engine| {
            if !engine.runtime().owns(&log) {
                Err(format!("the shared source {:?} belongs to another engine", log.name()))
            } else if log.is_over() {
                Err(format!("the shared source {:?} is over", log.name()))
            } else {
                Ok(())
            }
        };
        self.subscription(to.log().name(), |op| to.planned(op), check, to.head())
    }
}

/// A head that can lag behind what it reads.
pub trait Lagging {
    /// Sets what becomes of it then.
    #[doc(hidden)]
    fn set_lag(&mut self, lag: Lag);
}

impl<B: Lagging> Stream<B> {
    /// What becomes of this subscription when it is as far behind as the shared source allows; by
    /// default its query fails.
    pub fn when_lagging(mut self, lag: Lag) -> Self {
        self.build_mut().set_lag(lag);
        self
    }
}

/// Where a stream starts at a shared source.
pub struct FromLog<T> {
    log: Arc<Log<T>>,
    terms: Terms,
}

impl<T> Lagging for FromLog<T> {
    fn set_lag(&mut self, lag: Lag) {
        self.terms.lag = lag;
    }
}

impl<T: Clone + Send + Sync + 'static> Build for FromLog<T> {
    type Out = T;
    type Head = Self;

    fn close<N: Consumer<T>>(self, next: N, closing: &mut Closing<'_>) {
        closing.assembler.subscribed(closing.segment, &self.log, self.terms, next);
    }
}

/// Where a stream starts at one key of a shared source.
pub struct FromKey<T> {
    key: KeySubscription<T>,
    terms: Terms,
}

impl<T> Lagging for FromKey<T> {
    fn set_lag(&mut self, lag: Lag) {
        self.terms.lag = lag;
    }
}

impl<T: Clone + Send + Sync + 'static> Build for FromKey<T> {
    type Out = T;
    type Head = Self;

    fn close<N: Consumer<T>>(self, next: N, closing: &mut Closing<'_>) {
        closing.assembler.subscribed_to_key(closing.segment, &self.key, self.terms, next);
    }
}

impl<T: Clone + Send + Sync + 'static> fmt::Debug for SharedSource<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedSource").field("name", &self.name()).finish_non_exhaustive()
    }
}
