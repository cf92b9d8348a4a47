//! Reading a file of tensors, a piece at a time.

use std::{
    fs::File,
    io::{BufReader, Read, Seek, SeekFrom},
};

use schema::protocol::FileElement;

use super::{Outputs, Placed};

/// Elements that are read at once.
const PIECE: usize = 8192;

pub(super) fn open(outputs: &Outputs) -> Result<BufReader<File>, String> {
    File::open(&outputs.path)
        .map(|file| BufReader::with_capacity(1 << 17, file))
        .map_err(|error| format!("its file cannot be opened: {error}"))
}

/// A tensor, piece by piece, widened to binary64.
pub(super) struct Pieces<'a> {
    file: &'a mut BufReader<File>,
    element: FileElement,
    left: u64,
    bytes: Vec<u8>,
    values: Vec<f64>,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(file: &'a mut BufReader<File>, tensor: &Placed) -> Result<Self, String> {
        file.seek(SeekFrom::Start(tensor.offset))
            .map_err(|error| format!("its file cannot be read: {error}"))?;
        let (bytes, values) = (Vec::new(), Vec::with_capacity(PIECE));
        Ok(Self {
            file,
            element: tensor.element,
            left: tensor.count,
            bytes,
            values,
        })
    }

    /// The next piece; empty at the end.
    pub(super) fn next_piece(&mut self) -> Result<&[f64], String> {
        let count = usize::try_from(self.left).map_or(PIECE, |left| left.min(PIECE));
        self.left -= count as u64;
        let size = match self.element {
            FileElement::F32 => 4,
            FileElement::F64 => 8,
        };
        self.bytes.resize(count * size, 0);
        self.file
            .read_exact(&mut self.bytes)
            .map_err(|error| format!("its file cannot be read: {error}"))?;
        self.values.clear();
        match self.element {
            FileElement::F32 => {
                let (numbers, _) = self.bytes.as_chunks::<4>();
                self.values.extend(
                    numbers
                        .iter()
                        .map(|bytes| f64::from(f32::from_le_bytes(*bytes))),
                );
            }
            FileElement::F64 => {
                let (numbers, _) = self.bytes.as_chunks::<8>();
                self.values
                    .extend(numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)));
            }
        }
        Ok(&self.values)
    }
}

pub(super) const fn size_of(element: FileElement) -> u64 {
    match element {
        FileElement::F32 => 4,
        FileElement::F64 => 8,
    }
}
