//! The special queue, and the task that takes events from it to the public contexts.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::operator::contained;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::super::engine::Shared;
use super::super::pool::{Pool, Task, TaskRef};
use super::super::port::Refusal;
use super::super::token::{Queue, Token};
use super::inbox::Letter;
use super::target::sealed;
use super::task::Context;
use super::waits::{Door, Node, Waits};

/// At this depth there is a warning, and at each double of it.
const DEEP: usize = 10_000;
/// So many times an event is put into a context's inbox before others get their turn.
const PER_RUN: usize = 16 * 1024;

/// See the module's README, "The mover".
pub(super) struct Special<E> {
    id: u64,
    engine: Arc<Shared>,
    token: Token,
    queue: Mutex<Incoming<E>>,
    /// Events that a public context has yet to get. Raised under the queue's lock.
    depth: AtomicUsize,
    bound: AtomicUsize,
    unheard: AtomicU64,
    warnings: AtomicU64,
    /// Belongs to the holder of the token.
    list: Mutex<List<E>>,
    this: Weak<Self>,
}

/// What the mover has not looked at.
struct Incoming<E> {
    events: VecDeque<Arc<E>>,
    /// Contexts, and the first event that is for them.
    joined: Vec<Cursor<E>>,
    /// How many events have been enqueued.
    next: u64,
    /// Contexts that wait for room here.
    waiters: Vec<TaskRef>,
    warn_at: usize,
    /// Public contexts that have ended since those were last swept out.
    ended: usize,
}

/// Events that somebody has yet to get.
struct List<E> {
    events: VecDeque<Arc<E>>,
    /// The number of the first.
    first: u64,
    /// Those who have got all.
    abreast: Vec<Cursor<E>>,
    behind: VecDeque<Cursor<E>>,
}

struct Cursor<E> {
    context: Arc<Context<E>>,
    /// The number of the event that it gets next.
    at: u64,
}

/// How far a context was brought.
enum Brought {
    /// It has got all.
    Abreast,
    /// It is full, and will say when it has room.
    Full,
    /// There is more for it, but others are to get their turn.
    Later,
    /// It takes no more.
    Gone,
}

