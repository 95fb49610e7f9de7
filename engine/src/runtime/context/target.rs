//! Where a handler can send to.

use std::fmt;
use std::sync::Arc;

use crate::event::Event;

use super::super::parker::Parker;
use super::super::pool::{Pool, TaskRef};
use super::super::port::Refusal;
use super::super::push::PushHandle;
use super::handle::ContextHandle;
use super::inbox::{Letter, Waiter};
use super::task::Context;
use super::waits::{Door, Node};

/// The target takes no more events: it has ended or was told to. The event comes back.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the target takes no more events: it has ended")]
pub struct Ended<T>(pub T);

/// Without the event, so that a send can be unwrapped whatever is sent.
impl<T> fmt::Debug for Ended<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ended(..)")
    }
}

/// Where [`enqueue_to`](super::ContextCx::enqueue_to) can send events of type `T` to: a context, or the input
/// of a query. Implemented by Mizzle's own types only.
pub trait Target<T>: sealed::Target<T> {}

impl<T, X: sealed::Target<T>> Target<T> for X {}

pub(super) mod sealed {
    use super::{Door, Node, Refusal, TaskRef};
    use std::sync::Arc;

    /// What a target has to do.
    #[expect(private_interfaces, reason = "the trait is sealed")]
    pub trait Target<T> {
        /// Itself, to be kept while an event waits for it.
        type Kept: Target<T, Packed = Self::Packed> + Send + 'static;

        /// An event as it is offered, again and again if need be.
        type Packed: Send + 'static;

        fn kept(&self) -> Self::Kept;

        /// May call functions of the user's.
        fn pack(&self, event: T) -> Self::Packed;

        fn unpack(packed: Self::Packed) -> T;

        /// Takes an event, if there is room. Whoever is to be notified then.
        fn offer(&self, packed: Self::Packed) -> Result<Option<TaskRef>, (Refusal, Self::Packed)>;

        /// Registers `task`, which is `node` among the waits, to be woken when there is room. `false`: there is now.
        fn wait(&self, task: &TaskRef, node: Node) -> bool;

        fn door(&self) -> Arc<dyn Door>;
    }
}

#[expect(private_interfaces, reason = "the trait is sealed")]
impl<E: Send + Sync + 'static> sealed::Target<E> for ContextHandle<E> {
    type Kept = Self;
    type Packed = E;

    fn kept(&self) -> Self {
        self.clone()
    }

    #[inline]
    fn pack(&self, event: E) -> E {
        event
    }

    #[inline]
    fn unpack(event: E) -> E {
        event
    }

    #[inline]
    fn offer(&self, event: E) -> Result<Option<TaskRef>, (Refusal, E)> {
        self.0.offer(event)
    }

    fn wait(&self, task: &TaskRef, node: Node) -> bool {
        self.0.inbox().wait(Waiter::Task(task.clone(), node))
    }

    fn door(&self) -> Arc<dyn Door> {
        self.0.clone()
    }
}

impl<E: Send + Sync + 'static> Context<E> {
    /// Takes an event, if there is room. Whoever is to be notified then.
    #[inline]
    pub(super) fn offer(self: &Arc<Self>, event: E) -> Result<Option<TaskRef>, (Refusal, E)> {
        match self.inbox().put(Letter::Own(event)) {
            Ok(true) => Ok(Some(self.clone())),
            Ok(false) => Ok(None),
            Err((refusal, Letter::Own(event))) => Err((refusal, event)),
            Err(_) => unreachable!("it was put in as its own"),
        }
    }
}

#[expect(private_interfaces, reason = "the trait is sealed")]
impl<T: Send + 'static> sealed::Target<T> for PushHandle<T> {
    type Kept = Self;
    type Packed = Event<T>;

    fn kept(&self) -> Self {
        self.clone()
    }

    fn pack(&self, event: T) -> Event<T> {
        self.event(event)
    }

    fn unpack(event: Event<T>) -> T {
        event.value
    }

    fn offer(&self, event: Event<T>) -> Result<Option<TaskRef>, (Refusal, Event<T>)> {
        self.offer_one(event).map(|()| None)
    }

    fn wait(&self, task: &TaskRef, _: Node) -> bool {
        self.wait_as(task)
    }

    fn door(&self) -> Arc<dyn Door> {
        self.line()
    }
}

impl<E: Send + Sync + 'static> Context<E> {
    /// Takes an event from outside; waits while there is no room. It comes back if no more is let in.
    pub(super) fn send(self: &Arc<Self>, mut letter: Letter<E>) -> Result<(), Letter<E>> {
        loop {
            match self.inbox().put(letter) {
                Ok(true) => {
                    (self.clone() as TaskRef).notify();
                    return Ok(());
                }
                Ok(false) => return Ok(()),
                Err((Refusal::Closed, letter)) => return Err(letter),
                Err((Refusal::Full, back)) => letter = back,
            }
            let parker = Arc::new(Parker::default());
            if self.inbox().wait(Waiter::Thread(parker.clone())) {
                Pool::block(|timeout| parker.park_for(timeout));
            }
        }
    }
}

/// An event in an outbox.
pub(super) trait Parcel: Send {
    /// Sends it, if there is room. Not to be called again once it is sent or lost.
    fn send(&mut self) -> Sent;

    /// See [`sealed::Target::wait`].
    fn wait(&self, task: &TaskRef, node: Node) -> bool;

    fn door(&self) -> Arc<dyn Door>;
}

/// What became of a parcel.
pub(super) enum Sent {
    /// It has arrived; who is to be notified.
    Arrived(Option<TaskRef>),
    /// There is no room for it.
    Full,
    /// Its target has ended.
    Lost,
}

/// An event for a target.
pub(super) struct ParcelTo<T, X: sealed::Target<T>> {
    target: X,
    packed: Option<X::Packed>,
}

impl<T, X: sealed::Target<T>> ParcelTo<T, X> {
    pub(super) fn new(target: X, packed: X::Packed) -> Self {
        Self { target, packed: Some(packed) }
    }
}

impl<T: Send + 'static, X: sealed::Target<T> + Send + 'static> Parcel for ParcelTo<T, X> {
    fn send(&mut self) -> Sent {
        let packed = self.packed.take().expect("a parcel is sent once");
        match self.target.offer(packed) {
            Ok(task) => Sent::Arrived(task),
            Err((Refusal::Closed, _)) => Sent::Lost,
            Err((Refusal::Full, packed)) => {
                self.packed = Some(packed);
                Sent::Full
            }
        }
    }

    fn wait(&self, task: &TaskRef, node: Node) -> bool {
        self.target.wait(task, node)
    }

    fn door(&self) -> Arc<dyn Door> {
        self.target.door()
    }
}
