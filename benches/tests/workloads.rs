//! The workloads, as they are measured.

use std::time::Duration;

use mizzle_benches::{KeyKind, Setting, Workload, measure};

fn setting(workers: usize) -> Setting {
    Setting {
        events: 20_000,
        keys: None,
        queries: 100,
        key: KeyKind::U64,
        workers,
        batch: 64,
        in_order: true,
        disorder: Duration::from_millis(2),
        occupancy: 100,
        rate: 200_000,
        seed: 7,
        repeat: 1,
        versus_baseline: true,
    }
}

fn workload(name: &str) -> &'static Workload {
    Workload::named(name).unwrap()
}

/// By hand, and with any number of workers.
#[test]
fn flagged_a_seed_gives_one_checksum() {
    for name in [
        "chain",
        "window",
        "window-disorder",
        "union",
        "diamond",
        "join",
        "pattern",
        "situations",
        "pushed",
        "heavy",
    ] {
        let checksums = [1, 2, 4].map(|workers| {
            let report = measure(workload(name), &setting(workers)).unwrap();
            assert!(report.ratio_cpu.is_some(), "{name} has been compared");
            report.checksum
        });
        assert!(checksums.iter().all(|checksum| *checksum == checksums[0]), "{name}");
        let other = Setting { seed: 8, ..setting(1) };
        assert_ne!(measure(workload(name), &other).unwrap().checksum, checksums[0], "{name}");
    }
}

#[test]
fn batches_disorder_and_keys_are_heeded() {
    let checksum = |name, change: fn(&mut Setting)| {
        let mut setting = setting(1);
        change(&mut setting);
        measure(workload(name), &setting).unwrap().checksum
    };
    let usual = checksum("window-disorder", |_| ());
    assert_eq!(checksum("window-disorder", |it| it.batch = 1_000), usual);
    assert_eq!(checksum("window-disorder", |it| it.in_order = false), usual);
    // The data is another, but for the results it only comes in another order.
    assert_eq!(checksum("window-disorder", |it| it.disorder = Duration::ZERO), usual);
    assert_ne!(checksum("window-disorder", |it| it.keys = Some(10)), usual);
}

#[test]
fn every_event_is_taken_by_some_worker() {
    let report = measure(workload("chain"), &setting(1)).unwrap();
    assert_eq!(report.events_per_worker, [20_000]);
    let unflagged = Setting { in_order: false, ..setting(3) };
    let report = measure(workload("heavy"), &unflagged).unwrap();
    assert_eq!(report.events_per_worker.len(), 3);
    // At the source, in a shard, and at the sink.
    let taken: u64 = report.events_per_worker.iter().sum();
    assert_eq!((taken, report.events), (3 * 2_000, 2_000));
}

#[test]
fn latency_has_percentiles_beside_a_bare_hand_off() {
    let report = measure(workload("latency"), &setting(1)).unwrap();
    let (ours, bare) = (report.latency_us.unwrap(), report.baseline_latency_us.unwrap());
    for us in [ours, bare] {
        assert!(0.0 < us.p50 && us.p50 <= us.p99 && us.p99 <= us.p999 && us.p999 <= us.max);
    }
}