impl<E: Send + Sync + 'static> Special<E> {
    pub(super) fn new(engine: &Arc<Shared>) -> Arc<Self> {
        let queue = Incoming {
            events: VecDeque::new(),
            joined: Vec::new(),
            next: 0,
            waiters: Vec::new(),
            warn_at: DEEP,
            ended: 0,
        };
        let (abreast, behind) = (Vec::new(), VecDeque::new());
        let list = List { events: VecDeque::new(), first: 0, abreast, behind };
        Arc::new_cyclic(|this| Self {
            id: engine.fresh_id(),
            engine: engine.clone(),
            token: Token::default(),
            queue: Mutex::new(queue),
            depth: AtomicUsize::new(0),
            bound: AtomicUsize::new(usize::MAX),
            unheard: AtomicU64::new(0),
            warnings: AtomicU64::new(0),
            list: Mutex::new(list),
            this: this.clone(),
        })
    }

    /// `context` gets what is enqueued from now on.
    pub(super) fn join(&self, context: Arc<Context<E>>) {
        let mut queue = self.queue.lock();
        let at = queue.next;
        queue.joined.push(Cursor { context, at });
    }

    /// A public context has ended: what waits for it alone need not.
    pub(super) fn left(&self) {
        self.queue.lock().ended += 1;
        self.notify();
    }

    /// All contexts have ended: lets go of everything.
    pub(super) fn clear(&self) {
        let mut list = self.list.lock();
        let mut queue = self.queue.lock();
        let (events, joined) =
            (std::mem::take(&mut queue.events), std::mem::take(&mut queue.joined));
        let waiters = std::mem::take(&mut queue.waiters);
        drop(queue);
        let (abreast, behind) =
            (std::mem::take(&mut list.abreast), std::mem::take(&mut list.behind));
        let old = std::mem::take(&mut list.events);
        drop(list);
        Waits::get().leave(self.node());
        drop((joined, abreast, behind, waiters));
        if let Some(message) = contained(|| drop((events, old))) {
            tracing::warn!("panicked when an enqueued event was dropped: {message}");
        }
    }

    fn notify(&self) {
        self.task().into_iter().for_each(|task| task.notify());
    }

    /// Bounds it to so many events.
    pub(super) fn bound(&self, events: usize) {
        let mut queue = self.queue.lock();
        self.bound.store(events, Ordering::SeqCst);
        Waits::get().leave(self.node());
        let waiters = std::mem::take(&mut queue.waiters);
        drop(queue);
        waiters.into_iter().for_each(|task| task.wake());
        // It now has something to say if contexts are full.
        self.notify();
    }

    fn task(&self) -> Option<TaskRef> {
        self.this.upgrade().map(|this| this as TaskRef)
    }

    pub(super) fn depth(&self) -> usize {
        self.depth.load(Ordering::SeqCst)
    }

    pub(super) fn enqueued(&self) -> u64 {
        self.queue.lock().next
    }

    pub(super) fn unheard(&self) -> u64 {
        self.unheard.load(Ordering::Relaxed)
    }

    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Relaxed)
    }

    fn is_bounded(&self) -> bool {
        self.bound.load(Ordering::SeqCst) != usize::MAX
    }

    fn warn_if_deep(&self, depth: usize, queue: &mut Incoming<E>) {
        if depth >= queue.warn_at {
            queue.warn_at = 2 * depth;
            self.warnings.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(depth, "the special queue is deep: a public context is far behind");
        }
    }

    /// Moves for a while; the caller has moved the token to *running*. Whether there is more to do now.
    pub(super) fn turn(&self) -> bool {
        let list = &mut *self.list.lock();
        self.take_in(list);
        if self.is_bounded() {
            Waits::get().leave(self.node());
        }
        let (mut left, mut more) = (PER_RUN, false);
        for _ in 0..list.behind.len() {
            let Some(mut cursor) = list.behind.pop_front() else { break };
            match self.bring(list, &mut cursor, &mut left) {
                Brought::Abreast => list.abreast.push(cursor),
                Brought::Full => list.behind.push_back(cursor),
                Brought::Gone => {}
                Brought::Later => {
                    list.behind.push_back(cursor);
                    more = true;
                }
            }
        }
        self.let_go(list);
        more
    }

    fn take_in(&self, list: &mut List<E>) {
        let mut queue = self.queue.lock();
        let (new, joined) = (std::mem::take(&mut queue.events), std::mem::take(&mut queue.joined));
        let sweeps = queue.ended > list.abreast.len() / 2;
        if sweeps {
            queue.ended = 0;
        }
        drop(queue);
        if sweeps {
            list.abreast.retain(|cursor| !cursor.context.inbox().is_closed());
        }
        if !new.is_empty() {
            list.behind.extend(list.abreast.drain(..));
        }
        list.behind.extend(joined);
        if list.behind.is_empty() {
            self.unheard.fetch_add(new.len() as u64, Ordering::Relaxed);
        }
        list.events.extend(new);
    }

    /// Puts into a context's inbox what is there for it and has room.
    fn bring(&self, list: &List<E>, cursor: &mut Cursor<E>, left: &mut usize) -> Brought {
        let Cursor { context, at } = cursor;
        let end = list.first + list.events.len() as u64;
        let waiter = self.task().expect("a mover that runs is referred to");
        let mut notify = false;
        let brought = loop {
            if *at >= end {
                break Brought::Abreast;
            }
            if *left == 0 {
                break Brought::Later;
            }
            let event = list.events[(*at - list.first) as usize].clone();
            match context.inbox().put(Letter::Shared(event)) {
                Ok(was_empty) => {
                    notify |= was_empty;
                    *at += 1;
                    *left -= 1;
                }
                Err((Refusal::Closed, _)) => break Brought::Gone,
                Err((Refusal::Full, _)) => {
                    let door: Arc<dyn Door> = context.clone();
                    let waits = !self.is_bounded() || Waits::get().enter(self.node(), &door);
                    if waits && context.inbox().mover_waits(&waiter, self.node()) {
                        break Brought::Full;
                    }
                }
            }
        };
        if notify {
            (context.clone() as TaskRef).notify();
        }
        brought
    }

    /// Lets go of what everybody has got.
    fn let_go(&self, list: &mut List<E>) {
        let end = list.first + list.events.len() as u64;
        let reached = list.behind.iter().map(|cursor| cursor.at).min().unwrap_or(end);
        let gone: Vec<_> = list.events.drain(..(reached - list.first) as usize).collect();
        list.first = reached;
        if gone.is_empty() {
            return;
        }
        let mut queue = self.queue.lock();
        self.depth.fetch_sub(gone.len(), Ordering::SeqCst);
        let waiters = if self.is_full() { Vec::new() } else { std::mem::take(&mut queue.waiters) };
        drop(queue);
        waiters.into_iter().for_each(|task| task.wake());
        // Last: they are the user's, and dropping them may panic.
        if let Some(message) = contained(|| drop(gone)) {
            tracing::warn!("panicked when an enqueued event was dropped: {message}");
        }
    }

    fn is_full(&self) -> bool {
        self.depth() >= self.bound.load(Ordering::SeqCst)
    }

    fn node(&self) -> Node {
        Node::new(&self.engine, self.id)
    }
}

