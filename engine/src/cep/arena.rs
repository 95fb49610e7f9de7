//! The events that runs have taken, and the lists in which runs hold them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::time::Timestamp;

/// No event.
pub(super) const NIL: u32 = u32::MAX;

/// Below this many events sweeping is not worth it.
const FEW: usize = 8;

/// The events of a key, in order of arrival, and the nodes of the lists over them. Most keys hold one event,
/// which lies in place: room for a second one would make each key a cache line longer.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Arena<E> {
    events: SmallVec<[Held<E>; 1]>,
    /// A parent is always before its children.
    nodes: SmallVec<[Node; 1]>,
    /// How many events the last sweep left.
    kept: u32,
    /// How many nodes it left: runs that began apart have few in common, so there may be many more.
    kept_nodes: u32,
}

#[derive(Clone, Serialize, Deserialize)]
struct Held<E> {
    seq: u64,
    time: Timestamp,
    value: E,
}

/// An event that a run took, as `step`, after those of its parent.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Node {
    pub parent: u32,
    event: u32,
    pub step: u16,
}

impl<E> Arena<E> {
    pub fn new() -> Self {
        Self { events: SmallVec::new(), nodes: SmallVec::new(), kept: 0, kept_nodes: 0 }
    }

    /// Takes an event in, the newest.
    #[inline]
    pub fn admit(&mut self, seq: u64, time: Timestamp, value: E) {
        self.events.push(Held { seq, time, value });
    }

    /// The newest event.
    #[inline]
    pub fn newest(&self) -> &E {
        &self.events.last().expect("an event is at hand").value
    }

    /// The newest event, as `step`, behind the list `parent`.
    #[inline]
    pub fn take(&mut self, parent: u32, step: u16) -> u32 {
        let event = (self.events.len() - 1) as u32;
        self.push(Node { parent, event, step })
    }

    fn push(&mut self, node: Node) -> u32 {
        let at = self.nodes.len();
        assert!(at < NIL as usize, "a key holds 2^32 - 1 events");
        self.nodes.push(node);
        at as u32
    }

    /// The nodes of a list, from its last.
    pub fn list(&self, head: u32) -> impl Iterator<Item = Node> {
        let node = move |at: u32| (at != NIL).then(|| self.nodes[at as usize]);
        std::iter::successors(node(head), move |last| node(last.parent))
    }

    /// Where a list stood before the nodes at its end for which `is_of` holds.
    pub fn before(&self, mut head: u32, is_of: impl Fn(u16) -> bool) -> u32 {
        while head != NIL && is_of(self.nodes[head as usize].step) {
            head = self.nodes[head as usize].parent;
        }
        head
    }

    /// The list `head` with the end of `other`, from `base` on, behind it.
    pub fn joined(&mut self, head: u32, other: u32, base: u32) -> u32 {
        if other == base {
            return head;
        }
        let node = self.nodes[other as usize];
        let parent = self.joined(head, node.parent, base);
        self.push(Node { parent, ..node })
    }

    /// One list of all that is in those that end at `heads`, in order of arrival.
    pub fn union(&mut self, heads: &[u32]) -> u32 {
        if let [] | [_] = heads {
            return heads.first().copied().unwrap_or(NIL);
        }
        let mut all = Vec::new();
        for &head in heads {
            let mut at = head;
            while at != NIL {
                all.push((self.nodes[at as usize].event, at));
                at = self.nodes[at as usize].parent;
            }
        }
        all.sort_unstable();
        all.dedup();
        all.into_iter().fold(NIL, |parent, (_, at)| {
            let node = self.nodes[at as usize];
            self.push(Node { parent, ..node })
        })
    }

    /// The order of arrival of a node's event.
    pub fn seq(&self, node: Node) -> u64 {
        self.events[node.event as usize].seq
    }

