//! Operators that are rules: what becomes of an event, given what its key has seen, and when.

use std::hash::Hash;
use std::time::Duration;

use mizzle_engine::operator::aggregate::Aggregate;
use mizzle_engine::operator::rule::{
    AggregateWithin, Changes, CountEdges, CountReaches, CountWithin, Counter, Debounce, Edge,
    Expiring, First, Fold, Increases, InvalidRule, Latest, Pairwise, Rule, Ruled, RuledState,
    RunsOf, Sample, Sort,
};
use mizzle_engine::operator::{Consumer, OpId};
use mizzle_engine::plan::Shape;
use mizzle_engine::state::Codec;

use super::{KeyedApply, KeyedStream, Stateful, Stream};
use crate::build::{Build, Closing, Joint, by_hash};

/// A stream behind an operator that is a rule.
pub struct ByRule<B: Build, K, KF, R: Rule<B::Out>> {
    upstream: B,
    op: OpId,
    key: KF,
    rule: R,
    codec: Option<Codec<RuledState<K, R::State>>>,
    reset_on_panic: bool,
}

/// The methods of plain and keyed streams alike: one text for both.
macro_rules! rules {
    ($key:ty, $key_of:ty) => {
        /// At most one event in any `period`: one passes, and none then for as long. What passes is not
        /// delayed; what is suppressed does not count. `[throttle_latest]` keeps the newest instead.
        #[track_caller]
        pub fn throttle_first(self, period: Duration) -> Stream<ByRule<B, $key, $key_of, First>> {
            let valid = InvalidRule::check("period", period);
            self.by_rule("throttle_first", valid, First::new(period))
        }

        /// At most one event in any `period`: the first passes at once and begins a period; the latest of
        /// a period comes out at its end, at that time, and begins the next.
        #[track_caller]
        pub fn throttle_latest(self, period: Duration) -> Stream<ByRule<B, $key, $key_of, Latest>> {
            let valid = InvalidRule::check("period", period);
            self.by_rule("throttle_latest", valid, Latest::new(period))
        }

        /// The latest event of each `period` in which there is one. Periods are aligned to zero, as windows
        /// are; what comes out happens one microsecond before the end of its period.
        #[track_caller]
        pub fn sample(self, period: Duration) -> Stream<ByRule<B, $key, $key_of, Sample>> {
            let valid = InvalidRule::check("period", period);
            self.by_rule("sample", valid, Sample::new(period))
        }

        /// The last event of each burst, once nothing has come for `quiet`: it happens then. An event
        /// exactly then begins the next burst.
        #[track_caller]
        pub fn debounce(self, quiet: Duration) -> Stream<ByRule<B, $key, $key_of, Debounce>> {
            let valid = InvalidRule::check("quiet time", quiet);
            self.by_rule("debounce", valid, Debounce::new(quiet))
        }

        /// Each event with the number of events in the last `window`, itself included: those in
        /// `(time - window, time]`, and of those at its own time the ones that came before it.
        #[track_caller]
        pub fn count_within(
            self,
            window: Duration,
        ) -> Stream<ByRule<B, $key, $key_of, CountWithin>> {
            let valid = InvalidRule::check("window", window);
            self.by_rule("count_within", valid, CountWithin::new(window))
        }

        /// Each event with what `aggregate` makes of the events in the last `window`, as
        /// [`count_within`](Self::count_within) counts them: an `OVER` aggregate, in the words of SQL.
        #[track_caller]
        pub fn aggregate_within<A>(
            self,
            window: Duration,
            aggregate: A,
        ) -> Stream<ByRule<B, $key, $key_of, AggregateWithin<A>>>
        where
            A: Aggregate<B::Out>,
        {
            let valid = InvalidRule::check("window", window);
            self.by_rule("aggregate_within", valid, AggregateWithin::new(window, aggregate))
        }

        /// The events at which the number of events in the last `window` (see
        /// [`count_within`](Self::count_within)) reaches `n`: it is `n`, and was less at the event before.
        /// Looks at counts at events only; [`count_edges`](Self::count_edges) looks all the time.
        #[track_caller]
        pub fn count_reaches(
            self,
            n: u64,
            window: Duration,
        ) -> Stream<ByRule<B, $key, $key_of, CountReaches>> {
            let valid = InvalidRule::check_count(n).and(InvalidRule::check("window", window));
            self.by_rule("count_reaches", valid, CountReaches::new(n, window))
        }

        /// Tells when the number of events in the last `window` rises to `n`, with the event, and when it
        /// falls below `n` again because one of them has left, with the newest event.
        #[track_caller]
        pub fn count_edges(
            self,
            n: u64,
            window: Duration,
        ) -> Stream<ByRule<B, $key, $key_of, CountEdges>>
        where
            B::Out: Clone,
        {
            let valid = InvalidRule::check_count(n).and(InvalidRule::check("window", window));
            self.by_rule("count_edges", valid, CountEdges::new(n, window))
        }

        /// By how much the counter that `counter` finds in an event has grown since the event before, and
        /// over which time: [`Increase::per_second`](crate::rule::Increase::per_second) is the rate. `kind`
        /// says what it means that a counter is lower than it was; an increase is never negative.
        ///
        /// Unflagged, an event that comes after a newer one of its key is counted as late.
        #[track_caller]
        pub fn increase<F>(
            self,
            kind: Counter,
            counter: F,
        ) -> Stream<ByRule<B, $key, $key_of, Increases<F>>>
        where
            F: Fn(&B::Out) -> u64 + Send + Sync + 'static,
        {
            self.by_rule("increase", kind.check(), Increases::new(counter, kind))
        }

        /// The `n`-th event of each unbroken run of events for which `holds` holds; once per run.
        #[track_caller]
        pub fn runs_of<F>(self, n: u64, holds: F) -> Stream<ByRule<B, $key, $key_of, RunsOf<F>>>
        where
            F: Fn(&B::Out) -> bool + Send + Sync + 'static,
        {
            self.by_rule("runs_of", InvalidRule::check_count(n), RunsOf::new(n, holds))
        }

        /// The events at which `holds` begins to hold: it did not for the event before, or there is none.
        #[track_caller]
        pub fn rising_edge<F>(self, holds: F) -> Stream<ByRule<B, $key, $key_of, Edge<F>>>
        where
            F: Fn(&B::Out) -> bool + Send + Sync + 'static,
        {
            self.by_rule("rising_edge", Ok(()), Edge::rising(holds))
        }

        /// The events at which `holds` no longer holds: it did for the event before.
        #[track_caller]
        pub fn falling_edge<F>(self, holds: F) -> Stream<ByRule<B, $key, $key_of, Edge<F>>>
        where
            F: Fn(&B::Out) -> bool + Send + Sync + 'static,
        {
            self.by_rule("falling_edge", Ok(()), Edge::falling(holds))
        }

        /// The events for which `of` gives something else than for the event before; the first one too.
        #[track_caller]
        pub fn distinct_until_changed<V, F>(
            self,
            of: F,
        ) -> Stream<ByRule<B, $key, $key_of, Changes<F, V>>>
        where
            V: PartialEq + Send + 'static,
            F: Fn(&B::Out) -> V + Send + Sync + 'static,
        {
            self.by_rule("distinct_until_changed", Ok(()), Changes::new(of))
        }

        /// Each event but the first with the one before it: `(before, now)`. Differences, gaps and the like
        /// are a `map` or `filter` behind it.
        #[track_caller]
        pub fn pairwise(self) -> Stream<ByRule<B, $key, $key_of, Pairwise>>
        where
            B::Out: Clone,
        {
            self.by_rule("pairwise", Ok(()), Pairwise)
        }

        /// The events in order of event time, those of one time in order of what `by` makes of them: each is
        /// held back until the watermark has passed it, or a later one has come by more than `bound`. What
        /// comes after a later one has gone on is handed on at once.
        ///
        /// In an ordered chain events come in order of time, and what this adds is the order of ties.
        #[track_caller]
        pub fn sort_within<O, F>(
            self,
            bound: Duration,
            by: F,
        ) -> Stream<ByRule<B, $key, $key_of, Sort<F, O>>>
        where
            O: Ord + Send + 'static,
            F: Fn(&B::Out) -> O + Send + Sync + 'static,
        {
            self.by_rule("sort_within", Ok(()), Sort::new(bound, by))
        }
    };
}

