//! Which members an event is for.

use std::hash::Hash;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::hits::Hits;
use super::intervals::{Intervals, Span};
use super::members::{LaneState, Members};
use super::pages::{BUCKETS, NOWHERE, Places};
use super::tags::Tags;
use crate::event::{Batch, Event};
use crate::operator::{Consumer, Cx};
use crate::state::{Keyed, hash};
use crate::time::Timestamp;

/// How events find the members that they are for.
pub trait Select: Sized + Send + Sync + 'static {
    /// What comes into a lane.
    type In: Send + 'static;
    /// What members get: what comes in, or what is made of it for several of them.
    type Event: Clone + Send + 'static;
    /// What a member says that it wants.
    type On: Clone + Send + 'static;
    /// What finds the members of a lane.
    type Index: Default + Send + 'static;

    /// The bucket of a member that selects `on`, in the lane that events for it are routed to. `None`:
    /// any; then every lane must see every event.
    fn bucket(on: &Self::On) -> Option<u32>;

    /// Refuses what could never select anything, and says why.
    ///
    /// # Errors
    /// The reason.
    fn check(_on: &Self::On) -> Result<(), String> {
        Ok(())
    }

    /// Adds the member at `seat`.
    fn insert(index: &mut Self::Index, seat: u32, places: &mut impl Places<Self::On>);

    /// Takes the member at `seat` out.
    fn remove(index: &mut Self::Index, seat: u32, places: &mut impl Places<Self::On>);

    /// Tells `hits` which members each of `events` is for: those on a key in the order of their
    /// addition, those on intervals in no particular order. It may leave off early, but not before the
    /// first; should the user's functions panic, then at the first that `hits` was not told of.
    fn look_up(
        &self,
        index: &mut Self::Index,
        events: &[Event<Self::Event>],
        places: &impl Places<Self::On>,
        hits: &mut Hits,
    );

    /// Has the members of a lane get what they are to get of what has come in, and leaves that empty.
    fn take<P, C>(
        members: &Members<Self, P, C>,
        lane: &mut LaneState<Self, P, C::State>,
        cx: &mut Cx,
        batch: &mut Batch<Self::In>,
    ) where
        P: Clone + Send + Sync + 'static,
        C: Consumer<(P, Self::Event)>;

    /// Has them get what is due at `clock`, before timers of their own fire.
    #[inline(always)]
    fn advance<P, C>(
        _members: &Members<Self, P, C>,
        _lane: &mut LaneState<Self, P, C::State>,
        _cx: &mut Cx,
        _clock: Timestamp,
    ) where
        P: Clone + Send + Sync + 'static,
        C: Consumer<(P, Self::Event)>,
    {
    }

    /// When the next such thing is due.
    fn next_due(_index: &Self::Index) -> Option<Timestamp> {
        None
    }
}

/// What is the same wherever members get what comes in as it is.
macro_rules! as_it_comes {
    ($event:ty) => {
        type In = $event;
        type Event = $event;

        #[inline(always)]
        fn take<P, C>(
            members: &Members<Self, P, C>,
            lane: &mut LaneState<Self, P, C::State>,
            cx: &mut Cx,
            batch: &mut Batch<$event>,
        ) where
            P: Clone + Send + Sync + 'static,
            C: Consumer<(P, $event)>,
        {
            lane.counts.unmatched += members.hand_all(lane, cx, batch);
        }
    };
}

/// The bucket of a hash: the same bits in the same way as a router picks a shard, so that the lane of
/// a bucket is the lane of its events.
pub(super) fn bucket_of(hash: u64) -> u32 {
    ((u64::from((hash >> 24) as u32) * u64::from(BUCKETS)) >> 32) as u32
}

/// Members on a key: an event is for those of its own key.
pub struct ByKey<T, K, F> {
    key: F,
    types: PhantomData<fn(T) -> K>,
}

impl<T, K, F: Fn(&T) -> K> ByKey<T, K, F> {
    /// By the key that `key` finds in an event.
    pub fn new(key: F) -> Self {
        Self { key, types: PhantomData }
    }
}

