//! For whom a shared source waits, said among the waits: see the contexts' README, "Circles".

use std::sync::Arc;

use crate::runtime::context::{Door, Node, Waits};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

use super::{Reader, Seat};

/// Those for whom a source waits.
pub(super) struct Lagging<T> {
    /// Subscribers to a key that have no room and ask the source to wait.
    seats: Mutex<Vec<Arc<dyn Seat<T>>>>,
    /// How many they are.
    count: AtomicUsize,
}

impl<T> Lagging<T> {
    pub(super) fn none() -> Self {
        Self { seats: Mutex::default(), count: AtomicUsize::new(0) }
    }

    /// Whether a subscriber to a key has no room.
    pub(super) fn has_full_seats(&self) -> bool {
        // Acquire: pairs with the release of the subscriber that had no room.
        self.count.load(Ordering::Acquire) > 0
    }

    /// This one has no room.
    pub(super) fn add(&self, seat: Arc<dyn Seat<T>>) {
        self.seats.lock().push(seat);
        // Relaxed: the source's chain, which asks, is the one that counts up.
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// This one has room again. Whether no other is full.
    pub(super) fn remove(&self, seat: &dyn Seat<T>) -> bool {
        let mut seats = self.seats.lock();
        let own = std::ptr::from_ref(seat.reader());
        let place = seats.iter().position(|known| std::ptr::eq(known.reader(), own));
        let gone = place.map(|place| seats.swap_remove(place));
        drop(seats);
        drop(gone);
        // Release: who sees room sees the events taken.
        self.count.fetch_sub(1, Ordering::Release) == 1
    }

    /// `source` is about to wait for these `readers`, and for the subscribers to a key that are full. What was noted
    /// down, to be [cleared](Self::clear). `None`: a circle would close, and the one waited for may be further behind
    /// now: there may be room, or not yet enough.
    pub(super) fn note(&self, source: Node, readers: Vec<Arc<Reader>>) -> Option<Vec<Node>> {
        let mut noted = Vec::new();
        let seats = self.seats.lock().clone();
        let of_seats = seats.iter().map(|seat| seat.reader().clone());
        for reader in readers.into_iter().chain(of_seats) {
            let Some(node) = reader.node() else { continue };
            let door: Arc<dyn Door> = reader;
            if !Waits::get().enter(source, &door) {
                Self::clear(source, noted);
                seats.iter().for_each(|seat| seat.has_room_again());
                return None;
            }
            noted.push(node);
        }
        Some(noted)
    }

    /// Of what was `noted` down, `source` waits for nothing any more.
    pub(super) fn clear(source: Node, noted: Vec<Node>) {
        noted.into_iter().for_each(|reader| Waits::get().leave_one(source, reader));
    }
}

impl Door for Reader {
    fn node(&self) -> Option<Node> {
        self.query.upgrade().and_then(|query| query.node())
    }

    fn keeps_waiting(&self) -> bool {
        // A source that is woken waits for nobody any more.
        true
    }

    fn grow(&self) {
        // Relaxed: the source's chain, which asks, is the one that raises it.
        let limits = 2 * self.limits.load(Ordering::Relaxed);
        self.limits.store(limits, Ordering::Relaxed);
        let query = self.query.upgrade().map(|query| query.id.0);
        tracing::warn!(query, limits, "waits in a circle: it may lag so many limits behind");
    }
}
