//! Ranks on two hosts, which are network namespaces of this machine with a link between them: they train
//! to what ranks of one host do, and a link that is slow or cut ends no differently.
//!
//! Needs root and Debian's `iproute2`, which `cargo xtask test cluster` sees to.

#![allow(clippy::unwrap_used, reason = "a test may")]

mod common;

use std::{
    process::{self, Child, Command},
    thread,
    time::{Duration, Instant},
};

use common::ranks::*;
use schema::{
    OutcomeKind, Precision, Strategy,
    protocol::{Measure, Request},
};
use worker::WorkerCommand;

/// Two hosts with a link; gone with it.
struct Hosts {
    names: [String; 2],
}

const ADDRESSES: [&str; 2] = ["10.231.77.1", "10.231.77.2"];
const LINK: &str = "pf0";

impl Hosts {
    fn new(of: &str) -> Self {
        let names = ["a", "b"].map(|host| format!("photofinish-{of}-{}-{host}", process::id()));
        let hosts = Self { names };
        for name in &hosts.names {
            ip(&["netns", "add", name]);
        }
        let [a, b] = &hosts.names;
        ip(&[
            "link", "add", LINK, "netns", a, "type", "veth", "peer", "name", LINK, "netns", b,
        ]);
        for (name, address) in hosts.names.iter().zip(ADDRESSES) {
            let within = |words: &[&str]| ip(&[&["-n", name], words].concat());
            within(&["address", "add", &format!("{address}/24"), "dev", LINK]);
            within(&["link", "set", LINK, "up"]);
            within(&["link", "set", "lo", "up"]);
        }
        hosts
    }

    /// The worker of a rank, on the host of its number.
    fn worker(&self, rank: usize) -> WorkerCommand {
        let worker = launched(&rank.to_string(), "2", 29_507);
        let mut env = worker.env;
        env.insert("LOCAL_RANK".to_owned(), "0".to_owned());
        env.insert("MASTER_ADDR".to_owned(), ADDRESSES[0].to_owned());
        env.insert("GLOO_SOCKET_IFNAME".to_owned(), LINK.to_owned());
        let program = worker.program.display().to_string();
        let words = ["netns", "exec", &self.names[rank], &program];
        WorkerCommand {
            program: "ip".into(),
            args: words.map(str::to_owned).into(),
            env,
        }
    }

    /// Starts the rank that no supervisor speaks to.
    fn second(&self) -> Second {
        let worker = self.worker(1);
        let started = Command::new(&worker.program)
            .args(&worker.args)
            .envs(&worker.env)
            .spawn();
        Second(started.unwrap())
    }

    /// No more than so much goes to the second host, where this kernel can hold it back.
    fn slow_down(&self, rate: &str) -> bool {
        let words = [
            "netns",
            "exec",
            &self.names[0],
            "tc",
            "qdisc",
            "add",
            "dev",
            LINK,
        ];
        let held = [
            "root", "tbf", "rate", rate, "burst", "256kb", "latency", "500ms",
        ];
        let output = Command::new("ip").args(words).args(held).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() || said.contains("kind is unknown"),
            "{said}"
        );
        output.status.success()
    }

    fn cut(&self) {
        ip(&["-n", &self.names[0], "link", "set", LINK, "down"]);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

/// A rank that a launcher started, which ends it with the others.
struct Second(Child);

impl Drop for Second {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(words: &[&str]) {
    let ended = Command::new("ip").args(words).status();
    assert!(
        ended.as_ref().is_ok_and(process::ExitStatus::success),
        "ip {}: {ended:?}; this needs root and iproute2",
        words.join(" ")
    );
}

#[test]
fn two_hosts_train_as_one_does_over_a_slow_link_too() {
    let hosts = Hosts::new("slow");
    let graph = network("bert_tiny", 2);
    let cell = cell(&graph, Precision::Fp64, Strategy::Ddp, 2);
    let own = trained("bert_tiny", Precision::Fp64, Strategy::Ddp, 2, &[]);
    for rate in [None, Some("400mbit")] {
        if let Some(rate) = rate
            && !hosts.slow_down(rate)
        {
            break;
        }
        let mut second = hosts.second();
        let mut loaded = start(&graph, &cell, &hosts.worker(0)).unwrap();
        assert_eq!(loaded.outputs(), own);
        assert_eq!(loaded.measure(2).unwrap().len(), 2);
        loaded.end();
        // It was told to leave.
        assert!(second.0.wait().unwrap().success());
    }
}

#[test]
fn a_link_that_is_cut_ends_with_the_patience_of_whoever_asked() {
    let hosts = Hosts::new("cut");
    let graph = network("bert_tiny", 2);
    let cell = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    let second = hosts.second();
    let mut loaded = start(&graph, &cell, &hosts.worker(0)).unwrap();
    loaded.measure(2).unwrap();
    hosts.cut();
    let request = Request::Measure(Measure {
        discard: 0,
        min_steps: 1000,
        min_ns: 0,
        max_steps: 1000,
    });
    let soon = Instant::now() + Duration::from_secs(5);
    let failure = loaded.host.request(&request, soon).unwrap_err();
    assert_eq!(failure.kind, OutcomeKind::TimedOut, "{failure:?}");
    drop((loaded, second));
}

#[test]
fn a_rank_that_joins_late_is_waited_for_and_one_that_never_does_is_told() {
    let hosts = Hosts::new("late");
    let graph = network("bert_tiny", 2);
    let cell = cell(&graph, Precision::Fp32, Strategy::Ddp, 2);
    let late = thread::scope(|scope| {
        let late = scope.spawn(|| {
            thread::sleep(Duration::from_secs(3));
            hosts.second()
        });
        let mut loaded = start(&graph, &cell, &hosts.worker(0)).unwrap();
        loaded.measure(1).unwrap();
        loaded.end();
        late.join().unwrap()
    });
    drop(late);
    let soon = Instant::now() + Duration::from_secs(5);
    let failure = start_by(&graph, &cell, &hosts.worker(0), soon)
        .err()
        .unwrap();
    assert_eq!(failure.kind, OutcomeKind::TimedOut, "{failure:?}");
}
