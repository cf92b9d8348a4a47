//! A run on a Slurm cluster of four nodes, all of them this machine: every heat is measured once,
//! whatever becomes of nodes, and nothing stays. Times of such nodes tell nothing, and none is looked at.
//!
//! Needs Debian's `slurm-wlm` and `munge`, and root, which `cargo xtask test cluster` sees to.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    io::Read as _,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use common::{User, assert_says, marked, text, wait_for};
use serde_json::Value;

const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// Slurm's daemons, in the foreground and in a folder of their own.
struct Cluster {
    folder: tempfile::TempDir,
    daemons: Vec<Child>,
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Self {
            folder,
            daemons: Vec::new(),
        };
        cluster.authenticate();
        fs::create_dir(cluster.path("state")).unwrap();
        fs::write(cluster.configuration(), cluster.configured()).unwrap();
        cluster.daemon("slurmctld", &["-D"]);
        for node in NODES {
            cluster.daemon("slurmd", &["-D", "-N", node]);
        }
        wait_for("four idle nodes", || {
            let told = cluster.ask("sinfo", &["--noheader", "--Node", "--format=%T"]);
            told.lines().filter(|state| *state == "idle").count() == NODES.len()
        });
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn configuration(&self) -> PathBuf {
        self.path("slurm.conf")
    }

    fn configured(&self) -> String {
        let host = Command::new("hostname").arg("-s").output().unwrap();
        let host = String::from_utf8(host.stdout).unwrap();
        let (host, folder) = (host.trim(), self.folder.path().display());
        let listeners: Vec<TcpListener> = (0..=NODES.len())
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let ports: Vec<u16> = listeners
            .iter()
            .map(|listener| listener.local_addr().unwrap().port())
            .collect();
        let nodes: String = NODES
            .iter()
            .zip(&ports[1..])
            .map(|(node, port)| {
                format!(
                    "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=1000\n"
                )
            })
            .collect();
        format!(
            "ClusterName=photofinish\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\n\
             SlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\nAuthInfo=socket={folder}/socket\nMpiDefault=none\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSlurmdParameters=config_overrides\n\
             ReturnToService=2\nKillWait=5\n\
             StateSaveLocation={folder}/state\nSlurmdSpoolDir={folder}/spool-%n\n\
             SlurmctldPidFile={folder}/slurmctld.pid\nSlurmdPidFile={folder}/slurmd-%n.pid\n\
             SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd-%n.log\n\
             {nodes}PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            ports[0]
        )
    }

    /// Starts what Slurm's programs know each other by.
    fn authenticate(&mut self) {
        let mut secret = [0; 128];
        let mut random = File::open("/dev/urandom").unwrap();
        random.read_exact(&mut secret).unwrap();
        let key = self.path("key");
        fs::write(&key, secret).unwrap();
        // It must be nobody else's, and its socket everybody's.
        fs::set_permissions(key, Permissions::from_mode(0o400)).unwrap();
        fs::set_permissions(self.folder.path(), Permissions::from_mode(0o711)).unwrap();
        let files = ["socket", "key-file", "pid-file", "seed-file", "log-file"];
        let files = files.map(|file| {
            let name = file.trim_end_matches("-file");
            format!("--{file}={}", self.path(name).display())
        });
        let mut words = vec!["--foreground"];
        words.extend(files.iter().map(String::as_str));
        self.daemon("munged", &words);
        let socket = self.path("socket");
        wait_for("munge", || socket.exists());
    }

