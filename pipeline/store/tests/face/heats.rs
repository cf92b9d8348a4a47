//! Heats: measured, interrupted, damaged.

use photofinish_store::{Store, StoreError, now};
use proptest::prelude::*;
use schema::{Digest, plan::KnownState, record::HeatHeader};

use crate::common::*;

#[test]
fn a_sealed_heat_is_known_and_read_back() {
    let (_folder, store) = store();
    assert!(
        store.known_heats().unwrap().heats.is_empty(),
        "no store yet is an empty store"
    );
    assert!(!store.path().exists(), "reading creates nothing");
    let lock = store.lock().unwrap();
    let header = header("g");
    let digest = seal(&lock, header.clone());
    let known = store.known_heats().unwrap();
    assert_eq!(known.corrupt, []);
    let [heat] = known.heats.as_slice() else {
        panic!("{known:?}")
    };
    assert_eq!(heat.state, KnownState::Sealed(digest));
    assert_eq!(
        (&heat.group, heat.key, &heat.started),
        (&header.group, header.key, &header.started)
    );
    assert_eq!(heat.key_parts, header.key_parts);
    let read = store.heat(&header.key, &digest).unwrap();
    assert_eq!(read.header, header);
    assert_eq!(read.blocks.len(), 2);
    assert!(
        !sealed_file(&store, &header.key)
            .parent()
            .unwrap()
            .join("open")
            .exists()
    );
}

#[test]
fn the_newest_of_several_heats_counts() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let mut late = header("g");
    let mut early = late.clone();
    late.started = "2026-11-20T10:00:00.2Z".to_owned();
    early.started = "2026-11-20T10:00:00Z".to_owned();
    let late_digest = seal(&lock, late.clone());
    let early_digest = seal(&lock, early);
    assert_ne!(late_digest, early_digest);
    let known = store.known_heats().unwrap();
    assert_eq!(known.heats[0].state, KnownState::Sealed(late_digest));
    store.heat(&late.key, &early_digest).unwrap();

    // The newest is damaged: the older one counts, and the damage is named.
    let folder = store.path().join("heats").join(late.key.to_string());
    let newest = folder.join(format!("20261120T100000.200Z-{late_digest}.heat.zst"));
    std::fs::write(&newest, b"junk").unwrap();
    let known = store.known_heats().unwrap();
    assert_eq!(known.heats[0].state, KnownState::Sealed(early_digest));
    assert_eq!(known.corrupt[0].path, newest);
}

#[test]
fn a_heat_is_known_by_the_group_that_it_was_measured_for() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let known = || {
        let known = store.known_heats().unwrap().heats;
        let groups = known.into_iter().map(|heat| heat.group);
        groups.collect::<Vec<_>>()
    };
    let first = header("first");
    seal(&lock, first.clone());
    let key_file = store.path().join(format!("heats/{}/key.json", first.key));
    let said = std::fs::read(&key_file).unwrap();
    let second = HeatHeader {
        group: "second".to_owned(),
        started: "2999-01-01T00:00:00Z".to_owned(),
        ..first
    };
    // As from a bundle, or for another job: begun later, by a clock that is wrong.
    seal(&lock, second.clone());
    assert_eq!(known(), ["first"]);
    assert_eq!(std::fs::read(&key_file).unwrap(), said);
    let third = HeatHeader {
        group: "third".to_owned(),
        started: now(),
        ..second
    };
    let journal = lock.begin(third).unwrap();
    drop(journal);
    assert_eq!(known(), ["first", "third"]);
}

#[test]
fn an_interrupted_heat_goes_on_where_it_was() {
    let (_folder, store) = store();
    let header = header("g");
    {
        let lock = store.lock().unwrap();
        let mut journal = lock.begin(header.clone()).unwrap();
        journal.set_reference(reference()).unwrap();
        journal.append(block(0)).unwrap();
    }
    assert_eq!(
        store.known_heats().unwrap().heats[0].state,
        KnownState::Open(1)
    );
    let lock = store.lock().unwrap();
    let mut journal = lock.resume(&header.key).unwrap().unwrap();
    assert_eq!((journal.header(), journal.blocks().len()), (&header, 1));
    journal.append(block(1)).unwrap();
    let digest = journal.seal(footer()).unwrap();
    assert_eq!(store.heat(&header.key, &digest).unwrap().blocks.len(), 2);
    assert!(lock.resume(&header.key).unwrap().is_none());
}

