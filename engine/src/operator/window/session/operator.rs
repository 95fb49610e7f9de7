//! The operator of session windows.

use std::hash::Hash;
use std::time::Duration;

use super::super::updates::{Pace, after, pass_on};
use super::super::{Phase, Windowed, clock_at};
use super::state::{Due, Session, SessionState};
use crate::event::Event;
use crate::operator::aggregate::{Aggregate, Overflow};
use crate::operator::{Consumer, Cx, OpId, earlier};
use crate::state::{Codec, StateError, Visit, show};
use crate::time::{Timestamp, is_due, micros};

/// An aggregate over sessions.
///
/// A late event counts wherever a session of its key is open or kept; in an ordered chain only if
/// lateness is allowed. Sessions that end at one instant come in order of arrival.
pub struct SessionWindow<K, KF, A, N, Acc> {
    op: OpId,
    /// In microseconds.
    gap: i64,
    pace: Pace,
    key: KF,
    aggregate: A,
    codec: Option<Codec<SessionState<K, Acc>>>,
    next: N,
}

/// A result, and what it is.
type Made<K, Out> = (Phase, Result<Windowed<K, Out>, Overflow>);

/// What became of an event.
enum Taken<K, Out> {
    Late,
    Quietly,
    Making(Made<K, Out>),
}

impl<K, KF, A, N, Acc> SessionWindow<K, KF, A, N, Acc> {
    pub(super) fn new(
        op: OpId,
        gap: Duration,
        pace: Pace,
        key: KF,
        aggregate: A,
        codec: Option<Codec<SessionState<K, Acc>>>,
        next: N,
    ) -> Self {
        Self { op, gap: micros(gap), pace, key, aggregate, codec, next }
    }
}

impl<K, KF, A, N, Acc> SessionWindow<K, KF, A, N, Acc>
where
    K: Hash + Eq + Clone + Send + 'static,
{
    /// The last instant in the session of an event at `time`: unlike its end, it is always a time stamp.
    #[inline]
    fn reach(&self, time: Timestamp) -> Timestamp {
        after(time, self.gap - 1)
    }

    fn result<T>(&self, session: &Session<Acc>, key: K, phase: Phase) -> Made<K, A::Out>
    where
        A: Aggregate<T, Acc = Acc>,
    {
        let (start, end) = (session.first, session.end(self.gap));
        let value = self.aggregate.finish(&session.acc);
        (phase, value.map(|value| Windowed { key, start, end, phase, value }))
    }

    /// Puts an event into the session that it belongs to.
    fn take<T>(
        &self,
        state: &mut SessionState<K, Acc>,
        time: Timestamp,
        value: &T,
    ) -> Taken<K, A::Out>
    where
        KF: Fn(&T) -> K,
        A: Aggregate<T, Acc = Acc>,
    {
        let key = (self.key)(value);
        let (keys, agenda, arrivals, clock) = state.parts();
        // Whether nothing is left to be said about a session of this event alone.
        let over = || is_due(self.pace.kept_until(after(time, self.gap)), clock);
        let sessions = match keys.get_mut(&key) {
            Some(sessions) => sessions,
            None if over() => return Taken::Late,
            None => keys.entry(key.clone(), Vec::new),
        };
        // Most events belong to the latest session or come after it.
        let position = match sessions.last() {
            Some(latest) if latest.first <= time && time <= self.reach(latest.last) => {
                sessions.len() - 1
            }
            _ => sessions.partition_point(|session| self.reach(session.last) < time),
        };
        let reach = self.reach(time);
        if sessions.get(position).is_none_or(|session| reach < session.first) {
            if over() {
                return Taken::Late;
            }
            let new = SessionState::<K, Acc>::begin(arrivals, time, self.aggregate.create());
            // A key has one session as a rule: no room for others.
            sessions.reserve_exact(1);
            sessions.insert(position, new);
        }
        let session = &mut sessions[position];
        session.first = session.first.min(time);
        session.last = session.last.max(time);
        self.aggregate.add(&mut session.acc, value);
        session.count += 1;
        session.pending = true;
        let reach = self.reach(session.last);
        if sessions.get(position + 1).is_some_and(|later| later.first <= reach) {
            let mut later = sessions.remove(position + 1);
            let session = &mut sessions[position];
            agenda.join(session, &mut later);
            self.aggregate.merge(&mut session.acc, &later.acc);
            session.last = later.last;
            session.count += later.count;
            session.given |= later.given;
        }
        let session = &mut sessions[position];
        let end = session.end(self.gap);
        if is_due(end, clock) {
            (session.pending, session.given) = (false, true);
            let kept_until = self.pace.kept_until(end);
            if !agenda.is_armed_by(session, kept_until) {
                agenda.arm(session, kept_until, key.clone());
            }
            return Taken::Making(self.result(session, key, Phase::Corrected));
        }
        if !agenda.is_armed_by(session, end) {
            agenda.arm(session, end, key.clone());
        }
        if self.pace.is_due_at(session.count) {
            agenda.shown(session);
            return Taken::Making(self.result(session, key, Phase::Early));
        }
        if let Some(tick) = self.pace.tick_after(time.max(clock)) {
            agenda.changed(session, tick, || key);
        }
        Taken::Quietly
    }

    /// Looks at the session whose timer was set for `due`: it closes, is let go of, or is looked at
    /// again later.
    fn look<T>(
        &self,
        state: &mut SessionState<K, Acc>,
        (due, arrival, key): (Timestamp, u64, K),
    ) -> Option<Made<K, A::Out>>
    where
        A: Aggregate<T, Acc = Acc>,
    {
        let (keys, agenda, ..) = state.parts();
        let sessions = keys.get_mut(&key).expect("a key with a timer has sessions");
        let found = sessions.iter().position(|session| session.arrival == arrival);
        let position = found.expect("a session with a timer is there");
        let session = &mut sessions[position];
        agenda.fired(session);
        let end = session.end(self.gap);
        let until = if session.pending { end } else { self.pace.kept_until(end) };
        if until > due {
            agenda.arm(session, until, key);
            return None;
        }
        let mut made = None;
        if session.pending {
            agenda.shown(session);
            let phase = if session.given { Phase::Corrected } else { Phase::Final };
            (session.pending, session.given) = (false, true);
            made = Some(self.result(session, key.clone(), phase));
            if self.pace.corrects() {
                agenda.arm(session, self.pace.kept_until(end), key);
                return made;
            }
        }
        sessions.remove(position);
        if sessions.is_empty() {
            keys.remove(&key);
        }
        made
    }

    /// An early result of a session that has changed, if it is still open.
    fn early<T>(
        &self,
        state: &mut SessionState<K, Acc>,
        arrival: u64,
        key: K,
    ) -> Option<Made<K, A::Out>>
    where
        A: Aggregate<T, Acc = Acc>,
    {
        let (keys, agenda, ..) = state.parts();
        let sessions = keys.get_mut(&key)?;
        let session = sessions.iter_mut().find(|session| session.arrival == arrival)?;
        agenda.shown(session);
        Some(self.result(session, key, Phase::Early))
    }

    fn emit<T>(
        &self,
        next: &mut N::State,
        cx: &mut Cx,
        at: Timestamp,
        (phase, result): Made<K, A::Out>,
    ) where
        A: Aggregate<T, Acc = Acc>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        match result {
            Ok(result) => {
                let time = if phase == Phase::Early { at } else { result.end.previous() };
                pass_on(&self.next, next, cx, Event::new(time, result));
            }
            Err(Overflow) => cx.counters.failed += 1,
        }
    }

    /// Does all that is due at `clock`, in order of time.
    #[cold]
    #[inline(never)]
    fn advance<T>(
        &self,
        (state, next): &mut (SessionState<K, Acc>, N::State),
        cx: &mut Cx,
        clock: Timestamp,
    ) where
        A: Aggregate<T, Acc = Acc>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        while state.agenda.next().is_some_and(|due| is_due(due, clock)) {
            match state.agenda.pop() {
                Some(Due::Session(due, arrival, key)) => {
                    let look = || self.look(state, (due, arrival, key));
                    if let Some(made) = cx.call(self.op, due.previous(), look) {
                        self.emit(next, cx, due, made);
                    }
                }
                Some(Due::Tick(tick)) => {
                    for (arrival, key) in state.agenda.take_changed() {
                        let early = || self.early(state, arrival, key);
                        if let Some(made) = cx.call(self.op, tick, early) {
                            self.emit(next, cx, tick, made);
                        }
                    }
                }
                None => {}
            }
        }
    }
}

