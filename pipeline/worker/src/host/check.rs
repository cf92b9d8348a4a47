//! Whether what a worker says makes sense.

use std::{collections::BTreeSet, time::Duration};

use schema::{
    Outcome, OutcomeKind,
    protocol::{
        Exchanges, Loaded, MOST_BUCKETS, MOST_ENTRIES, MOST_NAME_CHARS, Measure, Profile, Reply,
        Request, Samples, StepExchanges, VERSION, WarmUpDone,
    },
};

use crate::serve::timing::MAX_SAMPLES;

/// Replies other than samples and outputs are small; this is generous.
const SMALL_BYTES: usize = 1 << 20;

/// How much of a message is shown.
const EXCERPT_BYTES: usize = 80;

/// How much of a reason is kept.
const REASON_CHARS: usize = 4000;

/// No clock can be read twice in less, whatever is between the readings: a reading takes some
/// twenty cycles of the fastest processors.
const CLOCK_NS: u128 = 3;

/// What a reply is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    /// The name of the request, or of the message that opens the conversation.
    pub(super) name: &'static str,
    /// The name of a proper reply; failures are always possible.
    reply: Option<&'static str>,
    /// What samples must keep to.
    measure: Option<Measure>,
    /// How many steps a warm-up must take.
    warm_up_steps: u64,
    /// How many steps a profile must be of.
    profile_steps: u64,
}

/// What happened between a question and its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interim {
    /// The time that went by.
    pub(super) elapsed: Duration,
    /// Whether the supervisor sent `cancel`.
    pub(super) cancelled: bool,
    /// Whether samples are a device's own times, which leave out what the host does.
    pub(super) by_device: bool,
}

impl Asked {
    /// The `hello`, which nobody asks for.
    pub(super) const HELLO: Self = Self {
        name: "hello",
        reply: Some("hello"),
        measure: None,
        warm_up_steps: 0,
        profile_steps: 0,
    };

    /// Something that is no message: it can only be failed.
    pub(super) const NONSENSE: Self = Self {
        name: "nonsense",
        reply: None,
        measure: None,
        warm_up_steps: 0,
        profile_steps: 0,
    };

    pub(super) fn request(request: &Request) -> Self {
        let name = request.name();
        Self {
            name,
            reply: match request {
                Request::Load(_) => Some("loaded"),
                Request::Cancel => None,
                _ => Some(name),
            },
            measure: match request {
                Request::Measure(limits) => Some(*limits),
                _ => None,
            },
            warm_up_steps: match request {
                Request::WarmUp(limits) => limits.min_steps,
                _ => 0,
            },
            profile_steps: match request {
                Request::Profile(asked) | Request::Exchanges(asked) => asked.steps,
                _ => 0,
            },
        }
    }

    /// Completes "the worker ended …".
    pub(super) fn doing(&self) -> String {
        if *self == Self::HELLO {
            "before it said `hello`".to_owned()
        } else {
            format!("before it answered `{}`", self.name)
        }
    }
}

/// Reads the reply to what was asked. The error says what is wrong, for a reader.
pub(super) fn reply(line: &[u8], asked: &Asked, interim: Interim) -> Result<Reply, String> {
    let name = asked.name;
    if line.len() > SMALL_BYTES && !matches!(name, "measure" | "parity" | "profile" | "exchanges") {
        let (length, text) = (line.len(), excerpt(line));
        return Err(format!(
            "the worker answered `{name}` with {length} bytes, where a few would do: {text}"
        ));
    }
    if *asked == Asked::HELLO {
        version(line)?;
    }
    let reply: Reply = serde_json::from_slice(line).map_err(|error| {
        let text = excerpt(line);
        format!("the worker spoke garbage instead of `{name}` ({error}): {text}")
    })?;
    match &reply {
        Reply::Failed(outcome) => return failed(outcome.clone(), name).map(Reply::Failed),
        reply if asked.reply != Some(reply.name()) => {
            return Err(format!(
                "the worker answered `{}` instead of `{name}`",
                reply.name()
            ));
        }
        Reply::Measure(samples) => {
            if let Some(limits) = &asked.measure {
                measured(samples, limits, interim)?;
            }
        }
        Reply::Loaded(phases) => loaded(phases, interim.elapsed)?,
        Reply::Exchanges(told) => exchanged(told, asked.profile_steps, interim.elapsed)?,
        Reply::Profile(profile) => profiled(profile, asked.profile_steps, interim.elapsed)?,
        Reply::WarmUp(done) => warmed_up(done, asked.warm_up_steps, interim)?,
        _ => {}
    }
    Ok(reply)
}

