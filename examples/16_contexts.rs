//! A context per host that probes a server, and one that watches them all: every host counts the user names
//! that it tries in ten minutes, and reports ten and more.
//!
//! The data (ssh-probes, question 1) are not part of this repository: they are read from the folder that the
//! variable MIZZLE_DATA names, else from `../shared/data`. Without them this says so and ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::sync::{Arc, Mutex};

use mizzle::context::{ContextCx, ContextHandle, Handlers};
use mizzle::time::Timestamp;
use mizzle::{Engine, Query, Status, source, variant};
use mizzle_examples::other_data;
use serde::Deserialize;

const TEN_MINUTES_MS: i64 = 600_000;

/// A line of the server's log.
#[derive(Clone, Debug, Deserialize)]
struct Line {
    ts_ms: i64,
    event: String,
    host: String,
    user: String,
}

/// The start of ten minutes, a host, how often it tried, and how many names.
type Report = (i64, String, usize, usize);

/// What the contexts say to each other.
enum Event {
    Line(Line),
    Report(Report),
    /// No line comes any more.
    End,
    /// So many hosts there were.
    Hosts(usize),
    /// A host has nothing more to say.
    Bye,
}

/// What the first context knows: who handles which host's lines.
struct Main {
    hosts: HashMap<String, ContextHandle<Event>>,
    of_a_host: Arc<Handlers<Event, Host>>,
    watcher: ContextHandle<Event>,
}

impl Main {
    fn line(&mut self, line: &Line, cx: &mut ContextCx<'_, Event>) {
        if line.event != "invalid_user" {
            return;
        }
        let host = self.hosts.entry(line.host.clone()).or_insert_with(|| {
            let state =
                Host { watcher: self.watcher.clone(), from: 0, tries: 0, users: BTreeSet::new() };
            cx.context(&line.host).start(self.of_a_host.clone(), state)
        });
        cx.enqueue_to(host, Event::Line(line.clone())).expect("a host ends last");
    }

    fn end(&mut self, cx: &mut ContextCx<'_, Event>) {
        for host in self.hosts.values() {
            cx.enqueue_to(host, Event::End).expect("a host ends only now");
        }
        cx.enqueue_to(&self.watcher, Event::Hosts(self.hosts.len()))
            .expect("the watcher ends last");
        cx.end();
    }
}

/// What a host has done in the present ten minutes.
struct Host {
    watcher: ContextHandle<Event>,
    from: i64,
    tries: usize,
    users: BTreeSet<String>,
}

impl Host {
    fn line(&mut self, line: &Line, cx: &mut ContextCx<'_, Event>) {
        let from = line.ts_ms - line.ts_ms.rem_euclid(TEN_MINUTES_MS);
        if from != self.from {
            self.report(&line.host, cx);
            self.from = from;
        }
        self.tries += 1;
        self.users.insert(line.user.clone());
    }

    fn report(&mut self, host: &str, cx: &mut ContextCx<'_, Event>) {
        let (tries, users) = (std::mem::take(&mut self.tries), std::mem::take(&mut self.users));
        if tries >= 10 {
            let report = Event::Report((self.from, host.to_owned(), tries, users.len()));
            cx.enqueue_to(&self.watcher, report).expect("the watcher ends last");
        }
    }

    fn end(&mut self, cx: &mut ContextCx<'_, Event>) {
        let host = cx.this().name();
        self.report(&host, cx);
        cx.enqueue_to(&self.watcher, Event::Bye).expect("the watcher ends last");
        cx.end();
    }
}

/// What the watcher has heard.
#[derive(Default)]
struct Watcher {
    reports: Arc<Mutex<BTreeMap<(i64, String), (usize, usize)>>>,
    hosts: Option<usize>,
    gone: usize,
}

impl Watcher {
    fn end_if_all_are_gone(&self, cx: &mut ContextCx<'_, Event>) {
        if self.hosts == Some(self.gone) {
            cx.end();
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Some(folder) = other_data("ssh-probes") else { return Ok(()) };
    let engine = Engine::new()?;

    let watching = Handlers::new()
        .on(variant!(Event::Report), |watcher: &mut Watcher, (from, host, tries, users), _| {
            let mut reports = watcher.reports.lock().expect("nobody has panicked");
            reports.insert((*from, host.clone()), (*tries, *users));
        })
        .on(variant!(Event::Hosts), |watcher, hosts, cx| {
            watcher.hosts = Some(*hosts);
            watcher.end_if_all_are_gone(cx);
        })
        .on(variant!(Event::Bye {}), |watcher, _, cx| {
            watcher.gone += 1;
            watcher.end_if_all_are_gone(cx);
        });
    let of_a_host = Handlers::new()
        .on(variant!(Event::Line), Host::line)
        .on(variant!(Event::End {}), |host, _, cx| host.end(cx));
    let dispatching = Handlers::new()
        .on(variant!(Event::Line), Main::line)
        .on(variant!(Event::End {}), |main, _, cx| main.end(cx));

    let state = Watcher::default();
    let reports = state.reports.clone();
    let watcher = engine.context("watcher").start(watching, state);
    let state =
        Main { hosts: HashMap::new(), of_a_host: Arc::new(of_a_host), watcher: watcher.clone() };
    let main = engine.context("main").public().start(dispatching, state);

    // A stream ends in a context; the query waits whenever that is full.
    let query = Query::new("log");
    let lines = source::csv_file(folder.join("auth.csv"), |line: &Line| {
        Timestamp::from_millis(line.ts_ms)
    })?;
    query.source("auth.csv", lines).map(Event::Line).to_context(&main);
    assert_eq!(engine.submit(query)?.wait(), Status::Completed);
    main.send(Event::End)?;
    assert_eq!(watcher.wait(), Status::Completed);

    let mut expected = BTreeMap::new();
    for row in
        csv::Reader::from_path(folder.join("expected/q1_invalid_per_10min.csv"))?.deserialize()
    {
        let (from, host, tries, users): Report = row?;
        expected.insert((from, host), (tries, users));
    }
    let reports = reports.lock().expect("nobody has panicked");
    assert_eq!(*reports, expected);
    println!(
        "{} reports, all right; main has handled {} lines",
        reports.len(),
        main.stats().input - 1
    );
    Ok(())
}
