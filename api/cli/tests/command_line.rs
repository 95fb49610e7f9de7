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
fn a_sweep_writes_a_page_that_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let quick = ["--events", "2000", "--repeat", "1", "--queries", "50", "--rate", "100000"];
    let sweep = |report: &str| {
        let output =
            mizzle(&[&["bench", "sweep", "--json", "--report", report], &quick[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert_eq!(err(&output), "", "progress is for terminals");
        std::fs::read_to_string(report).unwrap()
    };
    let page = sweep(&file("page.html"));
    assert_eq!(page.matches("<svg").count(), 6);
    for part in ["What the in-order flag costs", "separate queries", "bare hand-off", "<table>"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("<script") && !page.contains("<link"));
    let output = mizzle(&[&["bench", "chain", "--report", &file("chain.md")], &quick[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let table = std::fs::read_to_string(file("chain.md")).unwrap();
    assert!(table.contains("| chain | flagged | 1 | 1024 |"), "{table}");
}

#[test]
fn a_benchmark_says_what_it_was_given_in_one_line_of_json() {
    let output = mizzle(&["bench", "latency", "--events", "3000", "--repeat", "1", "--json"]);
    let line = out(&output);
    assert_eq!(line.lines().count(), 1, "{line}");
    for field in [
        "workload",
        "events",
        "seconds",
        "cpu_seconds",
        "events_per_s",
        "events_per_cpu_s",
        "events_per_worker",
        "peak_rss_bytes",
        "latency_us",
        "late",
        "checksum",
        "workers",
        "batch",
        "in_order",
        "commit",
    ] {
        assert!(line.contains(&format!("\"{field}\":")), "{field} in {line}");
    }
}

#[test]
fn a_report_of_no_known_kind_is_refused_before_anything_is_measured() {
    let output = mizzle(&["bench", "chain", "--report=page.pdf"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("ends in .html, .svg, .md"), "{}", err(&output));
    let output = mizzle(&["bench", "chain", "--events=10", "--report=/no/such/folder/page.md"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).starts_with("mizzle: /no/such/folder/page.md: "), "{}", err(&output));
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
