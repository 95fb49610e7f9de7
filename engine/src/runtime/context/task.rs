//! A context as the workers see it.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::operator::{contained, panic_message};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

use super::super::chain::BATCH;
use super::super::engine::Shared;
use super::super::outcome::{End as Ending, Outcome, Status, Wish};
use super::super::pool::{Pool, Task, TaskRef};
use super::super::query::QueryFailure;
use super::super::token::{Queue, Token};
use super::handle::{ContextId, ContextStats, Terms};
use super::handlers::Life;
use super::inbox::{Inbox, Letter, Waiter};
use super::realm::Realm;
use super::target::Sent;
use super::turn::{ContextCx, Counted, End, Entry, Outbox, Run, Timers};
use super::waits::{Door, Node, Waits};

/// How long a run may take before others get their turn.
const TURN: Duration = Duration::from_micros(500);
/// A stack with more room than this is given back when it is empty at the end of a run.
const SMALL_STACK: usize = 8;
/// So many events are handled between two looks at the clock, at most.
const LOOK_EVERY: u64 = 64;

/// A context. The state's type is behind `Life`.
pub(super) struct Context<E> {
    pub(super) id: ContextId,
    terms: Terms,
    realm: Arc<Realm<E>>,
    token: Token,
    inbox: Inbox<E>,
    held: Mutex<Held<E>>,
    wish: Wish,
    counts: Counts,
    outcome: Outcome,
    this: Weak<Self>,
}

/// Belongs to the holder of the token.
struct Held<E> {
    life: Option<Box<dyn Life<E>>>,
    /// What was routed, next on top.
    stack: Vec<Entry<E>>,
    /// Out of the inbox, next in front.
    taken: VecDeque<Letter<E>>,
    outbox: Outbox,
    timers: Option<Box<Timers<E>>>,
    /// The earliest time at which it is certain to be looked at.
    armed: Option<Duration>,
    /// Whether it is kept though nobody may be able to send to it.
    kept: bool,
    /// Its own code has ended it: it is over when what it has sent has gone.
    ending: bool,
}

/// See [`ContextStats`]. Written by whoever runs the context, once per run.
#[derive(Default)]
struct Counts {
    input: AtomicU64,
    routed: AtomicU64,
    enqueued: AtomicU64,
    sent: AtomicU64,
    undelivered: AtomicU64,
    dropped: AtomicU64,
}

/// How a run ends.
enum Next {
    /// There is more to do.
    Again,
    /// There is nothing to do.
    Rest,
    /// Something in the outbox finds no room.
    Wait,
    /// The context is over.
    Over,
}

