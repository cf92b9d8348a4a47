//! Whether what a worker says makes sense.

use std::time::Duration;

use schema::{
    OutcomeKind,
    protocol::{Measure, Reply, Request, Samples, VERSION},
};

/// Replies other than samples and outputs are small; this is generous.
const SMALL_BYTES: usize = 1 << 20;

/// How much of a message is shown.
const EXCERPT_BYTES: usize = 80;

/// How much of a reason is kept.
const REASON_CHARS: usize = 4000;

/// Reads a reply to `request` (`None`: the `hello`) that came after `elapsed`. The error says
/// what is wrong, for a reader.
pub(super) fn reply(
    line: &[u8],
    request: Option<&Request>,
    elapsed: Duration,
) -> Result<Reply, String> {
    let large = matches!(request, Some(Request::Measure(_) | Request::Parity(_)));
    if line.len() > SMALL_BYTES && !large {
        let text = excerpt(line);
        return Err(format!(
            "the worker sent {} bytes where a few would do: {text}",
            line.len()
        ));
    }
    let asked = request.map_or("hello", Request::name);
    if request.is_none() {
        version(line)?;
    }
    let reply: Reply = serde_json::from_slice(line).map_err(|error| {
        let text = excerpt(line);
        format!("the worker spoke garbage instead of `{asked}` ({error}): {text}")
    })?;
    match (reply, request) {
        (Reply::Failed(mut outcome), _) => {
            if matches!(outcome.kind, OutcomeKind::Measured) {
                return Err(format!(
                    "the worker failed `{asked}` with outcome `measured`"
                ));
            }
            outcome.reason = outcome.reason.chars().take(REASON_CHARS).collect();
            if outcome.reason.trim().is_empty() {
                outcome.reason = format!("the worker gave no reason for failing `{asked}`");
            }
            Ok(Reply::Failed(outcome))
        }
        (reply, request) if answers(&reply, request) => {
            if let (Reply::Measure(samples), Some(Request::Measure(limits))) = (&reply, request) {
                measured(samples, limits, elapsed)?;
            }
            Ok(reply)
        }
        (reply, _) => Err(format!(
            "the worker answered `{}` instead of `{asked}`",
            reply.name()
        )),
    }
}

fn answers(reply: &Reply, request: Option<&Request>) -> bool {
    matches!(
        (reply, request),
        (Reply::Hello(_), None)
            | (Reply::Loaded(_), Some(Request::Load(_)))
            | (Reply::Parity(_), Some(Request::Parity(_)))
            | (Reply::Reset, Some(Request::Reset))
            | (Reply::WarmUp(_), Some(Request::WarmUp(_)))
            | (Reply::Measure(_), Some(Request::Measure(_)))
            | (Reply::Memory(_), Some(Request::Memory))
            | (Reply::Bye, Some(Request::Bye))
    )
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
