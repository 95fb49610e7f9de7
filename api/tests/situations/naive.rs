//! Situations as their description reads: for each event and each due time everything is worked out anew
//! from what has happened in a lifespan.

use mizzle::situation::Which;

/// An event: of a type, with a value, and a text by which it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Plain {
    pub of: u16,
    /// [`NOBODY`]: nothing says whose it is.
    pub key: u8,
    pub value: i64,
    pub text: String,
}

/// No key.
pub const NOBODY: u8 = u8::MAX;

/// A condition on the value of an event.
#[derive(Clone, Copy, Debug)]
pub enum Is {
    Above(i64),
    Equal(i64),
    Any,
}

impl Is {
    pub fn holds(self, event: &Plain) -> bool {
        match self {
            Is::Above(least) => event.value > least,
            Is::Equal(value) => event.value == value,
            Is::Any => true,
        }
    }
}

/// A condition on what was put together.
#[derive(Clone, Copy, Debug)]
pub enum When {
    Always,
    /// The values of the events come to an even number.
    Even,
}

#[derive(Clone, Debug)]
pub struct OperandOf {
    pub of: u16,
    pub threshold: Is,
    pub which: Which,
    pub absolute: bool,
    pub overrides: Option<Is>,
    pub retain: Option<Is>,
    /// It counts its value, not 1.
    pub weighted: bool,
    /// How many candidates are kept, and whether the oldest goes.
    pub cap: Option<(usize, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Count,
    Min,
    Max,
    Sum,
    Average,
    Latest,
}

#[derive(Clone, Copy, Debug)]
pub enum FormOf {
    All,
    Sequence,
    AtLeast(i64),
    AtMost(i64),
    Nth(i64),
    At(i64),
    Every(i64),
    After(i64),
    Report(How),
    Percentage(Is, f64),
    Crosses(How, f64),
    Not,
    Unless,
}

#[derive(Clone, Debug)]
pub struct SituationOf {
    pub form: FormOf,
    pub lifespan: usize,
    pub deferred: bool,
    pub operands: Vec<OperandOf>,
    pub when: When,
    pub derives: u16,
}

#[derive(Clone, Debug)]
pub struct LifespanOf {
    pub start: bool,
    pub at: Option<i64>,
    pub by: Option<(u16, Is)>,
    pub closed_by: Option<(u16, Is, Which, bool)>,
    pub closed_at: Option<(i64, bool)>,
    pub closed_after: Option<(i64, bool)>,
    pub adds: bool,
    pub opener_counts: bool,
    pub cap: Option<(usize, bool)>,
}

#[derive(Clone, Debug)]
pub struct Mapped {
    pub of: u16,
    pub test: Is,
    pub derives: u16,
}

/// A set of rules.
#[derive(Clone, Debug)]
pub struct RulesOf {
    pub lifespans: Vec<LifespanOf>,
    pub situations: Vec<SituationOf>,
    pub mappings: Vec<Mapped>,
}

/// What has happened to a situation in a lifespan.
#[derive(Clone, Debug)]
enum Past {
    /// An event of a type that some operand has.
    Came(Arrival),
    /// Candidates were used, each for an operand.
    Used(Vec<(usize, Arrival)>),
    /// It was detected at a time.
    Detected(i64),
}

#[derive(Clone, Debug)]
struct Arrival {
    number: u64,
    time: i64,
    event: Plain,
}

#[derive(Clone, Debug)]
struct Open {
    since: i64,
    /// Nothing before is told: the key was not known.
    from: i64,
    opener: Option<Plain>,
    /// By situation; of those of other lifespans there is none.
    past: Vec<Vec<Past>>,
}

/// What of the past counts.
struct Replayed {
    candidates: Vec<Vec<Arrival>>,
    /// The operands that the last event became a candidate of.
    accepted: Vec<usize>,
    /// Those that count, since an override.
    counted: Vec<(usize, Arrival)>,
    refused: u64,
}

/// Everything of one key.
pub struct Naive<'a> {
    rules: &'a RulesOf,
    open: Vec<Vec<Open>>,
    arrivals: u64,
    now: i64,
    /// What was found: when, and what.
    pub found: Vec<(i64, Plain)>,
    /// Events and lifespans that a cap turned away.
    pub refused: u64,
    steps: usize,
}

