//! Looking for patterns.

use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use mizzle_engine::cep::{Bound, Program};
use mizzle_engine::operator::{Consumer, Nowhere, OpId, PatternMatch, PatternState, Select};
use mizzle_engine::plan::{Head, Shape};
use mizzle_engine::runtime::Port;
use mizzle_engine::state::Codec;

use super::{BoxedStream, KeyedStream, Stateful, Stream};
use crate::build::{Build, Closing, FromPort, Joint, by_hash};
use crate::pattern::Pattern;
use crate::query::Duty;

/// A stream behind a pattern.
pub struct Patterned<B: Build, K, KF, S, P> {
    upstream: B,
    op: OpId,
    key: KF,
    /// `None` if there is no such pattern: the query is refused.
    program: Option<Program<B::Out>>,
    select: S,
    codec: Option<Codec<PatternState<K, B::Out>>>,
    reset_on_panic: bool,
    timeouts: P,
}

/// What matches become; timeouts are not looked at.
pub struct Matched<F, U> {
    f: F,
    out: PhantomData<fn() -> U>,
}

/// What matches and timeouts become.
pub struct MatchedOrTimedOut<F, G, U, V> {
    f: F,
    g: G,
    out: PhantomData<fn() -> (U, V)>,
}

impl<E, U, F> Select<E> for Matched<F, U>
where
    U: Send + 'static,
    F: Fn(&Bound<'_, E>) -> U + Send + Sync + 'static,
{
    type Out = U;
    type Side = ();

    const TIMEOUTS: bool = false;

    fn matched(&self, events: &Bound<'_, E>) -> U {
        (self.f)(events)
    }

    fn timed_out(&self, _: &Bound<'_, E>) -> Option<()> {
        None
    }
}

impl<E, U, V, F, G> Select<E> for MatchedOrTimedOut<F, G, U, V>
where
    U: Send + 'static,
    V: Send + 'static,
    F: Fn(&Bound<'_, E>) -> U + Send + Sync + 'static,
    G: Fn(&Bound<'_, E>) -> V + Send + Sync + 'static,
{
    type Out = U;
    type Side = V;

    const TIMEOUTS: bool = true;

    fn matched(&self, events: &Bound<'_, E>) -> U {
        (self.f)(events)
    }

    fn timed_out(&self, events: &Bound<'_, E>) -> Option<V> {
        Some((self.g)(events))
    }
}

impl<B: Build> Stream<B> {
    /// Looks for `pattern` among all events, as [`KeyedStream::pattern`] does among those of each key.
    #[track_caller]
    pub fn pattern<U, F>(
        self,
        pattern: Pattern<B::Out>,
        found: F,
    ) -> Stream<Patterned<B, (), impl Fn(&B::Out) + Clone + Send + Sync + 'static, Matched<F, U>, ()>>
    where
        U: Send + 'static,
        F: Fn(&Bound<'_, B::Out>) -> U + Send + Sync + 'static,
    {
        looking(self, |_: &B::Out| (), Shape::Single, pattern, found)
    }
}

impl<B, K, KF> KeyedStream<B, K, KF>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
{
    /// Looks for `pattern` among the events of each key; what `found` makes of a match comes out, at the time
    /// of the event that completed it.
    ///
    /// Patterns are ordered by nature: their events come in order of event time, those of one time as they
    /// arrived.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mizzle::{Engine, Query, source};
    /// use mizzle::pattern::{Pattern, step};
    /// use mizzle::time::Timestamp;
    ///
    /// let payments = [(1, "ann", 2), (2, "bob", 900), (3, "ann", 700), (4, "bob", 3), (90, "bob", 800)];
    /// let probe = step("probe", |payment: &(i64, &str, i64)| payment.2 < 10)
    ///     .then(step("theft", |payment: &(i64, &str, i64)| payment.2 > 500));
    /// let query = Query::new("stolen cards");
    /// let stolen = query
    ///     .source("payments", source::from_iter(payments, |p| Timestamp::from_secs(p.0)))
    ///     .key_by(|payment| payment.1)
    ///     .pattern(Pattern::new(probe).within(Duration::from_secs(60)), |events| {
    ///         (events["probe"].1, events["probe"].2, events["theft"].2)
    ///     })
    ///     .collect();
    /// Engine::new()?.submit(query)?.wait();
    /// assert_eq!(stolen.values(), [("ann", 2, 700)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The query is refused where the pattern [cannot be](crate::pattern::InvalidPattern).
    #[track_caller]
    pub fn pattern<U, F>(
        self,
        pattern: Pattern<B::Out>,
        found: F,
    ) -> Stream<Patterned<B, K, KF, Matched<F, U>, ()>>
    where
        U: Send + 'static,
        F: Fn(&Bound<'_, B::Out>) -> U + Send + Sync + 'static,
    {
        looking(self.stream, self.key, Shape::Keyed, pattern, found)
    }
}

/// Puts the pattern behind `stream`, or notes that there is no such pattern.
#[track_caller]
fn looking<B: Build, K, KF, U, F>(
    stream: Stream<B>,
    key: KF,
    shape: Shape,
    pattern: Pattern<B::Out>,
    f: F,
) -> Stream<Patterned<B, K, KF, Matched<F, U>, ()>> {
    let (program, mistake) = match Program::try_from(pattern) {
        Ok(program) => (Some(program), None),
        Err(mistake) => (None, Some(mistake)),
    };
    let drawn = program.as_ref().map(|program| Box::new(program.drawn()));
    let stream = stream.then("pattern", shape, |upstream, op| Patterned {
        upstream,
        op,
        key,
        program,
        select: Matched { f, out: PhantomData },
        codec: None,
        reset_on_panic: false,
        timeouts: (),
    });
    let mut graph = stream.graph.borrow_mut();
    let site = graph.site_mut(stream.build.op);
    site.in_order = true;
    site.drawn = drawn;
    drop(graph);
    if let Some(mistake) = mistake {
        stream.refuse(mistake);
    }
    stream
}

impl<B: Build, K, KF, S, P> Stream<Patterned<B, K, KF, S, P>> {
    /// A panic of the operator's functions drops the partial matches of the key they were called for and
    /// counts the event as failed, instead of failing the query.
    pub fn reset_key_on_panic(mut self) -> Self {
        self.build.reset_on_panic = true;
        self
    }
}

impl<B: Build, K, KF, F, U> Stream<Patterned<B, K, KF, Matched<F, U>, ()>> {
    /// Gives the partial matches whose time is over as a stream of their own, the second: what `late` makes
    /// of the events they had, at the time at which it was over.
    pub fn timeouts<V, G>(
        self,
        late: G,
    ) -> (Stream<Patterned<B, K, KF, MatchedOrTimedOut<F, G, U, V>, Arc<Port<V>>>>, BoxedStream<V>)
    where
        V: Send + 'static,
        G: Fn(&Bound<'_, B::Out>) -> V + Send + Sync + 'static,
    {
        let port = Port::new(1);
        let main = self.rebuild(|build| Patterned {
            upstream: build.upstream,
            op: build.op,
            key: build.key,
            program: build.program,
            select: MatchedOrTimedOut { f: build.select.f, g: late, out: PhantomData },
            codec: build.codec,
            reset_on_panic: build.reset_on_panic,
            timeouts: port.clone(),
        });
        let op = main.build.op;
        let (head, place) = (Head::Side { op }, (op, Duty::Optional));
        let inputs = vec![main.draft.segment];
        let side = Stream::new(&main.graph, head, inputs, place, FromPort { port });
        (main, side)
    }
}

/// Where timeouts go.
#[doc(hidden)]
pub trait TimeoutsTo<V>: 'static {
    /// What takes them.
    type Consumer: Consumer<V>;

    /// Makes it, for operator `op`.
    fn consumer(&self, op: OpId, closing: &mut Closing<'_>) -> Self::Consumer;
}

impl TimeoutsTo<()> for () {
    type Consumer = Nowhere<()>;

    fn consumer(&self, _: OpId, _: &mut Closing<'_>) -> Nowhere<()> {
        Nowhere::default()
    }
}

impl<V: Send + 'static> TimeoutsTo<V> for Arc<Port<V>> {
    type Consumer = mizzle_engine::runtime::Outlet<V>;

    fn consumer(&self, op: OpId, closing: &mut Closing<'_>) -> Self::Consumer {
        let piece = closing.assembler.plan().piece_of(op).expect("the operator was planned");
        closing.assembler.outlet(piece, self, 0)
    }
}

impl<B, K, KF, S, P> Build for Patterned<B, K, KF, S, P>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    S: Select<B::Out>,
    P: TimeoutsTo<S::Side>,
{
    type Out = S::Out;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT.later();

    fn close<N: Consumer<S::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, key, program, select, codec, reset_on_panic, timeouts } = self;
        let program = program.expect("a query without a program was refused");
        let route = key.clone();
        let side = timeouts.consumer(op, closing);
        let consumer =
            PatternMatch::new(op, key, program, select, codec, reset_on_panic, next, side);
        closing.keyed(upstream, op, consumer, by_hash(route));
    }
}

impl<B, K, KF, S, P> Stateful for Patterned<B, K, KF, S, P>
where
    B: Build,
    K: 'static,
    Patterned<B, K, KF, S, P>: Build,
{
    type State = PatternState<K, B::Out>;

    const ALWAYS_IN_ORDER: bool = true;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}
