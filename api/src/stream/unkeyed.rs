//! What a keyed stream does not have, so that the compiler can say where it goes instead.

use mizzle_engine::Event;
use mizzle_engine::sink::Collected;
use mizzle_engine::time::Timestamp;

use super::{
    BoxedStream, FilterMapped, Filtered, FlatMapped, Inspected, KeyedStream, Mapped, Shared, Stream,
};
use crate::build::Build;

/// A stream without a key. No keyed stream is one, so that the methods here cannot be called.
#[diagnostic::on_unimplemented(
    message = "a keyed stream is for operators that keep a state per key",
    label = "this does not look at keys, so it cannot stand right behind `key_by`",
    note = "put `map`, `filter`, `flat_map` and the like before `key_by`, or behind the stateful operator \
            (`apply_stateful`, `reduce`, `process`, `state_transition`, `window`) that the key is for"
)]
pub trait Unkeyed {}

// The bounds stand at the methods: only there does the compiler give the trait's own message.
#[doc(hidden)]
#[allow(missing_docs)]
impl<B: Build, K, KF> KeyedStream<B, K, KF> {
    #[track_caller]
    pub fn map<U, F>(self, f: F) -> Stream<Mapped<B, F, U>>
    where
        Self: Unkeyed,
        U: Send + 'static,
        F: Fn(B::Out) -> U + Send + Sync + 'static,
    {
        self.stream.map(f)
    }

    #[track_caller]
    pub fn filter<F>(self, predicate: F) -> Stream<Filtered<B, F>>
    where
        Self: Unkeyed,
        F: Fn(&B::Out) -> bool + Send + Sync + 'static,
    {
        self.stream.filter(predicate)
    }

    #[track_caller]
    pub fn filter_map<U, F>(self, f: F) -> Stream<FilterMapped<B, F, U>>
    where
        Self: Unkeyed,
        U: Send + 'static,
        F: Fn(B::Out) -> Option<U> + Send + Sync + 'static,
    {
        self.stream.filter_map(f)
    }

    #[track_caller]
    pub fn flat_map<I, F>(self, f: F) -> Stream<FlatMapped<B, F, I>>
    where
        Self: Unkeyed,
        I: IntoIterator + 'static,
        I::Item: Send + 'static,
        F: Fn(B::Out) -> I + Send + Sync + 'static,
    {
        self.stream.flat_map(f)
    }

    #[track_caller]
    pub fn inspect<F>(self, look: F) -> Stream<Inspected<B, F>>
    where
        Self: Unkeyed,
        F: Fn(Timestamp, &B::Out) + Send + Sync + 'static,
    {
        self.stream.inspect(look)
    }

    #[track_caller]
    pub fn share(self) -> Shared<B::Out>
    where
        Self: Unkeyed,
        B::Out: Clone,
    {
        self.stream.share()
    }

    pub fn boxed(self) -> BoxedStream<B::Out>
    where
        Self: Unkeyed,
    {
        self.stream.boxed()
    }

    #[track_caller]
    pub fn collect(self) -> Collected<B::Out>
    where
        Self: Unkeyed,
    {
        self.stream.collect()
    }

    #[track_caller]
    pub fn for_each(self, f: impl FnMut(Event<B::Out>) + Send + 'static)
    where
        Self: Unkeyed,
    {
        self.stream.for_each(f);
    }
}
