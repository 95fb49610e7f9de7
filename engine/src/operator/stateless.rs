//! The operators that remember nothing.

use super::{Consumer, Cx, OpId, pass_on};
use crate::event::Event;
use crate::state::{StateError, Visit};
use crate::time::Timestamp;

/// Each value becomes another.
pub struct Map<F, N, U> {
    op: OpId,
    f: F,
    next: N,
    out: std::marker::PhantomData<fn() -> U>,
}

impl<F, N, U> Map<F, N, U> {
    /// `f` applied to each value, in front of `next`.
    pub fn new(op: OpId, f: F, next: N) -> Self {
        Self { op, f, next, out: std::marker::PhantomData }
    }
}

impl<T, U, F, N> Consumer<T> for Map<F, N, U>
where
    T: Send + 'static,
    U: Send + 'static,
    F: Fn(T) -> U + Send + Sync + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        let value = cx.call(self.op, event.time, || (self.f)(event.value));
        self.next.event(state, cx, Event::new(event.time, value));
    }
}

/// Only values that satisfy a predicate go on.
pub struct Filter<F, N> {
    op: OpId,
    predicate: F,
    next: N,
}

impl<F, N> Filter<F, N> {
    /// Values for which `predicate` holds, in front of `next`.
    pub fn new(op: OpId, predicate: F, next: N) -> Self {
        Self { op, predicate, next }
    }
}

impl<U, F, N> Consumer<U> for Filter<F, N>
where
    U: Send + 'static,
    F: Fn(&U) -> bool + Send + Sync + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<U>) {
        if cx.call(self.op, event.time, || (self.predicate)(&event.value)) {
            self.next.event(state, cx, event);
        }
    }
}

/// Each value becomes another or nothing.
pub struct FilterMap<F, N, U> {
    op: OpId,
    f: F,
    next: N,
    out: std::marker::PhantomData<fn() -> U>,
}

impl<F, N, U> FilterMap<F, N, U> {
    /// What `f` makes of each value, where it makes something, in front of `next`.
    pub fn new(op: OpId, f: F, next: N) -> Self {
        Self { op, f, next, out: std::marker::PhantomData }
    }
}

impl<T, U, F, N> Consumer<T> for FilterMap<F, N, U>
where
    T: Send + 'static,
    U: Send + 'static,
    F: Fn(T) -> Option<U> + Send + Sync + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        if let Some(value) = cx.call(self.op, event.time, || (self.f)(event.value)) {
            self.next.event(state, cx, Event::new(event.time, value));
        }
    }
}

/// Each value becomes any number of others, all at its time.
pub struct FlatMap<F, N, I: IntoIterator> {
    op: OpId,
    f: F,
    next: N,
    out: std::marker::PhantomData<fn() -> I>,
}

impl<F, N, I: IntoIterator> FlatMap<F, N, I> {
    /// All that `f` makes of each value, in front of `next`.
    pub fn new(op: OpId, f: F, next: N) -> Self {
        Self { op, f, next, out: std::marker::PhantomData }
    }
}

impl<T, U, I, F, N> Consumer<T> for FlatMap<F, N, I>
where
    T: Send + 'static,
    U: Send + 'static,
    I: IntoIterator<Item = U> + 'static,
    F: Fn(T) -> I + Send + Sync + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        let mut values = cx.call(self.op, event.time, || (self.f)(event.value).into_iter());
        // The iterator is the user's too: each step of it is guarded, what follows is not.
        while let Some(value) = cx.call(self.op, event.time, || values.next()) {
            self.next.event(state, cx, Event::new(event.time, value));
        }
    }
}

/// A look at each event as it passes.
pub struct Inspect<F, N> {
    op: OpId,
    look: F,
    next: N,
}

impl<F, N> Inspect<F, N> {
    /// `look` at each event, in front of `next`.
    pub fn new(op: OpId, look: F, next: N) -> Self {
        Self { op, look, next }
    }
}

impl<U, F, N> Consumer<U> for Inspect<F, N>
where
    U: Send + 'static,
    F: Fn(Timestamp, &U) + Send + Sync + 'static,
    N: Consumer<U>,
{
    pass_on!(N);

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<U>) {
        cx.call(self.op, event.time, || (self.look)(event.time, &event.value));
        self.next.event(state, cx, event);
    }
}
