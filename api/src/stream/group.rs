//! Groups: a great many small queries from one template.

use std::hash::Hash;
use std::panic::Location;
use std::sync::Arc;

use mizzle_engine::operator::aggregate::Aggregate;
use mizzle_engine::operator::group::{
    ByKey, ByKeyAndRange, ByRange, BySet, ByWindow, Exits, MemberId, Program, Results, Select, Span,
};
use mizzle_engine::operator::{Consumer, OpId, Windows};
use mizzle_engine::plan::{Head, Shape};
use mizzle_engine::runtime::{Group, GroupCore, Outlet, Port};

use super::{BoxedStream, KeyedStream, Stream, WindowOp};
use crate::build::{Build, Closing, Described, FromPort, Joint, by_hash};
use crate::query::Duty;

/// The events of one member, each with the member's parameters: where a group's template starts.
///
/// `P` are the parameters; what selects (`S`) can be left to the compiler:
/// `|member: Member<f64, _>| ..`.
pub type Member<P, S> = Stream<FromGroup<P, S>>;

/// Where a group's template starts.
pub struct FromGroup<P: Send + 'static, S: Select> {
    op: OpId,
    select: S,
    core: Described<GroupCore<S::On, P>>,
    /// The lanes' inboxes, for what is upstream: known once the template has been closed.
    lanes: Lanes<S::In>,
    /// Makes the lanes' exits; the type of the results is known only to it.
    exits: MakeExits,
}

type Lanes<T> = std::rc::Rc<std::cell::RefCell<Vec<Arc<Port<T>>>>>;
type MakeExits =
    std::rc::Rc<std::cell::RefCell<Option<Box<dyn FnOnce(&mut Closing<'_>) -> Exits>>>>;

impl<P, S> Build for FromGroup<P, S>
where
    P: Clone + Send + Sync + 'static,
    S: Select,
{
    type Out = (P, S::Event);
    type Head = Self;

    const JOINT: Joint = Joint::Template;

    fn close<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { op, select, core, lanes, exits } = self;
        let make = exits.take().expect("a template is closed once");
        let (exits, core) = (make(closing), &core.0);
        let program = Program::new(op, core.number(), select, next, exits, core.watch());
        *lanes.borrow_mut() = closing.assembler.group(closing.segment, program, core);
    }
}

/// Where events leave for the lanes of a group whose members may lie in any: each for all of them.
fn to_all<T: Clone + Send + 'static>(
    op: OpId,
    closing: &mut Closing<'_>,
    from: usize,
    ports: &[Arc<Port<T>>],
) -> Outlet<T> {
    closing.assembler.fanout(op, from, ports)
}

