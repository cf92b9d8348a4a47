//! Questions that a worker must refuse, or give up answering.

use std::{thread, time::Duration};

use schema::{
    OutcomeKind,
    protocol::{Measure, Profiling, Reply, Request, WarmUp},
};
use serde_json::Value;

use super::subject::{Guest, Subject, Trouble, demand, fail, steps};

/// How long a measurement goes on before it is cancelled.
const A_WHILE: Duration = Duration::from_millis(200);

const THREE: Measure = steps(0, 3);

pub(super) fn order(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start()?;
    let profile = Request::Profile(Profiling { steps: 1 });
    for early in [Request::Measure(THREE), profile, Request::Reset] {
        refused(&mut guest, &early, "before `load`")?;
    }
    let load = subject.load(subject.first_mode(), &guest)?;
    guest.load(load.clone())?;
    refused(&mut guest, &Request::Load(Box::new(load)), "a second time")?;
    guest.measure(THREE)?;
    Ok(())
}

fn refused(guest: &mut Guest, request: &Request, when: &str) -> Result<(), Trouble> {
    let deadline = guest.deadline();
    let name = request.name();
    match guest.host.request(request, deadline) {
        Ok(_) => fail(format!(
            "`{name}` {when} is answered as if nothing were wrong"
        )),
        Err(outcome) if !guest.host.is_alive() => Err(outcome.into()),
        Err(outcome) => demand(outcome.kind == OutcomeKind::Unsupported, || {
            format!(
                "`{name}` {when} is failed as `{}`, not as `unsupported`",
                outcome.kind
            )
        }),
    }
}

pub(super) fn garbage(subject: &Subject<'_>) -> Result<(), Trouble> {
    let deep = [b"[".repeat(100_000), b"\n".to_vec()].concat();
    let lines: [&[u8]; 5] = [
        b"\0\xff\xfe\x80\n",
        b"this is no message\n",
        b"{\n",
        b"42\n",
        &deep,
    ];
    lines
        .iter()
        .try_for_each(|line| nonsense(subject.start()?, line, &excerpt(line)))
}

pub(super) fn unknown(subject: &Subject<'_>) -> Result<(), Trouble> {
    let messages: [&[u8]; 2] = [b"{\"dance\":{}}\n", b"\"dance\"\n"];
    for line in messages {
        nonsense(subject.start()?, line, &excerpt(line))?;
    }
    // Right but for a field, and at a time at which they would be served.
    let guest = subject.start()?;
    let load = subject.load(subject.first_mode(), &guest)?;
    guest.make_scratch(&load)?;
    let line = with_mood(&Request::Load(Box::new(load)))?;
    nonsense(guest, &line, "a `load` with an unknown field `mood`")?;
    let warm_up = Request::WarmUp(WarmUp {
        min_steps: 1,
        max_ns: 1,
        tolerance: 0.1,
    });
    for request in [warm_up, Request::Measure(THREE)] {
        let shown = format!("a `{}` with an unknown field `mood`", request.name());
        nonsense(subject.start_loaded()?, &with_mood(&request)?, &shown)?;
    }
    let line = b"{\"measure\":{\"discard\":0,\"min_steps\":-1,\"min_ns\":0,\"max_steps\":1}}\n";
    nonsense(subject.start_loaded()?, line, "a `measure` of -1 steps")
}

/// A request as it goes over the stream, with a field that no request has.
fn with_mood(request: &Request) -> Result<Vec<u8>, Trouble> {
    let wrong = |error: serde_json::Error| Trouble::Fail(format!("cannot be sent: {error}"));
    let mut value = serde_json::to_value(request).map_err(wrong)?;
    if let Some(fields) = value.get_mut(request.name()).and_then(Value::as_object_mut) {
        fields.insert("mood".to_owned(), "good".into());
    }
    let mut line = serde_json::to_vec(&value).map_err(wrong)?;
    line.push(b'\n');
    Ok(line)
}

/// The beginning of a line, for a reader.
fn excerpt(line: &[u8]) -> String {
    line.escape_ascii().to_string().chars().take(60).collect()
}

/// A worker answers what it cannot understand with `failed`, after which it must understand the
/// next message, or it leaves with an exit status; it is not killed by a signal.
fn nonsense(mut guest: Guest, line: &[u8], shown: &str) -> Result<(), Trouble> {
    let deadline = guest.deadline();
    let sent = guest.host.begin_nonsense(line, deadline);
    match sent.and_then(|()| guest.host.reply(deadline)) {
        Ok(reply) => fail(format!("it answers `{}` to {shown}", reply.name())),
        Err(_) if guest.host.is_alive() => {
            guest.ask(&Request::Memory)?;
            Ok(())
        }
        Err(_) if guest.host.exit_status().is_some_and(|status| status != 0) => Ok(()),
        Err(outcome) => fail(format!("after {shown}: {}", outcome.reason)),
    }
}

pub(super) fn cancel(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start_loaded()?;
    let deadline = guest.deadline();
    // Without a request in progress it has no effect, not even on the next.
    guest.host.cancel_nothing(deadline)?;
    guest.measure(THREE)?;
    let long = Measure {
        discard: 0,
        min_steps: 0,
        min_ns: u64::MAX,
        max_steps: 2_000_000,
    };
    guest.host.begin(&Request::Measure(long), deadline)?;
    thread::sleep(A_WHILE);
    guest.host.cancel(deadline)?;
    match guest.host.reply(deadline)? {
        Reply::Measure(samples) if samples.cancelled => {}
        // A step that does nothing may have been taken two million times by now.
        Reply::Measure(samples) if samples.samples_ns.len() == 2_000_000 => {}
        _ => return fail("a cancelled measurement does not say that it was cancelled"),
    }
    guest.measure(THREE)?;
    Ok(())
}
