//! A batch in parts, by each of the strategies: what comes of it, and what becomes of ranks that fail.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::{
    collections::BTreeMap,
    fs, thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use common::ranks::*;
use schema::{
    Cell, OutcomeKind, Precision, Strategy,
    protocol::{Load, Measure, Quantity, Reply, Request},
};
use worker::{
    WorkerCommand,
    host::{Host, Interrupt, Limits},
};

/// Holds all that is told of one training against another's.
fn assert_same(
    own: &(BTreeMap<String, Vec<f64>>, Vec<f64>),
    right: &(BTreeMap<String, Vec<f64>>, Vec<f64>),
    bound: f64,
) {
    assert_eq!(
        own.0.keys().collect::<Vec<_>>(),
        right.0.keys().collect::<Vec<_>>()
    );
    for (name, right) in &right.0 {
        // Of a bias before batch norm or a softmax, say, whose gradient is nothing but rounding.
        if right.iter().all(|number| number.abs() < 1e-7) {
            continue;
        }
        let error = error(&own.0[name], right);
        assert!(error <= bound, "{name}: {error:e}");
    }
    let error = error(&own.1, &right.1);
    assert!(error <= bound, "losses: {error:e}");
}

#[test]
fn parts_train_as_the_whole_does() {
    // Without batch norm nothing tells parts from the whole.
    let whole = trained("bert_tiny", Precision::Fp64, Strategy::Single, 1, &[]);
    for strategy in [Strategy::Accumulated, Strategy::DataParallel, Strategy::Ddp] {
        for world_size in [1, 2, 4] {
            let parts = trained("bert_tiny", Precision::Fp64, strategy, world_size, &[]);
            assert_same(&parts, &whole, 1e-10);
        }
    }
}

#[test]
fn strategies_agree_where_batch_norm_sees_a_part() {
    let one_after_another = trained("resnet18", Precision::Fp64, Strategy::Accumulated, 2, &[]);
    for strategy in [Strategy::DataParallel, Strategy::Ddp] {
        let parallel = trained("resnet18", Precision::Fp64, strategy, 2, &[]);
        assert_same(&parallel, &one_after_another, 1e-8);
    }
    // And the parts are no whole: statistics are of two samples each.
    let whole = trained("resnet18", Precision::Fp64, Strategy::Single, 1, &[]);
    let name = Quantity::Movement.of("bn1.running_var");
    assert!(error(&one_after_another.0[&name], &whole.0[&name]) > 1e-3);
}

#[test]
fn passes_add_up_to_what_parts_do() {
    const TWICE: &[(&str, &str)] = &[("gradient_accumulation", "2")];
    let (single, accumulated, ddp) = (Strategy::Single, Strategy::Accumulated, Strategy::Ddp);
    let whole = trained("bert_tiny", Precision::Fp64, single, 1, &[]);
    for (strategy, world_size) in [(single, 1), (accumulated, 1), (ddp, 1), (ddp, 2)] {
        let parts = trained("bert_tiny", Precision::Fp64, strategy, world_size, TWICE);
        assert_same(&parts, &whole, 1e-10);
    }
    let views = [TWICE, &[("gradient_as_bucket_view", "on")]].concat();
    let parts = trained("bert_tiny", Precision::Fp64, ddp, 2, &views);
    assert_same(&parts, &whole, 1e-10);

    let resnet = |strategy, world_size, factors| {
        trained_on(
            8,
            "resnet18",
            Precision::Fp64,
            strategy,
            world_size,
            factors,
        )
    };
    let right = resnet(accumulated, 2, TWICE);
    assert_same(&resnet(ddp, 2, TWICE), &right, 1e-7);
    // The same four parts, of which the first moves running statistics, and there the first two do, one after
    // the other.
    let once = resnet(accumulated, 4, &[]);
    for (name, numbers) in &once.0 {
        let is_moved = name.starts_with("movement");
        let is_other = error(&right.0[name], numbers) > 1e-6;
        assert_eq!(is_other, is_moved, "{name}");
    }
}

