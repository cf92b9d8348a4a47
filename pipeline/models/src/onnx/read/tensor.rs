//! Tensors of a model: what is known of each beforehand, and its numbers once they are needed.

use std::{collections::BTreeMap, fmt, fs::File, io, rc::Rc};

use bytes::Bytes;
use half::{bf16, f16};

use super::{census::varint, open};
use crate::{
    infer::{BEYOND, MAX_ELEMENTS, MAX_RANK},
    onnx::proto::TensorProto,
};

/// `TensorProto.DataLocation` of a tensor whose numbers lie in a file beside the model.
pub(super) const EXTERNAL: i32 = 1;

/// What the numbers of a tensor are taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of any width; held as binary32.
    Float,
    /// Of any width; held as 64 bits.
    Integer,
    /// Held as 0 and 1.
    Bool,
    /// Not read: floats of 8 bits, numbers of 4, complex ones and texts.
    Other,
}

/// An element type as the file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element {
    pub(super) kind: Kind,
    /// ONNX's number of it.
    pub(super) code: i32,
    /// Bytes of one.
    width: u64,
}

impl Element {
    pub(crate) const FLOAT: i32 = 1;
    pub(super) const INT32: i32 = 6;
    pub(super) const INT64: i32 = 7;
    const BOOL: i32 = 9;
    pub(crate) const FLOAT16: i32 = 10;
    pub(crate) const DOUBLE: i32 = 11;
    pub(crate) const BFLOAT16: i32 = 16;

    /// The element type of this number in `TensorProto.DataType`.
    pub(super) fn of(code: i32) -> Result<Self, String> {
        let (kind, width) = match code {
            Self::FLOAT => (Kind::Float, 4),
            Self::FLOAT16 | Self::BFLOAT16 => (Kind::Float, 2),
            Self::DOUBLE => (Kind::Float, 8),
            2 | 3 => (Kind::Integer, 1),
            4 | 5 => (Kind::Integer, 2),
            Self::INT32 | 12 => (Kind::Integer, 4),
            Self::INT64 | 13 => (Kind::Integer, 8),
            Self::BOOL => (Kind::Bool, 1),
            8 => {
                return Err(
                    "texts are not read: turn them into numbers before the model".to_owned(),
                );
            }
            14 | 15 => return Err("complex numbers are not read".to_owned()),
            _ => {
                return Err(format!(
                    "element type {code} is not read: export it in fp32"
                ));
            }
        };
        Ok(Self { kind, code, width })
    }

    /// The same, and those of tensors whose numbers are not read.
    fn of_tensor(code: i32) -> Result<Self, String> {
        match code {
            8 | 14 | 15 | 17..=23 => Ok(Self {
                kind: Kind::Other,
                code,
                width: 0,
            }),
            _ => Self::of(code),
        }
    }

    /// Bytes of so many, one after another; `None` of texts, which differ.
    fn bytes(self, elements: u64) -> Option<u64> {
        let bits = match self.code {
            8 => return None,
            14 => 64,
            15 => 128,
            17..=20 => 8,
            21..=23 => 4,
            _ => 8 * self.width,
        };
        Some(elements.saturating_mul(bits).div_ceil(8))
    }

    /// Whether images come in it: integers of 8 or 16 bits.
    pub(super) const fn is_pixel(self) -> bool {
        matches!(self.code, 2..=5)
    }

    /// Itself, if it is of integers that have fewer than 64 bits.
    fn narrow(self) -> Option<Self> {
        (self.kind == Kind::Integer && self.width < 8).then_some(self)
    }

    /// How many numbers it holds from 0 on, one after another.
    pub(super) const fn reach(self) -> u64 {
        let bits = match self.code {
            Self::BOOL => 1,
            // With a sign.
            3 | 5 | Self::INT32 | Self::INT64 => 8 * self.width as u32 - 1,
            _ => 8 * self.width as u32,
        };
        match 1_u64.checked_shl(bits) {
            Some(reach) => reach,
            None => u64::MAX,
        }
    }