impl<T, K, F> Select for ByKey<T, K, F>
where
    T: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    as_it_comes!(T);

    type On = K;
    type Index = KeyIndex<K>;

    fn bucket(on: &K) -> Option<u32> {
        Some(bucket_of(hash(on)))
    }

    fn insert(index: &mut KeyIndex<K>, seat: u32, places: &mut impl Places<K>) {
        let on = places.on(seat);
        let tag = tag_of(on);
        match index.tags.find(tag, |tail| places.on(tail) == on) {
            NOWHERE => index.tags.insert(tag, seat),
            tail => {
                index.tags.replace(tag, tail, seat);
                places.link(seat, tail);
            }
        }
    }

    fn remove(index: &mut KeyIndex<K>, seat: u32, places: &mut impl Places<K>) {
        let tag = tag_of(places.on(seat));
        match places.unlink(seat) {
            Some(before) => index.tags.replace(tag, seat, before),
            None => index.tags.remove(tag, seat),
        }
    }

    /// In three short loops, each of which waits for one line of cache per event: so short that the
    /// waits for many events overlap.
    #[inline]
    fn look_up(
        &self,
        KeyIndex { tags, keys, found }: &mut KeyIndex<K>,
        events: &[Event<T>],
        places: &impl Places<K>,
        hits: &mut Hits,
    ) {
        keys.clear();
        found.clear();
        let keyed = catch_unwind(AssertUnwindSafe(|| {
            for event in events {
                let key = (self.key)(&event.value);
                found.push((tag_of(&key), NOWHERE));
                keys.push(key);
            }
        }));
        if let Err(panic) = keyed
            && keys.is_empty()
        {
            resume_unwind(panic);
        }
        for (tag, tail) in &mut *found {
            *tail = tags.find(*tag, |_| true);
        }
        for (key, &(tag, tail)) in keys.iter().zip(&*found) {
            let tail = if tail == NOWHERE || places.on(tail) == key {
                tail
            } else {
                tags.find(tag, |tail| places.on(tail) == key)
            };
            if tail == NOWHERE {
                hits.none();
            } else if places.behind(tail) == tail {
                hits.one(tail);
            } else {
                hits.all(|hit| places.ring(tail).for_each(hit));
            }
        }
        keys.clear();
    }
}

/// Finds the members on a key.
pub struct KeyIndex<K> {
    /// Of each key the member added last: the ring's tail.
    tags: Tags,
    /// The keys that are being looked up, and their tags and tails. Kept for their room.
    keys: Vec<K>,
    found: Vec<(u32, u32)>,
}

impl<K> Default for KeyIndex<K> {
    fn default() -> Self {
        Self { tags: Tags::default(), keys: Vec::new(), found: Vec::new() }
    }
}

/// What routes keys to lanes looks at other bits of their hashes.
#[inline(always)]
fn tag_of<K: Hash>(key: &K) -> u32 {
    Tags::tag(hash(key))
}

/// Members on intervals: an event is for those whose interval its value lies in.
pub struct ByRange<T, V, F> {
    value: F,
    types: PhantomData<fn(T) -> V>,
}

impl<T, V, F: Fn(&T) -> V> ByRange<T, V, F> {
    /// By the value that `value` finds in an event.
    pub fn new(value: F) -> Self {
        Self { value, types: PhantomData }
    }
}

/// Refuses an interval that no value lies in.
fn check_span<V: PartialOrd>(span: &Span<V>) -> Result<(), String> {
    span.fault().map_or(Ok(()), |fault| Err(fault.to_owned()))
}

impl<T, V, F> Select for ByRange<T, V, F>
where
    T: Clone + Send + 'static,
    V: PartialOrd + Clone + Send + 'static,
    F: Fn(&T) -> V + Send + Sync + 'static,
{
    as_it_comes!(T);

    type On = Span<V>;
    type Index = Intervals<V>;

    fn bucket(_: &Span<V>) -> Option<u32> {
        None
    }

    fn check(on: &Span<V>) -> Result<(), String> {
        check_span(on)
    }

    fn insert(index: &mut Intervals<V>, seat: u32, places: &mut impl Places<Span<V>>) {
        index.insert(places.on(seat).clone(), seat);
    }

    fn remove(index: &mut Intervals<V>, seat: u32, places: &mut impl Places<Span<V>>) {
        index.remove(places.on(seat), seat);
    }

    fn look_up(
        &self,
        index: &mut Self::Index,
        events: &[Event<T>],
        _: &impl Places<Self::On>,
        hits: &mut Hits,
    ) {
        for event in events {
            let value = (self.value)(&event.value);
            hits.all(|hit| index.find(&value, hit));
        }
    }
}

