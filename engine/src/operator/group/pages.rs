//! Where members live: by value, in pages of a fixed size, which never move.

use super::MemberId;
use crate::time::Timestamp;

/// Into how many buckets a group is divided. A member's bucket follows from what it selects, so that
/// its id does not depend on the number of lanes, each of which holds as many buckets as the others.
pub const BUCKETS: u32 = 64;

/// Members per page: pages of a small group are mostly full, those of a large one cost a pointer per
/// sixteen members.
const PAGE: usize = 16;

/// No place.
pub(super) const NOWHERE: u32 = u32::MAX;

/// A member's place.
pub(super) struct Slot<On, P, S> {
    pub generation: u32,
    /// The members before and behind this one that select the same, in a ring.
    pub before: u32,
    pub behind: u32,
    /// Events it got.
    pub events: u64,
    /// Results it gave.
    pub results: u64,
    /// The earliest of its timers in the lane's queue; the end of time if there is none.
    pub armed: Timestamp,
    /// `None`: nobody lives here, or its member has failed.
    pub member: Option<Living<On, P, S>>,
}

/// What a living member has.
pub(super) struct Living<On, P, S> {
    pub on: On,
    pub params: P,
    pub state: S,
}

impl<On, P, S> Slot<On, P, S> {
    fn vacant() -> Self {
        Self {
            generation: 0,
            before: NOWHERE,
            behind: NOWHERE,
            events: 0,
            results: 0,
            armed: Timestamp::MAX,
            member: None,
        }
    }

    /// Whether a member has this place: one that lives, or one that has failed.
    pub fn is_settled(&self) -> bool {
        self.before != NOWHERE
    }
}

/// The places of a lane.
pub(super) struct Pages<On, P, S> {
    /// The first bucket.
    first: u32,
    buckets: Vec<Vec<Option<Box<Page<On, P, S>>>>>,
}

struct Page<On, P, S> {
    /// How many of its places are settled.
    settled: usize,
    slots: [Slot<On, P, S>; PAGE],
}

impl<On, P, S> Page<On, P, S> {
    fn new() -> Box<Self> {
        Box::new(Self { settled: 0, slots: std::array::from_fn(|_| Slot::vacant()) })
    }
}

impl<On, P, S> Pages<On, P, S> {
    /// For lane `lane` of `lanes`, which divide the buckets evenly.
    pub fn new(lane: u16, lanes: u16) -> Self {
        let each = BUCKETS / u32::from(lanes);
        Self { first: u32::from(lane) * each, buckets: (0..each).map(|_| Vec::new()).collect() }
    }

    /// The slot at `place`, which is settled.
    #[inline]
    pub fn slot(&self, place: u32) -> &Slot<On, P, S> {
        let (bucket, page, index) = self.split(place);
        let page = self.buckets[bucket][page].as_ref();
        &page.expect("a settled place has its page").slots[index]
    }

    /// The same, to be changed.
    #[inline]
    pub fn slot_mut(&mut self, place: u32) -> &mut Slot<On, P, S> {
        let (bucket, page, index) = self.split(place);
        let page = self.buckets[bucket][page].as_mut();
        &mut page.expect("a settled place has its page").slots[index]
    }

    #[inline]
    fn split(&self, place: u32) -> (usize, usize, usize) {
        let slot = (place / BUCKETS) as usize;
        ((place % BUCKETS - self.first) as usize, slot / PAGE, slot % PAGE)
    }

    /// Has `member` live at its place.
    pub fn settle(&mut self, member: MemberId, living: Living<On, P, S>) {
        let (bucket, page, index) = self.split(member.place);
        let pages = &mut self.buckets[bucket];
        if pages.len() <= page {
            pages.resize_with(page + 1, || None);
        }
        let page = pages[page].get_or_insert_with(Page::new);
        page.settled += 1;
        page.slots[index] = Slot {
            generation: member.generation,
            before: member.place,
            behind: member.place,
            member: Some(living),
            ..Slot::vacant()
        };
    }

    /// The slot of `member`, until it is vacated.
    pub fn of(&mut self, member: MemberId) -> Option<&mut Slot<On, P, S>> {
        let bucket = (member.place % BUCKETS).checked_sub(self.first)? as usize;
        let slot = (member.place / BUCKETS) as usize;
        let page = self.buckets.get_mut(bucket)?.get_mut(slot / PAGE)?.as_mut()?;
        let slot = &mut page.slots[slot % PAGE];
        (slot.generation == member.generation && slot.is_settled()).then_some(slot)
    }

    /// Nobody lives at `place` any more. Returns who did; a page without members is given back.
    pub fn vacate(&mut self, place: u32) -> Option<Living<On, P, S>> {
        let (bucket, page, index) = self.split(place);
        let kept = &mut self.buckets[bucket][page];
        let page = kept.as_mut().expect("a settled place has its page");
        let living = std::mem::replace(&mut page.slots[index], Slot::vacant()).member;
        page.settled -= 1;
        if page.settled == 0 {
            *kept = None;
        }
        living
    }

    /// Every place where somebody lives, in order.
    pub fn living(&self) -> impl Iterator<Item = u32> + '_ {
        let buckets = self.buckets.iter().enumerate();
        buckets.flat_map(move |(bucket, pages)| {
            let pages = pages.iter().enumerate();
            let slots = pages.flat_map(|(number, page)| {
                let slots = page.iter().flat_map(|page| &page.slots).enumerate();
                let living = slots.filter(|(_, slot)| slot.member.is_some());
                living.map(move |(slot, _)| (number * PAGE + slot) as u32)
            });
            slots.map(move |slot| slot * BUCKETS + self.first + bucket as u32)
        })
    }
}

/// What an index must know about members.
pub trait Places<On> {
    /// What the member at `place` selects.
    fn on(&self, place: u32) -> &On;

    /// The place behind `place` in its ring.
    fn behind(&self, place: u32) -> u32;

    /// Puts `place`, which is a ring of its own, into that of `tail`, behind it.
    fn link(&mut self, place: u32, tail: u32);

    /// Takes `place` out of its ring. The place before it, if it was not alone.
    fn unlink(&mut self, place: u32) -> Option<u32>;
}

impl<On, P, S> Places<On> for Pages<On, P, S> {
    #[inline]
    fn on(&self, place: u32) -> &On {
        &self.slot(place).member.as_ref().expect("an indexed place is lived in").on
    }

    #[inline]
    fn behind(&self, place: u32) -> u32 {
        self.slot(place).behind
    }

    fn link(&mut self, place: u32, tail: u32) {
        let behind = self.slot(tail).behind;
        self.slot_mut(tail).behind = place;
        self.slot_mut(behind).before = place;
        let slot = self.slot_mut(place);
        (slot.before, slot.behind) = (tail, behind);
    }

    fn unlink(&mut self, place: u32) -> Option<u32> {
        let (before, behind) = (self.slot(place).before, self.slot(place).behind);
        if before == place {
            return None;
        }
        self.slot_mut(before).behind = behind;
        self.slot_mut(behind).before = before;
        let slot = self.slot_mut(place);
        (slot.before, slot.behind) = (place, place);
        Some(before)
    }
}
