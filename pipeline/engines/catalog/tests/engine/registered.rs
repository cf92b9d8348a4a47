//! Engines of the user's own, and the settings that say where everything is.

use std::{ffi::OsString, fs, os::unix::fs::PermissionsExt as _, path::Path};

use photofinish_catalog::{Catalog, CatalogError, EngineState, Pip, Settings};

use crate::common::Demo;

const VARIANT: &str = r#"
[[engines.mine.variants]]
name = "only"
summary = "the only one"
host_language = "other"
devices = ["cpu"]
precisions = ["fp32"]
modes = ["inference"]
boundaries = ["step"]
"#;

fn load(case: &Demo, text: &str) -> Result<Catalog, CatalogError> {
    fs::create_dir_all(&case.settings.config).unwrap();
    fs::write(case.settings.config.join("engines.toml"), text).unwrap();
    Catalog::with_kits(vec![case.kit()], &case.settings)
}

#[test]
fn a_registered_engine_is_described_and_started_as_its_table_says() {
    let case = Demo::new();
    let text = format!(
        "[engines.mine]\ncommand = [\"sh\", \"-c\", \"exit\"]\nenv = {{ A = \"1\" }}\n\
         title = \"Mine\"\nversion = \"0.1\"\n{VARIANT}\
         [engines.mine.variants.factors.depth]\nvalues = [\"1\", \"2\"]\nsummary = \"how deep\"\n"
    );
    let catalog = load(&case, &text).unwrap();
    let descriptions = catalog.descriptions();
    let names: Vec<_> = descriptions
        .iter()
        .map(|engine| engine.name.as_str())
        .collect();
    assert_eq!(names, ["demo", "mine"]);
    assert_eq!(descriptions[1].title, "Mine");
    assert_eq!(
        descriptions[1].variants[0].factors["depth"].values,
        ["1", "2"]
    );
    let command = catalog.command(&"mine/only".parse().unwrap()).unwrap();
    assert!(command.program.is_absolute() && command.program.ends_with("sh"));
    assert_eq!(command.args, ["-c", "exit"]);
    assert_eq!(command.env["A"], "1");
    let EngineState::Registered { command: words } = catalog.state(&catalog.kits()[1]) else {
        panic!()
    };
    assert_eq!(words[1..], ["-c", "exit"]);
    let availability = &catalog.availability()[&"mine/only".parse().unwrap()];
    assert_eq!((availability.lock, &availability.missing), (None, &None));
}

#[test]
fn whatever_a_worker_is_made_of_is_in_its_digest() {
    let case = Demo::new();
    let script = case.folder.path().join("worker.py");
    let data = case.settings.config.join("data.bin");
    fs::create_dir_all(&case.settings.config).unwrap();
    fs::write(&script, "1").unwrap();
    fs::write(&data, "1").unwrap();
    let table = |env: &str, arg: &str| {
        let script = script.display();
        format!(
            "[engines.mine]\ncommand = [\"sh\", \"{script}\", \"{arg}\"]\nenv = {{ A = \"{env}\" }}\n\
             files = [\"data.bin\"]\n{VARIANT}"
        )
    };
    let digest = |text: String| {
        load(&case, &text).unwrap().availability()[&"mine/only".parse().unwrap()].worker
    };
    let first = digest(table("1", "x"));
    assert_eq!(digest(table("1", "x")), first);
    assert_ne!(digest(table("2", "x")), first);
    assert_ne!(digest(table("1", "y")), first);
    fs::write(&data, "2").unwrap();
    let second = digest(table("1", "x"));
    assert_ne!(second, first);
    fs::write(&script, "2").unwrap();
    assert_ne!(digest(table("1", "x")), second);
}

