use proptest::prelude::*;

use super::*;

/// The result over all values, added half by half and merged.
fn halves<T, A: Aggregate<T>>(aggregate: &A, values: &[T]) -> Result<A::Out, Overflow> {
    let mut accs = [aggregate.create(), aggregate.create()];
    for (position, value) in values.iter().enumerate() {
        aggregate.add(&mut accs[2 * position / values.len()], value);
    }
    let [mut first, second] = accs;
    aggregate.merge(&mut first, &second);
    aggregate.finish(&first)
}

#[test]
fn integer_sums_are_kept_wide_and_must_fit_at_the_end() {
    let total = sum(|v: &i64| *v);
    assert_eq!(halves(&total, &[i64::MAX, i64::MAX, -1, i64::MIN]), Ok(i64::MAX - 2));
    assert_eq!(halves(&total, &[i64::MAX, 1]), Err(Overflow));
    assert_eq!(halves(&sum(|v: &u64| *v), &[u64::MAX, 1]), Err(Overflow));
    assert_eq!(halves(&sum(|v: &i8| *v), &[-100, -28]), Ok(-128));
    let both = (count(), sum(|v: &i8| *v));
    assert_eq!(halves(&both, &[100, 28]), Err(Overflow));
}

#[test]
fn nan_propagates_through_sum_and_mean_and_is_ignored_by_min_and_max() {
    let values = [f64::NAN, 2.0, 1.0, f64::NAN];
    let all = (sum(|v: &f64| *v), mean(|v: &f64| *v), min(|v: &f64| *v), max(|v: &f64| *v));
    let (sum, mean, min, max) = halves(&all, &values).unwrap();
    assert!(sum.is_nan() && mean.is_nan());
    assert_eq!((min, max), (Some(1.0), Some(2.0)));
    assert_eq!(halves(&super::min(|v: &f64| *v), &[f64::NAN; 3]), Ok(None));
}

#[test]
fn the_mean_of_huge_integers_does_not_overflow() {
    assert_eq!(halves(&mean(|v: &u64| *v), &[1 << 63, 1 << 63, 1 << 63]), Ok(2_f64.powi(63)));
    assert_eq!(halves(&mean(|v: &i32| *v), &[-1, 2]), Ok(0.5));
}

#[test]
fn of_equal_extremes_the_first_is_kept() {
    #[derive(Clone, Debug)]
    struct Tagged(u8, char);
    impl PartialEq for Tagged {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl PartialOrd for Tagged {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            self.0.partial_cmp(&other.0)
        }
    }
    let values = [Tagged(1, 'a'), Tagged(1, 'b'), Tagged(1, 'c'), Tagged(1, 'd')];
    let least = halves(&min(|v: &Tagged| v.clone()), &values).unwrap().unwrap();
    let most = halves(&max(|v: &Tagged| v.clone()), &values).unwrap().unwrap();
    assert_eq!((least.1, most.1), ('a', 'a'));
}

#[test]
fn ag_03_no_variance_is_negative_or_nan() {
    let noise = [7.0, 123_456.789, 7.0, -98_765.432];
    let equal = [3.2e-5; 1_000];
    let both = (population_variance(|v: &f64| *v), sample_variance(|v: &f64| *v));
    assert_eq!(halves(&both, &equal), Ok((Some(0.0), Some(0.0))));
    assert_eq!(halves(&both, &[7.0, 7.0]), Ok((Some(0.0), Some(0.0))));
    let (population, sample) = halves(&both, &noise).unwrap();
    assert!(population > Some(0.0) && sample > population);
    assert_eq!(halves(&both, &[5.0]), Ok((Some(0.0), None)));
    let (population, _) = halves(&both, &[1.0, f64::INFINITY, 2.0]).unwrap();
    assert!(population.unwrap().is_nan());
}

#[test]
fn ag_04_the_variance_keeps_its_digits_on_large_offsets() {
    let values = [4.0, 7.0, 13.0, 16.0].map(|value| 1e9 + value);
    let both = (population_variance(|v: &f64| *v), sample_variance(|v: &f64| *v));
    assert_eq!(halves(&both, &values), Ok((Some(22.5), Some(30.0))));
}

#[test]
fn the_first_and_the_last_survive_a_merge() {
    let ends = (first(|v: &u8| *v), last(|v: &u8| *v));
    assert_eq!(halves(&ends, &[3, 1, 2]), Ok((Some(3), Some(2))));
    let (mut empty, mut some) = (ends.create(), ends.create());
    ends.add(&mut some, &9);
    ends.merge(&mut empty, &some);
    assert_eq!(ends.finish(&empty), Ok((Some(9), Some(9))));
    ends.merge(&mut empty, &ends.create());
    assert_eq!(ends.finish(&empty), Ok((Some(9), Some(9))));
}

#[test]
fn of_equal_scores_the_first_is_among_the_best() {
    let best = top(2, |v: &(f64, char)| v.0);
    let values = [(1.0, 'a'), (f64::NAN, 'b'), (2.0, 'c'), (2.0, 'd'), (2.0, 'e'), (3.0, 'f')];
    let letters = |values| -> String {
        halves(&best, values).unwrap().into_iter().map(|(_, letter)| letter).collect()
    };
    assert_eq!(letters(&values), "fc");
    assert_eq!(letters(&values[..5]), "cd");
    assert_eq!(letters(&values[..2]), "a");
}

