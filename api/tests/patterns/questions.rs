//! Questions about real data that patterns answer: as one keyed query, and as a group with a member per key.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::time::Duration;

use mizzle::pattern::{
    AtCap, Bound, Part, Pattern, Report, Skip, absent, all_of, any_event, step, step_if, wait,
};
use mizzle::stream::Member;
use mizzle::{BoxedStream, Query};

use crate::asked::{Data, Row, ask, collected, rows, secs};

/// A question that a pattern answers.
struct Question<K, E = Row> {
    set: &'static str,
    answer: &'static str,
    /// All rows, in order where their time is the same.
    rows: fn(&Data, &Query) -> BoxedStream<Row>,
    key: fn(&Row) -> K,
    pattern: fn() -> Pattern<E>,
    /// The line that a match makes, if it is an answer.
    line: fn(&Bound<'_, E>) -> Option<String>,
}

impl<K: Hash + Ord + Clone + Send + 'static> Question<K> {
    /// Asks it in both ways; `all` are the rows whose keys have members.
    fn ask(&self, all: fn(&Data) -> Vec<Row>) {
        self.ask_all(all, |lines| lines);
    }

    /// As `ask`, where `answers` makes the answers of all lines together.
    fn ask_all(&self, all: fn(&Data) -> Vec<Row>, answers: fn(Vec<String>) -> Vec<String>) {
        let Self { rows, key, pattern, line, .. } = *self;
        let members = OnceCell::new();
        ask(self.set, self.answer, |data, query| {
            let found = rows(data, query).key_by(key).pattern(pattern(), line);
            let lines = found.filter_map(|line| line).collect();
            Box::new(move || answers(lines.values()))
        });
        ask(self.set, self.answer, |data, query| {
            let (group, found) =
                rows(data, query).key_by(key).group("members", |member: Member<(), _>| {
                    member.map(|((), row)| row).pattern(pattern(), line)
                });
            let keys: &BTreeSet<K> = members.get_or_init(|| all(data).iter().map(key).collect());
            group.add_all(keys.iter().map(|key| (key.clone(), ()))).unwrap();
            let lines = found.filter_map(|(_, line)| line).collect();
            Box::new(move || answers(lines.values()))
        });
    }
}

/// A row and the limit that is meant for it.
type Limited<T> = (T, Row);

impl<K: Hash + Ord + Clone + Send + 'static, T: Copy + Send + Sync + 'static>
    Question<K, Limited<T>>
{
    /// As [`ask`](Question::ask), with a limit in the pattern's conditions: the members' parameter.
    fn ask_with(&self, limit: T, all: fn(&Data) -> Vec<Row>) {
        let Self { rows, key, pattern, line, .. } = *self;
        let members = OnceCell::new();
        ask(self.set, self.answer, |data, query| {
            let limited = rows(data, query).map(move |row| (limit, row));
            let found = limited.key_by(move |(_, row)| key(row)).pattern(pattern(), line);
            collected(found.filter_map(|line| line).collect())
        });
        ask(self.set, self.answer, |data, query| {
            let (group, found) = rows(data, query)
                .key_by(key)
                .group("members", |member: Member<T, _>| member.pattern(pattern(), line));
            let keys: &BTreeSet<K> = members.get_or_init(|| all(data).iter().map(key).collect());
            group.add_all(keys.iter().map(|key| (key.clone(), limit))).unwrap();
            collected(found.filter_map(|(_, line)| line).collect())
        });
    }
}

/// The longest `repeated` without a row between. Two partial matches are kept, that which goes on and what it is
/// by now: none begins within it.
fn whole_run(repeated: Part<Row>) -> Pattern<Row> {
    Pattern::new(repeated.consecutive())
        .report(Report::Best)
        .skip(Skip::PastLast)
        .max_partial(2, AtCap::RefuseNewest)
}

/// Cells of a row, as they stand there.
fn cells<const N: usize>(row: &Row, columns: [&str; N]) -> String {
    columns.map(|column| row.text(column)).join(",")
}

fn is(column: &'static str, text: &'static str) -> impl Fn(&Row) -> bool + Send + Sync + 'static {
    move |row| row.text(column) == text
}

// Zeek: logs that are truly out of order.