impl<B: Build> Stream<B> {
    rules!((), impl Fn(&B::Out) + Clone + Send + Sync + 'static);

    /// The events that are not equal to one that passed less than `lifetime` before: duplicates are
    /// removed, and what has passed is forgotten after `lifetime`. Keeps a copy of each event for as long;
    /// to tell duplicates by a part of an event, say `key_by(part).distinct_for(lifetime)`.
    #[track_caller]
    pub fn distinct_for(
        self,
        lifetime: Duration,
    ) -> Stream<ByRule<B, B::Out, impl Fn(&B::Out) -> B::Out + Clone + Send + Sync + 'static, First>>
    where
        B::Out: Hash + Eq + Clone,
    {
        self.key_by(B::Out::clone).distinct_for(lifetime)
    }

    #[track_caller]
    fn by_rule<R: Rule<B::Out>>(
        self,
        kind: &'static str,
        valid: Result<(), InvalidRule>,
        rule: R,
    ) -> Stream<ByRule<B, (), impl Fn(&B::Out) + Clone + Send + Sync + 'static, R>> {
        ruled(self, kind, |_: &B::Out| (), Shape::Single, valid, rule)
    }
}

impl<B, K, KF> KeyedStream<B, K, KF>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
{
    rules!(K, KF);

    /// One event per key and `lifetime`: it passes unless one of its key passed less than `lifetime` before;
    /// exactly that long after, it passes. What is suppressed does not make the lifetime longer. A key is
    /// forgotten after `lifetime`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mizzle::{Engine, Query, source};
    /// use mizzle::time::Timestamp;
    ///
    /// let messages = [(0, "a"), (5, "a"), (7, "b"), (20, "a")];
    /// let query = Query::new("once");
    /// let once = query
    ///     .source("messages", source::from_iter(messages, |m| Timestamp::from_secs(m.0)))
    ///     .key_by(|m| m.1)
    ///     .distinct_for(Duration::from_secs(10))
    ///     .in_order()
    ///     .collect();
    /// Engine::new()?.submit(query)?.wait();
    /// assert_eq!(once.values(), [(0, "a"), (7, "b"), (20, "a")]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn distinct_for(self, lifetime: Duration) -> Stream<ByRule<B, K, KF, First>> {
        let valid = InvalidRule::check("lifetime", lifetime);
        self.by_rule("distinct_for", valid, First::new(lifetime))
    }

    #[track_caller]
    fn by_rule<R: Rule<B::Out>>(
        self,
        kind: &'static str,
        valid: Result<(), InvalidRule>,
        rule: R,
    ) -> Stream<ByRule<B, K, KF, R>> {
        ruled(self.stream, kind, self.key, Shape::Keyed, valid, rule)
    }
}