impl<E: Send + Sync + 'static> Context<E> {
    pub(super) fn new(
        id: ContextId,
        terms: Terms,
        capacity: usize,
        realm: Arc<Realm<E>>,
        life: Box<dyn Life<E>>,
    ) -> Arc<Self> {
        let (stack, taken) = (Vec::new(), VecDeque::new());
        let held = Held {
            life: Some(life),
            stack,
            taken,
            outbox: None,
            timers: None,
            armed: None,
            kept: false,
            ending: false,
        };
        Arc::new_cyclic(|this| Self {
            id,
            inbox: Inbox::new(capacity),
            terms,
            realm,
            token: Token::default(),
            held: Mutex::new(held),
            wish: Wish::default(),
            counts: Counts::default(),
            outcome: Outcome::default(),
            this: this.clone(),
        })
    }

    /// Handles up to `budget` events; the caller has moved the token to *running*, and this leaves it. How many
    /// were handled.
    pub(super) fn step(self: &Arc<Self>, budget: u64) -> u64 {
        let mut held = self.held.lock();
        let mut run = Run::default();
        let work = AssertUnwindSafe(|| self.work(&mut held, &mut run, budget));
        let next = catch_unwind(work).unwrap_or_else(|payload| {
            self.panicked(&run, payload);
            Next::Over
        });
        match run.end {
            Some(End::TooDeep) => {
                let most = self.terms.max_depth;
                self.fail(&run, format!("it routed an event more than {most} deep (`max_depth`)"));
            }
            Some(End::Failed(reason)) => self.fail(&run, reason.to_owned()),
            None => {}
        }
        self.account(&run.counts);
        match next {
            Next::Over => self.finish(&mut held),
            _ => self.arm(&mut held),
        }
        if held.stack.capacity() > SMALL_STACK && held.stack.is_empty() {
            held.stack = Vec::new();
        }
        drop(held);
        let queue = match next {
            Next::Again => self.token.release(true),
            Next::Rest => self.token.release(false),
            Next::Wait => self.token.wait(),
            Next::Over => Queue::No,
        };
        Pool::tell(queue == Queue::No);
        if queue == Queue::Now {
            Pool::offer(self.clone());
        }
        run.counts.handled
    }

    fn work(self: &Arc<Self>, held: &mut Held<E>, run: &mut Run, budget: u64) -> Next {
        self.take_timers(held);
        let (mut started, mut knows_time) = (None, false);
        loop {
            if self.wish.is(Ending::Cancelled) || run.end.is_some() {
                return Next::Over;
            }
            if held.outbox.is_some() && !self.send_on(held) {
                return Next::Wait;
            }
            if held.ending {
                return Next::Over;
            }
            if run.counts.handled >= budget || self.is_time_up(held, run, &mut started) {
                return Next::Again;
            }
            let (depth, letter) = match held.stack.pop() {
                Some(Entry::Routed(depth, event)) => (depth, Letter::Own(event)),
                Some(Entry::Done(depth, letter)) => {
                    self.complete(held, run, depth, &letter);
                    continue;
                }
                // Between two events and what they have routed: never within.
                None if !std::mem::replace(&mut knows_time, true) => {
                    self.tell_time(held, run);
                    continue;
                }
                None => match self.next_input(held, run) {
                    Some(letter) => (0, letter),
                    None if self.wish.is(Ending::Drained) && self.inbox.is_settled() => {
                        return Next::Over;
                    }
                    None => return Next::Rest,
                },
            };
            // They need not wait until this one has handled its next event.
            Pool::tell(false);
            run.counts.handled += 1;
            self.handle(held, run, depth, letter);
        }
    }

    /// Looks at the clock after one event, two, four, and so on, then every so often.
    #[inline]
    fn is_time_up(&self, held: &Held<E>, run: &Run, started: &mut Option<Duration>) -> bool {
        let handled = run.counts.handled;
        let looks = handled.is_power_of_two() || handled.is_multiple_of(LOOK_EVERY);
        let has_more = !held.stack.is_empty() || !held.taken.is_empty();
        if handled == 0 || !looks || !has_more || self.engine().workers() == 0 {
            return false;
        }
        let now = self.engine().monotonic();
        now.saturating_sub(*started.get_or_insert(now)) >= TURN
    }

    #[inline]
    fn next_input(&self, held: &mut Held<E>, run: &mut Run) -> Option<Letter<E>> {
        if held.taken.is_empty() {
            self.inbox.take(&mut held.taken);
        }
        let letter = held.taken.pop_front()?;
        if !matches!(letter, Letter::Timed(_)) && self.inbox.begun() {
            self.wake(self.inbox.woken());
        }
        run.counts.input += 1;
        Some(letter)
    }

    #[inline]
    fn handle(self: &Arc<Self>, held: &mut Held<E>, run: &mut Run, depth: u32, letter: Letter<E>) {
        let base = held.stack.len();
        let (life, mut cx) = self.turn(held, run, depth);
        let is_awaited = life.handle(&letter, &mut cx);
        self.handled(held, run, base);
        if is_awaited {
            held.stack.insert(base, Entry::Done(depth, letter));
        }
    }

    fn complete(self: &Arc<Self>, held: &mut Held<E>, run: &mut Run, depth: u32, event: &E) {
        let base = held.stack.len();
        let (life, mut cx) = self.turn(held, run, depth);
        life.completed(event, &mut cx);
        self.handled(held, run, base);
    }

    /// Handlers have run, before which the stack held so much.
    #[inline]
    fn handled(&self, held: &mut Held<E>, run: &mut Run, base: usize) {
        if run.end.is_none() {
            // Else it is to blame.
            run.at = None;
        }
        held.stack[base..].reverse();
        if std::mem::take(&mut run.wants_end) {
            held.ending = true;
            self.wake(self.inbox.seal());
        }
    }

    #[inline]
    fn turn<'a>(
        self: &'a Arc<Self>,
        held: &'a mut Held<E>,
        run: &'a mut Run,
        depth: u32,
    ) -> (&'a mut dyn Life<E>, ContextCx<'a, E>) {
        let Held { life, stack, outbox, timers, .. } = held;
        let life = life.as_mut().expect("a context that runs is not over");
        (&mut **life, ContextCx { context: self, stack, outbox, timers, run, depth: depth + 1 })
    }

    /// Sends what is in the outbox. `false`: some of it has to wait.
    #[cold]
    fn send_on(&self, held: &mut Held<E>) -> bool {
        let (waits, node) = (Waits::get(), self.node());
        while let Some(outbox) = &mut held.outbox
            && let Some(parcel) = outbox.front_mut()
        {
            match parcel.send() {
                Sent::Arrived(task) => task.into_iter().for_each(Pool::hold_back),
                Sent::Lost => self.counts.add(|counts| &counts.undelivered, 1),
                Sent::Full => {
                    // It waits for one at a time.
                    waits.leave(node);
                    if waits.enter(node, &parcel.door()) && parcel.wait(&self.task(), node) {
                        return false;
                    }
                    // There is room now.
                    continue;
                }
            }
            outbox.pop_front();
        }
        held.outbox = None;
        waits.leave(node);
        true
    }

    /// Timers that are due put their events in.
    fn take_timers(&self, held: &mut Held<E>) {
        let Some(timers) = &mut held.timers else { return };
        let now = self.engine().monotonic();
        while let Some(event) = timers.pop_due(now) {
            if self.inbox.put_anyway(Letter::Timed(event)).is_none() {
                self.counts.add(|counts| &counts.dropped, 1);
            }
        }
    }

    /// Patterns hear of the time.
    fn tell_time(self: &Arc<Self>, held: &mut Held<E>, run: &mut Run) {
        let life = held.life.as_ref().expect("a context that runs is not over");
        let Some(due) = life.due() else { return };
        let now = self.engine().settings().clock.now();
        if due > now {
            return;
        }
        let base = held.stack.len();
        let (life, mut cx) = self.turn(held, run, 0);
        life.clock(now, &mut cx);
        self.handled(held, run, base);
    }

    /// Sees to it that the context is looked at when its next timer or pattern is due, and is not let go of
    /// before.
    fn arm(&self, held: &mut Held<E>) {
        let by_pattern = held.life.as_ref().and_then(|life| life.due());
        let by_pattern = by_pattern.map(|due| self.engine().monotonic_at(due));
        let by_timer = held.timers.as_ref().and_then(|timers| timers.next());
        let due = by_timer.into_iter().chain(by_pattern).min();
        if held.kept != due.is_some() {
            held.kept = due.is_some();
            if held.kept {
                self.realm.keep(self.id, &self.this);
            } else {
                held.timers = None;
                self.realm.release(self.id, &self.this);
            }
        }
        let Some(due) = due else { return };
        // What was armed for something that is not to come any more still comes.
        let now = self.engine().monotonic();
        if held.armed.is_none_or(|armed| due < armed || armed <= now) {
            held.armed = Some(due);
            let this: Weak<dyn Task> = self.this.clone();
            self.engine().arm(due, this);
        }
    }

    fn panicked(&self, run: &Run, payload: Box<dyn Any + Send>) {
        self.fail(run, format!("panicked: {}", panic_message(payload)));
    }

    fn fail(&self, run: &Run, message: String) {
        let place = run.at.map_or_else(
            || "while an event was dropped".to_owned(),
            |at| format!("{}:{}:{}", at.file(), at.line(), at.column()),
        );
        let position = self.counts.input.load(Ordering::Relaxed) + run.counts.input;
        let failure = QueryFailure::at(self.terms.name(self.id), place, position, message);
        tracing::warn!(context = %self.id, %failure, "context failed");
        self.outcome.fail(failure);
    }

    fn account(&self, counted: &Counted) {
        self.counts.add(|counts| &counts.input, counted.input);
        self.counts.add(|counts| &counts.routed, counted.routed);
        self.counts.add(|counts| &counts.enqueued, counted.enqueued);
        self.counts.add(|counts| &counts.sent, counted.sent);
        self.engine().record_taken(counted.input);
    }

    /// The context is over: lets go of everything.
    fn finish(&self, held: &mut Held<E>) {
        let unsent = held.outbox.take();
        let (stack, taken) = (std::mem::take(&mut held.stack), std::mem::take(&mut held.taken));
        let timers = held.timers.take();
        let (left, woken) = self.inbox.close();
        let routed = stack.iter().filter(|entry| matches!(entry, Entry::Routed(..))).count();
        let timed = timers.as_ref().map_or(0, |timers| timers.len());
        let dropped = routed + taken.len() + left.len() + timed;
        self.counts.add(|counts| &counts.dropped, dropped as u64);
        let unsent_count = unsent.as_ref().map_or(0, |unsent| unsent.len());
        self.counts.add(|counts| &counts.undelivered, unsent_count as u64);
        let life = held.life.take();
        let parts = [
            contained(|| drop(unsent)),
            contained(|| drop(stack)),
            contained(|| drop((taken, left))),
            contained(|| drop(timers)),
            contained(|| drop(life)),
        ];
        for message in parts.into_iter().flatten() {
            tracing::warn!(context = %self.id, "panicked when dropped: {message}");
        }
        Waits::get().leave(self.node());
        self.wake(woken);
        self.token.finish();
        self.outcome.finish();
        self.outcome.tell();
        self.realm.ended(self.id);
    }

    /// Wakes those who have waited for room.
    #[cold]
    fn wake(&self, waiters: Vec<Waiter>) {
        for waiter in waiters {
            match waiter {
                Waiter::Task(task, node) => {
                    Waits::get().leave_one(node, self.node());
                    task.wake();
                }
                Waiter::Thread(parker) => parker.unpark(),
                Waiter::Feed(feed) => {
                    feed.refill();
                    if self.inbox.refilled() {
                        self.notify();
                    }
                }
            }
        }
    }

    pub(super) fn node(&self) -> Node {
        Node::new(self.engine(), self.id.0)
    }

    fn notify(&self) {
        if let Some(task) = self.this.upgrade() {
            (task as TaskRef).notify();
        }
    }

    fn task(&self) -> TaskRef {
        self.this.upgrade().expect("a context that runs is referred to")
    }
}

