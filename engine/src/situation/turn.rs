//! An event, or a due time, and all that comes of it: the phases.

use smallvec::SmallVec;

use super::detection::Open;
use super::life::Life;
use super::lives::{Act, Lives, Room, Said, Told};
use super::offer::Here;
use super::program::{Program, Source};
use super::rule::{Action, AtCap, Cap, CloseBy, Opener, TypeId, Which};
use super::store::{NIL, Store};
use crate::event::Event;
use crate::time::Timestamp;

/// How many events a closure may have.
const MOST: u32 = 10_000;
/// How many of them may each be made of the one before.
const DEEPEST: u32 = 250;

/// What comes of one event, or of one due time.
pub(super) struct Turn<'a, E> {
    pub program: &'a Program<E>,
    pub lives: &'a mut Lives<E>,
    pub room: &'a mut Room<E>,
    pub time: Timestamp,
    /// Whether the stream is ending: nothing is set any more.
    pub ending: bool,
}

impl<E: Clone> Program<E> {
    /// Takes an event of type `of`, which is not earlier than those before it. All that is due at or before it
    /// must have happened. What comes of it is left in `room`.
    #[inline]
    pub fn event(
        &self,
        lives: &mut Lives<E>,
        room: &mut Room<E>,
        of: TypeId,
        Event { time, value }: Event<E>,
    ) {
        let Some(reaction) = self.reaction(of) else { return };
        if let Some(steps) = &reaction.quick {
            return self.event_quickly(lives, room, steps, (time, value));
        }
        self.event_fully(lives, room, of, Event { time, value });
    }

    /// The phases.
    #[inline(never)]
    fn event_fully(
        &self,
        lives: &mut Lives<E>,
        room: &mut Room<E>,
        of: TypeId,
        Event { time, value }: Event<E>,
    ) {
        let at = lives.store.admit(time, value);
        let mut turn = Turn { program: self, lives, room, time, ending: false };
        turn.enter(of, at);
        turn.lives.store.release(at);
        turn.close();
        lives.store.tidy();
    }
}

