//! Where a chain's events come from: a source or an inbox; then time stamps and lateness, and the
//! reorder stage where the plan has put one.

mod fanin;
mod inbox;
mod log;
mod several;
mod source;
mod timed;

pub use inbox::{InboxIntake, PushIntake};
pub(super) use log::{KeyIntake, LogIntake, Sorted};
pub(super) use several::Several;
pub use source::SourceIntake;
pub(super) use source::SourceWaker;
pub use timed::{Assigned, Timed};

use std::time::Duration;

use crate::event::{Batch, Event};
use crate::operator::{Flow, Note};
use crate::source::BadRecord;
use crate::time::Timestamp;

/// What one look at an intake brought, besides the events.
#[derive(Default)]
pub struct Pulled {
    /// Whether another look would bring something now.
    pub more: bool,
    /// Events taken in, those included that a reorder stage holds and those refused.
    pub taken: u64,
    /// Of these, late ones.
    pub late: u64,
    /// Late ones that only an idle input's return made late.
    pub late_by_idle: u64,
    /// Events refused for an absurd time stamp.
    pub refused: u64,
    /// Events lost before they could be taken.
    pub lost: u64,
    /// Nanoseconds on the engine's clock at which the oldest event entered the engine; 0 if none.
    pub born: u64,
    /// What was said to the first operator, behind these events.
    pub notes: Vec<Note>,
    /// Records that could not be read.
    pub rejects: Vec<BadRecord>,
    /// Why the source cannot go on.
    pub failure: Option<String>,
}

/// What an intake promises after the events it has handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// No later event is earlier, unless it is handed out as late. At the end, the last promise
    /// before it.
    pub watermark: Timestamp,
    /// How it goes on.
    pub flow: Flow,
}

impl Progress {
    /// Before anything was promised. The state of a ticket starts there: it has told nothing yet.
    pub const NONE: Self = Self { watermark: Timestamp::MIN, flow: Flow::Active };
}

/// Where a chain's events come from. Touched only by the holder of the chain's token.
pub trait Intake: Send + 'static {
    /// The payload.
    type Item: Send + 'static;

    /// Puts about `budget` events into `batch`, which is empty.
    fn take(&mut self, budget: usize, batch: &mut Batch<Self::Item>) -> Pulled;

    /// As `take`, but events go to `run`, with whether they are late, as far as that saves putting them
    /// into `batch`; what is in `batch` afterwards comes behind them, and is left to the caller. A
    /// source in the usual case hands all of its events over like that, which saves a third of a light
    /// chain's time.
    ///
    /// There is one call of `run` in each of these functions: the operators behind it are compiled into
    /// the loop around a call if it is the only one, and are called for every event otherwise.
    #[inline]
    fn pull(
        &mut self,
        budget: usize,
        batch: &mut Batch<Self::Item>,
        _run: &mut impl FnMut(Event<Self::Item>, bool),
    ) -> Pulled {
        self.take(budget, batch)
    }

    /// The promise that stands before the next events. Whoever asks passes it on; who does not, gets it
    /// by a look of its own.
    #[inline]
    fn standing(&mut self) -> Timestamp {
        Timestamp::MIN
    }

    /// The chain is about to let go of the token; its earliest timer is `next_timer`. `true`: it must
    /// look again at once.
    #[inline]
    fn rest(&mut self, next_timer: Option<Timestamp>) -> bool {
        let _ = next_timer;
        false
    }

    /// The query has been told to end like `flow`, while `waiting` events wait for this intake. Told
    /// before each take. Sources and ports look for themselves.
    fn ending(&mut self, _flow: Flow, _waiting: usize) {}

    /// The promise after what was handed out.
    fn progress(&self) -> Progress;

    /// When, on the monotonic clock, it must be looked at even if nothing comes.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Events it holds back.
    fn held(&self) -> usize {
        0
    }

    /// The input that holds the watermark back, where there are several.
    fn holding(&self) -> Option<usize> {
        None
    }

    /// The chain is over: nothing more is wanted.
    fn close(&mut self) {}
}
