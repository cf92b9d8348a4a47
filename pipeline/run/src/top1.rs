//! Whether a cell's outputs choose as the reference's do: the place of the largest number of each
//! row, a row being what lies along the last axis.

use schema::{protocol::Quantity, record::Top1};

use crate::tensors::{Flaw, Outputs};

/// How many rows of all outputs have their largest number where the reference has it, the first of
/// equals; `None` where no output has a row of two numbers.
///
/// # Errors
/// Whose file cannot be read.
pub(crate) fn agreement(reference: &Outputs, candidate: &Outputs) -> Result<Option<Top1>, Flaw> {
    let mut top1 = Top1 {
        agreeing: 0,
        rows: 0,
    };
    for (quantity, name, shape) in reference.tensors() {
        let width = shape.last().copied().unwrap_or(1);
        if quantity != Quantity::Output || width < 2 {
            continue;
        }
        let ours = choices(reference, name, width).map_err(Flaw::Reference)?;
        let theirs = choices(candidate, name, width).map_err(Flaw::Unreadable)?;
        let agreeing = ours.iter().zip(&theirs).filter(|(a, b)| a == b).count();
        top1.agreeing += agreeing as u64;
        top1.rows += ours.len() as u64;
    }
    Ok((top1.rows > 0).then_some(top1))
}

/// The place of the largest number of each row.
fn choices(outputs: &Outputs, name: &str, width: u64) -> Result<Vec<u64>, String> {
    let mut choices = Vec::new();
    let mut place = 0;
    let mut best = (f64::NEG_INFINITY, 0);
    outputs.read(name, &mut |numbers: &[f64]| {
        for &number in numbers {
            if number > best.0 {
                best = (number, place);
            }
            place += 1;
            if place == width {
                choices.push(best.1);
                (place, best) = (0, (f64::NEG_INFINITY, 0));
            }
        }
        Ok(())
    })?;
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use schema::protocol::{FileElement, TensorInfo};

    use super::*;

    fn outputs(folder: &tempfile::TempDir, name: &str, shape: &[u64], values: &[f32]) -> Outputs {
        let path = folder.path().join(name);
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        std::fs::write(&path, bytes).unwrap();
        let tensor = TensorInfo {
            quantity: Quantity::Output,
            name: "logits".to_owned(),
            shape: shape.to_vec(),
            element: FileElement::F32,
        };
        Outputs::new(path, vec![tensor], Vec::new()).unwrap()
    }

    #[test]
    fn rows_agree_where_their_largest_numbers_are_at_the_same_place() {
        let folder = tempfile::tempdir().unwrap();
        let shape = [2, 2, 3];
        let ours = [
            1.0, 2.0, 3.0, 9.0, 0.0, 0.0, -1.0, -2.0, -3.0, 5.0, 5.0, 4.0,
        ];
        let theirs = [
            0.0, 0.0, 1.0, 0.0, 9.0, 0.0, -9.0, -10.0, -11.0, 6.0, 5.0, 4.0,
        ];
        let reference = outputs(&folder, "ours", &shape, &ours);
        let candidate = outputs(&folder, "theirs", &shape, &theirs);
        let top1 = agreement(&reference, &candidate).unwrap().unwrap();
        assert_eq!((top1.agreeing, top1.rows), (3, 4));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name| outputs(&folder, name, &[1, 2], &[1.0, 2.0]);
        let (reference, candidate) = (made("ours"), made("theirs"));
        std::fs::remove_file(folder.path().join("theirs")).unwrap();
        let flaw = agreement(&reference, &candidate).unwrap_err();
        assert!(matches!(flaw, Flaw::Unreadable(_)), "{flaw:?}");
        let flaw = agreement(&candidate, &reference).unwrap_err();
        assert!(matches!(flaw, Flaw::Reference(_)), "{flaw:?}");
    }

    #[test]
    fn single_numbers_choose_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let scalars = |name| outputs(&folder, name, &[4, 1], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(agreement(&scalars("a"), &scalars("b")), Ok(None));
    }
}