impl<B, K, KF> KeyedStream<B, K, KF>
where
    B: Build,
    B::Out: Clone,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
{
    /// A group of queries, each for one key: members are added and removed through the handle, any
    /// number of them for a key, before the query is submitted and while it runs. `template` says
    /// what each does; it gets the member's parameters with every event. The stream that is returned
    /// has the results of all members that have no channel of their own.
    ///
    /// ```
    /// use mizzle::{Engine, Event, Query, source};
    /// use mizzle::stream::Member;
    /// use mizzle::time::Timestamp;
    ///
    /// let readings = [("cellar", 3.0), ("attic", 31.5), ("cellar", 8.5)];
    /// let query = Query::new("temperatures");
    /// let (alerts, results) = query
    ///     .source("readings", source::events(readings.map(|r| Event::new(Timestamp::from_secs(0), r))))
    ///     .key_by(|&(room, _)| room)
    ///     .group("above", |member: Member<f64, _>| {
    ///         member.filter(|(limit, (_, degrees))| degrees > limit).map(|(_, reading)| reading)
    ///     });
    /// let found = results.collect();
    /// alerts.add("attic", 30.0)?;
    /// let cellar = alerts.add("cellar", 5.0)?;
    /// let engine = Engine::new()?;
    /// engine.submit(query)?.wait();
    /// assert!(found.values().contains(&(cellar, ("cellar", 8.5))));
    /// assert_eq!(found.values().len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn group<P, C>(
        self,
        name: &str,
        template: impl FnOnce(Member<P, ByKey<B::Out, K, KF>>) -> Stream<C>,
    ) -> (Group<K, P, C::Out>, BoxedStream<(MemberId, C::Out)>)
    where
        P: Clone + Send + Sync + 'static,
        C: Build<Head = FromGroup<P, ByKey<B::Out, K, KF>>>,
    {
        let call = (name, Location::caller());
        let (route, select) = (self.key.clone(), ByKey::new(self.key));
        self.stream.grouped(call, (select, None), template, move |op, closing, from, ports| {
            closing.assembler.lanes(from, op, ports, 0, by_hash(route))
        })
    }

    /// As [`group`](Self::group), with members on a key and an interval of what `value` finds in an
    /// event: added for `(key, Span::above(20.0))`, a member gets the events of its key whose value
    /// lies there. Those it does not want cost it nothing: an index finds the members. A value that
    /// compares with nothing, such as NaN, lies in no interval with a bound.
    #[track_caller]
    pub fn group_by_range<V, VF, P, C>(
        self,
        name: &str,
        value: VF,
        template: impl FnOnce(Member<P, ByKeyAndRange<B::Out, K, V, KF, VF>>) -> Stream<C>,
    ) -> (Group<(K, Span<V>), P, C::Out>, BoxedStream<(MemberId, C::Out)>)
    where
        V: PartialOrd + Clone + Send + 'static,
        VF: Fn(&B::Out) -> V + Send + Sync + 'static,
        P: Clone + Send + Sync + 'static,
        C: Build<Head = FromGroup<P, ByKeyAndRange<B::Out, K, V, KF, VF>>>,
    {
        let call = (name, Location::caller());
        let (route, select) = (self.key.clone(), ByKeyAndRange::new(self.key, value));
        self.stream.grouped(call, (select, None), template, move |op, closing, from, ports| {
            closing.assembler.lanes(from, op, ports, 0, by_hash(route))
        })
    }

    /// As [`group`](Self::group), with members on sets of keys: added for `vec!["cellar", "attic"]`, a
    /// member gets the events of all these. As they may be anywhere, every lane looks at every event.
    #[track_caller]
    pub fn group_by_set<P, C>(
        self,
        name: &str,
        template: impl FnOnce(Member<P, BySet<B::Out, K, KF>>) -> Stream<C>,
    ) -> (Group<Vec<K>, P, C::Out>, BoxedStream<(MemberId, C::Out)>)
    where
        P: Clone + Send + Sync + 'static,
        C: Build<Head = FromGroup<P, BySet<B::Out, K, KF>>>,
    {
        let select = BySet::new(self.key);
        self.stream.grouped((name, Location::caller()), (select, None), template, to_all)
    }
}

impl<B, K, KF, A> Stream<WindowOp<B, K, KF, Windows, A>>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    A: Aggregate<B::Out, Out: Clone>,
{
    /// A group as by [`KeyedStream::group`], whose members get the windows of their key, and share
    /// them: each event goes into one slice, however many members its key has, and keys without
    /// members keep nothing. What a member gets is what it would of a window of its own in its
    /// template: of the events since it was added, and no others. Only tumbling and hopping windows
    /// can be shared.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mizzle::{Engine, Query, Windows, source};
    /// use mizzle::aggregate::max;
    /// use mizzle::stream::Member;
    /// use mizzle::time::Timestamp;
    ///
    /// let readings = (0..120i64).map(|n| (n, if n % 2 == 0 { "cellar" } else { "attic" }, n % 50));
    /// let query = Query::new("temperatures");
    /// let (limits, results) = query
    ///     .source("readings", source::from_iter(readings, |r| Timestamp::from_secs(r.0)))
    ///     .key_by(|&(_, room, _)| room)
    ///     .window(Windows::tumbling(Duration::from_secs(60)))
    ///     .aggregate(max(|&(_, _, degrees): &(i64, &str, i64)| degrees))
    ///     .group("limits", |member: Member<i64, _>| {
    ///         member.filter(|(limit, window)| window.value > Some(*limit)).map(|(_, window)| window.end)
    ///     });
    /// let found = results.collect();
    /// let low = limits.add("cellar", 40)?;
    /// limits.add("cellar", 48)?;
    /// let engine = Engine::new()?;
    /// engine.submit(query)?.wait();
    /// let minutes = |n: i64| Timestamp::from_secs(60 * n);
    /// assert_eq!(found.values(), [(low, minutes(1)), (low, minutes(2))]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn group<P, C>(
        self,
        name: &str,
        template: impl FnOnce(Member<P, ByWindow<B::Out, K, KF, A>>) -> Stream<C>,
    ) -> (Group<K, P, C::Out>, BoxedStream<(MemberId, C::Out)>)
    where
        P: Clone + Send + Sync + 'static,
        C: Build<Head = FromGroup<P, ByWindow<B::Out, K, KF, A>>>,
    {
        let Stream { graph, mut draft, build } = self;
        let WindowOp { upstream, op, key, windows, aggregate, .. } = build;
        // It becomes the first operator of the template.
        draft.ops.pop();
        let stream = Stream { graph, draft, build: upstream };
        let call = (name, Location::caller());
        let (route, select) = (key.clone(), ByWindow::new(op, windows, key, aggregate));
        stream.grouped(call, (select, Some(op)), template, move |op, closing, from, ports| {
            closing.assembler.lanes(from, op, ports, 0, by_hash(route))
        })
    }
}

