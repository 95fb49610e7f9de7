//! Operators that keep a state per key.

use std::hash::Hash;
use std::marker::PhantomData;

use mizzle_engine::operator::{ApplyKeyed, Consumer, OpId, Process, ProcessOp, ProcessState};
use mizzle_engine::plan::{Head, Shape};
use mizzle_engine::runtime::Port;
use mizzle_engine::state::{Codec, Keyed};

use super::stateful::{moving, reducing};
use super::{BoxedStream, Stateful, Stream};
use crate::build::{Build, Closing, FromPort, Joint, by_hash};
use crate::query::Duty;

/// A stream whose events have a key: what stateful operators come next keep a state per key.
#[must_use = "a stream does nothing before it reaches a sink"]
pub struct KeyedStream<B, K, KF> {
    pub(super) stream: Stream<B>,
    pub(super) key: KF,
    pub(super) keys: PhantomData<fn() -> K>,
}

impl<B: Build> Stream<B> {
    /// Gives each event the key that `key` makes of it.
    ///
    /// Floats are no keys as they are: [`FloatKey`](crate::state::FloatKey) wraps one, with
    /// `0.0` and `-0.0` as one key and all NaN as one key.
    pub fn key_by<K, KF>(self, key: KF) -> KeyedStream<B, K, KF>
    where
        K: Hash + Eq + Send + 'static,
        KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    {
        self.graph.borrow_mut().go_on(self.draft.segment);
        KeyedStream { stream: self, key, keys: PhantomData }
    }
}

/// A stream behind an operator that keeps a state per key.
pub struct KeyedApply<B, K, KF, S, F, U> {
    pub(super) upstream: B,
    pub(super) op: OpId,
    pub(super) key: KF,
    pub(super) initial: S,
    pub(super) f: F,
    pub(super) codec: Option<Codec<Keyed<K, S>>>,
    pub(super) reset_on_panic: bool,
    out: PhantomData<fn() -> U>,
}

impl<B, K, KF> KeyedStream<B, K, KF>
where
    B: Build,
    K: Hash + Eq + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
{
    /// Each value together with the state of its key becomes another value; a key's state starts as
    /// `initial`.
    #[track_caller]
    pub fn apply_stateful<S, U, F>(
        self,
        initial: S,
        f: F,
    ) -> Stream<
        KeyedApply<B, K, KF, S, impl Fn(&mut S, B::Out) -> Option<U> + Send + Sync + 'static, U>,
    >
    where
        S: Clone + Send + Sync + 'static,
        U: Send + 'static,
        F: Fn(&mut S, B::Out) -> U + Send + Sync + 'static,
    {
        self.applied("apply_stateful", initial, move |state: &mut S, value| Some(f(state, value)))
    }

    /// The values of the key so far, reduced to one by `f`: emitted anew with each value.
    #[track_caller]
    pub fn reduce<F>(
        self,
        f: F,
    ) -> Stream<
        KeyedApply<
            B,
            K,
            KF,
            Option<B::Out>,
            impl Fn(&mut Option<B::Out>, B::Out) -> Option<B::Out> + Send + Sync + 'static,
            B::Out,
        >,
    >
    where
        B::Out: Clone + Sync,
        F: Fn(B::Out, B::Out) -> B::Out + Send + Sync + 'static,
    {
        self.applied("reduce", None, reducing(f))
    }

    /// A finite state machine per key: `transition` gives the next state, or `None` to stay. A value
    /// whose transition ends in a final state goes on, with that state.
    #[track_caller]
    pub fn state_transition<S, F, G>(
        self,
        initial: S,
        transition: F,
        is_final: G,
    ) -> Stream<
        KeyedApply<
            B,
            K,
            KF,
            S,
            impl Fn(&mut S, B::Out) -> Option<(B::Out, S)> + Send + Sync + 'static,
            (B::Out, S),
        >,
    >
    where
        S: Clone + Send + Sync + 'static,
        F: Fn(&S, &B::Out) -> Option<S> + Send + Sync + 'static,
        G: Fn(&S) -> bool + Send + Sync + 'static,
    {
        self.applied("state_transition", initial, moving(transition, is_final))
    }

    #[track_caller]
    fn applied<S, U, F>(
        self,
        kind: &'static str,
        initial: S,
        f: F,
    ) -> Stream<KeyedApply<B, K, KF, S, F, U>> {
        let key = self.key;
        self.stream.then(kind, Shape::Keyed, |upstream, op| KeyedApply {
            upstream,
            op,
            key,
            initial,
            f,
            codec: None,
            reset_on_panic: false,
            out: PhantomData,
        })
    }

    /// The general operator: a state per key, timers of event time and of processing time, and a side
    /// output. The second stream is the side output.
    #[track_caller]
    pub fn process<P>(self, process: P) -> (Stream<KeyedProcess<B, K, KF, P>>, BoxedStream<P::Side>)
    where
        K: Clone,
        P: ProcessOp<K, B::Out>,
    {
        let key = self.key;
        let port = Port::new(1);
        let main = self.stream.then("process", Shape::Keyed, |upstream, op| KeyedProcess {
            upstream,
            op,
            key,
            process,
            codec: None,
            reset_on_panic: false,
            side: port.clone(),
            keys: PhantomData,
        });
        let op = main.build.op;
        let (head, place) = (Head::Side { op }, (op, Duty::Optional));
        let inputs = vec![main.draft.segment];
        let side = Stream::new(&main.graph, head, inputs, place, FromPort { port });
        (main, side)
    }
}

