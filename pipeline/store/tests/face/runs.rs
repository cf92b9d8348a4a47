//! Run records, tables, and what gc leaves of them.

use photofinish_store::{ArtifactKind, GcReport, Known, Store, StoreError};
use schema::{
    Digest, RunRecord,
    plan::{KnownState, Status},
    record::{HeatHeader, HeatResult},
};

use crate::common::*;

#[test]
fn the_latest_run_is_found_and_an_equal_one_is_not_written() {
    let (_folder, store) = store();
    assert!(store.latest_run().unwrap().is_none());
    let lock = store.lock().unwrap();
    let (a, b) = (header("a"), header("b"));
    let heat = seal(&lock, a.clone());
    let first = run(&[(&a, heat)]);
    let digest = lock.put_run(&first).unwrap();
    assert_eq!(
        store.latest_run().unwrap().unwrap(),
        (digest, first.clone())
    );

    let mut again = first.clone();
    again.plan.heats[0].status = Status::Cached { heat };
    assert_eq!(
        lock.put_run(&again).unwrap(),
        digest,
        "only its statuses differ"
    );
    assert_eq!(order(&store), [digest]);

    let other = run(&[(&a, heat), (&b, seal(&lock, b.clone()))]);
    let second = lock.put_run(&other).unwrap();
    assert_eq!(store.latest_run().unwrap().unwrap(), (second, other));
    assert_eq!(lock.put_run(&first).unwrap(), digest, "back to the first");
    assert_eq!(order(&store), [digest, second, digest]);
    assert_eq!(store.run(&digest).unwrap(), first);
}

#[test]
fn a_corrupt_run_is_an_error_and_no_obstacle() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let a = header("a");
    let record = run(&[(&a, seal(&lock, a.clone()))]);
    let digest = lock.put_run(&record).unwrap();
    let file = store.path().join(format!("runs/000001-{digest}.run.zst"));
    let good = std::fs::read(&file).unwrap();
    for length in 0..good.len() {
        std::fs::write(&file, &good[..length]).unwrap();
        let error = store.latest_run().unwrap_err();
        assert!(error.as_corrupt().is_some(), "{error}");
    }
    assert_eq!(lock.put_run(&record).unwrap(), digest);
    assert_eq!(store.latest_run().unwrap().unwrap().1, record);
    assert!(matches!(
        store.run(&Digest::of_bytes(b"?")),
        Err(StoreError::Missing { .. })
    ));
}

#[test]
fn artifacts_are_verified_and_written_once() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let (key, run) = (Digest::of_bytes(b"key"), Digest::of_bytes(b"run"));
    assert_eq!(store.get(ArtifactKind::Tables, &key).unwrap(), None);
    lock.put(ArtifactKind::Tables, &key, &run, b"tables")
        .unwrap();
    assert_eq!(
        store.get(ArtifactKind::Tables, &key).unwrap().unwrap(),
        b"tables"
    );
    assert_eq!(store.get(ArtifactKind::Site, &key).unwrap(), None);
    let file = store.path().join("tables").join(key.to_string());
    let written = std::fs::metadata(&file).unwrap().modified().unwrap();
    lock.put(ArtifactKind::Tables, &key, &run, b"tables")
        .unwrap();
    assert_eq!(
        std::fs::metadata(&file).unwrap().modified().unwrap(),
        written
    );
    let good = std::fs::read(&file).unwrap();
    for place in 0..good.len() {
        let mut bytes = good.clone();
        bytes[place] ^= 2;
        std::fs::write(&file, bytes).unwrap();
        match store.get(ArtifactKind::Tables, &key) {
            // The hash of the run is no part of the content.
            Ok(content) => assert_eq!(
                (content.as_deref(), place > 64),
                (Some(&b"tables"[..]), true)
            ),
            Err(error) => assert!(error.as_corrupt().is_some(), "{place}: {error}"),
        }
    }
    lock.put(ArtifactKind::Tables, &key, &run, b"tables")
        .unwrap();
    assert_eq!(
        store.get(ArtifactKind::Tables, &key).unwrap().unwrap(),
        b"tables"
    );
}