#[test]
fn passes_that_cannot_be_are_refused() {
    let graph = network("bert_tiny", 1);
    for (strategy, world_size, factors, reason) in [
        (
            Strategy::DataParallel,
            2,
            &[("gradient_accumulation", "2")][..],
            "by `data_parallel`",
        ),
        (
            Strategy::Ddp,
            2,
            &[("gradient_accumulation", "0")],
            "into 0 equal parts",
        ),
        (
            Strategy::Single,
            1,
            &[("gradient_accumulation", "many")],
            "is `many`",
        ),
        (
            Strategy::Ddp,
            2,
            &[("gradient_accumulation", "3")],
            "into 6 equal parts",
        ),
        (
            Strategy::Ddp,
            2,
            &[("gradient_accumulation", "2"), ("static_graph", "on")],
            "`static_graph: on` is a promise",
        ),
    ] {
        let mut cell = cell(&graph, Precision::Fp64, strategy, world_size);
        let asked = factors.iter();
        cell.factors = asked
            .map(|(factor, value)| ((*factor).to_owned(), (*value).to_owned()))
            .collect();
        let outcome = start(&graph, &cell, &command()).err().unwrap();
        assert_eq!(outcome.kind, OutcomeKind::Unsupported, "{outcome:?}");
        assert!(outcome.reason.contains(reason), "{outcome:?}");
    }
}

#[test]
fn ranks_exchange_as_they_are_told_to() {
    let right = trained("bert_tiny", Precision::Fp32, Strategy::Accumulated, 2, &[]);
    for (factors, bound) in [
        (&[("bucket_mib", "1")][..], 1e-4),
        (&[("gradient_as_bucket_view", "on")], 1e-4),
        (&[("static_graph", "on")], 1e-4),
        (
            &[("gradient_as_bucket_view", "on"), ("static_graph", "on")],
            1e-4,
        ),
        (&[("gradient_compression", "fp16")], 2e-2),
        (&[("gradient_compression", "bf16")], 1e-1),
    ] {
        let own = trained("bert_tiny", Precision::Fp32, Strategy::Ddp, 2, factors);
        assert_same(&own, &right, bound);
        let compressed = factors
            .iter()
            .any(|(name, _)| *name == "gradient_compression");
        let name = right
            .0
            .keys()
            .find(|name| name.starts_with("gradient"))
            .unwrap();
        assert_eq!(
            error(&own.0[name], &right.0[name]) > 1e-5,
            compressed,
            "{factors:?}"
        );
    }
}

#[test]
fn ranks_search_for_the_size_of_a_bucket() {
    let (graph, right) = (
        network("bert_tiny", 2),
        trained("bert_tiny", Precision::Fp64, Strategy::Accumulated, 2, &[]),
    );
    let mut cell = cell(&graph, Precision::Fp64, Strategy::Ddp, 2);
    let searched = ("bucket_mib".to_owned(), "auto".to_owned());
    cell.factors.extend([searched]);
    let mut loaded = start(&graph, &cell, &command()).unwrap();
    let settings = &loaded.told.settings;
    assert!(settings["bucket sizes tried"].starts_with("1 MiB "));
    assert!(settings["bucket size"].ends_with("the fastest of those that were tried"));
    assert!(loaded.told.compile_ns > 0);
    // The search leaves nothing behind.
    assert_same(&loaded.outputs(), &right, 1e-9);
    loaded.end();
}

#[test]
fn a_step_of_ranks_is_timed_as_that_of_one_is() {
    let graph = network("bert_tiny", 2);
    let mut cell = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    // What dropout drops differs from rank to rank, and the weights stay the same.
    cell.threads = 1;
    let mut loaded = start(&graph, &cell, &command()).unwrap();
    let samples = loaded.measure(20).unwrap();
    assert_eq!(samples.len(), 20);
    assert!(samples.iter().all(|&sample_ns| sample_ns > 0));
    let Reply::Memory(memory) = loaded.call(&Request::Memory).unwrap() else {
        panic!("no memory");
    };
    assert_eq!(memory.other_ranks.len(), 1);
    assert!(memory.other_ranks[0].resident_bytes > 10 << 20);
    // After steps were timed outputs are those of the initial state, as ever.
    let (first, _) = loaded.outputs();
    let (second, _) = loaded.outputs();
    assert_eq!(first, second);
    loaded.end();
}

