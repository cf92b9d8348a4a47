//! Models of the user's: found beside the manifest, and read. A manifest from elsewhere must not make
//! us read other files, so the path stays in its folder, and no link is followed.

use std::rc::Rc;

use models::onnx::ReadError;
use schema::Mode;

use crate::{
    context::Context,
    networks::{Networks, UserModel},
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
    let Some(folder) = context.file.folder() else {
        context.error_with_help(
            steps,
            format!("the model `{path}` is looked for beside the manifest, and standard input lies nowhere"),
            "give the manifest as a file, or use a name of the zoo",
        );
        return None;
    };
    match networks.open(folder, path) {
        Ok(model) => Some(model),
        Err(error) => {
            let (message, help) = words(path, &error);
            context.error_with_help(steps, message, help);
            None
        }
    }
}

fn words(path: &str, error: &ReadError) -> (String, &'static str) {
    match error {
        ReadError::Unreadable(reason) => (
            format!("the model `{path}` cannot be used: {reason}"),
            "put the model, and the weights that it names, beside or below the manifest, without links",
        ),
        _ => (
            format!("the model `{path}` cannot be read: {error}"),
            "an ONNX file of opset 13 to 22 is expected",
        ),
    }
}