#[test]
fn zeek_4_failures_then_success() {
    /// At least three failures and, right behind them, a success within ten seconds of the third last.
    fn pattern() -> Pattern<Row> {
        let success = step_if("success", |row: &Row, before| {
            // Asked of each run at each row: only a success looks at what was before.
            row.text("established") == "T" && {
                let failures = before.all("failure");
                row.time.since(failures[failures.len() - 3].time) <= secs(10)
            }
        });
        let failures = step("failure", is("established", "F")).times(3..).consecutive();
        // The earliest is of the whole run of failures, so none begins within it.
        Pattern::new(failures.next(success)).max_partial(1, AtCap::RefuseNewest)
    }
    Question {
        set: "zeek-net",
        answer: "q4_tls_fail_then_success",
        // Rows of one time are in order of `seq` in the file.
        rows: |data, query| rows(query, data.rows("tls"), secs(310)).boxed(),
        key: |row| ["client", "server", "port"].map(|name| row.owned(name)),
        pattern,
        line: |events| {
            let (failures, success) = (events.all("failure"), &events["success"]);
            let first = failures[failures.len() - 3].text("ts_us");
            let success = cells(success, ["ts_us", "seq", "client", "server", "port"]);
            Some(format!("{success},{first},{}", failures.len()))
        },
    }
    .ask(|data| data.rows("tls"));
}

// SSH probes: strangers who guess user names.

const SSH: &str = "ssh-probes";

fn lines(data: &Data, query: &Query) -> BoxedStream<Row> {
    rows(query, data.rows("auth"), Duration::ZERO).boxed()
}

fn auth(data: &Data) -> Vec<Row> {
    data.rows("auth")
}

fn guess(name: &str) -> Part<Row> {
    step(name, is("event", "invalid_user"))
}

fn host(row: &Row) -> String {
    row.owned("host")
}

#[test]
fn ssh_1_guesses_per_ten_minutes() {
    fn window(row: &Row) -> i64 {
        row.time.as_millis().div_euclid(600_000) * 600_000
    }
    /// Ten guesses and more in the ten minutes of the first.
    fn pattern() -> Pattern<Row> {
        let same = step_if("guess", |row: &Row, before| {
            let first = before.first("guess");
            first.is_none_or(|first| window(first) == window(row))
        });
        whole_run(same.times(10..))
    }
    Question {
        set: SSH,
        answer: "q1_invalid_per_10min",
        rows: |data, query| lines(data, query).filter(is("event", "invalid_user")).boxed(),
        key: host,
        pattern,
        line: |events| {
            let guesses = events.all("guess");
            let users: BTreeSet<&str> = guesses.iter().map(|row| row.text("user")).collect();
            let (start, host) = (window(guesses[0]), host(guesses[0]));
            Some(format!("{start},{host},{},{}", guesses.len(), users.len()))
        },
    }
    .ask(auth);
}

#[test]
fn ssh_2_probe_then_attack() {
    Question {
        set: SSH,
        answer: "q2_probe_then_attack",
        rows: lines,
        key: host,
        pattern: || {
            let probe = step("probe", is("event", "no_ident"));
            Pattern::new(probe.then(guess("attack"))).within_inclusive(secs(600))
        },
        line: |events| {
            let (probe, attack) = (&events["probe"], &events["attack"]);
            let (probe, of_attack) = (cells(probe, ["ts_ms", "line"]), ["ts_ms", "line", "host"]);
            Some(format!("{probe},{}", cells(attack, of_attack)))
        },
    }
    .ask(auth);
}

/// The count goes on from below five to five.
#[test]
fn ssh_3_brute_force() {
    type Counted = (Row, u64);
    const ANSWER: &str = "q3_bruteforce";
    fn edge() -> Pattern<Counted> {
        let below = step("below", |(_, count): &Counted| *count < 5);
        Pattern::new(below.next(step("reached", |(_, count)| *count >= 5)))
    }
    fn line(events: &Bound<'_, Counted>) -> String {
        let (row, count) = &events["reached"];
        format!("{},{count}", cells(row, ["ts_ms", "line", "host"]))
    }
    fn guesses(data: &Data, query: &Query) -> BoxedStream<Row> {
        lines(data, query).filter(is("event", "invalid_user")).boxed()
    }
    ask(SSH, ANSWER, |data, query| {
        let counted = guesses(data, query).key_by(host).count_within(secs(60)).in_order();
        collected(counted.key_by(|(row, _)| host(row)).pattern(edge(), line).collect())
    });
    ask(SSH, ANSWER, |data, query| {
        let (group, found) =
            guesses(data, query).key_by(host).group("hosts", |member: Member<(), _>| {
                let counted = member.map(|((), row)| row).count_within(secs(60)).in_order();
                counted.pattern(edge(), line)
            });
        let hosts: BTreeSet<String> = auth(data).iter().map(host).collect();
        group.add_all(hosts.into_iter().map(|host| (host, ()))).unwrap();
        collected(found.map(|(_, line)| line).collect())
    });
}