/// Some endings are not a worker's to tell.
fn failed(mut outcome: Outcome, name: &str) -> Result<Outcome, String> {
    let not_to_tell = || {
        format!(
            "the worker failed `{name}` with outcome `{}`, which is not a worker's to tell: {}",
            outcome.kind,
            excerpt(outcome.reason.as_bytes())
        )
    };
    match outcome.kind {
        OutcomeKind::Measured
        | OutcomeKind::Verified
        | OutcomeKind::Unstable
        | OutcomeKind::ParityUnverified
        | OutcomeKind::NotReached => return Err(not_to_tell()),
        // Of outputs that cannot be written down, such as a loss that is no number, and of a training
        // that has diverged it may.
        OutcomeKind::ParityFailed if !matches!(name, "parity" | "measure") => {
            return Err(not_to_tell());
        }
        OutcomeKind::TimedOut
        | OutcomeKind::OutOfMemory
        | OutcomeKind::Crashed
        | OutcomeKind::ParityFailed
        | OutcomeKind::Unsupported
        | OutcomeKind::Unavailable => {}
    }
    outcome.reason = outcome.reason.chars().take(REASON_CHARS).collect();
    if outcome.reason.trim().is_empty() {
        outcome.reason = format!("the worker gave no reason for failing `{name}`");
    }
    Ok(outcome)
}

/// A `hello` of another version may have other fields, so its version is read by itself first.
fn version(line: &[u8]) -> Result<(), String> {
    let protocol = serde_json::from_slice::<serde_json::Value>(line)
        .ok()
        .and_then(|value| value.get("hello")?.get("protocol")?.as_u64());
    match protocol {
        Some(version) if version != u64::from(VERSION) => Err(format!(
            "the worker speaks protocol {version}, this photofinish speaks {VERSION}: reinstall \
             the engine with `photofinish engines install`, or update its registered worker"
        )),
        _ => Ok(()),
    }
}

/// Samples must be what was asked for, and possible.
///
/// Nothing is said about samples that are few for the time that the answer took. Discarded steps,
/// whatever an engine does between steps (for a `device` boundary nearly all of the time), and
/// other processes may take any share of it, so that no bound exists that an honest worker on a
/// busy machine could not meet.
fn measured(samples: &Samples, limits: &Measure, interim: Interim) -> Result<(), String> {
    let count = samples.samples_ns.len() as u64;
    let most = limits.max_steps.min(MAX_SAMPLES);
    let least = limits.min_steps.min(most);
    if samples.cancelled && !interim.cancelled {
        return Err("the worker says that it was cancelled, and it was not".to_owned());
    }
    if count > limits.max_steps {
        return Err(format!(
            "the worker gave {count} samples where at most {} were asked for",
            limits.max_steps
        ));
    }
    if count < least && !samples.cancelled {
        return Err(format!(
            "the worker gave {count} samples where at least {least} were asked for"
        ));
    }
    if samples.samples_ns.contains(&0) {
        return Err("the worker gave a sample of 0 ns".to_owned());
    }
    let total_ns: u128 = samples.samples_ns.iter().copied().map(u128::from).sum();
    let least_ns = limits.min_ns / 2;
    let (last, lasted_ns) = if interim.by_device {
        ("and all else last", interim.elapsed.as_nanos())
    } else {
        ("last", total_ns)
    };
    if count < most && lasted_ns < u128::from(least_ns) && !samples.cancelled {
        return Err(format!(
            "the worker's {count} samples {last} {lasted_ns} ns together where at least {least_ns} \
             ns or {most} samples were to be had"
        ));
    }
    if total_ns < u128::from(count) * CLOCK_NS && !interim.by_device {
        return Err(format!(
            "the worker's {count} samples last {total_ns} ns together, less than it takes to read \
             a clock"
        ));
    }
    possible("the worker's samples last", total_ns, interim.elapsed)
}

