//! How a source's watermark follows from its events.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::timestamp::micros;
use super::{Timestamp, is_late};

/// What a user declares about the order of a source's events.
///
/// A strategy says how the watermark follows from the events; two options stand beside it.
///
/// ```
/// use std::time::Duration;
/// use mizzle_engine::time::{Timestamp, Verdict, Watermarks};
/// let declared = Watermarks::<&str>::bounded(Duration::from_millis(10));
/// let mut timing = declared.start();
/// let now = || Timestamp::EPOCH;
/// assert_eq!(timing.observe(Timestamp::from_millis(30), &"a", now), Verdict::OnTime);
/// assert_eq!(timing.watermark(), Timestamp::from_millis(20));
/// assert_eq!(timing.observe(Timestamp::from_millis(20), &"b", now), Verdict::OnTime);
/// assert_eq!(timing.observe(Timestamp::from_millis(19), &"c", now), Verdict::Late);
/// ```
pub struct Watermarks<T> {
    strategy: Strategy<T>,
    refuse_after: Option<Duration>,
    idle_after: Option<Duration>,
}

/// A strategy of one's own.
///
/// It is shown the events that are on time; what it answers is held against what was promised
/// before, so a watermark that it takes back does not go back.
pub trait WatermarkGenerator<T>: Send + 'static {
    /// An event that is on time, before it is passed on.
    fn observe(&mut self, time: Timestamp, value: &T);

    /// No later event is earlier than this.
    fn watermark(&self) -> Timestamp;

    /// Processing time has come to `now`. Called about every [`interval`](Self::interval).
    fn tick(&mut self, now: Timestamp) {
        let _ = now;
    }

    /// How often it wants to be told the processing time; `None` is never.
    fn interval(&self) -> Option<Duration> {
        None
    }
}

/// A declaration that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidWatermarks {
    /// A duration that must not be zero is below a microsecond.
    #[error("watermarks: `{parameter}` must be at least a microsecond")]
    Zero {
        /// Which one.
        parameter: &'static str,
    },
}

/// What becomes of an event at its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No promise is broken.
    OnTime,
    /// It is earlier than the watermark before it.
    Late,
    /// It is too far ahead of the clock: it goes nowhere and moves no watermark.
    Refused,
}

enum Strategy<T> {
    Ascending,
    Bounded { slack: Duration },
    Periodic { slack: Duration, interval: Duration },
    Punctuated(Mark<T>),
    Custom(Box<dyn CloneGenerator<T>>),
}

type Mark<T> = Arc<dyn Fn(&T) -> Option<Timestamp> + Send + Sync>;

/// A generator that every reader of a source can have a copy of.
trait CloneGenerator<T: 'static>: WatermarkGenerator<T> {
    fn boxed(&self) -> Box<dyn CloneGenerator<T>>;
}

impl<T: 'static, G: WatermarkGenerator<T> + Clone> CloneGenerator<T> for G {
    fn boxed(&self) -> Box<dyn CloneGenerator<T>> {
        Box::new(self.clone())
    }
}

