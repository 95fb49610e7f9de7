//! In which order the batches of a concurrent chain are committed. The argument stands in README.md.

use std::collections::VecDeque;

use crate::sync::Mutex;

/// A batch's place in the order in which batches were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// What retired tickets left, in the order of the tickets.
#[derive(Debug)]
pub struct Tickets<R> {
    ring: Mutex<Ring<R>>,
}

#[derive(Debug)]
struct Ring<R> {
    /// The lowest ticket that has not been committed: the front of `slots`.
    lowest: u64,
    slots: VecDeque<Option<R>>,
    committing: bool,
}

impl<R> Default for Tickets<R> {
    fn default() -> Self {
        Self { ring: Mutex::new(Ring { lowest: 0, slots: VecDeque::new(), committing: false }) }
    }
}

impl<R> Tickets<R> {
    /// The next ticket. The caller holds the chain's token, so tickets follow the order of taking.
    pub fn open(&self) -> Ticket {
        let mut ring = self.ring.lock();
        ring.slots.push_back(None);
        Ticket(ring.lowest + ring.slots.len() as u64 - 1)
    }

    /// `ticket` is done and left `remains`. If nobody else is committing, this worker commits
    /// everything that can be, in order.
    pub fn retire(&self, ticket: Ticket, remains: R, mut commit: impl FnMut(R)) {
        let mut ring = self.ring.lock();
        let slot = (ticket.0 - ring.lowest) as usize;
        assert!(ring.slots[slot].is_none(), "ticket {} retires twice", ticket.0);
        ring.slots[slot] = Some(remains);
        if ring.committing {
            return;
        }
        ring.committing = true;
        while let Some(Some(remains)) = ring.slots.front_mut().map(Option::take) {
            ring.slots.pop_front();
            ring.lowest += 1;
            drop(ring);
            commit(remains);
            ring = self.ring.lock();
        }
        ring.committing = false;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_retires_early_waits_for_lower_tickets() {
        let tickets = Tickets::default();
        let (a, b, c) = (tickets.open(), tickets.open(), tickets.open());
        let mut seen = Vec::new();
        tickets.retire(b, "b", |r| seen.push(r));
        assert!(seen.is_empty());
        tickets.retire(a, "a", |r| seen.push(r));
        assert_eq!(seen, ["a", "b"]);
        tickets.retire(c, "c", |r| seen.push(r));
        assert_eq!(seen, ["a", "b", "c"]);
    }
}