#[test]
fn gc_keeps_what_the_newest_runs_name() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let (a, b, c) = (header("a"), header("b"), header("c"));
    let (heat_a, heat_b, heat_c) = (
        seal(&lock, a.clone()),
        seal(&lock, b.clone()),
        seal(&lock, c.clone()),
    );
    let old = lock.put_run(&run(&[(&a, heat_a), (&b, heat_b)])).unwrap();
    let new = lock.put_run(&run(&[(&b, heat_b), (&c, heat_c)])).unwrap();
    let (key_old, key_new) = (Digest::of_bytes(b"old"), Digest::of_bytes(b"new"));
    lock.put(ArtifactKind::Tables, &key_old, &old, b"old")
        .unwrap();
    lock.put(ArtifactKind::Tables, &key_new, &new, b"new")
        .unwrap();
    let open = header("open");
    lock.begin(open.clone()).unwrap();

    assert_eq!(
        lock.gc(2, false).unwrap(),
        GcReport::default(),
        "all is named"
    );
    let dry = lock.gc(1, true).unwrap();
    assert_eq!(
        (dry.runs, dry.heats, dry.artifacts, dry.journals),
        (1, 1, 1, 0)
    );
    assert!(dry.bytes > 0);
    store.heat(&a.key, &heat_a).unwrap();
    assert_eq!(
        lock.gc(1, false).unwrap(),
        dry,
        "the same that was announced"
    );
    assert!(matches!(
        store.heat(&a.key, &heat_a),
        Err(StoreError::Missing { .. })
    ));
    assert!(!store.path().join("heats").join(a.key.to_string()).exists());
    store.heat(&b.key, &heat_b).unwrap();
    assert_eq!(order(&store), [new]);
    assert_eq!(store.get(ArtifactKind::Tables, &key_old).unwrap(), None);
    assert!(store.get(ArtifactKind::Tables, &key_new).unwrap().is_some());
    assert!(
        lock.resume(&open.key).unwrap().is_some(),
        "a young journal stays"
    );
    assert_eq!(lock.gc(1, false).unwrap(), GcReport::default());
}

/// The hashes of the runs, oldest first.
fn order(store: &Store) -> Vec<Digest> {
    let runs = store.runs_in_order().unwrap();
    runs.into_iter().map(|run| run.digest).collect()
}

/// Makes a file old enough for gc.
fn age(file: &std::path::Path) {
    let then = std::time::SystemTime::now() - std::time::Duration::from_secs(40 * 24 * 60 * 60);
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.set_modified(then).unwrap();
}

/// The file of a run record.
fn run_file(store: &Store, number: u32, digest: &Digest) -> std::path::PathBuf {
    store
        .path()
        .join(format!("runs/{number:06}-{digest}.run.zst"))
}

fn flip(file: &std::path::Path) {
    let mut bytes = std::fs::read(file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(file, bytes).unwrap();
}

/// What was set aside, without the notes.
#[test]
fn gc_sets_a_corrupt_run_aside_and_keeps_every_heat() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let (a, b) = (header("a"), header("b"));
    let (heat_a, heat_b) = (seal(&lock, a.clone()), seal(&lock, b.clone()));
    let bad = lock.put_run(&run(&[(&a, heat_a)])).unwrap();
    let good = lock.put_run(&run(&[(&b, heat_b)])).unwrap();
    let file = run_file(&store, 1, &bad);
    flip(&file);

    let dry = lock.gc(2, true).unwrap();
    assert_eq!(dry.unreadable[0].path, file);
    assert!(file.exists());
    for _ in 0..2 {
        let report = lock.gc(2, false).unwrap();
        assert_eq!(report.heats, 0);
        assert_eq!(report.unreadable.len(), 1);
        assert!(report.unreadable[0].path.exists());
        let [name] = aside(&store).try_into().unwrap();
        assert!(
            name.ends_with(&format!("runs-000001-{bad}.run.zst")),
            "{name}"
        );
        store.heat(&a.key, &heat_a).unwrap();
    }
    assert_eq!(order(&store), [good]);

    // Once what was set aside is old, nothing holds the heat any more.
    let [name] = aside(&store).try_into().unwrap();
    let (_, rest) = name.split_once('-').unwrap();
    let folder = store.path().join("aside");
    std::fs::rename(
        folder.join(&name),
        folder.join(format!("20010203T040506.789Z-{rest}")),
    )
    .unwrap();
    age(&sealed_file(&store, &a.key));
    let report = lock.gc(2, false).unwrap();
    assert_eq!((report.heats, report.aside), (1, 1));
    assert_eq!((report.unreadable, aside(&store)), (vec![], vec![]));
    store.heat(&b.key, &heat_b).unwrap();
}

/// A run record whose last heat was not reached.
fn cut_short(heats: &[(&HeatHeader, Digest)]) -> RunRecord {
    let mut record = run(heats);
    record.heats.last_mut().unwrap().heat = HeatResult::NotReached("interrupted".to_owned());
    record
}