/// The processes of other ranks that a worker has started.
fn others(worker: u32) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(process) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after = stat.rsplit(") ").next().unwrap_or_default();
        let parent: Option<u32> = after.split(' ').nth(1).and_then(|field| field.parse().ok());
        if parent == Some(worker) {
            found.push(process);
        }
    }
    found
}

#[test]
fn a_rank_that_dies_is_named_and_nobody_stays() {
    let graph = network("resnet18", 2);
    let cell = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    let mut loaded = start(&graph, &cell, &command()).unwrap();
    let [other] = others(loaded.host.pid())[..] else {
        panic!("one other rank");
    };
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(300));
        signal(other, "KILL");
    });
    let failure = loaded.measure(100_000).unwrap_err();
    killer.join().unwrap();
    assert_eq!(failure.kind, OutcomeKind::Crashed, "{failure:?}");
    assert!(
        failure.reason.contains("rank 1 was ended by signal 9"),
        "{failure:?}"
    );
    drop(loaded);
    assert_gone(other);
}

/// How often a rank is killed.
fn kills() -> u32 {
    match std::env::var_os("PHOTOFINISH_TEST_FULL") {
        Some(_) => 50,
        None => 2,
    }
}

#[test]
fn a_rank_that_dies_before_the_group_is_made_is_not_waited_for() {
    let graph = network("bert_tiny", 2);
    let cell = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    let folder = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::new().unwrap();
    let mut host = Host::start(&command(), &Limits::default(), &interrupt).unwrap();
    let worker = host.pid();
    let killer = thread::spawn(move || {
        // As soon as there is one.
        let until = deadline();
        let other = loop {
            if let [other] = others(worker)[..] {
                break other;
            }
            assert!(Instant::now() < until, "there is no other rank");
        };
        signal(other, "KILL");
        other
    });
    host.hello(deadline()).unwrap();
    let load = Load {
        cell,
        graph,
        files: None,
        scratch: folder.path().to_owned(),
    };
    let request = Request::Load(Box::new(load));
    let failure = host.request(&request, deadline()).unwrap_err();
    let other = killer.join().unwrap();
    assert_eq!(failure.kind, OutcomeKind::Crashed, "{failure:?}");
    assert!(
        failure.reason.contains("rank 1 was ended by signal 9"),
        "{failure:?}"
    );
    assert_gone(other);
}

#[test]
fn a_rank_that_cannot_load_says_why_though_another_waits_for_it() {
    let graph = network("bert_tiny", 2);
    let cell = Cell {
        threads: 2,
        ..cell(&graph, Precision::Fp32, Strategy::Ddp, 2)
    };
    let port = free_port();
    let second = launched("1", "2", port);
    let mut second = std::process::Command::new(&second.program)
        .envs(&second.env)
        .env("OMP_THREAD_LIMIT", "1")
        .spawn()
        .unwrap();
    let started = start(&graph, &cell, &launched("0", "2", port));
    let failure = started.err().expect("a failure");
    assert_eq!(failure.kind, OutcomeKind::Unavailable, "{failure:?}");
    assert!(failure.reason.contains("rank 1: "), "{failure:?}");
    assert!(failure.reason.contains("OMP_THREAD_LIMIT=1"), "{failure:?}");
    assert!(!second.wait().unwrap().success());
}

