//! The user's own files are read with bounds: whatever lies in their place is told, not waited for.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use nix::fcntl::OFlag;

use crate::CatalogError;

/// Largest file, in bytes.
const LIMIT_BYTES: u64 = 1 << 20;

/// The text of a file; `None` where there is none.
pub(crate) fn read(path: &Path) -> Result<Option<String>, CatalogError> {
    let trouble = |reason: String| CatalogError::UserFile {
        file: path.to_owned(),
        reason,
    };
    let failed = |error: io::Error| trouble(error.to_string());
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match fs::symlink_metadata(path) {
                Ok(_) => Err(trouble(String::from("it is a link that leads nowhere"))),
                Err(_) => Ok(None),
            };
        }
        // What the system says of a socket.
        Err(error) if error.raw_os_error() == Some(nix::libc::ENXIO) => {
            return Err(trouble(String::from("it is no regular file")));
        }
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(trouble(String::from("it is no regular file")));
    }
    let mut bytes = Vec::new();
    file.take(LIMIT_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > LIMIT_BYTES {
        return Err(trouble(String::from("it is larger than 1 MiB")));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        trouble(format!("it is not UTF-8 from byte {valid} on"))
    })
}

/// Opens without waiting: to open a pipe is otherwise to wait for its writer.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).bits())
        .open(path)
}
