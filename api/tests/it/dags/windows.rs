//! Windows, with every number of each kept.

use super::calendar;
use super::naive::{Timed, sequence};
use super::program::*;

/// The windows that hold `time`, by their ends.
pub fn around(laid: Laid, time: i64) -> Vec<(i64, i64)> {
    match laid {
        Laid::Hopping(WindowSpec { size, hop, offset }) => {
            let (size, hop, offset) = (size as i64, hop as i64, offset as i64);
            let latest = (time - offset).div_euclid(hop);
            let earliest = (time - size - offset).div_euclid(hop) + 1;
            let all = (earliest..=latest).map(|index| index * hop + offset);
            all.map(|start| (start, start + size)).collect()
        }
        Laid::Cumulative(WindowSpec { size, hop, offset }) => {
            let (size, step) = (size as i64, hop as i64);
            let start = time - (time - offset as i64).rem_euclid(size);
            let ends = (1..).map(|steps| start + (steps * step).min(size));
            let mut all: Vec<_> = ends.take_while(|end| *end < start + size).collect();
            all.push(start + size);
            all.into_iter().filter(|end| *end > time).map(|end| (start, end)).collect()
        }
        Laid::Calendar(zone, unit, later) => vec![calendar::around(zone, unit, later as i64, time)],
    }
}

/// The watermark behind windows that may still be corrected: just before the first that ends in the last
/// `lateness`, or would.
pub fn held_back(watermark: i64, laid: Option<Laid>, lateness: i64) -> i64 {
    let gone = watermark.saturating_sub(lateness);
    let end = match laid {
        _ if lateness == 0 || watermark == i64::MIN => return watermark,
        None => return gone,
        Some(Laid::Hopping(WindowSpec { size, hop, offset })) => {
            let past = (gone - (size + offset) as i64).div_euclid(hop as i64) + 1;
            past * hop as i64 + (size + offset) as i64
        }
        Some(laid) => around(laid, gone)[0].1,
    };
    watermark.min(end - 1)
}

/// A key's events that are in one window.
struct Together {
    key: u32,
    first: i64,
    last: i64,
    numbers: Vec<i64>,
    /// Whether some have been in no result yet.
    news: bool,
}

impl Together {
    fn new(key: u32, time: i64) -> Self {
        Self { key, first: time, last: time, numbers: Vec::new(), news: false }
    }

    fn of(events: &[Timed]) -> Self {
        let mut all = Self::new(events[0].1.0, events[0].0);
        events.iter().for_each(|event| all.add(event.0, event.1.1));
        all
    }

    fn add(&mut self, time: i64, number: i64) {
        self.last = time;
        self.numbers.push(number);
    }

    fn result(&self, bounds: (i64, i64), early: bool, ordered: bool) -> Value {
        let numbers = &self.numbers;
        let sum = if ordered { sequence(numbers) } else { numbers.iter().sum() };
        windowed(self.key, bounds, early, (numbers.len() as u64, sum))
    }

    /// The result of what begins and ends with events.
    fn own(&self, ordered: bool) -> Value {
        self.result((self.first, self.last + 1), false, ordered)
    }
}

/// A window that is open.
struct Open {
    bounds: (i64, i64),
    keys: Vec<Together>,
    /// Keys in the order in which they have had news since results were last given by time.
    changed: Vec<u32>,
}

/// Windows on their way through time.
struct Aligned {
    laid: Laid,
    updates: Updates,
    ordered: bool,
    /// By their ends.
    open: Vec<Open>,
    /// When early results are due.
    tick: Option<i64>,
    made: Vec<Timed>,
}

/// What windows that are the same for all keys give, in order of what happens.
pub fn aligned(
    events: &[Timed],
    laid: Laid,
    updates: Updates,
    keyed: bool,
    ordered: bool,
    watermark: i64,
) -> Vec<Timed> {
    let (open, made) = (Vec::new(), Vec::new());
    let mut windows = Aligned { laid, updates, ordered, open, tick: None, made };
    for &(time, (key, number)) in events {
        windows.pass(time);
        windows.take(time, if keyed { key } else { 0 }, number);
    }
    windows.pass(watermark);
    windows.tick = None;
    windows.pass(i64::MAX);
    windows.made
}