impl<T: 'static> Watermarks<T> {
    /// The source is in order: the watermark is the newest time. An event at an equal time is on
    /// time, an earlier one is late.
    pub fn ascending() -> Self {
        Self::new(Strategy::Ascending)
    }

    /// The watermark is the newest time minus `slack`, which saturates.
    pub fn bounded(slack: Duration) -> Self {
        Self::new(Strategy::Bounded { slack })
    }

    /// As [`bounded`](Self::bounded), but the watermark moves only about every `interval` of
    /// processing time; until then events are measured against where it stands.
    pub fn periodic(slack: Duration, interval: Duration) -> Self {
        Self::new(Strategy::Periodic { slack, interval })
    }

    /// Certain events carry the watermark: those for which `mark` gives one. Such an event is passed
    /// on like any other, before the watermark that it sets. An earlier mark than the one before
    /// changes nothing, nor does that of a late event.
    pub fn punctuated(mark: impl Fn(&T) -> Option<Timestamp> + Send + Sync + 'static) -> Self {
        Self::new(Strategy::Punctuated(Arc::new(mark)))
    }

    /// The watermark is what `generator` says. Each partition or file of a source has its own copy.
    pub fn custom(generator: impl WatermarkGenerator<T> + Clone) -> Self {
        Self::new(Strategy::Custom(Box::new(generator)))
    }

    fn new(strategy: Strategy<T>) -> Self {
        Self { strategy, refuse_after: None, idle_after: None }
    }

    /// Refuses events whose time is more than `ahead` after the clock, so that one absurd time stamp
    /// does not make all later events late. Without this nothing is refused.
    pub fn refuse_after(mut self, ahead: Duration) -> Self {
        self.refuse_after = Some(ahead);
        self
    }

    /// Counts the source as idle, so that it holds no other back, when it has had no event for
    /// `quiet` of processing time. Without this it never is.
    pub fn idle_after(mut self, quiet: Duration) -> Self {
        self.idle_after = Some(quiet);
        self
    }

    /// After how much quiet the source counts as idle; `None` is never.
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.idle_after
    }

    /// Whether the source declares that its events come in order of time.
    pub fn is_in_order(&self) -> bool {
        matches!(self.strategy, Strategy::Ascending)
    }

    /// Whether the declaration makes sense: no interval and no idle time may be below a microsecond.
    pub fn check(&self) -> Result<(), InvalidWatermarks> {
        let interval = match &self.strategy {
            Strategy::Periodic { interval, .. } => Some(*interval),
            Strategy::Custom(generator) => generator.interval(),
            _ => None,
        };
        for (parameter, duration) in [("interval", interval), ("idle_after", self.idle_after)] {
            if duration.is_some_and(|duration| micros(duration) == 0) {
                return Err(InvalidWatermarks::Zero { parameter });
            }
        }
        Ok(())
    }

    /// A watermark that starts at [`Timestamp::MIN`] and follows this declaration.
    pub fn start(&self) -> Timing<T> {
        let (slack, rule) = match &self.strategy {
            Strategy::Ascending => (Duration::ZERO, Rule::Bounded),
            Strategy::Bounded { slack } => (*slack, Rule::Bounded),
            Strategy::Periodic { slack, interval } => {
                (*slack, Rule::Periodic { newest: Timestamp::MIN, interval: *interval })
            }
            Strategy::Punctuated(mark) => (Duration::ZERO, Rule::Punctuated(mark.clone())),
            Strategy::Custom(generator) => (Duration::ZERO, Rule::Custom(generator.boxed())),
        };
        Timing {
            plain: Plain::new(slack),
            rule,
            guard: self.refuse_after.map(|ahead| Guard { ahead, horizon: Timestamp::MIN }),
        }
    }
}

impl<T: 'static> Clone for Watermarks<T> {
    fn clone(&self) -> Self {
        let strategy = match &self.strategy {
            Strategy::Ascending => Strategy::Ascending,
            Strategy::Bounded { slack } => Strategy::Bounded { slack: *slack },
            Strategy::Periodic { slack, interval } => {
                Strategy::Periodic { slack: *slack, interval: *interval }
            }
            Strategy::Punctuated(mark) => Strategy::Punctuated(mark.clone()),
            Strategy::Custom(generator) => Strategy::Custom(generator.boxed()),
        };
        Self { strategy, ..*self }
    }
}

impl<T> fmt::Debug for Watermarks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.strategy {
            Strategy::Ascending => f.write_str("ascending")?,
            Strategy::Bounded { slack } => write!(f, "bounded({slack:?})")?,
            Strategy::Periodic { slack, interval } => {
                write!(f, "periodic({slack:?}, {interval:?})")?;
            }
            Strategy::Punctuated(_) => f.write_str("punctuated")?,
            Strategy::Custom(_) => f.write_str("custom")?,
        }
        if let Some(ahead) = self.refuse_after {
            write!(f, ".refuse_after({ahead:?})")?;
        }
        if let Some(quiet) = self.idle_after {
            write!(f, ".idle_after({quiet:?})")?;
        }
        Ok(())
    }
}

