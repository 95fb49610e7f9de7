//! How a fluent description becomes typed chains: each call wraps the calls before it, and closing a
//! stream pushes the consumer behind it inside, up to the head.

use std::cell::RefCell;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use mizzle_engine::operator::{Consumer, Linked, Map, OpId};
use mizzle_engine::runtime::{Assembler, GroupCore, Line, Outlet, Port, Router};
use mizzle_engine::source::{BadRecord, Source};
use mizzle_engine::state::hash;
use mizzle_engine::time::{Timestamp, Watermarks};

/// A stream that is being described, from its head on. Implemented by Mizzle's own types only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a stream that operators can follow",
    note = "a keyed stream takes stateful operators only: put `map`, `filter` and the like before `key_by`"
)]
pub trait Build: Sized + 'static {
    /// The payload of its events.
    type Out: Send + 'static;

    /// Where it starts.
    type Head;

    /// How a stateful operator is put behind it.
    #[doc(hidden)]
    const JOINT: Joint = Joint::Fused;

    /// Puts `next` behind it and hands the chain to the assembler.
    #[doc(hidden)]
    fn close<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>);
}

/// The hash of what `key` finds, to route by. Made here and not where a stream is closed: a closure is of
/// another type for each type of consumer behind it, and what stands before an operator would have to be
/// compiled for all of them, twice as often with each operator.
pub(crate) fn by_hash<T, K: Hash>(
    key: impl Fn(&T) -> K + Send + Sync + 'static,
) -> impl Fn(&T) -> u64 + Send + Sync + 'static {
    move |value| hash(&key(value))
}

/// How a stateful operator is put behind a stream.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joint {
    /// Compiled into what is before it: the first of a segment. What is before it is compiled twice, once
    /// for a cut.
    Fused,
    /// Behind a virtual call, so that what is before it is compiled once: the later ones. Were they fused
    /// too, a segment would be compiled from every stateful operator to every later one.
    Linked,
    /// Compiled into what is before it, as all of a template: a member is never cut and is to be small.
    Template,
}

impl Joint {
    /// Behind a stateful operator that was put behind such a stream.
    pub(crate) const fn later(self) -> Self {
        match self {
            Joint::Fused | Joint::Linked => Joint::Linked,
            Joint::Template => Joint::Template,
        }
    }
}

/// A segment that is being closed.
#[doc(hidden)]
pub struct Closing<'a> {
    pub(crate) assembler: &'a mut Assembler,
    pub(crate) segment: usize,
}

impl Closing<'_> {
    /// Puts the sink `op`, as `consumer`, behind `upstream`: fused, or as a chain of its own where the plan
    /// cuts.
    pub(crate) fn sink<B, C>(&mut self, upstream: B, op: OpId, consumer: C)
    where
        B: Build,
        C: Consumer<B::Out>,
    {
        self.fused_or_cut(upstream, op, consumer, Cut);
    }

    /// Puts `consumer`, whose first operator is `op` and keeps one state, behind `upstream`.
    pub(crate) fn stateful<B, C>(&mut self, upstream: B, op: OpId, consumer: C)
    where
        B: Build,
        C: Consumer<B::Out>,
    {
        self.behind(upstream, op, consumer, Cut);
    }

    /// As `stateful`, for an operator that keeps a state per key. Where the plan cuts, a router sends each
    /// event to the shard of its key's `hash`; over all events there is one key and one shard.
    pub(crate) fn keyed<B, C, H>(&mut self, upstream: B, op: OpId, consumer: C, hash: H)
    where
        B: Build,
        C: Consumer<B::Out>,
        H: Fn(&B::Out) -> u64 + Send + Sync + 'static,
    {
        self.behind(upstream, op, consumer, CutShards(hash));
    }

    /// Puts `consumer` behind `upstream` as its joint says.
    fn behind<B, C, X>(&mut self, upstream: B, op: OpId, consumer: C, cut: X)
    where
        B: Build,
        C: Consumer<B::Out>,
        X: CutBefore<B::Out>,
    {
        if const { matches!(B::JOINT, Joint::Linked) } {
            let mut link = Linked::new(consumer);
            if self.assembler.plan().is_cut_before(op) {
                link = Linked::new(cut.cut(self.assembler, op, link));
            }
            upstream.close(link, self);
        } else {
            self.fused_or_cut(upstream, op, consumer, cut);
        }
    }

    fn fused_or_cut<B, C, X>(&mut self, upstream: B, op: OpId, consumer: C, cut: X)
    where
        B: Build,
        C: Consumer<B::Out>,
        X: CutBefore<B::Out>,
    {
        if self.assembler.plan().is_cut_before(op) {
            let outlet = cut.cut(self.assembler, op, consumer);
            upstream.close(outlet, self);
        } else {
            upstream.close(consumer, self);
        }
    }
}

