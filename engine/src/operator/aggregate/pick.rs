//! Aggregates that keep one value: the smallest, the largest, the first, the last.

use super::{Aggregate, Overflow};

/// The aggregate that keeps the one value that is `$before` all others.
macro_rules! extreme {
    ($name:ident, $function:ident, $before:tt, $what:literal) => {
        #[doc = concat!("See [`", stringify!($function), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<F>(F);

        #[doc = concat!("The ", $what, " of what `value` gives; of equal ones the first.")]
        ///
        /// A value that does not equal itself, as NaN does not, is ignored. A window has at least
        /// one event, so the result is `None` only if all its values were such.
        pub fn $function<T, V: PartialOrd + Clone, F: Fn(&T) -> V>(value: F) -> $name<F> {
            $name(value)
        }

        impl<T, V, F> Aggregate<T> for $name<F>
        where
            V: PartialOrd + Clone + Send + 'static,
            F: Fn(&T) -> V + Send + Sync + 'static,
        {
            type Acc = Option<V>;
            type Out = Option<V>;

            fn create(&self) -> Option<V> {
                None
            }

            #[inline(always)]
            fn add(&self, acc: &mut Option<V>, value: &T) {
                let value = (self.0)(value);
                let better = match acc {
                    Some(best) => value $before *best,
                    // Only NaN and its like are not equal to themselves.
                    #[allow(clippy::eq_op)]
                    None => value == value,
                };
                if better {
                    *acc = Some(value);
                }
            }

            fn merge(&self, acc: &mut Option<V>, other: &Option<V>) {
                if let Some(value) = other
                    && acc.as_ref().is_none_or(|best| value $before best)
                {
                    *acc = Some(value.clone());
                }
            }

            fn finish(&self, acc: &Option<V>) -> Result<Option<V>, Overflow> {
                Ok(acc.clone())
            }
        }
    };
}

extreme!(Min, min, <, "smallest");
extreme!(Max, max, >, "largest");

/// The aggregate that keeps the value that came at one end.
macro_rules! end {
    ($name:ident, $function:ident, $what:literal, $keeps_old:literal) => {
        #[doc = concat!("See [`", stringify!($function), "`].")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<F>(F);

        #[doc = concat!("What `value` gives of the ", $what, " event.")]
        ///
        /// By event time where the window is flagged in-order, else by arrival.
        ///
        /// ```
        #[doc = concat!(
            "use mizzle_engine::operator::aggregate::{Aggregate, ", stringify!($function), "};"
        )]
        #[doc = concat!("let end = ", stringify!($function), "(|v: &char| *v);")]
        /// let mut acc = end.create();
        /// "mizzle".chars().for_each(|letter| end.add(&mut acc, &letter));
        #[doc = concat!(
            "assert_eq!(end.finish(&acc), Ok(Some(if ", stringify!($keeps_old),
            " { 'm' } else { 'e' })));"
        )]
        /// ```
        pub fn $function<T, V: Clone, F: Fn(&T) -> V>(value: F) -> $name<F> {
            $name(value)
        }

        impl<T, V, F> Aggregate<T> for $name<F>
        where
            V: Clone + Send + 'static,
            F: Fn(&T) -> V + Send + Sync + 'static,
        {
            type Acc = Option<V>;
            type Out = Option<V>;

            fn create(&self) -> Option<V> {
                None
            }

            #[inline(always)]
            fn add(&self, acc: &mut Option<V>, value: &T) {
                if !($keeps_old && acc.is_some()) {
                    *acc = Some((self.0)(value));
                }
            }

            fn merge(&self, acc: &mut Option<V>, other: &Option<V>) {
                if other.is_some() && !($keeps_old && acc.is_some()) {
                    acc.clone_from(other);
                }
            }

            fn finish(&self, acc: &Option<V>) -> Result<Option<V>, Overflow> {
                Ok(acc.clone())
            }
        }
    };
}

end!(First, first, "first", true);
end!(Last, last, "last", false);
