//! The consumer that hosts members: one per lane.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::exit::{Exit, Exits, Full, Own};
use super::lane::{Addition, Change, LaneCounts, MemberReport, StateShown};
use super::pages::{Living, NOWHERE, Pages};
use super::{MemberId, Select, Watch};
use crate::event::{Batch, Event};
use crate::operator::{Consumer, Cx, Failure, Note, OpId, panic_message};
use crate::state::{Cell, StateError, Visit};
use crate::time::{Timestamp, is_due};

/// Fewer stale timers than this are left alone.
const FEW: usize = 64;

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
    pub fn new(op: OpId, group: u32, select: S, chain: C, exits: Exits, watch: Arc<dyn Watch>) -> Self {
        Self { op, group, select, chain, exits, watch, params: std::marker::PhantomData }
    }
}

/// A lane of a group.
pub struct Members<S, P, C> {
    program: Arc<Program<S, P, C>>,
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
    index: S::Index,
    pages: Pages<S::On, P, M>,
    /// (due, place, generation). An entry that is not what its slot says is stale.
    timers: BinaryHeap<Reverse<(Timestamp, u32, u32)>>,
    /// How many slots have a timer there.
    armed: usize,
    owns: HashMap<u32, (Box<dyn Own>, u64)>,
    failures: HashMap<u32, String>,
    /// Who gets which event of a batch: (position, place). Kept for its room.
    hits: Vec<(u32, u32)>,
    watermark: Timestamp,
    counts: LaneCounts,
    exit: Box<dyn Exit>,
    /// Where the member lives whose functions are running, and what had been emitted before.
    at_work: u32,
    emitted: u64,
}

/// An event, its position in its batch, and whether it is late.
type Present<T> = Option<(u32, Event<T>, bool)>;

