//! A port's packets: from other chains, or from producers outside the engine.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Intake, Progress, Pulled};
use crate::event::{Batch, Event};
use crate::operator::Flow;
use crate::runtime::port::{Packet, Port};
use crate::runtime::query::QueryCore;
use crate::time::{Inputs, Merge, Status, Timestamp, is_late};

/// A port's packets; with a merge, in the deterministic order of a union.
pub struct InboxIntake<T> {
    port: Arc<Port<T>>,
    packets: VecDeque<Packet<T>>,
    inputs: Fanin<T>,
    /// Inputs that were told to stop: they promise nothing any more, so they hold the rest.
    halted: usize,
    /// Whether its packets come from producers outside the engine, whose events nobody has judged.
    from_outside: bool,
    cap: usize,
}

enum Fanin<T> {
    /// In arrival order.
    Arrival(Inputs),
    /// By time, then input as written, then arrival.
    Merged(Merge<T>),
}

impl<T> Fanin<T> {
    fn inputs(&self) -> &Inputs {
        match self {
            Fanin::Arrival(inputs) => inputs,
            Fanin::Merged(merge) => merge.inputs(),
        }
    }

    fn inputs_mut(&mut self) -> &mut Inputs {
        match self {
            Fanin::Arrival(inputs) => inputs,
            Fanin::Merged(merge) => merge.inputs_mut(),
        }
    }