#[test]
fn what_cannot_be_is_refused_wherever_it_stands() {
    assert_eq!(top(0, |v: &u8| *v).check(), Err(InvalidAggregate::TopOfNone));
    let beyond = quantiles([0.5, 1.5], |v: &f64| *v);
    assert_eq!((count(), beyond).check(), Err(InvalidAggregate::Quantile(1.5)));
    let nan = approx_quantiles([f64::NAN], |v: &f64| *v);
    assert!(matches!(nan.check(), Err(InvalidAggregate::Quantile(_))));
    let vague = approx_quantiles([0.5], |v: &f64| *v).accuracy(1.0);
    assert_eq!(Aggregate::<f64>::check(&vague), Err(InvalidAggregate::Accuracy(1.0)));
    assert_eq!(Aggregate::<f64>::check(&quantiles([0.0, 1.0], |v: &f64| *v)), Ok(()));
}

#[test]
fn quantiles_bear_infinities_and_ignore_nan() {
    let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
    let parts = [0.0, 0.25, 0.5, 0.75, 1.0];
    let both = (quantiles(parts, |v: &f64| *v), approx_quantiles(parts, |v: &f64| *v));
    let values = [high, 0.0, f64::NAN, low, low, high];
    let seen = halves(&both, &values).unwrap();
    assert_eq!(seen, (Some([low, low, 0.0, high, high]), Some([low, low, 0.0, high, high])));
    assert_eq!(halves(&both, &[f64::NAN]), Ok((None, None)));
    assert_eq!(halves(&both, &[high]).unwrap().1, Some([high; 5]));
}

/// Through bytes and back.
fn restored<S: serde::Serialize + serde::de::DeserializeOwned>(state: &S) -> S {
    postcard::from_bytes(&postcard::to_stdvec(state).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn sketches_do_not_care_how_values_are_divided(
        values in prop::collection::vec(-1_000_000_i64..1_000_000, 1..400),
        parts in prop::collection::vec(0_usize..4, 400),
    ) {
        let all = (approx_quantiles([0.1, 0.5, 0.99], |v: &i64| *v), approx_distinct_count(|v: &i64| *v));
        let mut whole = all.create();
        let mut divided = [all.create(), all.create(), all.create(), all.create()];
        for (value, &part) in values.iter().zip(&parts) {
            all.add(&mut whole, value);
            all.add(&mut divided[part], value);
        }
        let mut merged = all.create();
        divided.iter().for_each(|part| all.merge(&mut merged, &restored(part)));
        prop_assert_eq!(all.finish(&merged), all.finish(&whole));

        let (approximate, different) = all.finish(&whole).unwrap();
        let mut sorted = values.clone();
        sorted.sort_unstable();
        for (quantile, part) in approximate.unwrap().into_iter().zip([0.1, 0.5, 0.99]) {
            let at = part * (values.len() - 1) as f64;
            let near = [at.floor(), at.ceil()].map(|at| sorted[at as usize] as f64);
            let right = near.iter().any(|value| (quantile - value).abs() <= 0.010_1 * value.abs());
            prop_assert!(right, "{quantile} is none of {near:?}");
        }
        sorted.dedup();
        let n = sorted.len() as u64;
        prop_assert!(different.abs_diff(n) <= n / 10, "{different} of {n}");
        if n <= 32 {
            prop_assert_eq!(different, n);
        }
    }

    #[test]
    fn all_that_keep_much_agree_with_plain_lists(
        values in prop::collection::vec(0_i32..30, 1..60),
        n in 1_usize..8,
    ) {
        let all = (
            to_vec(i32::clone),
            distinct_count(|v: &i32| *v),
            top(n, |v: &i32| *v),
            quantiles([0.0, 0.5, 1.0], |v: &i32| *v),
            population_variance(|v: &i32| *v),
        );
        let (list, different, best, quantiles, variance) = halves(&all, &values).unwrap();
        prop_assert_eq!(&list, &values);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        let (count, middle) = (sorted.len(), (sorted.len() - 1) / 2);
        let median = f64::from(sorted[middle] + sorted[count / 2]) / 2.0;
        let ends = [sorted[0], sorted[count - 1]].map(f64::from);
        prop_assert_eq!(quantiles, Some([ends[0], median, ends[1]]));
        let highest: Vec<_> = sorted.iter().rev().take(n).copied().collect();
        prop_assert_eq!(best, highest);
        let mean = sorted.iter().map(|&v| f64::from(v)).sum::<f64>() / count as f64;
        let plain = sorted.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / count as f64;
        prop_assert!((variance.unwrap() - plain).abs() <= 1e-9 * plain.max(1.0));
        sorted.dedup();
        prop_assert_eq!(different, sorted.len() as u64);
    }
}

proptest! {
    #[test]
    fn agrees_with_a_plain_computation(values in prop::collection::vec(any::<i64>(), 1..50)) {
        let wide: i128 = values.iter().map(|&v| i128::from(v)).sum();
        let expected = i64::try_from(wide).map_err(|_| Overflow);
        prop_assert_eq!(halves(&sum(|v: &i64| *v), &values), expected);
        let rest = (count(), mean(|v: &i64| *v), min(|v: &i64| *v), max(|v: &i64| *v));
        let n = values.len() as u64;
        let mean = wide as f64 / n as f64;
        let (least, most) = (values.iter().min().copied(), values.iter().max().copied());
        prop_assert_eq!(halves(&rest, &values), Ok((n, mean, least, most)));
    }
}