/// As it is seen from outside.
impl<E: Send + Sync + 'static> Context<E> {
    pub(super) fn inbox(&self) -> &Inbox<E> {
        &self.inbox
    }

    pub(super) fn realm(&self) -> &Arc<Realm<E>> {
        &self.realm
    }

    pub(super) fn engine(&self) -> &Arc<Shared> {
        self.realm.engine()
    }

    /// So many events that it had no room for were dropped, because it has ended.
    pub(super) fn dropped(&self, events: u64) {
        self.counts.add(|counts| &counts.dropped, events);
    }

    pub(super) fn terms(&self) -> &Terms {
        &self.terms
    }

    pub(super) fn max_depth(&self) -> u32 {
        self.terms.max_depth
    }

    pub(super) fn drain(&self) {
        // First nothing more is let in: so a run that sees the wish and an empty inbox has seen it all.
        let woken = self.inbox.seal();
        self.wish_for(Ending::Drained);
        self.wake(woken);
    }

    pub(super) fn cancel(&self) {
        let woken = self.inbox.seal();
        self.wish_for(Ending::Cancelled);
        self.wake(woken);
    }

    fn wish_for(&self, end: Ending) {
        if self.outcome.wish(&self.wish, end)
            && let Some(task) = self.this.upgrade()
        {
            (task as TaskRef).wake();
        }
    }

    pub(super) fn status(&self) -> Status {
        self.outcome.status(&self.wish)
    }

    /// Waits until it is over, at most `timeout` if there is one. `true`: it is.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> bool {
        self.outcome.wait(timeout)
    }

    pub(super) fn stats(&self) -> ContextStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let Counts { input, routed, enqueued, sent, undelivered, dropped } = &self.counts;
        ContextStats {
            input: read(input),
            routed: read(routed),
            enqueued: read(enqueued),
            sent: read(sent),
            undelivered: read(undelivered),
            dropped: read(dropped),
            depth: self.inbox.depth(),
            capacity: self.inbox.capacity(),
            state: self.token.name(),
        }
    }
}

