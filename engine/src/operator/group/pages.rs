//! Where members live: by value, side by side, in pages that never move.
//!
//! A member's id names a *place*, which follows from what it selects and is handed out before its lane
//! is known. Where in its lane's memory it lives is its *seat*: seats are filled one after the other,
//! so that a small group is small. A directory leads from places to seats; indexes hold seats.

use std::num::NonZeroU64;

use super::MemberId;
use crate::time::Timestamp;

/// Into how many buckets a group is divided. A member's bucket follows from what it selects, so that
/// its id does not depend on the number of lanes, each of which holds as many buckets as the others.
pub const BUCKETS: u32 = 64;

/// Seats per page: the table of pages of a million members stays in the fastest cache.
const PAGE: usize = 1024;

/// No seat.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A seat. Of a member with a key and a state of three words in all it takes one line of cache.
pub(super) struct Slot<On, P, S> {
    /// The members before and behind this one that select the same, in a ring.
    before: u32,
    behind: u32,
    /// Events it got.
    pub events: u64,
    /// Results it gave.
    pub results: u64,
    /// The earliest of its timers in the lane's queue; the end of time if there is none.
    pub armed: Timestamp,
    /// `None`: its member has failed, or nobody sits here and `behind` is the page's next free seat.
    pub member: Option<Living<On, P, S>>,
}

/// What a living member has.
pub(super) struct Living<On, P, S> {
    pub name: Name,
    pub on: On,
    pub params: P,
    pub state: S,
}

/// A member's place and generation in one word, which is written and read as a whole: as two halves it
/// cost a stalled load per result. It is never zero, so that a seat needs no word of its own to say
/// that it is empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::operator) struct Name(NonZeroU64);

impl Name {
    /// The name of nobody in particular.
    pub const NOBODY: Self = Self(NonZeroU64::MAX);

    pub fn new(member: MemberId) -> Self {
        let birth = u64::from(member.generation) + 1;
        let name = NonZeroU64::new(birth << 32 | u64::from(member.place));
        Self(name.expect("a birth is not zero"))
    }

    #[inline(always)]
    pub fn place(self) -> u32 {
        self.0.get() as u32
    }

    #[inline(always)]
    pub fn generation(self) -> u32 {
        (self.0.get() >> 32) as u32 - 1
    }

    /// The whole name of a member of `group`.
    #[inline(always)]
    pub fn of(self, group: u32) -> MemberId {
        MemberId { group, place: self.place(), generation: self.generation() }
    }
}

/// The seats of a lane.
pub(super) struct Pages<On, P, S> {
    pages: Vec<Page<On, P, S>>,
    /// Pages with a free seat.
    open: Vec<u32>,
    /// The first bucket, and for each the seats of its places.
    first: u32,
    seats: Vec<Vec<u32>>,
}

struct Page<On, P, S> {
    slots: Vec<Slot<On, P, S>>,
    taken: usize,
    /// The first free seat among `slots`.
    free: u32,
}

impl<On, P, S> Pages<On, P, S> {
    /// For lane `lane` of `lanes`, which divide the buckets evenly.
    pub fn new(lane: u16, lanes: u16) -> Self {
        let each = BUCKETS / u32::from(lanes);
        Self {
            pages: Vec::new(),
            open: Vec::new(),
            first: u32::from(lane) * each,
            seats: (0..each).map(|_| Vec::new()).collect(),
        }
    }