impl<S, P, C> Members<S, P, C>
where
    S: Select,
    P: Clone + Send + Sync + 'static,
    C: Consumer<(P, S::Event)>,
{
    /// Does what can be gone on with after a panic until it is done.
    fn caught(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        mut run: impl FnMut(&mut LaneState<S, P, C::State>, &mut Cx),
    ) {
        while let Err(payload) = catch_unwind(AssertUnwindSafe(|| run(lane, cx))) {
            let place = std::mem::replace(&mut lane.at_work, NOWHERE);
            let blame = cx.take_blame();
            if place == NOWHERE {
                cx.counters.failed += 1;
                continue;
            }
            let undone = (cx.emitted - lane.emitted) as usize;
            lane.exit.forget(cx, undone);
            cx.emitted = lane.emitted;
            let (operator, time) = match blame {
                Some((operator, time)) => (operator, Some(time)),
                None => (self.program.op, None),
            };
            let message = format!("panicked: {}", panic_message(payload));
            let failure = Failure { operator, time, event: cx.take_shown(), message };
            self.fail(lane, place, failure);
        }
    }

    /// Ends a member. Its place is kept until it is removed.
    fn fail(&self, lane: &mut LaneState<S, P, C::State>, place: u32, failure: Failure) {
        let LaneState { index, pages, owns, .. } = lane;
        // The user's `Eq`, `Hash` and `Drop` may panic too.
        let _ = catch_unwind(AssertUnwindSafe(|| S::remove(index, place, pages)));
        let slot = pages.slot_mut(place);
        let id = MemberId { group: self.program.group, place, generation: slot.generation };
        lane.armed -= usize::from(slot.armed != Timestamp::MAX);
        slot.armed = Timestamp::MAX;
        let events = slot.events;
        let (living, own) = (slot.member.take(), owns.remove(&place));
        let _ = catch_unwind(AssertUnwindSafe(|| drop((living, own))));
        lane.counts.members -= 1;
        lane.counts.failed += 1;
        lane.failures.insert(place, failure.message.clone());
        self.program.watch.failed(id, failure, events);
    }

    /// Finds out who gets which event.
    fn find(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx, events: &[Event<S::Event>]) {
        let mut position = 0;
        let before = lane.hits.len();
        self.caught(lane, cx, |lane, _| {
            let LaneState { index, pages, hits, counts, .. } = lane;
            while let Some(event) = events.get(position) {
                position += 1;
                // Counted before the user's function is called, and taken back when it returns.
                counts.unselected += 1;
                let so_far = hits.len();
                let at = position as u32 - 1;
                self.program.select.matches(index, &event.value, pages, |place| hits.push((at, place)));
                counts.unselected -= 1;
                counts.unmatched += u64::from(hits.len() == so_far);
            }
        });
        lane.counts.events += events.len() as u64;
        lane.counts.handed += (lane.hits.len() - before) as u64;
    }

    /// Hands the events to those who get them. Goes on where it was after a member's panic.
    fn hand_out(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        hits: &mut std::iter::Peekable<impl Iterator<Item = (u32, u32)>>,
        events: &mut impl Iterator<Item = (u32, Event<S::Event>, bool)>,
        present: &mut Present<S::Event>,
    ) {
        while let Some(&(position, place)) = hits.peek() {
            if present.as_ref().is_none_or(|&(at, ..)| at != position) {
                *present = events.find(|&(at, ..)| at == position);
            }
            let Some((_, event, late)) = &*present else { return };
            if cx.ordered && !late {
                // As windows do: an event at the last instant closes nothing.
                self.fire(lane, cx, event.time.min(Timestamp::MAX.previous()));
            }
            hits.next();
            let more = hits.peek().is_some_and(|&(at, _)| at == position);
            let (event, late) = match present {
                Some((_, event, late)) if more => (event.clone(), *late),
                _ => match present.take() {
                    Some((_, event, late)) => (event, late),
                    None => return,
                },
            };
            self.hand(lane, cx, place, event, late);
        }
    }

    /// Hands an event to a member.
    #[inline]
    fn hand(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        place: u32,
        event: Event<S::Event>,
        late: bool,
    ) {
        let slot = lane.pages.slot_mut(place);
        let Some(member) = &mut slot.member else { return };
        (lane.at_work, lane.emitted) = (place, cx.emitted);
        cx.member =
            MemberId { group: self.program.group, place, generation: slot.generation };
        if late && lane.watermark > Timestamp::MIN {
            // A member is told of watermarks when something of it is due. This one decides what a
            // late event still counts in.
            cx.late = false;
            self.program.chain.watermark(&mut member.state, cx, lane.watermark);
        }
        cx.late = late;
        slot.events += 1;
        let event = Event::new(event.time, (member.params.clone(), event.value));
        self.program.chain.event(&mut member.state, cx, event);
        self.settle_up(lane, cx, place);
    }

    /// What follows when a member's functions have returned.
    #[inline]
    fn settle_up(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx, place: u32) {
        lane.at_work = NOWHERE;
        let slot = lane.pages.slot_mut(place);
        let Some(member) = &slot.member else { return };
        if let Some(due) = self.program.chain.next_timer(&member.state)
            && due < slot.armed
        {
            lane.armed += usize::from(slot.armed == Timestamp::MAX);
            slot.armed = due;
            lane.timers.push(Reverse((due, place, slot.generation)));
        }
        let emitted = cx.emitted - lane.emitted;
        slot.results += emitted;
        lane.counts.results += emitted;
        if emitted > 0 && !lane.owns.is_empty() {
            self.divert(lane, cx, place, emitted as usize);
        }
    }

    /// Hands a member's results to its own way out, if it has one.
    #[cold]
    fn divert(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx, place: u32, emitted: usize) {
        let Some((own, dropped)) = lane.owns.get_mut(&place) else { return };
        match own.take(cx, emitted) {
            Ok(lost) => {
                *dropped += lost;
                lane.counts.dropped += lost;
            }
            Err(Full::Drop | Full::Fail) => {
                let message = "its channel is full".to_owned();
                let operator = self.program.op;
                self.fail(lane, place, Failure { operator, time: None, event: None, message });
            }
        }
    }

    /// Fires every timer that is due at `clock`, the earliest first.
    #[inline]
    fn fire(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx, clock: Timestamp) {
        while lane.timers.peek().is_some_and(|Reverse((due, ..))| is_due(*due, clock)) {
            self.fire_next(lane, cx);
        }
    }

    #[cold]
    #[inline(never)]
    fn fire_next(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx) {
        let Some(Reverse((due, place, generation))) = lane.timers.pop() else { return };
        let Some(slot) = lane.pages.of(MemberId { group: 0, place, generation }) else { return };
        if slot.armed != due {
            return;
        }
        slot.armed = Timestamp::MAX;
        lane.armed -= 1;
        let Some(member) = &mut slot.member else { return };
        (lane.at_work, lane.emitted) = (place, cx.emitted);
        cx.member = MemberId { group: self.program.group, place, generation };
        cx.late = false;
        lane.counts.timers += 1;
        self.program.chain.watermark(&mut member.state, cx, due);
        self.settle_up(lane, cx, place);
    }

    fn add(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        Addition { id, on, params, own }: Addition<S::On, P>,
    ) {
        // An initial state is a clone of the user's.
        let state = match catch_unwind(AssertUnwindSafe(|| self.program.chain.state())) {
            Ok(state) => state,
            Err(payload) => {
                let message = format!("panicked when it began: {}", panic_message(payload));
                let operator = self.program.op;
                let failure = Failure { operator, time: None, event: None, message };
                self.program.watch.failed(id, failure, 0);
                return self.program.watch.removed(&[id]);
            }
        };
        lane.pages.settle(id, Living { on, params, state });
        lane.counts.members += 1;
        (lane.at_work, lane.emitted) = (id.place, cx.emitted);
        if let Some(own) = own {
            lane.owns.insert(id.place, (own.0, 0));
        }
        S::insert(&mut lane.index, id.place, &mut lane.pages);
        lane.at_work = NOWHERE;
    }

    /// Ends `member`. Whether it was there.
    fn remove(&self, lane: &mut LaneState<S, P, C::State>, member: MemberId) -> bool {
        let Some(slot) = lane.pages.of(member) else { return false };
        lane.armed -= usize::from(slot.armed != Timestamp::MAX);
        if slot.member.is_some() {
            lane.counts.members -= 1;
            let LaneState { index, pages, .. } = lane;
            let _ = catch_unwind(AssertUnwindSafe(|| S::remove(index, member.place, pages)));
        } else {
            lane.counts.failed -= 1;
            lane.failures.remove(&member.place);
        }
        let gone = (lane.pages.vacate(member.place), lane.owns.remove(&member.place));
        if catch_unwind(AssertUnwindSafe(|| drop(gone))).is_err() {
            tracing::warn!(%member, "its state panicked when dropped");
        }
        true
    }

    fn change(&self, lane: &mut LaneState<S, P, C::State>, cx: &mut Cx, change: Change<S::On, P>) {
        match change {
            Change::Add(additions) => {
                let mut additions = additions.into_iter();
                self.caught(lane, cx, |lane, cx| {
                    for addition in additions.by_ref() {
                        self.add(lane, cx, addition);
                    }
                });
            }
            Change::Remove(mut members) => {
                members.retain(|&member| self.remove(lane, member));
                self.program.watch.removed(&members);
                self.forget_stale(lane);
            }
            Change::Params(member, params) => {
                if let Some(living) = lane.pages.of(member).and_then(|slot| slot.member.as_mut()) {
                    living.params = params;
                }
            }
            Change::Look(member, answer) => answer(self.report(lane, member)),
            Change::List(answer) => {
                let id = |place| {
                    let generation = lane.pages.slot(place).generation;
                    MemberId { group: self.program.group, place, generation }
                };
                answer(lane.pages.living().map(id).collect());
            }
        }
    }

    /// Lets go of timers of members that are gone, once they are most of the queue.
    fn forget_stale(&self, lane: &mut LaneState<S, P, C::State>) {
        if lane.timers.len() <= 2 * lane.armed + FEW {
            return;
        }
        let pages = &mut lane.pages;
        lane.timers.retain(|&Reverse((due, place, generation))| {
            let slot = pages.of(MemberId { group: 0, place, generation });
            slot.is_some_and(|slot| slot.armed == due)
        });
        lane.timers.shrink_to(2 * lane.armed + FEW);
    }

    fn report(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        id: MemberId,
    ) -> Option<MemberReport<S::On, P>> {
        let slot = lane.pages.of(id)?;
        let mut shown = Shown(Vec::new());
        let mut next_timer = None;
        let living = slot.member.as_mut().map(|member| {
            // It shows what has a name; what has none is passed over.
            let _ = self.program.chain.visit(&mut member.state, &mut shown);
            next_timer = self.program.chain.next_timer(&member.state);
            (member.on.clone(), member.params.clone())
        });
        let (events, results) = (slot.events, slot.results);
        let dropped = lane.owns.get(&id.place).map_or(0, |(_, dropped)| *dropped);
        let failure = lane.failures.get(&id.place).cloned();
        Some(MemberReport { id, living, events, results, dropped, next_timer, state: shown.0, failure })
    }
}