impl<E: Clone> Turn<'_, E> {
    /// An event: the stateless rules, and then what comes of it and of what they make.
    pub fn enter(&mut self, of: TypeId, at: u32) {
        let program = self.program;
        let Some(reaction) = program.reaction(of) else { return };
        if reaction.mappings.is_empty() {
            return self.process(of, at);
        }
        let base = self.room.pending.len();
        self.room.pending.push((of, at));
        let mut next = base;
        while let Some(&(of, at)) = self.room.pending.get(next)
            && !self.is_too_much()
        {
            if self.room.pending.len() - base > MOST as usize {
                self.fail(
                    "stateless rules make more than 10,000 events of one: some feed themselves",
                );
                break;
            }
            self.map(of, at);
            next += 1;
        }
        for next in base..self.room.pending.len() {
            let (of, at) = self.room.pending[next];
            self.process(of, at);
        }
        self.room.pending.truncate(base);
    }

    /// What stateless rules make of an event.
    fn map(&mut self, of: TypeId, at: u32) {
        let program = self.program;
        let Some(reaction) = program.reaction(of) else { return };
        for &number in &reaction.mappings {
            let mapping = program.mapping(number);
            let event = self.lives.store.at(at);
            if !mapping.test.as_ref().is_none_or(|test| (test.call)(event)) {
                continue;
            }
            let Some((derived, express)) = &mapping.derives else {
                if let Some(action) = &mapping.action {
                    self.room.acts.push(Act { action: action.clone(), event: event.clone() });
                }
                continue;
            };
            let value = (express.call)(event);
            let source = Source(program.set.situations.len() as u32 + u32::from(number));
            let is_heard = !program.passes_over(*derived);
            let told = Tell { source, of: *derived, is_heard, action: mapping.action.as_ref() };
            told.tell(&mut self.lives.store, self.room, self.time, value);
        }
    }

    /// Whether the closure is so large that it will hardly ever end.
    fn is_too_much(&mut self) -> bool {
        if self.room.steps >= MOST {
            self.fail(
                "one event, or one due time, brings more than 10,000 events: more is not allowed, and \
                 rules that feed themselves never end",
            );
        } else if self.room.depth >= DEEPEST {
            self.fail(
                "more than 250 events are each made of the one before: some rules feed themselves",
            );
        } else {
            return false;
        }
        true
    }

    fn fail(&mut self, why: &str) {
        self.room.dropped.fails.get_or_insert_with(|| why.into());
    }

    /// The phases.
    fn process(&mut self, of: TypeId, at: u32) {
        let program = self.program;
        let Some(reaction) = program.reaction(of) else { return };
        if self.is_too_much() {
            return;
        }
        self.room.steps += 1;
        for &(span, closer) in &reaction.closers {
            self.terminate(span, closer, at);
        }
        // Only now: what a terminator brings comes before it.
        self.lives.store.arrive(at);
        for (span, openers) in &reaction.early_openers {
            self.initiate(*span, openers, at);
        }
        let base = self.room.pending.len();
        for (rule, operands) in &reaction.offers {
            self.add_operand(*rule, operands, at);
        }
        for (span, openers) in &reaction.openers {
            self.initiate(*span, openers, at);
        }
        self.settle(base);
    }

    /// What was found since is processed.
    pub fn settle(&mut self, base: usize) {
        let found = self.room.pending.len();
        self.room.depth += 1;
        for next in base..found {
            let (of, at) = self.room.pending[next];
            self.enter(of, at);
        }
        self.room.depth -= 1;
        self.room.pending.truncate(base);
    }

    /// Ends the lifespans of a type that the event at `at` closes.
    fn terminate(&mut self, span: u16, closer: u16, at: u32) {
        let closer = &self.program.set.lifespans[usize::from(span)].closers[usize::from(closer)];
        let CloseBy::Event(_, test, which) = &closer.by else { return };
        let Lives { store, open, .. } = &mut *self.lives;
        let open = &mut open[usize::from(span)];
        let event = store.at(at);
        let ends = |life: &Life| {
            test.as_ref().is_none_or(|test| {
                let opener = (life.opener != NIL).then(|| store.at(life.opener));
                (test.call)(event, &Open { opener, since: life.since })
            })
        };
        let mut ended: SmallVec<[Life; 1]> = SmallVec::new();
        match which {
            Which::First => {
                let first = open.iter().position(ends);
                ended.extend(first.and_then(|place| open.remove(place)));
            }
            Which::Last => {
                let last = open.iter().rposition(ends);
                ended.extend(last.and_then(|place| open.remove(place)));
            }
            Which::Each => {
                let mut place = 0;
                while let Some(life) = open.get(place) {
                    if ends(life) {
                        ended.extend(open.remove(place));
                    } else {
                        place += 1;
                    }
                }
            }
        }
        for life in ended {
            self.end_life(span, life, closer.discards);
        }
    }

    /// A lifespan is over: what is deferred is evaluated, and what is found is processed.
    pub fn end_life(&mut self, span: u16, mut life: Life, discards: bool) {
        let program = self.program;
        let base = self.room.pending.len();
        if !discards {
            let Lives { store, due, .. } = &mut *self.lives;
            for &rule in &program.spans[usize::from(span)].deferred {
                let at = (self.time, self.ending);
                Here::new(program, rule, store, self.room, due, at).end(&mut life);
            }
        }
        release(&mut self.lives.store, &life);
        self.settle(base);
    }

    /// A situation that waits for a time is due in the lifespan at `place`.
    pub fn due(&mut self, rule: u16, place: usize) {
        let span = usize::from(self.program.rules[usize::from(rule)].span);
        let Lives { store, open, due, .. } = &mut *self.lives;
        let (room, time, ending) = (&mut *self.room, self.time, self.ending);
        let mut here = Here::new(self.program, rule, store, room, due, (time, ending));
        here.due(&mut open[span][place]);
    }

    /// Offers the event at `at` to operands of a situation, in each open lifespan.
    fn add_operand(&mut self, rule: u16, operands: &[u8], at: u32) {
        let span = usize::from(self.program.rules[usize::from(rule)].span);
        let Lives { store, open, due, .. } = &mut *self.lives;
        let (room, time, ending) = (&mut *self.room, self.time, self.ending);
        let mut here = Here::new(self.program, rule, store, room, due, (time, ending));
        for life in &mut open[span] {
            here.offer(life, operands, at);
        }
    }

    /// Opens a lifespan of a type, if one of its openers is satisfied by the event at `at`.
    fn initiate(&mut self, span: u16, openers: &[u16], at: u32) {
        let of = &self.program.set.lifespans[usize::from(span)];
        let event = self.lives.store.at(at);
        let opens = openers.iter().any(|&opener| match &of.openers[usize::from(opener)] {
            Opener::Event(_, test) => test.as_ref().is_none_or(|test| (test.call)(event)),
            Opener::Start | Opener::At(_) => false,
        });
        if opens {
            self.open_life(span, self.time, at);
        }
    }

    /// Opens a lifespan, unless one more is not wanted.
    pub fn open_life(&mut self, span: u16, since: Timestamp, opener: u32) {
        let program = self.program;
        let of = &program.set.lifespans[usize::from(span)];
        let is_open = !self.lives.open[usize::from(span)].is_empty();
        if (is_open && !of.adds) || program.spans[usize::from(span)].end_of(since).0 <= since {
            return;
        }
        if let Some(cap) = of.cap
            && !self.makes_room(usize::from(span), cap)
        {
            return;
        }
        if opener != NIL {
            self.lives.store.hold(opener);
        }
        let mut life = program.life(usize::from(span), since, opener, since);
        if self.ending {
            life.ends = Timestamp::MAX;
            life.tallies.iter_mut().for_each(|tally| tally.next = Timestamp::MAX);
        }
        let due = program.due_of(usize::from(span), &life, &self.lives.store);
        self.lives.due = self.lives.due.min(due);
        self.lives.open[usize::from(span)].push_back(life);
    }

    /// Whether one more lifespan may be open.
    fn makes_room(&mut self, span: usize, cap: Cap) -> bool {
        let Lives { store, open, .. } = &mut *self.lives;
        if open[span].len() < cap.most as usize {
            return true;
        }
        self.room.dropped.count += 1;
        match cap.at_cap {
            AtCap::RefuseNewest => false,
            AtCap::DropOldest => {
                if let Some(oldest) = open[span].pop_front() {
                    release(store, &oldest);
                }
                true
            }
            AtCap::Fail => {
                let name = &self.program.set.lifespans[span].name;
                let why = format!("more lifespans {name:?} are open than its cap allows");
                self.fail(&why);
                false
            }
        }
    }

    /// The closure is complete: what was said is given, the events that nothing holds go.
    #[inline]
    pub fn close(&mut self) {
        let Room { said, said_by, steps, closure, .. } = &mut *self.room;
        *steps = 0;
        let now = *closure;
        *closure = closure.wrapping_add(1);
        if said.is_empty() {
            return;
        }
        let store = &mut self.lives.store;
        for Told { by, at, value } in said.drain(..) {
            let value = value.or_else(|| store.take(at)).unwrap_or_else(|| store.at(at).clone());
            said_by.push(Said { by, closure: now, time: self.time, value });
        }
    }
}

