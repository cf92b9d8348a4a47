//! Weights of the user's for a network of the zoo: a file in the safetensors format.
//!
//! Tensors are found by name. The zoo calls its parameters as torchvision's and Hugging Face's
//! checkpoints do, so that those fit as they are; all names may stand behind one prefix (`bert.`,
//! `module.`), those of heads may stand without it, and scale and shift of a normalisation may be
//! called `gamma` and `beta`, as in checkpoints that began in TensorFlow. Every weight and every
//! running statistic of the network must be there in its shape; what else the file holds is left.
//! Numbers are taken as binary32, to which fp16 and bf16 widen without loss and fp64 is rounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Seek as _},
    os::unix::fs::FileExt as _,
    path::Path,
    rc::Rc,
};

use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};
use schema::{
    Digest, Graph,
    graph::{Parameter, Role},
};

use crate::onnx::{
    ReadError, Reading, Shelf,
    read::{
        open,
        tensor::{Constant, Element},
    },
};

/// Bytes of the number before the header, which says how long that is.
const LENGTH_BYTES: u64 = 8;

/// Longest header, in bytes: that of a network with tens of thousands of tensors. It takes many times
/// as much memory while it is read.
const HEADER_LIMIT: u64 = 1 << 22;

/// Most prefixes that are tried. Names of a deep network's layers end like the name of its first.
const MOST_PREFIXES: usize = 1000;

/// A file of weights, open and checked as far as that can be done without a network.
#[derive(Debug)]
pub struct Checkpoint {
    file: Rc<fs::File>,
    digest: Digest,
    /// Where the numbers begin.
    begin: u64,
    tensors: BTreeMap<String, TensorInfo>,
}

impl Checkpoint {
    /// Opens the file at `path`, which leads from `folder` downwards.
    ///
    /// # Errors
    /// A path that leaves the folder or meets a link; a file that cannot be read, or that is no
    /// whole file of safetensors.
    pub fn open(folder: &Path, path: &str) -> Result<Self, ReadError> {
        let file = open::beneath(folder, path)?;
        let unreadable =
            |error: io::Error| ReadError::Unreadable(format!("`{path}` cannot be read: {error}"));
        let malformed = |reason: String| {
            ReadError::Malformed(format!("it is no file of safetensors: {reason}"))
        };
        let held = file.metadata().map_err(unreadable)?.len();
        let mut length = [0; LENGTH_BYTES as usize];
        if held < LENGTH_BYTES {
            return Err(malformed(format!("it has {held} bytes")));
        }
        file.read_exact_at(&mut length, 0).map_err(unreadable)?;
        let length = u64::from_le_bytes(length);
        if length > HEADER_LIMIT || length > held - LENGTH_BYTES {
            return Err(malformed(format!(
                "its first bytes announce a header of {length} bytes"
            )));
        }
        let mut header = vec![0; length as usize];
        file.read_exact_at(&mut header, LENGTH_BYTES)
            .map_err(unreadable)?;
        let begin = LENGTH_BYTES + length;
        let header: Metadata =
            serde_json::from_slice(&header).map_err(|error| malformed(error.to_string()))?;
        let (wanted, there) = (header.data_len() as u64, held - begin);
        if wanted != there {
            return Err(malformed(format!(
                "its tensors take {wanted} bytes, and {there} are there"
            )));
        }
        let digest = Digest::of_reader(&mut &file).map_err(unreadable)?;
        let tensors = header.tensors().into_iter();
        Ok(Self {
            file: Rc::new(file),
            digest,
            begin,
            tensors: tensors.map(|(name, info)| (name, info.clone())).collect(),
        })
    }

