//! Several files as one source.

use std::io::Cursor;
use std::time::Duration;

use mizzle::aggregate::count;
use mizzle::time::Watermarks;
use mizzle::{Engine, Query, Windows, source};
use serde::Deserialize;

use super::Folder;
use crate::support::{at, completed, engine, eventually, ms, sorted, total};

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Reading {
    t: i64,
    file: i64,
}

fn json(file: i64, times: &[i64]) -> String {
    times.iter().map(|t| format!("{{\"t\":{t},\"file\":{file}}}\n")).collect()
}

fn csv(file: i64, times: &[i64]) -> String {
    let rows = times.iter().map(|t| format!("{t},{file}\n"));
    "t,file\n".to_owned() + &rows.collect::<String>()
}

/// Ways to run that must not make a difference.
const WAYS: [(usize, usize); 4] = [(1, 1), (1, 1_024), (2, 3), (4, 1_024)];

fn in_way((workers, batch): (usize, usize)) -> Engine {
    Engine::builder().workers(workers).batch(batch).build().unwrap()
}

#[test]
fn files_are_merged_by_time_and_then_as_they_were_written() {
    let folder = Folder::new("merged");
    let times: [Vec<i64>; 3] = [
        (0..3_000).map(|n| 2 * n).collect(),
        (0..10).map(|n| 600 * n).collect(),
        (1_000..2_000).map(|n| 3 * n).collect(),
    ];
    let mut expected: Vec<_> = times
        .iter()
        .zip(0..)
        .flat_map(|(times, file)| times.iter().map(move |&t| (t, file)))
        .collect();
    expected.sort();
    let files = |suffix, text: fn(i64, &[i64]) -> String| {
        let files = times.iter().zip(0..);
        files
            .map(|(times, n)| folder.file(&format!("{n}.{suffix}"), text(n, times)))
            .collect::<Vec<_>>()
    };
    let (jsons, csvs) = (files("jsonl", json), files("csv", csv));
    for way in WAYS {
        let engine = in_way(way);
        let query = Query::new("merged");
        let time = |r: &Reading| at(r.t);
        let from_json = query
            .sources("json", source::json_lines_files(&jsons, time).unwrap())
            .apply_stateful((), |(), r| (r.t, r.file))
            .in_order()
            .collect();
        let from_csv = query
            .sources("csv", source::csv_files(&csvs, time).unwrap())
            .apply_stateful((), |(), r: Reading| (r.t, r.file))
            .in_order()
            .collect();
        completed(&engine.submit(query).unwrap());
        assert_eq!(from_json.values(), expected);
        assert_eq!(from_csv.values(), expected);
    }
}

/// Readers of what is in memory.
fn inputs<const N: usize>(times: [&[i64]; N]) -> [impl source::Source<Item = Reading> + use<N>; N] {
    let mut file = -1;
    times.map(|times| {
        file += 1;
        source::json_lines(Cursor::new(json(file, times)), |r: &Reading| at(r.t))
    })
}

#[test]
fn each_file_is_judged_by_itself() {
    // File 1 is a day ahead; in file 0 an event is late by 3, and one within the slack of 2.
    let day = 86_400_000;
    let ahead: Vec<i64> = (0..500).map(|n| day + n).collect();
    for way in WAYS {
        for in_order in [true, false] {
            let engine = in_way(way);
            let query = Query::new("judged");
            let sources = inputs([&[10, 9, 12, 9, 10, 13], &ahead]);
            let out = query
                .sources("files", sources)
                .watermarks(Watermarks::bounded(ms(2)))
                .apply_stateful((), |(), r| r.t)
                .in_order_if(in_order)
                .collect();
            let query = engine.submit(query).unwrap();
            completed(&query);
            assert_eq!(query.chains()[0].stats.late, 1);
            let expected: Vec<_> = [9, 10, 10, 12, 13].into_iter().chain(ahead.clone()).collect();
            if in_order {
                assert_eq!(out.values(), expected);
            } else {
                assert_eq!(sorted(out.values()), sorted([expected, vec![9]].concat()));
            }
        }
    }
}

#[test]
fn windows_over_several_files_close_by_the_lowest_watermark() {
    let times: [&[i64]; 3] = [&[1, 15, 25, 31], &[2, 3, 12], &[5]];
    for way in WAYS {
        for in_order in [true, false] {
            let engine = in_way(way);
            let query = Query::new("windows");
            let out = query
                .sources("files", inputs(times))
                .window(Windows::tumbling(ms(10)))
                .aggregate(count())
                .in_order_if(in_order)
                .collect();
            let query = engine.submit(query).unwrap();
            completed(&query);
            let counts: Vec<_> =
                out.values().iter().map(|w| (w.start.as_millis(), w.value)).collect();
            assert_eq!(counts, [(0, 4), (10, 2), (20, 1), (30, 1)]);
            assert_eq!(total(&query, |stats| stats.late), 0);
        }
    }
}

