//! Several inputs as one: as they come, or merged by time.

use super::{Progress, Pulled};
use crate::event::{Batch, Event};
use crate::operator::Flow;
use crate::time::{Inputs, Merge, Status, Timestamp, is_late};

/// Several inputs as one.
pub(super) struct Fanin<T> {
    by: By<T>,
    /// Inputs that were told to stop: they promise nothing any more, so they hold the rest.
    halted: usize,
    cap: usize,
}

enum By<T> {
    /// In arrival order.
    Arrival(Inputs),
    /// By time, then input as written, then arrival.
    Time(Merge<T>),
}

impl<T> Fanin<T> {
    /// Of `n` inputs. With `merge` they, each in order, are merged by time; a merge that would have to
    /// hold more than `cap` events fails the query.
    pub(super) fn new(n: usize, merge: bool, cap: usize) -> Self {
        let by = if merge { By::Time(Merge::new(n)) } else { By::Arrival(Inputs::new(n)) };
        Self { by, halted: 0, cap }
    }

    pub(super) fn inputs(&self) -> &Inputs {
        match &self.by {
            By::Arrival(inputs) => inputs,
            By::Time(merge) => merge.inputs(),
        }
    }

    fn inputs_mut(&mut self) -> &mut Inputs {
        match &mut self.by {
            By::Arrival(inputs) => inputs,
            By::Time(merge) => merge.inputs_mut(),
        }
    }

    /// Takes an input's events to `out`, or into the merge.
    pub(super) fn accept(
        &mut self,
        input: usize,
        batch: Batch<T>,
        out: &mut Batch<T>,
        pulled: &mut Pulled,
    ) {
        pulled.taken += batch.len() as u64;
        pulled.late += batch.late_count() as u64;
        // Only the return of an idle input can be behind what was promised.
        let mut stale = 0;
        match &mut self.by {
            By::Arrival(inputs) => {
                let (from, promised) = (out.len(), inputs.watermark());
                out.append(batch);
                if inputs.len() > 1 {
                    stale = out.mark_late(from, |time| is_late(time, promised));
                }
            }
            By::Time(merge) => {
                if !batch.is_empty() {
                    merge.inputs_mut().active(input);
                }
                match batch.on_time() {
                    Ok(events) => merge.push_batch(input, events, |event| {
                        stale += 1;
                        out.push(event, true);
                    }),
                    Err(batch) => batch.consume(|event, late| {
                        let event = if late { Err(event) } else { merge.push(input, event) };
                        if let Err(event) = event {
                            stale += u64::from(!late);
                            out.push(event, true);
                        }
                    }),
                }
            }
        }
        pulled.late += stale;
        pulled.late_by_idle += stale;
    }

    /// What an input says after its events.
    pub(super) fn promise(&mut self, input: usize, watermark: Timestamp, flow: Flow) {
        self.halted += usize::from(flow == Flow::Halted);
        promise(self.inputs_mut(), input, watermark, flow);
    }

    /// Lets go of what nothing can come before any more.
    pub(super) fn release(&mut self, out: &mut Batch<T>) {
        if let By::Time(merge) = &mut self.by {
            merge.release(out.on_time_end());
        }
    }

    /// As `release`; where that saves putting them into `out`, which holds what comes before them,
    /// events go to `run`.
    #[inline]
    pub(super) fn release_to(&mut self, out: &mut Batch<T>, run: &mut impl FnMut(Event<T>, bool)) {
        if let By::Time(merge) = &mut self.by {
            // Late events go first, so all go by the batch where there are some.
            if !(out.is_empty() && merge.release_pair(&mut |event| run(event, false))) {
                merge.release(out.on_time_end());
            }
        }
    }

    /// A merge that has to hold too much cannot go on.
    pub(super) fn check(&self, pulled: &mut Pulled) {
        if self.held() > self.cap {
            too_much(pulled, self.held(), self.cap, self.inputs());
        }
    }

    /// Events that wait for others.
    pub(super) fn held(&self) -> usize {
        match &self.by {
            By::Arrival(_) => 0,
            By::Time(merge) => merge.pending(),
        }
    }

    /// The promise of all together.
    pub(super) fn progress(&self) -> Progress {
        progress(self.inputs(), self.halted)
    }
}

// What follows does not depend on the payload: it is compiled once.

fn too_much(pulled: &mut Pulled, held: usize, cap: usize, inputs: &Inputs) {
    let holding = inputs.holding().map_or_else(|| "none".to_owned(), |i| i.to_string());
    pulled.failure = Some(format!(
        "a union holds {held} events while it waits for input {holding}: more than the cap of {cap}"
    ));
}

fn promise(inputs: &mut Inputs, input: usize, watermark: Timestamp, flow: Flow) {
    if flow == Flow::Active {
        inputs.active(input);
    }
    inputs.advance(input, watermark);
    match flow {
        Flow::Active | Flow::Halted => {}
        Flow::Idle => inputs.idle(input),
        Flow::Ended => inputs.finish(input),
    }
}

fn progress(inputs: &Inputs, halted: usize) -> Progress {
    let all_over = halted + inputs.ended() == inputs.len();
    let flow = match inputs.status() {
        _ if halted > 0 && all_over => Flow::Halted,
        Status::Active => Flow::Active,
        Status::Idle => Flow::Idle,
        Status::Ended => Flow::Ended,
    };
    // The end promises everything; what had been promised before it is passed on first, the same
    // whichever input ended last.
    let watermark = if flow == Flow::Ended { inputs.newest() } else { inputs.watermark() };
    Progress { watermark, flow }
}
