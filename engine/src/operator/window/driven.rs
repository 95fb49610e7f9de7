//! Windows whose bounds follow from the events of a key as they come: after so many of them, or from
//! one that opens to one that closes.
//!
//! Such a window is complete with an event, and its result comes with that event and has its time. It
//! covers the time from the first to just after the last of its events. What the end of the stream
//! completes has the time of the newest event, or of the watermark if that is later: it comes behind
//! all other results. What "as they come" means depends on the flag: in order of event time, or as
//! they arrive, late ones too.

use std::hash::Hash;

use serde::{Deserialize, Serialize};

use super::{Phase, Windowed};
use crate::event::Event;
use crate::operator::aggregate::{Aggregate, Overflow};
use crate::operator::{Consumer, Cx, OpId};
use crate::state::{Codec, Keyed, StateError, Visit, show};
use crate::time::Timestamp;

/// Some events of a key, summed up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stretch<Acc> {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) count: u64,
    pub(super) acc: Acc,
}

impl<Acc> Stretch<Acc> {
    /// Of one event.
    pub(super) fn of<T, A: Aggregate<T, Acc = Acc>>(
        aggregate: &A,
        time: Timestamp,
        value: &T,
    ) -> Self {
        let mut acc = aggregate.create();
        aggregate.add(&mut acc, value);
        Self { first: time, last: time, count: 1, acc }
    }

    pub(super) fn add<T, A: Aggregate<T, Acc = Acc>>(
        &mut self,
        aggregate: &A,
        time: Timestamp,
        value: &T,
    ) {
        aggregate.add(&mut self.acc, value);
        self.first = self.first.min(time);
        self.last = self.last.max(time);
        self.count += 1;
    }

    /// Adds what came after.
    pub(super) fn merge<T, A: Aggregate<T, Acc = Acc>>(&mut self, aggregate: &A, other: &Self) {
        aggregate.merge(&mut self.acc, &other.acc);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.count += other.count;
    }

    /// The same on its own.
    pub(super) fn copy<T, A: Aggregate<T, Acc = Acc>>(&self, aggregate: &A) -> Self {
        let mut acc = aggregate.create();
        aggregate.merge(&mut acc, &self.acc);
        Self { acc, ..*self }
    }
}

/// When such a window begins and is complete.
pub trait Rule<T>: Send + Sync + 'static {
    /// What is kept of a key.
    type Held<Acc: Send + 'static>: Send + 'static;

    /// Whether a key of which nothing is kept must be kept from this event on.
    fn begins(&self, value: &T) -> bool;

    /// What is kept of a key before that event.
    fn nothing<Acc: Send + 'static>(&self) -> Self::Held<Acc>;

    /// Takes an event; the window that is complete with it, if one is.
    fn take<A: Aggregate<T>>(
        &self,
        aggregate: &A,
        held: &mut Self::Held<A::Acc>,
        time: Timestamp,
        value: &T,
    ) -> Option<Stretch<A::Acc>>;

    /// Whether nothing need be kept any more.
    fn is_over<Acc: Send + 'static>(&self, held: &Self::Held<Acc>) -> bool;

    /// The window that the end of the stream completes, if there is one.
    fn rest<A: Aggregate<T>>(
        &self,
        aggregate: &A,
        held: Self::Held<A::Acc>,
    ) -> Option<Stretch<A::Acc>>;
}

/// What such a window remembers.
#[derive(Serialize, Deserialize)]
#[serde(bound(
    serialize = "K: Serialize, H: Serialize",
    deserialize = "K: Deserialize<'de> + Hash + Eq, H: Deserialize<'de>"
))]
pub struct DrivenState<K, H> {
    keys: Keyed<K, H>,
    /// The newest event, or the watermark if that is later.
    clock: Timestamp,
}

/// An aggregate over windows that follow a [`Rule`], per key.
pub struct Driven<K, KF, R, A, N, H> {
    op: OpId,
    key: KF,
    rule: R,
    aggregate: A,
    codec: Option<Codec<DrivenState<K, H>>>,
    next: N,
}

impl<K, KF, R, A, N, H> Driven<K, KF, R, A, N, H> {
    pub(super) fn new(
        op: OpId,
        rule: R,
        key: KF,
        aggregate: A,
        codec: Option<Codec<DrivenState<K, H>>>,
        next: N,
    ) -> Self {
        Self { op, key, rule, aggregate, codec, next }
    }
}