/// A source's watermark while it runs: made by [`Watermarks::start`].
pub struct Timing<T> {
    plain: Plain,
    rule: Rule<T>,
    guard: Option<Guard>,
}

/// The newest time minus a slack: all that most sources ever ask. Small enough to live in registers
/// while a batch is judged.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    watermark: Timestamp,
    slack: i64,
    /// The earliest time from which the slack can be taken.
    floor: i64,
}

impl Plain {
    fn new(slack: Duration) -> Self {
        let slack = micros(slack);
        Self { watermark: Timestamp::MIN, slack, floor: i64::MIN + slack }
    }

    /// Whether an event at `time` is late by the watermark before it; moves the watermark.
    #[inline(always)]
    pub fn is_late(&mut self, time: Timestamp) -> bool {
        let late = is_late(time, self.watermark);
        // A late event is below the watermark, and so is its time minus the slack.
        self.promise(self.before(time));
        late
    }

    /// `time` minus the slack, saturating: in three instructions, as this is done for every event.
    #[inline(always)]
    fn before(&self, time: Timestamp) -> Timestamp {
        Timestamp::from_micros(time.as_micros().max(self.floor) - self.slack)
    }

    /// Raises the watermark to `watermark`, if it is lower.
    #[inline(always)]
    pub fn promise(&mut self, watermark: Timestamp) {
        self.watermark = self.watermark.max(watermark);
    }
}

enum Rule<T> {
    Bounded,
    Periodic { newest: Timestamp, interval: Duration },
    Punctuated(Mark<T>),
    Custom(Box<dyn CloneGenerator<T>>),
}

struct Guard {
    ahead: Duration,
    /// As far as the clock was seen to allow; it is read again only for an event beyond.
    horizon: Timestamp,
}

impl Guard {
    fn refuses(&mut self, time: Timestamp, now: impl FnOnce() -> Timestamp) -> bool {
        if time <= self.horizon {
            return false;
        }
        self.horizon = now() + self.ahead;
        time > self.horizon
    }
}

