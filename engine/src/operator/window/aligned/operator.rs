//! The operator of windows that are kept one by one.

use std::hash::Hash;

use super::super::updates::{Pace, pass_on};
use super::super::{Phase, Windowed, clock_at, saturated};
use super::state::{AlignedState, Held, Pane};
use super::{Bounds, Layout};
use crate::event::Event;
use crate::operator::aggregate::{Aggregate, Overflow};
use crate::operator::{Consumer, Cx, OpId, earlier};
use crate::state::{Codec, Keyed, StateError, Visit, show};
use crate::time::{Timestamp, is_due};

/// An aggregate over windows that are kept one by one, per key.
///
/// A late event counts in each of its windows that is open or kept; in an ordered chain only if
/// lateness is allowed. The results of one window come in order of arrival of their keys.
pub struct AlignedWindow<K, KF, L, A, N, Acc> {
    op: OpId,
    layout: L,
    pace: Pace,
    key: KF,
    aggregate: A,
    codec: Option<Codec<AlignedState<K, Acc>>>,
    next: N,
}

impl<K, KF, L, A, N, Acc> AlignedWindow<K, KF, L, A, N, Acc> {
    pub(super) fn new(
        op: OpId,
        layout: L,
        pace: Pace,
        key: KF,
        aggregate: A,
        codec: Option<Codec<AlignedState<K, Acc>>>,
        next: N,
    ) -> Self {
        Self { op, layout, pace, key, aggregate, codec, next }
    }
}

/// What a window gives.
type Made<K, Out> = Result<Windowed<K, Out>, Overflow>;