    /// A number from its little-endian bytes.
    fn decode(self, bytes: &[u8]) -> Number {
        let mut wide = [0; 8];
        for (slot, byte) in wide.iter_mut().zip(bytes) {
            *slot = *byte;
        }
        self.of_bits(u64::from_le_bytes(wide))
    }

    /// What a number becomes as one of these integers: its lower bits.
    pub(super) fn integer(self, number: i64) -> i64 {
        let unused = u64::MAX.checked_shl(8 * self.width as u32).unwrap_or(0);
        match self.of_bits(number as u64 & !unused) {
            Number::Integer(number) => number,
            Number::Float(_) => number,
        }
    }

    /// A number from its bits, those above its width zero.
    fn of_bits(self, bits: u64) -> Number {
        match self.code {
            Self::FLOAT => Number::Float(f32::from_bits(bits as u32)),
            Self::FLOAT16 => Number::Float(f16::from_bits(bits as u16).to_f32()),
            Self::BFLOAT16 => Number::Float(bf16::from_bits(bits as u16).to_f32()),
            Self::DOUBLE => Number::Float(f64::from_bits(bits) as f32),
            3 => Number::Integer(i64::from(bits as i8)),
            5 => Number::Integer(i64::from(bits as i16)),
            Self::INT32 => Number::Integer(i64::from(bits as i32)),
            Self::BOOL => Number::Integer(i64::from(bits != 0)),
            2 => Number::Integer(i64::from(bits as u8)),
            4 => Number::Integer(i64::from(bits as u16)),
            12 => Number::Integer(i64::from(bits as u32)),
            _ => Number::Integer(bits as i64),
        }
    }
}

enum Number {
    Float(f32),
    Integer(i64),
}

/// Numbers in memory.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Data {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
}

impl Data {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Floats(numbers) => numbers.len(),
            Self::Integers(numbers) => numbers.len(),
        }
    }
}

/// Without the numbers, which may be millions.
impl fmt::Debug for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Constant")
            .field("kind", &self.kind)
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

/// Where the numbers of a constant are.
enum Source {
    /// In memory: a small one that was unpacked, or one that was computed.
    Data(Data),
    /// In the message, each in its own width.
    Raw(Element, Bytes),
    /// In the message as packed varints.
    Varints(Element, Bytes),
    /// In a file beside the model, each in its own width.
    External(Element, Rc<File>, u64),
    /// In so many bytes of the model or beside it, and not read.
    Unread(Element, u64),
}

/// A tensor whose numbers are fixed.
#[derive(Clone)]
pub(crate) struct Constant {
    pub(super) kind: Kind,
    /// What its integers are in the file, where they have fewer than 64 bits.
    narrow: Option<Element>,
    pub(super) shape: Vec<u64>,
    /// Tells where it came from: views of one tensor share it.
    source: Rc<Source>,
}

/// Elements of a shape, within what a value may have.
pub(super) fn count(shape: &[u64]) -> Result<u64, String> {
    shape
        .iter()
        .try_fold(1_u64, |product, &size| product.checked_mul(size))
        .filter(|&count| count <= MAX_ELEMENTS)
        .ok_or_else(|| format!("shape {shape:?} {BEYOND}"))
}

/// Opens a file beside the model.
pub(super) type OpenBeside<'a> = &'a mut dyn FnMut(&str) -> Result<Rc<File>, String>;

impl Constant {
    pub(super) fn new(kind: Kind, shape: Vec<u64>, data: Data) -> Self {
        let source = Rc::new(Source::Data(data));
        Self {
            kind,
            narrow: None,
            shape,
            source,
        }
    }

    /// Numbers of this element type, which are in its reach.
    pub(super) fn of(element: Element, shape: Vec<u64>, data: Data) -> Self {
        Self {
            narrow: element.narrow(),
            ..Self::new(element.kind, shape, data)
        }
    }

