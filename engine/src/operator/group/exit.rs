//! Where members' results go. Their type is hidden from the lane, which does not know its template's
//! output, at the price of one look at a type per result.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use super::MemberId;
use super::pages::Name;
use crate::event::{Batch, Event};
use crate::operator::context::Gathering;
use crate::operator::{Consumer, Cx};
use crate::state::{StateError, Visit};
use crate::time::Timestamp;

/// The end of a member's chain: puts what comes where the lane gathers results.
pub struct Results<R>(PhantomData<fn(R)>);

impl<R> Default for Results<R> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

/// What a lane gathers in [`Cx`] until the batch is over.
pub(super) type Gathered<R> = Batch<(MemberId, R)>;

fn gathered<R: Send + 'static>(gathering: &mut Gathering) -> &mut Gathered<R> {
    typed(&mut *gathering.results)
}

#[inline(always)]
fn typed<R: Send + 'static>(results: &mut (dyn Any + Send)) -> &mut Gathered<R> {
    results.downcast_mut().expect("a lane gathers the results of its template")
}

impl<R: Send + 'static> Consumer<R> for Results<R> {
    type State = ();

    fn state(&self) {}

    #[inline]
    fn event(&self, _: &mut (), cx: &mut Cx, event: Event<R>) {
        let late = cx.late;
        let Gathering { group, member, emitted, results } = cx.gathering();
        *emitted += 1;
        let results = typed(&mut **results);
        results.push(event.map(|value| (member.of(*group), value)), late);
    }

    fn watermark(&self, _: &mut (), _: &mut Cx, _: Timestamp) {}

    fn end(&self, _: &mut (), _: &mut Cx) {}

    fn flush(&self, _: &mut (), _: &mut Cx) {}

    fn next_timer(&self, _: &()) -> Option<Timestamp> {
        None
    }

    fn visit(&self, _: &mut (), _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}

/// A member's own way out.
pub trait Mailbox<R>: Send {
    /// Takes a result, at once and without waiting. Whoever cannot take it says so.
    fn accept(&mut self, result: Event<R>) -> Result<(), Full>;
}

/// Why a mailbox did not take a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// It is dropped, and counted.
    Drop,
    /// Its member is to fail.
    Fail,
}

/// A mailbox, its type hidden.
pub(super) trait Own: Send {
    /// Takes the last `count` results out of those gathered; how many it dropped. `None`: its member is
    /// to fail.
    fn take(&mut self, cx: &mut Cx, count: usize) -> Option<u64>;
}

/// A mailbox for a member that is added, its type hidden.
pub struct OwnExit(pub(super) Box<dyn Own>);

impl OwnExit {
    /// `mailbox` as the way out of one member.
    pub fn new<R: Send + 'static>(mailbox: impl Mailbox<R> + 'static) -> Self {
        Self(Box::new(Typed { mailbox, results: PhantomData }))
    }
}

struct Typed<R, M> {
    mailbox: M,
    results: PhantomData<fn(R)>,
}

impl<R: Send + 'static, M: Mailbox<R>> Own for Typed<R, M> {
    fn take(&mut self, cx: &mut Cx, count: usize) -> Option<u64> {
        let mut dropped = 0;
        let results = gathered::<R>(cx.gathering());
        for event in results.split_off(results.len() - count) {
            match self.mailbox.accept(event.map(|(_, value)| value)) {
                Ok(()) => {}
                Err(Full::Drop) => dropped += 1,
                Err(Full::Fail) => return None,
            }
        }
        Some(dropped)
    }
}

/// Where a lane's gathered results go when the batch is over.
pub trait Exit: Send {
    /// Has `cx` gather results of members of `group`, if it does not yet.
    fn open(&self, cx: &mut Cx, group: u32);

    /// Forgets what was gathered last: `count` results.
    fn forget(&self, cx: &mut Cx, count: usize);

    /// How many results are gathered.
    fn gathered(&self, cx: &mut Cx) -> usize;

    /// Brings the results from position `from` on into the order of their times; those of one time
    /// stay as they are.
    fn sort(&self, cx: &mut Cx, from: usize);

    /// Passes a watermark on, behind what was gathered.
    fn watermark(&mut self, cx: &mut Cx, watermark: Timestamp);

    /// Passes the end on, behind what was gathered.
    fn end(&mut self, cx: &mut Cx);

    /// Passes on what was gathered, and has it leave.
    fn flush(&mut self, cx: &mut Cx);
}

/// Makes the exits of a group's lanes, all in front of one consumer.
pub struct Exits(Box<dyn Fn() -> Box<dyn Exit> + Send + Sync>);

impl Exits {
    /// Exits to `next`.
    pub fn new<R: Send + 'static, N: Consumer<(MemberId, R)>>(next: N) -> Self {
        let next = Arc::new(next);
        Self(Box::new(move || {
            let state = next.state();
            Box::new(TypedExit { next: next.clone(), state, results: PhantomData::<fn(R)> })
        }))
    }

    pub(super) fn exit(&self) -> Box<dyn Exit> {
        (self.0)()
    }
}

struct TypedExit<R, N: Consumer<(MemberId, R)>> {
    next: Arc<N>,
    state: N::State,
    results: PhantomData<fn(R)>,
}

impl<R: Send + 'static, N: Consumer<(MemberId, R)>> TypedExit<R, N> {
    fn pass_on(&mut self, cx: &mut Cx) {
        let mut results = std::mem::take(gathered::<R>(cx.gathering()));
        self.next.batch(&mut self.state, cx, &mut results);
        *gathered::<R>(cx.gathering()) = results;
    }
}

impl<R: Send + 'static, N: Consumer<(MemberId, R)>> Exit for TypedExit<R, N> {
    fn open(&self, cx: &mut Cx, group: u32) {
        cx.gathering.get_or_insert_with(|| {
            let results = Box::new(Gathered::<R>::default());
            Box::new(Gathering { group, member: Name::NOBODY, emitted: 0, results })
        });
    }

    fn forget(&self, cx: &mut Cx, count: usize) {
        let results = gathered::<R>(cx.gathering());
        results.split_off(results.len() - count);
    }

    fn gathered(&self, cx: &mut Cx) -> usize {
        gathered::<R>(cx.gathering()).len()
    }

    fn sort(&self, cx: &mut Cx, from: usize) {
        gathered::<R>(cx.gathering()).events_mut()[from..].sort_by_key(|event| event.time);
    }

    fn watermark(&mut self, cx: &mut Cx, watermark: Timestamp) {
        self.pass_on(cx);
        self.next.watermark(&mut self.state, cx, watermark);
    }

    fn end(&mut self, cx: &mut Cx) {
        self.pass_on(cx);
        self.next.end(&mut self.state, cx);
    }

    fn flush(&mut self, cx: &mut Cx) {
        self.pass_on(cx);
        self.next.flush(&mut self.state, cx);
    }
}
