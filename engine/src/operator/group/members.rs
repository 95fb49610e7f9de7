//! The consumer that hosts members: one per lane.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::vec;

use super::exit::{Exit, Exits, Own};
use super::hits::{Hits, SEVERAL};
use super::lane::{Change, LaneCounts};
use super::pages::{Living, NOWHERE, Pages};
use super::{MemberId, Select, Watch};
use crate::event::{Batch, Event};
use crate::operator::window::clock_at;
use crate::operator::{Consumer, Cx, Failure, Note, OpId, contained, earlier, panic_message};
use crate::state::{StateError, Visit};
use crate::time::{Timestamp, is_due};

/// Events that are looked up before any of them is handed out: so many that the memory of one member
/// is fetched while that of others is waited for, so few that it is still in the fastest cache then.
const TOGETHER: usize = 32;

/// What the lanes of a group have in common.
pub struct Program<S, P, C> {
    /// The operator that stands for the group.
    pub op: OpId,
    /// The group's number.
    pub group: u32,
    /// Which members an event is for.
    pub select: S,
    /// The template: what each member does with its parameters and an event.
    pub chain: C,
    /// Where results go.
    pub exits: Exits,
    /// Who wants to know.
    pub watch: Arc<dyn Watch>,
    pub(super) params: std::marker::PhantomData<fn() -> P>,
}

impl<S, P, C> Program<S, P, C> {
    /// A group's program.
    pub fn new(
        op: OpId,
        group: u32,
        select: S,
        chain: C,
        exits: Exits,
        watch: Arc<dyn Watch>,
    ) -> Self {
        Self { op, group, select, chain, exits, watch, params: std::marker::PhantomData }
    }
}

/// A lane of a group.
pub struct Members<S, P, C> {
    pub(super) program: Arc<Program<S, P, C>>,
    lane: u16,
    lanes: u16,
}

impl<S, P, C> Members<S, P, C> {
    /// Lane `lane` of `lanes`, a power of two that is at most [`BUCKETS`](super::BUCKETS).
    pub fn new(program: Arc<Program<S, P, C>>, lane: u16, lanes: u16) -> Self {
        Self { program, lane, lanes }
    }
}

/// A lane's members and what is known about them.
pub struct LaneState<S: Select, P, M> {
    pub(super) index: S::Index,
    pub(super) pages: Pages<S::On, P, M>,
    /// (due, place, generation). An entry that is not what its slot says is stale.
    pub(super) timers: BinaryHeap<Reverse<(Timestamp, u32, u32)>>,
    /// How many slots have a timer there.
    pub(super) armed: usize,
    pub(super) owns: HashMap<u32, (Box<dyn Own>, u64)>,
    /// Those that have failed, and why, by their seats.
    pub(super) failures: HashMap<u32, (MemberId, String)>,
    /// Who gets the events that were looked up. Kept for its room.
    hits: Hits,
    pub(super) watermark: Timestamp,
    pub(super) counts: LaneCounts,
    exit: Box<dyn Exit>,
    /// The seat of the member whose functions are running, and what had been emitted before.
    pub(super) at_work: u32,
    pub(super) emitted: u64,
}

/// How far a batch has been handed out.
struct At<'a, T> {
    events: vec::Drain<'a, Event<T>>,
    position: u32,
    /// The positions of its late events that are still to come.
    late: vec::IntoIter<u32>,
    /// The next of them; [`NOWHERE`] if there is none.
    next_late: u32,
    /// The next event among those that were looked up.
    next: usize,
    /// An event that more members get, whether it is late, and where in `several` they are.
    present: Option<(Event<T>, bool, usize)>,
}

impl<S: Select, P, M> LaneState<S, P, M> {
    /// Whether a timer is due at `clock`.
    #[inline]
    fn is_due(&self, clock: Timestamp) -> bool {
        self.timers.peek().is_some_and(|Reverse((due, ..))| is_due(*due, clock))
    }

    /// The seat that `member`, which has failed, still keeps.
    pub(super) fn failed_seat(&self, member: MemberId) -> Option<u32> {
        let seat = self.pages.taken(member.place)?;
        (self.failures.get(&seat)?.0 == member).then_some(seat)
    }
}