impl<B: Build> Stream<B>
where
    B::Out: Clone,
{
    /// A group as by [`KeyedStream::group`], with members on intervals of what `value` finds in an
    /// event: added for `Span::new(10.0..20.0)`, a member gets the events whose value lies there. As
    /// they may be anywhere, every lane looks at every event.
    ///
    /// ```
    /// use mizzle::{Engine, Query, Span, source};
    /// use mizzle::stream::Member;
    /// use mizzle::time::Timestamp;
    ///
    /// let query = Query::new("scales");
    /// let (parcels, results) = query
    ///     .source("grams", source::from_iter([120, 2_500, 31_000], |_| Timestamp::from_secs(0)))
    ///     .group_by_range("tariffs", |&grams| grams, |member: Member<&str, _>| member);
    /// let found = results.map(|(_, tariff)| tariff).collect();
    /// parcels.add(Span::new(..1_000), "letter")?;
    /// parcels.add(Span::new(1_000..=31_500), "parcel")?;
    /// parcels.add(Span::above(30_000), "heavy")?;
    /// let engine = Engine::new()?;
    /// engine.submit(query)?.wait();
    /// let mut tariffs = found.values();
    /// tariffs.sort();
    /// assert_eq!(tariffs, [("heavy", 31_000), ("letter", 120), ("parcel", 2_500), ("parcel", 31_000)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn group_by_range<V, VF, P, C>(
        self,
        name: &str,
        value: VF,
        template: impl FnOnce(Member<P, ByRange<B::Out, V, VF>>) -> Stream<C>,
    ) -> (Group<Span<V>, P, C::Out>, BoxedStream<(MemberId, C::Out)>)
    where
        V: PartialOrd + Clone + Send + 'static,
        VF: Fn(&B::Out) -> V + Send + Sync + 'static,
        P: Clone + Send + Sync + 'static,
        C: Build<Head = FromGroup<P, ByRange<B::Out, V, VF>>>,
    {
        let select = ByRange::new(value);
        self.grouped((name, Location::caller()), (select, None), template, to_all)
    }
}

impl<B: Build> Stream<B> {
    fn grouped<P, S, C, U>(
        self,
        (name, location): (&str, &'static Location<'static>),
        (select, shared): (S, Option<OpId>),
        template: impl FnOnce(Member<P, S>) -> Stream<C>,
        outlet: impl FnOnce(OpId, &mut Closing<'_>, usize, &[Arc<Port<B::Out>>]) -> U + 'static,
    ) -> (Group<S::On, P, C::Out>, BoxedStream<(MemberId, C::Out)>)
    where
        P: Clone + Send + Sync + 'static,
        S: Select<In = B::Out>,
        C: Build<Head = FromGroup<P, S>>,
        U: Consumer<B::Out>,
    {
        let graph = self.graph.clone();
        let op = graph.borrow_mut().add_site("group", Shape::Stateless, location);
        name.clone_into(&mut graph.borrow_mut().site_mut(op).name);
        let (core, group) = GroupCore::new::<S, C::Out>(name);
        let (lanes, exits) = (Lanes::<B::Out>::default(), MakeExits::default());
        let build = FromGroup {
            op,
            select,
            core: Described(core),
            lanes: lanes.clone(),
            exits: exits.clone(),
        };
        let head = Head::Group { op, shared };
        let mut member =
            Stream::new(&graph, head, vec![self.draft.segment], (op, Duty::Sink), build);
        let segment = member.draft.segment;
        if let Some(shared) = shared {
            graph.borrow_mut().add_op(segment, shared);
            member.draft.ops.push(shared);
        }
        let made = template(member);
        if made.draft.segment != segment {
            made.refuse(format!("it is not the template of group {name:?}"));
        }
        let port = Port::new(1);
        let results = made.behind(Duty::Optional, FromPort { port: port.clone() });
        made.end(move |build, closing| {
            *exits.borrow_mut() = Some(Box::new(move |closing: &mut Closing<'_>| {
                let from = closing.assembler.plan().tail_of(closing.segment);
                Exits::new::<C::Out, Outlet<_>>(closing.assembler.outlet(from, &port, 0))
            }));
            build.close(Results::default(), closing);
        });
        self.end(move |build, closing| {
            let from = closing.assembler.plan().tail_of(closing.segment);
            let outlet = outlet(op, closing, from, &lanes.borrow());
            build.close(outlet, closing);
        });
        (group, results)
    }
}