    /// The same integers, of 64 bits.
    pub(super) fn widened(&self) -> Self {
        Self {
            narrow: None,
            ..self.clone()
        }
    }

    /// Numbers of the same type that were computed from these: of integers, what their width holds.
    pub(super) fn like(&self, shape: Vec<u64>, data: Data) -> Self {
        let data = match data {
            Data::Integers(mut numbers) => {
                for number in &mut numbers {
                    *number = self.narrowed(*number);
                }
                Data::Integers(numbers)
            }
            data @ Data::Floats(_) => data,
        };
        Self {
            narrow: self.narrow,
            ..Self::new(self.kind, shape, data)
        }
    }

    /// What a number becomes as an integer of this one's type.
    pub(super) fn narrowed(&self, number: i64) -> i64 {
        self.narrow
            .map_or(number, |element| element.integer(number))
    }

    /// Numbers of an element type ([`Element::of`]) that lie in a file from a byte on. That they are
    /// all there is the caller's word.
    pub(crate) fn in_file(
        code: i32,
        shape: Vec<u64>,
        file: Rc<File>,
        offset: u64,
    ) -> Result<Self, String> {
        let element = Element::of(code)?;
        count(&shape)?;
        Ok(Self {
            kind: element.kind,
            narrow: element.narrow(),
            shape,
            source: Rc::new(Source::External(element, file, offset)),
        })
    }

    pub(super) fn floats(shape: Vec<u64>, numbers: Vec<f32>) -> Self {
        Self::new(Kind::Float, shape, Data::Floats(numbers))
    }

    pub(super) fn integers(shape: Vec<u64>, numbers: Vec<i64>) -> Self {
        Self::new(Kind::Integer, shape, Data::Integers(numbers))
    }

    /// A tensor of the file. Everything about it is checked but the numbers themselves, which are
    /// not looked at.
    pub(super) fn read(tensor: &TensorProto, open: OpenBeside<'_>) -> Result<Self, String> {
        let element = Element::of_tensor(tensor.data_type)?;
        let rank = tensor.dims.len();
        if rank > MAX_RANK {
            return Err(format!("has {rank} axes, at most {MAX_RANK} are possible"));
        }
        let size = |&size: &i64| u64::try_from(size).map_err(|_| format!("size {size}"));
        let shape: Vec<u64> = tensor.dims.iter().map(size).collect::<Result<_, _>>()?;
        let elements = count(&shape)?;
        let bytes = element.bytes(elements);
        let fits = |got: u64| match bytes {
            Some(bytes) if got != bytes => Err(format!(
                "shape {shape:?} takes {bytes} bytes, and {got} are there"
            )),
            Some(_) => Ok(()),
            None => Err("is a text outside of its place".to_owned()),
        };
        let source = if tensor.data_location == Some(EXTERNAL) {
            let place = Place::of(tensor)?;
            let file = open(&place.location)?;
            let length = place.length.or(bytes).unwrap_or(0);
            fits(length)?;
            let held = file.metadata().map_err(|error| error.to_string())?.len();
            if place
                .offset
                .checked_add(length)
                .is_none_or(|end| end > held)
            {
                return Err(format!(
                    "{length} bytes from byte {} on reach beyond the {held} bytes of `{}`",
                    place.offset, place.location
                ));
            }
            Source::External(element, file, place.offset)
        } else if let Some(raw) = &tensor.raw_data {
            fits(raw.len() as u64)?;
            Source::Raw(element, raw.clone())
        } else {
            match element.code {
                17..=20 => Source::Varints(element, tensor.int32_data.clone()),
                _ if element.kind == Kind::Other => {
                    Source::Unread(element, tensor.int32_data.len() as u64)
                }
                Element::FLOAT => {
                    fits(tensor.float_data.len() as u64)?;
                    Source::Raw(element, tensor.float_data.clone())
                }
                Element::DOUBLE => {
                    fits(tensor.double_data.len() as u64)?;
                    Source::Raw(element, tensor.double_data.clone())
                }
                Element::INT64 => Source::Varints(element, tensor.int64_data.clone()),
                12 | 13 => Source::Varints(element, tensor.uint64_data.clone()),
                _ => Source::Varints(element, tensor.int32_data.clone()),
            }
        };
        if let Source::Varints(_, packed) = &source {
            // Each takes a byte at least and ends in one without the upper bit.
            let got = packed.iter().filter(|&&byte| byte & 0x80 == 0).count() as u64;
            if got != elements {
                return Err(format!(
                    "shape {shape:?} has {elements} elements, and {got} are there"
                ));
            }
        }
        let source = match source {
            Source::Unread(..) => source,
            _ if element.kind == Kind::Other => Source::Unread(element, bytes.unwrap_or(0)),
            _ => source,
        };
        Ok(Self {
            kind: element.kind,
            narrow: element.narrow(),
            shape,
            source: Rc::new(source),
        })
    }

