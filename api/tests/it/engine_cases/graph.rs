//! How queries are built, and several of them beside each other.

use mizzle::aggregate::count;
use mizzle::sink::Collected;
use mizzle::{BoxedStream, Engine, PushHandle, Query, QueryHandle, Windows};
use serde_json::{Map, Value, json};

use super::Steps;
use super::values::Val;
use crate::faults::{at, completed, eventually, ms};

/// Two streams from one source, shared, or from sources of two queries.
struct Running {
    sources: Vec<PushHandle<i64>>,
    queries: Vec<QueryHandle>,
    sinks: Vec<Collected<Val>>,
}

/// What a spec's function does with a number.
fn applied(stream: BoxedStream<i64>, function: &Value) -> Collected<Val> {
    let (add, times) = (function["add"].as_i64(), function["times"].as_i64());
    let text = function["text"].as_str().map(str::to_owned);
    stream
        .map(move |n| match &text {
            Some(text) => Val::Text(format!("{text}{n}")),
            None => Val::Int(n * times.unwrap_or(1) + add.unwrap_or(0)),
        })
        .collect()
}

fn shared(engine: &Engine, functions: &[Value]) -> Running {
    let query = Query::new("q1 and q2");
    let (handle, stream) = query.push_source("S", |&n: &i64| at(n));
    let stream = stream.share();
    let sinks = functions.iter().map(|it| applied(stream.clone().boxed(), it)).collect();
    drop(stream);
    Running { sources: vec![handle], queries: vec![engine.submit(query).unwrap()], sinks }
}

fn separate(engine: &Engine, functions: &[Value]) -> Running {
    let mut running = Running { sources: Vec::new(), queries: Vec::new(), sinks: Vec::new() };
    for function in functions {
        let query = Query::new("q");
        let (handle, stream) = query.push_source("S", |&n: &i64| at(n));
        running.sinks.push(applied(stream.boxed(), function));
        running.sources.push(handle);
        running.queries.push(engine.submit(query).unwrap());
    }
    running
}

/// Submits, pushes numbers, removes the second query where a step says so, and shows what each sink
/// got, and which queries are left.
pub fn run(spec: &Value, input: &[Value]) -> Steps {
    let engine = Engine::builder().workers(2).build().unwrap();
    let functions = spec["functions"].as_array().unwrap();
    let Running { sources, queries, sinks } = match spec["shared"] == true {
        true => shared(&engine, functions),
        false => separate(&engine, functions),
    };
    let mut out = Map::new();
    for step in input {
        let number = step.get("v").map(|value| match value {
            Value::String(text) => text.trim_start_matches('d').parse().unwrap(),
            value => value.as_i64().unwrap(),
        });
        if let Some(number) = number {
            sources.iter().for_each(|source| source.push(number).unwrap());
        }
        if step.get("delete").is_some() {
            queries[1].cancel();
            queries[1].wait();
            assert!(sources[0].push(1).is_ok(), "the source of the other query is closed");
            out.insert("closed".to_owned(), json!(sources[1].push(1).is_err()));
            eventually("the result", || sinks[0].len() == 1);
            out.insert("graphs".to_owned(), json!(engine.queries().len()));
        }
    }
    drop(sources);
    queries.iter().filter(|query| !query.status().is_over()).for_each(completed);
    for (number, sink) in sinks.iter().enumerate() {
        let values = sink.values().iter().map(Val::json).collect::<Vec<_>>();
        out.insert(format!("k{}", number + 1), json!(values));
    }
    vec![vec![Value::Object(out)]]
}

/// The operators of a plan, chain by chain.
pub fn structure(spec: &Value) -> Steps {
    let query = Query::new("structure");
    let (_handle, source) = query.push_source("source", |&n: &i64| at(n));
    if spec["branches"] == true {
        let source = source.share();
        let mut branches = source.clone().branches();
        for value in 1..=3 {
            branches.when(move |&n| n == value).for_each(|_| ());
        }
        source.map(|n| n).for_each(|_| ());
    } else {
        source
            .flat_map(|n| [n])
            .filter(|_| true)
            .map(|n| n)
            .window(Windows::hopping(ms(5_000), ms(1_000)))
            .aggregate(count())
            .for_each(|_| ());
    }
    let plan = query.plan(1);
    let pieces = plan.pieces().iter().map(|piece| {
        let kinds = piece.ops.iter().map(|&op| json!(plan.site(op).kind));
        Value::Array(kinds.collect())
    });
    vec![pieces.collect()]
}
