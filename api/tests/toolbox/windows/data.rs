//! The data sets' files: lines, and the answers to questions about them.

use std::sync::Arc;

use mizzle::source::{FromIter, from_iter};
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{BoxedStream, Query};

/// A line of a file: its cells, and its time, which is in the first column.
#[derive(Clone, Debug)]
pub struct Line {
    pub time: Timestamp,
    cells: Arc<[String]>,
}

impl Line {
    pub fn text(&self, column: usize) -> String {
        self.cells[column].clone()
    }

    pub fn number(&self, column: usize) -> f64 {
        self.cells[column].parse().unwrap()
    }
}

/// The lines of a file, whose first column is a time in units of `micros` microseconds.
pub fn lines(file: &std::path::Path, micros: i64) -> Vec<Line> {
    let mut reader = csv::Reader::from_path(file).unwrap();
    let line = |record: csv::Result<csv::StringRecord>| {
        let cells: Arc<[String]> = record.unwrap().iter().map(str::to_owned).collect();
        let time = cells[0].parse::<i64>().unwrap() * micros;
        Line { time: Timestamp::from_micros(time), cells }
    };
    reader.records().map(line).collect()
}

/// Lines as a source. What is in order is declared so if `slack` is nothing.
pub fn source(query: &Query, name: &str, lines: &[Line], slack: Option<u64>) -> BoxedStream<Line> {
    let lines: FromIter<_, _> = from_iter(lines.to_vec(), |line: &Line| line.time);
    let watermarks = match slack {
        Some(millis) => Watermarks::bounded(super::ms(millis)),
        None => Watermarks::ascending(),
    };
    query.source(name, lines).watermarks(watermarks).boxed()
}

/// Checks rows against an expected file: numbers with a point within a relative 1e-5, all else exactly,
/// in any order.
pub fn assert_answer(folder: &std::path::Path, file: &str, mut rows: Vec<Vec<String>>) {
    let mut reader = csv::Reader::from_path(folder.join("expected").join(file)).unwrap();
    let records = reader.records().map(|record| record.unwrap());
    let mut expected: Vec<Vec<String>> =
        records.map(|record| record.iter().map(str::to_owned).collect()).collect();
    let exact = |row: &Vec<String>| -> Vec<String> {
        row.iter()
            .filter(|cell| !cell.contains('.') || cell.split('.').count() > 2)
            .cloned()
            .collect()
    };
    rows.sort_by_key(exact);
    expected.sort_by_key(exact);
    assert_eq!(rows.len(), expected.len(), "{file}: rows");
    for (row, right) in rows.iter().zip(&expected) {
        let same = row.len() == right.len() && row.iter().zip(right).all(|(a, b)| near(a, b));
        assert!(same, "{file}: {row:?} instead of {right:?}");
    }
}

fn near(got: &str, right: &str) -> bool {
    let (Ok(a), Ok(b)) = (got.parse::<f64>(), right.parse::<f64>()) else { return got == right };
    if got.contains('.') || right.contains('.') {
        (a - b).abs() <= 1e-5 * b.abs().max(1e-9)
    } else {
        got == right
    }
}

/// A number that is compared as an average is.
pub fn float(value: f64) -> String {
    format!("{value:.9}")
}