/// Lets go of all that a lifespan holds.
pub(super) fn release<E>(store: &mut Store<E>, life: &Life) {
    let candidates = life.rings.iter().flat_map(|ring| ring.as_slice());
    let latest = life.tallies.iter().map(|tally| &tally.latest);
    for &at in candidates.chain(latest).chain([&life.opener]).filter(|&&at| at != NIL) {
        store.release(at);
    }
}

/// Says that a rule has made an event.
pub(super) struct Tell<'a, E> {
    pub source: Source,
    pub of: TypeId,
    /// Whether something reacts to it.
    pub is_heard: bool,
    pub action: Option<&'a Action<E>>,
}

impl<E: Clone> Tell<'_, E> {
    /// The event: kept in the store if something reacts to it.
    #[inline]
    pub fn tell(self, store: &mut Store<E>, room: &mut Room<E>, time: Timestamp, value: E) {
        if let Some(action) = self.action {
            room.acts.push(Act { action: action.clone(), event: value.clone() });
        }
        if !self.is_heard {
            // Behind what is held no longer than this closure, or with nothing before it in the store.
            if room.said.is_empty() {
                let (by, closure) = (self.source, room.closure);
                room.said_by.push(Said { by, closure, time, value });
            } else {
                room.said.push(Told { by: self.source, at: NIL, value: Some(value) });
            }
        } else {
            let at = store.admit(time, value);
            room.pending.push((self.of, at));
            room.said.push(Told { by: self.source, at, value: None });
        }
    }
}
