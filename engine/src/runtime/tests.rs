//! What reaches the operators of a chain.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Line, Outlet, Port, QueryHandle, Settings};
use crate::harness::{Element, Probe};
use crate::operator::{Apply, Filter, Map, OpId};
use crate::plan::{Head, Segment, Shape, Site, Spec};
use crate::source;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Deadline, thread};
use crate::time::{ManualClock, Timestamp, Watermarks};

/// What takes longer hangs.
const GUARD: Duration = Duration::from_secs(20);

fn site(kind: &'static str, shape: Shape, in_order: bool) -> Site {
    let (name, location) = (kind.to_owned(), Location::caller());
    Site { name, kind, shape, in_order, cut_after: false, drawn: None, location }
}

/// Events at these seconds, up to two seconds out of order, through an operator that keeps one state.
fn arrivals(seconds: &[i64], in_order: bool, batch: usize) -> Vec<Element<i64>> {
    let head = Head::Source { op: OpId(0), in_order: false };
    let spec = Spec {
        sites: vec![
            site("source", Shape::Stateless, false),
            site("apply_stateful", Shape::Single, in_order),
        ],
        segments: vec![Segment { head, inputs: Vec::new(), ops: vec![OpId(1)] }],
    };
    let events = source::from_iter(seconds.to_vec(), |&s| Timestamp::from_secs(s));
    let probe = Probe::new();
    let operator = Apply::new(OpId(1), (), |(): &mut (), second| Some(second), None, probe.port(0));
    let settings = Settings { workers: 1, batch, ..Settings::default() };
    let engine = Engine::start(settings).unwrap();
    let watermarks = Watermarks::bounded(Duration::from_secs(2));
    engine
        .submit("arrivals".to_owned(), spec, |assembler| {
            assembler.source(0, events, watermarks, None, operator);
        })
        .wait();
    probe.take()
}

#[test]
fn an_ordered_chain_gets_events_by_time_and_uses_none_that_is_late() {
    for batch in [1, 2, 100] {
        let arrived = arrivals(&[3, 2, 9, 1, 8, 10], true, batch);
        let values = arrived.into_iter().filter_map(|element| match element {
            Element::Event(_, value, late) => Some((value, late)),
            Element::Watermark(_) | Element::End => None,
        });
        let expected = [2, 3, 8, 9, 10].map(|value| (value, false));
        assert_eq!(values.collect::<Vec<_>>(), expected, "in batches of {batch}");
    }
}

#[test]
fn the_last_promise_comes_before_the_end_however_it_is_batched() {
    for batch in [1, 2, 100] {
        let arrived = arrivals(&[3, 2, 9], false, batch);
        let last = Element::Watermark(Timestamp::from_secs(7));
        assert!(arrived.ends_with(&[last, Element::End]), "in batches of {batch}: {arrived:?}");
    }
}

/// Two sources, the first with an operator that several workers run, and their union.
fn two_and_their_union() -> Spec {
    let source = |op, ops| {
        let head = Head::Source { op: OpId(op), in_order: true };
        Segment { head, inputs: Vec::new(), ops }
    };
    let union = Head::Union { op: OpId(3) };
    Spec {
        sites: vec![
            site("source", Shape::Stateless, false),
            site("source", Shape::Stateless, false),
            site("map", Shape::Stateless, false),
            site("union", Shape::Stateless, false),
            site("probe", Shape::Single, false),
        ],
        segments: vec![
            source(0, vec![OpId(2)]),
            source(1, Vec::new()),
            Segment { head: union, inputs: vec![0, 1], ops: vec![OpId(4)] },
        ],
    }
}

/// Waits until `counted` of the chain of `piece` is at least `least`.
fn await_count(
    query: &QueryHandle,
    piece: usize,
    least: u64,
    counted: fn(&super::ChainStats) -> u64,
) {
    let guard = Deadline::after(GUARD);
    while counted(&query.chains()[piece].stats) < least {
        assert!(!guard.left().is_zero(), "hangs: {:#?}", query.chains());
        thread::yield_now();
    }
}