/// Phases follow each other, so that together they cannot last longer than their answer took.
fn loaded(phases: &Loaded, elapsed: Duration) -> Result<(), String> {
    let total_ns = [
        phases.fill_ns,
        phases.build_ns,
        phases.compile_ns,
        phases.first_step_ns,
    ]
    .map(u128::from)
    .iter()
    .sum();
    possible("the worker's phases of `load` last", total_ns, elapsed)
}

fn warmed_up(done: &WarmUpDone, least: u64, interim: Interim) -> Result<(), String> {
    if done.steps < least && !interim.cancelled {
        return Err(format!(
            "the worker warmed up for {} steps where at least {least} were asked for",
            done.steps
        ));
    }
    let total_ns = u128::from(done.total_ns);
    possible("the worker's warm-up lasts", total_ns, interim.elapsed)
}

/// A profile is of the steps that were asked for, its entries have names, and their times are within
/// that of the steps: each moment is in one entry at most.
fn profiled(profile: &Profile, steps: u64, elapsed: Duration) -> Result<(), String> {
    if profile.steps != steps {
        return Err(format!(
            "the worker profiled {} steps where {steps} were asked for",
            profile.steps
        ));
    }
    if profile.wall_ns == 0 {
        return Err("the worker's profiled steps took no time at all".to_owned());
    }
    let count = profile.entries.len();
    if count > MOST_ENTRIES {
        return Err(format!(
            "the worker's profile has {count} entries where {MOST_ENTRIES} are possible"
        ));
    }
    let is_named = |name: &str| !name.trim().is_empty() && name.chars().count() <= MOST_NAME_CHARS;
    if let Some(entry) = profile.entries.iter().find(|entry| !is_named(&entry.name)) {
        return Err(format!(
            "an entry of the worker's profile has no name of 1 to {MOST_NAME_CHARS} characters: {}",
            excerpt(entry.name.as_bytes())
        ));
    }
    let entries_ns: u128 = profile
        .entries
        .iter()
        .map(|entry| u128::from(entry.time_ns))
        .sum();
    // Engines count in microseconds, some of them, and round each.
    let wall_ns = u128::from(profile.wall_ns);
    let possible_ns = wall_ns + wall_ns / 50 + 1_000_000;
    if entries_ns > possible_ns {
        return Err(format!(
            "the entries of the worker's profile last {entries_ns} ns together, in steps of \
             {wall_ns} ns"
        ));
    }
    possible("the worker's profiled steps last", wall_ns, elapsed)
}

fn exchanged(told: &Exchanges, steps: u64, elapsed: Duration) -> Result<(), String> {
    let is_whole = |rank: &Vec<StepExchanges>| rank.len() as u64 == steps;
    if told.ranks.is_empty() || !told.ranks.iter().all(is_whole) {
        return Err(format!(
            "the worker tells of other than {steps} steps of each rank"
        ));
    }
    for rank in &told.ranks {
        for step in rank {
            let is_within = step.backward_ns <= step.wall_ns
                && step.buckets.iter().all(|bucket| {
                    bucket.began_ns <= bucket.ended_ns && bucket.ended_ns <= step.wall_ns
                });
            if !is_within || step.wall_ns == 0 {
                return Err("the worker tells of exchanges outside of their step".to_owned());
            }
            if step.buckets.len() > MOST_BUCKETS {
                return Err(format!(
                    "the worker tells of {} buckets in a step, where {MOST_BUCKETS} are possible",
                    step.buckets.len()
                ));
            }
        }
        let all_ns = rank.iter().map(|step| u128::from(step.wall_ns)).sum();
        possible("the steps whose exchanges are told last", all_ns, elapsed)?;
    }
    Ok(())
}

/// The first node that a profile speaks of and the graph lacks, for a reader.
pub(super) fn stranger(profile: &Profile, nodes: &BTreeSet<String>) -> Option<String> {
    let entries = profile.entries.iter();
    let mut named = entries.flat_map(|entry| entry.nodes.iter().map(move |node| (entry, node)));
    let (entry, node) = named.find(|(_, node)| !nodes.contains(*node))?;
    Some(format!(
        "the worker's profile says that {} computes node {}, and the graph has no such node",
        excerpt(entry.name.as_bytes()),
        excerpt(node.as_bytes())
    ))
}

