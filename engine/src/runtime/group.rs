//! A group's handle: what those outside say to its lanes, and what its lanes have said.
//!
//! A member's id is handed out here, without waiting for its lane: each bucket has a list of places
//! that are free, each with its next generation. A lane gives a place back when it has let its member
//! go, so no two members ever have one id. Until the query is submitted what is said waits here.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::event::Event;
use crate::operator::group::{
    Addition, BUCKETS, Change, Full, LaneCounts, Mailbox, MemberId, MemberReport, OwnExit, Select,
    Watch,
};
use crate::operator::{Failure, Note, OpId};
use crate::plan::Plan;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Mutex, OnceLock};

use super::channel::{Offered, Receiver, WhenFull, channel};
use super::parker::Parker;
use super::pool::Pool;
use super::port::Port;
use super::query::QueryFailure;

/// Members that are added or removed with one note: few enough that those that come together do not
/// hold a lane up for long.
const TOGETHER: usize = 256;

/// Why something could not be said to a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Its query is over, was refused, or is gone without having been submitted.
    #[error("group {0:?} is over")]
    Closed(String),
    /// Its query has not been submitted, so there is nobody to ask.
    #[error("group {0:?} has not been submitted yet")]
    NotRunning(String),
    /// The id is that of another group's member.
    #[error("{id} is no member of group {group:?}")]
    Foreign {
        /// The id.
        id: MemberId,
        /// The group that was asked.
        group: String,
    },
    /// A member that could never get an event.
    #[error("group {group:?}: {reason}")]
    Selects {
        /// The group.
        group: String,
        /// What is wrong with what it selects.
        reason: String,
    },
}

/// What happens when a member's own channel is full. Its lane never waits for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberFull {
    /// The result that finds no room is dropped and counted.
    #[default]
    DropNewest,
    /// The member fails.
    Fail,
}

/// A group of queries that share a template, from outside. Clones mean the same group.
///
/// Members can be added and removed from any thread, before the query is submitted and while it
/// runs. What one thread says is heeded in its order, and before any event that it pushes afterwards.
pub struct Group<On, P, R> {
    shared: Arc<Shared<On, P>>,
    results: PhantomData<fn() -> R>,
}

impl<On, P, R> Clone for Group<On, P, R> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), results: PhantomData }
    }
}

/// What the handles of a group share with its lanes.
pub struct Shared<On, P> {
    number: u32,
    bucket: fn(&On) -> Option<u32>,
    check: fn(&On) -> Result<(), String>,
    /// The next bucket for members that may live in any.
    any: AtomicU32,
    phase: Mutex<Phase<On, P>>,
    lanes: OnceLock<Vec<Arc<dyn Tell>>>,
    heard: Arc<Heard>,
}

enum Phase<On, P> {
    /// The query is being described; what is said waits, by bucket.
    Described(Vec<Vec<Change<On, P>>>),
    /// It is running, or over.
    Submitted,
    /// It never ran and never will.
    Refused,
}

/// A lane's inbox, as far as notes are concerned.
trait Tell: Send + Sync {
    /// `false`: the lane is over.
    fn tell(&self, note: Note) -> bool;
}

impl<T: Send + 'static> Tell for Port<T> {
    fn tell(&self, note: Note) -> bool {
        Port::tell(self, note)
    }
}

/// What lanes have said.
struct Heard {
    name: String,
    free: Vec<Mutex<Free>>,
    plan: OnceLock<Arc<Plan>>,
    counts: Mutex<BTreeMap<u16, LaneCounts>>,
    failures: Mutex<BTreeMap<MemberId, QueryFailure>>,
}

/// The free places of a bucket.
#[derive(Default)]
struct Free {
    /// The first place that was never used.
    next: u32,
    /// Places given back, each with its next generation.
    back: Vec<(u32, u32)>,
}

impl Watch for Heard {
    fn counted(&self, lane: u16, counts: &LaneCounts) {
        self.counts.lock().insert(lane, *counts);
    }

    fn failed(&self, member: MemberId, failure: Failure, events: u64) {
        let Some(plan) = self.plan.get() else { return };
        let failure = QueryFailure::new(plan, failure, OpId::default(), events);
        tracing::warn!(group = self.name, %member, %failure, "member failed");
        self.failures.lock().insert(member, failure);
    }

