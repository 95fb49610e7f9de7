//! Measurements as a page to look at: HTML that needs nothing else, SVG, or Markdown.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::chart::{Chart, PER_CPU, svg};
use crate::measure::Report;

/// What a file may be called.
const KINDS: [&str; 3] = ["html", "svg", "md"];

/// What a page is written as, by the end of its file's name.
///
/// # Errors
/// The name says nothing that is known.
pub fn kind(path: &Path) -> Result<&'static str, String> {
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    let known = KINDS.into_iter().find(|kind| *kind == end);
    known.ok_or_else(|| format!("a report is a file that ends in .{}", KINDS.join(", .")))
}

/// Writes `reports` and `charts` to `path`.
///
/// # Errors
/// If that cannot be drawn or written.
pub fn write(path: &Path, charts: &[Chart], reports: &[Report]) -> Result<(), Box<dyn Error>> {
    let mut charts = charts.to_vec();
    if charts.is_empty() {
        charts.push(beside_by_hand(reports));
    }
    let text = match kind(path)? {
        "svg" => svg(&charts)?,
        "md" => markdown(reports),
        _ => html(&charts, reports)?,
    };
    Ok(fs::write(path, text)?)
}

/// Mizzle and the hand-written programs.
fn beside_by_hand(reports: &[Report]) -> Chart {
    let both = |report: &Report| {
        let by_hand = report.baseline_events_per_cpu_s;
        let values = [Some(report.events_per_cpu_s), by_hand].into_iter().flatten();
        (report.workload.to_owned(), values.map(|value| value / 1e6).collect())
    };
    let groups = reports.iter().map(both).collect();
    Chart::bars("Throughput", PER_CPU, ["Mizzle", "by hand"], groups)
}

const COLUMNS: [&str; 11] = [
    "workload",
    "order",
    "workers",
    "batch",
    "disorder ms",
    "queries",
    "M events / CPU s",
    "M events / s",
    "ratio to by hand",
    "p50 / p99 us",
    "checksum",
];

fn cells(report: &Report) -> [String; COLUMNS.len()] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        report.workload.to_owned(),
        if report.in_order { "flagged" } else { "unflagged" }.to_owned(),
        report.workers.to_string(),
        report.batch.to_string(),
        report.disorder_ms.to_string(),
        or_dash(report.queries.map(|queries| queries.to_string())),
        format!("{:.1}", report.events_per_cpu_s / 1e6),
        format!("{:.1}", report.events_per_s / 1e6),
        or_dash(report.ratio_cpu.map(|ratio| format!("{ratio:.2}"))),
        or_dash(report.latency_us.map(|us| format!("{:.1} / {:.1}", us.p50, us.p99))),
        report.checksum.clone(),
    ]
}

/// Where and how it was measured.
fn about(reports: &[Report]) -> String {
    let Some(first) = reports.first() else { return "Nothing was measured.".to_owned() };
    let commit = first.commit.as_deref().unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "Commit {commit}; {cores} cores; seed {}; medians of {} runs by CPU time, data made before.",
        first.seed, first.repeat
    )
}

fn markdown(reports: &[Report]) -> String {
    let mut text = format!("{}\n\n| {} |\n|", about(reports), COLUMNS.join(" | "));
    text.push_str(&"---|".repeat(COLUMNS.len()));
    for report in reports {
        let _ = write!(text, "\n| {} |", cells(report).join(" | "));
    }
    text.push('\n');
    text
}

fn html(charts: &[Chart], reports: &[Report]) -> Result<String, Box<dyn Error>> {
    let mut text = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Mizzle's benchmarks</title>\
         <style>body{{font-family:sans-serif;margin:2em auto;max-width:68em}}\
         table{{border-collapse:collapse;font-size:.85em}}\
         td,th{{border:1px solid #ccc;padding:.2em .6em;text-align:right}}\
         td:first-child,th:first-child{{text-align:left}}svg{{max-width:100%}}</style>\
         <h1>Mizzle's benchmarks</h1><p>{}</p>",
        about(reports)
    );
    for chart in charts {
        text.push_str(&svg(std::slice::from_ref(chart))?);
    }
    let row = |cells: &[String], tag: &str| -> String {
        let cells = cells.iter().map(|cell| format!("<{tag}>{cell}</{tag}>"));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let rows = reports.iter().map(|report| row(&cells(report), "td"));
    let head = row(&COLUMNS.map(str::to_owned), "th");
    let _ = writeln!(text, "<table>{head}{}</table></html>", rows.collect::<String>());
    Ok(text)
}
