//! Query groups: a great many small queries made from one template.
//!
//! A *member* of a group is a query of its own: it has its own state, parameters, statistics and end,
//! and gets the events that it was added for, in their order, and no others. What members have in
//! common exists once: the operators of the template, the index that says which members an event is
//! for, and the one inbox per *lane*, which is a partitioned query that hosts many members.
//!
//! | what | how |
//! |---|---|
//! | who gets an event | members whose [`Select`] says so: same key, value in their range, key in their set |
//! | in which order | the events of a lane in its order; the members of one key in the order of their addition, those on intervals in no promised order |
//! | additions, removals, changes of parameters | elements in the lane's inbox: events before them do not see them, events behind do |
//! | time | a member is told of a watermark when a timer of its own is due (one visit per due timer), or when it gets a late event; what it emits is what it would as a query of its own |
//! | order across members | in an ordered lane all timers due at or before an event's time fire first, earliest first |
//! | a panic in a member's functions | ends that member: its state is dropped, its failure reported, its place kept until it is removed |
//! | a panic in the function that selects | that event is counted as failed |
//! | a place that is used again | has another generation: an id of the member before it names nobody |

mod exit;
mod heed;
mod hits;
mod intervals;
mod lane;
mod members;
mod pages;
mod select;
mod tags;
#[cfg(test)]
mod tests;
mod windows;

pub use exit::{Exit, Exits, Full, Mailbox, OwnExit, Results};
pub use hits::Hits;
pub use intervals::Span;
pub use lane::{Addition, Change, LaneCounts, MemberReport, StateShown};
pub use members::{LaneState, Members, Program};
pub(super) use pages::Name;
pub use pages::{BUCKETS, Places};
pub use select::{ByKey, ByKeyAndRange, ByRange, BySet, KeyIndex, Select};
pub use windows::{ByWindow, WindowIndex};

use super::Failure;

/// Names a member of a group. Never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId {
    /// The group.
    pub group: u32,
    /// Where in the group it lives.
    pub place: u32,
    /// How many members have lived there before.
    pub generation: u32,
}

impl std::fmt::Display for MemberId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "g{}/{}.{}", self.group, self.place, self.generation)
    }
}

/// Hears what a lane has to say about its members.
pub trait Watch: Send + Sync {
    /// Lane `lane` has counted `counts` so far.
    fn counted(&self, lane: u16, counts: &LaneCounts);

    /// A member has failed, after `events` events, and takes no more.
    fn failed(&self, member: MemberId, failure: Failure, events: u64);

    /// These members are gone, and their places free.
    fn removed(&self, members: &[MemberId]);
}
