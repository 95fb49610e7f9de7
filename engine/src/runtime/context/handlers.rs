//! What a context does with its events.

use std::any::Any;
use std::panic::Location;
use std::sync::Arc;

use crate::cep::{Bound, Found, InvalidPattern, Program};
use crate::time::Timestamp;

use super::turn::ContextCx;
use super::watch::{Watch, Watched, matches_only};

type Run<E, S> = Box<dyn Fn(&mut S, &E, &mut ContextCx<'_, E>) -> bool + Send + Sync>;
type Selects<E> = Box<dyn Fn(&E) -> bool + Send + Sync>;

/// What contexts with a state of type `S` do with events of type `E`: any number of contexts can share it.
///
/// Handlers run in the order in which they were added. Each has a selection: of an event, the part that it
/// wants to see, or `None` if the event is not for it.
pub struct Handlers<E, S> {
    ordinary: Vec<Handler<E, S>>,
    unmatched: Vec<Handler<E, S>>,
    completed: Vec<(Selects<E>, Handler<E, S>)>,
    patterns: Vec<Watch<E, S>>,
}

/// A handler, and where the user added it.
struct Handler<E, S> {
    location: &'static Location<'static>,
    run: Run<E, S>,
}

impl<E, S> Default for Handlers<E, S> {
    fn default() -> Self {
        Self {
            ordinary: Vec::new(),
            unmatched: Vec::new(),
            completed: Vec::new(),
            patterns: Vec::new(),
        }
    }
}

impl<E: 'static, S: 'static> Handlers<E, S> {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a handler for the events of which `select` gives something.
    #[track_caller]
    #[must_use]
    pub fn on<T: ?Sized>(
        mut self,
        select: impl Fn(&E) -> Option<&T> + Send + Sync + 'static,
        handle: impl Fn(&mut S, &T, &mut ContextCx<'_, E>) + Send + Sync + 'static,
    ) -> Self {
        self.ordinary.push(Handler::new(select, handle));
        self
    }

    /// Adds a handler for those events of which `select` gives something and which no handler that was added
    /// with [`on`](Self::on) took.
    #[track_caller]
    #[must_use]
    pub fn unmatched<T: ?Sized>(
        mut self,
        select: impl Fn(&E) -> Option<&T> + Send + Sync + 'static,
        handle: impl Fn(&mut S, &T, &mut ContextCx<'_, E>) + Send + Sync + 'static,
    ) -> Self {
        self.unmatched.push(Handler::new(select, handle));
        self
    }

    /// Adds a handler that runs when an event of which `select` gives something is done, and with it all that
    /// was routed because of it.
    #[track_caller]
    #[must_use]
    pub fn completed<T: ?Sized>(
        mut self,
        select: impl Fn(&E) -> Option<&T> + Send + Sync + 'static,
        handle: impl Fn(&mut S, &T, &mut ContextCx<'_, E>) + Send + Sync + 'static,
    ) -> Self {
        let select = Arc::new(select);
        let selects = select.clone();
        let selects: Selects<E> = Box::new(move |event| selects(event).is_some());
        self.completed.push((selects, Handler::new(move |event| select(event), handle)));
        self
    }
}

/// Patterns.
impl<E: Clone + 'static, S: 'static> Handlers<E, S> {
    /// Adds a handler for matches of a pattern among the events that the context handles, routed ones
    /// included. They are offered to it behind the ordinary handlers; one that makes a match is no unmatched
    /// one.
    ///
    /// An event's time is when it is handled, by the engine's clock. What the pattern has not decided when the
    /// context ends is dropped.
    ///
    /// # Errors
    /// If there is no such pattern.
    #[track_caller]
    pub fn on_pattern(
        self,
        pattern: impl TryInto<Program<E>, Error = InvalidPattern>,
        handle: impl Fn(&mut S, &Bound<'_, E>, &mut ContextCx<'_, E>) + Send + Sync + 'static,
    ) -> Result<Self, InvalidPattern> {
        self.on_pattern_or_timeout(pattern, matches_only(handle))
    }

    /// As [`on_pattern`](Self::on_pattern), for a handler that hears of partial matches too whose time is
    /// over.
    ///
    /// # Errors
    /// If there is no such pattern.
    #[track_caller]
    pub fn on_pattern_or_timeout(
        mut self,
        pattern: impl TryInto<Program<E>, Error = InvalidPattern>,
        handle: impl Fn(&mut S, Found<'_, E>, &mut ContextCx<'_, E>) + Send + Sync + 'static,
    ) -> Result<Self, InvalidPattern> {
        self.patterns.push(Watch::new(pattern.try_into()?, handle));
        Ok(self)
    }
}

impl<E, S> Handler<E, S> {
    #[track_caller]
    fn new<T: ?Sized>(
        select: impl Fn(&E) -> Option<&T> + Send + Sync + 'static,
        handle: impl Fn(&mut S, &T, &mut ContextCx<'_, E>) + Send + Sync + 'static,
    ) -> Self {
        let run: Run<E, S> = Box::new(move |state, event, cx| {
            let selected = select(event);
            selected.map(|part| handle(state, part, cx)).is_some()
        });
        Self { location: Location::caller(), run }
    }

    #[inline]
    fn run(&self, state: &mut S, event: &E, cx: &mut ContextCx<'_, E>) -> bool {
        cx.at(self.location);
        (self.run)(state, event, cx)
    }
}

/// A state and what is done with it, whatever their types.
pub(super) trait Life<E>: Send {
    /// Has an event handled. Whether it wants to hear when the event is done.
    fn handle(&mut self, event: &E, cx: &mut ContextCx<'_, E>) -> bool;

    /// An event is done.
    fn completed(&mut self, event: &E, cx: &mut ContextCx<'_, E>);

    /// Lets happen what is due at or before `now`.
    fn clock(&mut self, now: Timestamp, cx: &mut ContextCx<'_, E>);

    /// When something happens next without an event, if anything does.
    fn due(&self) -> Option<Timestamp>;

    /// Itself, to be dropped.
    fn let_go(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// A context's own part.
pub(super) struct Own<E, S> {
    handlers: Arc<Handlers<E, S>>,
    state: S,
    /// What is remembered for patterns; none before the first event.
    watching: Option<Box<Watching<E>>>,
}

struct Watching<E> {
    /// The time of the last event: the clock may be set back, patterns are told that it stands still.
    now: Timestamp,
    of_each: Vec<Watched<E>>,
}

impl<E, S> Own<E, S> {
    pub(super) fn new(handlers: Arc<Handlers<E, S>>, state: S) -> Self {
        Self { handlers, state, watching: None }
    }
}

impl<E: Send + Sync + 'static, S> Own<E, S> {
    /// Offers an event to the patterns. Whether it made a match of one.
    #[cold]
    fn watch(&mut self, event: &E, cx: &mut ContextCx<'_, E>) -> bool {
        let Self { handlers, state, watching } = self;
        let watching = watching.get_or_insert_with(|| {
            let of_each = handlers.patterns.iter().map(|_| None).collect();
            Box::new(Watching { now: Timestamp::MIN, of_each })
        });
        watching.now = watching.now.max(cx.now());
        let mut matched = false;
        for (pattern, watched) in handlers.patterns.iter().zip(&mut watching.of_each) {
            cx.at(pattern.location);
            matched |= pattern.event(watched, state, (watching.now, event), cx);
        }
        matched
    }
}

impl<E: Send + Sync + 'static, S: Send + 'static> Life<E> for Own<E, S> {
    #[inline]
    fn handle(&mut self, event: &E, cx: &mut ContextCx<'_, E>) -> bool {
        let Self { handlers, state, .. } = self;
        let mut taken = false;
        for handler in &handlers.ordinary {
            taken |= handler.run(state, event, cx);
        }
        if !handlers.patterns.is_empty() {
            taken |= self.watch(event, cx);
        }
        let Self { handlers, state, .. } = self;
        if !taken {
            for handler in &handlers.unmatched {
                handler.run(state, event, cx);
            }
        }
        handlers.completed.iter().any(|(selects, handler)| {
            cx.at(handler.location);
            selects(event)
        })
    }

    fn completed(&mut self, event: &E, cx: &mut ContextCx<'_, E>) {
        for (_, handler) in &self.handlers.completed {
            handler.run(&mut self.state, event, cx);
        }
    }

    fn clock(&mut self, now: Timestamp, cx: &mut ContextCx<'_, E>) {
        let Some(watching) = &mut self.watching else { return };
        watching.now = watching.now.max(now);
        for (pattern, watched) in self.handlers.patterns.iter().zip(&mut watching.of_each) {
            cx.at(pattern.location);
            pattern.clock(watched, &mut self.state, watching.now, cx);
        }
    }

    fn due(&self) -> Option<Timestamp> {
        let pairs = self.handlers.patterns.iter().zip(&self.watching.as_ref()?.of_each);
        pairs.filter_map(|(pattern, watched)| pattern.due(watched)).min()
    }

    fn let_go(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}
