//! The folder of the user's home, which is nobody's business: logs and reasons are published.

use schema::{
    Outcome,
    record::{Block, Profiled, Reference},
    telemetry::Energy,
};

/// What launches for outputs wrote, and why they failed, with the home folder as `~`, as shells write it.
pub(crate) fn hide_in_reference(reference: &mut Reference) {
    reference.obstacles.iter_mut().flatten().for_each(outcome);
    reference.logs.iter_mut().flatten().for_each(hide);
}

/// The same of a block's launches.
pub(crate) fn hide_in_block(block: &mut Block) {
    block.disturbed.iter_mut().for_each(hide);
    for launch in &mut block.launches {
        outcome(&mut launch.outcome);
        hide(&mut launch.log);
        let told = launch.telemetry.iter_mut();
        told.flat_map(|told| told.unavailable.values_mut())
            .for_each(hide);
        if let Some(Energy::Unavailable(reason)) = &mut launch.energy {
            hide(reason);
        }
    }
}

/// The same of the launches in which cells were profiled.
pub(crate) fn hide_in_profiles(profiles: &mut [Option<Profiled>]) {
    for profiled in profiles.iter_mut().flatten() {
        outcome(&mut profiled.outcome);
        hide(&mut profiled.log);
    }
}

fn outcome(outcome: &mut Outcome) {
    hide(&mut outcome.reason);
}

/// A text with the home folder as `~`.
pub(crate) fn hide(text: &mut String) {
    let home = std::env::var("HOME").unwrap_or_default();
    let home = home.trim_end_matches('/');
    if !home.is_empty() && text.contains(home) {
        *text = replaced(text, home);
    }
}

fn replaced(text: &str, home: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut parts = text.split(home).peekable();
    while let Some(part) = parts.next() {
        made.push_str(part);
        let Some(behind) = parts.peek() else { break };
        let is_name = made.ends_with(is_of_a_name) || behind.starts_with(is_of_a_name);
        made.push_str(if is_name { home } else { "~" });
    }
    made
}

/// Whether a character next to a path makes it another one.
fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_hidden_and_nothing_else() {
        for (text, hidden) in [
            ("/home/ada/a.py:3: warning", "~/a.py:3: warning"),
            ("in \"/home/ada\", /home/ada", "in \"~\", ~"),
            ("file:///home/ada/x", "file://~/x"),
            ("/srv/home/ada/x", "/srv/home/ada/x"),
            ("/home/adam/x /home/ada.old", "/home/adam/x /home/ada.old"),
            ("ü/home/adaü /home/ada/ü", "ü/home/adaü ~/ü"),
        ] {
            assert_eq!(replaced(text, "/home/ada"), hidden);
        }
    }
}
