//! Sources that are made from a shared one by steps that queries have in common.

use std::any::{Any, TypeId};
use std::panic::Location;
use std::sync::{Arc, Weak};

use crate::runtime::engine::QueryHandle;
use crate::runtime::query::QueryCore;
use crate::sync::Mutex;

/// Held by all who use a derived source. With the last of them its query is abandoned.
pub struct Lease(Weak<QueryCore>);

impl Lease {
    /// A lease of `query`.
    pub fn of(query: &QueryHandle) -> Arc<Self> {
        Arc::new(Self(Arc::downgrade(&query.core)))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(query) = self.0.upgrade() {
            query.cancel();
        }
    }
}

/// What steps are known by.
pub struct Declared<'a, P> {
    /// Their name.
    pub name: &'a str,
    /// What they depend on.
    pub parameters: &'a P,
    /// The type of the function that describes them, which has captured nothing.
    pub steps: TypeId,
    /// The source line that declares them.
    pub location: &'static Location<'static>,
}

struct Entry {
    name: String,
    steps: TypeId,
    location: &'static Location<'static>,
    parameters: Box<dyn Any + Send>,
    lease: Weak<Lease>,
    source: Box<dyn Any + Send>,
}

/// The sources derived from one.
#[derive(Default)]
pub struct Derived(Mutex<Vec<Entry>>);

/// A derived source, and what keeps it running.
pub type Found<S> = Option<(S, Arc<Lease>)>;

impl Derived {
    /// The source with these steps, if it is in use.
    ///
    /// # Errors
    /// Other steps have that name: where they are declared.
    pub fn find<S, P>(
        &self,
        declared: &Declared<'_, P>,
    ) -> Result<Found<S>, &'static Location<'static>>
    where
        S: Clone + 'static,
        P: PartialEq + 'static,
    {
        find(&mut self.0.lock(), declared)
    }

    /// Adds `source`, which runs for as long as somebody holds `lease`. If another was faster, that one.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn add<S, P>(
        &self,
        declared: &Declared<'_, P>,
        source: S,
        lease: Arc<Lease>,
    ) -> Result<(S, Arc<Lease>), &'static Location<'static>>
    where
        S: Clone + Send + 'static,
        P: Clone + PartialEq + Send + 'static,
    {
        let mut entries = self.0.lock();
        if let Some(found) = find(&mut entries, declared)? {
            return Ok(found);
        }
        let &Declared { name, parameters, steps, location } = declared;
        entries.push(Entry {
            name: name.to_owned(),
            steps,
            location,
            parameters: Box::new(parameters.clone()),
            lease: Arc::downgrade(&lease),
            source: Box::new(source.clone()),
        });
        Ok((source, lease))
    }
}

fn find<S, P>(
    entries: &mut Vec<Entry>,
    declared: &Declared<'_, P>,
) -> Result<Found<S>, &'static Location<'static>>
where
    S: Clone + 'static,
    P: PartialEq + 'static,
{
    entries.retain(|entry| entry.lease.strong_count() > 0);
    for entry in entries.iter().filter(|entry| entry.name == declared.name) {
        if entry.steps != declared.steps {
            return Err(entry.location);
        }
        let equal = entry.parameters.downcast_ref::<P>() == Some(declared.parameters);
        if let (true, Some(lease)) = (equal, entry.lease.upgrade()) {
            let source = entry.source.downcast_ref::<S>().expect("its steps give its type");
            return Ok(Some((source.clone(), lease)));
        }
    }
    Ok(None)
}
