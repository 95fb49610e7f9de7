//! Looking for situations.

use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use mizzle_engine::operator::join::Either;
use mizzle_engine::operator::{
    Consumer, NO_ACTIONS, Nowhere, OneByOne, OpId, Reporting, SituationMatch, SituationState,
    SteeredSituations, Together,
};
use mizzle_engine::plan::{Head, Shape};
use mizzle_engine::runtime::{Port, WhenFull};
use mizzle_engine::situation::{Act, Program};
use mizzle_engine::state::Codec;

use super::join::{First, meet};
use super::{KeyedStream, Stateful, Stream};
use crate::build::{Build, Closing, FromPort, FromSides, Joint, by_hash};
use crate::query::Duty;
use crate::situation::{InvalidRule, Rules, Situations};

/// A stream behind a set of rules.
pub struct Situated<B, E, K, KF, R, A, W> {
    upstream: B,
    op: OpId,
    key: KF,
    only: Option<K>,
    /// `None` if there are no such rules: the query is refused.
    program: Option<Arc<Program<E>>>,
    codec: Option<Codec<SituationState<K, E>>>,
    reset_on_panic: bool,
    reporting: PhantomData<fn() -> (R, W)>,
    acts: A,
}

/// Its rules stay.
pub struct Steady;

/// Its rules change while events flow.
pub struct Changing;

/// Events, and the rules that hold from then on.
type Steering<E> = FromSides<Either<E, Rules<E>>>;

impl<B: Build> Stream<B>
where
    B::Out: Clone,
{
    /// Looks for situations among all events, as [`KeyedStream::situations`] does among those of each key.
    #[track_caller]
    pub fn situations(
        self,
        rules: Situations<B::Out>,
    ) -> Stream<
        Situated<
            B,
            B::Out,
            (),
            impl Fn(&B::Out) + Clone + Send + Sync + 'static,
            OneByOne,
            (),
            Steady,
        >,
    > {
        looking(self, (|_: &B::Out| (), Some(())), Shape::Single, rules.compile())
    }

    /// As [`KeyedStream::situations_steered`], among all events.
    #[track_caller]
    pub fn situations_steered<C>(
        self,
        rules: Situations<B::Out>,
        changes: Stream<C>,
    ) -> Stream<
        Situated<
            Steering<B::Out>,
            B::Out,
            (),
            impl Fn(&B::Out) + Clone + Send + Sync + 'static,
            OneByOne,
            (),
            Changing,
        >,
    >
    where
        C: Build<Out = Rules<B::Out>>,
    {
        steered(self, changes, (|_: &B::Out| (), Some(())), rules.compile())
    }
}

impl<B, K, KF> KeyedStream<B, K, KF>
where
    B: Build,
    B::Out: Clone,
    K: Hash + Eq + Clone + Send + Sync + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
{
    /// Looks for the situations of `rules` among the events of each key. What is found comes out, and the
    /// referenced events of stateless rules too: all that one event brings in the order in which it is found, at the
    /// time of that event. The events that came in do not.
    ///
    /// Situations are ordered by nature: their events come in order of event time, those of one time as they
    /// arrived.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mizzle::{Engine, Query, source};
    /// use mizzle::situation::{EventType, Lifespan, Situation, Situations, operand};
    /// use mizzle::time::Timestamp;
    ///
    /// #[derive(Clone, Debug, PartialEq)]
    /// enum Event { Order(u32), Paid(u32), Unpaid(u32) }
    /// #[derive(Clone, Copy, Debug)]
    /// enum Kind { Order, Paid, Unpaid }
    /// impl EventType for Kind {
    ///     fn number(self) -> u16 {
    ///         self as u16
    ///     }
    /// }
    ///
    /// // An hour from each order on, within which it is to be paid.
    /// let hour = Lifespan::new("hour").opened_by(Kind::Order).closed_after(Duration::from_secs(3600));
    /// let unpaid = Situation::not("unpaid", [operand(Kind::Paid)]).during("hour").derives(
    ///     Kind::Unpaid,
    ///     |found| match found.lifespan().opener() {
    ///         Some(Event::Order(number)) => Event::Unpaid(*number),
    ///         _ => unreachable!("orders open it"),
    ///     },
    /// );
    /// let kind = |event: &Event| match event {
    ///     Event::Order(_) => Kind::Order,
    ///     Event::Paid(_) => Kind::Paid,
    ///     Event::Unpaid(_) => Kind::Unpaid,
    /// };
    /// let rules = Situations::new(kind).lifespan(hour).situation(unpaid);
    ///
    /// let events = [(0, Event::Order(1)), (60, Event::Order(2)), (900, Event::Paid(1)), (7200, Event::Order(3))];
    /// let query = Query::new("orders");
    /// let found = query
    ///     .source("events", source::from_iter(events, |event| Timestamp::from_secs(event.0)))
    ///     .map(|event| event.1)
    ///     .key_by(|event| match event {
    ///         Event::Order(number) | Event::Paid(number) | Event::Unpaid(number) => *number,
    ///     })
    ///     .situations(rules)
    ///     .collect();
    /// Engine::new()?.submit(query)?.wait();
    /// assert_eq!(found.values(), [Event::Unpaid(2), Event::Unpaid(3)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The query is refused where a rule [makes no sense](crate::situation::InvalidRule).
    #[track_caller]
    pub fn situations(
        self,
        rules: Situations<B::Out>,
    ) -> Stream<Situated<B, B::Out, K, KF, OneByOne, (), Steady>> {
        looking(self.stream, (self.key, None), Shape::Keyed, rules.compile())
    }

    /// As [`situations`](Self::situations), with rules that change while events flow: each event of `changes` is the
    /// rules that hold from its time on, for events of that very time too. What they have in common with those
    /// before, the very same situations and lifespans, goes on; what was
    /// [replaced](crate::situation::Situations::replace) begins anew.
    ///
    /// An event waits until the watermark of `changes` has passed its time, as with a
    /// [control stream](Stream::with_control).
    #[track_caller]
    pub fn situations_steered<C>(
        self,
        rules: Situations<B::Out>,
        changes: Stream<C>,
    ) -> Stream<Situated<Steering<B::Out>, B::Out, K, KF, OneByOne, (), Changing>>
    where
        C: Build<Out = Rules<B::Out>>,
    {
        steered(self.stream, changes, (self.key, None), rules.compile())
    }
}

