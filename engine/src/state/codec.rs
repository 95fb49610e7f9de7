//! How a named state is written down.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a state could not be saved or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The state has no name, so it lives in memory only.
    #[error("the state has no name: give it one with `.named(..)`")]
    Unnamed,
    /// A value could not be written, or the bytes are not what was written.
    #[error("state {name:?} cannot be {action}: {source}")]
    Codec {
        /// The state's name.
        name: Arc<str>,
        /// "saved" or "restored".
        action: &'static str,
        /// What the encoding says.
        source: postcard::Error,
    },
    /// A saved state has no operator to go to, or an operator found no saved state.
    #[error("what was saved does not belong to these operators: {0}")]
    Mismatch(String),
}

/// A state's name and how to write it down (postcard). Only here are serde's traits asked for.
pub struct Codec<S> {
    name: Arc<str>,
    save: fn(&S) -> postcard::Result<Vec<u8>>,
    load: fn(&[u8]) -> postcard::Result<S>,
    json: fn(&S) -> serde_json::Result<String>,
}

impl<S> Codec<S> {
    /// A codec for states called `name`.
    pub fn new(name: impl Into<Arc<str>>) -> Self
    where
        S: Serialize + DeserializeOwned,
    {
        Self {
            name: name.into(),
            save: |state| postcard::to_stdvec(state),
            load: |bytes| postcard::from_bytes(bytes),
            json: |state| serde_json::to_string(state),
        }
    }

    /// The state's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Appends the encoded `state` to `out`.
    pub fn save(&self, state: &S, out: &mut Vec<u8>) -> Result<(), StateError> {
        let bytes = (self.save)(state).map_err(|source| self.error("saved", source))?;
        out.extend_from_slice(&bytes);
        Ok(())
    }

    /// The state that `bytes` hold.
    pub fn load(&self, bytes: &[u8]) -> Result<S, StateError> {
        (self.load)(bytes).map_err(|source| self.error("restored", source))
    }

    /// `state` as JSON, for people to read; `None` if it cannot be written so.
    pub fn json(&self, state: &S) -> Option<String> {
        (self.json)(state).ok()
    }

    fn error(&self, action: &'static str, source: postcard::Error) -> StateError {
        StateError::Codec { name: self.name.clone(), action, source }
    }
}

impl<S> Clone for Codec<S> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), save: self.save, load: self.load, json: self.json }
    }
}