    fn daemon(&mut self, name: &str, arguments: &[&str]) {
        let daemon = Command::new(name)
            .args(arguments)
            .env("SLURM_CONF", self.configuration())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}; Debian has it in slurm-wlm or munge"));
        self.daemons.push(daemon);
    }

    fn ask(&self, command: &str, arguments: &[&str]) -> String {
        let mut asked = Command::new(command);
        asked.args(arguments);
        let output = self.knows(&mut asked).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The command, which is to speak to this cluster.
    fn knows<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("SLURM_CONF", self.configuration())
    }

    /// Tasks that are there, and have not come to their end.
    fn tasks(&self) -> usize {
        let told = self.ask("squeue", &["--noheader", "--array", "--format=%T"]);
        told.lines().count()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Nodes first: one that finds no controller would wait for it.
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// So many groups of two cells.
fn manifest(groups: u8) -> String {
    let batches: Vec<String> = (1..=groups).map(|batch| batch.to_string()).collect();
    format!(
        "version: 1
title: Many nodes
measure: {{ blocks: 1, rounds: 1, round: 100ms, warm_up: 5ms, disturbed: keep }}
jobs:
  - id: many
    question: Which is faster?
    matrix:
      model: bert_tiny
      seq: 8
      batch: [{}]
      threads: 1
      engine: [pytorch/eager, other/eager]
    compare: {{ axis: engine, baseline: pytorch/eager }}
",
        batches.join(", ")
    )
}

const RUN: [&str; 4] = ["run", "manifest.yaml", "--store", "store"];
const ON_SLURM: [&str; 6] = [
    "run",
    "manifest.yaml",
    "--store",
    "store",
    "--executor",
    "slurm",
];

/// The sealed heats of a store, by their keys.
fn sealed(store: &Path) -> BTreeMap<String, usize> {
    let mut sealed = BTreeMap::new();
    for key in fs::read_dir(store.join("heats")).into_iter().flatten() {
        let key = key.unwrap();
        let files = fs::read_dir(key.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
        let count = names.filter(|name| name.ends_with(".heat.zst")).count();
        if count > 0 {
            sealed.insert(key.file_name().to_string_lossy().into_owned(), count);
        }
    }
    sealed
}

/// The heats that tasks say they have measured, by their content.
fn digests(parts: &Path) -> Vec<String> {
    let submissions = fs::read_dir(parts).unwrap().flatten();
    let files =
        submissions.flat_map(|submission| fs::read_dir(submission.path()).into_iter().flatten());
    let told = files.flatten().filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        let _: usize = name.strip_suffix(".json")?.parse().ok()?;
        let told: Value = serde_json::from_slice(&fs::read(file.path()).ok()?).ok()?;
        Some(told["result"]["sealed"].as_str()?.to_owned())
    });
    told.collect()
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(output)))
}

/// How each group of a record ended.
fn ends(record: &Value) -> BTreeMap<String, String> {
    let heats = record["record"]["heats"].as_array().unwrap();
    let end = |heat: &Value| {
        let ends = heat["heat"].as_object().unwrap();
        let key = format!("{} {}", heat["group"], heat["key"]);
        (key, ends.keys().next().unwrap().clone())
    };
    heats.iter().map(end).collect()
}

#[test]
fn every_heat_is_measured_once_though_a_node_goes_down() {
    let cluster = Cluster::start();
    let user = User::new();
    user.manifest(&manifest(20));
    let mut command = user.command(&ON_SLURM);
    command.args(["--output-format", "json"]);
    let child = cluster.knows(&mut command).spawn().unwrap();
    let store = user.path("store");
    wait_for("heats", || sealed(&store).len() >= 3);
    wait_for("a task that loses its node", || {
        let on_n2 = ["--noheader", "--nodelist=n2", "--states=RUNNING"];
        if cluster.ask("squeue", &on_n2).trim().is_empty() {
            return false;
        }
        let set = |state: &str| {
            let state = format!("State={state}");
            let words = ["update", "NodeName=n2", &state, "Reason=test"];
            assert_eq!(cluster.ask("scontrol", &words), "");
        };
        set("DOWN");
        // It may have come to its end just before.
        let starts = [
            "--noheader",
            "--array",
            "--states=all",
            "--Format=RestartCnt",
        ];
        let starts = cluster.ask("squeue", &starts);
        let is_lost = starts.lines().any(|count| count.trim() == "1");
        if !is_lost {
            set("RESUME");
        }
        is_lost
    });
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_says(&output, "measured anew, at start 2 of its task");
    let told = document(&output);
    let ends_there = ends(&told);
    assert!(ends_there.values().all(|end| end == "sealed"), "{told}");
    assert_eq!(ends_there.len(), 20, "{ends_there:?}");
    let sealed = sealed(&store);
    assert_eq!(sealed.len(), ends_there.len());
    assert!(sealed.values().all(|count| *count == 1), "{sealed:?}");
    assert_eq!(told["measured_heats"], sealed.len());
    assert_eq!(fs::read_dir(store.join("parts")).unwrap().count(), 0);
    assert_eq!(cluster.tasks(), 0);
    // To a local run they are its own.
    let again = user.json(&RUN);
    assert_eq!(again["measured_heats"], 0, "{again}");
    // And what it would have measured itself is the same in all but times.
    let mut local = RUN;
    local[3] = "elsewhere";
    let local = user.json(&local);
    assert_eq!(ends(&local), ends_there);
    let cells = |store: &str| {
        let tables = user.json(&["aggregate", "--store", store]);
        let cells = tables["cells"].as_array().unwrap().iter();
        let told = |cell: &Value| format!("{} {}", cell["id"], cell["outcome"]["kind"]);
        cells.map(told).collect::<Vec<_>>()
    };
    assert_eq!(cells("store"), cells("elsewhere"));
}

