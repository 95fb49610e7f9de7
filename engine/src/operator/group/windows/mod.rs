//! Windows that the members of a key share.
//!
//! Members that all look at the same windows of the same key need not each keep the slices of these
//! windows. A lane keeps them once per key that has members, adds each event to one slice, merges a
//! window once when it closes, and hands the result to the key's members: what they get as an event is
//! a window. Each member still gets exactly what a query of its own would make of the events since it was
//! added; that is what the *cuts* are for. A member that is added cuts its key's slices: what comes
//! later goes to a new layer of a slice, and layers below its cut are not the member's.
//!
//! | what | how |
//! |---|---|
//! | an event of a key with members | goes into one layer of one slice, however many members there are |
//! | an event of a key without | costs a look at the index; nothing is kept |
//! | a window that closes | is merged once for all members that were there before its first event, and once more for each set of members that joined within it and therefore see other layers |
//! | a window without an event since a member was added | is no window for that member |
//! | results | go to members in the order of their addition, those with more of the window first; then timers fire, or before where the chain is ordered and they are due earlier |
//! | a late event | counts in the windows that the watermark has left open, and as late, once, if there is none; in an ordered lane it only counts as late |
//! | a member that is removed or fails | has no part in what is open: its key's layers that only it could see are let go of, with its key's last member all of them |
//! | a panic of the key function | that event is counted as failed |
//! | a panic when an event is added | ends all members of the key, as it would have ended each of them |
//! | a panic when a window is merged or finished | ends the members that this was done for |
//! | a result that its type cannot hold | is counted as failed, once for all who would have got it |
//! | time | a key is visited when a window of its own is due, and only then |
//! | sums of floats | a window in which a member joined is added up in two parts for the others, so its last bits may differ from those of a single sum |

mod index;
mod layers;

use std::cell::Cell;
use std::hash::Hash;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use index::WindowIndex;

use super::hits::Hits;
use super::members::{LaneState, Members};
use super::pages::{NOWHERE, Places};
use super::select::{Select, bucket_of};
use crate::event::{Batch, Event};
use crate::operator::aggregate::{Aggregate, Overflow};
use crate::operator::window::{Grid, Nowhere, clock_at};
use crate::operator::{
    Consumer, Cx, Failure, OpId, Phase, Windowed, Windows, contained, panic_message,
};
use crate::state::hash;
use crate::time::Timestamp;
use index::Share;
use layers::{Layers, total};

/// Windows that are handed out together.
const TOGETHER: usize = 64;

/// Members on the windows of a key: what they get are results of windows that they share.
pub struct ByWindow<T, K, KF, A> {
    op: OpId,
    key: KF,
    grid: Grid,
    aggregate: A,
    types: PhantomData<fn(T) -> K>,
}

impl<T, K, KF: Fn(&T) -> K, A: Aggregate<T>> ByWindow<T, K, KF, A> {
    /// By the key that `key` finds in an event; members get what `aggregate` makes of each of
    /// `windows`, which must be such as [`check`](Windows::check) lets pass before they run. The
    /// operator `op` stands for that in reports.
    pub fn new(op: OpId, windows: Windows, key: KF, aggregate: A) -> Self {
        Self { op, key, grid: Grid::new(&windows), aggregate, types: PhantomData }
    }
}

/// What a lane is doing for an event, should the user's code panic meanwhile.
#[derive(Clone, Copy)]
enum Doing {
    Selecting,
    /// The share with this number takes it.
    Adding(u32),
    Dropping,
}

