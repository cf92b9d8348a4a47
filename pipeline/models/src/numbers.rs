//! The numbers of parameters, wherever they come from.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use schema::graph::{Fill, Parameter};

use crate::{ModelError, fill};

/// Numbers by recipe ([`fill`]), and those that the user's own weights have in a file.
#[derive(Debug, Default)]
pub struct Numbers {
    stored: Option<Stored>,
}

#[derive(Debug)]
struct Stored {
    path: PathBuf,
    file: File,
    bytes: u64,
}

impl Numbers {
    /// Numbers by recipe, and those stored in the file at `path`, where there is one.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let path = path.to_owned();
        Ok(Self {
            stored: Some(Stored { path, file, bytes }),
        })
    }

    /// The numbers of a parameter, row-major, as [`fill::parameter`] makes them.
    ///
    /// # Errors
    /// They are stored, and cannot be had.
    pub fn floats(&self, parameter: &Parameter) -> Result<Vec<f32>, ModelError> {
        match parameter.fill {
            Fill::Stored { offset, .. } => self
                .read(parameter, offset)
                .map(|numbers| numbers.into_iter().map(f32::from_le_bytes).collect()),
            _ => Ok(fill::parameter(parameter)),
        }
    }

    /// The integers of a parameter, row-major, as [`fill::integers`] makes them.
    ///
    /// # Errors
    /// They are stored, and cannot be had.
    pub fn integers(&self, parameter: &Parameter) -> Result<Vec<i64>, ModelError> {
        match parameter.fill {
            Fill::Stored { offset, .. } => self
                .read(parameter, offset)
                .map(|numbers| numbers.into_iter().map(i64::from_le_bytes).collect()),
            _ => Ok(fill::integers(
                &parameter.name,
                &parameter.fill,
                &parameter.shape,
            )),
        }
    }

    /// The bytes of each element. That they exist is known before memory is asked for.
    fn read<const N: usize>(
        &self,
        parameter: &Parameter,
        offset: u64,
    ) -> Result<Vec<[u8; N]>, ModelError> {
        let refused = |reason: String| ModelError::Stored {
            parameter: parameter.name.clone(),
            reason,
        };
        let stored = self
            .stored
            .as_ref()
            .ok_or_else(|| refused("they are stored in a file, and none was given".to_owned()))?;
        let path = stored.path.display();
        let count = fill::elements(&parameter.shape);
        let end = count
            .checked_mul(N as u64)
            .and_then(|bytes| offset.checked_add(bytes));
        let (Some(_), Ok(count)) = (
            end.filter(|&end| end <= stored.bytes),
            usize::try_from(count),
        ) else {
            let bytes = stored.bytes;
            return Err(refused(format!(
                "{count} elements from byte {offset} on reach beyond the {bytes} bytes of {path}"
            )));
        };
        let mut numbers = vec![[0; N]; count];
        stored
            .file
            .read_exact_at(numbers.as_flattened_mut(), offset)
            .map_err(|error| refused(format!("{path} cannot be read: {error}")))?;
        Ok(numbers)
    }
}

#[cfg(test)]
mod tests {
    use schema::graph::{ElementType, Role};

    use super::*;

    fn stored(element: ElementType, shape: &[u64], offset: u64) -> Parameter {
        Parameter {
            name: "w".into(),
            shape: shape.to_vec(),
            role: Role::Weight,
            fill: Fill::Stored { element, offset },
        }
    }

    #[test]
    fn stored_numbers_are_read_where_they_lie() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bytes = [1.5_f32.to_le_bytes(), (-2.0_f32).to_le_bytes()].concat();
        std::fs::write(file.path(), [bytes, 7_i64.to_le_bytes().to_vec()].concat()).unwrap();
        let numbers = Numbers::open(Some(file.path())).unwrap();
        let floats =
            |shape: &[u64], offset| numbers.floats(&stored(ElementType::Float, shape, offset));
        assert_eq!(floats(&[2], 0), Ok(vec![1.5, -2.0]));
        assert_eq!(floats(&[1, 1], 4), Ok(vec![-2.0]));
        let seven = stored(ElementType::Int64, &[], 8);
        assert_eq!(numbers.integers(&seven), Ok(vec![7]));
    }

    #[test]
    fn numbers_that_are_not_there_are_refused_before_memory_is_taken() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0; 8]).unwrap();
        let numbers = Numbers::open(Some(file.path())).unwrap();
        for (shape, offset) in [
            (&[3][..], 0),
            (&[1], 5),
            (&[1], u64::MAX),
            (&[u64::MAX, u64::MAX], 0),
            (&[1 << 60], 0),
        ] {
            let error = numbers.floats(&stored(ElementType::Float, shape, offset));
            assert!(error.unwrap_err().to_string().contains("reach beyond"));
        }
        let error = Numbers::default().floats(&stored(ElementType::Float, &[1], 0));
        assert!(error.unwrap_err().to_string().contains("none was given"));
    }
}
