//! State that can be looked at, saved and restored.
//!
//! The contract: an operator's state is a plain value. Every operator shows it to a [`Visit`] in a
//! fixed order. A state that was given a name (`.named("average")`) carries a [`Codec`] and can be
//! saved and restored; one without a name lives in memory only, and a visitor that wants to save it
//! gets [`StateError::Unnamed`].

mod codec;
mod keyed;
mod slots;

pub use codec::{Codec, StateError};
pub use keyed::{Change, FloatKey, Keyed, hash};
pub(crate) use keyed::{empty, read_pairs, shrink};
pub(crate) use slots::Slots;

use crate::operator::OpId;

/// Something that looks at every piece of state of a chain: to save it, restore it or measure it.
pub trait Visit {
    /// Meets the state of operator `op`.
    fn state(&mut self, op: OpId, cell: &mut dyn Cell) -> Result<(), StateError>;
}

/// One operator's state, its type hidden.
pub trait Cell {
    /// The name it was given, if it was.
    fn name(&self) -> Option<&str>;

    /// The state as JSON, if it has a name and can be written so.
    fn json(&self) -> Option<String>;

    /// Appends the encoded state to `out`.
    fn save(&self, out: &mut Vec<u8>) -> Result<(), StateError>;

    /// Replaces the state by the encoded one.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), StateError>;
}

/// Shows `state` to `visit`: what an operator's [`visit`](crate::operator::Consumer::visit) calls.
pub(crate) fn show<S>(
    visit: &mut dyn Visit,
    op: OpId,
    codec: Option<&Codec<S>>,
    state: &mut S,
) -> Result<(), StateError> {
    visit.state(op, &mut Shown { codec, state })
}

struct Shown<'a, S> {
    codec: Option<&'a Codec<S>>,
    state: &'a mut S,
}

impl<S> Cell for Shown<'_, S> {
    fn name(&self) -> Option<&str> {
        self.codec.map(Codec::name)
    }

    fn json(&self) -> Option<String> {
        self.codec?.json(self.state)
    }

    fn save(&self, out: &mut Vec<u8>) -> Result<(), StateError> {
        self.codec.ok_or(StateError::Unnamed)?.save(self.state, out)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        *self.state = self.codec.ok_or(StateError::Unnamed)?.load(bytes)?;
        Ok(())
    }
}