/// Gathers named states in words.
struct Shown(Vec<StateShown>);

impl Visit for Shown {
    fn state(&mut self, _: OpId, cell: &mut dyn Cell) -> Result<(), StateError> {
        if let (Some(name), Some(json)) = (cell.name(), cell.json()) {
            self.0.push(StateShown { name: name.to_owned(), json });
        }
        Ok(())
    }
}

impl<S, P, C> Consumer<S::Event> for Members<S, P, C>
where
    S: Select,
    P: Clone + Send + Sync + 'static,
    C: Consumer<(P, S::Event)>,
{
    type State = LaneState<S, P, C::State>;

    const WHOLE_BATCHES: bool = true;

    fn state(&self) -> Self::State {
        LaneState {
            index: S::Index::default(),
            pages: Pages::new(self.lane, self.lanes),
            timers: BinaryHeap::new(),
            armed: 0,
            owns: HashMap::new(),
            failures: HashMap::new(),
            hits: Vec::new(),
            watermark: Timestamp::MIN,
            counts: LaneCounts::default(),
            exit: self.program.exits.exit(),
            at_work: NOWHERE,
            emitted: 0,
        }
    }

    fn event(&self, lane: &mut Self::State, cx: &mut Cx, event: Event<S::Event>) {
        let mut batch = Batch::default();
        batch.push(event, cx.late);
        self.batch(lane, cx, &mut batch);
    }

    /// Looks all events up before any is handed out, so that the memory of one member is fetched
    /// while that of others is waited for.
    fn batch(&self, lane: &mut Self::State, cx: &mut Cx, batch: &mut Batch<S::Event>) {
        lane.exit.open(cx);
        self.find(lane, cx, batch.events());
        let mut hits = std::mem::take(&mut lane.hits);
        let mut handed = hits.iter().copied().peekable();
        let mut position = 0;
        let mut events = batch.drain_each().map(|(event, late)| {
            position += 1;
            (position - 1, event, late)
        });
        let mut present = None;
        self.caught(lane, cx, |lane, cx| {
            self.hand_out(lane, cx, &mut handed, &mut events, &mut present);
        });
        hits.clear();
        lane.hits = hits;
    }

    fn note(&self, lane: &mut Self::State, cx: &mut Cx, note: Note) {
        lane.exit.open(cx);
        if let Ok(change) = note.downcast::<Change<S::On, P>>() {
            self.change(lane, cx, *change);
        }
    }

    fn watermark(&self, lane: &mut Self::State, cx: &mut Cx, watermark: Timestamp) {
        lane.exit.open(cx);
        lane.watermark = watermark;
        self.caught(lane, cx, |lane, cx| self.fire(lane, cx, watermark));
        lane.exit.watermark(cx, watermark);
    }

    fn end(&self, lane: &mut Self::State, cx: &mut Cx) {
        lane.exit.open(cx);
        let pages = &lane.pages;
        let mut order: Vec<_> =
            pages.living().map(|place| (pages.slot(place).armed, place)).collect();
        order.sort_unstable();
        let mut order = order.into_iter();
        let before = lane.exit.gathered(cx);
        self.caught(lane, cx, |lane, cx| {
            for (_, place) in order.by_ref() {
                let slot = lane.pages.slot_mut(place);
                let Some(member) = &mut slot.member else { continue };
                (lane.at_work, lane.emitted) = (place, cx.emitted);
                cx.member =
                    MemberId { group: self.program.group, place, generation: slot.generation };
                self.program.chain.end(&mut member.state, cx);
                self.settle_up(lane, cx, place);
            }
        });
        if cx.ordered {
            lane.exit.sort(cx, before);
        }
        lane.exit.end(cx);
    }

    fn flush(&self, lane: &mut Self::State, cx: &mut Cx) {
        lane.exit.open(cx);
        lane.exit.flush(cx);
        self.program.watch.counted(self.lane, &lane.counts);
    }

    fn next_timer(&self, lane: &Self::State) -> Option<Timestamp> {
        lane.timers.peek().map(|Reverse((due, ..))| *due)
    }

    /// Who is a member is not written down yet, so a group cannot be saved.
    fn visit(&self, _: &mut Self::State, _: &mut dyn Visit) -> Result<(), StateError> {
        Err(StateError::Unnamed)
    }
}