/// Rules, or why there are none.
type Compiled<E> = Result<Rules<E>, InvalidRule>;

/// Puts the rules behind `stream`, or notes that there are no such rules.
#[track_caller]
fn looking<B, E, K, KF, W>(
    stream: Stream<B>,
    (key, only): (KF, Option<K>),
    shape: Shape,
    rules: Compiled<E>,
) -> Stream<Situated<B, E, K, KF, OneByOne, (), W>> {
    let (program, mistake) = match rules {
        Ok(rules) => (Some(rules.program), None),
        Err(mistake) => (None, Some(mistake)),
    };
    let stream = stream.then("situations", shape, |upstream, op| Situated {
        upstream,
        op,
        key,
        only,
        program,
        codec: None,
        reset_on_panic: false,
        reporting: PhantomData,
        acts: (),
    });
    let mut graph = stream.graph.borrow_mut();
    graph.site_mut(stream.build.op).in_order = true;
    if stream.build.program.as_ref().is_some_and(|program| program.has_actions()) {
        graph.refuse_unless_settled(stream.build.op, NO_ACTIONS);
    }
    drop(graph);
    if let Some(mistake) = mistake {
        stream.refuse(mistake);
    }
    stream
}

#[track_caller]
fn steered<B, C, K, KF>(
    stream: Stream<B>,
    changes: Stream<C>,
    key: (KF, Option<K>),
    rules: Compiled<B::Out>,
) -> Stream<Situated<Steering<B::Out>, B::Out, K, KF, OneByOne, (), Changing>>
where
    B: Build,
    C: Build<Out = Rules<B::Out>>,
{
    // The changes first: of one time they hold for the events.
    let both = meet(stream, changes, First::Right, &|_: &_| ());
    looking(both, key, Shape::Single, rules)
}

impl<B, E, K, KF, R, A, W> Stream<Situated<B, E, K, KF, R, A, W>> {
    /// A panic of a rule's function ends the lifespans of the key it was called for and counts the event as
    /// failed, instead of failing the query.
    pub fn reset_key_on_panic(mut self) -> Self {
        self.build.reset_on_panic = true;
        self
    }
}

impl<B, E, K, KF, A, W> Stream<Situated<B, E, K, KF, OneByOne, A, W>> {
    /// What one event, or one moment, brings comes out together, each event with the name of its rule.
    pub fn together(self) -> Stream<Situated<B, E, K, KF, Together, A, W>> {
        self.rebuild(|build| Situated {
            upstream: build.upstream,
            op: build.op,
            key: build.key,
            only: build.only,
            program: build.program,
            codec: build.codec,
            reset_on_panic: build.reset_on_panic,
            reporting: PhantomData,
            acts: build.acts,
        })
    }
}

