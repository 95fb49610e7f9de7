//! Joins of rows that lie in one window.

use std::hash::Hash;

use mizzle_engine::operator::join::{
    Either, Full, Inner, Left, Matching, PairedRows, Pairs, Right,
};
use mizzle_engine::operator::{Consumer, FlatMap, OpId, Window, WindowState, Windowed, Windows};
use mizzle_engine::state::Codec;

use super::Joining;
use crate::build::{Build, Closing, FromSides};
use crate::stream::{Stateful, Stream};

/// Two streams whose rows match by key and window, still without what is to come out.
#[must_use = "a join does nothing before it is said what comes out: `.inner()` or the like"]
pub struct WindowJoining<L, R, K, KF> {
    pub(super) joining: Joining<L, R, K, KF>,
    pub(super) windows: Windows,
}

/// A stream behind a join of windows.
pub struct WindowJoined<L, R, K, KF, M> {
    upstream: FromSides<Either<L, R>>,
    op: OpId,
    windows: Windows,
    key: KF,
    matching: M,
    codec: Option<Codec<WindowState<K, PairedRows<L, R>>>>,
}

impl<L, R, K, KF> WindowJoining<L, R, K, KF>
where
    L: Clone + Send + 'static,
    R: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Clone + Send + Sync + 'static,
{
    /// Each left row of a window with each right one, as `(L, R)` with the bounds of the window.
    #[track_caller]
    pub fn inner(self) -> Stream<WindowJoined<L, R, K, KF, Inner>> {
        self.matched(Inner)
    }

    /// As [`inner`](Self::inner), and the left rows of windows without a right one: `(L, Option<R>)`.
    #[track_caller]
    pub fn left(self) -> Stream<WindowJoined<L, R, K, KF, Left>> {
        self.matched(Left)
    }

    /// As [`inner`](Self::inner), and the right rows of windows without a left one: `(Option<L>, R)`.
    #[track_caller]
    pub fn right(self) -> Stream<WindowJoined<L, R, K, KF, Right>> {
        self.matched(Right)
    }

    /// As [`inner`](Self::inner), and the rows of windows without the other side: `(Option<L>,
    /// Option<R>)`.
    #[track_caller]
    pub fn full(self) -> Stream<WindowJoined<L, R, K, KF, Full>> {
        self.matched(Full)
    }

    #[track_caller]
    fn matched<M: Matching<L, R>>(self, matching: M) -> Stream<WindowJoined<L, R, K, KF, M>> {
        let Self { joining: Joining { stream, key, shape, .. }, windows } = self;
        let checked = windows.check();
        let stream = stream.then("window_join", shape, |upstream, op| WindowJoined {
            upstream,
            op,
            windows,
            key,
            matching,
            codec: None,
        });
        if let Err(error) = checked {
            stream.refuse(error);
        }
        stream
    }
}

impl<L, R, K, KF, M> Build for WindowJoined<L, R, K, KF, M>
where
    L: Clone + Send + 'static,
    R: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&Either<L, R>) -> K + Clone + Send + Sync + 'static,
    M: Matching<L, R>,
{
    type Out = Windowed<K, M::Out>;
    type Head = FromSides<Either<L, R>>;

    fn close<N: Consumer<Self::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, windows, key, matching, codec } = self;
        let one_by_one = FlatMap::<_, _, _, false>::new(op, each::<K, M::Out>, next);
        let consumer = Window::new(op, windows, key, Pairs::new(matching), codec, one_by_one);
        closing.join(upstream, op, consumer);
    }
}

/// Each of the results of a window, with its bounds.
fn each<K: Clone, U>(window: Windowed<K, Vec<U>>) -> impl Iterator<Item = Windowed<K, U>> {
    let Windowed { key, start, end, value, phase } = window;
    value.into_iter().map(move |value| Windowed { key: key.clone(), start, end, value, phase })
}

impl<L, R, K, KF, M> Stateful for WindowJoined<L, R, K, KF, M>
where
    L: 'static,
    R: 'static,
    K: 'static,
    WindowJoined<L, R, K, KF, M>: Build,
{
    type State = WindowState<K, PairedRows<L, R>>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}