impl Counts {
    fn add(&self, counter: impl Fn(&Self) -> &AtomicU64, more: u64) {
        if more > 0 {
            // Relaxed: sums of their own.
            counter(self).fetch_add(more, Ordering::Relaxed);
        }
    }
}

impl<E: Send + Sync + 'static> Task for Context<E> {
    fn token(&self) -> &Token {
        &self.token
    }

    fn pool(&self) -> &Arc<Pool> {
        self.engine().pool()
    }

    fn run(self: Arc<Self>) {
        self.step(BATCH as u64);
    }
}

impl<E: Send + Sync + 'static> Door for Context<E> {
    fn node(&self) -> Option<Node> {
        Some(self.node())
    }

    fn keeps_waiting(&self) -> bool {
        // Who is woken is not noted down any more.
        true
    }

    fn grow(&self) {
        let (capacity, woken) = self.inbox.grow();
        self.wake(woken);
        let name = self.terms.name(self.id);
        tracing::warn!(context = name, capacity, "waits in a circle: its inbox has grown");
        self.realm.warned();
    }
}

impl<E> Drop for Context<E> {
    /// Nobody could reach it any more.
    fn drop(&mut self) {
        if let Some(life) = self.held.lock().life.take() {
            self.realm.forget(self.id);
            drop_in_turn(self.id, life.let_go());
        }
    }
}

thread_local! {
    /// What contexts were that nobody could reach, while one of them is dropped on this thread.
    static LET_GO: RefCell<Option<Vec<Box<dyn Any + Send>>>> = const { RefCell::new(None) };
}

/// Drops what the context `id` was. It is the user's, and may hold another context that nobody else can reach, which
/// holds another: however long the row, one is dropped after the other, not within the other.
fn drop_in_turn(id: ContextId, life: Box<dyn Any + Send>) {
    let mut life = Some(life);
    let is_within = LET_GO.try_with(|let_go| {
        let mut let_go = let_go.borrow_mut();
        let is_within = let_go.is_some();
        let_go.get_or_insert_default().extend(life.take());
        is_within
    });
    if is_within == Ok(true) {
        return;
    }
    // There is no list any more where a thread ends.
    let next = || LET_GO.try_with(|let_go| let_go.borrow_mut().as_mut()?.pop()).ok()?;
    while let Some(life) = life.take().or_else(next) {
        if let Some(message) = contained(|| drop(life)) {
            tracing::warn!(context = %id, "panicked when dropped: {message}");
        }
    }
    // What it fails for has no list.
    let _ = LET_GO.try_with(|let_go| let_go.take());
}
