//! Where events come from.
//!
//! A source is asked for events when there is room for them, on whatever thread is free, never on
//! two at once. It hands them out with the event time at which they happened; whether one is late is
//! decided by those who ask.
//!
//! A source never waits: one that has nothing now says so ([`Pull::Quiet`]), and by when it is to be
//! asked again. [`blocking`] makes such a source of one whose reads wait, as those of standard input
//! do; [`paced`] hands out the events of another at the pace of their times; [`sequence`] reads
//! several one after the other.

mod blocking;
mod csv;
mod iter;
mod json_lines;
mod paced;
mod sequence;

pub use self::csv::{Csv, csv, csv_file, csv_files};
pub use blocking::{Blocking, blocking};
pub use iter::{Events, FromIter, events, from_iter};
pub use json_lines::{JsonLines, json_lines, json_lines_file, json_lines_files};
pub use paced::{Paced, paced, paced_together};
pub use sequence::{Sequence, sequence};

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use crate::event::Event;
use crate::time::Clock;

/// Something that events can be pulled from.
pub trait Source: Send + 'static {
    /// The payload of its events.
    type Item: Send + 'static;

    /// Hands at most `budget` events to `emit`, in the order in which they arrived. Records that
    /// cannot be read are added to `rejects` and stop nothing. Not called again once it has ended or
    /// failed.
    fn pull(
        &mut self,
        budget: usize,
        emit: &mut impl FnMut(Event<Self::Item>),
        rejects: &mut Vec<BadRecord>,
    ) -> Pull;

    /// Whether it can be read at all. Asked when it is put into a query, which is refused otherwise.
    ///
    /// # Errors
    /// What about its settings makes no sense.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Called once, before the first pull.
    fn start(&mut self, _cx: &SourceCx) {}

    /// Its query has been told to end, so it is to read nothing more; it may be told so more than once.
    /// `false`: it has taken from outside what would be lost, and is pulled until it has
    /// [ended](Pull::Ended) or is quiet.
    fn close(&mut self) -> bool {
        true
    }
}

/// How a source goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pull {
    /// There may be more right now.
    More,
    /// There is nothing right now. It is asked again when its [waker](SourceCx::waker) is called,
    /// and if a time is given, when the [monotonic clock](Clock::monotonic) shows that.
    Quiet(Option<Duration>),
    /// There will be nothing more.
    Ended,
    /// It cannot go on, and why.
    Failed(String),
}

/// What a source is given when its query starts.
#[derive(Clone)]
pub struct SourceCx {
    clock: Arc<dyn Clock>,
    waker: Waker,
}

impl SourceCx {
    /// For a source that goes by `clock` and has itself asked again through `waker`.
    pub fn new(clock: Arc<dyn Clock>, waker: Waker) -> Self {
        Self { clock, waker }
    }

    /// The engine's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Has a [quiet](Pull::Quiet) source asked again; to be called from any thread.
    pub fn waker(&self) -> &Waker {
        &self.waker
    }
}

/// A record that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// Which input it is from, counted from 0, where a source is made of several.
    pub input: usize,
    /// The line on which it begins, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// Says of the records from position `from` on which input they are from.
pub(crate) fn number(rejects: &mut [BadRecord], from: usize, input: usize) {
    rejects[from..].iter_mut().for_each(|record| record.input = input);
}