impl<T, K, KF, A, N> Consumer<T> for SessionWindow<K, KF, A, N, A::Acc>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    A: Aggregate<T>,
    N: Consumer<Windowed<K, A::Out>>,
{
    type State = (SessionState<K, A::Acc>, N::State);

    const REMEMBERS: bool = true;

    fn state(&self) -> Self::State {
        (SessionState::new(), self.next.state())
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
            if is_due(state.0.agenda.earliest(), clock) {
                self.advance(state, cx, clock);
            }
            state.0.clock = state.0.clock.max(clock);
        }
        let taken = cx.call(self.op, time, || {
            let taken = self.take(&mut state.0, time, &value);
            drop(value);
            taken
        });
        match taken {
            Taken::Quietly => {}
            Taken::Late => cx.counters.late += 1,
            Taken::Making(made) => {
                let now = time.max(state.0.clock);
                self.emit(&mut state.1, cx, now, made);
            }
        }
    }

    fn watermark(&self, state: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        self.advance(state, cx, watermark);
        state.0.clock = state.0.clock.max(watermark);
        // What may still be corrected ends after this.
        self.next.watermark(&mut state.1, cx, self.pace.gone(watermark));
    }

    fn end(&self, state: &mut Self::State, cx: &mut Cx) {
        state.0.agenda.stop_ticking();
        self.advance(state, cx, Timestamp::MAX);
        self.next.end(&mut state.1, cx);
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        self.next.flush(&mut state.1, cx);
    }

    fn next_timer(&self, state: &Self::State) -> Option<Timestamp> {
        // What follows hears of a time only when nothing from before it can be corrected.
        let behind = self.next.next_timer(&state.1).map(|due| self.pace.kept_until(due));
        earlier(state.0.agenda.next(), behind)
    }

    fn visit(&self, state: &mut Self::State, visit: &mut dyn Visit) -> Result<(), StateError> {
        show(visit, self.op, self.codec.as_ref(), &mut state.0)?;
        self.next.visit(&mut state.1, visit)
    }
}