/// Before all times.
const START: i64 = i64::MIN;
/// At no time.
const NEVER: i64 = i64::MAX;

impl<'a> Naive<'a> {
    /// A key whose first event comes at `time`.
    pub fn new(rules: &'a RulesOf, time: i64) -> Self {
        let open = rules.lifespans.iter().map(|_| Vec::new()).collect();
        let mut this =
            Self { rules, open, arrivals: 0, now: time, found: Vec::new(), refused: 0, steps: 0 };
        for (number, of) in rules.lifespans.iter().enumerate() {
            let start = of.start.then_some(START);
            for since in start.into_iter().chain(of.at.filter(|&at| at <= time)) {
                let room = of.cap.is_none_or(|(most, _)| this.open[number].len() < most);
                let wanted = of.adds || this.open[number].is_empty();
                if this.end_of(number, since).0 > time && room && wanted {
                    this.push_open(number, since, None);
                }
            }
        }
        this
    }

    /// Whether so much comes of one event that rules must feed themselves.
    pub fn runs_wild(&self) -> bool {
        self.steps > 2_000
    }

    /// Whether any rule can react to events of a type.
    pub fn reacts(rules: &RulesOf, of: u16) -> bool {
        rules.mappings.iter().any(|rule| rule.of == of)
            || rules.situations.iter().any(|rule| rule.operands.iter().any(|op| op.of == of))
            || rules.lifespans.iter().any(|lifespan| {
                lifespan.by.is_some_and(|by| by.0 == of)
                    || lifespan.closed_by.is_some_and(|by| by.0 == of)
            })
    }

    fn end_of(&self, number: usize, since: i64) -> (i64, bool) {
        let of = &self.rules.lifespans[number];
        let at = of.closed_at.unwrap_or((NEVER, false));
        let after = of
            .closed_after
            .map_or((NEVER, false), |(length, discards)| (since.saturating_add(length), discards));
        if after.0 < at.0 { after } else { at }
    }

    fn push_open(&mut self, number: usize, since: i64, opener: Option<Plain>) {
        let past = self.rules.situations.iter().map(|_| Vec::new()).collect();
        self.open[number].push(Open { since, from: self.now, opener, past });
    }

    /// What happens at or before `time` without an event, in order.
    pub fn advance(&mut self, time: i64) {
        while let Some(due) = self.next_due().filter(|&due| due <= time) {
            self.now = due;
            self.come(due);
            if self.runs_wild() {
                return;
            }
        }
        self.now = self.now.max(time);
    }

    /// When a situation is due next in a lifespan, after what has happened to it.
    fn due(&self, situation: usize, open: &Open) -> i64 {
        let of = &self.rules.situations[situation];
        let fired = open.past[situation].iter().filter_map(|past| match past {
            Past::Detected(time) => Some(*time),
            _ => None,
        });
        let last = fired.max();
        let due = match of.form {
            FormOf::At(time) if last.is_none() && time >= open.from => time,
            FormOf::Every(length) => {
                let ticks = (1..).map(|n| open.since + n * length);
                let is_next =
                    |tick: &i64| *tick >= open.from && last.is_none_or(|last| *tick > last);
                ticks.into_iter().find(is_next).expect("ticks go on")
            }
            FormOf::After(length) => {
                let waiting = self.replay(situation, open).candidates;
                waiting[0].first().map_or(NEVER, |first| first.time + length)
            }
            _ => NEVER,
        };
        if due < self.end_of(of.lifespan, open.since).0 { due } else { NEVER }
    }