#[test]
fn an_interrupted_run_is_the_latest_only_where_no_other_is() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let (a, b) = (header("a"), header("b"));
    let (heat_a, heat_b) = (seal(&lock, a.clone()), seal(&lock, b.clone()));
    assert_eq!(
        lock.put_interrupted_run(&cut_short(&[(&a, heat_a)]))
            .unwrap(),
        None,
        "there is nothing to show"
    );
    assert!(store.latest_run().unwrap().is_none());
    let half = cut_short(&[(&a, heat_a), (&b, heat_b)]);
    let interrupted = lock.put_interrupted_run(&half).unwrap().unwrap();
    assert_eq!(lock.put_interrupted_run(&half).unwrap(), Some(interrupted));
    assert_eq!(order(&store), [interrupted], "written once");
    assert_eq!(store.latest_run().unwrap().unwrap(), (interrupted, half));
    assert!(store.runs_in_order().unwrap()[0].interrupted);

    let whole = run(&[(&a, heat_a), (&b, heat_b)]);
    assert_eq!(store.latest_like(&whole).unwrap(), None);
    let digest = lock.put_run(&whole).unwrap();
    let anew = cut_short(&[(&b, heat_b), (&a, heat_a)]);
    lock.put_interrupted_run(&anew).unwrap().unwrap();
    assert_eq!(
        store.latest_run().unwrap().unwrap(),
        (digest, whole.clone())
    );
    assert_eq!(store.latest_like(&whole).unwrap(), Some(digest));
    assert_eq!(lock.put_run(&whole).unwrap(), digest);
    assert_eq!(order(&store).len(), 3, "an equal one is not written");
}

#[test]
fn gc_keeps_what_an_interrupted_run_needs_to_go_on() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let (a, b, c) = (header("a"), header("b"), header("c"));
    let (heat_a, heat_b) = (seal(&lock, a.clone()), seal(&lock, b.clone()));
    lock.put_run(&run(&[(&a, heat_a)])).unwrap();
    let half = cut_short(&[(&a, heat_a), (&b, heat_b)]);
    lock.put_interrupted_run(&half).unwrap().unwrap();
    let heat_c = seal(&lock, c.clone());
    let whole = lock.put_run(&run(&[(&c, heat_c)])).unwrap();
    // The first run goes, but the one that was interrupted names its heat, too.
    let report = lock.gc(1, false).unwrap();
    assert_eq!((report.runs, report.heats), (1, 0));
    store.heat(&a.key, &heat_a).unwrap();
    assert_eq!(store.latest_run().unwrap().unwrap().0, whole);
    // Gone on with, it has nothing of its own any more.
    let end = lock.put_run(&run(&[(&a, heat_a), (&b, heat_b)])).unwrap();
    assert_eq!(lock.gc(2, false).unwrap().runs, 1);
    assert_eq!(order(&store), [whole, end]);
    // And old, it is history.
    let half = cut_short(&[(&c, heat_c), (&b, heat_b), (&a, heat_a)]);
    let digest = lock.put_interrupted_run(&half).unwrap().unwrap();
    assert_eq!(lock.gc(2, true).unwrap().runs, 0);
    let file = format!("runs/000005-{digest}.interrupted.run.zst");
    age(&store.path().join(file));
    assert_eq!(lock.gc(2, true).unwrap().runs, 1);
}

#[test]
fn gc_keeps_what_a_killed_run_measured() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let a = header("a");
    let heat = seal(&lock, a.clone());
    assert_eq!(lock.gc(1, false).unwrap(), GcReport::default());
    store.heat(&a.key, &heat).unwrap();
    age(&sealed_file(&store, &a.key));
    assert_eq!(lock.gc(1, false).unwrap().heats, 1);
}

#[test]
fn what_gc_would_remove_is_told_without_lock_or_trace() {
    let (folder, store) = store();
    let error = store.gc_preview(1).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    assert!(!store.path().exists());
    std::fs::create_dir(store.path()).unwrap();
    assert!(matches!(store.require(), Err(StoreError::Missing { .. })));

    let lock = store.lock().unwrap();
    store.require().unwrap();
    let (a, b) = (header("a"), header("b"));
    let heat = seal(&lock, a.clone());
    lock.put_run(&run(&[(&a, heat)])).unwrap();
    let bad = lock.put_run(&run(&[(&b, seal(&lock, b.clone()))])).unwrap();
    let last = lock.put_run(&run(&[(&a, heat)])).unwrap();
    flip(&run_file(&store, 2, &bad));
    age(&sealed_file(&store, &b.key));
    let before = entries(folder.path());
    let dry = store.gc_preview(1).unwrap();
    assert_eq!((dry.runs, dry.heats), (2, 1));
    assert_eq!(store.gc_preview(2).unwrap().unreadable.len(), 1);
    assert_eq!(entries(folder.path()), before);
    assert_eq!(lock.gc(1, false).unwrap(), dry);
    assert_eq!(order(&store), [last]);
}