#[test]
fn a_damaged_block_costs_it_and_those_after_it() {
    for damage in ["flip", "empty", "remove", "foreign"] {
        let (_folder, store) = store();
        let header = header("g");
        let lock = store.lock().unwrap();
        let mut journal = lock.begin(header.clone()).unwrap();
        journal.set_reference(reference()).unwrap();
        for index in 0..3 {
            journal.append(block(index)).unwrap();
        }
        let open = store
            .path()
            .join("heats")
            .join(header.key.to_string())
            .join("open");
        let mut files: Vec<_> = std::fs::read_dir(&open)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        files.sort();
        let victim = &files[3];
        match damage {
            "flip" => {
                let mut bytes = std::fs::read(victim).unwrap();
                bytes[40] ^= 1;
                std::fs::write(victim, bytes).unwrap();
            }
            "empty" => std::fs::write(victim, b"").unwrap(),
            "remove" => std::fs::remove_file(victim).unwrap(),
            _ => std::fs::rename(victim, open.join("00003-zzz.json")).unwrap(),
        }
        // Named, and kept with the sound ones after it.
        let known = store.known_heats().unwrap();
        assert_eq!(known.heats[0].state, KnownState::Open(1), "{damage}");
        let [corrupt] = known.corrupt.as_slice() else {
            panic!("{damage}: {:?}", known.corrupt)
        };
        assert_eq!(corrupt.path.parent(), Some(open.as_path()), "{damage}");
        let (lost, gone) = (files.len() - 3, usize::from(damage == "remove"));
        let mut journal = lock.resume(&header.key).unwrap().unwrap();
        assert_eq!(aside(&store).len(), lost - gone, "{damage}");
        assert!(store.known_heats().unwrap().corrupt.is_empty(), "{damage}");
        assert_eq!(journal.blocks().len(), 1, "{damage}");
        journal.append(block(1)).unwrap();
        let digest = journal.seal(footer()).unwrap();
        assert_eq!(
            store.heat(&header.key, &digest).unwrap().blocks.len(),
            2,
            "{damage}"
        );
    }
}

#[test]
fn a_journal_beside_its_own_heat_is_a_leftover() {
    let (folder, store) = store();
    let header = header("g");
    let lock = store.lock().unwrap();
    let mut journal = lock.begin(header.clone()).unwrap();
    journal.set_reference(reference()).unwrap();
    let open = store
        .path()
        .join("heats")
        .join(header.key.to_string())
        .join("open");
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&open).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    journal.seal(footer()).unwrap();
    std::fs::rename(&copy, &open).unwrap();
    assert_eq!(store.known_heats().unwrap().heats.len(), 1);
    assert!(lock.resume(&header.key).unwrap().is_none());
    assert!(!open.exists());
}

#[test]
fn a_heat_that_was_begun_beside_a_sealed_one_is_known_too() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let sealed = seal(&lock, header("g"));
    let mut journal = lock.begin(header("g")).unwrap();
    journal.set_reference(reference()).unwrap();
    journal.append(block(0)).unwrap();
    let states = || {
        let heats = store.known_heats().unwrap().heats;
        heats.iter().map(|heat| heat.state).collect::<Vec<_>>()
    };
    assert_eq!(states(), [KnownState::Sealed(sealed), KnownState::Open(1)]);
    drop(journal);
    lock.resume(&header("g").key).unwrap().unwrap();
}

