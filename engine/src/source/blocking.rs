//! A source whose reads wait, on a thread of its own.
//!
//! The thread puts what it reads into a hand-off of bounded size and waits there while that is full.
//! Whoever puts something into an empty hand-off wakes the query, which takes all there is; so a worker
//! never waits, and a quiet source costs nothing. When the query is told to end, or is gone, the
//! hand-off is closed: the thread lets go of the source when its present read returns, and nobody
//! waits for that, because a read cannot be interrupted.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use super::{BadRecord, Pull, Source, SourceCx};
use crate::event::Event;
use crate::operator::panic_message;
use crate::sync::{Condvar, Mutex, thread};

/// How many events and bad records the hand-off holds.
const ROOM: usize = 1024;

/// `source`, whose reads may wait for as long as they like, read by a thread of its own: standard
/// input, a pipe, a socket. For files this costs more than it brings.
///
/// The thread starts with the query. It reads ahead by up to 1,024 events, which are still processed
/// when the query is drained or stopped; then it reads no more, and goes when its present read is over.
///
/// ```no_run
/// use mizzle_engine::{source::{blocking, json_lines}, time::Timestamp};
/// # #[derive(serde::Deserialize)]
/// # struct Reading { at: i64 }
/// let input = json_lines(std::io::stdin(), |r: &Reading| Timestamp::from_secs(r.at));
/// let source = blocking(input);
/// ```
pub fn blocking<S: Source>(source: S) -> Blocking<S> {
    Blocking {
        source: Some(source),
        hand_off: Arc::new(HandOff { held: Mutex::default(), changed: Condvar::new() }),
        taken: VecDeque::new(),
        outcome: None,
        closed: false,
    }
}

/// What [`blocking`] returns.
pub struct Blocking<S: Source> {
    /// Until its thread has it.
    source: Option<S>,
    hand_off: Arc<HandOff<S::Item>>,
    /// Taken out of the hand-off, and not handed out.
    taken: VecDeque<Event<S::Item>>,
    /// How it ended.
    outcome: Option<Pull>,
    closed: bool,
}

struct HandOff<T> {
    held: Mutex<Held<T>>,
    changed: Condvar,
}

struct Held<T> {
    events: VecDeque<Event<T>>,
    rejects: Vec<BadRecord>,
    outcome: Option<Pull>,
    closed: bool,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self { events: VecDeque::new(), rejects: Vec::new(), outcome: None, closed: false }
    }
}

impl<T> Held<T> {
    fn len(&self) -> usize {
        self.events.len() + self.rejects.len()
    }
}

impl<T> HandOff<T> {
    /// Adds something as soon as there is room. `false`: nothing more is wanted, and it was dropped.
    fn put(&self, waker: &Waker, add: impl FnOnce(&mut Held<T>)) -> bool {
        let mut held = self.held.lock();
        while held.len() >= ROOM && !held.closed {
            self.changed.wait(&mut held);
        }
        if held.closed {
            return false;
        }
        let was_empty = held.len() == 0;
        add(&mut held);
        drop(held);
        if was_empty {
            waker.wake_by_ref();
        }
        true
    }

    fn close(&self) {
        self.held.lock().closed = true;
        self.changed.notify_one();
    }

    fn end(&self, waker: &Waker, outcome: Pull) {
        self.held.lock().outcome = Some(outcome);
        waker.wake_by_ref();
    }
}

/// Reads until there is nothing more, or nothing more is wanted.
fn read<S: Source>(source: &mut S, cx: &SourceCx, hand_off: &HandOff<S::Item>) -> Pull {
    let mut rejects = Vec::new();
    source.start(cx);
    let mut wanted = true;
    while wanted {
        // One at a time: a second read may wait for long.
        let mut emit =
            |event| wanted &= hand_off.put(cx.waker(), |held| held.events.push_back(event));
        let pull = source.pull(1, &mut emit, &mut rejects);
        if !rejects.is_empty() {
            wanted &= hand_off.put(cx.waker(), |held| held.rejects.append(&mut rejects));
        }
        match pull {
            Pull::More => {}
            Pull::Quiet(_) => {
                let reason = "a source that tells when it is quiet needs no thread of its own";
                return Pull::Failed(reason.to_owned());
            }
            over => return over,
        }
    }
    Pull::Ended
}

