//! What is said to a lane about its members, and what it says about them.

use std::ops::Add;

use super::MemberId;
use super::exit::OwnExit;
use crate::time::Timestamp;

/// A member that is added.
pub struct Addition<On, P> {
    /// Its name; nobody lives at its place.
    pub id: MemberId,
    /// What it selects.
    pub on: On,
    /// Its parameters.
    pub params: P,
    /// Its own way out; else its results go where the group's go.
    pub own: Option<OwnExit>,
}

/// What is said to a lane, through its inbox.
pub enum Change<On, P> {
    /// Members begin.
    Add(Vec<Addition<On, P>>),
    /// Members end; those that are not there are passed over.
    Remove(Vec<MemberId>),
    /// A member goes on with other parameters.
    Params(MemberId, P),
    /// Somebody wants to know how a member stands; `None`: it is not there.
    Look(MemberId, Box<dyn FnOnce(Option<MemberReport<On, P>>) + Send>),
    /// Somebody wants to know who is there.
    List(Box<dyn FnOnce(Vec<MemberId>) + Send>),
}

/// What a lane has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneCounts {
    /// Members that live.
    pub members: u64,
    /// Members that have failed and were not removed.
    pub failed: u64,
    /// Events that came.
    pub events: u64,
    /// Of these, events for no member.
    pub unmatched: u64,
    /// Events that the function which selects panicked at.
    pub unselected: u64,
    /// Events handed to members: one that is for several counts several times.
    pub handed: u64,
    /// Results of members.
    pub results: u64,
    /// Results that members' own ways out did not take.
    pub dropped: u64,
    /// Timers that fired: visits of members for the sake of time.
    pub timers: u64,
}

impl Add for LaneCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            members: self.members + other.members,
            failed: self.failed + other.failed,
            events: self.events + other.events,
            unmatched: self.unmatched + other.unmatched,
            unselected: self.unselected + other.unselected,
            handed: self.handed + other.handed,
            results: self.results + other.results,
            dropped: self.dropped + other.dropped,
            timers: self.timers + other.timers,
        }
    }
}

/// How a member stands.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberReport<On, P> {
    /// Its name.
    pub id: MemberId,
    /// What it selects and its parameters; `None` if it has failed.
    pub living: Option<(On, P)>,
    /// Events it got.
    pub events: u64,
    /// Results it gave.
    pub results: u64,
    /// Results that its own way out did not take.
    pub dropped: u64,
    /// When its next timer is due.
    pub next_timer: Option<Timestamp>,
    /// Its named states.
    pub state: Vec<StateShown>,
    /// Why it failed.
    pub failure: Option<String>,
}

/// A named state in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateShown {
    /// The name it was given.
    pub name: String,
    /// The state as JSON.
    pub json: String,
}
