//! Faults that users met with patterns, each test named after its id in `tests/cases/faults.jsonl`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mizzle::pattern::{
    AtCap, Bound, Part, Pattern, Report, Skip, absent, all_of, any_of, either, step, step_if, wait,
};
use mizzle::sink::Collected;
use mizzle::stream::Member;
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{Engine, PushHandle, Query, QueryHandle, source};

use super::common::{at, completed, engine, eventually, ms, total};

/// When in milliseconds, of which key or amount, of which kind.
type Seen = (i64, u32, char);

/// Results that have come when the query is over do not depend on how many workers there are, and how large
/// the batches.
const WAYS: [(usize, usize); 4] = [(1, 1), (1, 1_024), (2, 1), (4, 3)];

/// `long` where the environment asks for it, else `short`.
fn budget(short: usize, long: usize) -> usize {
    if std::env::var_os("MIZZLE_LONG").is_some() { long } else { short }
}

/// The step that takes `kind`, and is called so.
fn of(kind: char) -> Part<Seen> {
    step(&kind.to_string(), move |event: &Seen| event.2 == kind)
}

/// Events of key 0: `A1 X2`.
fn events(text: &str) -> Vec<Seen> {
    let event = |word: &str| {
        let mut letters = word.chars();
        let kind = letters.next().expect("an event has a kind");
        (letters.as_str().parse().expect("an event has a time"), 0, kind)
    };
    text.split_whitespace().map(event).collect()
}

/// What was taken, as events are written.
fn told(events: &Bound<'_, Seen>) -> String {
    let told = |(time, _, kind): &Seen| format!("{kind}{time}");
    let all: Vec<_> = events.events().into_iter().map(|taken| told(taken.value)).collect();
    all.join(" ")
}

/// The matches and the timeouts, in the order in which they came.
#[derive(Debug, PartialEq)]
struct Outcome {
    matches: Vec<String>,
    timeouts: Vec<(Timestamp, String)>,
}

/// What `pattern` finds among the events in `text`, in all ways.
fn outcome(text: &str, pattern: fn() -> Pattern<Seen>) -> Outcome {
    let in_way = |(workers, batch)| {
        let engine = Engine::builder().workers(workers).batch(batch).build().unwrap();
        let query = Query::new("fault");
        let (matches, timeouts) = query
            .source("events", source::from_iter(events(text), |event| at(event.0)))
            .key_by(|event| event.1)
            .pattern(pattern(), told)
            .timeouts(told);
        let (matches, timeouts) = (matches.collect(), timeouts.collect());
        completed(&engine.submit(query).unwrap());
        let timeouts = timeouts.events().into_iter().map(|event| (event.time, event.value));
        Outcome { matches: matches.values(), timeouts: timeouts.collect() }
    };
    let first = in_way(WAYS[0]);
    for way in &WAYS[1..] {
        assert_eq!(in_way(*way), first, "{way:?}");
    }
    first
}

fn found(text: &str, pattern: fn() -> Pattern<Seen>) -> Vec<String> {
    outcome(text, pattern).matches
}

/// A query that runs, of events that the test sends.
struct Running {
    handle: QueryHandle,
    push: PushHandle<Seen>,
    matches: Collected<String>,
    timeouts: Collected<String>,
}

fn running(engine: &Engine, name: &str, pattern: Pattern<Seen>) -> Running {
    let query = Query::new(name);
    let (push, stream) = query.push_source("events", |event: &Seen| at(event.0));
    let (matches, timeouts) = stream.key_by(|event| event.1).pattern(pattern, told).timeouts(told);
    let (matches, timeouts) = (matches.collect(), timeouts.collect());
    Running { handle: engine.submit(query).unwrap(), push, matches, timeouts }
}

impl Running {
    fn send(&self, events: impl IntoIterator<Item = Seen>) {
        for event in events {
            self.push.push(event).unwrap();
        }
    }

    /// The times and values of all that came, once the query is over.
    fn ended(self) -> [Vec<(Timestamp, String)>; 2] {
        drop(self.push);
        completed(&self.handle);
        let all = |out: Collected<String>| {
            out.events().into_iter().map(|event| (event.time, event.value)).collect()
        };
        [all(self.matches), all(self.timeouts)]
    }
}