impl Aligned {
    /// All that is due at `clock`: a window that is over at a tick first.
    fn pass(&mut self, clock: i64) {
        loop {
            let end = self.open.first().map_or(i64::MAX, |window| window.bounds.1);
            let tick = self.tick.unwrap_or(i64::MAX);
            if end.min(tick) > clock || end.min(tick) == i64::MAX {
                return;
            }
            if end <= tick {
                let Open { bounds, keys, .. } = self.open.remove(0);
                let result = |it: &Together| (end - 1, it.result(bounds, false, self.ordered));
                self.made.extend(keys.iter().map(result));
            } else {
                self.tick = None;
                self.early(tick);
            }
        }
    }

    fn early(&mut self, tick: i64) {
        for Open { bounds, keys, changed } in &mut self.open {
            for key in changed.drain(..) {
                let own = keys.iter_mut().find(|it| it.key == key).expect("a key with news");
                if std::mem::take(&mut own.news) {
                    self.made.push((tick, own.result(*bounds, true, self.ordered)));
                }
            }
        }
    }

    fn take(&mut self, time: i64, key: u32, number: i64) {
        let Updates { events, interval, .. } = self.updates;
        let (ordered, nested) = (self.ordered, matches!(self.laid, Laid::Cumulative(_)));
        for (index, bounds) in around(self.laid, time).into_iter().enumerate() {
            let Open { keys, changed, .. } = self.opened(bounds);
            let own = match keys.iter().position(|it| it.key == key) {
                Some(position) => &mut keys[position],
                None => {
                    keys.push(Together::new(key, time));
                    keys.last_mut().expect("the new one")
                }
            };
            own.add(time, number);
            own.news = true;
            if nested && index > 0 {
                // The first that it is in speaks for it, now and when it closes.
                own.news = false;
            } else if events > 0 && (own.numbers.len() as u64).is_multiple_of(events) {
                own.news = false;
                let result = own.result(bounds, true, ordered);
                self.made.push((time, result));
            } else if interval > 0 {
                if !changed.contains(&key) {
                    changed.push(key);
                }
                let next = time - time.rem_euclid(interval as i64) + interval as i64;
                self.tick = Some(self.tick.map_or(next, |tick| tick.min(next)));
            }
        }
    }

    fn opened(&mut self, bounds: (i64, i64)) -> &mut Open {
        let place = self.open.iter().position(|window| window.bounds.1 >= bounds.1);
        let place = place.unwrap_or(self.open.len());
        if self.open.get(place).is_none_or(|window| window.bounds != bounds) {
            self.open.insert(place, Open { bounds, keys: Vec::new(), changed: Vec::new() });
        }
        &mut self.open[place]
    }
}

/// A session goes on with each event of its key that is less than the gap after its last.
pub fn sessions(
    events: &[Timed],
    gap: i64,
    updates: Updates,
    ordered: bool,
    watermark: i64,
) -> Vec<Timed> {
    let mut all: Vec<Together> = Vec::new();
    let mut early: Vec<(i64, u8, usize, Value)> = Vec::new();
    let mut due: Option<i64> = None;
    let interval = updates.interval as i64;
    let clock = events.last().map_or(watermark, |last| last.0.max(watermark));
    for (index, &(time, value)) in events.iter().enumerate() {
        if let Some(tick) = due.take_if(|tick| *tick <= time) {
            tell_changed(&mut all, tick, gap, ordered, &mut early);
        }
        let own = |it: &Together| it.key == value.0 && time - it.last < gap;
        let position = all.iter().rposition(own).unwrap_or_else(|| {
            all.push(Together::new(value.0, time));
            all.len() - 1
        });
        let session = &mut all[position];
        session.add(time, value.1);
        session.news = true;
        if updates.events > 0 && (session.numbers.len() as u64).is_multiple_of(updates.events) {
            session.news = false;
            let bounds = (session.first, time + gap);
            early.push((time, 2, index, session.result(bounds, true, ordered)));
        } else if interval > 0 {
            due = Some(time - time.rem_euclid(interval) + interval);
        }
    }
    if let Some(tick) = due.filter(|tick| *tick <= clock) {
        tell_changed(&mut all, tick, gap, ordered, &mut early);
    }
    // What happens at one time: sessions end, then early results by time, then those with events.
    let last = |(index, it): (usize, &Together)| {
        (it.last + gap, 0, index, it.result((it.first, it.last + gap), false, ordered))
    };
    early.extend(all.iter().enumerate().map(last));
    early.sort_by_key(|&(time, rank, index, _)| (time, rank, index));
    let at = |(time, rank, _, value)| (if rank == 0 { time - 1 } else { time }, value);
    early.into_iter().map(at).collect()
}