impl<T, K, KF, A> ByWindow<T, K, KF, A>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    A: Aggregate<T, Out: Clone>,
{
    /// Takes an event: into the slice of its key, if that has members.
    fn take_event<P, C>(
        &self,
        members: &Members<Self, P, C>,
        lane: &mut LaneState<Self, P, C::State>,
        cx: &mut Cx,
        Event { time, value }: Event<T>,
    ) where
        P: Clone + Send + Sync + 'static,
        C: Consumer<(P, Windowed<K, A::Out>)>,
    {
        let refused = cx.late & cx.ordered;
        if cx.ordered && !cx.late {
            let clock = clock_at(time);
            if lane.index.may_be_due(clock) {
                self.close_due(members, lane, cx, clock);
            }
            members.fire_all(lane, cx, clock);
        }
        let doing = Cell::new(Doing::Selecting);
        let taken = catch_unwind(AssertUnwindSafe(|| {
            let number = lane.index.find(&(self.key)(&value));
            if number == NOWHERE {
                lane.counts.unmatched += 1;
            } else if refused {
                cx.counters.late += 1;
            } else {
                doing.set(Doing::Adding(number));
                self.add(lane, cx, number, time, &value);
            }
            doing.set(Doing::Dropping);
            drop(value);
        }));
        let Err(payload) = taken else { return };
        let blame = cx.take_blame();
        match doing.get() {
            Doing::Selecting => {
                lane.counts.unselected += 1;
                cx.counters.failed += 1;
            }
            Doing::Dropping => cx.counters.failed += 1,
            Doing::Adding(number) => {
                let seats = lane.index.seats(number, &lane.pages);
                let time = blame.map(|(_, time)| time);
                self.fail(members, lane, seats, time, &panic_message(payload));
            }
        }
    }

    /// Adds a value to the slice that it belongs to, if that is still open.
    #[inline(always)]
    fn add<P, M>(
        &self,
        lane: &mut LaneState<Self, P, M>,
        cx: &mut Cx,
        number: u32,
        time: Timestamp,
        value: &T,
    ) {
        if !lane.index.share(number).windows.is_recent(time)
            && !self.find_slice(lane, cx, number, time)
        {
            return;
        }
        let on_panic = cx.on_panic(self.op, time);
        let share = lane.index.share(number);
        let acc = match share.windows.recent().latest(share.cut) {
            Some(acc) => acc,
            None => lane.index.open_layer(number, &lane.pages, &self.aggregate),
        };
        self.aggregate.add(acc, value);
        on_panic.disarm();
    }

    /// Makes the slice of an event at `time` its share's recent one. `false`: there is none.
    #[cold]
    #[inline(never)]
    fn find_slice<P, M>(
        &self,
        lane: &mut LaneState<Self, P, M>,
        cx: &mut Cx,
        number: u32,
        time: Timestamp,
    ) -> bool {
        let windows = &mut lane.index.share(number).windows;
        // A share is visited only when it has something due: here it hears what the time is.
        windows.close_until(lane.watermark);
        match windows.find_or_open(&self.grid, time, Layers::default) {
            Ok(()) => {
                lane.index.arm(number);
                return true;
            }
            Err(Nowhere::Closed) => cx.counters.late += 1,
            Err(Nowhere::Gap) => {}
        }
        false
    }

    /// Closes every window that is due at `clock`, and hands out what they give.
    #[cold]
    #[inline(never)]
    fn close_due<P, C>(
        &self,
        members: &Members<Self, P, C>,
        lane: &mut LaneState<Self, P, C::State>,
        cx: &mut Cx,
        clock: Timestamp,
    ) where
        P: Clone + Send + Sync + 'static,
        C: Consumer<(P, Windowed<K, A::Out>)>,
    {
        let mut batch = Batch::default();
        while let Some(number) = lane.index.next_due(clock) {
            let failed = self.close_next(lane, cx, number, &mut batch);
            if !failed.is_empty() || batch.len() >= TOGETHER {
                members.hand_all(lane, cx, &mut batch);
            }
            // What they got before is theirs, and what their timers make of it.
            if let Some(first) = failed.first() {
                members.fire_all(lane, cx, first.time);
            }
            for Failed { seats, time, message } in failed {
                self.fail(members, lane, seats, Some(time), &message);
            }
        }
        members.hand_all(lane, cx, &mut batch);
    }