#[test]
fn ssh_4_guess_and_disconnect() {
    Question {
        set: SSH,
        answer: "q4_pid_join_lag_histogram",
        rows: lines,
        key: |row| row.int("pid"),
        pattern: || {
            let disconnect = step("disconnect", is("event", "disconnect"));
            Pattern::new(guess("guess").then(disconnect)).within_inclusive(secs(60))
        },
        line: |events| {
            let lag = events["disconnect"].time.since(events["guess"].time);
            Some(lag.as_secs().to_string())
        },
    }
    .ask_all(auth, |lags| {
        let mut histogram: BTreeMap<String, u64> = BTreeMap::new();
        lags.into_iter().for_each(|lag| *histogram.entry(lag).or_default() += 1);
        histogram.into_iter().map(|(lag, n)| format!("{lag},{n}")).collect()
    });
}

#[test]
fn ssh_5_sessions() {
    fn pattern() -> Pattern<Row> {
        let row = step_if("row", |row: &Row, before| {
            let last = before.last("row");
            last.is_none_or(|last| row.time.since(last.time) <= secs(1_800))
        });
        whole_run(row.one_or_more())
    }
    Question {
        set: SSH,
        answer: "q5_sessions",
        rows: |data, query| lines(data, query).filter(|row| !row.text("host").is_empty()).boxed(),
        key: host,
        pattern,
        line: |events| {
            let rows = events.all("row");
            let (first, last) = (rows[0], rows[rows.len() - 1]);
            let (start, end) = (first.text("ts_ms"), last.text("ts_ms"));
            (rows.len() >= 100).then(|| format!("{start},{end},{},{}", host(first), rows.len()))
        },
    }
    .ask(auth);
}

// New York's flights: schedules hours out of order.

const FLIGHTS: &str = "nyc-flights";

/// The departures by schedule, those of one minute by row.
fn departures(data: &Data, query: &Query) -> BoxedStream<Row> {
    let departures = rows(query, data.rows("departures"), secs(809 * 60));
    departures.sort_within(Duration::ZERO, |row| row.int("row")).in_order().boxed()
}

fn late(name: &str) -> Part<Row> {
    step(name, |row: &Row| row.int("dep_delay") >= 60)
}

#[test]
fn nyc_4_knock_on_delays() {
    Question {
        set: FLIGHTS,
        answer: "q4_knock_on",
        rows: |data, query| {
            departures(data, query).filter(|row| !row.text("tailnum").is_empty()).boxed()
        },
        key: |row| row.owned("tailnum"),
        pattern: || {
            Pattern::new(late("first").next(late("second"))).within_inclusive(secs(12 * 3_600))
        },
        line: |events| {
            let (first, second) = (&events["first"], &events["second"]);
            let rows = [first.text("row"), second.text("row"), second.text("sched_ms")].join(",");
            let delays = [first.text("dep_delay"), second.text("dep_delay")].join(",");
            Some(format!("{},{rows},{delays}", second.text("tailnum")))
        },
    }
    .ask(|data| data.rows("departures"));
}

#[test]
fn nyc_6_four_late_in_a_row() {
    Question {
        set: FLIGHTS,
        answer: "q6_four_in_a_row",
        rows: departures,
        key: |row| (row.owned("origin"), row.owned("carrier")),
        // The whole run, so that the next begins when it is over.
        pattern: || {
            let run = late("late").times(4..).consecutive();
            Pattern::new(run).report(Report::Best).skip(Skip::PastLast)
        },
        line: |events| Some(cells(events.all("late")[3], ["sched_ms", "row", "origin", "carrier"])),
    }
    .ask(|data| data.rows("departures"));
}

// A flight controller and dust sensors: what is not there.

/// One right after another, after more time than the limit.
fn apart() -> Pattern<(Duration, Row)> {
    let long = |(limit, row): &(Duration, Row), before: &Bound<'_, (Duration, Row)>| {
        row.time.since(before["from"].1.time) > *limit
    };
    Pattern::new(any_event("from").next(step_if("to", long)))
}

