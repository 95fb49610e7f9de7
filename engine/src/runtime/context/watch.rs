//! Patterns that a context listens for.

use std::panic::Location;

use crate::cep::{Bound, Found, Matches, Program, Room};
use crate::event::Event;
use crate::time::Timestamp;

use super::turn::{ContextCx, End};

type Hear<E, S> = Box<dyn Fn(&mut S, Found<'_, E>, &mut ContextCx<'_, E>) + Send + Sync>;

/// A pattern, and what is done with its matches.
pub(super) struct Watch<E, S> {
    pub location: &'static Location<'static>,
    program: Program<E>,
    copy: fn(&E) -> E,
    hear: Hear<E, S>,
}

/// What a context remembers of its events for one pattern.
pub(super) type Watched<E> = Option<Matches<E>>;

impl<E: Clone + 'static, S: 'static> Watch<E, S> {
    #[track_caller]
    pub(super) fn new(
        program: Program<E>,
        hear: impl Fn(&mut S, Found<'_, E>, &mut ContextCx<'_, E>) + Send + Sync + 'static,
    ) -> Self {
        Self { location: Location::caller(), program, copy: E::clone, hear: Box::new(hear) }
    }
}

impl<E, S> Watch<E, S> {
    /// Offers an event that is handled at `now`. Whether it made a match.
    pub(super) fn event(
        &self,
        watched: &mut Watched<E>,
        state: &mut S,
        (now, event): (Timestamp, &E),
        cx: &mut ContextCx<'_, E>,
    ) -> bool {
        self.clock(watched, state, now, cx);
        let facts = self.program.facts(event);
        if self.program.passes_over(facts)
            || watched.is_none() && self.program.begins_nothing(facts)
        {
            return false;
        }
        let mut room = Room::default();
        let matches = watched.get_or_insert_with(|| self.program.fresh(now, &mut room));
        let event = Event::new(now, (self.copy)(event));
        let mut matched = false;
        let dropped = self.program.event(matches, &mut room, event, facts, &mut |found| {
            matched |= matches!(found, Found::Match(_));
            (self.hear)(state, found, cx);
        });
        self.settle(watched, dropped.fails, cx);
        matched
    }

    /// Lets happen what is due at or before `now`.
    pub(super) fn clock(
        &self,
        watched: &mut Watched<E>,
        state: &mut S,
        now: Timestamp,
        cx: &mut ContextCx<'_, E>,
    ) {
        let Some(matches) = watched else { return };
        if self.program.due(matches).is_none_or(|due| due > now) {
            return;
        }
        let mut hear = |_, found: Found<'_, E>| (self.hear)(state, found, cx);
        let dropped = self.program.clock(matches, &mut Room::default(), (now, false), &mut hear);
        self.settle(watched, dropped.fails, cx);
    }

    fn settle(&self, watched: &mut Watched<E>, fails: bool, cx: &mut ContextCx<'_, E>) {
        if watched.as_ref().is_some_and(|matches| self.program.is_fresh(matches)) {
            *watched = None;
        }
        if fails {
            cx.run.end = Some(End::Failed("it has more partial matches than its cap allows"));
        }
    }

    /// When something happens next without an event.
    pub(super) fn due(&self, watched: &Watched<E>) -> Option<Timestamp> {
        watched.as_ref().and_then(|matches| self.program.due(matches))
    }
}

/// Hears of matches only.
pub(super) fn matches_only<E, S>(
    hear: impl Fn(&mut S, &Bound<'_, E>, &mut ContextCx<'_, E>) + Send + Sync + 'static,
) -> impl Fn(&mut S, Found<'_, E>, &mut ContextCx<'_, E>) + Send + Sync + 'static {
    move |state, found, cx| {
        if let Found::Match(events) = found {
            hear(state, &events, cx);
        }
    }
}