impl<T: 'static> Timing<T> {
    /// The plain rule, if that is all there is: to judge a batch by, and to be put back after it.
    pub fn plain(&mut self) -> Option<&mut Plain> {
        let is_plain = matches!(self.rule, Rule::Bounded) && self.guard.is_none();
        is_plain.then_some(&mut self.plain)
    }

    /// Judges an event by the watermark before it, and moves the watermark if the event is on time.
    /// The clock is read only if there is a guard against time stamps ahead of it.
    pub fn observe(
        &mut self,
        time: Timestamp,
        value: &T,
        now: impl FnOnce() -> Timestamp,
    ) -> Verdict {
        if is_late(time, self.watermark()) {
            return Verdict::Late;
        }
        if self.guard.as_mut().is_some_and(|guard| guard.refuses(time, now)) {
            return Verdict::Refused;
        }
        match &mut self.rule {
            Rule::Bounded => {
                self.plain.is_late(time);
            }
            Rule::Periodic { newest, .. } => *newest = time.max(*newest),
            Rule::Punctuated(mark) => {
                if let Some(watermark) = mark(value) {
                    self.plain.promise(watermark);
                }
            }
            Rule::Custom(generator) => {
                generator.observe(time, value);
                let watermark = generator.watermark();
                self.plain.promise(watermark);
            }
        }
        Verdict::OnTime
    }

    /// Processing time has come to `now`: called about every [`interval`](Self::interval).
    pub fn tick(&mut self, now: Timestamp) {
        match &mut self.rule {
            Rule::Bounded | Rule::Punctuated(_) => {}
            Rule::Periodic { newest, .. } => {
                let watermark = self.plain.before(*newest);
                self.plain.promise(watermark);
            }
            Rule::Custom(generator) => {
                generator.tick(now);
                let watermark = generator.watermark();
                self.plain.promise(watermark);
            }
        }
    }

    /// No later event that is on time is earlier than this. [`Timestamp::MIN`] before the first
    /// event; never goes back.
    #[inline(always)]
    pub fn watermark(&self) -> Timestamp {
        self.plain.watermark
    }

    /// How often [`tick`](Self::tick) is to be called; `None` is never.
    pub fn interval(&self) -> Option<Duration> {
        match &self.rule {
            Rule::Bounded | Rule::Punctuated(_) => None,
            Rule::Periodic { interval, .. } => Some(*interval),
            Rule::Custom(generator) => generator.interval(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn us(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn no_clock() -> Timestamp {
        panic!("the clock was read without need")
    }

    fn verdicts(declared: &Watermarks<i64>, times: &[i64]) -> (Vec<Verdict>, Timestamp) {
        let mut timing = declared.start();
        let verdicts = times.iter().map(|t| timing.observe(at(*t), t, no_clock)).collect();
        (verdicts, timing.watermark())
    }

    use Verdict::{Late, OnTime, Refused};

    #[test]
    fn wm_10_arithmetic_saturates_at_both_ends() {
        let declared = Watermarks::bounded(us(60_000));
        assert_eq!(declared.start().watermark(), Timestamp::MIN);
        let (seen, watermark) =
            verdicts(&declared, &[1_000, -9_000_000_000_000_000_000, 9_223_372_036_854_775_807]);
        assert_eq!(seen, [OnTime, Late, OnTime]);
        assert_eq!(watermark, at(i64::MAX - 60_000));
        let (seen, watermark) = verdicts(&declared, &[-9_223_372_036_854_775_807]);
        assert_eq!((seen, watermark), (vec![OnTime], Timestamp::MIN));
        let mut periodic = Watermarks::<i64>::periodic(Duration::MAX, us(1)).start();
        periodic.tick(at(0));
        assert_eq!(periodic.watermark(), Timestamp::MIN);
    }

    #[test]
    fn wm_11_equal_is_on_time_and_older_is_late() {
        let (seen, watermark) = verdicts(&Watermarks::ascending(), &[1_000, 1_000, 999, 2_000]);
        assert_eq!(seen, [OnTime, OnTime, Late, OnTime]);
        assert_eq!(watermark, at(2_000));
    }

    #[test]
    fn wm_12_small_steps_back_do_not_move_the_watermark_back() {
        let mut timing = Watermarks::bounded(us(5)).start();
        let mut watermarks = Vec::new();
        for t in [100, 99, 101, 100, 102, 250] {
            assert_eq!(timing.observe(at(t), &t, no_clock), OnTime);
            watermarks.push(timing.watermark().as_micros());
        }
        assert_eq!(watermarks, [95, 95, 96, 96, 97, 245]);
    }

    #[test]
    fn a_marker_is_measured_before_it_sets_the_watermark() {
        let declared = Watermarks::punctuated(|t: &i64| (t % 10 == 0).then(|| at(*t + 5)));
        let (seen, watermark) = verdicts(&declared, &[3, 1, 20, 25, 24, 10, 26]);
        assert_eq!(seen, [OnTime, OnTime, OnTime, OnTime, Late, Late, OnTime]);
        assert_eq!(watermark, at(25));
        let backwards = Watermarks::punctuated(|t: &i64| Some(at(-*t)));
        assert_eq!(verdicts(&backwards, &[1, 2, 3]).1, at(-1));
    }

    #[test]
    fn periodic_moves_at_ticks_only() {
        let mut timing = Watermarks::periodic(us(2), us(50)).start();
        assert_eq!(timing.interval(), Some(us(50)));
        assert_eq!(timing.observe(at(10), &0, no_clock), OnTime);
        assert_eq!(timing.observe(at(1), &0, no_clock), OnTime);
        assert_eq!(timing.watermark(), Timestamp::MIN);
        timing.tick(at(1_000));
        assert_eq!(timing.watermark(), at(8));
        assert_eq!(timing.observe(at(7), &0, no_clock), Late);
    }

    /// Lags the clock, whatever the events say.
    #[derive(Clone, Default)]
    struct Lagging {
        clock: i64,
        seen: i64,
    }

    impl WatermarkGenerator<i64> for Lagging {
        fn observe(&mut self, time: Timestamp, _: &i64) {
            self.seen = time.as_micros();
        }

        fn watermark(&self) -> Timestamp {
            at((self.clock - 100).min(self.seen))
        }

        fn tick(&mut self, now: Timestamp) {
            self.clock = now.as_micros();
        }

        fn interval(&self) -> Option<Duration> {
            Some(us(10))
        }
    }

    #[test]
    fn a_custom_generator_cannot_take_a_promise_back() {
        let declared = Watermarks::custom(Lagging::default());
        let mut timing = declared.clone().start();
        assert_eq!(timing.observe(at(500), &0, no_clock), OnTime);
        assert_eq!(timing.watermark(), at(-100));
        timing.tick(at(300));
        assert_eq!(timing.watermark(), at(200));
        timing.tick(at(250));
        assert_eq!(timing.watermark(), at(200));
        assert_eq!(timing.observe(at(199), &0, no_clock), Late);
        assert_eq!(declared.start().watermark(), Timestamp::MIN);
        assert_eq!(timing.interval(), Some(us(10)));
    }

    #[test]
    fn far_future_times_are_refused_and_move_nothing() {
        let declared = Watermarks::ascending().refuse_after(us(10));
        let mut timing = declared.start();
        assert_eq!(timing.observe(at(110), &0, || at(100)), OnTime);
        assert_eq!(timing.observe(at(111), &0, || at(100)), Refused);
        assert_eq!(timing.observe(Timestamp::MAX, &0, || at(100)), Refused);
        assert_eq!(timing.watermark(), at(110));
        assert_eq!(timing.observe(at(110), &0, no_clock), OnTime);
        assert_eq!(timing.observe(at(111), &0, || at(101)), OnTime);
        assert_eq!(timing.observe(at(110), &0, no_clock), Late);
        let mut anything = declared.refuse_after(Duration::MAX).start();
        assert_eq!(anything.observe(Timestamp::MAX, &0, || at(100)), OnTime);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let zero = |parameter| Err(InvalidWatermarks::Zero { parameter });
        let periodic = Watermarks::<i64>::periodic(us(1), Duration::ZERO);
        assert_eq!(periodic.check(), zero("interval"));
        let idle = Watermarks::<i64>::ascending().idle_after(Duration::from_nanos(999));
        assert_eq!(idle.check(), zero("idle_after"));
        let fine = Watermarks::<i64>::periodic(Duration::ZERO, us(1)).idle_after(us(1));
        assert_eq!(fine.check(), Ok(()));
        assert_eq!(fine.idle_timeout(), Some(us(1)));
    }

    #[test]
    fn only_ascending_declares_order() {
        assert!(Watermarks::<i64>::ascending().idle_after(us(1)).is_in_order());
        assert!(!Watermarks::<i64>::bounded(Duration::ZERO).is_in_order());
        assert!(!Watermarks::<i64>::custom(Lagging::default()).is_in_order());
    }

    proptest! {
        /// The guard must not change a verdict while the clock is far enough ahead, so the fast
        /// path and the general one agree; and both keep the promise.
        #[test]
        fn fast_path_and_rule_agree(
            times in prop::collection::vec(-50i64..50, 0..60),
            slack in 0u64..30,
        ) {
            let plain = Watermarks::bounded(us(slack));
            let mut fast = plain.start();
            let mut general = plain.refuse_after(Duration::MAX).start();
            let mut newest = None;
            for t in times {
                let late = newest.is_some_and(|newest: i64| t < newest - slack as i64);
                let verdict = fast.observe(at(t), &t, no_clock);
                prop_assert_eq!(verdict, general.observe(at(t), &t, || at(0)));
                prop_assert_eq!(verdict, if late { Late } else { OnTime });
                prop_assert_eq!(fast.watermark(), general.watermark());
                newest = newest.max(Some(t));
            }
        }
    }
}