#[test]
fn ce_01_timeout_needs_no_further_event_of_its_key() {
    for workers in [1, 4] {
        let engine = engine(workers);
        let query = running(&engine, "q", Pattern::new(of('A').then(of('B'))).within(ms(10)));
        query.send([(0, 1, 'A'), (5, 2, 'X'), (20, 2, 'X')]);
        eventually("the timeout", || query.timeouts.len() == 1);
        assert_eq!(query.ended(), [vec![], vec![(at(10), "A0".into())]]);
        // Nor any event at all.
        let query = running(&engine, "q", Pattern::new(of('A').then(of('B'))).within(ms(10)));
        query.send([(0, 1, 'A')]);
        query.push.advance(at(10));
        eventually("the timeout", || query.timeouts.len() == 1);
        assert_eq!(query.ended(), [vec![], vec![(at(10), "A0".into())]]);
    }
}

/// Counts, for each event, how often a partial match is asked whether it takes it.
fn counting(asked: &Arc<Vec<AtomicU32>>, possessive: bool) -> Pattern<Seen> {
    let counted = |kind: char| {
        let asked = asked.clone();
        step_if(&kind.to_string(), move |event: &Seen, _| {
            asked[event.0 as usize].fetch_add(1, Ordering::Relaxed);
            event.2 == kind
        })
    };
    let some = counted('A').one_or_more();
    let some = if possessive { some.possessive() } else { some };
    Pattern::new(some.then(counted('B'))).within(ms(10))
}

/// With `possessive` one that began has all since. Without, it may stop at each of them: that is as many more.
#[test]
fn ce_03_partial_matches_do_not_grow() {
    let n = budget(10_000, 100_000);
    let none = || Arc::new((0..=n).map(|_| AtomicU32::new(0)).collect::<Vec<_>>());
    let stream = || (0..=n as i64).map(|time| (time, 0, 'A'));
    let engine = engine(2);
    for (possessive, of_all, at_first, at_most) in
        [(true, n + 1, [1, 2, 3], 10), (false, 10 * (n + 1) - 45, [1, 3, 6], 55)]
    {
        let asked = none();
        let query = running(&engine, "q", counting(&asked, possessive));
        query.push.push_all(stream().collect()).unwrap();
        let [matches, timeouts] = query.ended();
        assert_eq!((matches.len(), timeouts.len()), (0, of_all));
        // As much is asked at the end as at the beginning: those that began at the nine ticks before.
        let asked: Vec<_> = asked.iter().map(|asked| asked.load(Ordering::Relaxed)).collect();
        assert_eq!(asked[..3], at_first);
        assert!(asked[9..].iter().all(|&asked| asked == at_most));
    }

    // And the state is no larger, as a member of a group shows it.
    let query = Query::new("q");
    let (push, events) = query.push_source("events", |event: &Seen| at(event.0));
    let (group, results) = events.key_by(|event| event.1).group("g", |member: Member<(), _>| {
        member.map(|((), event)| event).pattern(counting(&none(), false), told).named("partial")
    });
    results.for_each(drop);
    let member = group.add(0, ()).unwrap();
    let handle = engine.submit(query).unwrap();
    let mut sizes = Vec::new();
    for part in [0..1_000, 1_000..n] {
        push.push_all(stream().skip(part.start).take(part.len()).collect()).unwrap();
        eventually("the events", || group.stats().total().events == part.end as u64);
        let report = group.inspect(member).unwrap().expect("it lives");
        sizes.push(report.state[0].json.len());
    }
    assert!(sizes[0] > 100 && sizes[1] < 2 * sizes[0], "{sizes:?}");
    drop(push);
    completed(&handle);
}

#[test]
fn ce_04_equal_events_of_one_time() {
    let input = "A1 B1 B1 A2 B3";
    let first = outcome(input, || Pattern::new(of('A').then(of('B'))).within(ms(100)));
    assert_eq!(first, Outcome { matches: vec!["A1 B1".into(), "A2 B3".into()], timeouts: vec![] });
    let any = found(input, || Pattern::new(of('A').then_any(of('B'))));
    assert_eq!(any, ["A1 B1", "A1 B1", "A1 B3", "A2 B3"]);
    // Behind its first event a match drops what began with it: so all with `then_any` is the same as the first.
    let skipping = found(input, || Pattern::new(of('A').then_any(of('B'))).skip(Skip::ToNext));
    assert_eq!(skipping, ["A1 B1", "A2 B3"]);
}