#[test]
fn a_bad_record_says_from_which_file_it_is() {
    let engine = engine(2);
    let query = Query::new("rejects");
    let texts = ["{\"t\":1,\"file\":0}\n{}\n", "", "nonsense\n{\"t\":0,\"file\":2}\nx"];
    let readers = texts.map(|text| source::json_lines(text.as_bytes(), |r: &Reading| at(r.t)));
    let (good, bad) = query.sources_with_rejects("files", readers);
    let (good, bad) = (good.map(|r| r.t).collect(), bad.collect());
    let query = engine.submit(query).unwrap();
    completed(&query);
    assert_eq!(sorted(good.values()), [0, 1]);
    let places: Vec<_> = bad.values().iter().map(|bad| (bad.input, bad.line)).collect();
    assert_eq!(sorted(places), [(0, 2), (2, 1), (2, 3)]);
    assert_eq!(total(&query, |stats| stats.rejected), 3);
}

#[test]
fn files_one_after_the_other_are_one_stream() {
    for way in WAYS {
        let engine = in_way(way);
        let query = Query::new("sequence");
        let days = source::sequence(inputs([&[1, 2], &[], &[3, 2, 4]]));
        let out = query.source("days", days).map(|r| (r.file, r.t)).collect();
        let query = engine.submit(query).unwrap();
        completed(&query);
        assert_eq!(sorted(out.values()), [(0, 1), (0, 2), (2, 2), (2, 3), (2, 4)]);
        assert_eq!(query.chains()[0].stats.late, 1);
    }
}

#[test]
fn a_file_that_cannot_go_on_fails_the_query_by_its_name() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let engine = engine(1);
    let query = Query::new("broken");
    let readers = [Broken, Broken].map(|it| source::json_lines(it, |r: &Reading| at(r.t)));
    query.sources("files", readers).for_each(|_| ());
    let mizzle::Status::Failed(failure) = engine.submit(query).unwrap().wait() else { panic!() };
    assert_eq!((&*failure.operator, &*failure.message), ("files", "the disk is gone"));
}

#[test]
fn a_quiet_input_holds_the_others_back_within_bounds() {
    use std::io::Write;
    let engine = Engine::builder().workers(2).batch(16).build().unwrap();
    let query = Query::new("quiet");
    let (pipe, mut writer) = std::io::pipe().unwrap();
    let quiet: Box<dyn std::io::Read + Send> = Box::new(pipe);
    let busy: Box<dyn std::io::Read + Send> =
        Box::new(Cursor::new(json(1, &(0..10_000).collect::<Vec<_>>())));
    let readers =
        [quiet, busy].map(|it| source::blocking(source::json_lines(it, |r: &Reading| at(r.t))));
    let out = query.sources("files", readers).apply_stateful((), |(), r| r.t).in_order().collect();
    let query = engine.submit(query).unwrap();
    let held = || query.chains()[0].stats.held;
    eventually("the busy one is held back", || held() >= 16 * 16);
    // If it were not, it would go on for a while.
    let rests = || {
        let before = held();
        (0..20).all(|_| {
            std::thread::sleep(Duration::from_millis(10));
            held() == before
        })
    };
    eventually("it reads no more", rests);
    assert!(held() < 16 * 16 + 1_024, "{}", held());
    writer.write_all(json(0, &[5_000]).as_bytes()).unwrap();
    eventually("the first half, and what was written", || out.len() == 5_001);
    assert!(held() < 16 * 16 + 1_024, "{}", held());
    assert_eq!(query.chains()[0].held_by.as_deref(), Some("input 0"));
    drop(writer);
    completed(&query);
    assert_eq!(out.values(), sorted((0..10_000).chain([5_000]).collect()));
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let refused = |describe: fn(&Query)| {
        let query = Query::new("refused");
        describe(&query);
        engine(1).submit(query).err().expect("refused").to_string()
    };
    let none = refused(|query| query.sources("files", inputs([])).for_each(|_| ()));
    assert!(none.contains("\"files\" (api/tests/toolbox/io/files.rs:"), "{none}");
    assert!(none.contains("there is nothing to read"), "{none}");
    let none = refused(|query| {
        query.source("days", source::sequence(inputs([]))).for_each(|_| ());
    });
    assert!(none.contains("\"days\"") && none.contains("there is nothing to read"), "{none}");
    let pace = refused(|query| {
        query.sources("files", source::paced_together(inputs([&[1]]), 0.0)).for_each(|_| ());
    });
    assert!(pace.contains("\"files\"") && pace.contains("positive number, not 0"), "{pace}");
    let shared = engine(1);
    let paced = source::paced(source::sequence(inputs([&[1]])), -1.0);
    let error = shared.shared_source("shared", paced).open().expect_err("refused").to_string();
    assert!(error.contains("\"shared\"") && error.contains("not -1"), "{error}");
}