impl<B, E, K, KF, R, W> Stream<Situated<B, E, K, KF, R, (), W>>
where
    E: Clone + Send + 'static,
{
    /// Has the rules' actions done: on the action thread of the engine, one after the other, while situations are
    /// looked for. About `capacity` of them wait for it; when those are too many the query waits, or drops and counts, as
    /// `when_full` says. The query is over when they are done; a panic of one fails it. Rules with actions are refused
    /// where this is not said.
    #[track_caller]
    pub fn actions(
        self,
        capacity: usize,
        when_full: WhenFull,
    ) -> Stream<Situated<B, E, K, KF, R, Arc<Port<Act<E>>>, W>> {
        let port = Port::new(1);
        let main = self.rebuild(|build| Situated {
            upstream: build.upstream,
            op: build.op,
            key: build.key,
            only: build.only,
            program: build.program,
            codec: build.codec,
            reset_on_panic: build.reset_on_panic,
            reporting: build.reporting,
            acts: port.clone(),
        });
        let op = main.build.op;
        main.graph.borrow_mut().settle(op);
        let (head, place) = (Head::Side { op }, (op, Duty::Optional));
        let inputs = vec![main.draft.segment];
        Stream::new(&main.graph, head, inputs, place, FromPort { port }).act(capacity, when_full);
        main
    }
}

/// Where actions go.
#[doc(hidden)]
pub trait ActsTo<E>: 'static {
    /// What takes them.
    type Consumer: Consumer<Act<E>>;

    /// Whether somebody does them.
    const ARE_DONE: bool;

    /// Makes it, for operator `op`.
    fn consumer(&self, op: OpId, closing: &mut Closing<'_>) -> Self::Consumer;
}

impl<E: Send + 'static> ActsTo<E> for () {
    type Consumer = Nowhere<Act<E>>;

    const ARE_DONE: bool = false;

    fn consumer(&self, _: OpId, _: &mut Closing<'_>) -> Nowhere<Act<E>> {
        Nowhere::default()
    }
}

impl<E: Send + 'static> ActsTo<E> for Arc<Port<Act<E>>> {
    type Consumer = mizzle_engine::runtime::Outlet<Act<E>>;

    const ARE_DONE: bool = true;

    fn consumer(&self, op: OpId, closing: &mut Closing<'_>) -> Self::Consumer {
        let piece = closing.assembler.plan().piece_of(op).expect("the operator was planned");
        closing.assembler.outlet(piece, self, 0)
    }
}

impl<B, E, K, KF, R, A, W> Situated<B, E, K, KF, R, A, W>
where
    E: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + Sync + 'static,
    KF: Fn(&E) -> K + Clone + Send + Sync + 'static,
    R: Reporting<E>,
    A: ActsTo<E>,
{
    /// The operator in front of `next`, and what it stands behind.
    fn operator<N: Consumer<R::Out>>(
        self,
        next: N,
        closing: &mut Closing<'_>,
    ) -> (B, SituationMatch<E, K, KF, R, N, A::Consumer>) {
        let acts = self.acts.consumer(self.op, closing);
        let program = self.program.expect("a query without rules was refused");
        let key = (self.key, self.only);
        let matching =
            SituationMatch::new(self.op, key, program, self.codec, self.reset_on_panic, next, acts);
        (self.upstream, if A::ARE_DONE { matching } else { matching.refusing_actions() })
    }
}

impl<B, E, K, KF, R, A> Build for Situated<B, E, K, KF, R, A, Steady>
where
    B: Build<Out = E>,
    E: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + Sync + 'static,
    KF: Fn(&E) -> K + Clone + Send + Sync + 'static,
    R: Reporting<E>,
    A: ActsTo<E>,
{
    type Out = R::Out;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT.later();

    fn close<N: Consumer<R::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let (op, route) = (self.op, self.key.clone());
        let (upstream, matching) = self.operator(next, closing);
        closing.keyed(upstream, op, matching, by_hash(route));
    }
}

impl<E, K, KF, R, A> Build for Situated<Steering<E>, E, K, KF, R, A, Changing>
where
    E: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + Sync + 'static,
    KF: Fn(&E) -> K + Clone + Send + Sync + 'static,
    R: Reporting<E>,
    A: ActsTo<E>,
{
    type Out = R::Out;
    type Head = Steering<E>;

    const JOINT: Joint = Joint::Linked;

    fn close<N: Consumer<R::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let op = self.op;
        let (sides, matching) = self.operator(next, closing);
        closing.join(sides, op, SteeredSituations(matching));
    }
}

impl<B, E, K, KF, R, A, W> Stateful for Situated<B, E, K, KF, R, A, W>
where
    E: 'static,
    K: 'static,
    Situated<B, E, K, KF, R, A, W>: Build,
{
    type State = SituationState<K, E>;

    const ALWAYS_IN_ORDER: bool = true;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}