/// P or Q, then R of the same amount, which stands where keys do elsewhere.
fn of_one_amount() -> Pattern<Seen> {
    let first = step("first", |event: &Seen| matches!(event.2, 'P' | 'Q'));
    let second =
        step_if("R", |event: &Seen, before| event.2 == 'R' && event.1 == before["first"].1);
    Pattern::new(first.then(second)).within(ms(100)).skip(Skip::PastLast)
}

/// Ours: a match is told at once, whatever began before it. Who wants the preferred of all that overlap
/// says `Report::Best`, and gets it when those that began earlier are decided.
#[test]
fn ce_07_older_partial_match_holds_back_no_match() {
    let engine = engine(2);
    for (report, when) in [(Report::Each, 3), (Report::Best, 101)] {
        let query = Query::new("amounts");
        let (push, events) = query.push_source("events", |event: &Seen| at(event.0));
        let matches = events.pattern(of_one_amount().report(report), told).collect();
        let handle = engine.submit(query).unwrap();
        push.push_all(vec![(1, 7, 'P'), (2, 9, 'Q'), (3, 9, 'R')]).unwrap();
        push.advance(at(when));
        eventually("the match", || matches.len() == 1);
        drop(push);
        completed(&handle);
        let found: Vec<_> =
            matches.events().into_iter().map(|event| (event.time, event.value)).collect();
        assert_eq!(found, [(at(when), "Q2 R3".to_owned())], "{report:?}");
    }
}

#[test]
fn ce_08_pattern_with_counts_fires_again() {
    let input = "A1 A2 B3 B4 A5 A6 B7 B8";
    fn twice() -> Part<Seen> {
        of('A').times(2..=2).then(of('B').times(2..=2))
    }
    let expected = ["A1 A2 B3 B4", "A5 A6 B7 B8"];
    let skipping = found(input, || Pattern::new(twice()).within(ms(10)).skip(Skip::PastLast));
    assert_eq!(skipping, expected);
    assert_eq!(found(input, || Pattern::once(twice().within(ms(10)).every())), expected);
    // Unless something is skipped, matches overlap.
    let all = found(input, || Pattern::new(twice()).within(ms(10)));
    assert_eq!(all, ["A1 A2 B3 B4", "A2 A5 B7 B8", "A5 A6 B7 B8"]);
}

#[test]
fn ce_10_expired_events_do_not_count() {
    let input = "A0 A1 A12 A13 A14";
    let three = found(input, || Pattern::new(of('A').times(3..=3)).within(ms(10)));
    assert_eq!(three, ["A12 A13 A14"]);
}

/// `kind` is not followed by itself for 20 ms, written in two ways.
fn lonely(kind: char, in_words: bool) -> Pattern<Seen> {
    if in_words {
        Pattern::new(of(kind).not_then(of(kind))).within(ms(20))
    } else {
        Pattern::new(of(kind).then(all_of([wait(ms(20)), absent(of(kind))])))
    }
}

#[test]
fn ce_11_absences_of_two_queries() {
    for workers in [1, 8] {
        let engine = engine(workers);
        for round in 0..budget(20, 200) {
            let queries = ['X', 'Y']
                .map(|kind| running(&engine, &kind.to_string(), lonely(kind, round % 2 == 0)));
            for query in &queries {
                query.send([(0, 0, 'X'), (1, 0, 'Y')]);
                query.push.advance(at(50));
            }
            for (query, expected) in queries.into_iter().zip([(at(20), "X0"), (at(21), "Y1")]) {
                eventually("the alert", || query.matches.len() == 1);
                let [alerts, _] = query.ended();
                assert_eq!(alerts, [(expected.0, expected.1.to_owned())]);
            }
        }
    }
}