#[test]
fn the_machine_s_compiler_counts_for_what_compiles_with_it_and_for_nothing_else() {
    let mut case = Demo::new();
    let folder = case.folder.path().join("bin");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("c++-of-mine");
    let write = |text: &str| {
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    };
    write("version 1");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
    let text = format!(
        "[engines.mine]\ncommand = [\"sh\"]\n{VARIANT}compiles_cxx = true\n\
         [engines.other]\ncommand = [\"sh\"]\n{}",
        VARIANT.replace("mine", "other")
    );
    // What the keys count, and the worker is told.
    let of = |case: &Demo, name: &str| {
        let catalog = load(case, &text).unwrap();
        let variant = name.parse().unwrap();
        let counted = catalog.availability()[&variant].compiler;
        let told = catalog.command(&variant).unwrap().env;
        let counted_text = counted.map(|digest| digest.to_string());
        assert_eq!(told.get(worker::CXX_VARIABLE), counted_text.as_ref());
        counted
    };
    let mut seen = vec![of(&case, "mine/only")];
    let mut changes = |case: &Demo, what: &str| {
        let now = of(case, "mine/only");
        assert!(now.is_some() && !seen.contains(&now), "{what}");
        assert_eq!(of(case, "mine/only"), now, "{what}: the same again");
        assert_eq!(of(case, "other/only"), None);
        seen.push(now);
    };
    case.settings.search_path = std::env::join_paths([&folder, Path::new("/bin")]).unwrap();
    case.settings.cxx = OsString::from("c++-of-mine");
    changes(&case, "there is one now");
    write("#!/bin/sh\necho 'version 2'");
    changes(&case, "another program");
    // A wrapper, which stays as it is.
    let wrapped = folder.join("wrapped");
    write(&format!("#!/bin/sh\ncat {}", wrapped.display()));
    fs::write(&wrapped, "version 3").unwrap();
    changes(&case, "a wrapper");
    fs::write(&wrapped, "version 4").unwrap();
    changes(&case, "another compiler behind the wrapper");
    case.settings.cxx = program.clone().into_os_string();
    changes(&case, "another name for it");
    case.settings.cxx = OsString::from("/dev/zero");
    changes(&case, "no program at all");
}

#[test]
fn a_worker_named_by_a_relative_path_counts_from_the_folder_of_the_file() {
    let case = Demo::new();
    let script = case.settings.config.join("pw.py");
    fs::create_dir_all(&case.settings.config).unwrap();
    fs::write(&script, "1").unwrap();
    let text = format!("[engines.mine]\ncommand = [\"sh\", \"pw.py\", \"bad\"]\n{VARIANT}");
    let catalog = load(&case, &text).unwrap();
    let command = catalog.command(&"mine/only".parse().unwrap()).unwrap();
    assert_eq!(command.args, [script.to_str().unwrap(), "bad"]);
    let first = catalog.availability()[&"mine/only".parse().unwrap()].worker;
    fs::write(&script, "2").unwrap();
    let second = load(&case, &text).unwrap().availability()[&"mine/only".parse().unwrap()].worker;
    assert_ne!(second, first);
}

#[test]
fn a_program_that_is_not_there_is_missing_not_an_error() {
    let case = Demo::new();
    for (command, named) in [
        ("/nonexistent/worker", String::from("/nonexistent/worker")),
        (
            "no-such-worker-anywhere",
            String::from("no-such-worker-anywhere"),
        ),
        (
            "bin/worker",
            case.settings
                .config
                .join("bin/worker")
                .display()
                .to_string(),
        ),
    ] {
        let text = format!("[engines.mine]\ncommand = [\"{command}\"]\n{VARIANT}");
        let catalog = load(&case, &text).unwrap();
        let missing = catalog.availability()[&"mine/only".parse().unwrap()]
            .missing
            .clone()
            .unwrap();
        let reason = "which engines.toml names as the worker of engine `mine`, is no program";
        assert_eq!(missing, format!("{named}, {reason}"));
        let outcome = catalog.command(&"mine/only".parse().unwrap()).unwrap_err();
        assert_eq!(outcome.reason, missing);
    }
}

