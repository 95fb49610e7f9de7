//! Operators that keep one state for all events.

use std::marker::PhantomData;

use mizzle_engine::operator::{Apply, Consumer, OpId};
use mizzle_engine::plan::Shape;
use mizzle_engine::state::Codec;

use super::{Stateful, Stream};
use crate::build::{Build, Closing, Joint};

/// A stream behind an operator that keeps one state for all events.
pub struct Applied<B, S, F, U> {
    upstream: B,
    op: OpId,
    initial: S,
    f: F,
    codec: Option<Codec<S>>,
    out: PhantomData<fn() -> U>,
}

impl<B: Build> Stream<B> {
    /// Each value together with a state becomes another value; the state, one for all events, starts
    /// as `initial`.
    #[track_caller]
    pub fn apply_stateful<S, U, F>(
        self,
        initial: S,
        f: F,
    ) -> Stream<Applied<B, S, impl Fn(&mut S, B::Out) -> Option<U> + Send + Sync + 'static, U>>
    where
        S: Clone + Send + Sync + 'static,
        U: Send + 'static,
        F: Fn(&mut S, B::Out) -> U + Send + Sync + 'static,
    {
        self.applied("apply_stateful", initial, move |state: &mut S, value| Some(f(state, value)))
    }

    /// The values so far, reduced to one by `f`: emitted anew with each value.
    #[track_caller]
    pub fn reduce<F>(
        self,
        f: F,
    ) -> Stream<
        Applied<
            B,
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

    /// A finite state machine: `transition` gives the next state, or `None` to stay. A value whose
    /// transition ends in a final state goes on, with that state.
    #[track_caller]
    pub fn state_transition<S, F, G>(
        self,
        initial: S,
        transition: F,
        is_final: G,
    ) -> Stream<
        Applied<
            B,
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
    fn applied<S, U, F>(self, kind: &'static str, initial: S, f: F) -> Stream<Applied<B, S, F, U>> {
        self.then(kind, Shape::Single, |upstream, op| Applied {
            upstream,
            op,
            initial,
            f,
            codec: None,
            out: PhantomData,
        })
    }
}

/// The step of a running reduce.
pub(super) fn reducing<T, F>(
    f: F,
) -> impl Fn(&mut Option<T>, T) -> Option<T> + Send + Sync + 'static
where
    T: Clone + Send + 'static,
    F: Fn(T, T) -> T + Send + Sync + 'static,
{
    move |state, value| {
        let reduced = match state.take() {
            Some(so_far) => f(so_far, value),
            None => value,
        };
        *state = Some(reduced.clone());
        Some(reduced)
    }
}

/// The step of a finite state machine.
pub(super) fn moving<T, S, F, G>(
    transition: F,
    is_final: G,
) -> impl Fn(&mut S, T) -> Option<(T, S)> + Send + Sync + 'static
where
    S: Clone + 'static,
    T: 'static,
    F: Fn(&S, &T) -> Option<S> + Send + Sync + 'static,
    G: Fn(&S) -> bool + Send + Sync + 'static,
{
    move |state, value| {
        *state = transition(state, &value)?;
        is_final(state).then(|| (value, state.clone()))
    }
}

impl<B, S, F, U> Build for Applied<B, S, F, U>
where
    B: Build,
    S: Clone + Send + Sync + 'static,
    U: Send + 'static,
    F: Fn(&mut S, B::Out) -> Option<U> + Send + Sync + 'static,
{
    type Out = U;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT.later();

    fn close<N: Consumer<U>>(self, next: N, closing: &mut Closing<'_>) {
        let consumer = Apply::new(self.op, self.initial, self.f, self.codec, next);
        closing.stateful(self.upstream, self.op, consumer);
    }
}

impl<B, S, F, U> Stateful for Applied<B, S, F, U>
where
    S: 'static,
    Applied<B, S, F, U>: Build,
{
    type State = S;

    fn codec(&mut self) -> &mut Option<Codec<S>> {
        &mut self.codec
    }
}