/// Ours: the deadline is excluded, unless it is said to be included. Never both, never neither.
#[test]
fn ce_13_deadline() {
    for workers in [1, 4] {
        let engine = engine(workers);
        let exclusive = Pattern::new(of('P').then(of('C'))).within(ms(300));
        let inclusive = Pattern::new(of('P').then(of('C'))).within_inclusive(ms(300));
        for (pattern, matched, over) in
            [(exclusive, &[2][..], at(300)), (inclusive, &[1, 2], Timestamp::from_micros(300_001))]
        {
            let query = Query::new("q");
            let (push, stream) = query.push_source("events", |event: &Seen| at(event.0));
            let (matches, timeouts) = stream
                .key_by(|event| event.1)
                .pattern(pattern, |events| events["P"].1)
                .timeouts(|events| events["P"].1);
            let (matches, timeouts) = (matches.collect(), timeouts.collect());
            let handle = engine.submit(query).unwrap();
            push.push_all((1..=4).map(|key| (0, key, 'P')).collect()).unwrap();
            push.push_all(vec![(299, 2, 'C'), (300, 1, 'C'), (301, 3, 'C')]).unwrap();
            push.advance(at(1_000));
            eventually("all timeouts", || timeouts.len() == 4 - matched.len());
            drop(push);
            completed(&handle);
            let mut found = matches.values();
            found.sort_unstable();
            assert_eq!(found, matched);
            let mut late: Vec<_> =
                timeouts.events().into_iter().map(|e| (e.value, e.time)).collect();
            late.sort_unstable();
            let unmatched = (1..=4).filter(|key| !matched.contains(key));
            assert!(late.iter().copied().eq(unmatched.map(|key| (key, over))), "{late:?}");
        }
    }
}

#[test]
fn ce_15_repetition_is_strict() {
    let input = "A1 X2 A3 A4 X5 A6";
    let strict = found(input, || Pattern::new(of('A').times(2..=2).consecutive()));
    assert_eq!(strict, ["A3 A4"]);
    let relaxed = found(input, || Pattern::new(of('A').times(2..=2)));
    assert_eq!(relaxed, ["A1 A3", "A3 A4", "A4 A6"]);
}

/// How often a pattern begins and what `then` passes over are two choices.
#[test]
fn ce_16_selection() {
    let input = "X1 A2 X3 A4 X5 B6 X7 X8 B9 A10 X11 B12";
    let once = found(input, || Pattern::once(of('A').then(of('B'))));
    assert_eq!(once, ["A2 B6"]);
    let each = ["A2 B6", "A4 B6", "A10 B12"];
    assert_eq!(found(input, || Pattern::new(of('A').then(of('B')))), each);
    assert_eq!(found(input, || Pattern::once(of('A').every().then(of('B')))), each);
    let with_all = ["A2 B6", "A2 B9", "A2 B12"];
    assert_eq!(found(input, || Pattern::once(of('A').then_any(of('B')))), with_all);
    assert_eq!(found(input, || Pattern::once(of('A').then(of('B').every()))), with_all);
    let all = ["A2 B6", "A4 B6", "A2 B9", "A4 B9", "A2 B12", "A4 B12", "A10 B12"];
    assert_eq!(found(input, || Pattern::new(of('A').then_any(of('B')))), all);
}

/// Why the query is refused.
fn refusal(pattern: Pattern<Seen>) -> String {
    let query = Query::new("q");
    query
        .source("events", source::from_iter([], |event: &Seen| at(event.0)))
        .pattern(pattern, told)
        .for_each(drop);
    let error = engine(1).submit(query).err().expect("it is refused").to_string();
    assert!(error.contains("\"pattern\" (api/tests/patterns/faults.rs:"), "{error}");
    error
}

/// Ours: refused. What does not come is only found beside a time, which the key's first event begins.
#[test]
fn ce_17_nothing_fires_without_an_event() {
    let alone = "`absent` stands beside what it forbids";
    let pair = || of('A').then(of('B'));
    for part in
        [absent(of('C')), any_of([pair(), absent(of('C'))]), either([pair(), absent(of('C'))])]
    {
        let error = refusal(Pattern::new(part));
        assert!(error.contains(alone), "{error}");
    }
    let unending = "what must not come has no end";
    for part in [all_of([absent(of('C'))]), of('A').not_then(of('C'))] {
        let error = refusal(Pattern::once(part));
        assert!(error.contains(unending), "{error}");
    }
    let quiet = || all_of([wait(ms(10)), absent(of('C'))]);
    let error = refusal(Pattern::new(quiet()));
    assert!(error.contains("begins with a wait"), "{error}");

    let engine = engine(1);
    for events in [vec![], vec![(5, 0, 'X')]] {
        let quiet = running(&engine, "quiet", Pattern::once(quiet()));
        quiet.push.advance(at(1));
        quiet.send(events.clone());
        quiet.push.advance(at(1_000));
        let [matches, _] = quiet.ended();
        let expected: Vec<_> = events.iter().map(|_| (at(15), String::new())).collect();
        assert_eq!(matches, expected);
    }
}