/// Early results at `tick` of sessions that are open and have news.
fn tell_changed(
    all: &mut [Together],
    tick: i64,
    gap: i64,
    ordered: bool,
    early: &mut Vec<(i64, u8, usize, Value)>,
) {
    for (index, session) in all.iter_mut().enumerate() {
        if session.last + gap > tick && std::mem::take(&mut session.news) {
            let bounds = (session.first, session.last + gap);
            early.push((tick, 1, index, session.result(bounds, true, ordered)));
        }
    }
}

/// What there is of a key for windows that go by its events.
struct Counted {
    events: Vec<Timed>,
    windows: usize,
}

/// A window of `n` events of a key, one every so many; at the end what has been in none.
pub fn counts(events: &[Timed], n: u64, every: u64, ordered: bool, watermark: i64) -> Vec<Timed> {
    let (n, every) = (n as usize, every as usize);
    let (mut made, mut keys) = (Vec::new(), Vec::<(u32, Counted)>::new());
    for &(time, value) in events {
        let position = keys.iter().position(|it| it.0 == value.0).unwrap_or_else(|| {
            keys.push((value.0, Counted { events: Vec::new(), windows: 0 }));
            keys.len() - 1
        });
        let own = &mut keys[position].1;
        own.events.push((time, value));
        let start = own.windows * every;
        if own.events.len() == start + n {
            made.push((time, Together::of(&own.events[start..]).own(ordered)));
            own.windows += 1;
            if every == n {
                keys.remove(position);
            }
        }
    }
    let clock = events.last().map_or(watermark, |last| last.0.max(watermark));
    for (_, Counted { events, windows }) in keys {
        let start = windows * every;
        let past = if windows > 0 { start.max(start - every + n) } else { 0 };
        if events.len() > past {
            made.push((clock, Together::of(&events[start..]).own(ordered)));
        }
    }
    made
}

/// Per key from one event to another; what lies outside is in none.
pub fn between(events: &[Timed], by: i64, ordered: bool, watermark: i64) -> Vec<Timed> {
    let (mut made, mut open) = (Vec::new(), Vec::<Vec<Timed>>::new());
    for &(time, value) in events {
        let position = match open.iter().position(|it| it[0].1.0 == value.0) {
            Some(position) => position,
            None if !opens(by)(&value) => continue,
            None => {
                open.push(Vec::new());
                open.len() - 1
            }
        };
        open[position].push((time, value));
        if closes(by)(&value) {
            made.push((time, Together::of(&open.remove(position)).own(ordered)));
        }
    }
    let clock = events.last().map_or(watermark, |last| last.0.max(watermark));
    made.extend(open.iter().map(|it| (clock, Together::of(it).own(ordered))));
    made
}

/// All events of each key are in one window, from 0 to `end`.
pub fn clocked(events: &[Timed], end: i64, ordered: bool) -> Vec<Timed> {
    let mut keys: Vec<Together> = Vec::new();
    for &(time, (key, number)) in events {
        match keys.iter_mut().find(|it| it.key == key) {
            Some(own) => own.add(time, number),
            None => keys.push(Together::of(&[(time, (key, number))])),
        }
    }
    keys.iter().map(|it| (end - 1, it.result((0, end), false, ordered))).collect()
}