    fn next_due(&self) -> Option<i64> {
        let mut due = NEVER;
        for (number, open) in self.open.iter().enumerate() {
            let opening = self.rules.lifespans[number].at.filter(|&at| at > self.now);
            due = due.min(opening.unwrap_or(NEVER));
            for one in open {
                due = due.min(self.end_of(number, one.since).0);
                for situation in 0..self.rules.situations.len() {
                    if self.rules.situations[situation].lifespan == number {
                        due = due.min(self.due(situation, one));
                    }
                }
            }
        }
        (due < NEVER).then_some(due)
    }

    /// All that is due at a time: ends, openings, situations.
    fn come(&mut self, due: i64) {
        let mut opened = false;
        loop {
            if self.runs_wild() {
                return;
            }
            let ended = (0..self.open.len()).find_map(|number| {
                let ends = |one: &Open| self.end_of(number, one.since).0 <= due;
                Some((number, self.open[number].iter().position(ends)?))
            });
            if let Some((number, place)) = ended {
                let one = self.open[number].remove(place);
                let discards = self.end_of(number, one.since).1;
                let found = self.end(number, one, discards);
                self.process_all(found);
                continue;
            }
            if !opened {
                opened = true;
                for number in 0..self.open.len() {
                    // Those of the key's first time are open already.
                    if self.rules.lifespans[number].at == Some(due) && self.opens_now(number, due) {
                        self.initiate(number, None);
                    }
                }
                continue;
            }
            let situations = 0..self.rules.situations.len();
            let is_due = situations.into_iter().find_map(|situation| {
                let number = self.rules.situations[situation].lifespan;
                let is_due = |one: &Open| self.due(situation, one) <= due;
                Some((situation, number, self.open[number].iter().position(is_due)?))
            });
            let Some((situation, number, place)) = is_due else { return };
            let picked = match self.rules.situations[situation].form {
                FormOf::After(_) => {
                    let waiting = self.replay(situation, &self.open[number][place]).candidates;
                    vec![(0, waiting[0][0].clone())]
                }
                _ => Vec::new(),
            };
            let past = &mut self.open[number][place].past[situation];
            past.push(Past::Used(picked.clone()));
            past.push(Past::Detected(due));
            let open = self.open[number][place].clone();
            let found = self.detected(situation, &open, &picked, 0.0);
            self.process_all(found.into_iter().collect());
        }
    }

    fn opens_now(&self, number: usize, due: i64) -> bool {
        !self.open[number].iter().any(|one| one.since == due && one.opener.is_none())
    }

    /// An event from outside.
    pub fn event(&mut self, event: Plain) {
        self.enter(event);
    }

    /// Stateless rules, and then the event and all that they made of it.
    fn enter(&mut self, event: Plain) {
        let mut all = vec![event];
        let mut next = 0;
        while next < all.len() && all.len() < 100 {
            for mapping in &self.rules.mappings {
                if mapping.of == all[next].of && mapping.test.holds(&all[next]) {
                    let text = format!("m({})", all[next].text);
                    let Plain { key, value, .. } = all[next];
                    let made = Plain { of: mapping.derives, key, value, text };
                    self.found.push((self.now, made.clone()));
                    all.push(made);
                }
            }
            next += 1;
        }
        for event in all {
            self.process(event);
        }
    }

    fn process_all(&mut self, found: Vec<Plain>) {
        for event in found {
            self.enter(event);
        }
    }

    fn process(&mut self, event: Plain) {
        self.steps = self.steps.saturating_add(1);
        if self.runs_wild() {
            return;
        }
        for lifespan in 0..self.rules.lifespans.len() {
            self.terminate(lifespan, &event);
        }
        // What a terminator brings comes before it.
        self.arrivals += 1;
        let arrival = Arrival { number: self.arrivals, time: self.now, event };
        self.initiate_by(&arrival.event, true);
        let found = self.add_operand(&arrival);
        self.initiate_by(&arrival.event, false);
        self.process_all(found);
    }