#[test]
fn a_built_in_engine_is_replaced_only_on_purpose() {
    let case = Demo::new();
    let variant = VARIANT.replace("mine", "demo");
    let text = format!("[engines.demo]\ncommand = [\"sh\"]\n{variant}");
    assert!(load(&case, &text).is_err());
    let text = format!("[engines.demo]\ncommand = [\"sh\"]\nreplace = true\n{variant}");
    let catalog = load(&case, &text).unwrap();
    assert_eq!(catalog.descriptions().len(), 1);
    assert!(matches!(
        catalog.state(&catalog.kits()[0]),
        EngineState::Registered { .. }
    ));
}

#[test]
fn mistakes_in_engines_toml_are_shown_with_their_place() {
    let case = Demo::new();
    let good = format!("[engines.mine]\ncommand = [\"sh\"]\n{VARIANT}");
    let refuses = |said: &str| {
        format!(
            "[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\nsummary = \"\"\n\
             [[engines.mine.variants.refuses]]\n{said}\n"
        )
    };
    let mistakes = [
        good.replace("[\"sh\"]", "[]"),
        good.replace("[\"sh\"]", "\"sh\""),
        good.replace("[\"sh\"]", "[\"\"]"),
        good.replace("[\"sh\"]", "[\"sh\", \"a\\u0000b\"]"),
        good.replace("command = [\"sh\"]", ""),
        good.replace("command", "comand"),
        good.replace("[engines.mine]", "[engine.mine]")
            .replace("engines.mine", "engine.mine"),
        good.replace("mine", "Mine"),
        good.replace("mine", "demo"),
        good.replace("\"cpu\"", "\"gpu\""),
        good.replace("\"fp32\"", "\"float32\""),
        good.replace("[\"inference\"]", "[]"),
        format!("{good}{VARIANT}"),
        format!("{good}[engines.mine.variants.factors.batch]\nvalues = [\"1\"]\nsummary = \"\"\n"),
        format!("{good}[engines.mine.variants.factors.depth]\nvalues = []\nsummary = \"\"\n"),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\", \"1\"]\nsummary = \"\"\n"
        ),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\nsummary = \"\"\nprecisions = [\"bf16\"]\n"
        ),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\nsummary = \"\"\nmodes = [\"training\"]\n"
        ),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\nsummary = \"\"\ndevices = [\"cuda\"]\n"
        ),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"auto\", \"1\"]\nsummary = \"\"\nauto = {{ inference = \"2\" }}\n"
        ),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\nsummary = \"\"\n[engines.mine.variants.fixed]\ndepth = \"1\"\n"
        ),
        format!("{good}[engines.mine.variants.fixed]\ndepth = \"\"\n"),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\nsummary = \"\"\nbrings = {{ 2 = {{ width = \"1\" }} }}\n"
        ),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\nsummary = \"\"\nbrings = {{ 1 = {{ depth = \"1\" }} }}\n"
        ),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\nsummary = \"\"\nbrings = {{ 1 = {{ width = \"\" }} }}\n"
        ),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\nsummary = \"\"\nbrings = {{ 1 = {{ width = \"2\" }} }}\n[engines.mine.variants.factors.width]\nvalues = [\"1\"]\nsummary = \"\"\n"
        ),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\nsummary = \"\"\nbrings = {{ 1 = {{ width = \"1\" }} }}\n[engines.mine.variants.fixed]\nwidth = \"2\"\n"
        ),
        String::from("[engines.mine]\ncommand = [\"sh\"]\nvariants = []\n"),
        String::from("[engines.mine\n"),
        format!("# ünïcödé\n{}", good.replace("\"only\"", "\"On ly\"")),
        // In the second of two engines, and in the second of two variants.
        format!("{good}\n[engines.second]\nsumary = \"\"\n"),
        format!("{good}\n[engines.second]\ncommand = [\"sh\"]\n"),
        format!("{good}\n[engines]\nsecond.command = [\"sh\"]\n"),
        format!("{good}{}", VARIANT.replace("devices = [\"cpu\"]\n", "")),
        format!("{good}{}", VARIANT.replace("devices", "device")),
        format!("{good}{}", VARIANT.replace("inference", "inferense")),
        format!("{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\"]\n"),
        good.replace("variants]]", "variant]]"),
        String::from("engines = { mine = { command = [\"sh\"] }, second = 1 }\n"),
        format!("{good}[engines.mine.banana]\n"),
        String::from("engines = 1\n"),
        format!("{good}[engines.mine.variants.lacks]\nfp32 = \"why\"\n"),
        format!("{good}[engines.mine.variants.lacks]\nbf16 = \"\"\n"),
        format!("{good}[engines.mine.variants.lacks]\nfp8 = \"why\"\n"),
        format!("{good}networks = [\"gpt2\", \"gpt2\"]\n"),
        format!("{good}{}", refuses("reason = \"\"")),
        format!("{good}{}", refuses("reason = \"why\"\nfactors = {}")),
        format!(
            "{good}{}",
            refuses("reason = \"why\"\nfactors = { depth = [\"1\"] }\nprecisions = [\"bf16\"]")
        ),
        format!(
            "{good}{}",
            refuses("reason = \"why\"\nfactors = { depth = [\"1\"] }\nmodes = [\"training\"]")
        ),
        format!(
            "{good}{}",
            refuses("reason = \"why\"\nfactors = { depth = [\"1\"] }\ndevices = [\"cuda\"]")
        ),
        format!(
            "{good}networks = [\"gpt2\"]\n{}",
            refuses("reason = \"why\"\nfactors = { depth = [\"1\"] }\nnetworks = [\"vit\"]")
        ),
        format!(
            "{good}{}",
            refuses("reason = \"why\"\nfactors = { width = [\"1\"] }")
        ),
        format!(
            "{good}{}",
            refuses("reason = \"why\"\nfactors = { depth = [\"2\"] }")
        ),
        format!(
            "{good}{}",
            refuses("reason = \"why\"\nfactors = { depth = [] }")
        ),
        format!(
            "{good}[engines.mine.variants.factors.depth]\nvalues = [\"1\", \"0\"]\nsummary = \"\"\ndivides = \"batch\"\n"
        ),
    ];
    let mut report = String::new();
    for text in mistakes {
        let error = load(&case, &text).expect_err(&text).to_string();
        let folder = format!("{}/", case.settings.config.display());
        report += &format!("{}\n", error.replace(&folder, ""));
    }
    insta::assert_snapshot!(report);
}

