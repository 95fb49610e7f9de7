//! The keys that have members, each with the windows that its members share.

use std::collections::{BTreeSet, VecDeque};
use std::hash::Hash;

use super::layers::Layers;
use crate::operator::aggregate::Aggregate;
use crate::operator::group::pages::{NOWHERE, Places};
use crate::operator::group::tags::Tags;
use crate::operator::window::Slices;
use crate::state::hash;
use crate::time::{Timestamp, is_due};

/// So many layers more than twice the members are left alone.
const FEW: usize = 8;

/// Finds the members on a key, and what they share.
pub struct WindowIndex<K, Acc> {
    /// Of each key the number of its share.
    tags: Tags,
    /// By their numbers; `None`: the number is free.
    pub(super) shares: Vec<Option<Share<K, Acc>>>,
    free: Vec<u32>,
    /// The cut that each member joined with, by seats.
    pub(super) joined: Vec<u64>,
    /// When the next window of each share closes that has one open.
    due: BTreeSet<(Timestamp, u32)>,
    /// When the first of them does, for every event of an ordered lane to look at; the last instant if
    /// there is none.
    due_at: Timestamp,
    /// Whom those windows are for that have closed and are on their way: seats, a [`NOWHERE`] behind
    /// those of each window.
    pub(super) whom: VecDeque<u32>,
}

/// What the members of a key share.
pub(super) struct Share<K, Acc> {
    pub key: K,
    /// The member that was added last.
    pub tail: u32,
    members: usize,
    /// How often its slices have been cut.
    pub cut: u64,
    /// What stands in the index's `due`.
    armed: Option<Timestamp>,
    pub windows: Slices<Layers<Acc>>,
}

impl<K, Acc> Default for WindowIndex<K, Acc> {
    fn default() -> Self {
        Self {
            tags: Tags::default(),
            shares: Vec::new(),
            free: Vec::new(),
            joined: Vec::new(),
            due: BTreeSet::new(),
            due_at: Timestamp::MAX,
            whom: VecDeque::new(),
        }
    }
}

impl<K, Acc> WindowIndex<K, Acc> {
    /// The share with this number, which is taken.
    #[inline(always)]
    pub(super) fn share(&mut self, number: u32) -> &mut Share<K, Acc> {
        self.shares[number as usize].as_mut().expect("its key has members")
    }

    /// Whether a window may be due at `clock`.
    #[inline(always)]
    pub fn may_be_due(&self, clock: Timestamp) -> bool {
        is_due(self.due_at, clock)
    }

    /// When the next window closes.
    pub fn due(&self) -> Option<Timestamp> {
        self.due.first().map(|&(due, _)| due)
    }

    /// The share whose next window is due first, if one is due at `clock`.
    #[inline]
    pub fn next_due(&self, clock: Timestamp) -> Option<u32> {
        self.due.first().filter(|&&(due, _)| is_due(due, clock)).map(|&(_, number)| number)
    }

    /// Notes when the next window of a share closes, now that this may have changed.
    pub fn arm(&mut self, number: u32) {
        let share = self.share(number);
        let next = share.windows.due();
        let before = std::mem::replace(&mut share.armed, next);
        self.schedule(number, before, next);
    }

    fn schedule(&mut self, number: u32, before: Option<Timestamp>, next: Option<Timestamp>) {
        if before != next {
            before.map(|due| self.due.remove(&(due, number)));
            next.map(|due| self.due.insert((due, number)));
            self.due_at = self.due().unwrap_or(Timestamp::MAX);
        }
    }

    /// The seats of a share's members, in the order of their addition.
    pub fn seats(&mut self, number: u32, places: &impl Places<K>) -> Vec<u32> {
        places.ring(self.share(number).tail).collect()
    }

    /// A new layer of a share's recent slice, of what comes from now on.
    #[cold]
    #[inline(never)]
    pub fn open_layer<T, A>(
        &mut self,
        number: u32,
        places: &impl Places<K>,
        aggregate: &A,
    ) -> &mut Acc
    where
        A: Aggregate<T, Acc = Acc>,
    {
        let share = self.share(number);
        if share.windows.recent().len() > 2 * share.members + FEW {
            // Many have come and gone.
            let seats = self.seats(number, places);
            let joined: Vec<_> = seats.iter().map(|&seat| self.joined[seat as usize]).collect();
            self.share(number).windows.recent().thin(aggregate, &joined);
        }
        let share = self.share(number);
        share.windows.recent().open(share.cut, aggregate.create())
    }
}

impl<K: Hash + Eq, Acc> WindowIndex<K, Acc> {
    /// The number of the share of `key`, or `NOWHERE`.
    #[inline(always)]
    pub fn find(&self, key: &K) -> u32 {
        self.find_tagged(Tags::tag(hash(key)), key)
    }

    #[inline(always)]
    fn find_tagged(&self, tag: u32, key: &K) -> u32 {
        let shares = &self.shares;
        self.tags.find(tag, |number| {
            shares[number as usize].as_ref().is_some_and(|share| share.key == *key)
        })
    }

    /// Adds the member at `seat`: nothing that came before is its own.
    pub fn insert(&mut self, seat: u32, places: &mut impl Places<K>)
    where
        K: Clone,
    {
        let on = places.on(seat);
        let tag = Tags::tag(hash(on));
        let cut = match self.find_tagged(tag, on) {
            NOWHERE => {
                let share = Share {
                    key: on.clone(),
                    tail: seat,
                    members: 1,
                    cut: 0,
                    armed: None,
                    windows: Slices::new(),
                };
                let number = self.free.pop().unwrap_or_else(|| {
                    self.shares.push(None);
                    self.shares.len() as u32 - 1
                });
                self.shares[number as usize] = Some(share);
                self.tags.insert(tag, number);
                0
            }
            number => {
                let share = self.share(number);
                share.cut += 1;
                share.members += 1;
                places.link(seat, std::mem::replace(&mut share.tail, seat));
                share.cut
            }
        };
        if self.joined.len() <= seat as usize {
            self.joined.resize(seat as usize + 1, 0);
        }
        self.joined[seat as usize] = cut;
    }

    /// Takes the member at `seat` out, and with it what nobody else shares.
    pub fn remove(&mut self, seat: u32, places: &mut impl Places<K>) {
        let tag = Tags::tag(hash(places.on(seat)));
        let number = self.find_tagged(tag, places.on(seat));
        if number == NOWHERE {
            return;
        }
        match places.unlink(seat) {
            Some(before) => {
                let share = self.share(number);
                share.members -= 1;
                if share.tail == seat {
                    share.tail = before;
                }
                let oldest = places.behind(share.tail);
                let since = self.joined[oldest as usize];
                if since > self.joined[seat as usize] {
                    let slices = self.share(number).windows.contents();
                    slices.for_each(|layers| layers.forget_before(since));
                }
            }
            None if self.share(number).tail == seat => self.leave(number, tag),
            // It could not be added.
            None => {}
        }
    }

    /// Lets go of a share that nobody has a part in any more.
    fn leave(&mut self, number: u32, tag: u32) {
        self.tags.remove(tag, number);
        let share = self.shares[number as usize].take();
        self.free.push(number);
        self.schedule(number, share.as_ref().and_then(|share| share.armed), None);
        if self.free.len() == self.shares.len() {
            (self.shares, self.free, self.joined) = (Vec::new(), Vec::new(), Vec::new());
        }
    }
}
