//! When a source counts as idle, seen from outside: it no longer holds a union back.

use std::time::Duration;

use mizzle::time::{ManualClock, Timestamp};
use mizzle::{Engine, Query};
use serde_json::{Value, json};

use super::Steps;
use crate::faults::{eventually, source_stats};

/// Steps that look, or move the clock and look, answer whether the source is idle. The busy source
/// beside it has promised as much as the observed one ever will, and is written after it: so the
/// observed one is named as what holds the union back exactly while it is waited for.
pub fn checks(spec: &Value, input: &[Value]) -> Steps {
    let clock = ManualClock::default();
    let engine = Engine::builder().workers(2).clock(clock.clone()).build().unwrap();
    let query = Query::new("idle");
    let promise = Timestamp::from_secs(1_000);
    let (observed, left) = query.push_source("observed", move |(): &()| promise);
    let (busy, right) = query.push_source("busy", move |(): &()| promise);
    let after = Duration::from_millis(spec["after"].as_u64().unwrap());
    left.idle_after(after).union(right).for_each(|_| ());
    let query = engine.submit(query).unwrap();
    busy.push(()).unwrap();
    let held_by = || {
        let union = |chain: &mizzle::ChainReport| chain.operators.iter().any(|it| it == "union");
        query.chains().into_iter().find(union).and_then(|chain| chain.held_by)
    };
    let wanted = spec["expect"].as_array().or(spec["looks"].as_array()).unwrap();
    let mut wanted = wanted.iter().map(|idle| idle.as_bool().unwrap());
    let (mut now, mut active) = (0, 0);
    let mut steps = Vec::new();
    for step in input {
        let time = ["at", "poll", "check", "proc_time"].iter().find_map(|name| step.get(*name));
        if let Some(time) = time.and_then(Value::as_u64) {
            clock.advance(Duration::from_millis(time - now));
            now = time;
        }
        if step.get("activity").is_some() || step.get("t").is_some() {
            observed.push(()).unwrap();
            active += 1;
            // Taken before the clock goes on: otherwise the source would be busy till then.
            eventually("the activity", || source_stats(&query, "observed").events_in == active);
            eventually("its effect", || held_by().as_deref() == Some("observed"));
        }
        if step.get("check").is_some() || step.get("poll").is_some() {
            let idle = wanted.next().expect("an answer for each look");
            let holder = if idle { "busy" } else { "observed" };
            eventually("the answer", || held_by().as_deref() == Some(holder));
            steps.push(vec![json!(idle)]);
        }
    }
    query.cancel();
    query.wait();
    steps
}
