//! Questions about real data that are answered by one query: rows in, lines of values out, which are compared
//! with the right answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csv::StringRecord;
use mizzle::sink::Collected;
use mizzle::time::{Timestamp, Watermarks};
use mizzle::{Build, Engine, Query, Status, Stream, source};

use crate::data::{self, set};

/// How long a question may take: only a guard against hanging.
const GUARD: Duration = Duration::from_secs(300);

/// A row of a file.
#[derive(Clone, Debug)]
pub struct Row {
    /// The file it is from, without ending.
    pub file: Arc<str>,
    /// When it happened: its first column, in milliseconds or microseconds as that is called.
    pub time: Timestamp,
    header: Arc<StringRecord>,
    cells: StringRecord,
}

impl Row {
    /// The text in a column, which may be empty.
    pub fn text(&self, column: &str) -> &str {
        let place = self.header.iter().position(|name| name == column);
        &self.cells[place.unwrap_or_else(|| panic!("{} has no column {column}", self.file))]
    }

    pub fn int(&self, column: &str) -> i64 {
        self.text(column).parse().unwrap_or_else(|_| panic!("{column} of {self:?}"))
    }

    pub fn float(&self, column: &str) -> f64 {
        self.text(column).parse().unwrap_or_else(|_| panic!("{column} of {self:?}"))
    }

    pub fn owned(&self, column: &str) -> String {
        self.text(column).to_owned()
    }
}

/// One set of data.
pub struct Data(PathBuf);

impl Data {
    /// The rows of a file, in its order.
    pub fn rows(&self, file: &str) -> Vec<Row> {
        let path = self.0.join(format!("{file}.csv"));
        let mut reader = csv::Reader::from_path(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        let header = Arc::new(reader.headers().unwrap().clone());
        let time = |cells: &StringRecord| {
            let time = cells[0].parse().unwrap();
            let micros = header[0].ends_with("_us");
            if micros { Timestamp::from_micros(time) } else { Timestamp::from_millis(time) }
        };
        let name = Path::new(file).file_name().unwrap().to_str().unwrap();
        let file: Arc<str> = name.into();
        let row = |cells: StringRecord| Row {
            file: file.clone(),
            time: time(&cells),
            header: header.clone(),
            cells,
        };
        reader.records().map(|cells| row(cells.unwrap())).collect()
    }

    /// The names of the files in a folder of the set, without ending, in order.
    pub fn files(&self, folder: &str) -> Vec<String> {
        let entries = self.0.join(folder).read_dir().unwrap();
        let stem = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<_> = entries.map(|entry| stem(entry.unwrap().path())).collect();
        // Numbers in order of size.
        names.sort_by_key(|name| (name.len(), name.clone()));
        names.into_iter().map(|name| format!("{folder}/{name}")).collect()
    }

    fn expected(&self, answer: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.join(format!("expected/{answer}.csv"))).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }
}

/// A stream of `rows` that are at most `slack` out of order.
pub fn rows(
    query: &Query,
    rows: Vec<Row>,
    slack: Duration,
) -> Stream<impl Build<Out = Row> + use<>> {
    let name = rows.first().map_or("rows".into(), |row| row.file.clone());
    let stream = query.source(&name, source::from_iter(rows, |row: &Row| row.time));
    let in_order = slack.is_zero();
    stream.watermarks(if in_order { Watermarks::ascending() } else { Watermarks::bounded(slack) })
}

pub fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Gives the answers, a line of comma-separated values each, once the query is over.
pub type Answers = Box<dyn FnOnce() -> Vec<String>>;

pub fn collected(lines: Collected<String>) -> Answers {
    Box::new(move || lines.values())
}

/// Asks `question` about a set with 1, 2 and 4 workers. The answers must be those in `answer`, in any
/// order, figures that are not whole within a relative 1e-5.
pub fn ask(name: &str, answer: &str, question: impl Fn(&Data, &Query) -> Answers) {
    let Some(data) = set(name).map(Data) else { return };
    let expected = data.expected(answer);
    assert!(!expected.is_empty());
    for workers in [1, 2, 4] {
        let engine = Engine::builder().workers(workers).build().unwrap();
        let query = Query::new(answer);
        let answers = question(&data, &query);
        let query = engine.submit(query).unwrap();
        assert_eq!(query.wait_timeout(GUARD), Status::Completed, "{answer}");
        same(&format!("{answer}, {workers} workers"), answers(), expected.clone());
    }
}

fn same(what: &str, mut found: Vec<String>, mut expected: Vec<String>) {
    found.sort();
    expected.sort();
    for (found, expected) in found.iter().zip(&expected) {
        assert!(close(found, expected), "{what}: found {found}, expected {expected}");
    }
    assert_eq!(found.len(), expected.len(), "{what}: {found:#?}");
}

fn close(found: &str, expected: &str) -> bool {
    let (found, expected): (Vec<_>, Vec<_>) =
        (found.split(',').collect(), expected.split(',').collect());
    let same = |a: &str, b: &str| {
        let numbers = a.parse::<f64>().ok().zip(b.parse::<f64>().ok());
        let fraction = a.contains('.') && b.contains('.');
        fraction && numbers.is_some_and(|(a, b)| data::close(a, b))
    };
    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| *a == b || same(a, b))
}

/// How many rows are late for each bound that the answers in `answer` name: a query each, whose watermark is
/// so far behind the newest row. `streams` gives the rows of each stream that they name.
pub fn ask_lateness(name: &str, answer: &str, streams: impl Fn(&Data, &str) -> Vec<Row>) {
    let Some(data) = set(name).map(Data) else { return };
    let expected = data.expected(answer);
    let text = std::fs::read_to_string(data.0.join(format!("expected/{answer}.csv"))).unwrap();
    let unit = if text.starts_with("stream,bound_us,") { 1 } else { 1_000 };
    let mut known = BTreeMap::new();
    for workers in [1, 2, 4] {
        let engine = Engine::builder().workers(workers).build().unwrap();
        let mut found = Vec::new();
        for line in &expected {
            let cells: Vec<_> = line.split(',').collect();
            let (stream, bound) = (cells[0], cells[1].parse::<u64>().unwrap());
            let times = || streams(&data, stream).iter().map(|row| row.time).collect::<Vec<_>>();
            let times = known.entry(stream).or_insert_with(times).clone();
            let n = times.len();
            let query = Query::new(answer);
            let slack = Watermarks::bounded(Duration::from_micros(bound * unit));
            let source = source::from_iter(times, |&time| time);
            let (on_time, late) = query.source(stream, source).watermarks(slack).split_late();
            let (on_time, late) = (on_time.collect(), late.collect());
            let query = engine.submit(query).unwrap();
            assert_eq!(query.wait_timeout(GUARD), Status::Completed);
            assert_eq!(on_time.len() + late.len(), n);
            found.push(format!("{stream},{bound},{n},{}", late.len()));
        }
        same(&format!("{answer}, {workers} workers"), found, expected.clone());
    }
}
