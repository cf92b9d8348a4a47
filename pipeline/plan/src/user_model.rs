//! Models and weights of the user's: found beside the manifest, and read. A manifest from elsewhere must not make
//! us read other files, so the path stays in its folder, and no link is followed.

use std::{
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use models::{Checkpoint, onnx::ReadError};
use schema::Mode;

use crate::{
    axes,
    context::Context,
    networks::{Networks, UserModel, legible},
    tree::Step,
};

/// The model at a path of the manifest; `None`, and an error noted, when it cannot be used.
pub(crate) fn open(
    context: &mut Context<'_>,
    networks: &mut Networks,
    path: &str,
    steps: &[Step],
) -> Option<Rc<UserModel>> {
    if context.job.mode == Mode::Training {
        context.error_with_help(
            steps,
            format!("the model `{path}` is an ONNX file, which holds what inference needs alone"),
            "train a network of the zoo, or say `mode: inference`",
        );
        return None;
    }
    let what = format!("the model `{path}`");
    let folder = folder(context, &what, steps)?;
    let found = networks.open(&folder, &plain(path));
    let expected = "an ONNX file of opset 13 to 22";
    let model = noted(context, steps, &what, expected, found)?;
    let mut sizes = model.file.dimensions();
    if let Some(taken) = sizes.find(|size| axes::is_taken(context, size)) {
        context.error_with_help(
            steps,
            format!("{what} leaves a size open that it calls `{taken}`, which is another axis of a matrix"),
            "export it with another name for that size",
        );
        return None;
    }
    drop(sizes);
    Some(model)
}

/// The weights at a path of the manifest; `None`, and an error noted, when they cannot be used.
pub(crate) fn weights(
    context: &mut Context<'_>,
    networks: &mut Networks,
    path: &str,
    steps: &[Step],
) -> Option<Rc<Checkpoint>> {
    let what = format!("the file of weights `{path}`");
    let folder = folder(context, &what, steps)?;
    let found = networks.checkpoint(&folder, &plain(path));
    noted(context, steps, &what, "a whole file of safetensors", found)
}

/// A path without what changes nothing: one file is one model, however it is spelt.
pub(crate) fn plain(path: &str) -> String {
    let parts = Path::new(path).components();
    let parts = parts.filter(|part| *part != Component::CurDir);
    parts.collect::<PathBuf>().to_string_lossy().into_owned()
}

/// The manifest's folder.
fn folder(context: &mut Context<'_>, what: &str, steps: &[Step]) -> Option<PathBuf> {
    let folder = context.file.folder().map(ToOwned::to_owned);
    if folder.is_none() {
        context.error_with_help(
            steps,
            format!("{what} is looked for beside the manifest, and standard input lies nowhere"),
            "give the manifest as a file, or use a name of the zoo",
        );
    }
    folder
}

/// What was found; an error is noted where that is nothing.
fn noted<T>(
    context: &mut Context<'_>,
    steps: &[Step],
    what: &str,
    expected: &str,
    found: Result<T, ReadError>,
) -> Option<T> {
    let (message, help) = match found {
        Ok(found) => return Some(found),
        Err(error @ ReadError::Unreadable(_)) => (
            format!("{what} cannot be used: {}", legible(&error)),
            "put the model, and the weights that it names, beside or below the manifest, without links"
                .to_owned(),
        ),
        // What is wrong with the file's contents says itself what to do; of another kind of file that is not known.
        Err(error) => {
            let message = format!("{what} cannot be read: {}", legible(&error));
            match error.is_foreign() {
                true => (message, format!("{expected} is expected")),
                false => {
                    context.error(steps, message);
                    return None;
                }
            }
        }
    };
    context.error_with_help(steps, message, help);
    None
}
