//! Who waits for whom, and what to do about a circle. See the module's README, "Circles".

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::sync::Mutex;

/// Something that can be full, and that may wait itself. Its id is unique in its engine.
pub(in super::super) trait Door: Send + Sync {
    fn id(&self) -> u64;

    fn is_full(&self) -> bool;

    /// Lets more in than it was to.
    fn grow(&self);
}

/// Edges from those that wait to what they wait for.
#[derive(Default)]
pub(in super::super) struct Waits(Mutex<HashMap<u64, Vec<Arc<dyn Door>>>>);

impl Waits {
    /// `who` is about to wait for `door`, besides what it waits for already. If that closes a circle the door grows, and nobody waits:
    /// `false`.
    pub(in super::super) fn enter(&self, who: u64, door: &Arc<dyn Door>) -> bool {
        let mut edges = self.0.lock();
        if leads_to(&edges, door, who) {
            drop(edges);
            door.grow();
            return false;
        }
        let own = edges.entry(who).or_default();
        if !own.iter().any(|known| known.id() == door.id()) {
            own.push(door.clone());
        }
        true
    }

    /// `who` waits for that door no more.
    pub(in super::super) fn leave_one(&self, who: u64, door: u64) {
        let mut edges = self.0.lock();
        if let Some(own) = edges.get_mut(&who) {
            own.retain(|known| known.id() != door);
            if own.is_empty() {
                edges.remove(&who);
            }
        }
    }

    /// `who` waits no more.
    pub(in super::super) fn leave(&self, who: u64) {
        self.0.lock().remove(&who);
    }
}

/// Whether one comes from `door` to `who`, through doors that are full.
fn leads_to(edges: &HashMap<u64, Vec<Arc<dyn Door>>>, door: &Arc<dyn Door>, who: u64) -> bool {
    let (mut seen, mut left) = (HashSet::new(), vec![door]);
    while let Some(door) = left.pop() {
        if !door.is_full() || !seen.insert(door.id()) {
            continue;
        }
        if door.id() == who {
            return true;
        }
        left.extend(edges.get(&door.id()).into_iter().flatten());
    }
    false
}