    /// Closes the next window of a share: what it gives, and to whom, is put behind what is in
    /// `batch`. Whom it could not be made for.
    #[cold]
    #[inline(never)]
    fn close_next<P, M>(
        &self,
        lane: &mut LaneState<Self, P, M>,
        cx: &mut Cx,
        number: u32,
        batch: &mut Batch<Windowed<K, A::Out>>,
    ) -> Vec<Failed> {
        let (mut failed, pages) = (Vec::new(), &lane.pages);
        let WindowIndex { shares, joined, whom, .. } = &mut lane.index;
        let Some(Share { key, tail, windows, .. }) = &mut shares[number as usize] else {
            return failed;
        };
        let next = windows.next(&self.grid);
        let (start, end) = next.bounds(&self.grid);
        let time = end.previous();
        let (mut seat, mut others) = (pages.behind(*tail), true);
        while others {
            let layers = windows.within(&next);
            let own = layers.clone().filter_map(|slice| slice.first_since(joined[seat as usize]));
            // Whoever joined before the earliest of its layers sees the same; who is behind joined later.
            let Some(since) = own.min() else { break };
            let begin = whom.len();
            while others && joined[seat as usize] <= since {
                whom.push_back(seat);
                others = seat != *tail;
                seat = pages.behind(seat);
            }
            let result = catch_unwind(AssertUnwindSafe(|| {
                cx.call(self.op, time, || (key.clone(), total(&self.aggregate, layers, since)))
            }));
            match result {
                Ok((key, Ok(value))) => {
                    whom.push_back(NOWHERE);
                    batch.push(
                        Event::new(time, Windowed { key, start, end, phase: Phase::Final, value }),
                        false,
                    );
                    continue;
                }
                Ok((_, Err(Overflow))) => {
                    whom.truncate(begin);
                    cx.counters.failed += 1;
                }
                Err(payload) => {
                    let _ = cx.take_blame();
                    let seats = whom.drain(begin..).collect();
                    failed.push(Failed { seats, time, message: panic_message(payload) });
                }
            }
        }
        let mut over = Vec::new();
        windows.close(&self.grid, &next, |layers| over.push(layers));
        cx.counters.failed += u64::from(contained(|| drop(over)).is_some());
        lane.index.arm(number);
        failed
    }

    /// Ends members for which the aggregate could not go on.
    fn fail<P, C>(
        &self,
        members: &Members<Self, P, C>,
        lane: &mut LaneState<Self, P, C::State>,
        seats: Vec<u32>,
        time: Option<Timestamp>,
        message: &str,
    ) where
        P: Clone + Send + Sync + 'static,
        C: Consumer<(P, Windowed<K, A::Out>)>,
    {
        // What fails at a window may have failed at the one before already.
        for seat in seats {
            if lane.pages.slot(seat).member.is_none() {
                continue;
            }
            let (operator, message) = (Some(self.op), format!("panicked: {message}"));
            members.fail(lane, seat, Failure { operator, time, event: None, message });
        }
    }
}

/// Members that end because a window could not be made for them.
struct Failed {
    seats: Vec<u32>,
    time: Timestamp,
    message: String,
}

impl<T, K, KF, A> Select for ByWindow<T, K, KF, A>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&T) -> K + Send + Sync + 'static,
    A: Aggregate<T, Out: Clone>,
{
    type In = T;
    type Event = Windowed<K, A::Out>;
    type On = K;
    type Index = WindowIndex<K, A::Acc>;

    fn bucket(on: &K) -> Option<u32> {
        Some(bucket_of(hash(on)))
    }

    fn insert(index: &mut Self::Index, seat: u32, places: &mut impl Places<K>) {
        index.insert(seat, places);
    }

    fn remove(index: &mut Self::Index, seat: u32, places: &mut impl Places<K>) {
        index.remove(seat, places);
    }

    /// Whom the windows are for was found out when they closed.
    fn look_up(
        &self,
        index: &mut Self::Index,
        events: &[Event<Self::Event>],
        _: &impl Places<K>,
        hits: &mut Hits,
    ) {
        for _ in events {
            hits.all(|hit| {
                while let Some(seat) = index.whom.pop_front().filter(|&seat| seat != NOWHERE) {
                    hit(seat);
                }
            });
        }
    }

    fn take<P, C>(
        members: &Members<Self, P, C>,
        lane: &mut LaneState<Self, P, C::State>,
        cx: &mut Cx,
        batch: &mut Batch<T>,
    ) where
        P: Clone + Send + Sync + 'static,
        C: Consumer<(P, Self::Event)>,
    {
        let select = &members.program.select;
        batch.drain(|event, late| {
            cx.late = late;
            select.take_event(members, lane, cx, event);
        });
    }

    fn advance<P, C>(
        members: &Members<Self, P, C>,
        lane: &mut LaneState<Self, P, C::State>,
        cx: &mut Cx,
        clock: Timestamp,
    ) where
        P: Clone + Send + Sync + 'static,
        C: Consumer<(P, Self::Event)>,
    {
        if lane.index.may_be_due(clock) {
            members.program.select.close_due(members, lane, cx, clock);
        }
    }

    fn next_due(index: &Self::Index) -> Option<Timestamp> {
        index.due()
    }
}
