//! All contexts of an engine that handle one type of events.

use std::any::{Any, TypeId};
use std::sync::{Arc, Weak};

use dashmap::DashMap;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::super::engine::Shared;
use super::super::pool::Pool;
use super::handle::{ContextHandle, ContextId, Terms};
use super::handlers::Life;
use super::inbox::Letter;
use super::mover::Special;
use super::task::Context;

/// See [`Contexts`].
pub(super) struct Realm<E> {
    engine: Arc<Shared>,
    contexts: DashMap<ContextId, Kept<E>>,
    publics: Mutex<Publics<E>>,
    special: Arc<Special<E>>,
    warnings: AtomicU64,
    /// The engine is being dropped: what is started is cancelled at once.
    closed: AtomicBool,
}

impl<E> Realm<E> {
    /// Nobody could reach the context any more.
    pub(super) fn forget(&self, id: ContextId) {
        self.contexts.remove(&id);
    }
}

/// A context that is not over.
enum Kept<E> {
    /// A private one: whoever can send to it keeps it.
    Weak(Weak<Context<E>>),
    /// A public one, or one with timers.
    Strong(Arc<Context<E>>),
}

impl<E> Kept<E> {
    fn get(&self) -> Option<Arc<Context<E>>> {
        match self {
            Kept::Weak(context) => context.upgrade(),
            Kept::Strong(context) => Some(context.clone()),
        }
    }
}

/// The public contexts, in the order in which they were started.
struct Publics<E> {
    all: Vec<Arc<Context<E>>>,
    /// The same, for those who send to each without the lock.
    copy: Option<Arc<[Arc<Context<E>>]>>,
    /// How many of them have ended.
    ended: usize,
}

/// The realms of an engine, by type of event.
#[derive(Default)]
pub(in super::super) struct Realms(DashMap<TypeId, Entry>);

struct Entry {
    typed: Arc<dyn Any + Send + Sync>,
    realm: Arc<dyn Close>,
}

/// A realm, whatever its type of event.
trait Close: Send + Sync {
    /// Ends all contexts, and waits until they are over.
    fn close(&self);

    /// Tells all contexts to end, and those too that are yet to be started.
    fn cancel(&self);
}

impl Realms {
    /// Tells all contexts to end.
    pub(in super::super) fn cancel(&self) {
        self.0.iter().for_each(|entry| entry.realm.cancel());
    }

    /// Ends all contexts, and waits until they are over.
    pub(in super::super) fn close(&self) {
        loop {
            let realms: Vec<_> = self.0.iter().map(|entry| *entry.key()).collect();
            if realms.is_empty() {
                return;
            }
            // A context that is yet to end may open another realm, and one may wait for one of another.
            self.cancel();
            for id in realms {
                let entry = self.0.remove(&id);
                entry.into_iter().for_each(|(_, entry)| entry.realm.close());
            }
        }
    }
}

impl<E: Send + Sync + 'static> Realm<E> {
    /// The one of `engine`.
    pub(super) fn of(engine: &Arc<Shared>) -> Arc<Self> {
        let entry = engine.realms().0.entry(TypeId::of::<E>()).or_insert_with(|| {
            let realm = Arc::new(Self {
                engine: engine.clone(),
                contexts: DashMap::new(),
                publics: Mutex::new(Publics { all: Vec::new(), copy: None, ended: 0 }),
                special: Special::new(engine),
                warnings: AtomicU64::new(0),
                closed: AtomicBool::new(false),
            });
            Entry { typed: realm.clone(), realm }
        });
        entry.typed.clone().downcast().expect("a realm is found by its type")
    }

    pub(super) fn start(
        self: &Arc<Self>,
        terms: Terms,
        capacity: usize,
        life: Box<dyn Life<E>>,
    ) -> Arc<Context<E>> {
        let id = ContextId(self.engine.fresh_id());
        let public = terms.public;
        let context = Context::new(id, terms, capacity, self.clone(), life);
        if public {
            self.contexts.insert(id, Kept::Strong(context.clone()));
            let mut publics = self.publics.lock();
            publics.all.push(context.clone());
            publics.copy = None;
            drop(publics);
            self.special.join(context.clone());
        } else {
            self.contexts.insert(id, Kept::Weak(Arc::downgrade(&context)));
        }
        if self.closed.load(Ordering::SeqCst) {
            context.cancel();
        }
        context
    }

    /// The context has timers: it stays even if nobody can send to it.
    pub(super) fn keep(&self, id: ContextId, context: &Weak<Context<E>>) {
        let context = context.upgrade().expect("a context that runs is referred to");
        self.contexts.insert(id, Kept::Strong(context));
    }

    /// It has none any more.
    pub(super) fn release(&self, id: ContextId, context: &Weak<Context<E>>) {
        if context.upgrade().is_some_and(|context| !context.terms().public) {
            // Dropped when the map is let go of.
            let _kept = self.contexts.insert(id, Kept::Weak(context.clone()));
        }
    }

    /// The context is over.
    pub(super) fn ended(&self, id: ContextId) {
        let kept = self.contexts.remove(&id);
        if kept.as_ref().and_then(|(_, kept)| kept.get()).is_some_and(|it| it.terms().public) {
            let mut publics = self.publics.lock();
            publics.ended += 1;
            if publics.ended > publics.all.len() / 2 {
                publics.ended = 0;
                publics.all.retain(|context| !context.inbox().is_closed());
                publics.copy = None;
            }
            drop(publics);
            self.special.left();
        }
    }

    /// A warning was given.
    pub(super) fn warned(&self) {
        self.warnings.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn engine(&self) -> &Arc<Shared> {
        &self.engine
    }

    pub(super) fn special(&self) -> &Arc<Special<E>> {
        &self.special
    }

    fn all(&self) -> Vec<Arc<Context<E>>> {
        self.contexts.iter().filter_map(|entry| entry.value().get()).collect()
    }

    fn publics(&self) -> Arc<[Arc<Context<E>>]> {
        let Publics { all, copy, .. } = &mut *self.publics.lock();
        copy.get_or_insert_with(|| all.as_slice().into()).clone()
    }
}

