//! Who may run a chain: one atomic with named states. The protocol and its races stand in README.md.

use crate::sync::atomic::{AtomicU8, Ordering};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const NOTIFIED: u8 = 3;
const WAITING: u8 = 4;
const DONE: u8 = 5;

/// The right to take from a chain's intake. Held by the worker that moved it to *running*.
#[derive(Debug)]
pub struct Token(AtomicU8);

/// Whether the caller must put the chain on a run queue.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The token is *queued* now, and the caller is the one who moved it there.
    Now,
    /// Somebody else has or will.
    No,
}

impl Default for Token {
    fn default() -> Self {
        Self(AtomicU8::new(IDLE))
    }
}

impl Token {
    /// There is input: an idle chain becomes queued, a running one is noted down.
    pub fn notify(&self) -> Queue {
        self.signal(|state| matches!(state, IDLE))
    }

    /// There is room, or the query is over: a waiting or idle chain becomes queued.
    pub fn wake(&self) -> Queue {
        self.signal(|state| matches!(state, IDLE | WAITING))
    }

    fn signal(&self, queues: impl Fn(u8) -> bool) -> Queue {
        // AcqRel, and Acquire where nothing is stored: pairs with the releases in `leave`, so that
        // the signaller's pushes are seen by the run it causes, and it sees a state no older than
        // the run it means.
        let moved = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match state {
            state if queues(state) => Some(QUEUED),
            // A read-modify-write even where nothing changes: it joins the release sequence, so the
            // run that follows sees what this signaller wrote before.
            RUNNING | NOTIFIED => Some(NOTIFIED),
            QUEUED => Some(QUEUED),
            _ => None,
        });
        match moved {
            Ok(before) if queues(before) => Queue::Now,
            _ => Queue::No,
        }
    }

    /// Whether the chain is on a run queue.
    pub fn is_queued(&self) -> bool {
        self.0.load(Ordering::Acquire) == QUEUED
    }

    /// A worker took the chain off a run queue. `false`: the chain is done and must be let go.
    pub fn begin(&self) -> bool {
        // Acquire: pairs with the release of the last run and of every signal since.
        match self.0.compare_exchange(QUEUED, RUNNING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(DONE) => false,
            Err(state) => panic!("a chain on a run queue is in state {state}, not queued"),
        }
    }

    /// The run is over. With `more` the chain has input left and becomes queued.
    pub fn release(&self, more: bool) -> Queue {
        self.leave(if more { QUEUED } else { IDLE })
    }

    /// The run is over because there is no room downstream; the caller has registered for it.
    pub fn wait(&self) -> Queue {
        self.leave(WAITING)
    }

    fn leave(&self, to: u8) -> Queue {
        // Release: what this run did to the intake is seen by the next one's `begin`.
        match self.0.compare_exchange(RUNNING, to, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) if to == QUEUED => Queue::Now,
            Ok(_) => Queue::No,
            Err(NOTIFIED) => {
                // Only the holder leaves *notified*, so a plain store cannot overwrite a signal:
                // signals leave *notified* as it is. A swap keeps the release sequence unbroken.
                self.0.swap(QUEUED, Ordering::AcqRel);
                Queue::Now
            }
            // A concurrent chain ends when its last ticket retires, whoever holds the token then.
            Err(DONE) => Queue::No,
            Err(state) => panic!("the holder of a token found state {state}"),
        }
    }

    /// The chain is over. Nothing will run it again.
    pub fn finish(&self) {
        self.0.swap(DONE, Ordering::AcqRel);
    }

    /// Whether the chain is over.
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire) == DONE
    }

    /// The state's name, for reports.
    pub fn name(&self) -> &'static str {
        // Relaxed: a report may be a moment old.
        match self.0.load(Ordering::Relaxed) {
            IDLE => "idle",
            QUEUED => "queued",
            RUNNING => "running",
            NOTIFIED => "running and notified",
            WAITING => "waiting for room",
            _ => "done",
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_signal_during_a_run_queues_the_chain_again() {
        let token = Token::default();
        assert_eq!(token.notify(), Queue::Now);
        assert_eq!(token.notify(), Queue::No);
        assert!(token.begin());
        assert_eq!(token.notify(), Queue::No);
        assert_eq!(token.release(false), Queue::Now);
        assert!(token.begin());
        assert_eq!(token.release(false), Queue::No);
        assert_eq!(token.name(), "idle");
    }

    #[test]
    fn input_does_not_make_room() {
        let token = Token::default();
        assert_eq!(token.notify(), Queue::Now);
        assert!(token.begin());
        assert_eq!(token.wait(), Queue::No);
        assert_eq!(token.notify(), Queue::No);
        assert_eq!(token.name(), "waiting for room");
        assert_eq!(token.wake(), Queue::Now);
    }

    #[test]
    fn room_that_comes_before_the_wait_is_not_lost() {
        let token = Token::default();
        assert_eq!(token.notify(), Queue::Now);
        assert!(token.begin());
        assert_eq!(token.wake(), Queue::No);
        assert_eq!(token.wait(), Queue::Now);
    }

    #[test]
    fn done_is_final() {
        let token = Token::default();
        assert_eq!(token.notify(), Queue::Now);
        assert!(token.begin());
        token.finish();
        assert_eq!(token.notify(), Queue::No);
        assert_eq!(token.wake(), Queue::No);
        assert!(token.is_done());
    }
}
