//! Joins, by looking at every row that is there.

use super::naive::Timed;
use super::program::{Join, Laid, Value, WindowSpec, joined};
use super::windows::around;

/// What a join of rows in order gives.
pub fn evaluate(left: &[Timed], right: &[Timed], join: Join) -> Vec<Timed> {
    match join {
        Join::Interval { lower, upper, full } => {
            let mut interval = Interval { lower, upper, full, ..Interval::default() };
            for (is_left, row) in both(left, right, true) {
                interval.take(is_left, row);
            }
            interval.let_go_before(i64::MAX);
            interval.made
        }
        Join::AsOf { age } => found(left, right, |(t, (key, _)), (time, (other, _))| {
            other == key && t - time <= age as i64
        }),
        Join::Control => found(left, right, |_, _| true),
        Join::Window { spec, full } => windows(&both(left, right, true), spec, full),
    }
}

/// Rows of one key and window, windows by their ends, their keys by arrival.
fn windows(rows: &[(bool, Timed)], spec: WindowSpec, full: bool) -> Vec<Timed> {
    let around = |&(_, (time, _)): &(bool, Timed)| around(Laid::Hopping(spec), time);
    let mut all: Vec<_> = rows.iter().flat_map(around).collect();
    all.sort_by_key(|&(start, end)| (end, start));
    all.dedup();
    let mut made = Vec::new();
    for (start, end) in all {
        let inside: Vec<_> =
            rows.iter().filter(|(_, row)| (start..end).contains(&row.0)).copied().collect();
        let mut keys: Vec<u32> = Vec::new();
        for (_, (_, (key, _))) in &inside {
            if !keys.contains(key) {
                keys.push(*key);
            }
        }
        for key in keys {
            let side = |of_left| {
                let own =
                    inside.iter().filter(move |(left, row)| *left == of_left && row.1.0 == key);
                own.map(|(_, row)| Some(row.1)).collect::<Vec<_>>()
            };
            let (mut left, mut right) = (side(true), side(false));
            if full && left.is_empty() {
                left.push(None);
            }
            if full && right.is_empty() {
                right.push(None);
            }
            for left in &left {
                made.extend(right.iter().map(|right| (end - 1, joined(*left, *right))));
            }
        }
    }
    made
}

/// Rows of both sides by time, of one time those of one side first.
fn both(left: &[Timed], right: &[Timed], left_first: bool) -> Vec<(bool, Timed)> {
    let left = left.iter().map(|&row| (true, row));
    let mut all: Vec<_> = left.chain(right.iter().map(|&row| (false, row))).collect();
    all.sort_by_key(|&(is_left, (time, _))| (time, is_left != left_first));
    all
}

/// Each left row with the last right one before it that it may see.
fn found(left: &[Timed], right: &[Timed], sees: impl Fn(Timed, Timed) -> bool) -> Vec<Timed> {
    let (mut seen, mut made) = (Vec::new(), Vec::new());
    for (is_left, row) in both(left, right, false) {
        if is_left {
            let found = seen.iter().rev().copied().find(|&right| sees(row, right));
            made.push((row.0, joined(Some(row.1), found.map(|right: Timed| right.1))));
        } else {
            seen.push(row);
        }
    }
    made
}

struct Kept {
    is_left: bool,
    row: Timed,
    /// The time of its last possible partner.
    last: i64,
    matched: bool,
}

#[derive(Default)]
struct Interval {
    lower: i64,
    upper: i64,
    full: bool,
    kept: Vec<Kept>,
    made: Vec<Timed>,
}

impl Interval {
    fn take(&mut self, is_left: bool, row: Timed) {
        let Self { lower, upper, .. } = *self;
        self.let_go_before(row.0);
        let last = row.0 + if is_left { upper } else { -lower };
        let mut own = Kept { is_left, row, last, matched: false };
        // Rows are kept in order of time.
        for kept in self.kept.iter_mut().filter(|kept| kept.is_left != is_left) {
            let (left, right) = if is_left { (row, kept.row) } else { (kept.row, row) };
            let apart = lower..=upper;
            if left.1.0 == right.1.0 && apart.contains(&(right.0 - left.0)) {
                (own.matched, kept.matched) = (true, true);
                let value: Value = joined(Some(left.1), Some(right.1));
                self.made.push((left.0.max(right.0), value));
            }
        }
        if last < row.0 {
            self.let_go(own);
        } else {
            self.kept.push(own);
        }
    }

    fn let_go_before(&mut self, clock: i64) {
        let kept = std::mem::take(&mut self.kept).into_iter();
        let (mut due, kept): (Vec<_>, Vec<_>) = kept.partition(|kept| kept.last < clock);
        self.kept = kept;
        due.sort_by_key(|kept| (kept.last, !kept.is_left));
        due.into_iter().for_each(|kept| self.let_go(kept));
    }

    fn let_go(&mut self, Kept { is_left, row: (time, value), last, matched }: Kept) {
        if self.full && !matched {
            let (left, right) = if is_left { (Some(value), None) } else { (None, Some(value)) };
            self.made.push((time.max(last), joined(left, right)));
        }
    }
}
