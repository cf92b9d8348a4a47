//! Content hashes: the names of artifacts and the keys of caches.

use std::{
    fmt,
    io::{self, Read},
    str::FromStr,
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 hash, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// The hash of `bytes`.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of a value's JSON form.
    ///
    /// Maps in the schema are ordered, and fields are written in the order of their declaration,
    /// so equal values have equal hashes.
    ///
    /// # Panics
    /// Never for types of this crate: all of them can be written as JSON.
    #[must_use]
    pub fn of_value<T: Serialize>(value: &T) -> Self {
        let json = serde_json::to_vec(value).expect("schema types serialize");
        Self::of_bytes(&json)
    }

    /// The hash of several parts in order. Each part is preceded by its length, so that
    /// `["ab", "c"]` and `["a", "bc"]` differ.
    #[must_use]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }

    /// The hash of the bytes that the pieces make when they are put together, wherever they are cut.
    #[must_use]
    pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Sha256::new();
        for piece in pieces {
            hasher.update(piece);
        }
        Self(hasher.finalize().into())
    }

    /// The hash of all bytes that a reader has to give.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn of_reader(reader: &mut dyn Read) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(Self(hasher.finalize().into())),
                Ok(count) => hasher.update(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The first 12 hexadecimal digits: enough to tell artifacts of one store apart by eye.
    #[must_use]
    pub fn short(&self) -> String {
        let mut hex = self.to_string();
        hex.truncate(12);
        hex
    }

    /// The 32 bytes of the hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A plan writes tens of thousands of these: formatting byte by byte would show.
        let digit = |nibble: u8| match nibble {
            0..=9 => b'0' + nibble,
            _ => b'a' - 10 + nibble,
        };
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte & 15)]);
        }
        f.write_str(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lower-case hexadecimal digits")]
pub struct ParseDigestError;

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(ParseDigestError);
        }
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Ok(digit - b'0'),
            b'a'..=b'f' => Ok(digit - b'a' + 10),
            _ => Err(ParseDigestError),
        };
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_of_nothing_is_the_published_one() {
        // FIPS 180-4 test vector for the empty message.
        assert_eq!(
            Digest::of_bytes(b"").to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn text_round_trips_and_junk_is_refused() {
        let digest = Digest::of_bytes(b"photofinish");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!("abc".parse::<Digest>(), Err(ParseDigestError));
        assert_eq!("G".repeat(64).parse::<Digest>(), Err(ParseDigestError));
        assert_eq!("A".repeat(64).parse::<Digest>(), Err(ParseDigestError));
    }

    #[test]
    fn parts_are_separated() {
        let joined = |parts: &[&[u8]]| Digest::of_parts(parts.iter().copied());
        assert_ne!(joined(&[b"ab", b"c"]), joined(&[b"a", b"bc"]));
    }

    #[test]
    fn pieces_are_put_together() {
        let together = |pieces: &[&[u8]]| Digest::of_pieces(pieces.iter().copied());
        assert_eq!(together(&[b"ab", b"", b"c"]), Digest::of_bytes(b"abc"));
        assert_eq!(together(&[]), Digest::of_bytes(b""));
    }
}
