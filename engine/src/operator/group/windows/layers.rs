//! What came into a slice, in layers: cut where members joined.

use smallvec::SmallVec;

use crate::operator::aggregate::{Aggregate, Overflow};

/// The accumulators of a slice, each of what came between two cuts.
pub(super) struct Layers<Acc> {
    /// Each with the cut that it came behind; in their order. Nearly always there is one.
    layers: SmallVec<[(u64, Acc); 1]>,
}

impl<Acc> Default for Layers<Acc> {
    fn default() -> Self {
        Self { layers: SmallVec::new() }
    }
}

impl<Acc> Layers<Acc> {
    /// The accumulator of what comes behind `cut`, the last one there was, if anything came yet.
    #[inline(always)]
    pub fn latest(&mut self, cut: u64) -> Option<&mut Acc> {
        let (own, acc) = self.layers.last_mut()?;
        (*own == cut).then_some(acc)
    }

    /// A new layer, of what comes behind `cut`.
    pub fn open(&mut self, cut: u64, acc: Acc) -> &mut Acc {
        self.layers.push((cut, acc));
        let last = self.layers.len() - 1;
        &mut self.layers[last].1
    }

    pub fn len(&self) -> usize {
        self.layers.len()
    }

    /// Those of a member that joined with `cut`.
    fn since(&self, cut: u64) -> &[(u64, Acc)] {
        &self.layers[self.layers.partition_point(|&(own, _)| own < cut)..]
    }

    /// The first of those.
    pub fn first_since(&self, cut: u64) -> Option<u64> {
        self.since(cut).first().map(|&(own, _)| own)
    }

    /// Nobody is there any more who joined before `cut`. What only those could see goes once it is half
    /// of what there is, so that many who leave one by one do not move the rest each time.
    pub fn forget_before(&mut self, cut: u64) {
        let gone = self.layers.len() - self.since(cut).len();
        if 2 * gone >= self.layers.len() {
            self.layers.drain(..gone);
        }
    }

    /// Puts layers together that nobody of those who `joined`, in their order, tells apart.
    pub fn thin<T, A: Aggregate<T, Acc = Acc>>(&mut self, aggregate: &A, joined: &[u64]) {
        let who_see = |cut: u64| joined.partition_point(|&joined| joined <= cut);
        let mut kept = SmallVec::<[(u64, Acc); 1]>::new();
        for (cut, acc) in self.layers.drain(..) {
            match kept.last_mut() {
                _ if who_see(cut) == 0 => {}
                Some((below, sum)) if who_see(*below) == who_see(cut) => {
                    aggregate.merge(sum, &acc);
                }
                _ => kept.push((cut, acc)),
            }
        }
        self.layers = kept;
    }
}

/// What a window gives whoever joined with `cut`: the layers of its slices since, one slice after the
/// other.
pub(super) fn total<'a, T, A: Aggregate<T>>(
    aggregate: &A,
    slices: impl Iterator<Item = &'a Layers<A::Acc>>,
    cut: u64,
) -> Result<A::Out, Overflow> {
    let mut layers = slices.flat_map(|slice| slice.since(cut)).map(|(_, acc)| acc);
    match (layers.next(), layers.next()) {
        (Some(only), None) => aggregate.finish(only),
        (first, second) => {
            let mut sum = aggregate.create();
            let all = first.into_iter().chain(second).chain(layers);
            all.for_each(|layer| aggregate.merge(&mut sum, layer));
            aggregate.finish(&sum)
        }
    }
}