impl<K, KF, L, A, N, Acc> AlignedWindow<K, KF, L, A, N, Acc>
where
    K: Hash + Eq + Clone + Send + 'static,
    L: Layout,
{
    fn result<T>(
        &self,
        (start, end): (Timestamp, Timestamp),
        key: &K,
        acc: &Acc,
        phase: Phase,
    ) -> Made<K, A::Out>
    where
        A: Aggregate<T, Acc = Acc>,
    {
        let value = self.aggregate.finish(acc);
        value.map(|value| Windowed { key: key.clone(), start, end, phase, value })
    }

    fn emit<T>(&self, next: &mut N::State, cx: &mut Cx, at: Timestamp, result: Made<K, A::Out>)
    where
        A: Aggregate<T, Acc = Acc>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        match result {
            Ok(result) => {
                let early = result.phase == Phase::Early;
                let time = if early { at } else { result.end.previous() };
                let event = Event::new(time, result);
                pass_on(&self.next, next, cx, event);
            }
            Err(Overflow) => cx.counters.failed += 1,
        }
    }

    /// Adds an event to the window at `position`; a result that comes out with it.
    fn add<T>(
        &self,
        state: &mut AlignedState<K, Acc>,
        position: usize,
        (time, value, key): (Timestamp, &T, K),
    ) -> Option<Made<K, A::Out>>
    where
        A: Aggregate<T, Acc = Acc>,
    {
        let over = position < state.over;
        let earlier = if over { position } else { self.beginning(state, position) };
        let (before, pane) = state.panes.split_at_mut(position);
        let pane = &mut pane[0];
        let bounds = (pane.start(), pane.end());
        let Pane { keys, changed, .. } = pane;
        let new = || Held::new(self.aggregate.create());
        let (key, held) = keys.entry_with_key(key, new);
        self.aggregate.add(&mut held.acc, value);
        held.count += 1;
        if over {
            return Some(self.result(bounds, key, &held.acc, Phase::Corrected));
        }
        held.news = true;
        let before = &before[earlier..];
        let counted = before.iter().filter_map(|pane| pane.keys.get(key)).map(|held| held.count);
        if self.pace.is_due_at(held.count + counted.sum::<u64>()) {
            held.news = false;
            return Some(self.early(bounds, key, before, held));
        }
        let tick = self.pace.tick_after(time.max(state.clock))?;
        if !std::mem::replace(&mut held.changed, true) {
            changed.push(key.clone());
        }
        state.tick = Some(state.tick.map_or(tick, |armed| armed.min(tick)));
        None
    }

    /// Where those open windows begin that what is in the window at `position` has not been put together
    /// with yet, though it is to begin with them.
    fn beginning(&self, state: &AlignedState<K, Acc>, position: usize) -> usize {
        if !L::NESTED {
            return position;
        }
        let start = state.panes[position].start;
        let open = state.panes[state.over..position].iter().rev();
        position - open.take_while(|pane| pane.start == start).count()
    }

    /// An early result of what is in `held` and, before it, in windows that it is to begin with.
    fn early<T>(
        &self,
        bounds: (Timestamp, Timestamp),
        key: &K,
        before: &[Pane<K, Acc>],
        held: &Held<Acc>,
    ) -> Made<K, A::Out>
    where
        A: Aggregate<T, Acc = Acc>,
    {
        let mut parts = before.iter().filter_map(|pane| pane.keys.get(key)).peekable();
        if parts.peek().is_none() {
            return self.result(bounds, key, &held.acc, Phase::Early);
        }
        let mut acc = self.aggregate.create();
        parts.for_each(|part| self.aggregate.merge(&mut acc, &part.acc));
        self.aggregate.merge(&mut acc, &held.acc);
        self.result(bounds, key, &acc, Phase::Early)
    }

    /// Puts an event into its windows, where it is not the recent one only.
    #[cold]
    #[inline(never)]
    fn spread<T>(
        &self,
        (state, next): &mut (AlignedState<K, Acc>, N::State),
        cx: &mut Cx,
        time: Timestamp,
        value: &T,
    ) where
        KF: Fn(&T) -> K,
        A: Aggregate<T, Acc = Acc>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        let micros = time.as_micros();
        let mut after = i128::from(self.pace.gone(state.clock).as_micros());
        let now = time.max(state.clock);
        let key = cx.call(self.op, time, || (self.key)(value));
        let mut windows = 0;
        while let Some(bounds) = self.layout.next(micros, after) {
            after = bounds.end;
            windows += 1;
            let position = state.find_or_open(bounds);
            let open = position >= state.over;
            let add = || self.add(state, position, (time, value, key.clone()));
            if let Some(made) = cx.call(self.op, time, add) {
                self.emit(next, cx, now, made);
            }
            if L::NESTED && open {
                break;
            }
            state.recent = (open && self.layout.is_single()).then_some(position);
        }
        // In a gap between windows it is not late.
        let late = windows == 0 && self.layout.next(micros, i128::MIN).is_some();
        cx.counters.late += u64::from(late);
    }

    /// Closes the first window that is open.
    fn close<T>(
        &self,
        (state, next): &mut (AlignedState<K, Acc>, N::State),
        cx: &mut Cx,
        clock: Timestamp,
    ) where
        A: Aggregate<T, Acc = Acc>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        let position = state.over;
        let pane = &mut state.panes[position];
        pane.changed = Vec::new();
        let (start, end) = (pane.start(), pane.end());
        let time = end.previous();
        for (key, held) in pane.keys.iter() {
            let make = || self.result((start, end), key, &held.acc, Phase::Final);
            let made = cx.call(self.op, time, make);
            self.emit(next, cx, time, made);
        }
        if L::NESTED {
            cx.call(self.op, time, || self.grow(state, position));
        }
        state.recent = None;
        if self.pace.corrects() && clock < Timestamp::MAX {
            state.over += 1;
        } else {
            state.panes.remove(position);
        }
    }

    /// Puts what is in the window at `position` into the next that starts with it.
    fn grow<T>(&self, state: &mut AlignedState<K, Acc>, position: usize)
    where
        A: Aggregate<T, Acc = Acc>,
    {
        let Pane { start, end, .. } = state.panes[position];
        let within = |bounds: &Bounds| bounds.start == start;
        let Some(bounds) = self.layout.next(saturated(start).as_micros(), end).filter(within)
        else {
            return;
        };
        let next = state.find_or_open(bounds);
        let others = std::mem::take(&mut state.panes[next].keys);
        let closed = &mut state.panes[position].keys;
        // What the closed window has given is not news in the next.
        let given = |acc, count| Held { acc, count, news: false, changed: false };
        let mut grown: Keyed<K, Held<Acc>> = if self.pace.corrects() {
            let copy = |(key, held): (&K, &Held<Acc>)| {
                let mut acc = self.aggregate.create();
                self.aggregate.merge(&mut acc, &held.acc);
                (key.clone(), given(acc, held.count))
            };
            closed.iter().map(copy).collect()
        } else {
            closed.drain().map(|(key, held)| (key, given(held.acc, held.count))).collect()
        };
        for (key, other) in others.iter() {
            let held = grown.entry(key.clone(), || Held::new(self.aggregate.create()));
            self.aggregate.merge(&mut held.acc, &other.acc);
            held.count += other.count;
            (held.news, held.changed) = (other.news, other.changed);
        }
        state.panes[next].keys = grown;
    }

    /// Gives early results of all that has changed.
    fn tick<T>(
        &self,
        (state, next): &mut (AlignedState<K, Acc>, N::State),
        cx: &mut Cx,
        tick: Timestamp,
    ) where
        A: Aggregate<T, Acc = Acc>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        state.tick = None;
        for position in state.over..state.panes.len() {
            let earlier = self.beginning(state, position);
            let (before, pane) = state.panes.split_at_mut(position);
            let pane = &mut pane[0];
            let bounds = (pane.start(), pane.end());
            for key in std::mem::take(&mut pane.changed) {
                let Some(held) = pane.keys.get_mut(&key) else { continue };
                held.changed = false;
                if !std::mem::take(&mut held.news) {
                    continue;
                }
                let make = || self.early(bounds, &key, &before[earlier..], held);
                let made = cx.call(self.op, tick, make);
                self.emit(next, cx, tick, made);
            }
        }
    }

    /// Does all that is due at `clock`, in order of time: a window that is over at a tick first.
    #[cold]
    #[inline(never)]
    fn advance<T>(
        &self,
        state: &mut (AlignedState<K, Acc>, N::State),
        cx: &mut Cx,
        clock: Timestamp,
    ) where
        A: Aggregate<T, Acc = Acc>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        loop {
            let (end, tick) = (state.0.next_end(), state.0.tick);
            match (end, tick) {
                (Some(end), tick) if tick.is_none_or(|tick| end <= tick) => {
                    if !is_due(end, clock) {
                        break;
                    }
                    state.0.clock = state.0.clock.max(end);
                    self.close(state, cx, clock);
                }
                (_, Some(tick)) if is_due(tick, clock) => self.tick(state, cx, tick),
                _ => break,
            }
        }
        let own = &mut state.0;
        own.clock = own.clock.max(clock);
        let kept = |pane: &Pane<K, Acc>| !is_due(self.pace.kept_until(pane.end()), own.clock);
        let gone = own.panes[..own.over].iter().take_while(|pane| !kept(pane)).count();
        if gone > 0 {
            own.panes.drain(..gone);
            own.over -= gone;
            own.recent = None;
        }
    }

    /// What may be promised downstream at `watermark`: no result comes any more from before.
    fn promise(&self, state: &mut AlignedState<K, Acc>, watermark: Timestamp) -> Timestamp {
        if !self.pace.corrects() || watermark == Timestamp::MAX {
            return watermark;
        }
        let gone = self.pace.gone(watermark).as_micros();
        let end = match state.kept_end.filter(|&end| end > i128::from(gone)) {
            Some(end) => end,
            None => *state.kept_end.insert(self.layout.end_after(gone)),
        };
        watermark.min(saturated(end - 1))
    }
}