#[test]
fn no_text_may_steer_a_terminal() {
    let case = Demo::new();
    let good = format!(
        "[engines.mine]\ncommand = [\"sh\", \"word\"]\ntitle = \"word\"\nsummary = \"word\"\n\
         version = \"word\"\nfiles = [\"word\"]\nenv = {{ A = \"1\" }}\n{VARIANT}\
         [engines.mine.variants.factors.depth]\nvalues = [\"word\"]\nsummary = \"word\"\n\
         [engines.mine.variants.fixed]\nwidth = \"word\"\n\
         [engines.mine.variants.lacks]\nbf16 = \"word\"\n\
         [[engines.mine.variants.refuses]]\nreason = \"word\"\nfactors = {{ depth = [\"word\"] }}\n"
    );
    assert!(load(&case, &good).is_ok());
    for odd in [
        "\\u001b[2J",
        "\\n",
        "\\u0000",
        "\\u009b",
        "\\u202e",
        "\\u2066",
        "\\u061c",
        "\u{202e}",
    ] {
        for (at, _) in good.match_indices("\"word\"") {
            let mut text = good.clone();
            text.replace_range(at..at + 6, &format!("\"wo{odd}rd\""));
            let line = good[..at].matches('\n').count() + 1;
            let column = at - good[..at].rfind('\n').unwrap();
            let error = load(&case, &text).expect_err(&text).to_string();
            let place = format!("engines.toml:{line}:{column}: this text holds the character U+");
            assert!(error.contains(&place), "{error}");
            assert!(
                !error.contains(['\u{1b}', '\u{202e}', '\u{9b}']),
                "{error:?}"
            );
        }
    }
    for text in [
        format!("[engines.\"a\\u001bb\"]\ncommand = [\"sh\"]\n{VARIANT}"),
        format!("[engines.mine]\n\"a\\u001bb\" = 1\ncommand = [\"sh\"]\n{VARIANT}"),
        good.replace("A = ", "\"a\\u001bb\" = "),
    ] {
        let error = load(&case, &text).expect_err(&text).to_string();
        assert!(error.contains("U+001B"), "{error}");
    }
    // A variable's value is handed on, not shown.
    let text = good.replace("A = \"1\"", "A = \"1\\n2\"");
    assert!(load(&case, &text).is_ok());
}