    fn terminate(&mut self, number: usize, event: &Plain) {
        let Some((of, is, which, discards)) = self.rules.lifespans[number].closed_by else {
            return;
        };
        if of != event.of || !is.holds(event) || self.open[number].is_empty() {
            return;
        }
        let ended: Vec<Open> = match which {
            Which::First => vec![self.open[number].remove(0)],
            Which::Last => self.open[number].pop().into_iter().collect(),
            Which::Each => std::mem::take(&mut self.open[number]),
        };
        for one in ended {
            let found = self.end(number, one, discards);
            self.process_all(found);
        }
    }

    fn initiate_by(&mut self, event: &Plain, early: bool) {
        for number in 0..self.rules.lifespans.len() {
            let of = &self.rules.lifespans[number];
            if of.opener_counts == early
                && of.by.is_some_and(|(by, is)| by == event.of && is.holds(event))
            {
                self.initiate(number, Some(event.clone()));
            }
        }
    }

    fn initiate(&mut self, number: usize, opener: Option<Plain>) {
        let of = &self.rules.lifespans[number];
        if !of.adds && !self.open[number].is_empty() || self.end_of(number, self.now).0 <= self.now
        {
            return;
        }
        if let Some((most, oldest)) = of.cap
            && self.open[number].len() >= most
        {
            self.refused += 1;
            if !oldest {
                return;
            }
            self.open[number].remove(0);
        }
        self.push_open(number, self.now, opener);
    }

    /// Whether candidates of an operand are kept.
    fn keeps(of: &SituationOf, operand: usize) -> bool {
        match of.form {
            FormOf::All => of.deferred || of.operands.len() > 1,
            FormOf::Sequence => of.deferred || operand + 1 < of.operands.len(),
            FormOf::Unless => operand == 0,
            FormOf::AtLeast(_) | FormOf::AtMost(_) | FormOf::After(_) => true,
            _ => false,
        }
    }

    /// What the past of a situation in a lifespan has come to.
    fn replay(&self, situation: usize, open: &Open) -> Replayed {
        let of = &self.rules.situations[situation];
        let joins = matches!(of.form, FormOf::All | FormOf::Sequence);
        let mut seen = vec![false; of.operands.len()];
        let mut all = Replayed {
            candidates: vec![Vec::new(); of.operands.len()],
            accepted: Vec::new(),
            counted: Vec::new(),
            refused: 0,
        };
        let mut absent = false;
        for past in &open.past[situation] {
            match past {
                Past::Detected(_) => {}
                Past::Used(used) => {
                    for (operand, arrival) in used {
                        let stays = of.operands[*operand].retain;
                        if !stays.is_some_and(|is| is.holds(&arrival.event)) {
                            for candidates in &mut all.candidates {
                                candidates.retain(|other| other.number != arrival.number);
                            }
                        }
                    }
                }
                Past::Came(arrival) => {
                    all.accepted.clear();
                    all.refused = 0;
                    // What is not kept was looked at when it came.
                    for (operand, candidates) in all.candidates.iter_mut().enumerate() {
                        if !Self::keeps(of, operand) {
                            candidates.clear();
                        }
                    }
                    for (operand, says) in of.operands.iter().enumerate() {
                        if says.of != arrival.event.of || !says.threshold.holds(&arrival.event) {
                            continue;
                        }
                        if !joins && !all.accepted.is_empty() {
                            continue;
                        }
                        if says.absolute && says.which == Which::First && seen[operand] {
                            continue;
                        }
                        seen[operand] = true;
                        let drops = says.absolute && says.which == Which::Last
                            || says.overrides.is_some_and(|is| is.holds(&arrival.event));
                        let candidates = &mut all.candidates[operand];
                        if drops {
                            candidates.clear();
                            all.counted.clear();
                        }
                        let useless = match of.form {
                            FormOf::After(length) => {
                                arrival.time + length >= self.end_of(of.lifespan, open.since).0
                            }
                            FormOf::Unless => operand == 0 && absent,
                            _ => false,
                        };
                        if let Some((most, oldest)) = says.cap
                            && Self::keeps(of, operand)
                            && !useless
                            && candidates.len() >= most
                        {
                            all.refused += 1;
                            if !oldest {
                                continue;
                            }
                            candidates.remove(0);
                        }
                        absent |= matches!(of.form, FormOf::Unless) && operand == 1;
                        if !useless {
                            candidates.push(arrival.clone());
                        }
                        all.accepted.push(operand);
                        all.counted.push((operand, arrival.clone()));
                    }
                }
            }
        }
        all
    }