    /// Whether the list has an event whose order of arrival is among `seqs`.
    pub fn holds_any(&self, head: u32, seqs: &[u64]) -> bool {
        self.list(head).any(|node| seqs.contains(&self.seq(node)))
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// Whether much of it may be out of reach.
    #[inline]
    pub fn is_stale(&self) -> bool {
        self.events.len() > 2 * self.kept as usize + FEW
            || self.nodes.len() > 2 * self.kept_nodes as usize + 8 * FEW
    }

    /// Drops what none of `heads` reaches, and gives them their new places.
    pub fn sweep<'a>(&mut self, heads: impl Iterator<Item = &'a mut u32>) {
        let heads: Vec<&mut u32> = heads.collect();
        let mut nodes = vec![NIL; self.nodes.len()];
        let mut events = vec![NIL; self.events.len()];
        for head in &heads {
            let mut at = **head;
            while at != NIL && nodes[at as usize] == NIL {
                let node = self.nodes[at as usize];
                nodes[at as usize] = 0;
                events[node.event as usize] = 0;
                at = node.parent;
            }
        }
        let mut place = 0;
        let mut at = 0;
        self.events.retain(|_| keep(&mut events, &mut at, &mut place));
        self.kept = place;
        (at, place) = (0, 0);
        self.nodes.retain(|_| keep(&mut nodes, &mut at, &mut place));
        self.kept_nodes = place;
        for node in &mut self.nodes {
            node.event = events[node.event as usize];
            if node.parent != NIL {
                node.parent = nodes[node.parent as usize];
            }
        }
        for head in heads {
            if *head != NIL {
                *head = nodes[*head as usize];
            }
        }
        self.events.shrink_to_fit();
        self.nodes.shrink_to_fit();
    }

    /// How many events are held.
    pub fn len(&self) -> usize {
        self.events.len()
    }
}

/// Whether the one at `at` stays, and then its new place; goes on to the next.
fn keep(places: &mut [u32], at: &mut usize, place: &mut u32) -> bool {
    let stays = places[*at] != NIL;
    if stays {
        places[*at] = *place;
        *place += 1;
    }
    *at += 1;
    stays
}

/// What a run has taken: the events of a match, of a partial match, or those so far.
pub struct Bound<'a, E> {
    pub(super) names: &'a [Arc<str>],
    pub(super) arena: &'a Arena<E>,
    pub(super) head: u32,
}

/// An event of a [`Bound`].
#[derive(Debug, PartialEq, Eq)]
pub struct Taken<'a, E> {
    /// The name of the step that took it.
    pub step: &'a str,
    /// When it happened.
    pub time: Timestamp,
    /// What happened.
    pub value: &'a E,
}

impl<'a, E> Bound<'a, E> {
    fn nodes(&self) -> impl Iterator<Item = Node> {
        self.arena.list(self.head)
    }

    fn of(&self, name: &str) -> impl Iterator<Item = &'a E> {
        let (names, arena) = (self.names, self.arena);
        let named = move |node: &Node| *names[node.step as usize] == *name;
        self.nodes().filter(named).map(move |node| &arena.events[node.event as usize].value)
    }

    /// The last event of the steps called `name`.
    pub fn last(&self, name: &str) -> Option<&'a E> {
        self.of(name).next()
    }

    /// The first event of the steps called `name`.
    pub fn first(&self, name: &str) -> Option<&'a E> {
        self.of(name).last()
    }

    /// The events of the steps called `name`, in the order in which they came.
    pub fn all(&self, name: &str) -> Vec<&'a E> {
        let mut all: Vec<&E> = self.of(name).collect();
        all.reverse();
        all
    }

    /// All events, in the order in which they came; one that fills two steps comes twice.
    pub fn events(&self) -> Vec<Taken<'a, E>> {
        let mut nodes: Vec<Node> = self.nodes().collect();
        nodes.reverse();
        nodes.sort_by_key(|&node| self.arena.seq(node));
        let (names, arena) = (self.names, self.arena);
        let taken = |node: Node| {
            let Held { time, value, .. } = &arena.events[node.event as usize];
            Taken { step: &names[node.step as usize], time: *time, value }
        };
        nodes.into_iter().map(taken).collect()
    }

    /// The time of the earliest event, if there is one.
    pub fn start(&self) -> Option<Timestamp> {
        self.nodes().map(|node| self.arena.events[node.event as usize].time).min()
    }
}

/// The last event of the steps called `name`.
///
/// # Panics
/// If there is none: see [`Bound::last`].
impl<E> std::ops::Index<&str> for Bound<'_, E> {
    type Output = E;

    fn index(&self, name: &str) -> &E {
        self.last(name).unwrap_or_else(|| panic!("step {name:?} has taken no event"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs that began at each of many events, and have all since: nodes are many more than events.
    #[test]
    fn what_is_all_in_reach_is_seldom_swept() {
        let (mut arena, mut heads, mut sweeps) = (Arena::new(), Vec::new(), 0);
        for seq in 0..200u64 {
            arena.admit(seq, Timestamp::from_micros(seq as i64), ());
            heads.push(NIL);
            for head in &mut heads {
                *head = arena.take(*head, 0);
            }
            if arena.is_stale() {
                arena.sweep(heads.iter_mut());
                sweeps += 1;
            }
        }
        assert_eq!((arena.events.len(), arena.nodes.len()), (200, 200 * 201 / 2));
        assert!((5..20).contains(&sweeps), "{sweeps}");
    }
}
