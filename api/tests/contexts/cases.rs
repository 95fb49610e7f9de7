//! Every case of `cases/contexts.jsonl`: its schedule is gone through step by step.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mizzle::context::{ContextCx, ContextHandle, Handlers, Stepped};
use serde_json::Value;

type Table = BTreeMap<String, Vec<Vec<String>>>;

/// What the contexts of a case share.
#[derive(Clone, Default)]
struct World {
    processed: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
    contexts: Arc<Mutex<BTreeMap<String, ContextHandle<String>>>>,
    table: Arc<Table>,
}

fn act(world: &World, name: &str, event: &String, cx: &mut ContextCx<'_, String>) {
    world.processed.lock().unwrap().entry(name.to_owned()).or_default().push(event.clone());
    for action in world.table.get(&format!("{name}:{event}")).into_iter().flatten() {
        match &action.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["route", event] => cx.route((*event).to_owned()),
            ["enqueue", event] => cx.enqueue((*event).to_owned()),
            ["to", target, event] => {
                let target = world.contexts.lock().unwrap()[*target].clone();
                cx.enqueue_to(&target, (*event).to_owned()).unwrap();
            }
            other => panic!("no such action: {other:?}"),
        }
    }
}

/// What each context has processed, and how many warnings there were.
fn outcome(setup: &Value) -> (BTreeMap<String, Vec<String>>, u64) {
    let table: Table = serde_json::from_value(setup["handlers"].clone()).unwrap();
    let world = World { table: Arc::new(table), ..World::default() };
    let stepped = Stepped::new();
    for (name, options) in setup["contexts"].as_object().unwrap() {
        let mut context = stepped.context(name);
        if options["public"] == true {
            context = context.public();
        }
        if let Some(capacity) = options["cap"].as_u64() {
            context = context.capacity(capacity as usize);
        }
        let (world, own) = (world.clone(), name.clone());
        world.processed.lock().unwrap().insert(name.clone(), Vec::new());
        let acting = world.clone();
        let handlers = Handlers::new().on(
            |event: &String| Some(event),
            move |(): &mut (), event, cx| {
                act(&acting, &own, event, cx);
            },
        );
        world.contexts.lock().unwrap().insert(name.clone(), context.start(handlers, ()));
    }
    let contexts = world.contexts.lock().unwrap().clone();
    for step in setup["schedule"].as_array().unwrap() {
        match (step[0].as_str().unwrap(), step[1].as_str(), &step[2]) {
            ("send", Some(event), Value::Null) => {
                stepped.contexts().publish(event.to_owned());
            }
            ("send", Some(event), to) => {
                for name in to.as_array().unwrap() {
                    contexts[name.as_str().unwrap()].try_send(event.to_owned()).unwrap();
                }
            }
            ("run", Some(name), Value::Null) => {
                stepped.run(&contexts[name]);
            }
            ("run", Some(name), most) => {
                stepped.step(&contexts[name], most.as_u64().unwrap() as usize);
            }
            ("move", ..) => {
                stepped.move_enqueued::<String>();
            }
            // A circle of waits is found by the one who closes it.
            ("break", ..) => {}
            other => panic!("no such step: {other:?}"),
        }
    }
    let processed = world.processed.lock().unwrap().clone();
    // They hold each other.
    world.contexts.lock().unwrap().clear();
    (processed, stepped.contexts::<String>().stats().warnings)
}

#[test]
fn every_case_with_a_schedule() {
    let mut run = Vec::new();
    for line in include_str!("../cases/contexts.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let id = case["id"].as_str().unwrap();
        if !case["setup"].is_object() {
            continue;
        }
        let (processed, warnings) = outcome(&case["setup"]);
        let expected = &case["expected"];
        assert_eq!(serde_json::to_value(processed).unwrap(), expected["processed"], "{id}");
        assert_eq!(warnings, expected["warnings"].as_u64().unwrap_or(0), "{id}");
        run.push(id.to_owned());
    }
    assert_eq!(run, ["A01", "A02", "A03", "A06", "A07", "A08", "A10", "A11", "A12", "A14"]);
}

#[test]
fn a18_completed_and_unmatched() {
    struct A(&'static str, u32);
    fn foo_below_10(event: &A) -> Option<&A> {
        (event.0 == "foo" && event.1 < 10).then_some(event)
    }
    let prints = Arc::new(Mutex::new(Vec::new()));
    let print = |what: &'static str| {
        let prints = prints.clone();
        move |a: &A| {
            let name = if a.0 == "foo" { String::new() } else { format!("{} ", a.0) };
            prints.lock().unwrap().push(format!("{what} {name}{}", a.1));
        }
    };
    let (matched, completed, unmatched) = (print("Match"), print("Completed"), print("Unmatched"));
    let handlers = Handlers::new()
        .on(foo_below_10, move |(): &mut (), a, cx| {
            matched(a);
            cx.route(A("foo", a.1 + 1));
        })
        .completed(foo_below_10, move |_, a, _| completed(a))
        .unmatched(|a: &A| Some(a), move |_, a, _| unmatched(a));
    let stepped = Stepped::new();
    let main = stepped.context("main").public().start(handlers, ());
    main.try_send(A("foo", 8)).unwrap();
    main.try_send(A("bar", 7)).unwrap();
    stepped.run(&main);
    let expected =
        ["Match 8", "Match 9", "Unmatched 10", "Completed 9", "Completed 8", "Unmatched bar 7"];
    assert_eq!(*prints.lock().unwrap(), expected);
}