impl<S: Source> Source for Blocking<S> {
    type Item = S::Item;

    fn pull(
        &mut self,
        budget: usize,
        emit: &mut impl FnMut(Event<S::Item>),
        rejects: &mut Vec<BadRecord>,
    ) -> Pull {
        let mut found_nothing = false;
        if self.taken.is_empty() && self.outcome.is_none() {
            let mut held = self.hand_off.held.lock();
            found_nothing = held.len() == 0;
            std::mem::swap(&mut held.events, &mut self.taken);
            rejects.append(&mut held.rejects);
            self.outcome = held.outcome.take();
            drop(held);
            self.hand_off.changed.notify_one();
        }
        for event in self.taken.drain(..budget.min(self.taken.len())) {
            emit(event);
        }
        match &self.outcome {
            _ if !self.taken.is_empty() => Pull::More,
            Some(outcome) => outcome.clone(),
            // Quiet is only who has just found nothing: the call for what came before this look may have
            // been answered by an earlier one, which had events left.
            None if !found_nothing => Pull::More,
            None if self.closed => Pull::Ended,
            None => Pull::Quiet(None),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.source.as_ref().map_or(Ok(()), Source::check)
    }

    fn start(&mut self, cx: &SourceCx) {
        let Some(mut source) = self.source.take() else { return };
        let (cx, hand_off) = (cx.clone(), self.hand_off.clone());
        let run = move || {
            let read = catch_unwind(AssertUnwindSafe(|| read(&mut source, &cx, &hand_off)));
            let outcome = read.unwrap_or_else(|payload| {
                Pull::Failed(format!("panicked: {}", panic_message(payload)))
            });
            hand_off.end(cx.waker(), outcome);
        };
        if let Err(error) = thread::Builder::new().name("mizzle-read".to_owned()).spawn(run) {
            self.outcome = Some(Pull::Failed(format!("a thread could not be started: {error}")));
        }
    }

    fn close(&mut self) -> bool {
        self.closed = true;
        self.hand_off.close();
        self.taken.is_empty() && self.hand_off.held.lock().len() == 0
    }
}

impl<S: Source> Drop for Blocking<S> {
    fn drop(&mut self) {
        self.hand_off.close();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::io::{self, Write};
    use std::time::Duration;

    use super::*;
    use crate::source::{csv, from_iter, json_lines};
    use crate::sync::Deadline;
    use crate::sync::atomic::{AtomicBool, Ordering};
    use crate::time::{ManualClock, Timestamp};

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Release);
        }
    }

    /// A reader, and what it has been given so far.
    struct Reading<S: Source> {
        source: Blocking<S>,
        woken: Arc<Woken>,
        seen: Vec<S::Item>,
        rejects: Vec<BadRecord>,
    }

    impl<S: Source> Reading<S> {
        fn new(source: S) -> Self {
            let (mut source, woken) = (blocking(source), Arc::<Woken>::default());
            source.start(&SourceCx::new(Arc::new(ManualClock::default()), woken.clone().into()));
            Self { source, woken, seen: Vec::new(), rejects: Vec::new() }
        }

        /// Takes what comes, as a query does: only when it is woken.
        fn until(&mut self, reached: impl Fn(&Self, &Pull) -> bool) -> Pull {
            let guard = Deadline::after(Duration::from_secs(20));
            let mut pull = Pull::More;
            loop {
                assert!(!guard.left().is_zero(), "hangs");
                if pull == Pull::More || self.woken.0.swap(false, Ordering::AcqRel) {
                    let seen = &mut self.seen;
                    pull = self.source.pull(7, &mut |e| seen.push(e.value), &mut self.rejects);
                }
                if reached(self, &pull) {
                    return pull;
                }
                thread::yield_now();
            }
        }
    }

    fn second(n: &i64) -> Timestamp {
        Timestamp::from_secs(*n)
    }

    #[test]
    fn each_record_comes_when_it_is_there_and_not_before_its_line_is_whole() {
        let (pipe, mut writer) = io::pipe().unwrap();
        let mut reading = Reading::new(json_lines(pipe, second));
        writer.write_all(b"1\n2\nx\n3").unwrap();
        let pull = reading.until(|it, pull| it.rejects.len() == 1 && *pull != Pull::More);
        assert_eq!((&reading.seen[..], pull), (&[1, 2][..], Pull::Quiet(None)));
        writer.write_all(b"4\n").unwrap();
        reading.until(|it, _| it.seen.len() == 3);
        assert_eq!((&reading.seen[..], reading.rejects[0].line), (&[1, 2, 34][..], 3));
        drop(writer);
        assert_eq!(reading.until(|_, pull| matches!(pull, Pull::Ended)), Pull::Ended);
    }

    #[test]
    fn everything_comes_through_a_small_hand_off_in_order() {
        let mut reading = Reading::new(from_iter(0..20 * ROOM as i64, second));
        reading.until(|_, pull| *pull == Pull::Ended);
        assert!(reading.seen.iter().copied().eq(0..20 * ROOM as i64));
    }

    #[test]
    fn what_comes_while_the_last_events_are_handed_out_is_looked_for() {
        let mut source = blocking(from_iter(0..0, second));
        let hand_off = source.hand_off.clone();
        let put = |n| {
            hand_off.put(Waker::noop(), |held| held.events.push_back(Event::new(second(&n), n)))
        };
        let mut seen = Vec::new();
        let mut pull = || source.pull(1, &mut |event| seen.push(event.value), &mut Vec::new());
        assert!(put(1) && put(2));
        assert_eq!(pull(), Pull::More);
        // Its call comes while the source is being looked at anyway.
        assert!(put(3));
        assert_eq!([pull(), pull(), pull()], [Pull::More, Pull::More, Pull::Quiet(None)]);
        assert_eq!(seen, [1, 2, 3]);
    }

    #[test]
    fn what_was_read_is_handed_out_when_it_is_closed_and_then_it_has_ended() {
        let mut reading = Reading::new(from_iter(0.., second));
        let guard = Deadline::after(Duration::from_secs(20));
        while reading.source.hand_off.held.lock().len() < ROOM {
            assert!(!guard.left().is_zero(), "hangs");
            thread::yield_now();
        }
        assert!(!reading.source.close());
        reading.until(|_, pull| *pull == Pull::Ended);
        assert_eq!(reading.seen.len(), ROOM);
        assert!(reading.source.close());
    }

    #[test]
    fn the_thread_lets_go_of_its_source_once_nothing_more_is_wanted() {
        let (pipe, mut writer) = io::pipe().unwrap();
        drop(Reading::new(csv(pipe, |&(n,): &(i64,)| second(&n))));
        let guard = Deadline::after(Duration::from_secs(20));
        // Whoever writes to a pipe that nobody reads gets an error.
        while writer.write_all(b"1\n").is_ok() {
            assert!(!guard.left().is_zero(), "it is still read");
            thread::yield_now();
        }
    }

    #[test]
    fn a_panic_while_reading_fails_the_source() {
        let picky = |n: &i64| if *n == 2 { panic!("no {n}") } else { second(n) };
        let mut reading = Reading::new(from_iter([1, 2, 3], picky));
        let pull = reading.until(|_, pull| matches!(pull, Pull::Failed(_)));
        assert_eq!((pull, reading.seen), (Pull::Failed("panicked: no 2".to_owned()), vec![1]));
    }
}
