//! The path of a user's model must stay in the manifest's folder: a manifest from elsewhere must
//! not make us read other files.

use std::path::{Component, Path};

use crate::{context::Context, tree::Step};

/// Notes why `path` cannot be used. Every ONNX file ends here until they can be read.
pub(crate) fn refuse(context: &mut Context<'_>, path: &str, steps: &[Step]) {
    let Some(folder) = context.file.folder() else {
        context.error_with_help(
            steps,
            format!("the model `{path}` is looked for beside the manifest, and standard input lies nowhere"),
            "give the manifest as a file, or use a name of the zoo",
        );
        return;
    };
    match inside(folder, path) {
        Ok(()) => context.error_with_help(
            steps,
            format!("the model `{path}` is an ONNX file, which this version does not read yet"),
            "use a name of the zoo for now",
        ),
        Err((message, help)) => context.error_with_help(steps, message, help),
    }
}

/// Whether `path` names a file below `folder`, links resolved.
fn inside(folder: &Path, path: &str) -> Result<(), (String, &'static str)> {
    let leaves = || {
        (
            format!("the path `{path}` leaves the manifest's folder"),
            "put the model beside or below the manifest and give its path from there",
        )
    };
    let is_plain = Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !is_plain {
        return Err(leaves());
    }
    let missing = |error: std::io::Error| {
        (
            format!("the model `{path}` cannot be read: {error}"),
            "paths begin at the manifest's folder",
        )
    };
    let found = folder.join(path).canonicalize().map_err(missing)?;
    let folder = folder.canonicalize().map_err(missing)?;
    if !found.starts_with(&folder) {
        return Err(leaves());
    }
    if !found.is_file() {
        return Err((
            format!("the model `{path}` is no file"),
            "give the path of an ONNX file",
        ));
    }
    Ok(())
}
