//! Plans that queries share: those described by the same lines of code are planned once.

use std::sync::{Arc, Weak};

use hashbrown::HashTable;

use crate::plan::{Plan, Spec};
use crate::state::hash;
use crate::sync::Mutex;

/// So many plans are not worth a look at whether their queries are over.
const FEW: usize = 64;

/// The plans of queries that are not over, by what was planned.
#[derive(Default)]
pub(super) struct Plans(Mutex<Known>);

#[derive(Default)]
struct Known {
    plans: HashTable<(u64, Weak<Plan>)>,
    /// With how many plans those of queries that are gone are looked for.
    sweep_at: usize,
}

impl Plans {
    /// The plan of `spec` for `workers` workers, which are always as many.
    pub(super) fn plan(&self, spec: Spec, workers: usize) -> Arc<Plan> {
        let hashed = hash(&spec);
        if let Some(known) = self.find(hashed, &spec) {
            return known;
        }
        let plan = Arc::new(Plan::new(spec, workers));
        let mut known = self.0.lock();
        if known.plans.len() >= known.sweep_at {
            known.plans.retain(|(_, plan)| plan.strong_count() > 0);
            known.sweep_at = FEW.max(2 * known.plans.len());
            known.plans.shrink_to(0, |(hashed, _)| *hashed);
        }
        known.plans.insert_unique(hashed, (hashed, Arc::downgrade(&plan)), |(hashed, _)| *hashed);
        plan
    }

    fn find(&self, hashed: u64, spec: &Spec) -> Option<Arc<Plan>> {
        let known = self.0.lock();
        let candidates = known.plans.iter_hash(hashed).filter_map(|(_, plan)| plan.upgrade());
        candidates.into_iter().find(|plan| plan.spec() == spec)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn equal_descriptions_share_a_plan_as_long_as_somebody_has_it() {
        let plans = Plans::default();
        let spec = Spec::default();
        let plan = plans.plan(spec.clone(), 1);
        assert!(Arc::ptr_eq(&plan, &plans.plan(spec, 1)));
        let watch = Arc::downgrade(&plan);
        drop(plan);
        assert_eq!(watch.strong_count(), 0);
    }
}