impl<S, P, C> Members<S, P, C>
where
    S: Select,
    P: Clone + Send + Sync + 'static,
    C: Consumer<(P, S::Event)>,
{
    /// Does what can be gone on with after a panic until it is done.
    pub(super) fn caught(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        mut run: impl FnMut(&mut LaneState<S, P, C::State>, &mut Cx),
    ) {
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| run(lane, cx))) {
            // Whose functions ran last: those who call them take no other user's in between.
            let seat = std::mem::replace(&mut lane.at_work, NOWHERE);
            let blame = cx.take_blame();
            if seat == NOWHERE {
                // An event panicked that was copied, or dropped because it is for nobody.
                cx.counters.failed += 1;
                continue;
            }
            let undone = (cx.gathering().emitted - lane.emitted) as usize;
            lane.exit.forget(cx, undone);
            cx.gathering().emitted = lane.emitted;
            let (operator, time) = match blame {
                Some((operator, time)) => (operator, Some(time)),
                None => (self.program.op, None),
            };
            let operator = Some(operator);
            let message = format!("panicked: {}", panic_message(payload));
            let failure = Failure { operator, time, event: cx.take_shown(), message };
            self.fail(lane, seat, failure);
        }
    }

    /// Ends a member. Its seat is kept until it is removed.
    pub(super) fn fail(&self, lane: &mut LaneState<S, P, C::State>, seat: u32, failure: Failure) {
        let LaneState { index, pages, owns, .. } = lane;
        // The user's `Eq`, `Hash` and `Drop` may panic too.
        contained(|| S::remove(index, seat, pages));
        let slot = pages.slot_mut(seat);
        let (events, armed) = (slot.events, std::mem::replace(&mut slot.armed, Timestamp::MAX));
        let (living, own) = (slot.member.take(), owns.remove(&seat));
        let Some(living) = living else { return };
        let id = self.id(&living);
        contained(|| drop((living, own)));
        lane.armed -= usize::from(armed != Timestamp::MAX);
        lane.counts.members -= 1;
        lane.counts.failed += 1;
        lane.failures.insert(seat, (id, failure.message.clone()));
        self.program.watch.failed(id, failure, events);
    }

    #[inline(always)]
    pub(super) fn id(&self, member: &Living<S::On, P, C::State>) -> MemberId {
        member.name.of(self.program.group)
    }

    /// Finds out who gets which event.
    fn find(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx, events: &[Event<S::Event>]) {
        let LaneState { index, pages, hits, counts, .. } = lane;
        hits.clear();
        while hits.each.len() < events.len() {
            let rest = &events[hits.each.len()..];
            let look_up = || self.program.select.look_up(index, rest, pages, hits);
            if catch_unwind(AssertUnwindSafe(look_up)).is_err() {
                let _ = cx.take_blame();
                if hits.each.len() < events.len() {
                    hits.none();
                }
                counts.unselected += 1;
                cx.counters.failed += 1;
            }
        }
        counts.handed += hits.handed;
    }

    /// Hands a batch of what members get to those who get it, and leaves it empty. How many of these
    /// events were for nobody.
    #[inline]
    pub(super) fn hand_all(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        batch: &mut Batch<S::Event>,
    ) -> u64 {
        let (before, mut unmatched) = (cx.gathering().emitted, 0);
        let (events, late) = batch.parts();
        let mut late = late.into_iter();
        let next_late = late.next().unwrap_or(NOWHERE);
        let events = events.drain(..);
        let mut at = At { events, position: 0, late, next_late, next: 0, present: None };
        while !at.events.as_slice().is_empty() {
            let ahead = at.events.as_slice();
            self.find(lane, cx, &ahead[..ahead.len().min(TOGETHER)]);
            at.next = 0;
            let hits = std::mem::take(&mut lane.hits);
            unmatched += hits.unmatched;
            self.caught(lane, cx, |lane, cx| self.hand_out(lane, cx, &hits, &mut at));
            lane.hits = hits;
        }
        lane.at_work = NOWHERE;
        lane.counts.results += cx.gathering().emitted - before;
        unmatched
    }

    /// Hands the events that were looked up to those who get them. Goes on where it was after a
    /// member's panic.
    fn hand_out(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        hits: &Hits,
        at: &mut At<'_, S::Event>,
    ) {
        loop {
            if at.present.is_some() {
                self.hand_to_several(lane, cx, &hits.several, at);
            }
            let Some(&hit) = hits.each.get(at.next) else { return };
            let Some(time) = at.events.as_slice().first().map(|event| event.time) else { return };
            let late = at.position == at.next_late;
            if cx.ordered && !late {
                self.fire(lane, cx, clock_at(time));
            }
            at.position += 1;
            at.next += 1;
            if late {
                at.next_late = at.late.next().unwrap_or(NOWHERE);
            }
            let Some(event) = at.events.next() else { return };
            if hit < SEVERAL {
                self.hand(lane, cx, hit, event, late);
            } else {
                lane.at_work = NOWHERE;
                if hit != NOWHERE {
                    at.present = Some((event, late, (hit - SEVERAL) as usize));
                }
            }
        }
    }

    /// Hands an event to the members that get it.
    #[inline(never)]
    fn hand_to_several(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        several: &[u32],
        at: &mut At<'_, S::Event>,
    ) {
        while let Some((event, late, next)) = &mut at.present {
            let (seat, late) = (several[*next], *late);
            *next += 1;
            if several[*next] == NOWHERE {
                if let Some((event, ..)) = at.present.take() {
                    self.hand(lane, cx, seat, event, late);
                }
            } else {
                // Should the copy panic, no member is to blame: this one misses the event.
                lane.at_work = NOWHERE;
                let event = event.clone();
                self.hand(lane, cx, seat, event, late);
            }
        }
    }

    /// Hands an event to the member at `seat`, if it lives.
    // Always: as a call of its own it cost a fifth of what it does.
    #[inline(always)]
    fn hand(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        seat: u32,
        event: Event<S::Event>,
        late: bool,
    ) {
        let slot = lane.pages.slot_mut(seat);
        let Some(member) = &mut slot.member else { return };
        (lane.at_work, lane.emitted) = (seat, cx.gathering().enter(member.name));
        slot.events += 1;
        if late && lane.watermark > Timestamp::MIN {
            // A member is told of watermarks when something of it is due. This one decides what a late
            // event still counts in.
            cx.late = false;
            self.program.chain.watermark(&mut member.state, cx, lane.watermark);
        }
        cx.late = late;
        let event = Event::new(event.time, (member.params.clone(), event.value));
        self.program.chain.event(&mut member.state, cx, event);
        self.settle_up(lane, cx, seat);
    }

    /// Calls a function of the member at `seat`, if it lives, for the sake of time.
    #[inline(never)]
    fn visit_member(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        seat: u32,
        run: impl FnOnce(&mut C::State, &mut Cx),
    ) {
        let Some(member) = &mut lane.pages.slot_mut(seat).member else { return };
        (lane.at_work, lane.emitted) = (seat, cx.gathering().enter(member.name));
        run(&mut member.state, cx);
        self.settle_up(lane, cx, seat);
    }

    /// What follows when a member's functions have returned: what they emitted is the member's, and so
    /// is a timer they set.
    #[inline(always)]
    fn settle_up(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx, seat: u32) {
        let slot = lane.pages.slot_mut(seat);
        let Some(member) = &slot.member else { return };
        let due = self.program.chain.next_timer(&member.state);
        let emitted = cx.gathering().emitted - lane.emitted;
        slot.results += emitted;
        if let Some(due) = due.filter(|&due| due < slot.armed) {
            lane.armed += usize::from(slot.armed == Timestamp::MAX);
            slot.armed = due;
            lane.timers.push(Reverse((due, member.name.place(), member.name.generation())));
        }
        if emitted > 0 && !lane.owns.is_empty() {
            lane.at_work = NOWHERE;
            self.divert(lane, cx, seat, emitted as usize);
        }
    }

    /// Hands a member's results to its own way out, if it has one.
    #[cold]
    fn divert(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx, seat: u32, emitted: usize) {
        let Some((own, dropped)) = lane.owns.get_mut(&seat) else { return };
        match own.take(cx, emitted) {
            Some(lost) => {
                *dropped += lost;
                lane.counts.dropped += lost;
            }
            None => {
                let message = "its channel is full".to_owned();
                let operator = Some(self.program.op);
                self.fail(lane, seat, Failure { operator, time: None, event: None, message });
            }
        }
    }

    /// Fires every timer that is due at `clock`, the earliest first.
    #[inline]
    fn fire(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx, clock: Timestamp) {
        while lane.is_due(clock) {
            self.fire_next(lane, cx);
        }
    }

    /// As [`fire`](Self::fire), through members' panics.
    pub(super) fn fire_all(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        clock: Timestamp,
    ) {
        if lane.is_due(clock) {
            let before = cx.gathering().emitted;
            self.caught(lane, cx, |lane, cx| self.fire(lane, cx, clock));
            lane.counts.results += cx.gathering().emitted - before;
        }
    }

    #[cold]
    #[inline(never)]
    fn fire_next(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx) {
        let Some(Reverse((due, place, generation))) = lane.timers.pop() else { return };
        let member = MemberId { group: self.program.group, place, generation };
        let Some(seat) = lane.pages.seat(member) else { return };
        let slot = lane.pages.slot_mut(seat);
        if slot.armed != due {
            return;
        }
        slot.armed = Timestamp::MAX;
        lane.armed -= 1;
        cx.late = false;
        lane.counts.timers += 1;
        self.visit_member(lane, cx, seat, |state, cx| {
            self.program.chain.watermark(state, cx, due);
        });
    }
}

