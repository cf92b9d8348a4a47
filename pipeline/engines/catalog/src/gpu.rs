//! CUDA's libraries: what a worker needs on a GPU and another kit's packages bring.
//!
//! PyTorch's package for Python comes with all of them, and they are gigabytes: a worker written in Rust
//! takes them from there instead of having its own. On a CPU it knows nothing of that kit.

use crate::{
    CatalogError, Kit,
    base::{folder, in_folder},
    kit::{GpuLibraries, Origin},
};

/// The kit whose packages hold what `kit` needs on a GPU, and where among them.
pub(crate) fn of<'a>(kits: &'a [Kit], kit: &'a Kit) -> Option<(&'a Kit, &'a GpuLibraries)> {
    let wanted = wanted(kit)?;
    Some((in_folder(kits, &wanted.kit)?, wanted))
}

/// Whether the kits that others take libraries from are there.
///
/// # Errors
/// When a kit names none, or one that installs nothing.
pub(crate) fn check(kits: &[Kit]) -> Result<(), CatalogError> {
    for kit in kits {
        let Some(wanted) = wanted(kit) else {
            continue;
        };
        if of(kits, kit).is_none_or(|(other, _)| other.lock().is_none()) {
            return Err(CatalogError::BuiltIn {
                folder: folder(kit).unwrap_or_default().to_owned(),
                message: format!(
                    "[worker.gpu] kit = \"{}\": there is no such folder, or it installs nothing",
                    wanted.kit
                ),
            });
        }
    }
    Ok(())
}

fn wanted(kit: &Kit) -> Option<&GpuLibraries> {
    match kit.origin() {
        Origin::BuiltIn(built_in) => built_in.gpu.as_ref(),
        Origin::Registered(_) => None,
    }
}
