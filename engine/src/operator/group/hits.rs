//! Who gets which of the events that were looked up together.

use super::pages::NOWHERE;

/// What is at or above this is no seat.
pub(super) const SEVERAL: u32 = 1 << 31;

/// The members that events are for, one event after the other.
#[derive(Default)]
pub struct Hits {
    /// For each event the seat of its only member, [`NOWHERE`], or where in `several` its seats begin,
    /// above [`SEVERAL`].
    pub(super) each: Vec<u32>,
    /// Seats, a [`NOWHERE`] behind those of each event.
    pub(super) several: Vec<u32>,
    /// How many events are for nobody.
    pub(super) unmatched: u64,
    /// How many members there are for all events together.
    pub(super) handed: u64,
}

impl Hits {
    /// Forgets everything; the room stays.
    pub(super) fn clear(&mut self) {
        self.each.clear();
        self.several.clear();
        (self.unmatched, self.handed) = (0, 0);
    }

    /// The next event is for nobody.
    #[inline(always)]
    pub fn none(&mut self) {
        self.unmatched += 1;
        self.each.push(NOWHERE);
    }

    /// The next event is for the member at `seat` alone.
    #[inline(always)]
    pub fn one(&mut self, seat: u32) {
        self.handed += 1;
        self.each.push(seat);
    }

    /// The next event is for the members at the seats that `all` hands out.
    #[inline]
    pub fn all(&mut self, all: impl FnOnce(&mut dyn FnMut(u32))) {
        let begin = self.several.len();
        all(&mut |seat| self.several.push(seat));
        match self.several[begin..] {
            [] => self.none(),
            [seat] => {
                self.several.truncate(begin);
                self.one(seat);
            }
            ref seats => {
                self.handed += seats.len() as u64;
                self.several.push(NOWHERE);
                self.each.push(SEVERAL | begin as u32);
            }
        }
    }
}
