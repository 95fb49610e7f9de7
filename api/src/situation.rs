//! Situations: what is looked for among the events within a lifespan, and is then an event itself.
//!
//! A [`Situations`] is a set of rules over the events of one type `E`, mostly an enum: [`Lifespan`]s, the
//! [`Situation`]s that are looked for in them, and [`StatelessRule`]s. A stream looks for them with
//! [`situations`](crate::Stream::situations).
//!
//! Functions that are given to a rule can be [called](Situation::called) something, and what they
//! [cost](Situation::cost) be declared: of the function that was given last.

mod lifespan;
mod operand;
mod rules;
mod stateless;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use mizzle_engine::situation::TypeId;
use mizzle_engine::situation::rule::Named;

pub use lifespan::Lifespan;
pub use mizzle_engine::operator::Closure;
pub use mizzle_engine::situation::rule::{AtCap, Which};
pub use mizzle_engine::situation::{Detection, InvalidRule, Open};
pub use operand::{Operand, operand};
pub use rules::{Rules, Situation, Situations};
pub use stateless::StatelessRule;

/// A type of events: mostly an enum of the user's with a name for each.
///
/// ```
/// use mizzle::situation::EventType;
/// #[derive(Clone, Copy, Debug)]
/// enum Kind { Trigger, Track, Alert }
/// impl EventType for Kind {
///     fn number(self) -> u16 {
///         self as u16
///     }
/// }
/// # assert_eq!(Kind::Alert.number(), Kind::Trigger.number() + Kind::Track.number() + 1);
/// ```
pub trait EventType: Copy + Debug + Send + Sync + 'static {
    /// Its number. There is a table up to the greatest, so they should be small.
    fn number(self) -> TypeId;
}

impl EventType for u16 {
    fn number(self) -> TypeId {
        self
    }
}

impl EventType for u8 {
    fn number(self) -> TypeId {
        self.into()
    }
}

/// An aggregate of a value found in each operand.
pub struct Aggregate<E>(pub(crate) mizzle_engine::situation::rule::Aggregate<E>);

/// Makes the aggregate of a value.
macro_rules! aggregates {
    ($($(#[$about:meta])* $name:ident $how:ident;)*) => {$(
        $(#[$about])*
        pub fn $name<E>(value: impl Fn(&E) -> f64 + Send + Sync + 'static) -> Aggregate<E> {
            aggregate(mizzle_engine::situation::rule::How::$how, value)
        }
    )*};
}

aggregates! {
    /// The least value; NaN is ignored.
    min Min;
    /// The greatest value; NaN is ignored.
    max Max;
    /// All values together.
    sum Sum;
    /// The mean of all values.
    average Average;
    /// The value of the latest operand.
    latest Latest;
}

/// How many operands there have been.
pub fn count<E>() -> Aggregate<E> {
    aggregate(mizzle_engine::situation::rule::How::Count, |_| 1.0)
}

fn aggregate<E>(
    how: mizzle_engine::situation::rule::How,
    value: impl Fn(&E) -> f64 + Send + Sync + 'static,
) -> Aggregate<E> {
    let value = Named::new("value", Arc::new(value) as _);
    Aggregate(mizzle_engine::situation::rule::Aggregate { how, value })
}

impl<E> Aggregate<E> {
    /// Calls its function `name`.
    pub fn called(mut self, name: &str) -> Self {
        self.0.value.name = name.into();
        self
    }

    /// Declares what a call of its function costs at most.
    pub fn cost(mut self, most: Duration) -> Self {
        self.0.value.cost = Some(most);
        self
    }
}

/// What is known of a function besides what it does.
enum Known<'a> {
    Name(&'a str),
    Cost(Duration),
}

impl Known<'_> {
    /// Notes it of a function, if there is one. Whether there is.
    fn note<F: ?Sized>(&self, of: Option<&mut Named<F>>) -> bool {
        let Some(of) = of else { return false };
        match self {
            Known::Name(name) => of.name = (*name).into(),
            Known::Cost(most) => of.cost = Some(*most),
        }
        true
    }
}

/// Why something is said of a function where none was given.
fn no_function(rule: &str) -> InvalidRule {
    mistake(rule, "called and cost", "say them right after the function that they are about")
}

fn mistake(rule: &str, field: &str, reason: &str) -> InvalidRule {
    InvalidRule { rule: rule.to_owned(), field: field.to_owned(), reason: reason.to_owned() }
}
