//! Several intakes as one: the inputs of one source.

use std::time::Duration;

use super::fanin::Fanin;
use super::{Intake, Progress, Pulled};
use crate::event::Batch;
use crate::source::number;

/// While one of them is quiet, the others are read until so many batches wait for it.
const BATCHES_AHEAD: usize = 16;

/// Several intakes as one, each with a watermark of its own.
///
/// The one that holds the watermark back is read first, so they move on side by side and little has to
/// be held. Of a quiet one the others get ahead by a few batches, and wait then.
pub(crate) struct Several<I: Intake> {
    parts: Vec<Part<I>>,
    fanin: Fanin<I::Item>,
}

struct Part<I> {
    intake: I,
    over: bool,
    /// Whether it had nothing more in this look.
    quiet: bool,
}

impl<I: Intake> Several<I> {
    /// All of `intakes`; with `merge` in order of time, for which each must be in order. A merge that
    /// would have to hold more than `cap` events fails the query.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn new(intakes: Vec<I>, merge: bool, cap: usize) -> Self {
        let fanin = Fanin::new(intakes.len(), merge, cap);
        let part = |intake| Part { intake, over: false, quiet: false };
        Self { parts: intakes.into_iter().map(part).collect(), fanin }
    }

    /// The one to be read next: that has promised least of those that may have something; none but the
    /// one that is waited for, if `many` events wait for it.
    fn next(&self, many: usize) -> Option<usize> {
        let inputs = self.fanin.inputs();
        let readable = |&i: &usize| !(self.parts[i].over || self.parts[i].quiet);
        if self.fanin.held() >= many {
            return inputs.holding().filter(readable);
        }
        (0..self.parts.len()).filter(readable).min_by_key(|&i| inputs.watermark_of(i))
    }

    /// Reads one of them. Whether it had anything.
    fn read(
        &mut self,
        input: usize,
        budget: usize,
        out: &mut Batch<I::Item>,
        to: &mut Pulled,
    ) -> bool {
        let (part, mut batch) = (&mut self.parts[input], Batch::default());
        let mut pulled = part.intake.take(budget, &mut batch);
        let progress = part.intake.progress();
        part.over = progress.flow.is_over();
        part.quiet = !pulled.more;
        let anything = pulled.more || pulled.taken > 0 || !pulled.rejects.is_empty();
        number(&mut pulled.rejects, 0, input);
        to.rejects.append(&mut pulled.rejects);
        to.refused += pulled.refused;
        to.born = if to.born == 0 { pulled.born } else { to.born };
        to.failure = to.failure.take().or(pulled.failure);
        // What a reorder stage holds counts when it is taken in, not when it is let go of.
        let taken = to.taken + pulled.taken;
        self.fanin.accept(input, batch, out, to);
        to.taken = taken;
        self.fanin.promise(input, progress.watermark, progress.flow);
        anything
    }
}

impl<I: Intake> Intake for Several<I> {
    type Item = I::Item;

    fn take(&mut self, budget: usize, out: &mut Batch<I::Item>) -> Pulled {
        let (mut pulled, many) = (Pulled::default(), BATCHES_AHEAD * budget);
        // Which of them has called for this look is not known: each is asked again.
        self.parts.iter_mut().for_each(|part| part.quiet = false);
        while let Some(input) = self.next(many) {
            if self.read(input, budget, out, &mut pulled) {
                break;
            }
        }
        self.fanin.release(out);
        if pulled.failure.is_none() {
            self.fanin.check(&mut pulled);
        }
        pulled.more = self.next(many).is_some();
        pulled
    }

    fn progress(&self) -> Progress {
        self.fanin.progress()
    }

    fn deadline(&self) -> Option<Duration> {
        let waiting = self.parts.iter().filter(|part| !part.over);
        waiting.filter_map(|part| part.intake.deadline()).min()
    }

    fn held(&self) -> usize {
        self.fanin.held() + self.parts.iter().map(|part| part.intake.held()).sum::<usize>()
    }

    fn holding(&self) -> Option<usize> {
        self.fanin.inputs().holding()
    }

    fn close(&mut self) {
        self.parts.iter_mut().for_each(|part| part.intake.close());
    }
}