#[test]
fn a_corrupt_heat_is_set_aside_with_the_reason() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let header = header("g");
    let digest = seal(&lock, header.clone());
    let file = sealed_file(&store, &header.key);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(&file, bytes).unwrap();

    let known = store.known_heats().unwrap();
    assert!(known.heats.is_empty());
    let [corrupt] = known.corrupt.as_slice() else {
        panic!("{known:?}")
    };
    let place = lock.set_aside(corrupt).unwrap().unwrap();
    assert!(place.exists() && !file.exists());
    let note = std::fs::read_to_string(format!("{}.reason.txt", place.display())).unwrap();
    assert!(
        note.contains("its content is not what its name says"),
        "{note}"
    );
    assert!(store.known_heats().unwrap().corrupt.is_empty());
    assert!(matches!(
        store.heat(&header.key, &digest),
        Err(StoreError::Missing { .. })
    ));
    assert_eq!(lock.set_aside(corrupt).unwrap(), None);
    seal(&lock, header);
    assert_eq!(store.known_heats().unwrap().heats.len(), 1);
}

#[test]
fn a_corrupt_key_file_is_named_and_mended_by_measuring() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let header = header("g");
    seal(&lock, header.clone());
    let file = store
        .path()
        .join("heats")
        .join(header.key.to_string())
        .join("key.json");
    for junk in ["", "{}", "[[[[", "{\"version\":1,\"group\":\"g\"}"] {
        std::fs::write(&file, junk).unwrap();
        let known = store.known_heats().unwrap();
        assert_eq!((known.heats.len(), known.corrupt.len()), (0, 1), "{junk}");
        lock.set_aside(&known.corrupt[0]).unwrap();
        lock.begin(header.clone()).unwrap();
        assert_eq!(store.known_heats().unwrap().heats.len(), 1);
    }
}

#[test]
fn what_could_not_be_read_again_is_not_written() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let mut journal = lock.begin(header("g")).unwrap();
    assert!(
        journal.append(block(0)).is_err(),
        "a block before the reference"
    );
    journal.set_reference(reference()).unwrap();
    assert!(journal.set_reference(reference()).is_err());
    let mut bad = block(0);
    bad.load_before.load_1m = f64::NAN;
    let error = journal.append(bad).unwrap_err().to_string();
    assert!(error.contains("would not be readable again"), "{error}");
    let mut bad = block(0);
    bad.launches[0].slot = 2;
    assert!(journal.append(bad).is_err());
    assert!(journal.append(block(1)).is_err(), "the wrong place");
    journal.append(block(0)).unwrap();
    let mut bad = footer();
    bad.outcomes.pop();
    assert!(journal.seal(bad).is_err());
    let mut wrong = header("g");
    wrong.key = Digest::of_bytes(b"another");
    assert!(lock.begin(wrong).is_err());
}

/// Puts bytes in the place of a heat under their own true name, and reads them.
fn read_as_heat(store: &Store, key: &Digest, bytes: &[u8]) -> Result<schema::Heat, StoreError> {
    let digest = Digest::of_bytes(bytes);
    let folder = store.path().join("heats").join(key.to_string());
    let file = folder.join(format!("20261120T100000.000Z-{digest}.heat.zst"));
    std::fs::write(&file, bytes).unwrap();
    let heat = store.heat(key, &digest);
    std::fs::remove_file(file).unwrap();
    heat
}

