//! Faults of files and formats, each test named after its id in `tests/cases/faults.jsonl`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use mizzle::aggregate::count;
use mizzle::{Query, Status, Windows, sink, source};
use serde::{Deserialize, Serialize};

use super::{Folder, text};
use crate::support::{at, completed, engine, eventually, ms, total};

#[derive(Clone, Deserialize, Serialize)]
struct Reading {
    t: i64,
    v: i64,
}

fn lines(readings: impl IntoIterator<Item = i64>) -> String {
    readings.into_iter().map(|n| format!("{{\"t\":{n},\"v\":{n}}}\n")).collect()
}

#[test]
fn io_02_an_error_behind_the_decoder_is_no_bad_record() {
    for (skips, expected) in [(false, 4), (true, 9)] {
        let engine = engine(2);
        let query = Query::new("strict");
        let input = io::Cursor::new(lines(1..=10));
        let (good, bad) =
            query.source_with_rejects("readings", source::json_lines(input, |r: &Reading| at(r.t)));
        let bad = bad.collect();
        let picky = |r: Reading| if r.v == 5 { panic!("no 5") } else { r.v };
        let good = good.map(picky).name("picky");
        let out = if skips { good.skip_panics().collect() } else { good.collect() };
        let query = engine.submit(query).unwrap();
        let status = query.wait();
        assert_eq!(bad.values(), []);
        assert_eq!(total(&query, |stats| stats.rejected), 0);
        match status {
            Status::Completed if skips => {
                assert_eq!(total(&query, |stats| stats.failed), 1);
                assert_eq!(out.len(), expected);
            }
            Status::Failed(failure) if !skips => assert_eq!(failure.operator, "picky"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn io_04_bytes_that_are_not_read_need_not_be_text() {
    let engine = engine(1);
    let query = Query::new("binary");
    let mut input = Vec::new();
    for payload in [&b"\xc3\x28\x00\xff\x9f"[..], b"", b"x"] {
        // A payload that is not UTF-8 stands in a field that nobody reads; a zero byte is no JSON.
        let payload: Vec<u8> = payload.iter().copied().filter(|&byte| byte != 0).collect();
        write!(input, "{{\"t\":{},\"v\":{},\"payload\":\"", 1, payload.len()).unwrap();
        input.extend_from_slice(&payload);
        input.extend_from_slice(b"\"}\n");
    }
    let input = source::json_lines(io::Cursor::new(input), |r: &Reading| at(r.t));
    let out = query.source("messages", input).map(|r| r.v).collect();
    completed(&engine.submit(query).unwrap());
    assert_eq!(out.values(), [4, 0, 1]);
}

#[test]
fn io_13_a_half_written_line_is_not_read_before_its_end() {
    let engine = engine(1);
    let query = Query::new("pipe");
    let (pipe, mut writer) = io::pipe().unwrap();
    let input = source::blocking(source::json_lines(pipe, |r: &Reading| at(r.t)));
    let out = query.source("readings", input).map(|r| r.v).collect();
    let query = engine.submit(query).unwrap();
    writer.write_all(b"{\"t\":1,\"v\":1}\n{\"t\":2,\"v").unwrap();
    eventually("the first line", || out.len() == 1);
    writer.write_all(b"\":2}\n").unwrap();
    eventually("the second line", || out.len() == 2);
    drop(writer);
    completed(&query);
    assert_eq!((out.values(), total(&query, |stats| stats.rejected)), (vec![1, 2], 0));
}

#[test]
fn io_16_a_drain_writes_what_is_open_and_a_stop_does_not() {
    let folder = Folder::new("io-16");
    for (drains, expected) in [(true, "{\"start\":0,\"count\":10}\n"), (false, "")] {
        #[derive(Serialize)]
        struct Row {
            start: i64,
            count: u64,
        }
        let engine = engine(2);
        let query = Query::new("minutes");
        let (handle, stream) = query.push_source("readings", |&time: &i64| at(time));
        let path = folder.path("counts.jsonl");
        stream
            .window(Windows::tumbling(ms(60_000)))
            .aggregate(count())
            .map(|w| Row { start: w.start.as_millis(), count: w.value })
            .sink(sink::json_lines_file(&path).unwrap());
        let query = engine.submit(query).unwrap();
        handle.push_all((0..10).map(|n| n * 100).collect()).unwrap();
        if drains {
            query.drain()
        } else {
            query.stop()
        }
        let status = query.wait();
        assert_eq!(status, if drains { Status::Completed } else { Status::Stopped });
        assert_eq!(text(&path), expected);
        // What was taken is told all the same.
        assert_eq!(query.chains()[0].stats.events_in, 10);
    }
}

#[test]
fn ag_08_numbers_that_json_has_not_are_written_as_null() {
    let folder = Folder::new("ag-08");
    let engine = engine(1);
    let query = Query::new("floats");
    let path = folder.path("floats.jsonl");
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5];
    query
        .source("floats", source::from_iter(values, |_| at(0)))
        .map(|v| BTreeMap::from([("v", v)]))
        .sink(sink::json_lines_file(&path).unwrap());
    completed(&engine.submit(query).unwrap());
    assert_eq!(text(&path), "{\"v\":null}\n{\"v\":null}\n{\"v\":null}\n{\"v\":1.5}\n");
}

#[test]
fn ag_09_large_integers_keep_their_digits_through_json() {
    #[derive(Clone, Deserialize, Serialize)]
    struct Numbers {
        a: i64,
        b: i64,
        c: i64,
        d: u64,
    }
    let folder = Folder::new("ag-09");
    let line = "{\"a\":8070450532247928833,\"b\":9007199254740993,\"c\":-9223372036854775808,\
                \"d\":18446744073709551615}\n";
    let input = folder.file("in.jsonl", line);
    let output = folder.path("out.jsonl");
    let engine = engine(1);
    let query = Query::new("digits");
    query
        .source("numbers", source::json_lines_file(&input, |_: &Numbers| at(0)).unwrap())
        .sink(sink::json_lines_file(&output).unwrap());
    completed(&engine.submit(query).unwrap());
    assert_eq!(text(&output), line);
}