/// Makes chains of their own of a consumer, and what stands before them.
trait CutBefore<T> {
    type Outlet: Consumer<T>;

    fn cut<C: Consumer<T>>(self, assembler: &mut Assembler, op: OpId, consumer: C) -> Self::Outlet;
}

/// Into one chain.
struct Cut;

impl<T: Send + 'static> CutBefore<T> for Cut {
    type Outlet = Outlet<T>;

    fn cut<C: Consumer<T>>(self, assembler: &mut Assembler, op: OpId, consumer: C) -> Outlet<T> {
        assembler.cut(op, consumer)
    }
}

/// Into shards, by the hash of the key.
struct CutShards<H>(H);

impl<T, H> CutBefore<T> for CutShards<H>
where
    T: Send + 'static,
    H: Fn(&T) -> u64 + Send + Sync + 'static,
{
    type Outlet = Router<T, H>;

    fn cut<C: Consumer<T>>(self, assembler: &mut Assembler, op: OpId, consumer: C) -> Router<T, H> {
        assembler.cut_shards(op, consumer, self.0)
    }
}

/// Where both sides of a join enter: known when what is behind it has been built.
pub(crate) struct Entry<T> {
    /// One for each of its shards.
    ports: Vec<Arc<Port<T>>>,
    /// The join.
    op: OpId,
}

impl<T> Default for Entry<T> {
    fn default() -> Self {
        Self { ports: Vec::new(), op: OpId::default() }
    }
}

/// Where a stream starts as the union of both sides of a join.
pub struct FromSides<T> {
    pub(crate) entry: Rc<RefCell<Entry<T>>>,
}

impl<T: Send + 'static> Build for FromSides<T> {
    type Out = T;
    type Head = Self;

    fn close<N: Consumer<T>>(self, next: N, closing: &mut Closing<'_>) {
        self.entry.borrow_mut().ports = closing.assembler.join(closing.segment, next);
    }
}

impl Closing<'_> {
    /// Puts the join `op`, as `consumer`, behind both of its sides.
    pub(crate) fn join<T, C>(&mut self, sides: FromSides<T>, op: OpId, consumer: C)
    where
        T: Send + 'static,
        C: Consumer<T>,
    {
        sides.entry.borrow_mut().op = op;
        sides.close(consumer, self);
    }

    /// Puts an outlet behind `upstream`, one side of the join that `entry` belongs to: input `input`,
    /// each event as what `wrap` makes of it and in the shard that `route` picks.
    pub(crate) fn side<B, T>(
        &mut self,
        upstream: B,
        entry: &RefCell<Entry<T>>,
        input: u16,
        wrap: impl Fn(B::Out) -> T + Send + Sync + 'static,
        route: impl Fn(&T) -> u64 + Send + Sync + 'static,
    ) where
        B: Build,
        T: Send + 'static,
    {
        let Entry { ports, op } = &*entry.borrow();
        let from = self.assembler.plan().tail_of(self.segment);
        let shards = self.assembler.lanes(from, *op, ports, input, route);
        upstream.close(Map::<_, _, _, false>::new(*op, wrap, shards), self);
    }
}