/// Ours: each event that fits begins a match of its own, unless it is said that an event is in one only.
#[test]
fn ce_18_conjunction() {
    fn both() -> Pattern<Seen> {
        Pattern::new(all_of([of('A'), of('B')])).within(ms(10))
    }
    assert_eq!(found("A1 B2", both), ["A1 B2"]);
    assert_eq!(found("B1 A2", both), ["B1 A2"]);
    let input = "A1 A2 B3";
    assert_eq!(found(input, both), ["A1 B3", "A2 B3"]);
    assert_eq!(found(input, || both().consume()), ["A1 B3"]);
    assert_eq!(found(input, || Pattern::once(all_of([of('A'), of('B')]))), ["A1 B3"]);
}

/// How many matches there are at the end.
fn counted(engine: &Engine, query: Query, matches: &Collected<String>) -> usize {
    completed(&engine.submit(query).unwrap());
    matches.len()
}

#[test]
fn ce_19_two_threads_feed_one_pattern() {
    let n = budget(20_000, 200_000) as i64;
    let of_a = move || (0..n).map(|i| (2 * i, (i % 100) as u32, 'A'));
    let of_b = move || (0..n).map(|i| (2 * i + 1, (i * 7 % 1_000 / 10) as u32, 'B'));
    let pattern = || Pattern::new(of('A').then(of('B'))).within(ms(150));
    // Each A that waits at a B of its key, and is not too old.
    let mut waiting = vec![Vec::new(); 100];
    let mut by_hand = 0;
    for ((time_a, key_a, _), (time_b, key_b, _)) in of_a().zip(of_b()) {
        waiting[key_a as usize].push(time_a);
        let all = waiting[key_b as usize].drain(..);
        by_hand += all.filter(|&began| time_b - began < 150).count();
    }
    assert!(by_hand > n as usize / 4 && by_hand < n as usize, "{by_hand} of {n}");
    let query = Query::new("one thread");
    let in_turn = of_a().zip(of_b()).flat_map(|(a, b)| [a, b]);
    let matches = query
        .source("both", source::from_iter(in_turn, |event| at(event.0)))
        .key_by(|event| event.1)
        .pattern(pattern(), told)
        .collect();
    assert_eq!(counted(&engine(1), query, &matches), by_hand);
    for workers in [1, 4] {
        let engine = engine(workers);
        let query = Query::new("two threads");
        let (push_a, a) = query.push_source("a", |event: &Seen| at(event.0));
        let (push_b, b) = query.push_source("b", |event: &Seen| at(event.0));
        let matches = a.union(b).key_by(|event| event.1).pattern(pattern(), told).collect();
        let senders = [
            std::thread::spawn(move || of_a().for_each(|event| push_a.push(event).unwrap())),
            std::thread::spawn(move || of_b().for_each(|event| push_b.push(event).unwrap())),
        ];
        assert_eq!(counted(&engine, query, &matches), by_hand);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    }
}

#[test]
fn ce_20_one_event_fills_one_step() {
    let input = "X1 X2 X3 X4";
    fn pair() -> Part<Seen> {
        of('X').then(of('X'))
    }
    let apart = ["X1 X2", "X3 X4"];
    assert_eq!(found(input, || Pattern::new(pair()).skip(Skip::PastLast)), apart);
    assert_eq!(found(input, || Pattern::new(pair()).consume()), apart);
    assert_eq!(found(input, || Pattern::once(pair().every())), apart);
    let twice = || Pattern::new(of('X').times(2..=2)).skip(Skip::PastLast);
    assert_eq!(found(input, twice), apart);
    assert_eq!(found(input, || Pattern::new(pair())), ["X1 X2", "X2 X3", "X3 X4"]);
    assert!(found("X1", || Pattern::new(pair())).is_empty());
}