/// Puts `rule` behind `stream`, or notes that there is no such rule.
#[track_caller]
fn ruled<B: Build, K, KF, R: Rule<B::Out>>(
    stream: Stream<B>,
    kind: &'static str,
    key: KF,
    shape: Shape,
    valid: Result<(), InvalidRule>,
    rule: R,
) -> Stream<ByRule<B, K, KF, R>> {
    let stream = stream.then(kind, shape, |upstream, op| ByRule {
        upstream,
        op,
        key,
        rule,
        codec: None,
        reset_on_panic: false,
    });
    if let Err(invalid) = valid {
        stream.refuse(invalid);
    }
    stream
}

impl<B: Build, K, KF, R: Rule<B::Out>> Stream<ByRule<B, K, KF, R>> {
    /// A panic of the operator's functions resets the state of the key they were called for and counts
    /// the event as failed, instead of failing the query.
    pub fn reset_key_on_panic(mut self) -> Self {
        self.build.reset_on_panic = true;
        self
    }

    /// The state of a key is forgotten when nothing of the key has come for `ttl`; exactly that long after
    /// the newest event it starts afresh. For operators that would remember every key for ever:
    /// `runs_of`, `pairwise`, `increase`, `rising_edge`, `falling_edge`, `distinct_until_changed`.
    ///
    /// Stands right behind the operator; its state is named behind this.
    pub fn expire_after(
        self,
        ttl: Duration,
    ) -> Stream<
        ByRule<B, K, KF, Expiring<R, impl Fn(R::State) -> Option<R::Out> + Send + Sync + 'static>>,
    > {
        self.check_expiry(ttl, self.build.codec.is_some());
        self.rebuild(|build| ByRule {
            upstream: build.upstream,
            op: build.op,
            key: build.key,
            rule: Expiring::new(build.rule, ttl, |_| None),
            codec: None,
            reset_on_panic: build.reset_on_panic,
        })
    }
}