impl<B, K, KF, S, F, U> Stream<KeyedApply<B, K, KF, S, F, U>> {
    /// A panic of the operator's function resets the state of the key it was called for and counts
    /// the event as failed, instead of failing the query.
    pub fn reset_key_on_panic(mut self) -> Self {
        self.build.reset_on_panic = true;
        self
    }
}

impl<B, K, KF, S, F, U> Build for KeyedApply<B, K, KF, S, F, U>
where
    B: Build,
    K: Hash + Eq + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    S: Clone + Send + Sync + 'static,
    U: Send + 'static,
    F: Fn(&mut S, B::Out) -> Option<U> + Send + Sync + 'static,
{
    type Out = U;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT.later();

    fn close<N: Consumer<U>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, key, initial, f, codec, reset_on_panic, .. } = self;
        let route = key.clone();
        let consumer = ApplyKeyed::new(op, key, initial, f, codec, reset_on_panic, next);
        closing.keyed(upstream, op, consumer, by_hash(route));
    }
}

impl<B, K, KF, S, F, U> Stateful for KeyedApply<B, K, KF, S, F, U>
where
    K: 'static,
    S: 'static,
    KeyedApply<B, K, KF, S, F, U>: Build,
{
    type State = Keyed<K, S>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}

/// A stream behind `process`.
pub struct KeyedProcess<B: Build, K, KF, P: ProcessOp<K, B::Out>> {
    upstream: B,
    op: OpId,
    key: KF,
    process: P,
    codec: Option<Codec<ProcessState<K, P::State>>>,
    reset_on_panic: bool,
    side: std::sync::Arc<Port<P::Side>>,
    keys: PhantomData<fn() -> K>,
}

impl<B: Build, K, KF, P: ProcessOp<K, B::Out>> Stream<KeyedProcess<B, K, KF, P>> {
    /// A panic of the operator's functions resets the state and the timers of the key they were
    /// called for and counts the event as failed, instead of failing the query.
    pub fn reset_key_on_panic(mut self) -> Self {
        self.build.reset_on_panic = true;
        self
    }
}

impl<B, K, KF, P> Build for KeyedProcess<B, K, KF, P>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    P: ProcessOp<K, B::Out>,
{
    type Out = P::Out;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT.later();

    fn close<N: Consumer<P::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, key, process, codec, reset_on_panic, side, .. } = self;
        let route = key.clone();
        let piece = closing.assembler.plan().piece_of(op).expect("the operator was planned");
        let side = closing.assembler.outlet(piece, &side, 0);
        let consumer = Process::new(op, key, process, codec, reset_on_panic, next, side);
        closing.assembler.by_clock();
        closing.keyed(upstream, op, consumer, by_hash(route));
    }
}

impl<B, K, KF, P> Stateful for KeyedProcess<B, K, KF, P>
where
    B: Build,
    K: 'static,
    P: ProcessOp<K, B::Out>,
    KeyedProcess<B, K, KF, P>: Build,
{
    type State = ProcessState<K, P::State>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}