impl<S, P, C> Consumer<S::In> for Members<S, P, C>
where
    S: Select,
    P: Clone + Send + Sync + 'static,
    C: Consumer<(P, S::Event)>,
{
    type State = LaneState<S, P, C::State>;

    const REMEMBERS: bool = true;

    const WHOLE_BATCHES: bool = true;

    fn state(&self) -> Self::State {
        LaneState {
            index: S::Index::default(),
            pages: Pages::new(self.lane, self.lanes),
            timers: BinaryHeap::new(),
            armed: 0,
            owns: HashMap::new(),
            failures: HashMap::new(),
            hits: Hits::default(),
            watermark: Timestamp::MIN,
            counts: LaneCounts::default(),
            exit: self.program.exits.exit(),
            at_work: NOWHERE,
            emitted: 0,
        }
    }

    fn event(&self, lane: &mut Self::State, cx: &mut Cx, event: Event<S::In>) {
        let mut batch = Batch::default();
        batch.push(event, cx.late);
        self.batch(lane, cx, &mut batch);
    }

    fn batch(&self, lane: &mut Self::State, cx: &mut Cx, batch: &mut Batch<S::In>) {
        lane.exit.open(cx, self.program.group);
        lane.counts.events += batch.len() as u64;
        S::take(self, lane, cx, batch);
    }

    fn note(&self, lane: &mut Self::State, cx: &mut Cx, note: Note) {
        lane.exit.open(cx, self.program.group);
        let change = note.downcast::<Change<S::On, P>>();
        self.change(lane, cx, *change.expect("a lane is told of changes to its own members"));
    }

    fn watermark(&self, lane: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        lane.exit.open(cx, self.program.group);
        S::advance(self, lane, cx, watermark);
        lane.watermark = watermark;
        self.fire_all(lane, cx, watermark);
        lane.exit.watermark(cx, watermark);
    }

    fn end(&self, lane: &mut Self::State, cx: &mut Cx) {
        lane.exit.open(cx, self.program.group);
        let before = lane.exit.gathered(cx);
        S::advance(self, lane, cx, Timestamp::MAX);
        let pages = &lane.pages;
        let seats = pages.living().map(|(seat, _)| (pages.slot(seat).armed, seat));
        let mut order: Vec<_> = seats.collect();
        order.sort_unstable();
        let mut order = order.into_iter();
        let emitted = cx.gathering().emitted;
        self.caught(lane, cx, |lane, cx| {
            let chain = &self.program.chain;
            for (_, seat) in order.by_ref() {
                self.visit_member(lane, cx, seat, |state, cx| chain.end(state, cx));
            }
        });
        lane.counts.results += cx.gathering().emitted - emitted;
        if cx.ordered {
            lane.exit.sort(cx, before);
        }
        lane.exit.end(cx);
    }

    fn flush(&self, lane: &mut Self::State, cx: &mut Cx) {
        lane.exit.open(cx, self.program.group);
        lane.exit.flush(cx);
        self.program.watch.counted(self.lane, &lane.counts);
    }

    fn next_timer(&self, lane: &Self::State) -> Option<Timestamp> {
        let timer = lane.timers.peek().map(|Reverse((due, ..))| *due);
        earlier(S::next_due(&lane.index), timer)
    }

    /// Who is a member is not written down yet, so a group cannot be saved.
    fn visit(&self, _: &mut Self::State, _: &mut dyn Visit) -> Result<(), StateError> {
        Err(StateError::Unnamed)
    }
}
