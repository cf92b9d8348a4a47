//! Engines of the user's own: any program that speaks the worker protocol, registered in
//! `engines.toml`.

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
};

use schema::{Digest, EngineDescription, VariantDescription};
use serde::Deserialize;
use toml::{Spanned, de::DeTable};

use crate::{CatalogError, Kit, Settings, text, user_file, vocabulary};

/// A command of the user's that starts a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
}

/// The user's `engines.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EnginesFile {
    engines: BTreeMap<Spanned<String>, Entry>,
}

/// A table of `engines.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    command: Spanned<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Further files that the worker is made of: a change of theirs makes its heats stale.
    #[serde(default)]
    files: Vec<PathBuf>,
    #[serde(default)]
    title: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    summary: String,
    /// Whether it may take the place of a built-in engine.
    #[serde(default)]
    replace: bool,
    /// Whether it is given the network as an ONNX file besides the graph.
    #[serde(default)]
    onnx: bool,
    variants: Vec<Spanned<VariantDescription>>,
}

/// Adds the engines of `engines.toml` to the built-in ones.
pub(crate) fn register(kits: &mut Vec<Kit>, settings: &Settings) -> Result<(), CatalogError> {
    let path = settings.config.join("engines.toml");
    let Some(text) = user_file::read(&path)? else {
        return Ok(());
    };
    let parsed = DeTable::parse(&text).map_err(|error| CatalogError::toml(&path, &text, &error))?;
    if let Some((span, message)) = text::unprintable(parsed.get_ref()) {
        return Err(CatalogError::settings(&path, &text, &span, &message));
    }
    let file: EnginesFile =
        toml::from_str(&text).map_err(|error| CatalogError::toml(&path, &text, &error))?;
    for (name, entry) in file.engines {
        let at = name.span();
        let wrong = |at: Range<usize>, message: String| {
            let message = format!("engine `{}`: {message}", name.get_ref());
            CatalogError::settings(&path, &text, &at, &message)
        };
        let is_shadowed = |kit: &Kit| kit.name() == name.get_ref();
        if kits.iter().any(is_shadowed) && !entry.replace {
            return Err(wrong(
                at,
                String::from(
                    "this name is a built-in engine's: choose another, or say `replace = true`",
                ),
            ));
        }
        kits.retain(|kit| !is_shadowed(kit));
        let description = describe(name.get_ref(), &entry);
        vocabulary::check(&description).map_err(|message| {
            let mut variants = entry.variants.iter();
            let variant =
                variants.find(|variant| vocabulary::check_variant(variant.get_ref()).is_err());
            wrong(variant.map_or(at, Spanned::span), message)
        })?;
        let command =
            command(&entry, settings).map_err(|message| wrong(entry.command.span(), message))?;
        let worker = digest(&command, &entry.files, &settings.config);
        kits.push(Kit::registered(description, worker, entry.onnx, command));
    }
    Ok(())
}

fn describe(name: &str, entry: &Entry) -> EngineDescription {
    EngineDescription {
        name: name.to_owned(),
        title: if entry.title.is_empty() {
            name.to_owned()
        } else {
            entry.title.clone()
        },
        version: entry.version.clone(),
        summary: entry.summary.clone(),
        variants: entry
            .variants
            .iter()
            .map(|variant| variant.get_ref().clone())
            .collect(),
    }
}

/// The command with its files as absolute paths, so that neither what it starts nor its digest
/// depends on where photofinish is called. A bare name of a program is searched for; any other
/// program, and every argument that names a file, counts from the folder of `engines.toml`.
fn command(entry: &Entry, settings: &Settings) -> Result<Registered, String> {
    let Some((program, args)) = entry.command.get_ref().split_first() else {
        return Err(String::from("`command` is empty"));
    };
    if program.is_empty() {
        return Err(String::from("`command` begins with an empty word"));
    }
    if entry
        .env
        .keys()
        .any(|name| name.is_empty() || name.contains(['=', '\0']))
        || entry
            .env
            .values()
            .chain(entry.command.get_ref())
            .any(|text| text.contains('\0'))
    {
        return Err(String::from(
            "no command line or environment can hold a NUL, nor a variable's name a `=`",
        ));
    }
    let program = if program.contains('/') {
        settings.config.join(program)
    } else {
        // A name that is not found stays, so that the engine is listed as missing, with its name.
        settings
            .program(program)
            .unwrap_or_else(|| PathBuf::from(program))
    };
    let args = args.iter().map(|arg| {
        let path = settings.config.join(arg);
        // A folder whose name is not UTF-8 cannot be named by an argument here.
        let found = path.to_str().filter(|_| path.is_file());
        found.unwrap_or(arg).to_owned()
    });
    Ok(Registered {
        program,
        args: args.collect(),
        env: entry.env.clone(),
    })
}

/// What a registered worker is made of: its command line, its environment, and the content of
/// every file that they and `files` name.
fn digest(command: &Registered, files: &[PathBuf], folder: &Path) -> Digest {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut file = |path: &Path| {
        parts.push(path.to_string_lossy().into_owned().into_bytes());
        // A missing file counts as empty: it is reported when the engine is asked for.
        parts.push(
            hash_file(path)
                .map(|hash| hash.as_bytes().to_vec())
                .unwrap_or_default(),
        );
    };
    file(&command.program);
    files.iter().for_each(|path| file(&folder.join(path)));
    command.args.iter().for_each(|arg| file(Path::new(arg)));
    for (name, value) in &command.env {
        parts.push(name.clone().into_bytes());
        parts.push(value.clone().into_bytes());
    }
    Digest::of_parts(parts.iter().map(Vec::as_slice))
}

fn hash_file(path: &Path) -> Option<Digest> {
    (path.is_absolute() && path.is_file())
        .then(|| crate::complete::hash_file(path, &mut |_| true).ok())?
}