#[test]
fn documents_that_break_a_rule_are_refused() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let header = header("g");
    seal(&lock, header.clone());
    let good = std::fs::read(sealed_file(&store, &header.key)).unwrap();
    let good = lines(&good);
    assert_eq!(good.len(), 5);
    let refused = |what: &str, lines: Vec<String>, says: &str| {
        let mut lines = lines;
        lines.push(String::new());
        let error = read_as_heat(&store, &header.key, &compress(&lines))
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{what}: {error}");
    };
    let pick = |places: &[usize]| {
        places
            .iter()
            .map(|place| good[*place].clone())
            .collect::<Vec<_>>()
    };
    let edit = |place: usize, from: &str, to: &str| {
        let mut lines = good.clone();
        assert!(
            lines[place].contains(from),
            "{} has no {from}",
            lines[place]
        );
        lines[place] = lines[place].replacen(from, to, 1);
        lines
    };
    refused("nothing", vec![], "header");
    refused(
        "no header",
        pick(&[1, 2, 3, 4]),
        "does not begin with a header",
    );
    refused(
        "no reference",
        pick(&[0, 2, 3, 4]),
        "second line is not the reference",
    );
    refused("no footer", pick(&[0, 1, 2, 3]), "without a footer");
    refused(
        "two footers",
        pick(&[0, 1, 2, 3, 4, 4]),
        "follows the footer",
    );
    refused(
        "two headers",
        pick(&[0, 1, 0, 2, 3, 4]),
        "follows the blocks",
    );
    refused(
        "a block missing",
        pick(&[0, 1, 3, 4]),
        "in the place of block 0",
    );
    refused(
        "slot",
        edit(2, "\"slot\":1", "\"slot\":77"),
        "launches slot 77",
    );
    refused(
        "version",
        edit(
            0,
            &format!("\"version\":{}", schema::record::VERSION),
            "\"version\":99",
        ),
        "format version 99",
    );
    refused(
        "unknown field",
        edit(0, "\"seed\"", "\"sead\""),
        "line 1: unknown field",
    );
    refused(
        "key parts",
        edit(0, "\"cells\":\"g\"", "\"cells\":\"h\""),
        "not the hash",
    );
    refused(
        "time",
        edit(0, "\"started\":\"", "\"started\":\"x"),
        "no time of day",
    );
    refused(
        "twin",
        edit(0, "\"twin_of\":null", "\"twin_of\":9"),
        "twin of slot 9",
    );
    refused(
        "obstacles",
        edit(1, "\"obstacles\":[null,", "\"obstacles\":["),
        "1 obstacles for 2",
    );
    refused(
        "logs",
        edit(1, "\"logs\":[null,", "\"logs\":["),
        "1 logs of parity for 2",
    );
    refused(
        "nesting",
        {
            let mut lines = good.clone();
            lines[2] = "[".repeat(100_000);
            lines
        },
        "line 3",
    );
    let other = Digest::of_bytes(b"other");
    std::fs::create_dir(store.path().join("heats").join(other.to_string())).unwrap();
    let bytes = std::fs::read(sealed_file(&store, &header.key)).unwrap();
    let error = read_as_heat(&store, &other, &bytes)
        .unwrap_err()
        .to_string();
    assert!(error.contains("another key"), "{error}");
}

#[test]
fn a_decompression_bomb_is_refused_in_bounded_memory() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let header = header("g");
    seal(&lock, header.clone());
    // A gigabyte of one line, in a few dozen kilobytes.
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    let chunk = vec![b' '; 1 << 20];
    for _ in 0..1024 {
        std::io::Write::write_all(&mut encoder, &chunk).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let error = read_as_heat(&store, &header.key, &bomb)
        .unwrap_err()
        .to_string();
    assert!(error.contains("cut off or too long"), "{error}");
}