impl<E: Send + Sync + 'static> Task for Special<E> {
    fn token(&self) -> &Token {
        &self.token
    }

    fn pool(&self) -> &Arc<Pool> {
        self.engine.pool()
    }

    fn run(self: Arc<Self>) {
        let more = self.turn();
        if self.token.release(more) == Queue::Now {
            Pool::offer(self);
        }
    }
}

impl<E: Send + Sync + 'static> Door for Special<E> {
    fn node(&self) -> Option<Node> {
        Some(self.node())
    }

    fn keeps_waiting(&self) -> bool {
        self.is_full()
    }

    fn grow(&self) {
        let bound = self.bound.load(Ordering::SeqCst).saturating_mul(2);
        tracing::warn!(bound, "the special queue is waited for in a circle: it has grown");
        self.warnings.fetch_add(1, Ordering::Relaxed);
        self.bound(bound);
    }
}

impl<E: Send + Sync + 'static> sealed::Target<Arc<E>> for Arc<Special<E>> {
    type Kept = Self;
    type Packed = Arc<E>;

    fn kept(&self) -> Self {
        self.clone()
    }

    fn pack(&self, event: Arc<E>) -> Arc<E> {
        event
    }

    fn unpack(event: Arc<E>) -> Arc<E> {
        event
    }

    fn offer(&self, event: Arc<E>) -> Result<Option<TaskRef>, (Refusal, Arc<E>)> {
        let mut queue = self.queue.lock();
        if self.is_full() {
            return Err((Refusal::Full, event));
        }
        let was_empty = queue.events.is_empty();
        queue.events.push_back(event);
        queue.next += 1;
        let depth = self.depth.fetch_add(1, Ordering::SeqCst) + 1;
        self.warn_if_deep(depth, &mut queue);
        Ok(was_empty.then(|| self.clone() as TaskRef))
    }

    fn wait(&self, task: &TaskRef, _: Node) -> bool {
        let mut queue = self.queue.lock();
        if !self.is_full() {
            return false;
        }
        if !queue.waiters.iter().any(|known| Arc::ptr_eq(known, task)) {
            queue.waiters.push(task.clone());
        }
        true
    }

    fn door(&self) -> Arc<dyn Door> {
        self.clone()
    }
}
