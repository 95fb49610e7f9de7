//! Windows that are the same for every key, kept one by one: cumulative windows, calendar windows,
//! and tumbling or hopping ones that give more than one result.
//!
//! Unlike [`Window`](super::Window), which keeps slices and merges them, this keeps each window's
//! accumulators until the window is let go of: so a late event changes a result without any merging. An
//! event goes into each window that holds its time; only cumulative windows are different, see
//! [`Layout::NESTED`].
//!
//! | an event, for each window that holds its time | what becomes of it |
//! |---|---|
//! | the window is open | it counts; an early result if a trigger says so |
//! | the window is over and kept | it counts, and a corrected result comes out at once |
//! | the window is let go of | nothing |
//! | all its windows are let go of | it is late |
//! | no window holds its time | it is filtered out |

mod calendar;
mod cumulative;
mod operator;
mod state;

use std::hash::Hash;
use std::time::Duration;

pub use calendar::Calendar;
pub use cumulative::Cumulative;
pub use operator::AlignedWindow;
pub use state::AlignedState;

use super::{Grid, InvalidWindow, Updatable, Updates, WindowKind, Windowed, Windows};
use crate::operator::aggregate::Aggregate;
use crate::operator::{Consumer, OpId};
use crate::state::Codec;

/// A window's bounds in microseconds, 128 bits wide so that they go on past both ends of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub(super) start: i128,
    pub(super) end: i128,
}

/// Where windows lie, in an operator.
pub trait Layout: Send + Sync + 'static {
    /// Whether of two windows that hold a time one starts where the other does and goes on. Then an
    /// event goes into the first of them that is open, and each that closes is the beginning of the
    /// next.
    const NESTED: bool = false;

    /// Whether no time lies in more than one window.
    fn is_single(&self) -> bool;

    /// The window with the earliest end later than `after`, of those that hold `time`.
    fn next(&self, time: i64, after: i128) -> Option<Bounds>;

    /// The earliest end of a window later than `after`.
    fn end_after(&self, after: i64) -> i128;
}

impl Layout for Grid {
    fn is_single(&self) -> bool {
        self.size <= self.hop
    }

    fn next(&self, time: i64, after: i128) -> Option<Bounds> {
        let time = i128::from(time);
        let end = self.end_after(after.max(time));
        let start = end - self.size;
        (start <= time).then_some(Bounds { start, end })
    }

    fn end_after(&self, after: i64) -> i128 {
        Grid::end_after(self, after.into())
    }
}

/// A description of where windows lie.
pub trait Laid: Send + Sync + Sized + 'static {
    /// What it becomes in an operator.
    type Layout: Layout;

    /// The windows, if there can be such.
    fn layout(&self) -> Result<Self::Layout, InvalidWindow>;
}

impl Laid for Windows {
    type Layout = Grid;

    fn layout(&self) -> Result<Grid, InvalidWindow> {
        self.check()?;
        Ok(Grid::new(self))
    }
}

/// Windows that are the same for every key, with what they give besides a final result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aligned<L> {
    pub(super) windows: L,
    updates: Updates,
}

impl<L> Aligned<L> {
    pub(super) fn new(windows: L) -> Self {
        Self { windows, updates: Updates::default() }
    }
}

impl Updatable for Windows {
    type Updating = Aligned<Self>;

    fn updated(self, change: impl FnOnce(&mut Updates)) -> Aligned<Self> {
        Aligned::new(self).updated(change)
    }
}

impl<L> Updatable for Aligned<L> {
    type Updating = Self;

    fn updated(mut self, change: impl FnOnce(&mut Updates)) -> Self {
        change(&mut self.updates);
        self
    }
}

impl<T, K, L> WindowKind<T, K> for Aligned<L>
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    L: Laid,
{
    type State<Acc: Send + 'static> = AlignedState<K, Acc>;

    type Operator<KF, A, N>
        = AlignedWindow<K, KF, L::Layout, A, N, A::Acc>
    where
        KF: Fn(&T) -> K + Send + Sync + 'static,
        A: Aggregate<T>,
        N: Consumer<Windowed<K, A::Out>>;

    fn check(&self) -> Result<(), InvalidWindow> {
        self.windows.layout()?;
        self.updates.check()
    }

    fn operator<KF, A, N>(
        self,
        op: OpId,
        key: KF,
        aggregate: A,
        codec: Option<Codec<AlignedState<K, A::Acc>>>,
        next: N,
    ) -> Self::Operator<KF, A, N>
    where
        KF: Fn(&T) -> K + Send + Sync + 'static,
        A: Aggregate<T>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        let checked = self.updates.check().and_then(|()| self.windows.layout());
        let layout = checked.unwrap_or_else(|invalid| panic!("{invalid}"));
        AlignedWindow::new(op, layout, self.updates.started(), key, aggregate, codec, next)
    }
}

impl Windows {
    /// Windows that all start together and grow by `step`, until they are as long as `size` and it
    /// begins anew: of a size of an hour and a step of ten minutes, the first ten minutes of each hour,
    /// its first twenty, and so on up to all of it.
    ///
    /// Each gives a result, also one that has no event which the one before it has not. If `size` is no
    /// multiple of `step`, the last grows by what is left.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mizzle_engine::operator::{WindowKind, Windows};
    /// let day = Duration::from_secs(86_400);
    /// let so_far_today = Windows::cumulative(day, day / 24);
    /// assert!(WindowKind::<(), ()>::check(&so_far_today).is_ok());
    /// ```
    pub fn cumulative(size: Duration, step: Duration) -> Aligned<Cumulative> {
        Aligned::new(Cumulative::new(size, step))
    }

    /// A window for each day of the time zone with this name, from midnight to midnight there: one of 23
    /// or 25 hours where the clocks change.
    ///
    /// ```
    /// use mizzle_engine::operator::{WindowKind, Windows};
    /// assert!(WindowKind::<(), ()>::check(&Windows::daily("Europe/Vienna")).is_ok());
    /// let unknown = WindowKind::<(), ()>::check(&Windows::daily("Europe/Atlantis"));
    /// assert_eq!(unknown.unwrap_err().to_string(), "there is no time zone \"Europe/Atlantis\"");
    /// ```
    pub fn daily(zone: &str) -> Aligned<Calendar> {
        Aligned::new(Calendar::days(zone))
    }

    /// A window for each week of the time zone with this name, from Monday to Monday there.
    pub fn weekly(zone: &str) -> Aligned<Calendar> {
        Aligned::new(Calendar::weeks(zone))
    }

    /// A window for each month of the time zone with this name.
    pub fn monthly(zone: &str) -> Aligned<Calendar> {
        Aligned::new(Calendar::months(zone))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