    fn add_operand(&mut self, arrival: &Arrival) -> Vec<Plain> {
        let mut found = Vec::new();
        for situation in 0..self.rules.situations.len() {
            let of = &self.rules.situations[situation];
            if !of.operands.iter().any(|operand| operand.of == arrival.event.of) {
                continue;
            }
            for place in 0..self.open[of.lifespan].len() {
                let mut open = self.open[of.lifespan][place].clone();
                let before = self.replay(situation, &open);
                open.past[situation].push(Past::Came(arrival.clone()));
                let replayed = self.replay(situation, &open);
                self.refused += replayed.refused;
                if !replayed.accepted.is_empty() && !of.deferred {
                    self.at_once(situation, &mut open, (&before, &replayed), arrival, &mut found);
                }
                self.open[of.lifespan][place] = open;
            }
        }
        found
    }

    /// What is found at once with an event.
    fn at_once(
        &mut self,
        situation: usize,
        open: &mut Open,
        (before, now): (&Replayed, &Replayed),
        arrival: &Arrival,
        found: &mut Vec<Plain>,
    ) {
        let of = &self.rules.situations[situation];
        let cause = (now.accepted[0], arrival.clone());
        match of.form {
            FormOf::All | FormOf::Sequence => {
                if now.candidates.iter().map(Vec::len).product::<usize>() > 5_000 {
                    // So many would take long, and show no more than few.
                    self.steps = usize::MAX;
                    return;
                }
                let sets = self.sets(situation, &now.candidates);
                let sets = sets
                    .into_iter()
                    .filter(|set| set.iter().any(|one| one.number == arrival.number));
                let sets = self.choose(situation, 0, sets.collect());
                for set in &sets {
                    let picked: Vec<_> = set.iter().cloned().enumerate().collect();
                    found.extend(self.detected(situation, open, &picked, 0.0));
                }
                let used = sets.into_iter().flat_map(|set| set.into_iter().enumerate());
                open.past[situation].push(Past::Used(used.collect()));
            }
            FormOf::AtLeast(least) => {
                let all = self.counted(&now.candidates);
                let count = self.weights(situation, &all);
                if count >= least
                    && let Some(event) = self.detected(situation, open, &all, count as f64)
                {
                    found.push(event);
                    open.past[situation].push(Past::Used(all));
                }
            }
            FormOf::Nth(nth) => {
                let count = self.weights(situation, &now.counted);
                let once =
                    open.past[situation].iter().any(|past| matches!(past, Past::Detected(_)));
                if count == nth
                    && !once
                    && let Some(event) = self.detected(situation, open, &[cause], count as f64)
                {
                    found.push(event);
                    open.past[situation].push(Past::Detected(self.now));
                }
            }
            FormOf::Report(how) => {
                let value = aggregate(how, &now.counted);
                found.extend(self.detected(situation, open, &[cause], value));
            }
            FormOf::Crosses(how, bound) => {
                let value = aggregate(how, &now.counted);
                // An override starts afresh, so there is nothing before it.
                let goes_on = now.counted.len() > 1;
                let was = goes_on && aggregate(how, &before.counted) >= bound;
                if value >= bound && !was {
                    found.extend(self.detected(situation, open, &[cause], value));
                }
            }
            FormOf::Percentage(is, bound) => {
                let value = percentage(is, &now.counted);
                if value >= bound {
                    found.extend(self.detected(situation, open, &[cause], value));
                }
            }
            _ => {}
        }
    }