#[test]
fn five_hundred_heats_are_listed() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    for number in 0..500 {
        seal(&lock, header(&format!("group {number}")));
    }
    let started = std::time::Instant::now();
    let known = store.known_heats().unwrap();
    println!("500 heats listed and verified in {:?}", started.elapsed());
    assert_eq!((known.heats.len(), known.corrupt.len()), (500, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(3)))]

    /// Whatever happens to the bytes of a file, it is an error or the very same heat.
    #[test]
    fn damage_is_never_a_panic_nor_another_heat(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1_u8..), 0..4),
        keep in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let (_folder, store) = store();
        let lock = store.lock().unwrap();
        let header = header("g");
        let digest = seal(&lock, header.clone());
        let file = sealed_file(&store, &header.key);
        let good = std::fs::read(&file).unwrap();
        let mut bytes = good.clone();
        for (place, mask) in &flips {
            let place = place.index(bytes.len());
            bytes[place] ^= mask;
        }
        if cut {
            bytes.truncate(keep.index(bytes.len()));
        }
        std::fs::write(&file, &bytes).unwrap();
        let known = store.known_heats().unwrap();
        let read = store.heat(&header.key, &digest);
        if bytes == good {
            prop_assert!(read.is_ok() && known.corrupt.is_empty());
        } else {
            prop_assert!(read.is_err() && known.heats.is_empty());
            prop_assert_eq!(known.corrupt.len(), 1);
        }
        // The same bytes under their true name: the decoder itself must stand.
        let _ = read_as_heat(&store, &header.key, &bytes);
    }

    /// Damage below the compression: JSON that is nearly right.
    #[test]
    fn nearly_right_documents_never_panic(
        line in 0_usize..5,
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let (_folder, store) = store();
        let lock = store.lock().unwrap();
        let header = header("g");
        seal(&lock, header.clone());
        let document = zstd::decode_all(std::fs::read(sealed_file(&store, &header.key)).unwrap().as_slice()).unwrap();
        let mut lines: Vec<Vec<u8>> = document.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        let place = place.index(lines[line].len());
        lines[line][place] = byte;
        let bytes = zstd::bulk::compress(&lines.concat(), 1).unwrap();
        if let Ok(heat) = read_as_heat(&store, &header.key, &bytes) {
            prop_assert_eq!(heat.header.key, header.key);
        }
    }

    /// A damaged journal gives what was measured up to the damage, and nothing else.
    #[test]
    fn a_damaged_journal_keeps_its_sound_beginning(
        victim in 0_usize..5,
        place in any::<prop::sample::Index>(),
        mask in 1_u8..,
        cut in any::<bool>(),
    ) {
        let (_folder, store) = store();
        let header = header("g");
        let measured: Vec<_> = (0..3).map(block).collect();
        let lock = store.lock().unwrap();
        let mut journal = lock.begin(header.clone()).unwrap();
        journal.set_reference(reference()).unwrap();
        for block in &measured {
            journal.append(block.clone()).unwrap();
        }
        let open = store.path().join("heats").join(header.key.to_string()).join("open");
        let mut files: Vec<_> = std::fs::read_dir(&open).unwrap().map(|e| e.unwrap().path()).collect();
        files.sort();
        let mut bytes = std::fs::read(&files[victim]).unwrap();
        let place = place.index(bytes.len());
        if cut {
            bytes.truncate(place);
        } else {
            bytes[place] ^= mask;
        }
        std::fs::write(&files[victim], bytes).unwrap();
        store.known_heats().unwrap();
        match lock.resume(&header.key).unwrap() {
            None => prop_assert_eq!(victim, 0),
            Some(journal) => {
                prop_assert_eq!(journal.header(), &header);
                prop_assert_eq!(journal.reference().is_some(), victim > 1);
                let kept = victim.saturating_sub(2);
                prop_assert_eq!(journal.blocks(), &measured[..kept]);
            }
        }
    }
}

#[test]
fn a_heat_in_the_folder_of_another_key_does_not_count() {
    let (_folder, store) = store();
    let lock = store.lock().unwrap();
    let (own, strange) = (header("g"), header("h"));
    seal(&lock, own.clone());
    seal(&lock, strange.clone());
    let (own_file, strange_file) = (
        sealed_file(&store, &own.key),
        sealed_file(&store, &strange.key),
    );
    let place = own_file.with_file_name(strange_file.file_name().unwrap());
    std::fs::copy(&strange_file, place).unwrap();
    std::fs::remove_file(own_file).unwrap();
    let known = store.known_heats().unwrap();
    let keys: Vec<_> = known.heats.iter().map(|heat| heat.key).collect();
    assert_eq!(keys, [strange.key]);
    let [corrupt] = known.corrupt.as_slice() else {
        panic!("{known:?}")
    };
    assert_eq!(corrupt.reason, "it was measured for another key");
}

#[test]
fn who_may_read_the_user_s_files_may_read_a_store_s() {
    use std::os::unix::fs::PermissionsExt as _;

    let (folder, store) = store();
    let lock = store.lock().unwrap();
    let header = header("g");
    seal(&lock, header.clone());
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    let usual = folder.path().join("usual");
    std::fs::write(&usual, "").unwrap();
    assert_eq!(mode(&sealed_file(&store, &header.key)), mode(&usual));
}