impl<E: Send + Sync + 'static> Close for Realm<E> {
    fn close(&self) {
        loop {
            self.cancel();
            let contexts = self.all();
            if contexts.is_empty() {
                break;
            }
            contexts.iter().for_each(|context| Pool::block(|timeout| context.wait(timeout)));
        }
        // These refer to contexts, and they to this.
        self.special.clear();
        *self.publics.lock() = Publics { all: Vec::new(), copy: None, ended: 0 };
    }

    fn cancel(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.all().iter().for_each(|context| context.cancel());
    }
}

/// The contexts of an engine that handle events of type `E`: what they have in common.
pub struct Contexts<E>(Arc<Realm<E>>);

impl<E> Clone for Contexts<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What the contexts of one type of events have counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextsStats {
    /// Contexts that are not over.
    pub contexts: usize,
    /// Events in the special queue that a public context has yet to get.
    pub special: usize,
    /// Events that were enqueued.
    pub enqueued: u64,
    /// Of these, those that came when there was no public context.
    pub unheard: u64,
    /// Warnings: an inbox that has grown because of a circle of waits, or a long special queue.
    pub warnings: u64,
}

impl<E: Send + Sync + 'static> Contexts<E> {
    pub(in super::super) fn of(engine: &Arc<Shared>) -> Self {
        Self(Realm::of(engine))
    }

    /// Puts `event` at the end of the input queue of every public context, those first that were started
    /// first; waits for each that is full. How many got it. Handlers use
    /// [`enqueue`](super::ContextCx::enqueue) instead, which never waits.
    pub fn publish(&self, event: E) -> usize {
        let event = Arc::new(event);
        let publics = self.0.publics();
        let heard =
            publics.iter().filter(|context| context.send(Letter::Shared(event.clone())).is_ok());
        heard.count()
    }

    /// Bounds the special queue: a context that enqueues when `events` are in it waits as for a full target.
    /// At least 1; `None`, as at first, is no bound.
    pub fn bound_special(&self, events: Option<usize>) {
        self.0.special.bound(events.map_or(usize::MAX, |events| events.max(1)));
    }

    /// The contexts that are not over, in the order in which they were started.
    pub fn list(&self) -> Vec<ContextHandle<E>> {
        let mut all = self.0.all();
        all.sort_by_key(|context| context.id);
        all.into_iter().map(ContextHandle).collect()
    }

    /// What they have counted together.
    pub fn stats(&self) -> ContextsStats {
        let special = &self.0.special;
        ContextsStats {
            contexts: self.0.contexts.len(),
            special: special.depth(),
            enqueued: special.enqueued(),
            unheard: special.unheard(),
            warnings: self.0.warnings.load(Ordering::Relaxed) + special.warnings(),
        }
    }

    /// The mover of the special queue, for tests that run it by hand.
    pub(super) fn mover(&self) -> &Arc<Special<E>> {
        &self.0.special
    }
}