impl<K, KF, R, A, N, H> Driven<K, KF, R, A, N, H>
where
    K: Hash + Eq + Clone + Send + 'static,
{
    fn take<T>(
        &self,
        keys: &mut Keyed<K, H>,
        time: Timestamp,
        value: &T,
    ) -> Option<Result<Windowed<K, A::Out>, Overflow>>
    where
        KF: Fn(&T) -> K,
        A: Aggregate<T>,
        R: Rule<T, Held<A::Acc> = H>,
    {
        let key = (self.key)(value);
        let held = match keys.get_mut(&key) {
            Some(held) => held,
            None if !self.rule.begins(value) => return None,
            None => keys.entry(key.clone(), || self.rule.nothing::<A::Acc>()),
        };
        let window = self.rule.take(&self.aggregate, held, time, value)?;
        if self.rule.is_over::<A::Acc>(held) {
            keys.remove(&key);
        }
        Some(self.result(key, &window))
    }

    fn result<T>(&self, key: K, window: &Stretch<A::Acc>) -> Result<Windowed<K, A::Out>, Overflow>
    where
        A: Aggregate<T>,
    {
        let (start, end) = (window.first, window.last.next());
        let value = self.aggregate.finish(&window.acc)?;
        Ok(Windowed { key, start, end, phase: Phase::Final, value })
    }
}

impl<T, K, KF, R, A, N> Consumer<T> for Driven<K, KF, R, A, N, R::Held<A::Acc>>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    R: Rule<T>,
    A: Aggregate<T>,
    N: Consumer<Windowed<K, A::Out>>,
{
    type State = (DrivenState<K, R::Held<A::Acc>>, N::State);

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        (DrivenState { keys: Keyed::new(), clock: Timestamp::MIN }, self.next.state())
    }

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, Event { time, value }: Event<T>) {
        if cx.refuses_late() {
            return cx.discard(self.op, time, value);
        }
        state.0.clock = state.0.clock.max(time);
        let made = cx.call(self.op, time, || {
            let made = self.take(&mut state.0.keys, time, &value);
            drop(value);
            made
        });
        match made {
            // It is late if the event is that completes it.
            Some(Ok(result)) => self.next.event(&mut state.1, cx, Event::new(time, result)),
            Some(Err(Overflow)) => cx.counters.failed += 1,
            None => {}
        }
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        state.0.clock = state.0.clock.max(watermark);
        self.next.watermark(&mut state.1, cx, watermark);
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        cx.late = false;
        let clock = state.0.clock;
        let rest: Vec<_> = cx.call(self.op, clock, || {
            let keys = state.0.keys.drain();
            let rest = keys.filter_map(|(key, held)| {
                let window = self.rule.rest(&self.aggregate, held)?;
                Some(self.result(key, &window))
            });
            rest.collect()
        });
        for result in rest {
            match result {
                Ok(result) => self.next.event(&mut state.1, cx, Event::new(clock, result)),
                Err(Overflow) => cx.counters.failed += 1,
            }
        }
        self.next.end(&mut state.1, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut state.1, cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        self.next.next_timer(&state.1)
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut state.0)?;
        self.next.visit(&mut state.1, visit)
    }
}

/// What makes a [`Rule`] a kind of windows.
macro_rules! driven_kind {
    ([$($parameter:ident: $bound:path),*] $rule:ty, $held:ident, $check:expr) => {
        impl<T, K, $($parameter),*> crate::operator::window::WindowKind<T, K> for $rule
        where
            T: Send + 'static,
            K: std::hash::Hash + Eq + Clone + Send + 'static,
            $($parameter: $bound + Send + Sync + 'static),*
        {
            type State<Acc: Send + 'static> = DrivenState<K, $held<Acc>>;

            type Operator<KF, A, N>
                = Driven<K, KF, Self, A, N, $held<A::Acc>>
            where
                KF: Fn(&T) -> K + Send + Sync + 'static,
                A: Aggregate<T>,
                N: crate::operator::Consumer<crate::operator::window::Windowed<K, A::Out>>;

            fn check(&self) -> Result<(), InvalidWindow> {
                let check: fn(&Self) -> Result<(), InvalidWindow> = $check;
                check(self)
            }

            fn operator<KF, A, N>(
                self,
                op: crate::operator::OpId,
                key: KF,
                aggregate: A,
                codec: Option<crate::state::Codec<DrivenState<K, $held<A::Acc>>>>,
                next: N,
            ) -> Self::Operator<KF, A, N>
            where
                KF: Fn(&T) -> K + Send + Sync + 'static,
                A: Aggregate<T>,
                N: crate::operator::Consumer<crate::operator::window::Windowed<K, A::Out>>,
            {
                if let Err(invalid) =
                    crate::operator::window::WindowKind::<T, K>::check(&self)
                {
                    panic!("{invalid}");
                }
                Driven::new(op, self, key, aggregate, codec, next)
            }
        }
    };
}
pub(super) use driven_kind;

#[cfg(all(test, not(loom)))]
mod tests;
