//! Streams that another stream steers.

use std::marker::PhantomData;

use mizzle_engine::operator::join::{Control, ControlState, Either};
use mizzle_engine::operator::{Consumer, OpId};
use mizzle_engine::plan::Shape;
use mizzle_engine::state::Codec;

use super::{First, Sides, meet};
use crate::build::{Build, Closing, FromSides, Joint};
use crate::stream::{Stateful, Stream};

/// A stream that another one steers, still without what is to be made of its events.
#[must_use = "a control stream changes nothing before it is said what: `.map(..)` or the like"]
pub struct Controlled<T, C, S, G> {
    stream: Sides<T, C>,
    initial: S,
    change: G,
}

/// A stream behind an operator that is steered by another stream.
pub struct Steered<T, C, S, G, F, U> {
    upstream: FromSides<Either<T, C>>,
    op: OpId,
    initial: S,
    change: G,
    f: F,
    codec: Option<Codec<ControlState<S, T, C>>>,
    out: PhantomData<fn() -> U>,
}

impl<B: Build> Stream<B> {
    /// Has `control` steer this stream: its events change a state, which starts as `initial`, and each
    /// event of this stream sees that state as of its own time, a change of that very time included. What
    /// comes next says what is made of the two.
    ///
    /// An event waits until the watermark of the control stream has passed its time: for one that says
    /// something now and then see [`idle_after`](Stream::idle_after). Parameters per key are a table: see
    /// [`lookup`](crate::KeyedStream::lookup).
    ///
    /// ```
    /// use mizzle::{Engine, Query, source};
    /// use mizzle::time::Timestamp;
    ///
    /// let query = Query::new("limits");
    /// let secs = |row: &(i64, i64)| Timestamp::from_secs(row.0);
    /// let readings = [(1, 12), (2, 9), (6, 9), (7, 3)];
    /// let readings = query.source("readings", source::from_iter(readings, secs));
    /// let limits = query.source("limits", source::from_iter([(5, 8)], secs));
    /// let high = readings
    ///     .with_control(limits, 10, |limit, change| *limit = change.1)
    ///     .filter(|limit, reading| reading.1 > *limit)
    ///     .in_order()
    ///     .collect();
    /// Engine::new()?.submit(query)?.wait();
    /// assert_eq!(high.values(), [(1, 12), (6, 9)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn with_control<C, S, G>(
        self,
        control: Stream<C>,
        initial: S,
        change: G,
    ) -> Controlled<B::Out, C::Out, S, G>
    where
        C: Build,
        S: Clone + Send + Sync + 'static,
        G: Fn(&mut S, C::Out) + Send + Sync + 'static,
    {
        // The control stream first: of one time its changes are there before the events that see them.
        let stream = meet(self, control, First::Right, &|_: &_| ());
        Controlled { stream, initial, change }
    }
}

impl<T, C, S, G> Controlled<T, C, S, G>
where
    T: Send + 'static,
    C: Send + 'static,
    S: Clone + Send + Sync + 'static,
    G: Fn(&mut S, C) + Send + Sync + 'static,
{
    /// Each event becomes what `f` makes of the state and it.
    #[track_caller]
    pub fn map<U, F>(
        self,
        f: F,
    ) -> Stream<Steered<T, C, S, G, impl Fn(&S, T) -> Option<U> + Send + Sync + 'static, U>>
    where
        U: Send + 'static,
        F: Fn(&S, T) -> U + Send + Sync + 'static,
    {
        self.steered(move |state: &S, event| Some(f(state, event)))
    }

    /// Only events for which `predicate` holds go on.
    #[track_caller]
    pub fn filter<F>(
        self,
        predicate: F,
    ) -> Stream<Steered<T, C, S, G, impl Fn(&S, T) -> Option<T> + Send + Sync + 'static, T>>
    where
        F: Fn(&S, &T) -> bool + Send + Sync + 'static,
    {
        self.steered(move |state: &S, event| predicate(state, &event).then_some(event))
    }

    /// What `f` makes of the state and each event goes on, where it makes something.
    #[track_caller]
    pub fn filter_map<U, F>(self, f: F) -> Stream<Steered<T, C, S, G, F, U>>
    where
        U: Send + 'static,
        F: Fn(&S, T) -> Option<U> + Send + Sync + 'static,
    {
        self.steered(f)
    }

    #[track_caller]
    fn steered<U, F>(self, f: F) -> Stream<Steered<T, C, S, G, F, U>> {
        let Self { stream, initial, change } = self;
        stream.then("with_control", Shape::Single, |upstream, op| Steered {
            upstream,
            op,
            initial,
            change,
            f,
            codec: None,
            out: PhantomData,
        })
    }
}

impl<T, C, S, G, F, U> Build for Steered<T, C, S, G, F, U>
where
    T: Send + 'static,
    C: Send + 'static,
    S: Clone + Send + Sync + 'static,
    G: Fn(&mut S, C) + Send + Sync + 'static,
    F: Fn(&S, T) -> Option<U> + Send + Sync + 'static,
    U: Send + 'static,
{
    type Out = U;
    type Head = FromSides<Either<T, C>>;

    const JOINT: Joint = Joint::Linked;

    fn close<N: Consumer<U>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, initial, change, f, codec, .. } = self;
        closing.join(upstream, op, Control::new(op, initial, change, f, codec, next));
    }
}

impl<T, C, S, G, F, U> Stateful for Steered<T, C, S, G, F, U>
where
    T: 'static,
    C: 'static,
    S: 'static,
    Steered<T, C, S, G, F, U>: Build,
{
    type State = ControlState<S, T, C>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}
