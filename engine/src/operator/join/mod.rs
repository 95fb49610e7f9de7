//! Joins: two streams, whose rows are matched by key and time.
//!
//! A join's input is one stream of [`Either`]: the union of its two sides. So its watermark is the
//! union's, which waits for the slower side (unless that is idle or has ended), and whatever it
//! promises holds for both sides.
//!
//! | join | a left row at `t` meets | when it is known | stamped |
//! |---|---|---|---|
//! | [`IntervalJoin`] | each right row of its key in `[t + lower, t + upper]` | when the later of the two comes | with the later of their times |
//! | the same, unmatched | none | when the clock has passed the last possible partner | with the later of its own time and that of its last possible partner |
//! | [`AsOf`] | the newest right row of its key at or before `t` | when the clock has passed `t`; at once in an ordered chain | `t` |
//! | [`Control`] | what the right rows at or before `t` have made of one state | likewise | `t` |
//! | window ([`Pairs`]) | each right row of its key in the same window | when the window closes | end of the window minus 1 us |
//!
//! The clock is the watermark, in an ordered chain the time of the event about to be taken. A row that
//! is earlier than the clock is late: its partners may be gone, or may have been given out as unmatched
//! already. It is counted and joined with nothing.
//!
//! None of them holds the outgoing watermark back. A pair is not earlier than the row that completed
//! it, which was on time. What comes out when the clock passes an instant `d` is stamped `d`: it was not
//! due at the clock before, which therefore was `d` at most.

mod as_of;
mod control;
mod interval;
mod matching;
mod rows;
mod sorted;
mod window;

use serde::{Deserialize, Serialize};

pub use as_of::{AsOf, AsOfState, Lifetime};
pub use control::{Control, ControlState};
pub use interval::{Interval, IntervalJoin, IntervalState, InvalidInterval};
pub use matching::{Finding, Full, Inner, Left, Matching, Right, With};
pub use window::{PairedRows, Pairs};

/// A row of one of two streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Either<L, R> {
    /// Of the left one.
    Left(L),
    /// Of the right one.
    Right(R),
}

#[cfg(all(test, not(loom)))]
mod tests;
