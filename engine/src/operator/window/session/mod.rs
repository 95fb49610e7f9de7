//! Session windows: a key's events that are close to each other.
//!
//! A session of one event at `t` is `[t, t + gap)`; sessions that overlap are one. An event exactly one
//! gap after another is in a session of its own. So a session starts at its first event and ends one
//! gap after its last, and it closes when the clock reaches its end.
//!
//! | an event | what becomes of it |
//! |---|---|
//! | overlaps open sessions of its key | they are one session with it |
//! | overlaps none, its own session is still open or kept | it begins a session |
//! | neither | late |
//! | overlaps a closed session that is kept | they are one; over: a corrected result; not over: it opens again |
//!
//! Each session has one timer, which is only moved when it fires: as long as events keep coming, none
//! is touched.

mod operator;
mod state;

use std::hash::Hash;
use std::time::Duration;

pub use operator::SessionWindow;
pub use state::SessionState;

use super::{
    InvalidWindow, Updatable, Updates, WindowKind, Windowed, Windows, check_duration, not_zero,
};
use crate::operator::aggregate::Aggregate;
use crate::operator::{Consumer, OpId};
use crate::state::Codec;

/// Sessions: made by [`Windows::session`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sessions {
    gap: Duration,
    updates: Updates,
}

impl Windows {
    /// Sessions: what is less than `gap` apart is in one window.
    pub fn session(gap: Duration) -> Sessions {
        Sessions { gap, updates: Updates::default() }
    }
}

impl Updatable for Sessions {
    type Updating = Self;

    fn updated(mut self, change: impl FnOnce(&mut Updates)) -> Self {
        change(&mut self.updates);
        self
    }
}

impl<T, K> WindowKind<T, K> for Sessions
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
{
    type State<Acc: Send + 'static> = SessionState<K, Acc>;

    type Operator<KF, A, N>
        = SessionWindow<K, KF, A, N, A::Acc>
    where
        KF: Fn(&T) -> K + Send + Sync + 'static,
        A: Aggregate<T>,
        N: Consumer<Windowed<K, A::Out>>;

    fn check(&self) -> Result<(), InvalidWindow> {
        not_zero("gap", !self.gap.is_zero())?;
        check_duration("gap", self.gap)?;
        self.updates.check()
    }

    fn operator<KF, A, N>(
        self,
        op: OpId,
        key: KF,
        aggregate: A,
        codec: Option<Codec<SessionState<K, A::Acc>>>,
        next: N,
    ) -> Self::Operator<KF, A, N>
    where
        KF: Fn(&T) -> K + Send + Sync + 'static,
        A: Aggregate<T>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        if let Err(invalid) = WindowKind::<T, K>::check(&self) {
            panic!("{invalid}");
        }
        SessionWindow::new(op, self.gap, self.updates.started(), key, aggregate, codec, next)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