#[test]
fn any_rank_may_die_at_any_moment_and_the_next_cell_runs() {
    let graph = network("bert_tiny", 2);
    let cell = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    for _ in 0..kills() {
        // Where a kill falls is up to chance; what must hold does not depend on it.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let chance = now.subsec_micros();
        let (rank, moment) = (
            chance as usize % 2,
            Duration::from_millis((chance / 2 % 4000).into()),
        );
        println!("rank {rank} after {moment:?}");
        let folder = tempfile::tempdir().unwrap();
        let interrupt = Interrupt::new().unwrap();
        let mut host = Host::start(&command(), &Limits::default(), &interrupt).unwrap();
        let worker = host.pid();
        let killer = thread::spawn(move || {
            thread::sleep(moment);
            let mut ranks = vec![i32::try_from(worker).unwrap()];
            ranks.extend(others(worker));
            // The other one may not be there yet.
            signal(*ranks.get(rank).unwrap_or(&ranks[0]), "KILL");
            ranks
        });
        let load = Load {
            cell: cell.clone(),
            graph: graph.clone(),
            files: None,
            scratch: folder.path().to_owned(),
        };
        let measure = Measure {
            discard: 0,
            min_steps: u64::from(u32::MAX),
            min_ns: 0,
            max_steps: u64::from(u32::MAX),
        };
        let failure = host
            .hello(deadline())
            .and_then(|_| host.request(&Request::Load(Box::new(load)), deadline()))
            .and_then(|_| host.request(&Request::Measure(measure), deadline()))
            .unwrap_err();
        let ranks = killer.join().unwrap();
        assert_eq!(failure.kind, OutcomeKind::Crashed, "{failure:?}");
        assert!(failure.reason.contains("signal 9"), "{failure:?}");
        drop(host);
        for rank in ranks {
            assert_gone(rank);
        }
        let mut next = start(&graph, &cell, &command()).unwrap();
        assert_eq!(next.measure(1).unwrap().len(), 1);
        next.end();
    }
}

#[test]
fn a_rank_that_hangs_ends_with_the_patience_of_whoever_asked() {
    let graph = network("bert_tiny", 2);
    let cell = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    let mut loaded = start(&graph, &cell, &command()).unwrap();
    let [other] = others(loaded.host.pid())[..] else {
        panic!("one other rank");
    };
    signal(other, "STOP");
    let request = Request::Measure(Measure {
        discard: 0,
        min_steps: 1,
        min_ns: 0,
        max_steps: 1,
    });
    let soon = Instant::now() + Duration::from_secs(3);
    let failure = loaded.host.request(&request, soon).unwrap_err();
    assert_eq!(failure.kind, OutcomeKind::TimedOut, "{failure:?}");
    drop(loaded);
    assert_gone(other);
}

#[test]
fn a_launcher_may_start_the_ranks() {
    let graph = network("bert_tiny", 2);
    let cell = cell(&graph, Precision::Fp64, Strategy::Ddp, 2);
    let port = free_port();
    let second = launched("1", "2", port);
    let mut second = std::process::Command::new(&second.program)
        .envs(&second.env)
        .spawn()
        .unwrap();
    let mut loaded = start(&graph, &cell, &launched("0", "2", port)).unwrap();
    let launched_ones = loaded.outputs();
    loaded.end();
    assert!(second.wait().unwrap().success());
    let own = trained("bert_tiny", Precision::Fp64, Strategy::Ddp, 2, &[]);
    assert_eq!(launched_ones, own);
}

#[test]
fn a_launcher_that_starts_others_than_the_cell_asks_for_is_told_so() {
    let graph = network("bert_tiny", 2);
    let ddp = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    let refused = |cell: &Cell, command: WorkerCommand| {
        let outcome = start(&graph, cell, &command).err().expect("a refusal");
        assert_eq!(outcome.kind, OutcomeKind::Unavailable, "{outcome:?}");
        outcome.reason
    };
    let reason = refused(&ddp, launched("0", "3", free_port()));
    assert!(reason.contains("WORLD_SIZE=3"), "{reason}");
    let single = cell(&graph, Precision::Fp32, Strategy::Single, 1);
    let reason = refused(&single, launched("0", "2", free_port()));
    assert!(reason.contains("2 processes were launched"), "{reason}");
    // Somebody else's port.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let reason = refused(&ddp, launched("0", "2", port));
    assert!(reason.contains(&port.to_string()), "{reason}");
}
