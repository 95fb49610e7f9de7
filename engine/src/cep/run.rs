//! Partial matches.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::arena::NIL;
use crate::time::Timestamp;

/// One partial match.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Run {
    /// The order of arrival of its first event; `u64::MAX` before.
    pub began: u64,
    /// Its first event's time; before, when it was begun.
    pub start: Timestamp,
    /// Its newest event's time; before, when it was begun.
    pub last: Timestamp,
    /// Where it stands: at one place, or at several within parts that stand side by side.
    pub tokens: SmallVec<[Token; 1]>,
    /// Whether it has been reported already, and goes on.
    pub matched: bool,
}

/// One of the places at which a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Token {
    pub at: At,
    /// The events taken on the way there.
    pub chain: u32,
    /// The event at which it got there, or to which it was offered last.
    pub tick: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum At {
    /// Waits for the steps of a state that are still alive.
    Listening { state: u16, alive: u64 },
    /// Waits for a time.
    Waiting { wait: u16, due: Timestamp },
    /// A part of a group that is complete.
    Arrived { group: u16, branch: u16 },
    /// About to be put into a state.
    Entering { state: u16 },
    /// A match that is not decided yet.
    Accepted,
}

impl Run {
    pub fn new(time: Timestamp, at: At, tick: u32) -> Self {
        let tokens = SmallVec::from_buf([Token { at, chain: NIL, tick }]);
        Self { began: u64::MAX, start: time, last: time, tokens, matched: false }
    }

    /// Notes an event that was taken.
    #[inline]
    pub fn took(&mut self, seq: u64, time: Timestamp) {
        if self.began == u64::MAX {
            (self.began, self.start) = (seq, time);
        }
        self.last = time;
    }

    /// Whether it is a match that is not decided yet.
    pub fn is_accepted(&self) -> bool {
        matches!(self.tokens[..], [Token { at: At::Accepted, .. }])
    }
}