    /// Takes a packet's events to `out`, or into the merge.
    fn accept(&mut self, input: usize, batch: Batch<T>, out: &mut Batch<T>, pulled: &mut Pulled) {
        pulled.taken += batch.len() as u64;
        pulled.late += batch.late_count() as u64;
        // Only the return of an idle input can be behind what was promised.
        let mut stale = 0;
        match self {
            Fanin::Arrival(inputs) => {
                let (from, promised) = (out.len(), inputs.watermark());
                out.append(batch);
                if inputs.len() > 1 {
                    stale = out.mark_late(from, |time| is_late(time, promised));
                }
            }
            Fanin::Merged(merge) => {
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
}

impl<T: Send + 'static> InboxIntake<T> {
    /// An intake from `port`. With `merge` its inputs, each in order, are merged by time; a merge
    /// that would have to hold more than `cap` events fails the query.
    pub fn new(port: Arc<Port<T>>, merge: bool, cap: usize) -> Self {
        let inputs = usize::from(port.inputs());
        let inputs = if merge {
            Fanin::Merged(Merge::new(inputs))
        } else {
            Fanin::Arrival(Inputs::new(inputs))
        };
        Self { port, packets: VecDeque::new(), inputs, halted: 0, from_outside: false, cap }
    }

    /// Takes in what has arrived: into `out` what needs no merge.
    fn receive(&mut self, budget: usize, out: &mut Batch<T>) -> Pulled {
        // What was left behind comes first. Whether the port has more is not known then.
        let more = !self.packets.is_empty() || self.port.take(budget, &mut self.packets);
        let mut pulled = Pulled { more, ..Pulled::default() };
        while let Some(packet) = self.packets.pop_front() {
            if pulled.born == 0 {
                pulled.born = packet.born;
            }
            let (is_notes, input) = (packet.is_notes(), usize::from(packet.input));
            let promises = self.from_outside && packet.watermark > Timestamp::MIN;
            if !is_notes {
                self.inputs.accept(input, packet.batch, out, &mut pulled);
                self.after_packet(input, packet.watermark, packet.flow);
            }
            let notes = !packet.notes.is_empty();
            pulled.notes = packet.notes;
            if promises || notes {
                // What comes behind a note waits until it has been heeded, and what a producer pushes
                // behind a promise until that is known to those who judge lateness.
                pulled.more |= !self.packets.is_empty();
                break;
            }
        }
        pulled
    }

    /// A merge that has to hold too much cannot go on.
    fn check(&self, pulled: &mut Pulled) {
        if let Fanin::Merged(merge) = &self.inputs
            && merge.pending() > self.cap
        {
            pulled.failure = Some(format!(
                "a union holds {} events while it waits for input {}: more than the cap of {}",
                merge.pending(),
                merge.inputs().holding().map_or_else(|| "none".to_owned(), |i| i.to_string()),
                self.cap
            ));
        }
    }

    /// What a packet says after its events.
    fn after_packet(&mut self, input: usize, watermark: Timestamp, flow: Flow) {
        let inputs = self.inputs.inputs_mut();
        if flow == Flow::Active {
            inputs.active(input);
        }
        inputs.advance(input, watermark);
        match flow {
            Flow::Active => {}
            Flow::Idle => inputs.idle(input),
            Flow::Ended => inputs.finish(input),
            Flow::Halted => self.halted += 1,
        }
    }
}

impl<T: Send + 'static> Intake for InboxIntake<T> {
    type Item = T;

    fn take(&mut self, budget: usize, out: &mut Batch<T>) -> Pulled {
        let mut pulled = self.receive(budget, out);
        if let Fanin::Merged(merge) = &mut self.inputs {
            merge.release(out.on_time_end());
        }
        self.check(&mut pulled);
        pulled
    }

    #[inline]
    fn pull(
        &mut self,
        budget: usize,
        batch: &mut Batch<T>,
        run: &mut impl FnMut(Event<T>, bool),
    ) -> Pulled {
        let mut pulled = self.receive(budget, batch);
        if let Fanin::Merged(merge) = &mut self.inputs {
            // Late events go first, so all go by the batch where there are some.
            if !(batch.is_empty() && merge.release_pair(&mut |event| run(event, false))) {
                merge.release(batch.on_time_end());
            }
        }
        self.check(&mut pulled);
        pulled
    }

    fn progress(&self) -> Progress {
        let inputs = self.inputs.inputs();
        let all_over = self.halted + inputs.ended() == inputs.len();
        let flow = match inputs.status() {
            _ if self.halted > 0 && all_over => Flow::Halted,
            Status::Active => Flow::Active,
            Status::Idle => Flow::Idle,
            Status::Ended => Flow::Ended,
        };
        // The end promises everything; what had been promised before it is passed on first, the same
        // whichever input ended last.
        let watermark = if flow == Flow::Ended { inputs.newest() } else { inputs.watermark() };
        Progress { watermark, flow }
    }

    fn held(&self) -> usize {
        match &self.inputs {
            Fanin::Arrival(_) => 0,
            Fanin::Merged(merge) => merge.pending(),
        }
    }

    fn holding(&self) -> Option<usize> {
        self.inputs.inputs().holding()
    }

    fn close(&mut self) {
        self.port.close();
        self.packets.clear();
    }
}

/// What producers outside the engine pushed.
pub struct PushIntake<T> {
    inbox: InboxIntake<T>,
    query: Arc<QueryCore>,
    ending: Option<Flow>,
    drained: bool,
}

impl<T: Send + 'static> PushIntake<T> {
    /// An intake from a port that producers push to, until they are gone or the query is drained
    /// or stopped.
    pub fn new(port: Arc<Port<T>>, query: Arc<QueryCore>) -> Self {
        let inbox = InboxIntake::new(port, false, usize::MAX);
        let inbox = InboxIntake { from_outside: true, ..inbox };
        Self { inbox, query, ending: None, drained: false }
    }
}

impl<T: Send + 'static> Intake for PushIntake<T> {
    type Item = T;

    fn take(&mut self, budget: usize, batch: &mut Batch<T>) -> Pulled {
        if self.ending.is_none() {
            self.ending = self.query.control.ending();
            if self.ending.is_some() {
                // From here on pushes are refused, so what is found now is the rest.
                self.inbox.port.seal();
            }
        }
        let pulled = self.inbox.take(budget, batch);
        self.drained = self.ending.is_some() && !pulled.more;
        pulled
    }

    fn progress(&self) -> Progress {
        let progress = self.inbox.progress();
        let flow = self
            .ending
            .filter(|_| self.drained && !progress.flow.is_over())
            .unwrap_or(progress.flow);
        Progress { flow, ..progress }
    }

    fn close(&mut self) {
        self.inbox.close();
    }
}