    /// Bytes that the file takes for it.
    pub(super) fn file_bytes(&self) -> u64 {
        match &*self.source {
            Source::Raw(element, _)
            | Source::External(element, ..)
            | Source::Varints(element, _) => self.elements().saturating_mul(element.width),
            Source::Unread(_, bytes) => *bytes,
            Source::Data(_) => 0,
        }
    }

    /// The same numbers in another shape of as many elements.
    pub(super) fn with_shape(&self, shape: Vec<u64>) -> Self {
        Self {
            shape,
            ..self.clone()
        }
    }

    /// Where its numbers come from, as a key: equal for views of one tensor.
    pub(super) fn origin(&self) -> usize {
        Rc::as_ptr(&self.source) as usize
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> u64 {
        self.shape
            .iter()
            .fold(1, |product: u64, &size| product.saturating_mul(size))
    }

    /// ONNX's number of its element type, where it holds floats of the file.
    pub(super) fn float_code(&self) -> Option<i32> {
        match &*self.source {
            Source::Raw(element, _)
            | Source::External(element, ..)
            | Source::Varints(element, _) => (element.kind == Kind::Float).then_some(element.code),
            Source::Data(_) | Source::Unread(..) => None,
        }
    }

    /// ONNX's number of its element type; of floats that were computed, `own`; `None` of what is not read.
    pub(super) fn code(&self, own: i32) -> Option<i32> {
        match self.kind {
            Kind::Float => Some(self.float_code().unwrap_or(own)),
            Kind::Integer => Some(self.narrow.map_or(Element::INT64, |element| element.code)),
            Kind::Bool => Some(Element::BOOL),
            Kind::Other => None,
        }
    }

    /// The numbers in memory. The caller has seen to it that there is room for them.
    pub(super) fn data(&self) -> Result<Data, String> {
        if let Source::Unread(element, _) = &*self.source {
            return Err(format!(
                "numbers of element type {} are not read",
                element.code
            ));
        }
        let room = usize::try_from(self.elements()).unwrap_or(0);
        let (mut floats, mut integers) = match self.kind {
            Kind::Float => (Vec::with_capacity(room), Vec::new()),
            _ => (Vec::new(), Vec::with_capacity(room)),
        };
        self.each(&mut |number| {
            match number {
                Number::Float(float) => floats.push(float),
                Number::Integer(integer) => integers.push(integer),
            }
            Ok(())
        })
        .map_err(|error| format!("its numbers cannot be read: {error}"))?;
        let data = match self.kind {
            Kind::Float => Data::Floats(floats),
            _ => Data::Integers(integers),
        };
        if data.len() as u64 == self.elements() {
            Ok(data)
        } else {
            Err("its numbers cannot be read: some are missing".to_owned())
        }
    }

    /// Its only number as a float; `None` where there are several.
    pub(super) fn scalar(&self) -> Option<f64> {
        if self.elements() != 1 {
            return None;
        }
        match self.data().ok()? {
            Data::Floats(numbers) => numbers.first().map(|&number| f64::from(number)),
            Data::Integers(numbers) => numbers.first().map(|&number| number as f64),
        }
    }

    /// Writes the numbers as workers read them: binary32, or 64-bit integers, little-endian.
    pub(super) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        match &*self.source {
            // As they are.
            Source::Raw(
                Element {
                    code: Element::FLOAT | Element::INT64,
                    ..
                },
                bytes,
            ) => out.write_all(bytes),
            Source::External(
                element @ Element {
                    code: Element::FLOAT | Element::INT64,
                    ..
                },
                file,
                offset,
            ) => {
                let length = self.elements().saturating_mul(element.width);
                open::pieces(file, *offset, length, |piece| out.write_all(piece))
            }
            _ => self.each(&mut |number| match number {
                Number::Float(float) => out.write_all(&float.to_le_bytes()),
                Number::Integer(integer) => out.write_all(&integer.to_le_bytes()),
            }),
        }
    }

