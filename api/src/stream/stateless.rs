//! Operators that keep nothing.

use std::fmt::Debug;
use std::marker::PhantomData;

use mizzle_engine::operator::{
    Consumer, DebugEvents, Filter, FilterMap, FlatMap, Inspect, Map, OpId,
};
use mizzle_engine::plan::Shape;
use mizzle_engine::time::Timestamp;

use super::{Stateless, Stream};
use crate::build::{Build, Closing, Joint};

/// A stream behind `map`.
pub struct Mapped<B, F, U>(B, OpId, F, PhantomData<fn() -> U>);
/// A stream behind `filter`.
pub struct Filtered<B, F>(B, OpId, F);
/// A stream behind `filter_map`.
pub struct FilterMapped<B, F, U>(B, OpId, F, PhantomData<fn() -> U>);
/// A stream behind `flat_map`.
pub struct FlatMapped<B, F, I>(B, OpId, F, PhantomData<fn() -> I>);
/// A stream behind `inspect`.
pub struct Inspected<B, F>(B, OpId, F);
/// A stream behind an operator that skips events whose function panics.
pub struct Skipping<B>(pub(super) B);
/// A stream behind `debug_events`.
pub struct Debugged<B>(B);

impl<B: Build> Stream<B> {
    /// Each value becomes another, at the same time.
    #[track_caller]
    pub fn map<U, F>(self, f: F) -> Stream<Mapped<B, F, U>>
    where
        U: Send + 'static,
        F: Fn(B::Out) -> U + Send + Sync + 'static,
    {
        self.then("map", Shape::Stateless, |up, op| Mapped(up, op, f, PhantomData))
    }

    /// Only values for which `predicate` holds go on.
    #[track_caller]
    pub fn filter<F>(self, predicate: F) -> Stream<Filtered<B, F>>
    where
        F: Fn(&B::Out) -> bool + Send + Sync + 'static,
    {
        self.then("filter", Shape::Stateless, |up, op| Filtered(up, op, predicate))
    }

    /// What `f` makes of each value goes on, where it makes something.
    #[track_caller]
    pub fn filter_map<U, F>(self, f: F) -> Stream<FilterMapped<B, F, U>>
    where
        U: Send + 'static,
        F: Fn(B::Out) -> Option<U> + Send + Sync + 'static,
    {
        self.then("filter_map", Shape::Stateless, |up, op| FilterMapped(up, op, f, PhantomData))
    }

    /// Everything that `f` makes of a value goes on, at the value's time.
    #[track_caller]
    pub fn flat_map<I, F>(self, f: F) -> Stream<FlatMapped<B, F, I>>
    where
        I: IntoIterator + 'static,
        I::Item: Send + 'static,
        F: Fn(B::Out) -> I + Send + Sync + 'static,
    {
        self.then("flat_map", Shape::Stateless, |up, op| FlatMapped(up, op, f, PhantomData))
    }

    /// `look` sees each event's time and value as it passes.
    #[track_caller]
    pub fn inspect<F>(self, look: F) -> Stream<Inspected<B, F>>
    where
        F: Fn(Timestamp, &B::Out) + Send + Sync + 'static,
    {
        self.then("inspect", Shape::Stateless, |up, op| Inspected(up, op, look))
    }
}

impl<B: Build> Stream<B>
where
    B::Out: Debug,
{
    /// Should an operator behind this one fail, as far as the next cut, the report shows the event
    /// that it failed at. Costs the writing of every event: for hunting a fault, not for every day.
    pub fn debug_events(self) -> Stream<Debugged<B>> {
        let Self { graph, draft, build } = self;
        Stream { graph, draft, build: Debugged(build) }
    }
}

impl<B> Build for Debugged<B>
where
    B: Build,
    B::Out: Debug,
{
    type Out = B::Out;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT;

    fn close<N: Consumer<B::Out>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(DebugEvents::new(next), closing);
    }
}

impl<B, U, F> Build for Mapped<B, F, U>
where
    B: Build,
    U: Send + 'static,
    F: Fn(B::Out) -> U + Send + Sync + 'static,
{
    type Out = U;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT;

    fn close<N: Consumer<U>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(Map::<_, _, _, false>::new(self.1, self.2, next), closing);
    }
}

impl<B, F> Build for Filtered<B, F>
where
    B: Build,
    F: Fn(&B::Out) -> bool + Send + Sync + 'static,
{
    type Out = B::Out;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT;

    fn close<N: Consumer<B::Out>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(Filter::<_, _, false>::new(self.1, self.2, next), closing);
    }
}

impl<B, U, F> Build for FilterMapped<B, F, U>
where
    B: Build,
    U: Send + 'static,
    F: Fn(B::Out) -> Option<U> + Send + Sync + 'static,
{
    type Out = U;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT;

    fn close<N: Consumer<U>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(FilterMap::<_, _, _, false>::new(self.1, self.2, next), closing);
    }
}

impl<B, I, F> Build for FlatMapped<B, F, I>
where
    B: Build,
    I: IntoIterator + 'static,
    I::Item: Send + 'static,
    F: Fn(B::Out) -> I + Send + Sync + 'static,
{
    type Out = I::Item;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT;

    fn close<N: Consumer<I::Item>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(FlatMap::<_, _, _, false>::new(self.1, self.2, next), closing);
    }
}

impl<B, F> Build for Inspected<B, F>
where
    B: Build,
    F: Fn(Timestamp, &B::Out) + Send + Sync + 'static,
{
    type Out = B::Out;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT;

    fn close<N: Consumer<B::Out>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(Inspect::<_, _, false>::new(self.1, self.2, next), closing);
    }
}

impl<B, F, U> Stateless for Mapped<B, F, U>
where
    B: Build,
    U: Send + 'static,
    F: Fn(B::Out) -> U + Send + Sync + 'static,
{
    fn close_skipping<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(Map::<_, _, _, true>::new(self.1, self.2, next), closing);
    }
}

impl<B, F> Stateless for Filtered<B, F>
where
    B: Build,
    F: Fn(&B::Out) -> bool + Send + Sync + 'static,
{
    fn close_skipping<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(Filter::<_, _, true>::new(self.1, self.2, next), closing);
    }
}

impl<B, F, U> Stateless for FilterMapped<B, F, U>
where
    B: Build,
    U: Send + 'static,
    F: Fn(B::Out) -> Option<U> + Send + Sync + 'static,
{
    fn close_skipping<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(FilterMap::<_, _, _, true>::new(self.1, self.2, next), closing);
    }
}

impl<B, F, I> Stateless for FlatMapped<B, F, I>
where
    B: Build,
    I: IntoIterator + 'static,
    I::Item: Send + 'static,
    F: Fn(B::Out) -> I + Send + Sync + 'static,
{
    fn close_skipping<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(FlatMap::<_, _, _, true>::new(self.1, self.2, next), closing);
    }
}

impl<B, F> Stateless for Inspected<B, F>
where
    B: Build,
    F: Fn(Timestamp, &B::Out) + Send + Sync + 'static,
{
    fn close_skipping<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close(Inspect::<_, _, true>::new(self.1, self.2, next), closing);
    }
}

impl<B: Stateless> Build for Skipping<B> {
    type Out = B::Out;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT;

    fn close<N: Consumer<B::Out>>(self, next: N, closing: &mut Closing<'_>) {
        self.0.close_skipping(next, closing);
    }
}

impl<B: Stateless> Stateless for Skipping<B> {
    fn close_skipping<N: Consumer<B::Out>>(self, next: N, closing: &mut Closing<'_>) {
        self.close(next, closing);
    }
}
