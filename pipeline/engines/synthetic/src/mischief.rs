//! What a misbehaving worker does.

use std::{
    fs::File,
    io::{self, Write},
    os::{fd::AsFd, unix::process::CommandExt},
    process::{Command, ExitCode, Stdio},
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use nix::sys::signal::{Signal, raise};
use nix::unistd::{Pid, setpgid};
use schema::protocol::VERSION;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};

/// How slow a slow start is.
pub(crate) const SLOW: Duration = Duration::from_secs(3);

/// A memory eater stops here, so that an unwatched one does not take the machine down.
const FEAST_BYTES: usize = 2 << 30;
const BITE_BYTES: usize = 8 << 20;
/// What a gulp is.
const GULP_BYTES: usize = 512 << 20;
const PAGE_BYTES: usize = 4096;
const CHEWING: Duration = Duration::from_millis(10);

/// A second way to the stream of the protocol, which a proper engine does not have.
#[derive(Debug)]
pub(crate) struct ProtocolStream(File);

impl ProtocolStream {
    /// To be called before the standard output is moved.
    pub(crate) fn take() -> io::Result<Self> {
        Ok(Self(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }

    /// Writes bytes that are no message.
    pub(crate) fn garbage(&self) {
        let _ = (&self.0).write_all(b"\0\x7fELF\xff\xfe not a message\n");
    }

    /// Writes one message over and over.
    pub(crate) fn flood(&self) -> ! {
        while (&self.0).write_all(b"\"reset\"\n").is_ok() {}
        hang()
    }

    /// Writes a message without end.
    pub(crate) fn huge_message(&self) -> ! {
        let mut writer = &self.0;
        let chunk = [b'a'; 1 << 16];
        if writer
            .write_all(b"{\"failed\":{\"kind\":\"crashed\",\"reason\":\"")
            .is_ok()
        {
            while writer.write_all(&chunk).is_ok() {}
        }
        hang()
    }
}

/// Says `hello` as a worker of another time would, and waits for the end.
pub(crate) fn speak_another_version(stream: &ProtocolStream) -> ExitCode {
    let next = VERSION + 1;
    let _ = writeln!(
        &stream.0,
        r#"{{"hello":{{"protocol":{next},"engine":"synthetic","moods":["good"]}}}}"#
    );
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    ExitCode::SUCCESS
}

/// Does nothing, for good.
pub(crate) fn hang() -> ! {
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// Does nothing, for good, and will not be asked to leave.
pub(crate) fn hang_stubbornly() -> ! {
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        // The flag is never looked at: the signal goes by.
        let _ = signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)));
    }
    hang()
}

/// Dies by a segmentation fault.
pub(crate) fn segfault() -> ! {
    loop {
        // The first goes to the runtime's detector of stack overflows, which stands aside.
        let _ = raise(Signal::SIGSEGV);
    }
}

/// Takes memory for as long as it takes to write to each of its pages.
pub(crate) fn gulp_memory() {
    let mut gulped = vec![0_u8; GULP_BYTES];
    for byte in gulped.iter_mut().step_by(PAGE_BYTES) {
        *byte = 1;
    }
    std::hint::black_box(gulped);
}

/// Takes memory and uses it, until someone stops it.
pub(crate) fn eat_memory() -> ! {
    let mut eaten = Vec::new();
    while eaten.len() * BITE_BYTES < FEAST_BYTES {
        eaten.push(vec![1_u8; BITE_BYTES]);
        thread::sleep(CHEWING);
    }
    hang()
}

/// Writes to standard error without end.
pub(crate) fn flood_stderr() -> ! {
    let line = [
        b"all work and no play makes a dull log ".repeat(50),
        b"\n".to_vec(),
    ]
    .concat();
    while io::stderr().write_all(&line).is_ok() {}
    hang()
}

/// Starts a process that hides from whoever looks for what this one leaves behind. The last
/// argument, which means nothing, lets a test find it.
pub(crate) fn spawn_hidden(argument: &str, name: &str) -> io::Result<()> {
    let mut parent = Command::new(std::env::current_exe()?);
    parent.args(["--hide", argument, name]);
    parent.stdin(Stdio::null()).stdout(Stdio::null());
    let status = parent.status()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(status.to_string()))
    }
}

/// Starts a copy of this program that hides, without a way back to this one.
pub(crate) fn hide(arguments: &[String]) -> io::Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--hidden").args(arguments).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).spawn().map(drop)
}

/// Leaves as soon as it is resumed after it was stopped.
pub(crate) fn leave_when_resumed() -> io::Result<()> {
    let now = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_shutdown(SIGCONT, 5, now).map(drop)
}

/// Waits for the end of a child that takes more and more memory.
pub(crate) fn lose_child() -> io::Result<()> {
    let mut child = Command::new(std::env::current_exe()?);
    child
        .arg("--eat")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    child.status().map(drop)
}

/// Moves to the process group of a child that does nothing.
pub(crate) fn leave_group() -> io::Result<()> {
    let child = spawn("--linger", true)?;
    setpgid(Pid::from_raw(0), Pid::from_raw(child.cast_signed())).map_err(io::Error::from)
}

/// Starts a copy of this program with one argument, in its own process group or in this one's;
/// gives its number.
pub(crate) fn spawn(argument: &str, own_group: bool) -> io::Result<u32> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if own_group {
        command.process_group(0);
    }
    command.spawn().map(|child| child.id())
}
