//! Who waits for whom, and what to do about a circle. See the module's README, "Circles".

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use crate::sync::Mutex;

use super::super::engine::Shared;

/// Something that waits, or is waited for: of which engine, and its id there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    engine: usize,
    id: u64,
}

impl Node {
    pub(in super::super) fn new(engine: &Arc<Shared>, id: u64) -> Self {
        Self { engine: Arc::as_ptr(engine) as usize, id }
    }
}

/// Something that can be full, and that may wait itself.
pub(in super::super) trait Door: Send + Sync {
    /// What it is, if it has been given to an engine.
    fn node(&self) -> Option<Node>;

    /// Whether those who are noted down as waiting for it still do, and have not been woken.
    fn keeps_waiting(&self) -> bool;

    /// Lets more in than it was to.
    fn grow(&self);
}

type Edges = HashMap<Node, Vec<Arc<dyn Door>>>;

/// Edges from those that wait to what they wait for; as many as there are waits. Those of all engines: a context
/// may send to one of another.
#[derive(Default)]
pub(in super::super) struct Waits(Mutex<Edges>);

impl Waits {
    /// The one there is.
    pub(in super::super) fn get() -> &'static Self {
        static WAITS: OnceLock<Waits> = OnceLock::new();
        WAITS.get_or_init(Self::default)
    }

    /// `who` is about to wait for `door`, besides what it waits for already. If that closes a circle the door
    /// grows, and nobody waits: `false`.
    pub(in super::super) fn enter(&self, who: Node, door: &Arc<dyn Door>) -> bool {
        let mut edges = self.0.lock();
        if leads_to(&edges, door, who) {
            drop(edges);
            door.grow();
            return false;
        }
        edges.entry(who).or_default().push(door.clone());
        true
    }

    /// One of the waits of `who` for `door` is over.
    pub(in super::super) fn leave_one(&self, who: Node, door: Node) {
        let mut edges = self.0.lock();
        let Some(own) = edges.get_mut(&who) else { return };
        let place = own.iter().position(|known| known.node() == Some(door));
        let gone = place.map(|place| own.swap_remove(place));
        let all = if own.is_empty() { edges.remove(&who) } else { None };
        drop(edges);
        // Whoever holds a door last drops what is the user's.
        drop((gone, all));
    }

    /// `who` waits no more.
    pub(in super::super) fn leave(&self, who: Node) {
        let gone = self.0.lock().remove(&who);
        drop(gone);
    }
}

/// Whether one comes from `door` to `who`, over those who wait.
fn leads_to(edges: &Edges, door: &Arc<dyn Door>, who: Node) -> bool {
    let (mut seen, mut left) = (HashSet::new(), vec![door]);
    while let Some(door) = left.pop() {
        let Some(node) = door.node().filter(|&node| door.keeps_waiting() && seen.insert(node))
        else {
            continue;
        };
        if node == who {
            return true;
        }
        left.extend(edges.get(&node).into_iter().flatten());
    }
    false
}
