//! What can be said about operators that keep state, and about those that do not.

use mizzle_engine::operator::Consumer;
use mizzle_engine::state::Codec;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Skipping, Stream};
use crate::build::{Build, Closing};

/// An operator that keeps state, so that order and a name for its state mean something.
#[diagnostic::on_unimplemented(
    message = "`in_order` and `named` are for operators that keep state",
    label = "this operator keeps no state, so the order of its events changes nothing",
    note = "flag the stateful operator whose result depends on order (`apply_stateful`, `reduce`, \
            `process`, `state_transition`, `aggregate`); for a plain label use `name`"
)]
pub trait Stateful: Build {
    /// What it keeps.
    type State: 'static;

    /// Whether it is ordered by nature: then no flag changes that.
    #[doc(hidden)]
    const ALWAYS_IN_ORDER: bool = false;

    /// Where its codec is kept.
    #[doc(hidden)]
    fn codec(&mut self) -> &mut Option<Codec<Self::State>>;
}

/// An operator that keeps no state, so that an event can be skipped without harm.
#[diagnostic::on_unimplemented(
    message = "`skip_panics` is for operators that keep no state",
    note = "after a panic a state cannot be trusted: `reset_key_on_panic` lets a key start afresh"
)]
pub trait Stateless: Build {
    /// As `close`, with the operator that skips events whose function panics.
    #[doc(hidden)]
    fn close_skipping<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>);
}

// The bounds stand at the methods: only there does the compiler give the traits' own messages.
impl<B> Stream<B> {
    /// Flags the last operator in-order: it gets its events in event-time order, whatever the
    /// disorder at the sources and however many workers there are, and its results are the same in
    /// every run. What that costs shows in the plan: one worker at a time for its partitioned query,
    /// and a reorder stage wherever disorder enters upstream, which waits for the watermark.
    ///
    /// On an operator without state it does not compile:
    ///
    /// ```compile_fail
    /// # use mizzle::{Query, source};
    /// # use mizzle::time::Timestamp;
    /// # let query = Query::new("q");
    /// # let numbers = query.source("numbers", source::from_iter(1..=3i64, |&n| Timestamp::from_secs(n)));
    /// let _ = numbers.map(|n| n + 1).in_order();
    /// ```
    pub fn in_order(self) -> Self
    where
        B: Stateful,
    {
        self.in_order_if(true)
    }

    /// As [`in_order`](Stream::in_order), if `flag` holds: for a switch that a user can turn. What is
    /// ordered by nature stays so.
    pub fn in_order_if(self, flag: bool) -> Self
    where
        B: Stateful,
    {
        if let Some(op) = self.last_op() {
            self.graph.borrow_mut().site_mut(op).in_order = flag || B::ALWAYS_IN_ORDER;
        }
        self
    }

    /// Names the last operator and its state, which can be saved and restored then.
    pub fn named(mut self, name: &str) -> Self
    where
        B: Stateful,
        B::State: Serialize + DeserializeOwned,
    {
        *self.build.codec() = Some(Codec::new(name));
        self.name(name)
    }
}

impl<B> Stream<B> {
    /// An event for which the last operator's function panics is skipped and counted as failed,
    /// instead of failing the query.
    pub fn skip_panics(self) -> Stream<Skipping<B>>
    where
        B: Stateless,
    {
        let Self { graph, draft, build } = self;
        Stream { graph, draft, build: Skipping(build) }
    }

    /// Cuts here: what has been described up to this point runs on as many workers as are free, even
    /// if an ordered operator follows, and hands its events on in order. Worth it where that part is
    /// heavy.
    pub fn parallel(self) -> Self
    where
        B: Stateless,
    {
        if let Some(op) = self.last_op() {
            self.graph.borrow_mut().site_mut(op).cut_after = true;
        }
        self
    }
}