impl<T, K, KF, L, A, N> Consumer<T> for AlignedWindow<K, KF, L, A, N, A::Acc>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    L: Layout,
    A: Aggregate<T>,
    N: Consumer<Windowed<K, A::Out>>,
{
    type State = (AlignedState<K, A::Acc>, N::State);

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        (AlignedState::new(), self.next.state())
    }

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, Event { time, value }: Event<T>) {
        if cx.late & cx.ordered {
            if !self.pace.corrects() {
                cx.counters.late += 1;
                return cx.discard(self.op, time, value);
            }
        } else if cx.ordered {
            let clock = clock_at(time);
            let due = earlier(state.0.next_end(), state.0.tick);
            if due.is_some_and(|due| is_due(due, clock)) {
                self.advance(state, cx, clock);
            }
            state.0.clock = state.0.clock.max(clock);
        }
        match state.0.recent.filter(|&recent| state.0.panes[recent].holds(time)) {
            Some(recent) => {
                let made = cx.call(self.op, time, || {
                    let key = (self.key)(&value);
                    self.add(&mut state.0, recent, (time, &value, key))
                });
                if let Some(made) = made {
                    let now = time.max(state.0.clock);
                    self.emit(&mut state.1, cx, now, made);
                }
            }
            None => self.spread(state, cx, time, &value),
        }
        cx.discard(self.op, time, value);
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.advance(state, cx, watermark);
        let promise = self.promise(&mut state.0, watermark);
        self.next.watermark(&mut state.1, cx, promise);
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        state.0.tick = None;
        self.advance(state, cx, Timestamp::MAX);
        self.next.end(&mut state.1, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut state.1, cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        let own = &state.0;
        let kept = own.panes[..own.over].first().map(|pane| self.pace.kept_until(pane.end()));
        let due = earlier(earlier(own.next_end(), own.tick), kept);
        // What follows hears of a time only when nothing from before it can be corrected.
        let behind = self.next.next_timer(&state.1).map(|due| self.pace.kept_until(due));
        earlier(due, behind)
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut state.0)?;
        self.next.visit(&mut state.1, visit)
    }
}
