//! What opens and closes lifespans.

use std::sync::Arc;
use std::time::Duration;

use mizzle_engine::situation::Open;
use mizzle_engine::situation::rule::{
    AtCap, Cap, CloseBy, Closer, InvalidRule, LifespanType, Named, Opener, Which,
};
use mizzle_engine::time::Timestamp;

use super::{EventType, Known, mistake, no_function};

/// A type of lifespans: what opens one, and what closes it. It has a name that situations say.
///
/// While one is open a new opener is ignored, unless it [`adds`](Self::adds). A closer ends the first lifespan
/// that is open, unless another is said. At its end exactly a lifespan is over. Its opener is no operand in it, its
/// closer neither. With keys each key has its own.
#[must_use = "a type of lifespans does nothing before it is in a set of rules"]
pub struct Lifespan<E> {
    pub(super) of: LifespanType<E>,
    pub(super) mistake: Option<InvalidRule>,
    last: Last,
}

#[derive(Clone, Copy, PartialEq)]
enum Last {
    Nothing,
    Opener,
    Closer,
}

impl<E> Lifespan<E> {
    /// A type that nothing opens or closes yet.
    pub fn new(name: &str) -> Self {
        let of = LifespanType {
            name: name.into(),
            openers: Vec::new(),
            closers: Vec::new(),
            adds: false,
            opener_counts: false,
            cap: None,
        };
        Self { of, mistake: None, last: Last::Nothing }
    }

    /// One that is open from the start, and never ends.
    pub fn always(name: &str) -> Self {
        Self::new(name).from_start()
    }

    /// One is open from the start: before all times, and for each key.
    pub fn from_start(self) -> Self {
        self.opener(Opener::Start)
    }

    /// One opens at `time`.
    pub fn opened_at(self, time: Timestamp) -> Self {
        self.opener(Opener::At(time))
    }

    /// An event of a type opens one.
    pub fn opened_by(self, of: impl EventType) -> Self {
        self.opener(Opener::Event(of.number(), None))
    }

    /// An event of a type for which `opens` holds opens one.
    pub fn opened_by_if(
        self,
        of: impl EventType,
        opens: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Self {
        let test = Named::new("opens", Arc::new(opens) as _);
        self.opener(Opener::Event(of.number(), Some(test)))
    }

    fn opener(mut self, opener: Opener<E>) -> Self {
        self.of.openers.push(opener);
        self.last = Last::Opener;
        self
    }

    /// An event of a type closes one: the first, unless [another](Self::each) is said.
    pub fn closed_by(self, of: impl EventType) -> Self {
        self.closer(CloseBy::Event(of.number(), None, Which::First))
    }

    /// An event of a type closes one for which `closes` holds of the event and the open lifespan.
    pub fn closed_by_if(
        self,
        of: impl EventType,
        closes: impl Fn(&E, &Open<'_, E>) -> bool + Send + Sync + 'static,
    ) -> Self {
        let test = Named::new("closes", Arc::new(closes) as _);
        self.closer(CloseBy::Event(of.number(), Some(test), Which::First))
    }

    /// It ends at `time`.
    pub fn closed_at(self, time: Timestamp) -> Self {
        self.closer(CloseBy::At(time))
    }

    /// It ends so long after it opened.
    pub fn closed_after(self, length: Duration) -> Self {
        self.closer(CloseBy::After(length))
    }

    fn closer(mut self, by: CloseBy<E>) -> Self {
        self.of.closers.push(Closer { by, discards: false });
        self.last = Last::Closer;
        self
    }

    /// The closer that was said last ends the lifespan without evaluating what is deferred.
    pub fn discards(mut self) -> Self {
        match self.of.closers.last_mut() {
            Some(closer) if self.last == Last::Closer => closer.discards = true,
            _ => self.blame("discards", "say it right after the closer that it is about"),
        }
        self
    }

    /// The event that was said last closes the lifespan that opened first.
    pub fn first(self) -> Self {
        self.which(Which::First)
    }

    /// The event that was said last closes the lifespan that opened last.
    pub fn last(self) -> Self {
        self.which(Which::Last)
    }

    /// The event that was said last closes each lifespan that is open.
    pub fn each(self) -> Self {
        self.which(Which::Each)
    }

    fn which(mut self, says: Which) -> Self {
        match self.of.closers.last_mut() {
            Some(Closer { by: CloseBy::Event(_, _, which), .. }) if self.last == Last::Closer => {
                *which = says;
            }
            _ => self.blame("first, last, each", "say it right after closed_by"),
        }
        self
    }

    /// An opener opens one though one is open.
    pub fn adds(mut self) -> Self {
        self.of.adds = true;
        self
    }

    /// The event that opens one may be an operand in it.
    pub fn opener_counts(mut self) -> Self {
        self.of.opener_counts = true;
        self
    }

    /// At most so many are open, of one key. One more is not opened, or the oldest is given up, and counted.
    pub fn max_open(mut self, most: u32, at_cap: AtCap) -> Self {
        self.of.cap = Some(Cap { most, at_cap });
        self
    }

    /// Calls the function that was given last `name`.
    pub fn called(self, name: &str) -> Self {
        self.known(&Known::Name(name))
    }

    /// Declares what a call of the function that was given last costs at most.
    pub fn cost(self, most: Duration) -> Self {
        self.known(&Known::Cost(most))
    }

    fn known(mut self, known: &Known<'_>) -> Self {
        let noted = match self.last {
            Last::Opener => match self.of.openers.last_mut() {
                Some(Opener::Event(_, Some(test))) => known.note(Some(test)),
                _ => false,
            },
            Last::Closer => match self.of.closers.last_mut() {
                Some(Closer { by: CloseBy::Event(_, Some(test), _), .. }) => known.note(Some(test)),
                _ => false,
            },
            Last::Nothing => false,
        };
        if !noted {
            self.mistake.get_or_insert_with(|| no_function(&self.of.name));
        }
        self
    }

    fn blame(&mut self, field: &str, reason: &str) {
        self.mistake.get_or_insert_with(|| mistake(&self.of.name, field, reason));
    }
}
