//! The binary as its users call it.

use std::process::{Command, Output, Stdio};

fn mizzle(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mizzle")).args(args).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The line of the table of changes that begins with `name`.
fn change<'a>(report: &'a str, name: &str) -> &'a str {
    let changes = report.split("what the flags change").nth(1).expect("there is such a table");
    let line = changes.lines().find(|line| line.trim_start().starts_with(name));
    line.unwrap_or_else(|| panic!("no {name} in {changes}"))
}

#[test]
fn the_demo_is_right_with_any_number_of_workers() {
    for workers in ["1", "2", "4"] {
        let output = mizzle(&["demo", "--workers", workers]);
        let report = out(&output);
        assert_eq!(output.status.code(), Some(0), "{report}{}", err(&output));
        for verdict in ["62 answers", "18 answers", "758 answers", "19 answers", "6 answers"] {
            assert!(report.contains(&format!("✓ {verdict}, all right")), "{report}");
        }
        assert!(report.contains("✓ All answers are right."), "{report}");
        assert!(report.contains("\"follow\" of the template is flagged in-order"), "{report}");
        assert!(report.contains("for \"follow\"; its reorder stage held"), "{report}");
        assert!(!report.contains("what the flags change"), "{report}");
        assert!(!report.contains('\x1b'), "colours are for terminals: {report}");
    }
}

#[test]
fn every_query_may_be_flagged() {
    let all = "--in-order=knock-on,storm,hourly,four-in-a-row,by-wind";
    let output = mizzle(&["demo", all, "--workers", "3"]);
    let report = out(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    for name in ["knock-on", "storm", "hourly", "four-in-a-row", "by-wind"] {
        assert!(change(&report, name).ends_with("✓ stays the same"), "{report}");
    }
    // One for each reading of the departures, and the merges of the union and the join.
    assert!(change(&report, "reorder stages").ends_with('7'), "{report}");
}

#[test]
fn without_flags_an_answer_changes_and_that_is_no_error() {
    let output = mizzle(&["demo", "--unordered", "--workers", "1"]);
    let report = out(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    let becomes_wrong = "✗ becomes wrong: 1 of 19, 22 false";
    assert!(change(&report, "four-in-a-row").ends_with(becomes_wrong), "{report}");
    for name in ["knock-on", "storm", "hourly", "by-wind"] {
        assert!(change(&report, name).ends_with("✓ stays the same"), "{report}");
    }
    assert_eq!(change(&report, "reorder stages").split_whitespace().last(), Some("0"));
    assert!(report.contains("is not flagged: four-in-a-row."), "{report}");
}

#[test]
fn one_flag_mends_one_answer() {
    let output = mizzle(&["demo", "--in-order", "four-in-a-row", "--workers", "2"]);
    let report = out(&output);
    assert_eq!(output.status.code(), Some(0), "{report}");
    assert!(change(&report, "four-in-a-row").ends_with("✓ stays the same"), "{report}");
    assert_eq!(change(&report, "reorder stages").split_whitespace().last(), Some("1"));
}

#[test]
fn explain_prints_plans_and_runs_nothing() {
    let text = out(&mizzle(&["demo", "--explain", "--workers", "2"]));
    let lanes = "[1] ordered in 8 shards: \"follow\" of the template is flagged in-order";
    assert!(text.contains(lanes), "{text}");
    assert!(!text.contains("answers"), "{text}");
    let text = out(&mizzle(&["demo", "--explain=mermaid", "--unordered"]));
    assert_eq!(text.matches("flowchart LR").count(), 5, "{text}");
    assert!(!text.contains("{{reorder}}"), "{text}");
    let text = out(&mizzle(&["demo", "--explain=mermaid"]));
    assert_eq!(text.matches("{{reorder}}").count(), 2, "{text}");
}

#[test]
fn what_makes_no_sense_is_refused_in_clear_words() {
    let output = mizzle(&["demo", "--in-order", "storm,snow"]);
    assert_eq!(output.status.code(), Some(2));
    let message = "mizzle: --in-order: there is no query \"snow\"; there are knock-on, storm, \
                   hourly, four-in-a-row, by-wind\n";
    assert_eq!((err(&output).as_str(), out(&output).as_str()), (message, ""));
    for bad in [
        &["demo", "--workers", "0"][..],
        &["demo", "--workers", "many"],
        &["demo", "--unordered", "--in-order", "storm"],
        &["demo", "--explain=dot"],
        &["dmeo"],
    ] {
        let output = mizzle(bad);
        assert_eq!(output.status.code(), Some(2), "{bad:?}");
        assert!(err(&output).starts_with("error: "), "{bad:?}: {}", err(&output));
    }
}

#[test]
fn without_arguments_it_prints_its_help() {
    let output = mizzle(&[]);
    assert_eq!(output.status.code(), Some(0));
    assert!(out(&output).contains("Usage: mizzle") && out(&output).contains("demo"));
    assert_eq!(out(&mizzle(&["--help"])), out(&output));
    let version = out(&mizzle(&["--version"]));
    assert_eq!(version, format!("mizzle {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_reader_that_stops_gets_no_complaint() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mizzle"))
        .args(["demo", "--explain"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
}

#[test]
fn a_benchmark_nobody_reads_ends_quietly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_mizzle"))
        .args(["bench", "all", "--events", "1000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
}
