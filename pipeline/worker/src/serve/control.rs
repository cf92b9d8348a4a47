//! The stream that a worker speaks over.

use std::{
    env,
    fs::File,
    io::{self, Read},
    net::{SocketAddr, TcpStream},
    os::{fd::AsFd, unix::net::UnixStream},
};

use nix::unistd::{dup2_stdin, dup2_stdout};
use schema::protocol::CONTROL_VARIABLE;

type Stream = (Box<dyn Read + Send>, super::Writer);

/// Opens the stream. The original standard streams become private copies (at descriptors of at
/// least 3, not inherited by children); from here on descriptor 1 is standard error, and
/// descriptor 0 is empty, so that neither an engine nor a compiler it starts can touch them.
pub(super) fn open() -> Result<Stream, String> {
    let address = env::var_os(CONTROL_VARIABLE);
    let (stdin, stdout) = move_streams()
        .map_err(|error| format!("cannot move standard input and output away: {error}"))?;
    match address {
        None => Ok((Box::new(stdin), Box::new(stdout))),
        Some(address) => {
            let address = address
                .into_string()
                .map_err(|raw| format!("{CONTROL_VARIABLE} is not UTF-8: {}", raw.display()))?;
            connect(&address).map_err(|reason| format!("{CONTROL_VARIABLE}={address}: {reason}"))
        }
    }
}

fn move_streams() -> io::Result<(File, File)> {
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    let stdout = io::stdout().as_fd().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(io::stderr())?;
    Ok((File::from(stdin), File::from(stdout)))
}

fn connect(address: &str) -> Result<Stream, String> {
    if let Some(path) = address.strip_prefix("unix:") {
        let socket = UnixStream::connect(path).map_err(|error| error.to_string())?;
        let reader = socket.try_clone().map_err(|error| error.to_string())?;
        return Ok((Box::new(reader), Box::new(socket)));
    }
    let Some(address) = address.strip_prefix("tcp:") else {
        return Err("neither `unix:/path` nor `tcp:127.0.0.1:port`".to_owned());
    };
    let address: SocketAddr = address
        .parse()
        .map_err(|_| "not an IP address and a port, such as `tcp:127.0.0.1:4711`".to_owned())?;
    if !address.ip().is_loopback() {
        return Err(
            "refused: only loopback addresses are spoken to, the protocol is not \
                    encrypted"
                .to_owned(),
        );
    }
    let socket = TcpStream::connect(address).map_err(|error| error.to_string())?;
    socket
        .set_nodelay(true)
        .map_err(|error| error.to_string())?;
    let reader = socket.try_clone().map_err(|error| error.to_string())?;
    Ok((Box::new(reader), Box::new(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_spoken_to() {
        for (address, reason) in [
            ("tcp:192.0.2.1:80", "only loopback"),
            ("tcp:[2001:db8::1]:80", "only loopback"),
            ("tcp:localhost:80", "not an IP address"),
            ("tcp:127.0.0.1", "not an IP address"),
            ("/run/socket", "neither"),
            ("unix:/nonexistent/socket", "No such file"),
        ] {
            let error = connect(address).err().unwrap();
            assert!(error.contains(reason), "{address}: {error}");
        }
    }
}