#[test]
fn ce_21_late_events_are_counted_and_handed_out() {
    for (workers, batch) in WAYS {
        let engine = Engine::builder().workers(workers).batch(batch).build().unwrap();
        let pattern = || Pattern::new(of('A').then(of('B'))).within(ms(10));
        let read = |query: &Query| {
            let events = source::from_iter(events("A10 B5 B12"), |event| at(event.0));
            query.source("events", events).watermarks(Watermarks::bounded(Duration::ZERO))
        };
        let query = Query::new("handed out");
        let (on_time, late) = read(&query).split_late();
        let (matches, late) = (on_time.pattern(pattern(), told).collect(), late.collect());
        let handle = engine.submit(query).unwrap();
        completed(&handle);
        assert_eq!(matches.values(), ["A10 B12"]);
        assert_eq!(late.values(), [(5, 0, 'B')]);

        let query = Query::new("counted");
        let matches = read(&query).pattern(pattern(), told).collect();
        let handle = engine.submit(query).unwrap();
        completed(&handle);
        assert_eq!(matches.values(), ["A10 B12"]);
        assert_eq!(total(&handle, |stats| stats.late_unused), 1);
    }
}

/// Ours: an event without a previous one is no pair.
#[test]
fn ce_23_previous_value_is_of_its_key() {
    type Value = (char, i64);
    let values = [('a', 1), ('b', 10), ('a', 2), ('b', 20), ('a', 2)];
    for (workers, batch) in WAYS {
        let engine = Engine::builder().workers(workers).batch(batch).build().unwrap();
        let query = Query::new("previous");
        let values = values.into_iter().enumerate();
        let values = query
            .source("values", source::from_iter(values, |&(place, _)| at(place as i64)))
            .map(|(_, value)| value)
            .share();
        let by_key = || values.clone().key_by(|value: &Value| value.0);
        let pairs = by_key().pairwise().in_order().collect();
        let changed = by_key().distinct_until_changed(|value| value.1).in_order().collect();
        // As a pattern.
        let pair = step("before", |_: &Value| true).next(step("now", |_| true));
        let as_pattern =
            by_key().pattern(Pattern::new(pair), |of| (of["before"], of["now"])).collect();
        drop(values);
        completed(&engine.submit(query).unwrap());
        let sorted = |mut pairs: Vec<(Value, Value)>| {
            pairs.sort_unstable();
            pairs
        };
        let expected = [(('a', 1), ('a', 2)), (('a', 2), ('a', 2)), (('b', 10), ('b', 20))];
        assert_eq!(sorted(pairs.values()), expected);
        assert_eq!(sorted(as_pattern.values()), expected);
        let mut changed = changed.values();
        changed.sort_unstable();
        assert_eq!(changed, [('a', 1), ('a', 2), ('b', 10), ('b', 20)]);
    }
}

#[test]
fn wi_27_patterns_of_nothing_are_refused() {
    let pair = || of('A').then(of('B'));
    let repeated = |min, max| Pattern::new(of('A').times(min..=max));
    let nothing = "has no steps, so nothing can match it";
    for pattern in
        [Pattern::new(all_of([])), Pattern::new(either([])), repeated(3, 2), repeated(0, 0)]
    {
        let error = refusal(pattern);
        assert!(error.contains(nothing), "{error}");
    }
    for (pattern, what) in [
        (Pattern::new(pair()).within(ms(0)), "time that the pattern may take is zero"),
        (Pattern::new(pair()).within_each(ms(0)), "time between two events is zero"),
        (Pattern::new(pair()).max_partial(0, AtCap::Fail), "partial matches that a key may have"),
        (Pattern::new(of('A').then(of('B').max_pending(0))), "partial matches that may wait"),
        (Pattern::once(of('A').then(wait(ms(0)))), "wait is zero"),
        (repeated(0, 3), "everything matches"),
        (Pattern::new(pair()).skip(Skip::ToFirst("C".into())), "no step is called \"C\""),
    ] {
        let error = refusal(pattern);
        assert!(error.contains(what), "{error}");
    }
}