    /// Whether all of its numbers are finite, as they are written.
    pub(super) fn is_finite(&self) -> io::Result<bool> {
        let mut is_finite = true;
        self.each(&mut |number| {
            is_finite &= match number {
                Number::Float(float) => float.is_finite(),
                Number::Integer(_) => true,
            };
            Ok(())
        })?;
        Ok(is_finite)
    }

    fn each(&self, visit: &mut dyn FnMut(Number) -> io::Result<()>) -> io::Result<()> {
        let mut raw = |element: Element, bytes: &[u8]| {
            bytes
                .chunks_exact(element.width as usize)
                .try_for_each(|bytes| visit(element.decode(bytes)))
        };
        match &*self.source {
            Source::Data(Data::Floats(numbers)) => numbers
                .iter()
                .try_for_each(|&number| visit(Number::Float(number))),
            Source::Data(Data::Integers(numbers)) => numbers
                .iter()
                .try_for_each(|&number| visit(Number::Integer(number))),
            Source::Raw(element, bytes) => raw(*element, bytes),
            Source::External(element, file, offset) => {
                let length = self.elements().saturating_mul(element.width);
                open::pieces(file, *offset, length, |piece| raw(*element, piece))
            }
            Source::Unread(..) => Err(io::ErrorKind::Unsupported.into()),
            Source::Varints(element, packed) => {
                let mut rest: &[u8] = packed;
                while !rest.is_empty() {
                    let bits = varint(&mut rest).ok_or(io::ErrorKind::InvalidData)?;
                    visit(element.of_bits(bits))?;
                }
                Ok(())
            }
        }
    }
}

/// Where the numbers of a tensor lie beside the model.
struct Place {
    location: String,
    offset: u64,
    length: Option<u64>,
}

impl Place {
    fn of(tensor: &TensorProto) -> Result<Self, String> {
        let mut entries = BTreeMap::new();
        for entry in &tensor.external_data {
            // Readers differ in which of two they believe.
            if entries.insert(&*entry.key, &*entry.value).is_some() {
                return Err(format!("its external data says `{}` twice", entry.key));
            }
        }
        let entry = |key: &str| entries.get(key).copied();
        // ONNX Runtime takes a place that begins so for one in memory.
        if entry("location").is_some_and(|place| place.starts_with("*/")) {
            return Err("its external data lies in memory".to_owned());
        }
        let number = |key: &str| {
            entry(key)
                .map(|text| {
                    // Digits alone: readers differ in whether a sign may stand before them.
                    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                    let number = text.parse::<u64>().ok().filter(|_| digits);
                    number.ok_or(format!(
                        "the `{key}` of its external data is no number of bytes"
                    ))
                })
                .transpose()
        };
        Ok(Self {
            location: entry("location")
                .ok_or("its external data lies in no file")?
                .to_owned(),
            offset: number("offset")?.unwrap_or(0),
            length: number("length")?,
        })
    }
}
