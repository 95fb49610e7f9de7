//! The consumers at a chain's end that feed other chains: one, several, or one per shard.

use std::sync::Arc;

use crate::event::{Batch, Event};
use crate::operator::{Consumer, Cx, Flow, OpId, Parcel};
use crate::state::{StateError, Visit};
use crate::time::Timestamp;

use super::port::{Packet, Port};

/// One input of a port, as an outlet sends to it. The shards of a chain send as inputs of their own,
/// numbered from `input` for the first and from `more` for the others.
pub struct Target<T> {
    port: Arc<Port<T>>,
    input: u16,
    more: u16,
}

impl<T> Target<T> {
    /// Input `input` of `port`, for a chain that runs as `shards`.
    pub fn new(port: Arc<Port<T>>, input: u16, shards: u16) -> Self {
        let more = port.add_inputs(shards - 1);
        Self { port, input, more }
    }

    fn input(&self, shard: u16) -> u16 {
        if shard == 0 { self.input } else { self.more + shard - 1 }
    }
}

impl<T> Clone for Target<T> {
    fn clone(&self) -> Self {
        Self { port: self.port.clone(), input: self.input, more: self.more }
    }
}

/// What waits in an outlet for the end of the batch.
pub struct Outgoing<T> {
    batch: Batch<T>,
    watermark: Timestamp,
    sent: Timestamp,
    flow: Flow,
    sent_flow: Flow,
    /// How many events the last batch had: the next one will be like it.
    usual: usize,
    /// Whether this batch came whole: then the next will too, and needs no room here.
    whole: bool,
}

impl<T> Default for Outgoing<T> {
    fn default() -> Self {
        Self {
            batch: Batch::default(),
            watermark: Timestamp::MIN,
            sent: Timestamp::MIN,
            flow: Flow::Active,
            sent_flow: Flow::Active,
            usual: 0,
            whole: false,
        }
    }
}

impl<T> Outgoing<T> {
    #[inline(always)]
    fn push(&mut self, event: Event<T>, late: bool) {
        self.batch.push(event, late);
    }

    /// Adds a whole batch, without moving its events if they fill it well enough to travel in it.
    fn append(&mut self, batch: &mut Batch<T>) {
        if self.batch.is_empty() && batch.is_full_enough() {
            self.batch = std::mem::take(batch);
            self.whole = true;
        } else {
            batch.drain(|event, late| self.push(event, late));
        }
    }

    fn promise(&mut self, watermark: Timestamp) {
        self.watermark = self.watermark.max(watermark);
    }

    /// What to send now, if anything.
    fn take(&mut self, cx: &mut Cx) -> Option<(Batch<T>, Timestamp, Flow)> {
        if self.flow != Flow::Ended {
            self.flow = cx.flow;
        }
        let told = self.watermark == self.sent && self.flow == self.sent_flow;
        // The state of a ticket has sent nothing itself: that a stream is active again would not show.
        if self.batch.is_empty() && told && !cx.turned {
            return None;
        }
        cx.counters.out += self.batch.len() as u64;
        self.sent = self.watermark;
        self.sent_flow = self.flow;
        let whole = std::mem::take(&mut self.whole);
        let next = if whole || self.batch.is_empty() {
            Batch::default()
        } else {
            Batch::with_capacity(self.usual)
        };
        let batch = std::mem::replace(&mut self.batch, next);
        self.usual = self.usual.max(batch.len()).min(batch.len() * 2);
        Some((batch, self.watermark, self.flow))
    }
}

struct Sealed<T> {
    port: Arc<Port<T>>,
    packet: Packet<T>,
}

impl<T: Send + 'static> Parcel for Sealed<T> {
    fn deliver(self: Box<Self>) {
        self.port.hand_on(self.packet);
    }
}

fn seal<T: Send + 'static>(
    target: &Target<T>,
    cx: &mut Cx,
    batch: Batch<T>,
    watermark: Timestamp,
    flow: Flow,
) {
    let input = target.input(cx.shard);
    let packet = Packet { input, watermark, flow, ..Packet::of(batch, cx.born) };
    cx.outbox.push(Box::new(Sealed { port: target.port.clone(), packet }));
}

/// Feeds one chain, or several with clones of everything. Without a target (a stream that nobody uses)
/// events are counted as dropped.
pub struct Outlet<T> {
    targets: Vec<Target<T>>,
    /// How a batch is copied for all targets but the last, and which operator shares it so.
    copy: (OpId, fn(&Batch<T>) -> Batch<T>),
}

impl<T> Outlet<T> {
    /// An outlet to `target`.
    pub fn new(target: Option<Target<T>>) -> Self {
        let copy = |_: &Batch<T>| unreachable!("one target at most gets the batch itself");
        Self { targets: target.into_iter().collect(), copy: (OpId::default(), copy) }
    }

    /// An outlet to all of `targets`, for the operator `share`.
    pub fn to_all(share: OpId, targets: Vec<Target<T>>) -> Self
    where
        T: Clone,
    {
        Self { targets, copy: (share, Batch::clone) }
    }
}