    /// The hash of the content.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Whether the file still holds what it held when it was opened. Numbers are read when they are
    /// needed: who keeps them asks afterwards.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        let mut file = &*self.file;
        let begin = file.rewind();
        begin.is_ok() && Digest::of_reader(&mut file).is_ok_and(|digest| digest == self.digest)
    }

    /// A network with the numbers of this file; its constants, positions say, keep their recipes.
    ///
    /// # Errors
    /// A tensor that the file lacks, or has in another shape or an element type that is not read;
    /// several prefixes under which everything would be found.
    pub fn read(&self, mut graph: Graph) -> Result<Reading, ReadError> {
        let found = self.find(&graph)?;
        let mut weights = Shelf::default();
        for (parameter, (name, tensor)) in filled(&mut graph.parameters).zip(found) {
            let constant = self.constant(parameter, name, tensor);
            parameter.fill = weights.put(constant.map_err(ReadError::Malformed)?);
        }
        Ok(Reading { graph, weights })
    }

    /// The tensor of each weight and each running statistic.
    fn find(&self, graph: &Graph) -> Result<Vec<(&str, &TensorInfo)>, ReadError> {
        let wanted: Vec<&str> = graph
            .parameters
            .iter()
            .filter(|parameter| parameter.role != Role::Constant)
            .map(|parameter| parameter.name.as_str())
            .collect();
        let complete = |prefix: &&str| {
            let mut names = wanted.iter();
            names.all(|name| self.tensor(prefix, name).is_some())
        };
        let prefixes = self.prefixes(&wanted);
        let mut fitting = prefixes.iter().copied().filter(complete);
        let prefix = match (fitting.next(), fitting.next()) {
            (Some(prefix), None) => prefix,
            (Some(""), Some(_)) => "",
            (Some(one), Some(other)) => {
                return Err(ReadError::Malformed(format!(
                    "all tensors of {} are there twice: behind `{one}` and behind `{other}`",
                    graph.name
                )));
            }
            (None, _) => return Err(self.lacking(graph, &wanted, &prefixes)),
        };
        Ok(wanted
            .iter()
            .filter_map(|name| self.tensor(prefix, name))
            .collect())
    }

    /// What could stand before the names: whatever does so before the first of them that is there,
    /// unless that is too much to try.
    fn prefixes(&self, wanted: &[&str]) -> BTreeSet<&str> {
        let before = |name: &str| -> BTreeSet<&str> {
            let names = spellings(name);
            let found = self.tensors.keys().filter_map(|held| {
                let mut rests = names
                    .iter()
                    .filter_map(|name| held.strip_suffix(name.as_str()));
                rests.find(|rest| rest.is_empty() || rest.ends_with('.'))
            });
            found.collect()
        };
        let mut found = wanted.iter().map(|name| before(name));
        let mut prefixes = found.find(|found| !found.is_empty()).unwrap_or_default();
        if prefixes.len() > MOST_PREFIXES {
            prefixes.clear();
        }
        prefixes.insert("");
        prefixes
    }

    /// The tensor of a parameter: behind the prefix, else without it.
    fn tensor(&self, prefix: &str, name: &str) -> Option<(&str, &TensorInfo)> {
        let names = spellings(name);
        let places = names.iter().map(|name| format!("{prefix}{name}"));
        let mut places = places.chain(names.iter().cloned());
        places.find_map(|place| {
            let (name, tensor) = self.tensors.get_key_value(&place)?;
            Some((name.as_str(), tensor))
        })
    }

    /// What is missing under the prefix that misses least.
    fn lacking(&self, graph: &Graph, wanted: &[&str], prefixes: &BTreeSet<&str>) -> ReadError {
        let missing = |prefix: &&str| -> Vec<&str> {
            let names = wanted.iter().copied();
            names
                .filter(|name| self.tensor(prefix, name).is_none())
                .collect()
        };
        let missing = prefixes.iter().map(missing).min_by_key(Vec::len);
        let missing = missing.unwrap_or_default();
        let first = missing.first().copied().unwrap_or_default();
        let more = match missing.len().saturating_sub(1) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        ReadError::Malformed(format!(
            "of the {} tensors of {} it lacks `{first}`{more}",
            wanted.len(),
            graph.name
        ))
    }

    fn constant(
        &self,
        parameter: &Parameter,
        name: &str,
        tensor: &TensorInfo,
    ) -> Result<Constant, String> {
        let shape: Vec<u64> = tensor.shape.iter().map(|&size| size as u64).collect();
        if shape != parameter.shape {
            return Err(format!(
                "its `{name}` has the shape {shape:?}, and the network's has {:?}",
                parameter.shape
            ));
        }
        let code = match tensor.dtype {
            Dtype::F32 => Element::FLOAT,
            Dtype::F16 => Element::FLOAT16,
            Dtype::BF16 => Element::BFLOAT16,
            Dtype::F64 => Element::DOUBLE,
            other => {
                return Err(format!(
                    "its `{name}` holds {other:?}, and floats of 16, 32 or 64 bits are read"
                ));
            }
        };
        let offset = self.begin + tensor.data_offsets.0 as u64;
        Constant::in_file(code, shape, Rc::clone(&self.file), offset)
    }
}

/// The parameters whose numbers a file of weights has.
fn filled(parameters: &mut [Parameter]) -> impl Iterator<Item = &mut Parameter> {
    parameters
        .iter_mut()
        .filter(|parameter| parameter.role != Role::Constant)
}

/// A name, and what older checkpoints call it.
fn spellings(name: &str) -> Vec<String> {
    let older = [(".weight", ".gamma"), (".bias", ".beta")]
        .into_iter()
        .filter_map(|(now, then)| name.strip_suffix(now).map(|stem| format!("{stem}{then}")));
    std::iter::once(name.to_owned()).chain(older).collect()
}
