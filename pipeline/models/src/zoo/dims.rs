//! Named dimensions: defaults and limits.

use std::collections::BTreeMap;

use super::vit::PATCH;
use crate::ModelError;

/// A dimension of a network.
pub(super) struct Dim {
    name: &'static str,
    default: u64,
    least: u64,
    most: u64,
    multiple_of: u64,
    /// Whether other sizes make another network, not just the same with other shapes.
    redraws: bool,
}

const fn dim(name: &'static str, default: u64, least: u64, most: u64) -> Dim {
    Dim {
        name,
        default,
        least,
        most,
        multiple_of: 1,
        redraws: false,
    }
}

const BATCH: Dim = dim("batch", 1, 1, 65_536);

/// Below 32 pixels the last stage of these networks has no pixel of its own.
pub(super) const IMAGE_224: &[Dim] = &[BATCH, dim("image", 224, 32, 8192)];

/// As [`IMAGE_224`], with the size that torchvision's EfficientNet-B4 was trained for.
pub(super) const IMAGE_380: &[Dim] = &[BATCH, dim("image", 380, 32, 8192)];

/// The classifier reads 7×7 pixels, each the mean of a whole number of pixels: a pooling of that
/// many, or none.
pub(super) const IMAGE_VGG: &[Dim] = &[
    BATCH,
    Dim {
        name: "image",
        default: 224,
        least: 224,
        most: 8064,
        multiple_of: 224,
        redraws: true,
    },
];

/// Below 75 pixels the last stage has no pixel of its own.
pub(super) const IMAGE_299: &[Dim] = &[BATCH, dim("image", 299, 75, 8192)];

/// A whole number of patches, and a table of positions with a row for each.
pub(super) const IMAGE_VIT: &[Dim] = &[
    BATCH,
    Dim {
        name: "image",
        default: 224,
        least: PATCH,
        most: 1024,
        multiple_of: PATCH,
        redraws: true,
    },
];

/// BERT's table of positions has 512 rows.
pub(super) const TEXT: &[Dim] = &[BATCH, dim("seq", 128, 1, 512)];

/// GPT-2's table of positions has 1024 rows.
pub(super) const LONG_TEXT: &[Dim] = &[BATCH, dim("seq", 128, 1, 1024)];

/// Lengths of the source and of the target. Positions are computed; the limit is that of GPT-2.
pub(super) const TRANSLATION: &[Dim] =
    &[BATCH, dim("seq", 128, 1, 1024), dim("target", 128, 1, 1024)];

/// The paper of the LSTM language model learns on stretches of 35 words; the limit is that of GPT-2.
pub(super) const SENTENCES: &[Dim] = &[BATCH, dim("seq", 35, 1, 1024)];

/// Steps of 10 ms: two seconds, and up to forty.
pub(super) const SPEECH: &[Dim] = &[BATCH, dim("frames", 200, 1, 4000)];

/// A product of matrices of 16,384 rows takes 3 GiB in fp32, and a reference in double precision 6.
pub(super) const PRODUCT: &[Dim] = &[dim(super::ceilings::SIZE, 2048, 1, 16_384)];

/// More than the caches of most machines hold; 4 GiB are more than those of any today.
pub(super) const READING: &[Dim] = &[dim(super::ceilings::MIB, 256, 1, 4096)];

/// All dimensions of the network `name`, missing ones by their defaults.
///
/// # Errors
/// An unknown name or dimension, or a size that the network cannot have.
pub fn resolve_dims(
    name: &str,
    dims: &BTreeMap<String, u64>,
) -> Result<BTreeMap<String, u64>, ModelError> {
    let known = super::entry(name)?.dims;
    if let Some(unknown) = dims
        .keys()
        .find(|given| known.iter().all(|dim| dim.name != **given))
    {
        return Err(ModelError::UnknownDimension {
            model: name.to_owned(),
            dimension: unknown.clone(),
            known: known
                .iter()
                .map(|dim| dim.name)
                .collect::<Vec<_>>()
                .join(", "),
        });
    }
    known
        .iter()
        .map(|dim| {
            let size = dims.get(dim.name).copied().unwrap_or(dim.default);
            dim.check(size).map_err(|reason| ModelError::Dimension {
                model: name.to_owned(),
                dimension: dim.name.to_owned(),
                size,
                reason,
            })?;
            Ok((dim.name.to_owned(), size))
        })
        .collect()
}

/// Of these dimensions of the network `name` those that decide what is drawn.
pub(super) fn redrawn(name: &str, dims: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let known = super::entry(name).map_or(&[][..], |entry| entry.dims);
    let redraws = |dim: &String| {
        known
            .iter()
            .any(|known| known.redraws && known.name == *dim)
    };
    dims.iter()
        .filter(|(dim, _)| redraws(dim))
        .map(|(dim, size)| (dim.clone(), *size))
        .collect()
}

impl Dim {
    fn check(&self, size: u64) -> Result<(), String> {
        let Self {
            least,
            most,
            multiple_of,
            ..
        } = *self;
        if (least..=most).contains(&size) && size.is_multiple_of(multiple_of) {
            Ok(())
        } else if multiple_of > 1 {
            Err(format!(
                "give a multiple of {multiple_of} from {least} to {most}"
            ))
        } else {
            Err(format!("give a number from {least} to {most}"))
        }
    }
}

/// The name nearest to what was typed, where at most a third of it differs.
pub(super) fn nearest(typed: &str, names: Vec<&'static str>) -> Option<String> {
    names
        .into_iter()
        .map(|name| (strsim::osa_distance(typed, name), name))
        .filter(|(distance, name)| distance * 3 <= name.len())
        .min()
        .map(|(_, name)| name.to_owned())
}