impl<B, K, KF, S, F, U> Stream<KeyedApply<B, K, KF, S, F, U>>
where
    B: Build,
    S: Clone + Send + Sync + 'static,
    U: Send + 'static,
    F: Fn(&mut S, B::Out) -> Option<U> + Send + Sync + 'static,
{
    /// The state of a key is forgotten when nothing of the key has come for `ttl`; exactly that long after
    /// the newest event it starts afresh. Without this every key is remembered for ever.
    ///
    /// Stands right behind `apply_stateful`, `reduce` or `state_transition`; the state is named behind this.
    ///
    /// ```
    /// use std::time::Duration;
    /// use mizzle::{Engine, Query, source};
    /// use mizzle::time::Timestamp;
    ///
    /// let query = Query::new("visits");
    /// let visits = query
    ///     .source("hits", source::from_iter([0, 60, 300, 400], |&s| Timestamp::from_secs(s)))
    ///     .key_by(|_| "home page")
    ///     .apply_stateful(0, |hits, _| { *hits += 1; *hits })
    ///     .expire_after(Duration::from_secs(180))
    ///     .in_order()
    ///     .collect();
    /// Engine::new()?.submit(query)?.wait();
    /// assert_eq!(visits.values(), [1, 2, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expire_after(
        self,
        ttl: Duration,
    ) -> Stream<
        ByRule<B, K, KF, Expiring<Fold<S, F, U>, impl Fn(S) -> Option<U> + Send + Sync + 'static>>,
    > {
        self.expire_with(ttl, |_| None)
    }

    /// As [`expire_after`](Self::expire_after); what `last` makes of a state that is forgotten comes out,
    /// at that moment. At the end of the stream all states are.
    pub fn expire_with<L>(
        self,
        ttl: Duration,
        last: L,
    ) -> Stream<ByRule<B, K, KF, Expiring<Fold<S, F, U>, L>>>
    where
        L: Fn(S) -> Option<U> + Send + Sync + 'static,
    {
        let named = self.build.codec.is_some();
        self.check_expiry(ttl, named);
        self.rebuild(|build| ByRule {
            upstream: build.upstream,
            op: build.op,
            key: build.key,
            rule: Expiring::new(Fold::new(build.initial, build.f), ttl, last),
            codec: None,
            reset_on_panic: build.reset_on_panic,
        })
    }
}

impl<B> Stream<B> {
    fn check_expiry(&self, ttl: Duration, named: bool) {
        if named {
            self.refuse("a state that expires is named behind `expire_after`, not before");
        }
        if let Err(invalid) = InvalidRule::check("time to live", ttl) {
            self.refuse(invalid);
        }
    }
}

impl<B, K, KF, R> Build for ByRule<B, K, KF, R>
where
    B: Build,
    K: Hash + Eq + Clone + Send + 'static,
    KF: Fn(&B::Out) -> K + Clone + Send + Sync + 'static,
    R: Rule<B::Out>,
{
    type Out = R::Out;
    type Head = B::Head;

    const JOINT: Joint = B::JOINT.later();

    fn close<N: Consumer<R::Out>>(self, next: N, closing: &mut Closing<'_>) {
        let Self { upstream, op, key, rule, codec, reset_on_panic } = self;
        let route = key.clone();
        let consumer = Ruled::new(op, key, rule, codec, reset_on_panic, next);
        closing.keyed(upstream, op, consumer, by_hash(route));
    }
}

impl<B, K, KF, R> Stateful for ByRule<B, K, KF, R>
where
    B: Build,
    K: 'static,
    R: Rule<B::Out>,
    ByRule<B, K, KF, R>: Build,
{
    type State = RuledState<K, R::State>;

    fn codec(&mut self) -> &mut Option<Codec<Self::State>> {
        &mut self.codec
    }
}
