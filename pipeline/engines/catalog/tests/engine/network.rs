//! Wheels come from the index that the user names, and a network that fails is told from an index
//! that lies.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use photofinish_catalog::{Catalog, CatalogError, Settings};

use crate::common::{Demo, Watcher};

fn demo() -> Vec<String> {
    vec![String::from("demo")]
}

/// What an index does with one of its wheels.
#[derive(Clone, Copy)]
enum Fault {
    /// Closes the connection in the middle of it, this many times.
    Cut(usize),
    /// Gives other bytes, as many.
    Lie,
}

/// An index of the case's wheels whose first is faulty; gives its address, and how often that wheel
/// was asked for.
fn serve(case: &Demo, fault: Fault) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/simple", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let wheels: Vec<(String, Vec<u8>)> = case
        .wheels
        .iter()
        .map(|wheel| {
            let file = wheel.file.file_name().unwrap().to_str().unwrap();
            (file.to_owned(), fs::read(&wheel.file).unwrap())
        })
        .collect();
    let count = Arc::clone(&asked);
    // It ends with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (wheels, count) = (wheels.clone(), Arc::clone(&count));
            thread::spawn(move || answer(&stream.unwrap(), &wheels, fault, &count));
        }
    });
    (address, asked)
}

fn answer(stream: &TcpStream, wheels: &[(String, Vec<u8>)], fault: Fault, count: &AtomicUsize) {
    let mut lines = BufReader::new(stream).lines();
    let Some(Ok(first)) = lines.next() else {
        return;
    };
    while lines
        .next()
        .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
    {}
    let path = first.split(' ').nth(1).unwrap();
    let found = wheels
        .iter()
        .position(|(file, _)| path.ends_with(file.as_str()));
    let Some(number) = found else {
        let links: String = wheels
            .iter()
            .map(|(file, _)| format!("<a href=\"/files/{file}\">{file}</a>"))
            .collect();
        reply(stream, "text/html", links.as_bytes(), links.len());
        return;
    };
    let (kind, mut bytes) = ("application/octet-stream", wheels[number].1.clone());
    let whole = bytes.len();
    if number == 0 {
        let before = count.fetch_add(1, Ordering::Relaxed);
        match fault {
            Fault::Cut(times) if before < times => bytes.truncate(whole / 2),
            Fault::Cut(_) => {}
            Fault::Lie => *bytes.last_mut().unwrap() ^= 1,
        }
    }
    reply(stream, kind, &bytes, whole);
}

/// Says that `length` bytes follow. The last of those that do follow later, so that the installer
/// sees them come.
fn reply(mut stream: &TcpStream, kind: &str, bytes: &[u8], length: usize) {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: \
         close\r\n\r\n"
    );
    let (most, last) = bytes.split_at(bytes.len() - 1);
    // Who closed the connection does not want to know.
    let _ = stream.write_all(&[head.as_bytes(), most].concat());
    if kind != "text/html" {
        thread::sleep(Duration::from_millis(700));
    }
    let _ = stream.write_all(last);
}

/// The settings of a user who takes wheels from this address alone.
fn settings(case: &Demo, address: String) -> Settings {
    let mut settings = case.settings.clone();
    settings.pip.find_links.clear();
    settings.pip.index_url = Some(address);
    settings
}

#[test]
fn a_download_that_was_cut_off_is_tried_again() {
    let case = Demo::new();
    let (address, asked) = serve(&case, Fault::Cut(2));
    let catalog = Catalog::with_kits(vec![case.kit()], &settings(&case, address)).unwrap();
    catalog.install(&demo(), &mut Watcher::default()).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[test]
fn a_download_that_is_always_cut_off_is_not_called_another_wheel() {
    let case = Demo::new();
    let (address, asked) = serve(&case, Fault::Cut(usize::MAX));
    let catalog = Catalog::with_kits(vec![case.kit()], &settings(&case, address)).unwrap();
    let error = catalog
        .install(&demo(), &mut Watcher::default())
        .unwrap_err();
    assert!(asked.load(Ordering::Relaxed) >= 3);
    let text = error.to_string();
    let CatalogError::CutOff {
        arrived_bytes,
        total_bytes,
        ..
    } = error
    else {
        panic!("{text}")
    };
    assert_eq!(total_bytes, case.wheels[0].bytes());
    assert!(arrived_bytes < total_bytes, "{arrived_bytes}");
    assert!(text.contains("was cut off 3 times"), "{text}");
    assert!(!case.home().exists());
    assert!(case.left_in_staging().is_empty());
}

#[test]
fn another_wheel_of_the_same_size_is_not_called_a_cut_connection() {
    let case = Demo::new();
    let (address, asked) = serve(&case, Fault::Lie);
    let catalog = Catalog::with_kits(vec![case.kit()], &settings(&case, address)).unwrap();
    let error = catalog
        .install(&demo(), &mut Watcher::default())
        .unwrap_err();
    let CatalogError::Pip { hint, .. } = &error else {
        panic!("{error}")
    };
    assert!(
        hint.contains("other content than the lock file names"),
        "{hint}"
    );
    assert_eq!(asked.load(Ordering::Relaxed), 1, "once is enough");
}

/// A Python of the case's own whose pip does what the shell is told.
fn with_pip(case: &Demo, script: &str) -> Settings {
    let program = case.folder.path().join("python");
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in\n*download*) {script};;\n*) echo photofinish cpython 3.12 0 25.1;;\nesac\n"
    );
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut settings = case.settings.clone();
    settings.python = Some(program);
    settings
}

