//! Runs pip and cargo: their output is followed line by line, and they end when the user asks to
//! stop.

use std::{
    collections::VecDeque,
    io::{self, PipeReader, Read as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

/// How often a running child is looked at. Nothing is measured meanwhile.
const TICK: Duration = Duration::from_millis(100);
/// The same for one that has closed its outputs, and is about to end.
const SOON: Duration = Duration::from_millis(1);
/// How long a child may take to end by itself.
const GRACE: Duration = Duration::from_secs(3);
/// How long the killed children of a child are waited for: this many of these moments.
const MOMENTS: u32 = 50;
const MOMENT: Duration = Duration::from_millis(10);
/// Lines of output that are kept for an error message.
const KEPT_LINES: usize = 40;
const LONGEST_LINE: usize = 8 << 10;

/// How a child ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself, with the last lines of what it wrote.
    Exited { status: ExitStatus, log: String },
    /// Because we ended it.
    Interrupted,
}

/// What the parent does meanwhile.
pub(crate) trait Follow {
    /// The child wrote a line.
    fn line(&mut self, _line: &str) {}
    /// A moment has passed. Answers whether the child may go on.
    fn tick(&mut self) -> bool;
}

/// Runs a command to its end. Its two outputs come as one; it gets no input. It runs in a process
/// group of its own, so that Ctrl-C reaches it through us and its own children end with it.
pub(crate) fn run(command: &mut Command, follow: &mut dyn Follow) -> io::Result<Ended> {
    let (reader, writer) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    end_with_us(command);
    let mut child = command.spawn()?;
    // The command holds the writing ends, without which the output would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let lines = read_lines(reader);
    let mut log = VecDeque::new();
    let mut exited = None;
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => {
                follow.line(&line);
                if log.len() == KEPT_LINES {
                    log.pop_front();
                }
                log.push_back(line);
                continue;
            }
            // A child's child may hold the output open: the child's own end is what counts.
            Err(RecvTimeoutError::Disconnected) if exited.is_none() => thread::sleep(SOON),
            Err(_) => {}
        }
        if let Some(status) = exited {
            let log = log.make_contiguous().join("\n");
            return Ok(Ended::Exited { status, log });
        }
        if !follow.tick() {
            end(&mut child)?;
            return Ok(Ended::Interrupted);
        }
        exited = child.try_wait()?;
    }
}

/// Has the kernel kill the child when this thread dies: an installer that is killed must not leave
/// a pip behind that goes on writing into the folder which the next installer clears.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "the only way to a process's own settings before its program runs"
)]
fn end_with_us(command: &mut Command) {
    let parent = nix::unistd::getpid();
    // SAFETY: between fork and exec only async-signal-safe functions may be called and no memory
    // may be allocated; `prctl` and `getppid` are bare system calls, and neither branch allocates
    // (an `io::Error` from a raw code or kind holds it inline).
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from)?;
            // Killed before the line above took hold?
            if nix::unistd::getppid() == parent {
                Ok(())
            } else {
                Err(io::ErrorKind::Interrupted.into())
            }
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn end_with_us(_: &mut Command) {}

/// Ends a child and the group that it leads: first with a request, then without.
fn end(child: &mut Child) -> io::Result<()> {
    let group = i32::try_from(child.id())
        .map(Pid::from_raw)
        .map_err(io::Error::other)?;
    // That the group is gone already is what we want; the wait below tells.
    let _ = killpg(group, Signal::SIGTERM);
    let deadline = Instant::now() + GRACE;
    while Instant::now() < deadline && child.try_wait()?.is_none() {
        thread::sleep(TICK);
    }
    let _ = killpg(group, Signal::SIGKILL);
    child.wait()?;
    // The rest of the group may be dying still, and write into the folders that we remove next.
    // Where nobody reaps orphans they stay in the group for good: hence the bound.
    for _ in 0..MOMENTS {
        if killpg(group, None).is_err() {
            break;
        }
        thread::sleep(MOMENT);
    }
    Ok(())
}

/// The lines of a pipe, as they come. A carriage return ends a line as well.
fn read_lines(mut pipe: PipeReader) -> Receiver<String> {
    let (sender, receiver) = mpsc::sync_channel(1024);
    thread::spawn(move || {
        let mut line = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            for byte in buffer.iter().take(count) {
                let ends = matches!(byte, b'\n' | b'\r');
                if !ends {
                    line.push(*byte);
                }
                if (ends || line.len() == LONGEST_LINE) && !send(&sender, &mut line) {
                    return;
                }
            }
        }
        send(&sender, &mut line);
    });
    receiver
}

/// Hands a line on; answers whether anyone listens still.
fn send(sender: &mpsc::SyncSender<String>, line: &mut Vec<u8>) -> bool {
    let text = String::from_utf8_lossy(line).trim().to_owned();
    line.clear();
    text.is_empty() || sender.send(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stop {
        lines: Vec<String>,
        after: usize,
    }

    impl Follow for Stop {
        fn line(&mut self, line: &str) {
            self.lines.push(line.to_owned());
        }
        fn tick(&mut self) -> bool {
            self.lines.len() < self.after
        }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_come_line_by_line() {
        let mut follow = Stop {
            lines: Vec::new(),
            after: usize::MAX,
        };
        let ended = run(
            &mut shell("echo one; echo two >&2; printf 'three\\rfour'; exit 7"),
            &mut follow,
        );
        let Ok(Ended::Exited { status, log }) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(status.code(), Some(7));
        assert_eq!(log, "one\ntwo\nthree\nfour");
        assert_eq!(follow.lines.len(), 4);
    }

    #[test]
    fn a_stubborn_child_and_its_children_are_ended() {
        let mut follow = Stop {
            lines: Vec::new(),
            after: 1,
        };
        // The shell ignores the request, and so does its child, whose number it prints.
        let mut command = shell("trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000");
        let ended = run(&mut command, &mut follow).unwrap();
        assert!(matches!(ended, Ended::Interrupted));
        let pid = Pid::from_raw(follow.lines[0].parse().unwrap());
        // A killed orphan may stay a zombie until init reaps it; it must not run any more.
        let running = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let state = stat
                .rsplit(") ")
                .next()
                .and_then(|rest| rest.chars().next());
            !matches!(state, None | Some('Z' | 'X'))
        };
        while running() {
            thread::sleep(TICK);
        }
    }

    #[test]
    fn a_grandchild_that_keeps_the_output_open_does_not_hold_us() {
        let mut follow = Stop {
            lines: Vec::new(),
            after: usize::MAX,
        };
        let ended = run(&mut shell("sleep 5 & echo started"), &mut follow).unwrap();
        assert!(matches!(ended, Ended::Exited { status, .. } if status.success()));
    }
}