#[test]
fn idleness_does_not_overtake_an_event_that_another_worker_is_at() {
    let clock = ManualClock::default();
    let settings = Settings { workers: 2, clock: Arc::new(clock.clone()), ..Settings::default() };
    let engine = Engine::start(settings).unwrap();
    let at = |&second: &i64| Timestamp::from_secs(second);
    let ((slow, slow_push), (other, other_push)) = (Line::new(at), Line::new(at));
    let (probe, port) = (Probe::new(), Port::new(2));
    let recorder = probe.port(0);
    let let_go = Arc::new(AtomicBool::new(false));
    let may_go = let_go.clone();
    let held = move |second: i64| {
        let guard = Deadline::after(GUARD);
        while second == 50 && !may_go.load(Ordering::Acquire) && !guard.left().is_zero() {
            thread::yield_now();
        }
        second
    };
    let query = engine.submit("idle".to_owned(), two_and_their_union(), |assembler| {
        port.mark_used();
        assembler.inbox(2, port.clone(), recorder);
        let outlet = assembler.outlet(1, &port, 1);
        assembler.pushed(1, &other, Watermarks::ascending(), outlet);
        let map = Map::<_, _, _, false>::new(OpId(2), held, assembler.outlet(0, &port, 0));
        let idle = Watermarks::ascending().idle_after(Duration::from_secs(1));
        assembler.pushed(0, &slow, idle, map);
    });
    other_push.push(100).unwrap();
    await_count(&query, 2, 1, |stats| stats.events_in);
    slow_push.push(50).unwrap();
    await_count(&query, 0, 1, |stats| stats.events_in);
    let looks = query.chains()[0].stats.batches;
    clock.advance(Duration::from_secs(2));
    await_count(&query, 0, looks + 1, |stats| stats.batches);
    slow_push.push(60).unwrap();
    await_count(&query, 2, 2, |stats| stats.events_in);
    let_go.store(true, Ordering::Release);
    drop((slow_push, other_push));
    query.wait();
    let arrived = probe.take();
    let late = |element: &Element<i64>| matches!(element, Element::Event(_, _, true));
    assert!(!arrived.iter().any(late), "{arrived:?}");
}

/// A stream may come back with an event that goes no further, before it has promised anything: the
/// union behind it must hear of it all the same.
#[test]
fn a_union_hears_that_an_input_is_back_though_nothing_of_it_arrives() {
    let clock = ManualClock::default();
    let settings = Settings { workers: 2, clock: Arc::new(clock.clone()), ..Settings::default() };
    let engine = Engine::start(settings).unwrap();
    let at = |&second: &i64| Timestamp::from_secs(second);
    let ((quiet, quiet_push), (other, other_push)) = (Line::new(at), Line::new(at));
    let (probe, port) = (Probe::new(), Port::new(2));
    let recorder = probe.port(0);
    let query = engine.submit("back".to_owned(), two_and_their_union(), |assembler| {
        port.mark_used();
        assembler.inbox(2, port.clone(), recorder);
        let outlet = assembler.outlet(1, &port, 1);
        assembler.pushed(1, &other, Watermarks::ascending(), outlet);
        let outlet = assembler.outlet(0, &port, 0);
        let nothing = Filter::<_, _, false>::new(OpId(2), |_: &i64| false, outlet);
        let silent = Watermarks::punctuated(|_| None).idle_after(Duration::from_secs(1));
        assembler.pushed(0, &quiet, silent, nothing);
    });
    let await_holding = |input| {
        let guard = Deadline::after(GUARD);
        while query.chains()[2].stats.holding != input {
            assert!(!guard.left().is_zero(), "hangs: {:#?}", query.chains());
            thread::yield_now();
        }
    };
    clock.advance(Duration::from_secs(2));
    await_holding(Some(1));
    quiet_push.push(50).unwrap();
    await_holding(Some(0));
    drop((quiet_push, other_push));
    query.wait();
}

#[test]
fn an_armed_timer_does_not_keep_a_cancelled_query() {
    let settings = Settings { workers: 1, ..Settings::default() };
    let engine = Engine::start(settings).unwrap();
    let head = Head::Source { op: OpId(0), in_order: true };
    let spec = Spec {
        sites: vec![site("source", Shape::Stateless, false)],
        segments: vec![Segment { head, inputs: Vec::new(), ops: Vec::new() }],
    };
    let (line, push) = Line::new(|&second: &i64| Timestamp::from_secs(second));
    let captured = Arc::new(());
    let held = captured.clone();
    let query = engine.submit("idle".to_owned(), spec, |assembler| {
        let idle = Watermarks::ascending().idle_after(Duration::from_secs(3_600));
        let end = Outlet::new(None);
        let map = Map::<_, _, _, false>::new(
            OpId(0),
            move |n: i64| {
                let _ = &held;
                n
            },
            end,
        );
        assembler.pushed(0, &line, idle, map);
    });
    push.push(1).unwrap();
    await_count(&query, 0, 1, |stats| stats.events_in);
    query.cancel();
    query.wait();
    let guard = Deadline::after(GUARD);
    // A worker may still be on its way out of the chain.
    while Arc::strong_count(&captured) > 1 {
        assert!(!guard.left().is_zero(), "the timer keeps the chain");
        thread::yield_now();
    }
}
