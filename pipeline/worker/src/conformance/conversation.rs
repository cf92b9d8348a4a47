//! Opening, loading, and keeping quiet.

use std::time::Duration;

use schema::protocol::Request;

use super::subject::{Subject, Trouble, demand, steps};
use crate::host::Transport;

pub(super) fn handshake(subject: &Subject<'_>) -> Result<(), Trouble> {
    let guest = subject.start()?;
    let (hello, engine) = (&guest.hello, &subject.engine.name);
    demand(hello.engine == *engine, || {
        format!(
            "it calls itself `{}`, and is registered as `{engine}`",
            hello.engine
        )
    })?;
    demand(
        hello
            .variants
            .iter()
            .any(|variant| variant == subject.variant),
        || {
            let known = hello.variants.join("`, `");
            format!("it has no variant `{}`, but `{known}`", subject.variant)
        },
    )?;
    demand(!hello.versions.is_empty(), || {
        "it tells no version".to_owned()
    })
}

pub(super) fn load(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start()?;
    let mode = *schema::Mode::ALL
        .iter()
        .find(|&&mode| subject.can(mode))
        .ok_or_else(|| Trouble::Fail("the description lists no mode".to_owned()))?;
    let load = subject.load(mode, &guest)?;
    let loaded = guest.load(load)?;
    demand(loaded.first_step_ns > 0, || {
        "its first step took no time".to_owned()
    })?;
    demand(!loaded.spin.trim().is_empty(), || {
        "it does not say how idle threads wait".to_owned()
    })?;
    Ok(())
}

pub(super) fn silence(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start()?;
    guest.host.listen(Duration::from_millis(100))?;
    drop(guest);
    let mut guest = subject.start_loaded()?;
    guest.measure(steps(1, 3))?;
    guest.host.listen(Duration::from_millis(300))?;
    Ok(())
}

pub(super) fn socket(subject: &Subject<'_>) -> Result<(), Trouble> {
    let mut guest = subject.start_over(Transport::Socket)?;
    guest.ask(&Request::Memory)?;
    guest.leave()
}
