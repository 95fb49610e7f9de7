//! What all kinds of windows have in common: how an operator for them is made.

use super::{InvalidWindow, Window, WindowState, Windowed, Windows};
use crate::operator::aggregate::Aggregate;
use crate::operator::{Consumer, OpId};
use crate::state::Codec;
use std::hash::Hash;

/// A kind of windows over events of type `T` with keys of type `K`, made by the functions of
/// [`Windows`]. Implemented by Mizzle's own types only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` says nothing about windows over `{T}`",
    note = "windows are made by `Windows::tumbling`, `Windows::session`, `Windows::count` and the like"
)]
pub trait WindowKind<T, K>: Send + Sized + 'static {
    /// What is remembered with accumulators of type `Acc`.
    type State<Acc: Send + 'static>: Send + 'static;

    /// The operator.
    type Operator<KF, A, N>: Consumer<T>
    where
        KF: Fn(&T) -> K + Send + Sync + 'static,
        A: Aggregate<T>,
        N: Consumer<Windowed<K, A::Out>>;

    /// Whether there can be such windows.
    fn check(&self) -> Result<(), InvalidWindow>;

    /// The operator `op` that makes what `aggregate` says of each window, per key that `key` gives, in
    /// front of `next`.
    ///
    /// # Panics
    ///
    /// If [`check`](WindowKind::check) fails.
    fn operator<KF, A, N>(
        self,
        op: OpId,
        key: KF,
        aggregate: A,
        codec: Option<Codec<Self::State<A::Acc>>>,
        next: N,
    ) -> Self::Operator<KF, A, N>
    where
        KF: Fn(&T) -> K + Send + Sync + 'static,
        A: Aggregate<T>,
        N: Consumer<Windowed<K, A::Out>>;
}

impl<T, K> WindowKind<T, K> for Windows
where
    T: Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
{
    type State<Acc: Send + 'static> = WindowState<K, Acc>;

    type Operator<KF, A, N>
        = Window<K, KF, A, N, A::Acc>
    where
        KF: Fn(&T) -> K + Send + Sync + 'static,
        A: Aggregate<T>,
        N: Consumer<Windowed<K, A::Out>>;

    fn check(&self) -> Result<(), InvalidWindow> {
        Windows::check(self)
    }

    fn operator<KF, A, N>(
        self,
        op: OpId,
        key: KF,
        aggregate: A,
        codec: Option<Codec<WindowState<K, A::Acc>>>,
        next: N,
    ) -> Self::Operator<KF, A, N>
    where
        KF: Fn(&T) -> K + Send + Sync + 'static,
        A: Aggregate<T>,
        N: Consumer<Windowed<K, A::Out>>,
    {
        Window::new(op, self, key, aggregate, codec, next)
    }
}