#[test]
fn what_is_interrupted_is_cancelled_and_gone_on_with() {
    let cluster = Cluster::start();
    let user = User::new();
    user.manifest(&manifest(10).replace("100ms", "400ms"));
    let mark = user.path("mark").display().to_string();
    let store = user.path("store");
    let begin = || {
        let mut command = user.command(&ON_SLURM);
        command.env("PHOTOFINISH_TEST_MARK", &mark);
        cluster.knows(&mut command).spawn().unwrap()
    };
    let child = begin();
    wait_for("a heat", || !sealed(&store).is_empty());
    let signal = |child: &Child, signal: &str| {
        let status = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(status.unwrap().success());
    };
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    assert_eq!(cluster.tasks(), 0);
    assert_eq!(marked(&mark), Vec::<String>::new(), "processes are left");
    assert_eq!(fs::read_dir(store.join("parts")).unwrap().count(), 0);

    // One that is killed leaves its tasks, and the next one takes over what they have measured.
    let before = sealed(&store).len();
    let mut child = begin();
    wait_for("another heat", || sealed(&store).len() > before);
    signal(&child, "-KILL");
    child.wait().unwrap();
    assert!(cluster.tasks() > 0);
    let has = |digest: &str| {
        let files = user.files("store/heats");
        let mut names = files.iter().map(|(path, _)| path.to_string_lossy());
        names.any(|name| name.contains(digest))
    };
    let mut left = Vec::new();
    wait_for("what nobody has taken over", || {
        left = digests(&store.join("parts"));
        left.retain(|digest| !has(digest));
        !left.is_empty()
    });
    let output = begin().wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_says(&output, "taking over");
    let sealed = sealed(&store);
    assert!(sealed.values().all(|count| *count == 1), "{sealed:?}");
    assert!(left.iter().all(|digest| has(digest)), "{left:?}");
    assert_eq!(cluster.tasks(), 0);
    assert_eq!(marked(&mark), Vec::<String>::new(), "processes are left");
}

#[test]
fn a_task_that_fails_is_told_with_what_it_said() {
    let cluster = Cluster::start();
    let user = User::small();
    let mut command = user.command(&ON_SLURM);
    // On the nodes the engines are others, or none.
    let nowhere = user.path("nowhere");
    fs::create_dir(&nowhere).unwrap();
    fs::write(nowhere.join("engines.toml"), "[engines").unwrap();
    command.env(
        "SBATCH_EXPORT",
        format!("PATH,SLURM_CONF,PHOTOFINISH_CONFIG={}", nowhere.display()),
    );
    let output = cluster.knows(&mut command).output().unwrap();
    assert!(!output.status.success(), "{}", text(&output));
    assert_says(&output, "its task on the cluster ended FAILED");
    assert_says(&output, "engines.toml");
}

#[test]
fn without_slurm_nothing_is_left() {
    let user = User::small();
    let output = user
        .command(&ON_SLURM)
        .env("PATH", user.path("config"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert_says(&output, "`sbatch`: it cannot be started");
    assert!(!user.path("store/parts").exists());
}