    fn removed(&self, members: &[MemberId]) {
        for member in members {
            let mut free = self.free[(member.place % BUCKETS) as usize].lock();
            // A place whose generations are used up is not used again; the last one is never given.
            let next = member.generation + 1;
            if next < u32::MAX {
                free.back.push((member.place, next));
            }
        }
        let mut failures = self.failures.lock();
        if !failures.is_empty() {
            members.iter().for_each(|member| drop(failures.remove(member)));
        }
    }
}

impl<On: Send + 'static, P: Send + 'static> Shared<On, P> {
    /// A group called `name` whose members are selected by `S`, and its first handle.
    pub fn new<S: Select<On = On>, R>(name: &str) -> (Arc<Self>, Group<On, P, R>) {
        static NUMBERS: OnceLock<AtomicU32> = OnceLock::new();
        // Relaxed: numbers only have to differ.
        let number = NUMBERS.get_or_init(|| AtomicU32::new(1)).fetch_add(1, Ordering::Relaxed);
        let heard = Heard {
            name: name.to_owned(),
            free: (0..BUCKETS).map(|_| Mutex::default()).collect(),
            plan: OnceLock::new(),
            counts: Mutex::default(),
            failures: Mutex::default(),
        };
        let shared = Arc::new(Self {
            number,
            bucket: S::bucket,
            check: S::check,
            any: AtomicU32::new(0),
            phase: Mutex::new(Phase::Described((0..BUCKETS).map(|_| Vec::new()).collect())),
            lanes: OnceLock::new(),
            heard: Arc::new(heard),
        });
        (shared.clone(), Group { shared, results: PhantomData })
    }

    /// Its number, which its members' ids carry.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Who hears what lanes say.
    pub fn watch(&self) -> Arc<dyn Watch> {
        self.heard.clone()
    }

    /// Says which inboxes its lanes read; what was said so far goes there.
    pub(super) fn attach<T: Send + 'static>(&self, plan: Arc<Plan>, lanes: Vec<Arc<Port<T>>>) {
        let lanes: Vec<Arc<dyn Tell>> =
            lanes.into_iter().map(|port| -> Arc<dyn Tell> { port }).collect();
        let mut phase = self.phase.lock();
        let waiting = std::mem::replace(&mut *phase, Phase::Submitted);
        let _ = self.heard.plan.set(plan);
        if let Phase::Described(waiting) = waiting {
            for (bucket, changes) in waiting.into_iter().enumerate() {
                for change in changes {
                    lanes[lane_of(bucket as u32, lanes.len())].tell(Box::new(change));
                }
            }
        }
        // Under the lock, so that what is said from now on comes behind what waited.
        let _ = self.lanes.set(lanes);
    }

    /// The description that it stood in is gone: unless it was submitted, it never will be.
    pub fn described(&self) {
        let mut phase = self.phase.lock();
        if let Phase::Described(_) = *phase {
            *phase = Phase::Refused;
        }
    }

    fn closed(&self) -> GroupError {
        GroupError::Closed(self.heard.name.clone())
    }

    /// Says `change` to the lane of `bucket`, or has it wait for that lane.
    fn say(&self, bucket: u32, change: Change<On, P>) -> Result<(), GroupError> {
        if self.lanes.get().is_none() {
            let mut phase = self.phase.lock();
            match &mut *phase {
                Phase::Described(waiting) => {
                    waiting[bucket as usize].push(change);
                    return Ok(());
                }
                Phase::Refused => return Err(self.closed()),
                Phase::Submitted => {}
            }
        }
        let lanes = self.lanes.get().ok_or_else(|| self.closed())?;
        let told = lanes[lane_of(bucket, lanes.len())].tell(Box::new(change));
        if told { Ok(()) } else { Err(self.closed()) }
    }

    /// A free place for a member that selects `on`.
    fn place(&self, on: &On) -> Result<MemberId, GroupError> {
        (self.check)(on)
            .map_err(|reason| GroupError::Selects { group: self.heard.name.clone(), reason })?;
        // Relaxed: any bucket will do.
        let any = || self.any.fetch_add(1, Ordering::Relaxed) % BUCKETS;
        let bucket = (self.bucket)(on).unwrap_or_else(any);
        let mut free = self.heard.free[bucket as usize].lock();
        let (place, generation) = free.back.pop().unwrap_or_else(|| {
            let place = free.next * BUCKETS + bucket;
            free.next += 1;
            (place, 0)
        });
        Ok(MemberId { group: self.number, place, generation })
    }

    fn own(&self, id: MemberId) -> Result<(), GroupError> {
        if id.group == self.number {
            Ok(())
        } else {
            Err(GroupError::Foreign { id, group: self.heard.name.clone() })
        }
    }

    /// Says what `make` makes of an answer slot, and waits for the answer.
    fn ask<A: Send + 'static>(
        &self,
        bucket: u32,
        make: impl FnOnce(Box<dyn FnOnce(A) + Send>) -> Change<On, P>,
    ) -> Result<A, GroupError> {
        if self.lanes.get().is_none() && matches!(*self.phase.lock(), Phase::Described(_)) {
            return Err(GroupError::NotRunning(self.heard.name.clone()));
        }
        let reply = Arc::new(Reply { answer: Mutex::new(None), parker: Parker::default() });
        let sender = Sender(reply.clone());
        self.say(bucket, make(Box::new(move |answer| *sender.0.answer.lock() = Some(answer))))?;
        Pool::block(|timeout| reply.parker.park_for(timeout));
        let answer = reply.answer.lock().take();
        answer.ok_or_else(|| self.closed())
    }
}

