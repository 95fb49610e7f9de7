//! Events at the pace of their times.
//!
//! | what | how it is |
//! |---|---|
//! | when an event is handed out | when as much of processing time has passed since the start as lies between the first event and it, divided by the factor |
//! | what is before the first event in time | is handed out as soon as its turn comes |
//! | order | the source's: an event that is due waits behind one that is not |
//! | after a pause, or when the engine is slow | what is overdue follows at once; the pace is kept, not made up for |
//! | records that cannot be read | are handed out when they are read, before their turn |
//! | drain, stop | what is not due yet is not handed out |
//! | several together | start when each has its first event or has ended, at the earliest of these |

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::{BadRecord, Pull, Source, SourceCx};
use crate::event::Event;
use crate::sync::Mutex;
use crate::time::Timestamp;

/// How many events are read ahead, at most.
const AHEAD: usize = 1024;

/// The events of `source` at the pace of their times, made faster by `factor`: with 60, what took an
/// hour takes a minute. For replaying what was recorded; nothing is held up meanwhile but this source.
///
/// The first event is handed out at once, and every other when it is due as counted from there. Time
/// is the engine's clock, so a test with a [`ManualClock`](crate::time::ManualClock) decides.
///
/// ```
/// use std::{sync::Arc, task::Waker, time::Duration};
/// use mizzle_engine::source::{Pull, Source, SourceCx, from_iter, paced};
/// use mizzle_engine::time::{ManualClock, Timestamp};
/// let clock = ManualClock::default();
/// let mut source = paced(from_iter([0, 6, 60], |&n| Timestamp::from_secs(n)), 60.0);
/// source.start(&SourceCx::new(Arc::new(clock.clone()), Waker::noop().clone()));
/// let (mut seen, mut rejects) = (Vec::new(), Vec::new());
/// let due = Duration::from_millis(100);
/// let pull = source.pull(10, &mut |event| seen.push(event.value), &mut rejects);
/// assert_eq!(pull, Pull::Quiet(Some(due)));
/// clock.advance(due);
/// source.pull(10, &mut |event| seen.push(event.value), &mut rejects);
/// assert_eq!(seen, [0, 6]);
/// ```
pub fn paced<S: Source>(source: S, factor: f64) -> Paced<S> {
    Paced::new(source, factor, Arc::new(Start::of(1)))
}

/// As [`paced`], for sources that are replayed side by side: they keep the distances between their
/// events, also from one source to the other.
///
/// They start together, when each has its first event or has ended.
pub fn paced_together<S: Source>(
    sources: impl IntoIterator<Item = S>,
    factor: f64,
) -> Vec<Paced<S>> {
    let sources: Vec<_> = sources.into_iter().collect();
    let start = Arc::new(Start::of(sources.len()));
    sources.into_iter().map(|source| Paced::new(source, factor, start.clone())).collect()
}

/// What [`paced`] returns.
pub struct Paced<S: Source> {
    source: S,
    factor: f64,
    start: Arc<Start>,
    cx: Option<SourceCx>,
    /// Whether it has said when its first event is.
    joined: bool,
    /// The event time and the monotonic time from which on it counts, once that is known.
    origin: Option<(Timestamp, Duration)>,
    /// Read, and not handed out.
    ahead: VecDeque<Event<S::Item>>,
    /// How it ends behind that, once that is known.
    end: Option<Pull>,
}

impl<S: Source> Paced<S> {
    fn new(source: S, factor: f64, start: Arc<Start>) -> Self {
        let ahead = VecDeque::new();
        Self { source, factor, start, cx: None, joined: false, origin: None, ahead, end: None }
    }

    /// The time from which on it counts; `None` while others have not said when theirs is.
    fn origin(&mut self, now: Duration, waker: &Waker) -> Option<(Timestamp, Duration)> {
        if self.origin.is_none() {
            let first = self.ahead.front().map(|event| event.time);
            self.origin = if self.joined {
                self.start.look()
            } else if first.is_some() || self.end.is_some() {
                self.joined = true;
                self.start.join(first, now, waker)
            } else {
                None
            };
        }
        self.origin
    }