impl<T: Send + 'static> Consumer<T> for Outlet<T> {
    type State = Outgoing<T>;

    fn state(&self) -> Outgoing<T> {
        Outgoing::default()
    }

    #[inline]
    fn event(&self, state: &mut Outgoing<T>, cx: &mut Cx, event: Event<T>) {
        if self.targets.is_empty() {
            cx.counters.dropped += 1;
        } else {
            state.push(event, cx.late);
        }
    }

    const WHOLE_BATCHES: bool = true;

    fn batch(&self, state: &mut Outgoing<T>, cx: &mut Cx, batch: &mut Batch<T>) {
        if self.targets.is_empty() {
            cx.counters.dropped += batch.len() as u64;
            batch.clear();
        } else {
            state.append(batch);
        }
    }

    fn watermark(&self, state: &mut Outgoing<T>, _: &mut Cx, watermark: Timestamp) {
        state.promise(watermark);
    }

    fn end(&self, state: &mut Outgoing<T>, _: &mut Cx) {
        state.flow = Flow::Ended;
    }

    fn flush(&self, state: &mut Outgoing<T>, cx: &mut Cx) {
        let Some((last, others)) = self.targets.split_last() else { return };
        if let Some((batch, watermark, flow)) = state.take(cx) {
            let (share, copy) = self.copy;
            for target in others {
                // Not at the time of one event: the batch is copied as a whole.
                let copied = cx.call(share, Timestamp::MIN, || copy(&batch));
                seal(target, cx, copied, watermark, flow);
            }
            seal(last, cx, batch, watermark, flow);
        }
    }

    fn next_timer(&self, _: &Outgoing<T>) -> Option<Timestamp> {
        None
    }

    fn visit(&self, _: &mut Outgoing<T>, _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}

/// Feeds the shards of a keyed chain: each event to the shard of its key, the rest to all.
pub struct Router<T, F> {
    op: OpId,
    hash: F,
    targets: Vec<Target<T>>,
}

impl<T, F> Router<T, F> {
    /// An outlet to the shard that `hash` of an event picks among `targets`. `op` is the keyed
    /// operator behind it, whose key function `hash` calls.
    pub fn new(op: OpId, hash: F, targets: Vec<Target<T>>) -> Self {
        Self { op, hash, targets }
    }
}

impl<T, F> Consumer<T> for Router<T, F>
where
    T: Send + 'static,
    F: Fn(&T) -> u64 + Send + Sync + 'static,
{
    type State = Vec<Outgoing<T>>;

    fn state(&self) -> Self::State {
        let mut shards = Vec::with_capacity(self.targets.len());
        for _ in &self.targets {
            shards.push(Outgoing::default());
        }
        shards
    }

    #[inline]
    fn event(&self, state: &mut Self::State, cx: &mut Cx, event: Event<T>) {
        if let [only] = &mut state[..] {
            return only.push(event, cx.late);
        }
        let hash = cx.call(self.op, event.time, || (self.hash)(&event.value));
        // Bits from the middle of the hash, scaled: those at both ends choose the place in the
        // shard's map.
        let shard = (u64::from((hash >> 24) as u32) * state.len() as u64) >> 32;
        state[shard as usize].push(event, cx.late);
    }

    fn watermark(&self, state: &mut Self::State, _: &mut Cx, watermark: Timestamp) {
        for shard in state {
            shard.promise(watermark);
        }
    }

    fn end(&self, state: &mut Self::State, _: &mut Cx) {
        for shard in state {
            shard.flow = Flow::Ended;
        }
    }

    fn flush(&self, state: &mut Self::State, cx: &mut Cx) {
        for (outgoing, target) in state.iter_mut().zip(&self.targets) {
            if let Some((batch, watermark, flow)) = outgoing.take(cx) {
                seal(target, cx, batch, watermark, flow);
            }
        }
    }

    fn next_timer(&self, _: &Self::State) -> Option<Timestamp> {
        None
    }

    fn visit(&self, _: &mut Self::State, _: &mut dyn Visit) -> Result<(), StateError> {
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::state::hash;

    /// Odd, so that the times of one key do not all go the same way modulo the number of shards.
    const KEYS: u32 = 101;

    /// What arrives at each of four ports of what `outlet` makes of them is fed.
    fn fed<C: Consumer<u32>>(
        outlet: impl FnOnce(Vec<Target<u32>>) -> C,
        events: &[Event<u32>],
    ) -> Vec<Vec<Event<u32>>> {
        let ports: Vec<_> = (0..4).map(|_| Port::new(1)).collect();
        let outlet = outlet(ports.iter().map(|port| Target::new(port.clone(), 0, 1)).collect());
        let (mut state, mut cx) = (outlet.state(), Cx::default());
        events.iter().for_each(|event| outlet.event(&mut state, &mut cx, *event));
        outlet.flush(&mut state, &mut cx);
        cx.outbox.drain(..).for_each(|parcel| parcel.deliver());
        let arrived = ports.iter().map(|port| {
            let mut packets = VecDeque::new();
            port.take(usize::MAX, &mut packets);
            packets
                .into_iter()
                .flat_map(|packet| packet.load.into_batch().on_time().unwrap())
                .collect()
        });
        arrived.collect()
    }

    fn events() -> Vec<Event<u32>> {
        let at = |micros: u32| Timestamp::from_micros(micros.into());
        (0..3 * KEYS).map(|n| Event::new(at(n), n % KEYS)).collect()
    }

    #[test]
    fn every_reader_of_a_fanout_gets_everything() {
        assert_eq!(fed(|targets| Outlet::to_all(OpId(0), targets), &events()), vec![events(); 4]);
    }

    #[test]
    fn a_router_keeps_a_key_in_one_shard_and_uses_them_all() {
        let shards = fed(|targets| Router::new(OpId(0), hash::<u32>, targets), &events());
        assert!(shards.iter().all(|shard| !shard.is_empty()));
        for key in 0..KEYS {
            let of_key = |shard: &Vec<Event<u32>>| shard.iter().filter(|e| e.value == key).count();
            let mut counts: Vec<_> = shards.iter().map(of_key).collect();
            counts.sort_unstable();
            assert_eq!(counts, [0, 0, 0, 3], "key {key}");
        }
    }
}
