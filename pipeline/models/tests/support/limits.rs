//! A bound on the memory of a test's program.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Lets this program map no more than so many bytes beside those that it has.
pub(crate) fn bound_memory(bytes: u64) {
    let status = fs::read_to_string("/proc/self/status").expect("what Linux says of it");
    let line = status.lines().find(|line| line.starts_with("VmSize"));
    let held = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    let now = held.expect("a size in KiB") << 10;
    let (_, hard) = getrlimit(Resource::RLIMIT_AS).expect("a limit");
    setrlimit(Resource::RLIMIT_AS, (now + bytes).min(hard), hard).expect("a lower limit");
}