    /// When an event at `time` is due on the monotonic clock.
    fn due(&self, (first, started): (Timestamp, Duration), time: Timestamp) -> Duration {
        let micros = time.as_micros().saturating_sub(first.as_micros()).max(0);
        // A cast from a float saturates.
        started.saturating_add(Duration::from_nanos((micros as f64 * 1e3 / self.factor) as u64))
    }
}

impl<S: Source> Source for Paced<S> {
    type Item = S::Item;

    fn pull(
        &mut self,
        budget: usize,
        emit: &mut impl FnMut(Event<S::Item>),
        rejects: &mut Vec<BadRecord>,
    ) -> Pull {
        let cx = self.cx.clone().expect("a source is started before it is pulled");
        // How its source stands, if that was asked in this look: what was said in an earlier one counts no
        // more, as its call may have been answered meanwhile.
        let mut stands = Pull::More;
        if self.ahead.is_empty() && self.end.is_none() {
            let ahead = &mut self.ahead;
            stands =
                self.source.pull(budget.min(AHEAD), &mut |event| ahead.push_back(event), rejects);
            if let Pull::Ended | Pull::Failed(_) = stands {
                self.end = Some(std::mem::replace(&mut stands, Pull::More));
            }
        }
        let now = cx.clock().monotonic();
        let Some(origin) = self.origin(now, cx.waker()) else {
            // Its own source wakes it, or the last of those that start with it.
            return if self.joined { Pull::Quiet(None) } else { stands };
        };
        for _ in 0..budget {
            let Some(event) = self.ahead.pop_front() else { break };
            let due = self.due(origin, event.time);
            if due > now {
                self.ahead.push_front(event);
                return Pull::Quiet(Some(due));
            }
            emit(event);
        }
        if self.ahead.is_empty() { self.end.clone().unwrap_or(stands) } else { Pull::More }
    }

    fn check(&self) -> Result<(), String> {
        if self.factor.is_finite() && self.factor > 0.0 {
            self.source.check()
        } else {
            Err(format!("the factor of a pace must be a positive number, not {}", self.factor))
        }
    }

    fn start(&mut self, cx: &SourceCx) {
        self.cx = Some(cx.clone());
        self.source.start(cx);
    }

    fn close(&mut self) -> bool {
        // Whether it holds anything does not matter: that is not due.
        self.source.close();
        true
    }
}

/// Where sources that are replayed together agree on their start.
struct Start(Mutex<Agreement>);

struct Agreement {
    /// How many have not said when their first event is.
    awaited: usize,
    first: Option<Timestamp>,
    started: Option<Duration>,
    /// Those that wait for the others.
    waiting: Vec<Waker>,
}

impl Start {
    fn of(sources: usize) -> Self {
        let waiting = Vec::new();
        Self(Mutex::new(Agreement { awaited: sources, first: None, started: None, waiting }))
    }

    /// One of the sources starts at `first`, or has no event at all. The last of them sets all off.
    fn join(
        &self,
        first: Option<Timestamp>,
        now: Duration,
        waker: &Waker,
    ) -> Option<(Timestamp, Duration)> {
        let mut agreement = self.0.lock();
        agreement.awaited -= 1;
        agreement.first = agreement.first.into_iter().chain(first).min();
        if agreement.awaited > 0 {
            agreement.waiting.push(waker.clone());
            return None;
        }
        agreement.started = Some(now);
        let waiting = std::mem::take(&mut agreement.waiting);
        drop(agreement);
        waiting.into_iter().for_each(Waker::wake);
        self.look()
    }