/// Where a stream starts at a source.
pub struct FromSource<S: Source> {
    pub(crate) source: S,
    pub(crate) watermarks: Watermarks<S::Item>,
    pub(crate) rejects: Option<Arc<Port<BadRecord>>>,
}

impl<S: Source> Build for FromSource<S> {
    type Out = S::Item;
    type Head = Self;

    fn close<N: Consumer<S::Item>>(self, next: N, closing: &mut Closing<'_>) {
        closing.assembler.source(closing.segment, self.source, self.watermarks, self.rejects, next);
    }
}

/// Where a stream starts at several sources.
pub struct FromSources<S: Source> {
    pub(crate) sources: Vec<S>,
    pub(crate) watermarks: Watermarks<S::Item>,
    pub(crate) rejects: Option<Arc<Port<BadRecord>>>,
}

impl<S: Source> Build for FromSources<S> {
    type Out = S::Item;
    type Head = Self;

    fn close<N: Consumer<S::Item>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { sources, watermarks, rejects } = self;
        closing.assembler.sources(closing.segment, sources, &watermarks, rejects, next);
    }
}

/// Where a stream starts with what other threads push.
pub struct FromPush<T: Send + 'static> {
    pub(crate) line: Described<Line<T>>,
    pub(crate) watermarks: Watermarks<T>,
}

/// Something that those outside hold a handle to while it stands in a description.
pub(crate) trait Awaited {
    /// The description is gone: unless an engine has it, none ever will, and those outside are told.
    fn described(&self);
}

impl<T: Send + 'static> Awaited for Line<T> {
    fn described(&self) {
        Line::described(self);
    }
}

impl<On: Send + 'static, P: Send + 'static> Awaited for GroupCore<On, P> {
    fn described(&self) {
        GroupCore::described(self);
    }
}

/// Its place in a description: nobody waits for ever for a query that was not submitted.
pub(crate) struct Described<A: Awaited>(pub(crate) Arc<A>);

impl<A: Awaited> Drop for Described<A> {
    fn drop(&mut self) {
        self.0.described();
    }
}

impl<T: Send + 'static> Build for FromPush<T> {
    type Out = T;
    type Head = Self;

    fn close<N: Consumer<T>>(self, next: N, closing: &mut Closing<'_>) {
        closing.assembler.pushed(closing.segment, &self.line.0, self.watermarks, next);
    }
}

/// Where a stream starts behind a cut: a branch, a side output, a union, `boxed`.
pub struct FromPort<T> {
    pub(crate) port: Arc<Port<T>>,
}

impl<T: Send + 'static> Build for FromPort<T> {
    type Out = T;
    type Head = Self;

    fn close<N: Consumer<T>>(self, next: N, closing: &mut Closing<'_>) {
        self.port.mark_used();
        let piece = closing.assembler.plan().head_of(closing.segment);
        closing.assembler.inbox(piece, self.port, next);
    }
}

/// Where a stream starts at a shared one.
pub struct FromShared<T> {
    pub(crate) readers: Rc<RefCell<Vec<Arc<Port<T>>>>>,
}

impl<T: Send + 'static> Build for FromShared<T> {
    type Out = T;
    type Head = Self;

    fn close<N: Consumer<T>>(self, next: N, closing: &mut Closing<'_>) {
        let port = Port::new(1);
        self.readers.borrow_mut().push(port.clone());
        FromPort { port }.close(next, closing);
    }
}

/// Where a stream starts with time stamps assigned anew.
pub struct FromRetimed<T, A> {
    pub(crate) port: Arc<Port<T>>,
    pub(crate) assign: A,
    pub(crate) watermarks: Watermarks<T>,
}

impl<T, A> Build for FromRetimed<T, A>
where
    T: Send + 'static,
    A: FnMut(&T) -> Timestamp + Send + 'static,
{
    type Out = T;
    type Head = Self;

    fn close<N: Consumer<T>>(self, next: N, closing: &mut Closing<'_>) {
        self.port.mark_used();
        closing.assembler.retimed(closing.segment, self.port, self.assign, self.watermarks, next);
    }
}