/// Everything below a folder, with its size and the time of its last change.
fn entries(folder: &std::path::Path) -> Vec<(std::path::PathBuf, u64, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            found.extend(entries(&path));
        }
        found.push((path, metadata.len(), metadata.modified().unwrap()));
    }
    found.sort();
    found
}

#[test]
fn a_corrupt_run_that_gc_would_remove_anyway_is_removed() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let (a, b) = (header("a"), header("b"));
    let (heat_a, heat_b) = (seal(&lock, a.clone()), seal(&lock, b.clone()));
    let bad = lock.put_run(&run(&[(&a, heat_a)])).unwrap();
    lock.put_run(&run(&[(&b, heat_b)])).unwrap();
    flip(&run_file(&store, 1, &bad));
    let report = lock.gc(1, false).unwrap();
    // Which heats it named is not known any more.
    assert_eq!((report.runs, report.heats), (1, 0));
    age(&sealed_file(&store, &a.key));
    assert_eq!(lock.gc(1, false).unwrap().heats, 1);
    assert_eq!((report.unreadable, aside(&store)), (vec![], vec![]));
}

#[test]
fn writing_a_run_sets_corrupt_ones_aside() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let (a, b) = (header("a"), header("b"));
    let (heat_a, heat_b) = (seal(&lock, a.clone()), seal(&lock, b.clone()));
    let bad = lock.put_run(&run(&[(&a, heat_a)])).unwrap();
    flip(&run_file(&store, 1, &bad));
    assert_eq!(
        store.corrupt_runs().unwrap()[0].path,
        run_file(&store, 1, &bad)
    );
    let good = lock.put_run(&run(&[(&b, heat_b)])).unwrap();
    assert_eq!(order(&store), [good]);
    assert_eq!(aside(&store).len(), 1);
    assert!(store.corrupt_runs().unwrap().is_empty());
}

#[test]
fn an_interrupted_fresh_run_is_remembered() {
    let (_folder, store) = store();
    let keys = [Digest::of_bytes(b"a"), Digest::of_bytes(b"b")];
    assert_eq!(store.interrupted_fresh(&keys).unwrap(), None);
    let lock = store.lock().unwrap();
    let fresh = lock.begin_fresh(&keys).unwrap();
    assert_eq!(store.interrupted_fresh(&keys).unwrap(), Some(fresh));
    assert_eq!(
        store.interrupted_fresh(&keys[..1]).unwrap(),
        None,
        "another plan"
    );
    lock.end_fresh().unwrap();
    lock.end_fresh().unwrap();
    assert_eq!(store.interrupted_fresh(&keys).unwrap(), None);
    for junk in ["", "{", "{\"keys\":1}"] {
        std::fs::write(store.path().join("fresh.json"), junk).unwrap();
        assert_eq!(store.interrupted_fresh(&keys).unwrap(), None);
    }
}

#[test]
fn a_clock_that_was_set_back_does_not_hide_a_fresh_heat() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let of_tomorrow = |group: &str| HeatHeader {
        started: "9000-01-01T00:00:00.000Z".to_owned(),
        ..header(group)
    };
    let (sealed, open) = (of_tomorrow("a"), of_tomorrow("b"));
    let old = seal(&lock, sealed.clone());
    drop(lock.begin(open.clone()).unwrap());
    let keys = [sealed.key, open.key];
    let fresh = lock.begin_fresh(&keys).unwrap();
    assert!(!fresh.counts(&old) && !fresh.counts_open(&open));
    assert!(fresh.counts_open(&header("b")));
    let sealed_ones = |known: Known| -> Vec<KnownState> {
        let states = known.heats.into_iter().map(|heat| heat.state);
        states
            .filter(|state| matches!(state, KnownState::Sealed(_)))
            .collect()
    };
    assert_eq!(sealed_ones(store.known_heats_of(&fresh).unwrap()), []);
    assert_eq!(
        sealed_ones(store.known_heats().unwrap()),
        [KnownState::Sealed(old)],
        "better than none"
    );

    let new = seal(&lock, header("a"));
    let fresh = store.interrupted_fresh(&keys).unwrap().unwrap();
    for known in [
        store.known_heats_of(&fresh).unwrap(),
        store.known_heats().unwrap(),
    ] {
        assert_eq!(sealed_ones(known), [KnownState::Sealed(new)]);
    }
}

#[test]
fn a_store_that_cannot_be_written_says_where() {
    let (_folder, store) = store();
    drop(store.lock().unwrap());
    let heats = store.path().join("heats");
    std::fs::remove_dir(&heats).unwrap();
    std::fs::write(&heats, "in the way").unwrap();
    let error = store.lock().unwrap_err().to_string();
    assert!(
        error.contains("heats") && error.contains("move it away"),
        "{error}"
    );
}