/// What happened between a question and its answer cannot last longer than the answer took.
fn possible(what: &str, total_ns: u128, elapsed: Duration) -> Result<(), String> {
    // Device events are read from another clock, which may go a little faster; and a clock may
    // tick by the millisecond.
    let possible_ns = elapsed.as_nanos() * 51 / 50 + 1_000_000;
    if total_ns > possible_ns {
        return Err(format!(
            "{what} {} ms together, but it answered after {} ms",
            total_ns / 1_000_000,
            elapsed.as_millis()
        ));
    }
    Ok(())
}

/// Why the beginning of a line cannot become a message, if it is so: a message begins with `{` or
/// `"`.
pub(super) fn hopeless(beginning: &[u8]) -> Option<String> {
    let first = beginning
        .iter()
        .find(|byte| !matches!(byte, b' ' | b'\t' | b'\r'))?;
    (!matches!(first, b'{' | b'"'))
        .then(|| format!("the worker spoke garbage: {}", excerpt(beginning)))
}

/// The beginning of a message with everything unprintable escaped.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    let shown = bytes.get(..EXCERPT_BYTES).unwrap_or(bytes);
    let more = if bytes.len() > shown.len() { "…" } else { "" };
    format!("\"{}\"{more}", shown.escape_ascii())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use schema::protocol::{ProfileEntry, Profiling};

    use super::*;

    const SECOND: Interim = Interim {
        elapsed: Duration::from_secs(1),
        cancelled: false,
        by_device: false,
    };

    fn error(line: &[u8], asked: &Asked) -> String {
        reply(line, asked, SECOND).unwrap_err()
    }

    fn measure(min_steps: u64, max_steps: u64) -> Asked {
        Asked::request(&Request::Measure(Measure {
            discard: 0,
            min_steps,
            min_ns: 0,
            max_steps,
        }))
    }

    #[test]
    fn another_version_is_told_whatever_its_fields() {
        let next = VERSION + 1;
        let later = format!(r#"{{"hello":{{"protocol":{next},"engine":"x","mood":"good"}}}}"#);
        let said = error(later.as_bytes(), &Asked::HELLO);
        assert!(said.contains(&format!("speaks protocol {next}")), "{said}");
        let same = format!(r#"{{"hello":{{"protocol":{VERSION},"engine":"x","mood":"good"}}}}"#);
        assert!(error(same.as_bytes(), &Asked::HELLO).contains("unknown field `mood`"));
        let none = br#"{"hello":{"engine":"x"}}"#;
        assert!(error(none, &Asked::HELLO).contains("missing field"));
    }

    #[test]
    fn a_reply_is_of_the_kind_that_was_asked_for() {
        let memory = Asked::request(&Request::Memory);
        assert_eq!(
            error(b"\"reset\"", &memory),
            "the worker answered `reset` instead of `memory`"
        );
        assert!(error(b"\"bye\"", &Asked::NONSENSE).contains("`bye` instead of `nonsense`"));
        assert_eq!(
            reply(b"\"reset\"", &Asked::request(&Request::Reset), SECOND),
            Ok(Reply::Reset)
        );
    }

    #[test]
    fn a_failure_is_one_that_a_worker_can_know() {
        let line = br#"{"failed":{"kind":"measured","reason":""}}"#;
        assert!(error(line, &Asked::HELLO).contains("not a worker's to tell"));
        let line = format!(
            r#"{{"failed":{{"kind":"crashed","reason":"{}"}}}}"#,
            "é".repeat(9000)
        );
        let Ok(Reply::Failed(outcome)) = reply(line.as_bytes(), &Asked::HELLO, SECOND) else {
            panic!("it is a failure");
        };
        assert_eq!(outcome.reason.chars().count(), REASON_CHARS);
    }

    #[test]
    fn samples_are_what_was_asked_for() {
        let line = br#"{"measure":{"samples_ns":[5,6],"cancelled":false}}"#;
        assert!(reply(line, &measure(1, 2), SECOND).is_ok());
        assert!(error(line, &measure(3, 9)).contains("2 samples where at least 3"));
        assert!(error(line, &measure(1, 1)).contains("2 samples where at most 1"));
        let none = br#"{"measure":{"samples_ns":[5,0],"cancelled":false}}"#;
        assert!(error(none, &measure(1, 2)).contains("0 ns"));
        let long = br#"{"measure":{"samples_ns":[18446744073709551615,18446744073709551615],"cancelled":false}}"#;
        assert!(error(long, &measure(1, 2)).contains("answered after 1000 ms"));
    }

    #[test]
    fn only_what_was_cancelled_was_cancelled() {
        let few = br#"{"measure":{"samples_ns":[],"cancelled":true}}"#;
        let cancelled = Interim {
            cancelled: true,
            ..SECOND
        };
        assert!(reply(few, &measure(3, 9), cancelled).is_ok());
        assert!(error(few, &measure(3, 9)).contains("cancelled, and it was not"));
    }

    #[test]
    fn samples_last_as_long_as_was_asked_for_or_are_as_many_as_can_be() {
        let asked = Asked::request(&Request::Measure(Measure {
            discard: 0,
            min_steps: 2,
            min_ns: 20_000_000,
            max_steps: 4,
        }));
        let answer = |samples: &[u64]| {
            let samples_ns = samples.to_vec();
            let line = Reply::Measure(Samples {
                samples_ns,
                cancelled: false,
            });
            reply(&serde_json::to_vec(&line).unwrap(), &asked, SECOND).map(drop)
        };
        assert_eq!(answer(&[10_000_000, 10_000_000]), Ok(()));
        // Some count what is between their steps.
        assert_eq!(answer(&[9_900_000, 9_900_000]), Ok(()));
        assert_eq!(answer(&[100; 4]), Ok(()));
        let short = answer(&[100; 3]).unwrap_err();
        assert!(short.contains("3 samples last 300 ns together where at least 10000000 ns"));
        let nothing = answer(&[1; 4]).unwrap_err();
        assert!(
            nothing.contains("less than it takes to read a clock"),
            "{nothing}"
        );
        // A clock that goes a little faster is allowed for, another time is not.
        assert_eq!(answer(&[505_000_000, 505_000_000]), Ok(()));
        let long = answer(&[600_000_000, 600_000_000]).unwrap_err();
        assert!(long.contains("1200 ms together, but it answered after 1000 ms"));
    }

    #[test]
    fn samples_of_a_device_may_be_as_short_as_they_are_and_no_longer_than_the_answer() {
        let asked = Asked::request(&Request::Measure(Measure {
            discard: 0,
            min_steps: 2,
            min_ns: 20_000_000,
            max_steps: 4,
        }));
        let answer = |samples: &[u64], elapsed: Duration| {
            let samples_ns = samples.to_vec();
            let line = Reply::Measure(Samples {
                samples_ns,
                cancelled: false,
            });
            let interim = Interim {
                elapsed,
                by_device: true,
                ..SECOND
            };
            reply(&serde_json::to_vec(&line).unwrap(), &asked, interim).map(drop)
        };
        let time = Duration::from_millis(20);
        assert_eq!(answer(&[100; 3], time), Ok(()));
        assert_eq!(answer(&[1; 4], Duration::ZERO), Ok(()));
        let short = answer(&[100; 3], time / 4).unwrap_err();
        assert!(
            short.contains("3 samples and all else last 5000000 ns together where at least"),
            "{short}"
        );
        let long = answer(&[20_000_000; 3], time).unwrap_err();
        assert!(long.contains("answered after 20 ms"), "{long}");
        assert!(answer(&[5, 0], time).unwrap_err().contains("0 ns"));
    }

    #[test]
    fn a_profile_is_possible_and_of_the_graph() {
        let entry = |name: &str, node: &str, time_ns| ProfileEntry {
            name: name.to_owned(),
            nodes: BTreeSet::from([node.to_owned()]),
            time_ns,
            calls: 3,
            conversion: false,
        };
        let profile = |entries: Vec<ProfileEntry>| Profile {
            steps: 3,
            wall_ns: 30_000_000,
            kernels: 3,
            entries,
        };
        let asked = Asked::request(&Request::Profile(Profiling { steps: 3 }));
        let answer = |profile: Profile, asked: &Asked| {
            let line = serde_json::to_vec(&Reply::Profile(profile)).unwrap();
            reply(&line, asked, SECOND).map(drop)
        };
        let good = profile(vec![
            entry("conv", "conv1", 20_000_000),
            entry("relu", "relu", 10_000_000),
        ]);
        assert_eq!(answer(good.clone(), &asked), Ok(()));
        let more = Asked::request(&Request::Profile(Profiling { steps: 4 }));
        let said = answer(good.clone(), &more).unwrap_err();
        assert!(said.contains("3 steps where 4"), "{said}");
        let long = profile(vec![entry("conv", "conv1", 20_000_000); 2]);
        let said = answer(long, &asked).unwrap_err();
        assert!(said.contains("40000000 ns together"), "{said}");
        let nameless = profile(vec![entry(" ", "conv1", 1)]);
        assert!(answer(nameless, &asked).unwrap_err().contains("no name"));
        let many = profile(vec![entry("conv", "conv1", 1); MOST_ENTRIES + 1]);
        assert!(answer(many, &asked).unwrap_err().contains("100001 entries"));
        let slow = Profile {
            wall_ns: 2_000_000_000,
            ..good.clone()
        };
        assert!(answer(slow, &asked).unwrap_err().contains("answered after"));
        let nodes = |names: [&str; 2]| names.map(str::to_owned).into();
        assert_eq!(stranger(&good, &nodes(["conv1", "relu"])), None);
        let said = stranger(&good, &nodes(["conv1", "bn1"])).unwrap();
        assert!(said.contains("\"relu\""), "{said}");
    }

    #[test]
    fn phases_last_no_longer_than_their_answer() {
        let asked = Asked {
            name: "load",
            reply: Some("loaded"),
            ..Asked::HELLO
        };
        let line = |fill_ns: u64| {
            format!(
                r#"{{"loaded":{{"fill_ns":{fill_ns},"build_ns":600000000,"compile_ns":0,"first_step_ns":1,"threads":1,"spin":"","settings":{{}}}}}}"#
            )
        };
        assert!(reply(line(400_000_000).as_bytes(), &asked, SECOND).is_ok());
        let long = error(line(500_000_000).as_bytes(), &asked);
        assert!(long.contains("phases of `load` last 1100 ms"), "{long}");
        assert!(error(line(u64::MAX).as_bytes(), &asked).contains("phases of `load`"));

        let asked = Asked::request(&Request::WarmUp(schema::protocol::WarmUp {
            min_steps: 3,
            max_ns: 1,
            tolerance: 0.1,
        }));
        let line = |steps: u64, total_ns: u64| {
            format!(r#"{{"warm_up":{{"steps":{steps},"total_ns":{total_ns},"steady":true}}}}"#)
        };
        assert!(reply(line(3, 1_000_000_000).as_bytes(), &asked, SECOND).is_ok());
        assert!(error(line(2, 1).as_bytes(), &asked).contains("2 steps where at least 3"));
        assert!(error(line(3, 2_000_000_000).as_bytes(), &asked).contains("warm-up lasts 2000 ms"));
    }

    #[test]
    fn disagreement_is_told_of_outputs_and_of_training_only() {
        let line = br#"{"failed":{"kind":"parity_failed","reason":"the loss is not finite"}}"#;
        let parity = schema::protocol::Parity::plain("/".into(), 3);
        let parity = Asked::request(&Request::Parity(parity));
        assert!(reply(line, &parity, SECOND).is_ok());
        assert!(reply(line, &measure(1, 2), SECOND).is_ok());
        let told = error(line, &Asked::HELLO);
        assert!(
            told.contains("`parity_failed`, which is not a worker's to tell"),
            "{told}"
        );
    }

    #[test]
    fn a_long_answer_to_a_short_question_is_refused() {
        let line = [b"\"".to_vec(), vec![b'a'; SMALL_BYTES]].concat();
        let asked = Asked::request(&Request::Reset);
        assert!(error(&line, &asked).contains("1048577 bytes"));
    }

    #[test]
    fn depth_is_no_danger() {
        let line = [b"{\"hello\":".to_vec(), vec![b'['; SMALL_BYTES - 100]].concat();
        assert!(error(&line, &Asked::HELLO).starts_with("the worker spoke garbage"));
    }

    proptest! {
        /// Whatever comes is an answer or a reason, whose text is short and printable.
        #[test]
        fn nothing_panics(line in prop::collection::vec(any::<u8>(), 0..300)) {
            for asked in [Asked::HELLO, Asked::NONSENSE, measure(1, 2)] {
                if let Err(reason) = reply(&line, &asked, SECOND) {
                    prop_assert!(reason.len() < 1000);
                    prop_assert!(reason.chars().all(|c| !c.is_control()), "{}", reason);
                }
            }
            let _ = hopeless(&line);
        }
    }
}