#[test]
fn a_pip_that_can_is_told_to_go_on_where_a_download_was_cut_off() {
    let case = Demo::new();
    let settings = with_pip(&case, "echo resumes: $PIP_RESUME_RETRIES; exit 1");
    let catalog = Catalog::with_kits(vec![case.kit()], &settings).unwrap();
    let error = catalog
        .install(&demo(), &mut Watcher::default())
        .unwrap_err();
    let CatalogError::Pip { log, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(log, "resumes: 5");
}

#[test]
fn what_newer_pips_say_of_a_cut_connection_is_understood() {
    for words in [
        "error: incomplete-download",
        "ERROR: Download failed because not enough bytes were received (1 kB/1.2 MB).",
        "Connection broken: IncompleteRead(7 bytes read, 9 more expected)",
    ] {
        let case = Demo::new();
        let tries = case.folder.path().join("tries");
        let script = format!("echo >> {}; echo '{words}'; exit 1", tries.display());
        let settings = with_pip(&case, &script);
        let catalog = Catalog::with_kits(vec![case.kit()], &settings).unwrap();
        let error = catalog
            .install(&demo(), &mut Watcher::default())
            .unwrap_err();
        assert!(matches!(error, CatalogError::CutOff { .. }), "{error}");
        assert_eq!(fs::read(&tries).unwrap().len(), 3, "tried again");
    }
}

#[test]
fn another_package_index_can_be_named() {
    let case = Demo::new();
    let simple = case.folder.path().join("simple");
    for wheel in &case.wheels {
        let folder = simple.join(wheel.name);
        fs::create_dir_all(&folder).unwrap();
        let file = wheel.file.file_name().unwrap().to_str().unwrap();
        fs::copy(&wheel.file, folder.join(file)).unwrap();
        fs::write(
            folder.join("index.html"),
            format!("<a href=\"{file}\">{file}</a>"),
        )
        .unwrap();
    }
    let mut settings = case.settings.clone();
    settings.pip.find_links.clear();
    let nowhere = Catalog::with_kits(vec![case.kit()], &settings).unwrap();
    let error = nowhere
        .install(&demo(), &mut Watcher::default())
        .unwrap_err();
    let CatalogError::Pip { hint, .. } = &error else {
        panic!("{error}")
    };
    assert!(
        hint.contains("config.toml ([pip] index_url, find_links)"),
        "{hint}"
    );

    settings.pip.index_url = Some(format!("file://{}", simple.display()));
    let there = Catalog::with_kits(vec![case.kit()], &settings).unwrap();
    there.install(&demo(), &mut Watcher::default()).unwrap();
}

#[test]
fn without_a_network_the_error_says_so_and_what_else_to_do() {
    let mut case = Demo::new();
    case.settings.pip.find_links.clear();
    // The port of the discard service, where nothing listens.
    case.settings.pip.index_url = Some(String::from("http://127.0.0.1:9/simple"));
    let error = case
        .catalog()
        .install(&demo(), &mut Watcher::default())
        .unwrap_err();
    let CatalogError::Pip { hint, log, .. } = &error else {
        panic!("{error}")
    };
    assert!(hint.starts_with("check the network; "), "{hint}\n{log}");
    assert!(!case.home().exists());
    assert!(case.left_in_staging().is_empty());
}
