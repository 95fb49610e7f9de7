//! What conditions and expressions are shown.

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

/// A situation that is, or may be, detected.
pub struct Detection<'a, E> {
    pub(super) store: &'a Store<E>,
    pub(super) names: &'a [Option<Arc<str>>],
    /// The places of its events.
    pub(super) picked: &'a [u32],
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
        self.picked.len()
    }

    /// Whether it has no event.
    pub fn is_empty(&self) -> bool {
        self.picked.is_empty()
    }

    /// Its events: when joining in the order of the operands, when counting as they arrived.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &'a E> + ExactSizeIterator {
        let store = self.store;
        self.picked.iter().map(move |&at| store.at(at))
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
        self.store.at(self.picked[position])
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
    /// What there is when `candidate` is put where an event is missing.
    #[inline(always)]
    fn with(&mut self, candidate: u32) -> Detection<'_, E> {
        self.picked[self.missing] = candidate;
        Detection {
            store: self.store,
            names: self.names,
            picked: self.picked,
            filled: None,
            opener: self.opener,
            since: self.since,
            time: self.time,
            value: 0.0,
        }
    }
}

/// A condition on a detection. What searches with it is compiled for each: a search over several candidates
/// is one virtual call.
pub trait Judge<E>: Send + Sync {
    /// Whether it holds.
    fn holds(&self, detection: &Detection<'_, E>) -> bool;

    /// The first of `candidates` with which it holds.
    fn find(&self, search: &mut Search<'_, E>, candidates: &[u32]) -> Option<usize>;

    /// The last of `candidates` with which it holds.
    fn find_last(&self, search: &mut Search<'_, E>, candidates: &[u32]) -> Option<usize>;
}

impl<E, F: Fn(&Detection<'_, E>) -> bool + Send + Sync> Judge<E> for F {
    #[inline]
    fn holds(&self, detection: &Detection<'_, E>) -> bool {
        self(detection)
    }

    fn find(&self, search: &mut Search<'_, E>, candidates: &[u32]) -> Option<usize> {
        candidates.iter().position(|&candidate| self(&search.with(candidate)))
    }

    fn find_last(&self, search: &mut Search<'_, E>, candidates: &[u32]) -> Option<usize> {
        candidates.iter().rposition(|&candidate| self(&search.with(candidate)))
    }
}
