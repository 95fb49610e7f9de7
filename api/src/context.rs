//! Contexts: events handled one at a time, in an exact order.
//!
//! A *context* has an input queue, a state of its own, and [`Handlers`]. It handles one event after the other,
//! each completely; contexts run beside each other, on the engine's workers. Its order is that of arrival:
//! no watermark, no reordering.
//!
//! A handler can
//! - [`route`](ContextCx::route) an event to the *front* of its own input queue,
//! - [`enqueue`](ContextCx::enqueue) one for all *public* contexts,
//! - [`enqueue_to`](ContextCx::enqueue_to) a context it has a [handle](ContextHandle) of, or the input of a
//!   query (a [`PushHandle`](crate::PushHandle)),
//! - set a timer ([`after`](ContextCx::after)), start contexts ([`context`](ContextCx::context)), and end its
//!   own ([`end`](ContextCx::end)).
//!
//! Events routed while one event is handled form a block, in the order in which they were routed, ahead of
//! everything that waits. So an event and all that comes of it by routing is one run:
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use mizzle::Engine;
//! use mizzle::context::Handlers;
//!
//! let engine = Engine::new()?;
//! let handlers = Handlers::new().on(
//!     |name: &&'static str| Some(name),
//!     |seen: &mut Arc<Mutex<Vec<&'static str>>>, name, cx| {
//!         seen.lock().unwrap().push(*name);
//!         match *name {
//!             "order" => {
//!                 cx.route("check");
//!                 cx.route("book");
//!             }
//!             "check" => cx.route("look up"),
//!             _ => {}
//!         }
//!     },
//! );
//! let seen = Arc::new(Mutex::new(Vec::new()));
//! let main = engine.context("main").public().start(handlers, seen.clone());
//! main.send("order")?;
//! main.send("next order")?;
//! main.drain();
//! main.wait();
//! assert_eq!(*seen.lock().unwrap(), ["order", "check", "look up", "book", "next order"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Many contexts can share their handlers: give [`start`](ContextBuilder::start) an `Arc` of them. An event
//! type is any one that is `Send + Sync`: an enum of the application, with [`variant!`](crate::variant) to select by, or
//! [`AnyEvent`] where each kind of event is a type of its own.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

pub use mizzle_engine::runtime::{
    ContextBuilder, ContextCx, ContextHandle, ContextId, ContextStats, Contexts, ContextsStats,
    Ended, Handlers, Target, TimerId,
};

use mizzle_engine::runtime::{EngineError, Settings};

/// A selection for [`Handlers`]: the content of a variant that has one field; with `{}` behind the variant, the event
/// itself, of a variant that has none.
///
/// ```
/// use mizzle::context::Handlers;
///
/// enum Event {
///     Deposit(u32),
///     Close,
/// }
/// let handlers = Handlers::new()
///     .on(mizzle::variant!(Event::Deposit), |balance: &mut u32, amount, _| *balance += amount)
///     .on(mizzle::variant!(Event::Close {}), |_, _, cx| cx.end());
/// ```
#[macro_export]
macro_rules! variant {
    ($variant:path {}) => {
        |event| match event {
            $variant {} => ::core::option::Option::Some(event),
            #[allow(unreachable_patterns)]
            _ => ::core::option::Option::None,
        }
    };
    ($variant:path) => {
        |event| match event {
            $variant(content) => ::core::option::Option::Some(content),
            #[allow(unreachable_patterns)]
            _ => ::core::option::Option::None,
        }
    };
}

/// An event of any type, for applications whose kinds of events are types of their own.
///
/// ```
/// use mizzle::Engine;
/// use mizzle::context::{AnyEvent, Handlers};
///
/// struct Deposit(u32);
/// struct Close;
///
/// let handlers = Handlers::new()
///     .on(AnyEvent::get, |balance: &mut u32, deposit: &Deposit, _| *balance += deposit.0)
///     .on(AnyEvent::get, |_, _: &Close, cx| cx.end());
/// let engine = Engine::new()?;
/// let account = engine.context("account").start(handlers, 0);
/// account.send(AnyEvent::new(Deposit(7)))?;
/// account.send(AnyEvent::new(Close))?;
/// assert_eq!(account.wait(), mizzle::Status::Completed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AnyEvent(Arc<dyn Any + Send + Sync>);

impl AnyEvent {
    /// An event that is `event`.
    pub fn new(event: impl Send + Sync + 'static) -> Self {
        Self(Arc::new(event))
    }

    /// What it is, if that is a `T`.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for AnyEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyEvent(..)")
    }
}

/// Contexts that run only when they are told to, for tests that go through orders of steps one by one.
///
/// Nothing runs by itself, the mover of the special queue neither. What waits
/// ([`ContextHandle::send`] to a full context, [`ContextHandle::wait`]) waits for ever here: use
/// [`try_send`](ContextHandle::try_send) and [`status`](ContextHandle::status).
///
/// ```
/// use mizzle::context::{Handlers, Stepped};
///
/// let stepped = Stepped::new();
/// let echo = Handlers::new().on(|n: &u32| (*n > 0).then_some(n), |_: &mut (), n, cx| cx.enqueue(n - 1));
/// let main = stepped.context("main").public().start(echo, ());
/// main.try_send(2)?;
/// assert_eq!(stepped.run(&main), 1);
/// assert_eq!(stepped.run(&main), 0, "what it has enqueued is yet to be moved");
/// assert!(stepped.move_enqueued::<u32>());
/// assert_eq!(stepped.run(&main), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Stepped(mizzle_engine::runtime::Stepped);

impl Default for Stepped {
    fn default() -> Self {
        Self::new()
    }
}

impl Stepped {
    /// With the system's clock.
    ///
    /// # Panics
    ///
    /// If the thread that waits for timers cannot be started.
    pub fn new() -> Self {
        Self::with_settings(Settings::default()).expect("a thread can be started")
    }

    /// With a clock of one's own: a [`ManualClock`](crate::time::ManualClock).
    ///
    /// # Panics
    ///
    /// If the thread that waits for timers cannot be started.
    pub fn with_clock(clock: impl crate::time::Clock) -> Self {
        let settings = Settings { clock: Arc::new(clock), ..Settings::default() };
        Self::with_settings(settings).expect("a thread can be started")
    }

    fn with_settings(settings: Settings) -> Result<Self, EngineError> {
        Ok(Self(mizzle_engine::runtime::Stepped::new(settings)?))
    }

    /// A context that is about to be started.
    pub fn context(&self, name: &str) -> ContextBuilder<'_> {
        self.0.context(name)
    }

    /// What the contexts that handle events of type `E` have in common.
    pub fn contexts<E: Send + Sync + 'static>(&self) -> Contexts<E> {
        self.0.contexts()
    }

    /// Has `context` handle up to `events` events, fewer if it has no more or must wait. How many it
    /// handled.
    pub fn step<E: Send + Sync + 'static>(
        &self,
        context: &ContextHandle<E>,
        events: usize,
    ) -> usize {
        self.0.step(context, events)
    }

    /// Has `context` handle all it has, and all that it routes meanwhile, unless it must wait. How many events
    /// it handled.
    pub fn run<E: Send + Sync + 'static>(&self, context: &ContextHandle<E>) -> usize {
        self.0.run(context)
    }

    /// Has the mover take what is in the special queue of events of type `E` to the public contexts that have
    /// room. `false`: it had nothing to do.
    pub fn move_enqueued<E: Send + Sync + 'static>(&self) -> bool {
        self.0.move_enqueued::<E>()
    }
}
