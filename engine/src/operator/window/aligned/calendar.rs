//! Days, weeks and months of a time zone.

use std::time::Duration;

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Span, ToSpan};

use super::super::InvalidWindow;
use super::{Aligned, Bounds, Laid, Layout};

/// Days, weeks or months of a time zone: made by [`Windows::daily`](super::Windows::daily) and the like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calendar {
    zone: String,
    unit: Unit,
    offset: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Day,
    Week,
    Month,
}

impl Calendar {
    fn new(zone: &str, unit: Unit) -> Self {
        Self { zone: zone.to_owned(), unit, offset: Duration::ZERO }
    }

    pub(super) fn days(zone: &str) -> Self {
        Self::new(zone, Unit::Day)
    }

    pub(super) fn weeks(zone: &str) -> Self {
        Self::new(zone, Unit::Week)
    }

    pub(super) fn months(zone: &str) -> Self {
        Self::new(zone, Unit::Month)
    }
}

impl Aligned<Calendar> {
    /// The same windows, later by `offset` on the clock on the wall there: days with an offset of six
    /// hours start at six in the morning, also where the clocks change at night; where they skip that
    /// time, at the first instant after. It is less than a day for days, a week for weeks and 28 days
    /// for months.
    pub fn offset(mut self, offset: Duration) -> Self {
        self.windows.offset = offset;
        self
    }
}

impl Laid for Calendar {
    type Layout = Dates;

    fn layout(&self) -> Result<Dates, InvalidWindow> {
        let Ok(zone) = TimeZone::get(&self.zone) else {
            return Err(InvalidWindow::UnknownZone { zone: self.zone.clone() });
        };
        let days = match self.unit {
            Unit::Day => 1,
            Unit::Week => 7,
            Unit::Month => 28,
        };
        super::super::check_duration("offset", self.offset)?;
        if self.offset >= Duration::from_secs(days * 86_400) {
            return Err(InvalidWindow::Offset { offset: self.offset });
        }
        let offset = SignedDuration::try_from(self.offset).expect("less than a month");
        Ok(Dates { zone, unit: self.unit, offset })
    }
}

/// The same with the zone's rules.
#[derive(Clone, Debug)]
pub struct Dates {
    zone: TimeZone,
    unit: Unit,
    offset: SignedDuration,
}

/// The years of the calendar reach so far: what is before or after lies in one window.
const FIRST: i128 = -377_000_000_000_000_000;
const LAST: i128 = 253_000_000_000_000_000;

impl Dates {
    fn span(&self, count: i64) -> Span {
        match self.unit {
            Unit::Day => count.days(),
            Unit::Week => count.weeks(),
            Unit::Month => count.months(),
        }
    }

    /// The first day of the unit that `date` lies in.
    fn first_day(&self, date: Date) -> Date {
        match self.unit {
            Unit::Day => date,
            Unit::Week => {
                date.saturating_sub(i64::from(date.weekday().to_monday_zero_offset()).days())
            }
            Unit::Month => date.first_of_month(),
        }
    }

    /// When the clock on the wall shows the beginning of the unit that starts with `date`: the first
    /// time if it shows it twice, the first instant after if it never does.
    fn instant(&self, date: Date) -> i128 {
        let wall = DateTime::from_parts(date, Time::midnight()).saturating_add(self.offset);
        let found = self.zone.to_ambiguous_timestamp(wall);
        let skipped = matches!(found.offset(), AmbiguousOffset::Gap { .. });
        let instant = found.compatible().ok().map(|instant| {
            // Later than the change by as much as what is skipped had begun by then.
            let by = instant.saturating_add(1.nanoseconds()).unwrap_or(instant);
            let change = skipped.then(|| self.zone.preceding(by).next()).flatten();
            change.map_or(instant, |change| change.timestamp())
        });
        let micros = instant.map(jiff::Timestamp::as_microsecond);
        micros.map_or(if date.year() < 0 { FIRST } else { LAST }, i128::from)
    }

    /// The bounds of the unit that holds `time`.
    fn unit_of(&self, time: i64) -> Bounds {
        let micros = i128::from(time);
        if micros < FIRST {
            return Bounds { start: i128::from(i64::MIN), end: FIRST };
        }
        if micros >= LAST {
            return Bounds { start: LAST, end: i128::from(i64::MAX) + 1 };
        }
        let instant = jiff::Timestamp::from_microsecond(time).expect("within the calendar");
        let wall = self.zone.to_datetime(instant).saturating_sub(self.offset);
        // Where the clocks change, the clock on the wall may say one unit too early or too late.
        let mut date = self.first_day(wall.date().saturating_sub(self.span(1)));
        let mut start = self.instant(date).max(FIRST);
        loop {
            date = self.first_day(date.saturating_add(self.span(1)));
            let end = self.instant(date).min(LAST);
            if end > micros {
                return Bounds { start, end };
            }
            start = end.max(FIRST);
        }
    }
}

impl Layout for Dates {
    fn is_single(&self) -> bool {
        true
    }

    fn next(&self, time: i64, after: i128) -> Option<Bounds> {
        let unit = self.unit_of(time);
        (unit.end > after).then_some(unit)
    }

    fn end_after(&self, after: i64) -> i128 {
        self.unit_of(after).end
    }
}
