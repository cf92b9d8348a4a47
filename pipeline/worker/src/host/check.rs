//! Whether what a worker says makes sense.

use std::time::Duration;

use schema::{
    Outcome, OutcomeKind,
    protocol::{Measure, Reply, Request, Samples, VERSION},
};

/// Replies other than samples and outputs are small; this is generous.
const SMALL_BYTES: usize = 1 << 20;

/// How much of a message is shown.
const EXCERPT_BYTES: usize = 80;

/// How much of a reason is kept.
const REASON_CHARS: usize = 4000;

/// What a reply is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asked {
    /// The name of the request, or of the message that opens the conversation.
    pub(super) name: &'static str,
    /// The name of a proper reply; failures are always possible.
    reply: Option<&'static str>,
    /// What samples must keep to.
    measure: Option<Measure>,
}

impl Asked {
    /// The `hello`, which nobody asks for.
    pub(super) const HELLO: Self = Self {
        name: "hello",
        reply: Some("hello"),
        measure: None,
    };

    /// Something that is no message: it can only be failed.
    pub(super) const NONSENSE: Self = Self {
        name: "nonsense",
        reply: None,
        measure: None,
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

/// Reads the reply to what was asked, which came after `elapsed`. The error says what is wrong,
/// for a reader.
pub(super) fn reply(line: &[u8], asked: &Asked, elapsed: Duration) -> Result<Reply, String> {
    let name = asked.name;
    if line.len() > SMALL_BYTES && !matches!(name, "measure" | "parity") {
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
    match reply {
        Reply::Failed(outcome) => failed(outcome, name).map(Reply::Failed),
        reply if asked.reply != Some(reply.name()) => Err(format!(
            "the worker answered `{}` instead of `{name}`",
            reply.name()
        )),
        Reply::Measure(samples) => {
            if let Some(limits) = &asked.measure {
                measured(&samples, limits, elapsed)?;
            }
            Ok(Reply::Measure(samples))
        }
        reply => Ok(reply),
    }
}

/// Some endings are not a worker's to tell.
fn failed(mut outcome: Outcome, name: &str) -> Result<Outcome, String> {
    match outcome.kind {
        OutcomeKind::Measured
        | OutcomeKind::Unstable
        | OutcomeKind::ParityUnverified
        | OutcomeKind::NotReached => {
            return Err(format!(
                "the worker failed `{name}` with outcome `{}`, which is not a worker's to tell",
                outcome.kind
            ));
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

/// Samples must be what was asked for, and cannot last longer than it took to get them.
fn measured(samples: &Samples, limits: &Measure, elapsed: Duration) -> Result<(), String> {
    let count = samples.samples_ns.len() as u64;
    let least = limits
        .min_steps
        .min(limits.max_steps)
        .min(crate::serve::timing::MAX_SAMPLES);
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
    let total_ns: u128 = samples
        .samples_ns
        .iter()
        .map(|&sample_ns| u128::from(sample_ns))
        .sum();
    // Device events are read from another clock: allow it to go a little faster.
    let possible_ns = elapsed.as_nanos() * 21 / 20 + 10_000_000;
    if total_ns > possible_ns {
        return Err(format!(
            "the worker's samples last {} ms together, but it answered after {} ms",
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

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

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
        let later = br#"{"hello":{"protocol":7,"engine":"x","mood":"good"}}"#;
        assert!(error(later, &Asked::HELLO).contains("speaks protocol 7"));
        let same = br#"{"hello":{"protocol":1,"engine":"x","mood":"good"}}"#;
        assert!(error(same, &Asked::HELLO).contains("unknown field `mood`"));
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
        let few = br#"{"measure":{"samples_ns":[],"cancelled":true}}"#;
        assert!(reply(few, &measure(3, 9), SECOND).is_ok());
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