    /// A lifespan is over: what is deferred.
    fn end(&mut self, number: usize, open: Open, discards: bool) -> Vec<Plain> {
        let mut found = Vec::new();
        for situation in 0..self.rules.situations.len() {
            let of = &self.rules.situations[situation];
            if of.lifespan != number || !of.deferred || discards {
                continue;
            }
            let replayed = self.replay(situation, &open);
            let all = self.counted(&replayed.candidates);
            let latest = replayed.counted.last().cloned();
            // Of those that are not kept the last shows: the latest, whatever has been dropped.
            let came = open.past[situation].iter().any(|past| matches!(past, Past::Came(_)));
            match of.form {
                FormOf::All | FormOf::Sequence => {
                    let sets =
                        self.choose(situation, 0, self.sets(situation, &replayed.candidates));
                    for set in sets {
                        let picked: Vec<_> = set.into_iter().enumerate().collect();
                        found.extend(self.detected(situation, &open, &picked, 0.0));
                    }
                }
                FormOf::AtLeast(n) | FormOf::AtMost(n) => {
                    let count = self.weights(situation, &all);
                    let at_least = matches!(of.form, FormOf::AtLeast(_));
                    if if at_least { count >= n } else { count <= n } {
                        found.extend(self.detected(situation, &open, &all, count as f64));
                    }
                }
                FormOf::Nth(n) => {
                    let count = self.weights(situation, &replayed.counted);
                    if let Some(latest) = latest.filter(|_| count == n && came) {
                        found.extend(self.detected(situation, &open, &[latest], count as f64));
                    }
                }
                FormOf::Report(how) => {
                    if let Some(latest) = latest {
                        let value = aggregate(how, &replayed.counted);
                        found.extend(self.detected(situation, &open, &[latest], value));
                    }
                }
                FormOf::Percentage(is, bound) => {
                    if let Some(latest) = latest
                        && percentage(is, &replayed.counted) >= bound
                    {
                        let value = percentage(is, &replayed.counted);
                        found.extend(self.detected(situation, &open, &[latest], value));
                    }
                }
                FormOf::Not if replayed.counted.is_empty() => {
                    found.extend(self.detected(situation, &open, &[], 0.0));
                }
                FormOf::Unless if !replayed.counted.iter().any(|one| one.0 == 1) => {
                    let candidates = &replayed.candidates[0];
                    let sets = candidates.iter().map(|one| vec![one.clone()]);
                    let holds = |set: &Vec<Arrival>| self.holds(situation, set);
                    for set in self.choose(situation, 0, sets.filter(holds).collect()) {
                        let picked = [(0, set[0].clone())];
                        found.extend(self.detected(situation, &open, &picked, 0.0));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Every way in which the operands can be filled so that the condition holds.
    fn sets(&self, situation: usize, candidates: &[Vec<Arrival>]) -> Vec<Vec<Arrival>> {
        let mut sets: Vec<Vec<Arrival>> = vec![Vec::new()];
        for of in candidates {
            let with = |set: &Vec<Arrival>| -> Vec<Vec<Arrival>> {
                of.iter().map(|one| set.iter().cloned().chain([one.clone()]).collect()).collect()
            };
            sets = sets.iter().flat_map(with).collect();
        }
        let in_order = matches!(self.rules.situations[situation].form, FormOf::Sequence);
        sets.retain(|set| {
            let numbers: Vec<u64> = set.iter().map(|one| one.number).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            sorted.dedup();
            let distinct = sorted.len() == numbers.len();
            distinct && (!in_order || sorted == numbers) && self.holds(situation, set)
        });
        sets
    }

    fn holds(&self, situation: usize, set: &[Arrival]) -> bool {
        match self.rules.situations[situation].when {
            When::Always => true,
            When::Even => set.iter().map(|one| one.event.value).sum::<i64>() % 2 == 0,
        }
    }

    /// Of all these ways those that the quantifiers choose, from an operand on.
    fn choose(
        &self,
        situation: usize,
        operand: usize,
        sets: Vec<Vec<Arrival>>,
    ) -> Vec<Vec<Arrival>> {
        if sets.is_empty() || operand == sets[0].len() {
            return sets;
        }
        let mut numbers: Vec<u64> = sets.iter().map(|set| set[operand].number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let chosen = match self.rules.situations[situation].operands[operand].which {
            Which::First => &numbers[..1],
            Which::Last => &numbers[numbers.len() - 1..],
            Which::Each => &numbers[..],
        };
        let of = |&number: &u64| {
            let sets = sets.iter().filter(|set| set[operand].number == number).cloned();
            self.choose(situation, operand + 1, sets.collect())
        };
        chosen.iter().flat_map(of).collect()
    }

    /// All candidates, each with its operand, oldest first.
    fn counted(&self, candidates: &[Vec<Arrival>]) -> Vec<(usize, Arrival)> {
        let all = candidates.iter().enumerate();
        let mut all: Vec<_> = all
            .flat_map(|(operand, of)| of.iter().map(move |one| (operand, one.clone())))
            .collect();
        all.sort_by_key(|(_, one)| one.number);
        all
    }

    fn weights(&self, situation: usize, all: &[(usize, Arrival)]) -> i64 {
        let operands = &self.rules.situations[situation].operands;
        let weight = |(operand, one): &(usize, Arrival)| {
            if operands[*operand].weighted { one.event.value } else { 1 }
        };
        all.iter().map(weight).sum()
    }

    /// The event that a detection is, if the condition holds.
    fn detected(
        &mut self,
        situation: usize,
        open: &Open,
        picked: &[(usize, Arrival)],
        value: f64,
    ) -> Option<Plain> {
        let set: Vec<Arrival> = picked.iter().map(|(_, one)| one.clone()).collect();
        if !self.holds(situation, &set) {
            return None;
        }
        let events: Vec<&Plain> = set.iter().map(|one| &one.event).collect();
        let of = self.rules.situations[situation].derives;
        let event = express(of, &events, open.opener.as_ref(), value);
        self.found.push((self.now, event.clone()));
        Some(event)
    }
}

/// The event that a detection is: all of it shows in its text.
pub fn express(of: u16, events: &[&Plain], opener: Option<&Plain>, value: f64) -> Plain {
    let texts: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
    let whose = opener;
    let opener = opener.map_or("-", |opener| opener.text.as_str());
    let text = format!("{of}[{}|{opener}|{value}]", texts.join(" "));
    // Texts of texts would grow without bound.
    let text = if text.len() > 120 { format!("{of}#{}", checksum(&text)) } else { text };
    let key = events.first().copied().or(whose).map_or(NOBODY, |event| event.key);
    Plain { of, key, value: events.iter().map(|event| event.value).sum::<i64>() % 4, text }
}

fn checksum(text: &str) -> u64 {
    text.bytes().fold(7, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

fn aggregate(how: How, counted: &[(usize, Arrival)]) -> f64 {
    let mut values = counted.iter().map(|(_, one)| one.event.value as f64);
    match how {
        How::Count => values.count() as f64,
        How::Min => values.fold(f64::NAN, f64::min),
        How::Max => values.fold(f64::NAN, f64::max),
        How::Sum => values.sum(),
        How::Average => values.clone().sum::<f64>() / values.count() as f64,
        How::Latest => values.next_back().unwrap_or(f64::NAN),
    }
}

fn percentage(is: Is, counted: &[(usize, Arrival)]) -> f64 {
    let hits = counted.iter().filter(|(_, one)| is.holds(&one.event)).count();
    hits as f64 * 100.0 / counted.len() as f64
}
