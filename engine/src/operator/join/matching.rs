//! What a join makes of its matches, and of rows that have none.

/// What a join of streams gives for two rows that match, and for one that nothing matches.
pub trait Matching<L, R>: Send + Sync + 'static {
    /// The result.
    type Out: Send + 'static;

    /// Whether rows of either side are given out unmatched, so that it shows when they are.
    const OUTER: bool = false;

    /// Whether rows of both sides are, so that their order among each other shows.
    const FULL: bool = false;

    /// What two rows give that match.
    fn pair(&self, left: &L, right: &R) -> Self::Out;

    /// What a left row gives that nothing matches; `None` if nothing.
    fn left(&self, _left: L) -> Option<Self::Out> {
        None
    }

    /// What a right row gives that nothing matches; `None` if nothing.
    fn right(&self, _right: R) -> Option<Self::Out> {
        None
    }
}

/// What a row gives together with what was found for it.
pub trait Finding<L, R>: Send + Sync + 'static {
    /// The result.
    type Out: Send + 'static;

    /// What a left row gives with the right one found for it, if one was; `None` if nothing.
    fn find(&self, left: L, right: Option<&R>) -> Option<Self::Out>;
}

/// Matches only: `(L, R)`.
#[derive(Clone, Copy, Debug)]
pub struct Inner;

/// Matches, and left rows without any: `(L, Option<R>)`.
#[derive(Clone, Copy, Debug)]
pub struct Left;

/// Matches, and right rows without any: `(Option<L>, R)`.
#[derive(Clone, Copy, Debug)]
pub struct Right;

/// Matches, and rows of either side without any: `(Option<L>, Option<R>)`, never twice `None`.
#[derive(Clone, Copy, Debug)]
pub struct Full;

/// Matches only: what a function makes of them.
#[derive(Clone, Copy, Debug)]
pub struct With<F>(pub F);

impl<L, R> Matching<L, R> for Inner
where
    L: Clone + Send + 'static,
    R: Clone + Send + 'static,
{
    type Out = (L, R);

    fn pair(&self, left: &L, right: &R) -> (L, R) {
        (left.clone(), right.clone())
    }
}

impl<L, R> Matching<L, R> for Left
where
    L: Clone + Send + 'static,
    R: Clone + Send + 'static,
{
    type Out = (L, Option<R>);

    const OUTER: bool = true;

    fn pair(&self, left: &L, right: &R) -> Self::Out {
        (left.clone(), Some(right.clone()))
    }

    fn left(&self, left: L) -> Option<Self::Out> {
        Some((left, None))
    }
}

impl<L, R> Matching<L, R> for Right
where
    L: Clone + Send + 'static,
    R: Clone + Send + 'static,
{
    type Out = (Option<L>, R);

    const OUTER: bool = true;

    fn pair(&self, left: &L, right: &R) -> Self::Out {
        (Some(left.clone()), right.clone())
    }

    fn right(&self, right: R) -> Option<Self::Out> {
        Some((None, right))
    }
}

impl<L, R> Matching<L, R> for Full
where
    L: Clone + Send + 'static,
    R: Clone + Send + 'static,
{
    type Out = (Option<L>, Option<R>);

    const OUTER: bool = true;

    const FULL: bool = true;

    fn pair(&self, left: &L, right: &R) -> Self::Out {
        (Some(left.clone()), Some(right.clone()))
    }

    fn left(&self, left: L) -> Option<Self::Out> {
        Some((Some(left), None))
    }

    fn right(&self, right: R) -> Option<Self::Out> {
        Some((None, Some(right)))
    }
}

impl<L, R, U, F> Matching<L, R> for With<F>
where
    U: Send + 'static,
    F: Fn(&L, &R) -> U + Send + Sync + 'static,
{
    type Out = U;

    fn pair(&self, left: &L, right: &R) -> U {
        (self.0)(left, right)
    }
}

impl<L, R> Finding<L, R> for Inner
where
    L: Send + 'static,
    R: Clone + Send + 'static,
{
    type Out = (L, R);

    fn find(&self, left: L, right: Option<&R>) -> Option<(L, R)> {
        right.map(|right| (left, right.clone()))
    }
}

impl<L, R> Finding<L, R> for Left
where
    L: Send + 'static,
    R: Clone + Send + 'static,
{
    type Out = (L, Option<R>);

    fn find(&self, left: L, right: Option<&R>) -> Option<Self::Out> {
        Some((left, right.cloned()))
    }
}

impl<L, R, U, F> Finding<L, R> for With<F>
where
    U: Send + 'static,
    F: Fn(L, &R) -> U + Send + Sync + 'static,
{
    type Out = U;

    fn find(&self, left: L, right: Option<&R>) -> Option<U> {
        right.map(|right| (self.0)(left, right))
    }
}