/// Where an answer is awaited.
struct Reply<A> {
    answer: Mutex<Option<A>>,
    parker: Parker,
}

/// The lane's end of a reply: whether it answers or goes, the one who waits is woken.
struct Sender<A>(Arc<Reply<A>>);

impl<A> Drop for Sender<A> {
    fn drop(&mut self) {
        self.0.parker.unpark();
    }
}

fn lane_of(bucket: u32, lanes: usize) -> usize {
    bucket as usize * lanes / BUCKETS as usize
}

impl<On, P, R> Group<On, P, R>
where
    On: Clone + Send + 'static,
    P: Clone + Send + Sync + 'static,
    R: Send + 'static,
{
    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.heard.name
    }

    /// Adds a member for the events that `on` selects. It gets those that reach the group from now
    /// on; those on their way in the engine may be among them.
    ///
    /// # Errors
    /// [`GroupError::Closed`], and [`GroupError::Selects`] if `on` can select nothing.
    pub fn add(&self, on: On, params: P) -> Result<MemberId, GroupError> {
        self.begin(on, params, None)
    }

    /// As [`add`](Self::add), with a channel of `capacity` events (at least 1) that the member's
    /// results go to, instead of where those of the group go. Dropping the receiver lets the member run
    /// on; its results are counted as dropped then.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_with_channel(
        &self,
        on: On,
        params: P,
        capacity: usize,
        when_full: MemberFull,
    ) -> Result<(MemberId, Receiver<R>), GroupError> {
        let (sender, receiver) = channel(capacity.max(1), WhenFull::DropNewest);
        let own = OwnExit::new::<R>(Channel { sender, when_full });
        Ok((self.begin(on, params, Some(own))?, receiver))
    }

    fn begin(&self, on: On, params: P, own: Option<OwnExit>) -> Result<MemberId, GroupError> {
        let id = self.shared.place(&on)?;
        let addition = Addition { id, on, params, own };
        self.shared.say(id.place % BUCKETS, Change::Add(vec![addition]))?;
        Ok(id)
    }

    /// Adds many members, for less than one by one.
    ///
    /// # Errors
    /// As [`add`](Self::add); members before the one that is refused have been added.
    pub fn add_all(
        &self,
        members: impl IntoIterator<Item = (On, P)>,
    ) -> Result<Vec<MemberId>, GroupError> {
        let mut waiting: Vec<Vec<_>> = (0..BUCKETS).map(|_| Vec::new()).collect();
        let mut ids = Vec::new();
        let mut refused = None;
        for (on, params) in members {
            let id = match self.shared.place(&on) {
                Ok(id) => id,
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            };
            ids.push(id);
            let bucket = id.place % BUCKETS;
            let together = &mut waiting[bucket as usize];
            together.push(Addition { id, on, params, own: None });
            if together.len() == TOGETHER {
                self.shared.say(bucket, Change::Add(std::mem::take(together)))?;
            }
        }
        for (bucket, together) in waiting.into_iter().enumerate() {
            if !together.is_empty() {
                self.shared.say(bucket as u32, Change::Add(together))?;
            }
        }
        refused.map_or(Ok(ids), Err)
    }

    /// Removes a member: its state is dropped, nothing of it fires, and it gives no result any more
    /// once its lane has heeded this. A member that is not there is passed over.
    ///
    /// # Errors
    /// [`GroupError::Closed`] and [`GroupError::Foreign`].
    pub fn remove(&self, member: MemberId) -> Result<(), GroupError> {
        self.shared.own(member)?;
        self.shared.say(member.place % BUCKETS, Change::Remove(vec![member]))
    }

    /// Removes many members, for less than one by one.
    ///
    /// # Errors
    /// As [`remove`](Self::remove); none is removed if one of them is foreign.
    pub fn remove_all(&self, members: &[MemberId]) -> Result<(), GroupError> {
        members.iter().try_for_each(|&member| self.shared.own(member))?;
        let mut waiting: Vec<Vec<_>> = (0..BUCKETS).map(|_| Vec::new()).collect();
        for &member in members {
            let together = &mut waiting[(member.place % BUCKETS) as usize];
            together.push(member);
            if together.len() == TOGETHER {
                let together = std::mem::take(together);
                self.shared.say(member.place % BUCKETS, Change::Remove(together))?;
            }
        }
        for (bucket, together) in waiting.into_iter().enumerate() {
            if !together.is_empty() {
                self.shared.say(bucket as u32, Change::Remove(together))?;
            }
        }
        Ok(())
    }

    /// Gives a member other parameters; its state stays. Events before the change have met the old
    /// ones. A member that is not there is passed over.
    ///
    /// # Errors
    /// [`GroupError::Closed`] and [`GroupError::Foreign`].
    pub fn set_params(&self, member: MemberId, params: P) -> Result<(), GroupError> {
        self.shared.own(member)?;
        self.shared.say(member.place % BUCKETS, Change::Params(member, params))
    }

    /// How a member stands, once its lane has done all that was before this; `None` if it is not
    /// there.
    ///
    /// # Errors
    /// [`GroupError::Closed`], [`GroupError::NotRunning`] and [`GroupError::Foreign`].
    pub fn inspect(&self, member: MemberId) -> Result<Option<MemberReport<On, P>>, GroupError> {
        self.shared.own(member)?;
        self.shared.ask(member.place % BUCKETS, |answer| Change::Look(member, answer))
    }

    /// The members that live, in no particular order, once every lane has done all that was before
    /// this.
    ///
    /// # Errors
    /// [`GroupError::Closed`] and [`GroupError::NotRunning`].
    pub fn members(&self) -> Result<Vec<MemberId>, GroupError> {
        let lanes = self.shared.lanes.get().map_or(1, Vec::len) as u32;
        let mut all = Vec::new();
        for lane in 0..lanes {
            all.extend(self.shared.ask(lane * BUCKETS / lanes, Change::List)?);
        }
        Ok(all)
    }

    /// What its lanes have counted, each up to its last batch.
    pub fn stats(&self) -> GroupStats {
        GroupStats { lanes: self.shared.heard.counts.lock().values().copied().collect() }
    }

    /// The members that have failed and were not removed, and why.
    pub fn failures(&self) -> Vec<(MemberId, QueryFailure)> {
        let failures = self.shared.heard.failures.lock();
        failures.iter().map(|(member, failure)| (*member, failure.clone())).collect()
    }
}

/// What the lanes of a group have counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupStats {
    /// Lane by lane.
    pub lanes: Vec<LaneCounts>,
}

impl GroupStats {
    /// All lanes together. Where every lane sees every event, so does this: an event counts once per
    /// lane.
    pub fn total(&self) -> LaneCounts {
        self.lanes.iter().fold(LaneCounts::default(), |sum, lane| sum + *lane)
    }
}

/// A member's own channel.
struct Channel<R> {
    sender: super::channel::Sender<R>,
    when_full: MemberFull,
}

impl<R: Send + 'static> Mailbox<R> for Channel<R> {
    fn accept(&mut self, result: Event<R>) -> Result<(), Full> {
        match (self.sender.offer(result), self.when_full) {
            (Offered::Taken, _) => Ok(()),
            (Offered::NoRoom, MemberFull::Fail) => Err(Full::Fail),
            (Offered::NoRoom | Offered::NobodyThere, _) => Err(Full::Drop),
        }
    }
}

impl<R> Drop for Channel<R> {
    fn drop(&mut self) {
        self.sender.end();
    }
}
