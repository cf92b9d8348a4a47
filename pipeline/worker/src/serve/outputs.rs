//! The file with a session's outputs.

use std::{
    fs::OpenOptions,
    io::{self, BufWriter, Write},
    path::Path,
};

use schema::{
    Outcome, OutcomeKind,
    protocol::{FileElement, ParityOutputs, TensorInfo},
};

use crate::{ParityData, Tensor, Values};

/// Writes the tensors one after another, little-endian, into a file that must not exist yet.
pub(super) fn write(path: &Path, data: ParityData) -> Result<ParityOutputs, Outcome> {
    for tensor in &data.tensors {
        check(tensor)?;
    }
    if let Some(bad) = data.losses.iter().position(|loss| !loss.is_finite()) {
        // JSON has no word for it, and it could never agree with a reference.
        let reason = format!("the loss of iteration {} is not finite", bad + 1);
        return Err(Outcome::new(OutcomeKind::ParityFailed, reason));
    }
    write_all(path, &data.tensors).map_err(|error| {
        let reason = format!("cannot write its outputs: {error}");
        Outcome::new(OutcomeKind::Crashed, reason)
    })?;
    let tensors = data.tensors.into_iter().map(info).collect();
    Ok(ParityOutputs {
        tensors,
        losses: data.losses,
    })
}

fn check(tensor: &Tensor) -> Result<(), Outcome> {
    let found = match &tensor.values {
        Values::F32(values) => values.len(),
        Values::F64(values) => values.len(),
    };
    let expected = tensor
        .shape
        .iter()
        .try_fold(1_u64, |product, &size| product.checked_mul(size));
    if expected == u64::try_from(found).ok() {
        return Ok(());
    }
    let reason = format!(
        "the engine gave {found} numbers for tensor `{}` of shape {:?}",
        tensor.name, tensor.shape
    );
    Err(Outcome::new(OutcomeKind::Crashed, reason))
}

fn write_all(path: &Path, tensors: &[Tensor]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let mut writer = BufWriter::with_capacity(1 << 18, file);
    for tensor in tensors {
        match &tensor.values {
            Values::F32(values) => {
                values
                    .iter()
                    .try_for_each(|value| writer.write_all(&value.to_le_bytes()))?;
            }
            Values::F64(values) => {
                values
                    .iter()
                    .try_for_each(|value| writer.write_all(&value.to_le_bytes()))?;
            }
        }
    }
    writer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .flush()
}

fn info(tensor: Tensor) -> TensorInfo {
    let element = match tensor.values {
        Values::F32(_) => FileElement::F32,
        Values::F64(_) => FileElement::F64,
    };
    TensorInfo {
        quantity: tensor.quantity,
        name: tensor.name,
        shape: tensor.shape,
        element,
    }
}

#[cfg(test)]
mod tests {
    use schema::protocol::Quantity;

    use super::*;

    fn tensor(shape: &[u64], values: Values) -> Tensor {
        Tensor {
            quantity: Quantity::Output,
            name: "y".to_owned(),
            shape: shape.to_vec(),
            values,
        }
    }

    #[test]
    fn tensors_follow_one_another_little_endian() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outputs");
        let data = ParityData {
            tensors: vec![
                tensor(&[2, 1], Values::F32(vec![1.0, -2.0])),
                tensor(&[], Values::F64(vec![0.5])),
            ],
            losses: vec![0.25],
        };
        let outputs = write(&path, data.clone()).unwrap();
        assert_eq!(outputs.tensors[1].element, FileElement::F64);
        assert_eq!(outputs.losses, [0.25]);
        let mut expected = Vec::new();
        expected.extend(1.0_f32.to_le_bytes());
        expected.extend((-2.0_f32).to_le_bytes());
        expected.extend(0.5_f64.to_le_bytes());
        assert_eq!(std::fs::read(&path).unwrap(), expected);

        let again = write(&path, data).unwrap_err();
        assert!(again.reason.contains("File exists"), "{}", again.reason);
    }

    #[test]
    fn what_cannot_be_right_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outputs");
        let wrong = ParityData {
            tensors: vec![tensor(&[u64::MAX, 2], Values::F32(vec![1.0]))],
            losses: Vec::new(),
        };
        assert_eq!(write(&path, wrong).unwrap_err().kind, OutcomeKind::Crashed);
        let diverged = ParityData {
            tensors: Vec::new(),
            losses: vec![1.0, f64::NAN],
        };
        let error = write(&path, diverged).unwrap_err();
        assert_eq!(error.kind, OutcomeKind::ParityFailed);
        assert!(error.reason.contains("iteration 2"), "{}", error.reason);
        assert!(!path.exists());
    }
}
