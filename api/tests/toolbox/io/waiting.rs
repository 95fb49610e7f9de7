//! Sources whose reads wait: pipes and standard input.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use mizzle::time::{ManualClock, Watermarks};
use mizzle::{Engine, Query, Status, source};

use crate::support::{GUARD, at, completed, engine, engine_by, eventually, ms};

fn numbers(reader: impl io::Read + Send + 'static) -> impl source::Source<Item = i64> {
    source::blocking(source::json_lines(reader, |&n: &i64| at(n)))
}

#[test]
fn a_source_that_waits_holds_no_worker() {
    let engine = engine(1);
    let (pipe, mut writer) = io::pipe().unwrap();
    let waits = Query::new("waits");
    let out = waits.source("pipe", numbers(pipe)).map(|n| n * 2).collect();
    let waits = engine.submit(waits).unwrap();
    let busy = Query::new("busy");
    let counted = busy.source("n", source::from_iter(0..10_000i64, |&n| at(n))).collect();
    completed(&engine.submit(busy).unwrap());
    assert_eq!(counted.len(), 10_000);
    for n in 1..=3 {
        writeln!(writer, "{n}").unwrap();
        eventually("what was written", || out.len() == n);
    }
    assert_eq!(waits.status(), Status::Running);
    drop(writer);
    completed(&waits);
    assert_eq!(out.values(), [2, 4, 6]);
}

#[test]
fn it_ends_at_once_and_what_was_read_is_processed() {
    for how in ["drain", "stop", "cancel", "drop the engine"] {
        let engine = engine(2);
        let (pipe, mut writer) = io::pipe().unwrap();
        let query = Query::new("pipe");
        let out = query.source("pipe", numbers(pipe)).collect();
        let query = engine.submit(query).unwrap();
        writer.write_all(b"1\n2\n").unwrap();
        eventually("what was written", || out.len() == 2);
        match how {
            "drain" => query.drain(),
            "stop" => query.stop(),
            "cancel" => query.cancel(),
            _ => drop(engine),
        }
        let expected = match how {
            "drain" => Status::Completed,
            "stop" => Status::Stopped,
            _ => Status::Cancelled,
        };
        // The writer is still there: the read goes on, and nobody waits for it.
        assert_eq!(query.wait_timeout(GUARD), expected, "{how}");
        eventually("the reader lets go of the pipe", || writer.write_all(b"3\n").is_err());
        assert_eq!(out.values(), [1, 2]);
    }
}

#[test]
fn what_was_read_when_it_is_drained_is_not_lost() {
    let engine = Engine::builder().workers(1).inbox_capacity(1).batch(1).build().unwrap();
    let query = Query::new("slow");
    let read = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = read.clone();
    let endless = source::from_iter(0.., move |&n| {
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        at(n)
    });
    let results =
        query.source("endless", source::blocking(endless)).channel(1, mizzle::WhenFull::Wait);
    let query = engine.submit(query).unwrap();
    let ahead = || read.load(std::sync::atomic::Ordering::SeqCst);
    eventually("it reads ahead", || ahead() > 500);
    query.drain();
    let mut received = 0;
    while let Some(event) = results.recv_timeout(GUARD) {
        assert_eq!(event.value, received);
        received += 1;
    }
    completed(&query);
    // All but the one that the reader may have had in its hand.
    assert!(received as usize + 1 >= ahead(), "{received} of {}", ahead());
    assert!(received > 0);
}

#[test]
fn a_quiet_one_can_be_idle() {
    let clock = ManualClock::default();
    let engine = engine_by(&clock, 2);
    let query = Query::new("idle");
    let (pipe, writer) = io::pipe().unwrap();
    let idle = Watermarks::ascending().idle_after(ms(100));
    let quiet = query.source("pipe", numbers(pipe)).watermarks(idle).boxed();
    let busy = query.source("n", source::from_iter(0..10i64, |&n| at(n))).boxed();
    let out = quiet.union(busy).apply_stateful((), |(), n| n).in_order().collect();
    let query = engine.submit(query).unwrap();
    clock.advance(ms(99));
    assert!(out.is_empty());
    clock.advance(ms(1));
    eventually("the other's events", || out.len() == 10);
    drop(writer);
    completed(&query);
}

#[test]
fn a_panic_in_its_time_function_fails_the_query_by_the_sources_name() {
    let engine = engine(1);
    let query = Query::new("picky");
    let lines =
        source::json_lines(
            &b"1\n2\n3\n"[..],
            |&n: &i64| {
                if n == 2 { panic!("no {n}") } else { at(n) }
            },
        );
    let out = query.source("lines", source::blocking(lines)).collect();
    let Status::Failed(failure) = engine.submit(query).unwrap().wait() else { panic!() };
    assert_eq!((&*failure.operator, &*failure.message), ("lines", "panicked: no 2"));
    assert!(out.len() <= 1);
}

const CHILD: &str = "MIZZLE_READS_STANDARD_INPUT";

/// In a process of its own, whose standard input this test writes and whose output it reads.
#[test]
fn standard_input_and_output() {
    if std::env::var_os(CHILD).is_some() {
        let engine = engine(1);
        let query = Query::new("filter");
        query
            .source("stdin", numbers(io::stdin()))
            .filter(|n| n % 2 == 0)
            .sink(mizzle::sink::json_lines(io::stdout()));
        return completed(&engine.submit(query).unwrap());
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "io::waiting::standard_input_and_output", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"1\n2\n3\n4\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("2\n4\n") && text.contains("1 passed"), "{text}");
}
