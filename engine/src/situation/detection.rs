//! What conditions and expressions are shown.

use std::cell::Cell;
use std::ops::Index;
use std::sync::Arc;

use super::store::{NIL, Store};
use crate::time::Timestamp;

/// An open lifespan.
pub struct Open<'a, E> {
    pub(super) opener: Option<&'a E>,
    pub(super) since: Timestamp,
}

impl<'a, E> Open<'a, E> {
    /// The event that opened it, unless it was start-up or a time.
    pub fn opener(&self) -> Option<&'a E> {
        self.opener
    }

    /// When it opened; `None`: at start-up.
    pub fn opened(&self) -> Option<Timestamp> {
        (self.since > Timestamp::MIN).then_some(self.since)
    }
}

/// Places of events, of which one changes while a search goes on.
#[derive(Clone, Copy)]
pub(super) struct Picked<'a>(&'a [Cell<u32>]);

impl<'a> Picked<'a> {
    pub fn new(places: &'a mut [u32]) -> Self {
        Self(Cell::from_mut(places).as_slice_of_cells())
    }
}

/// A situation that is, or may be, detected.
pub struct Detection<'a, E> {
    pub(super) store: &'a Store<E>,
    pub(super) names: &'a [Option<Arc<str>>],
    /// The places of its events.
    pub(super) picked: Picked<'a>,
    /// Which operand each of them fills, where that is not their order.
    pub(super) filled: Option<&'a [u8]>,
    pub(super) opener: u32,
    pub(super) since: Timestamp,
    pub(super) time: Timestamp,
    pub(super) value: f64,
}

impl<'a, E> Detection<'a, E> {
    /// When it is detected.
    pub fn time(&self) -> Timestamp {
        self.time
    }

    /// The lifespan in which it is detected.
    pub fn lifespan(&self) -> Open<'a, E> {
        let opener = (self.opener != NIL).then(|| self.store.at(self.opener));
        Open { opener, since: self.since }
    }

    /// The aggregate, of `report` and `crosses`; the share in percent, of `percentage`; what the weights
    /// come to, when counting.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// How many events it has.
    pub fn len(&self) -> usize {
        self.picked.0.len()
    }

    /// Whether it has no event.
    pub fn is_empty(&self) -> bool {
        self.picked.0.is_empty()
    }

    /// Its events: when joining in the order of the operands, when counting as they arrived.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &'a E> + ExactSizeIterator {
        let store = self.store;
        self.picked.0.iter().map(move |at| store.at(at.get()))
    }

    /// The first of its events.
    pub fn first(&self) -> Option<&'a E> {
        self.events().next()
    }

    /// The last of its events: of an aggregate the latest operand.
    pub fn last(&self) -> Option<&'a E> {
        self.events().next_back()
    }

    /// The events of the operands called `name`.
    pub fn of(&self, name: &str) -> impl Iterator<Item = &'a E> {
        let (names, filled) = (self.names, self.filled);
        self.events().enumerate().filter_map(move |(n, event)| {
            let operand = filled.map_or(n, |filled| usize::from(filled[n]));
            (names.get(operand)?.as_deref()? == name).then_some(event)
        })
    }
}

/// The event at a position: when joining that of the operand.
///
/// # Panics
/// If there are not so many.
impl<E> Index<usize> for Detection<'_, E> {
    type Output = E;

    #[inline(always)]
    fn index(&self, position: usize) -> &E {
        self.store.at(self.picked.0[position].get())
    }
}

/// The first event of the operands called `name`.
///
/// # Panics
/// If there is none.
impl<E> Index<&str> for Detection<'_, E> {
    type Output = E;

    fn index(&self, name: &str) -> &E {
        self.of(name).next().unwrap_or_else(|| panic!("operand {name:?} has no event"))
    }
}

/// A search for the last event that is missing.
pub struct Search<'a, E> {
    pub(super) store: &'a Store<E>,
    pub(super) names: &'a [Option<Arc<str>>],
    pub(super) picked: &'a mut [u32],
    /// Where the event is missing.
    pub(super) missing: usize,
    pub(super) opener: u32,
    pub(super) since: Timestamp,
    pub(super) time: Timestamp,
}

impl<E> Search<'_, E> {
    /// Looks with `holds` for the first, or the last, of `candidates` that can be put where an event is missing.
    #[inline(always)]
    fn through(
        &mut self,
        candidates: &[u32],
        last: bool,
        holds: impl Fn(&Detection<'_, E>) -> bool,
    ) -> Option<usize> {
        let picked = Picked::new(self.picked);
        let missing = &picked.0[self.missing];
        let detection = Detection {
            store: self.store,
            names: self.names,
            picked,
            filled: None,
            opener: self.opener,
            since: self.since,
            time: self.time,
            value: 0.0,
        };
        let mut n = 0;
        while n < candidates.len() {
            let place = if last { candidates.len() - 1 - n } else { n };
            missing.set(candidates[place]);
            if holds(&detection) {
                return Some(place);
            }
            n += 1;
        }
        None
    }
}

/// A condition on a detection. What searches with it is compiled for each: a search over several candidates
/// is one virtual call.
pub trait Judge<E>: Send + Sync {
    /// Whether it holds.
    fn holds(&self, detection: &Detection<'_, E>) -> bool;

    /// The first of `candidates` with which it holds, or the last.
    fn find(&self, search: &mut Search<'_, E>, candidates: &[u32], last: bool) -> Option<usize>;
}

impl<E, F: Fn(&Detection<'_, E>) -> bool + Send + Sync> Judge<E> for F {
    fn holds(&self, detection: &Detection<'_, E>) -> bool {
        self(detection)
    }

    fn find(&self, search: &mut Search<'_, E>, candidates: &[u32], last: bool) -> Option<usize> {
        search.through(candidates, last, self)
    }
}
