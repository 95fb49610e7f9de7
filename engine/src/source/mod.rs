//! Where events come from.
//!
//! A source is asked for events when there is room for them, on whatever thread is free, never on
//! two at once. It hands them out with the event time at which they happened; whether one is late is
//! decided by those who ask.

mod csv;
mod iter;

pub use self::csv::{Csv, csv, csv_file};
pub use iter::{Events, FromIter, events, from_iter};

use crate::event::Event;

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
}

/// How a source goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pull {
    /// There may be more right now.
    More,
    /// There will be nothing more.
    Ended,
    /// It cannot go on, and why.
    Failed(String),
}

/// A record that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The line on which it begins, counted from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}
