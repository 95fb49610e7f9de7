//! What a lane does when it is told of changes to its members, or asked about them.

use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::lane::{Addition, Change, MemberReport, StateShown};
use super::members::{LaneState, Members};
use super::pages::{Living, NOWHERE, Name};
use super::{MemberId, Select};
use crate::operator::{Consumer, Cx, Failure, OpId, contained, panic_message};
use crate::state::{Cell, StateError, Visit};
use crate::time::Timestamp;

/// Fewer stale timers than this are left alone.
const FEW: usize = 64;

impl<S, P, C> Members<S, P, C>
where
    S: Select,
    P: Clone + Send + Sync + 'static,
    C: Consumer<(P, S::Event)>,
{
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
                let operator = Some(self.program.op);
                let failure = Failure { operator, time: None, event: None, message };
                self.program.watch.failed(id, failure, 0);
                return self.program.watch.removed(&[id]);
            }
        };
        let seat = lane.pages.settle(Living { name: Name::new(id), on, params, state });
        lane.counts.members += 1;
        (lane.at_work, lane.emitted) = (seat, cx.gathering().emitted);
        if let Some(own) = own {
            lane.owns.insert(seat, (own.0, 0));
        }
        S::insert(&mut lane.index, seat, &mut lane.pages);
        lane.at_work = NOWHERE;
    }

    /// Ends `member`. Whether it was there.
    fn remove(&self, lane: &mut LaneState<S, P, C::State>, member: MemberId) -> bool {
        let seat = if let Some(seat) = lane.pages.seat(member) {
            lane.counts.members -= 1;
            lane.armed -= usize::from(lane.pages.slot(seat).armed != Timestamp::MAX);
            let LaneState { index, pages, .. } = lane;
            contained(|| S::remove(index, seat, pages));
            seat
        } else if let Some(seat) = lane.failed_seat(member) {
            lane.counts.failed -= 1;
            lane.failures.remove(&seat);
            seat
        } else {
            return false;
        };
        let gone = (lane.pages.vacate(seat, member.place), lane.owns.remove(&seat));
        if let Some(message) = contained(|| drop(gone)) {
            tracing::warn!(%member, "its state panicked when dropped: {message}");
        }
        true
    }

    /// Heeds a change.
    pub(super) fn change(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        cx: &mut Cx,
        change: Change<S::On, P>,
    ) {
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
                let seat = lane.pages.seat(member);
                let slot = seat.map(|seat| lane.pages.slot_mut(seat));
                if let Some(living) = slot.and_then(|slot| slot.member.as_mut()) {
                    living.params = params;
                }
            }
            Change::Look(member, answer) => answer(self.report(lane, member)),
            Change::List(answer) => {
                let living = lane.pages.living();
                answer(living.map(|(_, member)| self.id(member)).collect());
            }
        }
    }

    /// Lets go of timers of members that are gone, once they are most of the queue.
    fn forget_stale(&self, lane: &mut LaneState<S, P, C::State>) {
        if lane.timers.len() <= 2 * lane.armed + FEW {
            return;
        }
        let pages = &lane.pages;
        lane.timers.retain(|&Reverse((due, place, generation))| {
            let seat = pages.seat(MemberId { group: 0, place, generation });
            seat.is_some_and(|seat| pages.slot(seat).armed == due)
        });
        lane.timers.shrink_to(2 * lane.armed + FEW);
    }

    fn report(
        &self,
        lane: &mut LaneState<S, P, C::State>,
        id: MemberId,
    ) -> Option<MemberReport<S::On, P>> {
        let seat = lane.pages.seat(id).or_else(|| lane.failed_seat(id))?;
        let slot = lane.pages.slot_mut(seat);
        let mut shown = Shown(Vec::new());
        let mut next_timer = None;
        let living = slot.member.as_mut().map(|member| {
            // It shows what has a name; what has none is passed over.
            let _ = self.program.chain.visit(&mut member.state, &mut shown);
            next_timer = self.program.chain.next_timer(&member.state);
            (member.on.clone(), member.params.clone())
        });
        let (events, results) = (slot.events, slot.results);
        let dropped = lane.owns.get(&seat).map_or(0, |(_, dropped)| *dropped);
        let failure = lane.failures.get(&seat).map(|(_, message)| message.clone());
        Some(MemberReport {
            id,
            living,
            events,
            results,
            dropped,
            next_timer,
            state: shown.0,
            failure,
        })
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