    /// What was agreed on. Where there is no event at all the time does not matter.
    fn look(&self) -> Option<(Timestamp, Duration)> {
        let agreement = self.0.lock();
        agreement.started.map(|started| (agreement.first.unwrap_or(Timestamp::MIN), started))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::source::from_iter;
    use crate::time::{Clock as _, ManualClock};

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    struct Replay<S: Source> {
        source: Paced<S>,
        clock: ManualClock,
    }

    impl<S: Source<Item = i64>> Replay<S> {
        fn new(mut source: Paced<S>, clock: &ManualClock) -> Self {
            source.start(&SourceCx::new(Arc::new(clock.clone()), Waker::noop().clone()));
            Self { source, clock: clock.clone() }
        }

        /// Everything that comes within `time` from now, each with the time at which it came.
        fn within(&mut self, time: u64, budget: usize) -> Vec<(u64, i64)> {
            let mut seen = Vec::new();
            let until = self.clock.monotonic() + secs(time);
            loop {
                let now = self.clock.monotonic();
                let mut emit = |event: Event<i64>| seen.push((now.as_secs(), event.value));
                match self.source.pull(budget, &mut emit, &mut Vec::new()) {
                    Pull::Quiet(Some(due)) if due <= until => self.clock.advance(due - now),
                    Pull::More => {}
                    _ => return seen,
                }
            }
        }
    }

    fn times(times: &[i64]) -> impl Source<Item = i64> + use<> {
        from_iter(times.to_vec(), |&n| Timestamp::from_secs(n))
    }

    #[test]
    fn events_come_when_they_are_due_and_in_their_order() {
        for budget in [1, 2, 100] {
            let clock = ManualClock::default();
            clock.advance(secs(7));
            let mut replay = Replay::new(paced(times(&[100, 90, 104, 102, 110]), 2.0), &clock);
            let expected = [(7, 100), (7, 90), (9, 104), (9, 102), (12, 110)];
            assert_eq!(replay.within(100, budget), expected);
        }
    }

    #[test]
    fn what_is_overdue_follows_at_once_and_the_pace_is_kept() {
        let clock = ManualClock::default();
        let mut replay = Replay::new(paced(times(&[0, 1, 2, 5, 6]), 1.0), &clock);
        assert_eq!(replay.within(0, 9), [(0, 0)]);
        clock.advance(secs(3));
        assert_eq!(replay.within(0, 9), [(3, 1), (3, 2)]);
        assert_eq!(replay.within(9, 9), [(5, 5), (6, 6)]);
    }

    #[test]
    fn sources_replayed_together_keep_their_distance() {
        let clock = ManualClock::default();
        let sources = [times(&[50, 51]), times(&[40, 60]), times(&[])];
        let mut all = paced_together(sources, 10.0).into_iter().map(|it| Replay::new(it, &clock));
        let (mut first, mut second, mut empty) =
            (all.next().unwrap(), all.next().unwrap(), all.next().unwrap());
        assert_eq!(first.within(100, 9), []);
        assert_eq!(second.within(100, 9), []);
        assert_eq!(empty.within(0, 9), []);
        assert_eq!(second.within(0, 9), [(0, 40)]);
        assert_eq!(first.within(1, 9), [(1, 50)]);
        assert_eq!(second.within(9, 9), [(2, 60)]);
    }

    /// Gives one event with each look, and is quiet behind it.
    struct Drops(i64);

    impl Source for Drops {
        type Item = i64;

        fn pull(
            &mut self,
            _: usize,
            emit: &mut impl FnMut(Event<i64>),
            _: &mut Vec<BadRecord>,
        ) -> Pull {
            self.0 += 1;
            emit(Event::new(Timestamp::from_secs(self.0), self.0));
            Pull::Quiet(None)
        }
    }

    #[test]
    fn a_quiet_source_is_asked_again_when_what_was_ahead_has_gone() {
        let clock = ManualClock::default();
        let mut replay = Replay::new(paced(Drops(0), 1.0), &clock);
        assert_eq!(replay.within(0, 9), [(0, 1)]);
        let mut seen = Vec::new();
        let mut pull = || replay.source.pull(9, &mut |e| seen.push(e.value), &mut Vec::new());
        assert_eq!(pull(), Pull::Quiet(Some(secs(1))));
        // The call of its source comes now and is answered by a look at what is ahead.
        assert_eq!(pull(), Pull::Quiet(Some(secs(1))));
        clock.advance(secs(1));
        assert_eq!(pull(), Pull::More);
        assert_eq!(pull(), Pull::Quiet(Some(secs(2))));
        assert_eq!(seen, [2]);
    }

    #[test]
    fn a_pace_is_a_positive_number() {
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(paced(times(&[1]), factor).check().unwrap_err().contains("positive"));
        }
        let forever = Replay::new(paced(times(&[0, i64::MAX]), 1e-300), &ManualClock::default());
        assert_eq!({ forever }.within(1, 9), [(0, 0)]);
    }
}