#[test]
fn depth_is_bounded() {
    let case = Demo::new();
    let deep = "a.".repeat(200_000);
    for text in [
        format!("[engines.{deep}a]\n"),
        format!("engines.{deep}a = 1\n"),
        format!("[[{deep}a]]\n"),
        format!("engines = {}", "[".repeat(500_000)),
        format!("engines = {}", "{ a = ".repeat(100_000)),
    ] {
        let error = load(&case, &text).unwrap_err().to_string();
        assert!(
            error.contains("engines.toml:1:") && error.len() < 2000,
            "{error}"
        );
    }
}

#[test]
fn settings_come_from_the_environment_and_the_users_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path).into_os_string();
    let settings = |set: &[(&str, OsString)]| {
        let set = set.to_vec();
        Settings::from_variables(&move |name| {
            set.iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.clone())
        })
    };
    assert!(matches!(settings(&[]), Err(CatalogError::NoHome)));
    let home = settings(&[("HOME", at("home")), ("XDG_CACHE_HOME", "relative".into())]).unwrap();
    assert_eq!(
        home.engines,
        Path::new(&at("home/.cache/photofinish/engines"))
    );
    assert_eq!(home.config, Path::new(&at("home/.config/photofinish")));
    let xdg = settings(&[("XDG_CACHE_HOME", at("c")), ("XDG_CONFIG_HOME", at("d"))]).unwrap();
    assert_eq!(xdg.engines, Path::new(&at("c/photofinish/engines")));
    assert_eq!(xdg.config, Path::new(&at("d/photofinish")));

    let own = [
        ("PHOTOFINISH_ENGINES", at("e")),
        ("PHOTOFINISH_CONFIG", at("f")),
        ("PHOTOFINISH_PYTHON", "python3.12".into()),
    ];
    fs::create_dir(at("f")).unwrap();
    let file = folder.path().join("f/config.toml");
    let text = "[pip]\nindex_url = \"https://mirror.example/simple\"\nfind_links = [\"wheels\"]\n\
                [install]\nkeep_wheels = true\n";
    fs::write(&file, text).unwrap();
    let settings_of_file = settings(&own).unwrap();
    assert_eq!(settings_of_file.engines, Path::new(&at("e")));
    assert_eq!(
        settings_of_file.python.as_deref(),
        Some(Path::new("python3.12"))
    );
    assert!(settings_of_file.keep_wheels);
    let pip = Pip {
        index_url: Some(String::from("https://mirror.example/simple")),
        extra_index_url: Vec::new(),
        find_links: vec![String::from("wheels")],
    };
    assert_eq!(settings_of_file.pip, pip);

    fs::write(&file, "[pip]\nindex = \"x\"\n").unwrap();
    let error = settings(&own).unwrap_err().to_string();
    assert!(
        error.contains("config.toml:2:1: unknown key `index`; did you mean `index_url`?"),
        "{error}"
    );
}