/// One, then nothing for `length`, then another.
fn quiet(length: Duration) -> Pattern<Row> {
    let nothing = all_of([wait(length), absent(any_event("no"))]);
    Pattern::new(any_event("from").then(nothing).then(any_event("to")))
}

const GAP: Duration = Duration::from_millis(20);

/// All messages as they were logged, up to 80.1 ms out of order.
fn log(data: &Data) -> Vec<Row> {
    let topics = [
        "sensor_combined",
        "vehicle_attitude",
        "vehicle_attitude_setpoint",
        "vehicle_local_position",
        "vehicle_status",
        "cpuload",
    ];
    let mut all: Vec<Row> = topics.iter().flat_map(|topic| data.rows(topic)).collect();
    all.sort_by_key(|row| row.int("seq"));
    all
}

/// Of all topics, the gaps of one are asked for.
fn gap(from: &Row, to: &Row) -> Option<String> {
    let (start, end) = (from.time.as_micros(), to.time.as_micros());
    (&*to.file == "sensor_combined").then(|| format!("{start},{end},{}", end - start))
}

#[test]
fn px4_3_gaps_of_the_sensor() {
    fn logged(data: &Data, query: &Query) -> BoxedStream<Row> {
        rows(query, log(data), Duration::from_micros(80_100)).boxed()
    }
    let (set, answer) = ("px4-imu", "q3_imu_gaps");
    Question {
        set,
        answer,
        rows: logged,
        key: |row| row.file.clone(),
        pattern: apart,
        line: |events| gap(&events["from"].1, &events["to"].1),
    }
    .ask_with(GAP, log);
    Question {
        set,
        answer,
        rows: logged,
        key: |row| row.file.clone(),
        // More than the limit.
        pattern: || quiet(GAP + Duration::from_micros(1)),
        line: |events| gap(&events["from"], &events["to"]),
    }
    .ask(log);
}

const DUST: &str = "aberdeen-air";

/// Longer than the whole set.
const ALL: Duration = Duration::from_secs(6 * 86_400);

fn sensor_rows(data: &Data) -> Vec<Row> {
    data.files("sensors").into_iter().flat_map(|file| data.rows(&file)).collect()
}

/// A source per sensor.
fn sensors(data: &Data, query: &Query) -> BoxedStream<Row> {
    let files = data.files("sensors").into_iter().map(|file| data.rows(&file));
    let mut streams = files.map(|file| rows(query, file, Duration::ZERO));
    let first = streams.next().expect("there are sensors");
    first.union_all(streams)
}

fn sensor(row: &Row) -> i64 {
    row.int("sensor_id")
}

#[test]
fn aberdeen_1_five_dusty_readings_running() {
    type Limited = (f64, Row);
    Question {
        set: DUST,
        answer: "q1_persistent_pm25",
        rows: sensors,
        key: sensor,
        pattern: || {
            let dusty = step("dusty", |(limit, row): &Limited| row.float("pm25") >= *limit);
            let run = dusty.times(5..).consecutive();
            Pattern::new(run).report(Report::Best).skip(Skip::PastLast)
        },
        line: |events| {
            let fifth = &events.all("dusty")[4].1;
            Some(format!("{},{}", cells(fifth, ["ts_ms", "sensor_id"]), fifth.float("pm25")))
        },
    }
    .ask_with(15.0, sensor_rows);
}

fn silence(from: &Row, to: &Row) -> Option<String> {
    let (start, end) = (from.time.as_millis(), to.time.as_millis());
    Some(format!("{},{start},{end},{}", sensor(to), end - start))
}

#[test]
fn aberdeen_3_silence() {
    let limit = secs(600);
    Question {
        set: DUST,
        answer: "q3_silence",
        rows: sensors,
        key: sensor,
        pattern: apart,
        line: |events| silence(&events["from"].1, &events["to"].1),
    }
    .ask_with(limit, sensor_rows);
    Question {
        set: DUST,
        answer: "q3_silence",
        // One file after another.
        rows: |data, query| rows(query, sensor_rows(data), ALL).boxed(),
        key: sensor,
        pattern: || quiet(secs(600) + Duration::from_millis(1)),
        line: |events| silence(&events["from"], &events["to"]),
    }
    .ask(sensor_rows);
}