/// Members on a key and an interval: an event is for those of its own key whose interval its value
/// lies in.
pub struct ByKeyAndRange<T, K, V, F, G> {
    key: F,
    value: G,
    types: PhantomData<fn(T) -> (K, V)>,
}

impl<T, K, V, F: Fn(&T) -> K, G: Fn(&T) -> V> ByKeyAndRange<T, K, V, F, G> {
    /// By the key and the value that `key` and `value` find in an event.
    pub fn new(key: F, value: G) -> Self {
        Self { key, value, types: PhantomData }
    }
}

impl<T, K, V, F, G> Select for ByKeyAndRange<T, K, V, F, G>
where
    T: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    V: PartialOrd + Clone + Send + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
    G: Fn(&T) -> V + Send + Sync + 'static,
{
    as_it_comes!(T);

    type On = (K, Span<V>);
    type Index = Keyed<K, Intervals<V>>;

    fn bucket((key, _): &Self::On) -> Option<u32> {
        Some(bucket_of(hash(key)))
    }

    fn check((_, span): &Self::On) -> Result<(), String> {
        check_span(span)
    }

    fn insert(index: &mut Self::Index, seat: u32, places: &mut impl Places<Self::On>) {
        let (key, span) = places.on(seat).clone();
        index.entry(key, Intervals::default).insert(span, seat);
    }

    fn remove(index: &mut Self::Index, seat: u32, places: &mut impl Places<Self::On>) {
        let (key, span) = places.on(seat);
        let Some(intervals) = index.get_mut(key) else { return };
        intervals.remove(span, seat);
        if intervals.is_empty() {
            index.remove(key);
        }
    }

    fn look_up(
        &self,
        index: &mut Self::Index,
        events: &[Event<T>],
        _: &impl Places<Self::On>,
        hits: &mut Hits,
    ) {
        for event in events {
            let key = (self.key)(&event.value);
            let intervals = index.get(&key).map(|found| (found, (self.value)(&event.value)));
            hits.all(|hit| {
                if let Some((intervals, value)) = intervals {
                    intervals.find(&value, hit);
                }
            });
        }
    }
}

/// Members on sets of keys: an event is for those whose set its key is in.
pub struct BySet<T, K, F> {
    key: F,
    types: PhantomData<fn(T) -> K>,
}

impl<T, K, F: Fn(&T) -> K> BySet<T, K, F> {
    /// By the key that `key` finds in an event.
    pub fn new(key: F) -> Self {
        Self { key, types: PhantomData }
    }
}

impl<T, K, F> Select for BySet<T, K, F>
where
    T: Clone + Send + 'static,
    K: Hash + Eq + Clone + Send + 'static,
    F: Fn(&T) -> K + Send + Sync + 'static,
{
    as_it_comes!(T);

    /// A key that comes twice counts once.
    type On = Vec<K>;
    type Index = Keyed<K, Vec<u32>>;

    fn bucket(_: &Vec<K>) -> Option<u32> {
        None
    }

    fn check(on: &Vec<K>) -> Result<(), String> {
        if on.is_empty() { Err("the set is empty".to_owned()) } else { Ok(()) }
    }

    fn insert(index: &mut Self::Index, seat: u32, places: &mut impl Places<Vec<K>>) {
        for key in places.on(seat) {
            let seats = index.entry(key.clone(), Vec::new);
            // A member is added as a whole, so a key that came before has it at the end.
            if seats.last() != Some(&seat) {
                seats.push(seat);
            }
        }
    }

    fn remove(index: &mut Self::Index, seat: u32, places: &mut impl Places<Vec<K>>) {
        for key in places.on(seat) {
            if let Some(seats) = index.get_mut(key) {
                seats.retain(|&other| other != seat);
                if seats.is_empty() {
                    index.remove(key);
                }
            }
        }
    }

    fn look_up(
        &self,
        index: &mut Self::Index,
        events: &[Event<T>],
        _: &impl Places<Self::On>,
        hits: &mut Hits,
    ) {
        for event in events {
            let key = (self.key)(&event.value);
            let seats = index.get(&key).map_or(&[][..], Vec::as_slice);
            hits.all(|hit| seats.iter().copied().for_each(hit));
        }
    }
}