    /// The slot at `seat`, which is taken.
    #[inline(always)]
    pub fn slot(&self, seat: u32) -> &Slot<On, P, S> {
        &self.pages[seat as usize / PAGE].slots[seat as usize % PAGE]
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn slot_mut(&mut self, seat: u32) -> &mut Slot<On, P, S> {
        &mut self.pages[seat as usize / PAGE].slots[seat as usize % PAGE]
    }

    /// Seats `living`.
    pub fn settle(&mut self, living: Living<On, P, S>) -> u32 {
        let number = self.open.last().copied().unwrap_or_else(|| {
            // The first page grows with its members; those of a large group are made whole.
            let room = if self.pages.is_empty() { 0 } else { PAGE };
            let slots = Vec::with_capacity(room);
            self.pages.push(Page { slots, taken: 0, free: NOWHERE });
            self.open.push(self.pages.len() as u32 - 1);
            self.pages.len() as u32 - 1
        });
        let page = &mut self.pages[number as usize];
        let (index, seat) = match page.free {
            NOWHERE => (page.slots.len(), number * PAGE as u32 + page.slots.len() as u32),
            free => (free as usize % PAGE, free),
        };
        let place = living.name.place();
        let slot = Slot {
            before: seat,
            behind: seat,
            events: 0,
            results: 0,
            armed: Timestamp::MAX,
            member: Some(living),
        };
        match page.slots.get_mut(index) {
            Some(free) => page.free = std::mem::replace(free, slot).behind,
            None => page.slots.push(slot),
        }
        page.taken += 1;
        if page.taken == PAGE {
            self.open.pop();
        }
        self.record(place, seat);
        seat
    }

    fn record(&mut self, place: u32, seat: u32) {
        let seats = &mut self.seats[(place % BUCKETS - self.first) as usize];
        let position = (place / BUCKETS) as usize;
        if seats.len() <= position {
            seats.resize(position + 1, NOWHERE);
        }
        seats[position] = seat;
    }

    /// Who has `place` sits at this seat, alive or failed.
    pub fn taken(&self, place: u32) -> Option<u32> {
        let bucket = (place % BUCKETS).checked_sub(self.first)? as usize;
        let seat = *self.seats.get(bucket)?.get((place / BUCKETS) as usize)?;
        (seat != NOWHERE).then_some(seat)
    }

    /// The seat of `member`, if it lives.
    pub fn seat(&self, member: MemberId) -> Option<u32> {
        let seat = self.taken(member.place)?;
        let living = self.slot(seat).member.as_ref()?;
        (living.name == Name::new(member)).then_some(seat)
    }

    /// Frees `seat`, that of `place`. A page that nobody sits in any more gives its memory back.
    pub fn vacate(&mut self, seat: u32, place: u32) -> Option<Living<On, P, S>> {
        let (number, index) = (seat as usize / PAGE, seat as usize % PAGE);
        self.record(place, NOWHERE);
        let page = &mut self.pages[number];
        if page.taken == PAGE {
            self.open.push(number as u32);
        }
        page.taken -= 1;
        let slot = &mut page.slots[index];
        let living = slot.member.take();
        slot.behind = page.free;
        page.free = seat;
        if page.taken == 0 {
            (page.slots, page.free) = (Vec::new(), NOWHERE);
        }
        living
    }

    /// All living members, each with its seat.
    pub fn living(&self) -> impl Iterator<Item = (u32, &Living<On, P, S>)> + '_ {
        self.pages.iter().enumerate().flat_map(|(number, page)| {
            let slots = page.slots.iter().enumerate();
            slots.filter_map(move |(index, slot)| {
                Some(((number * PAGE + index) as u32, slot.member.as_ref()?))
            })
        })
    }
}

/// What an index must know about members.
pub trait Places<On> {
    /// What the member at `seat` selects.
    fn on(&self, seat: u32) -> &On;

    /// The seat behind `seat` in its ring.
    fn behind(&self, seat: u32) -> u32;

    /// The seats of a ring, that of its tail last.
    fn ring(&self, tail: u32) -> impl Iterator<Item = u32> {
        let behind = move |&seat: &u32| (seat != tail).then(|| self.behind(seat));
        std::iter::successors(Some(self.behind(tail)), behind)
    }

    /// Puts `seat`, which is a ring of its own, into that of `tail`, behind it.
    fn link(&mut self, seat: u32, tail: u32);

    /// Takes `seat` out of its ring. The seat before it, if it was not alone.
    fn unlink(&mut self, seat: u32) -> Option<u32>;
}

impl<On, P, S> Places<On> for Pages<On, P, S> {
    #[inline(always)]
    fn on(&self, seat: u32) -> &On {
        &self.slot(seat).member.as_ref().expect("an indexed seat is taken").on
    }

    #[inline(always)]
    fn behind(&self, seat: u32) -> u32 {
        self.slot(seat).behind
    }

    fn link(&mut self, seat: u32, tail: u32) {
        let behind = self.slot(tail).behind;
        self.slot_mut(tail).behind = seat;
        self.slot_mut(behind).before = seat;
        let slot = self.slot_mut(seat);
        (slot.before, slot.behind) = (tail, behind);
    }

    fn unlink(&mut self, seat: u32) -> Option<u32> {
        let (before, behind) = (self.slot(seat).before, self.slot(seat).behind);
        if before == seat {
            return None;
        }
        self.slot_mut(before).behind = behind;
        self.slot_mut(behind).before = before;
        let slot = self.slot_mut(seat);
        (slot.before, slot.behind) = (seat, seat);
        Some(before)
    }
}
