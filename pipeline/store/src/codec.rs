//! JSON lines in zstd, with bounds on everything that a hostile file could blow up.

use std::io::{self, BufRead, BufReader, Read};

use schema::{Digest, Heat, record::HeatLine};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use zstd::zstd_safe::DCtx;

/// Longest line of a heat, in bytes.
pub(crate) const MAX_LINE_BYTES: u64 = 64 << 20;
/// Longest heat or run record, decompressed, in bytes.
pub(crate) const MAX_DOCUMENT_BYTES: u64 = 256 << 20;
/// Largest compressed file that is read, in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 256 << 20;
/// Most lines of a heat: far more blocks than any measuring plan has.
const MAX_LINES: usize = 10_000;
/// A window of 2^27 bytes is the largest that zstd's own tools accept unasked.
const WINDOW_LOG_MAX: u32 = 27;
/// Heats are written once and kept for years.
const LEVEL: i32 = 6;

/// The JSON of a line, without its newline.
///
/// Floating-point numbers that JSON cannot hold would be written as `null` and never read again,
/// so what is written is read back first.
pub(crate) fn line<T: Serialize + DeserializeOwned>(value: &T) -> Result<Vec<u8>, String> {
    let json = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    if json.len() as u64 >= MAX_LINE_BYTES {
        return Err(format!(
            "{} bytes are more than a line may have",
            json.len()
        ));
    }
    serde_json::from_slice::<T>(&json)
        .map_err(|error| format!("it would not be readable again: {error}"))?;
    Ok(json)
}

/// Compresses a document. The same bytes in, the same bytes out.
pub(crate) fn compress(document: &[u8]) -> Result<Vec<u8>, String> {
    if document.len() as u64 > MAX_DOCUMENT_BYTES {
        return Err(format!(
            "{} bytes are more than an artifact may have",
            document.len()
        ));
    }
    zstd::bulk::compress(document, LEVEL).map_err(|error| error.to_string())
}

/// Decompresses a document of at most `limit` bytes.
pub(crate) fn decompress(bytes: &[u8], limit: u64) -> Result<Vec<u8>, String> {
    let mut document = Vec::new();
    decoder(bytes)
        .map_err(|error| error.to_string())?
        .take(limit.saturating_add(1))
        .read_to_end(&mut document)
        .map_err(|error| format!("it cannot be decompressed: {}", quoted(error)))?;
    if document.len() as u64 > limit {
        return Err(format!("it decompresses to more than {limit} bytes"));
    }
    Ok(document)
}

/// A streaming decompressor with a bounded window.
pub(crate) fn decoder<R: Read>(source: R) -> io::Result<zstd::Decoder<'static, BufReader<R>>> {
    let mut decoder = zstd::Decoder::new(source)?;
    decoder.window_log_max(WINDOW_LOG_MAX)?;
    Ok(decoder)
}

/// Longest quotation in an error, in characters.
const MAX_QUOTED_CHARS: usize = 300;

/// What a library says about bytes that may come from anybody: it quotes them, so nothing of it
/// may steer a terminal or fill it.
pub(crate) fn quoted(error: impl std::fmt::Display) -> String {
    let text = error.to_string();
    text.escape_debug().take(MAX_QUOTED_CHARS).collect()
}

/// What a heat's file says that it was measured for.
#[derive(Deserialize)]
pub(crate) struct Purpose {
    pub(crate) group: String,
    pub(crate) key: Digest,
}

/// What a heat's file says that it was measured for. Nothing behind it is read: a plan asks this of
/// every heat of the store, in the same `memory`.
pub(crate) fn purpose_of(bytes: &[u8], memory: &mut DCtx<'static>) -> Result<Purpose, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Begin {
        Header(Purpose),
    }

    let mut line = Vec::new();
    let mut document = zstd::Decoder::with_context(bytes, memory);
    document.window_log_max(WINDOW_LOG_MAX).map_err(quoted)?;
    BufReader::new(document.take(MAX_LINE_BYTES))
        .read_until(b'\n', &mut line)
        .map_err(quoted)?;
    let Begin::Header(header) = serde_json::from_slice(&line).map_err(quoted)?;
    Ok(header)
}

/// A heat from its file's bytes; its lines in order, none missing, none too many.
pub(crate) fn heat(bytes: &[u8]) -> Result<Heat, String> {
    let mut lines = Lines::new(bytes)?;
    let Some(HeatLine::Header(header)) = lines.next_line()? else {
        return Err("it does not begin with a header".to_owned());
    };
    let Some(HeatLine::Reference(reference)) = lines.next_line()? else {
        return Err("its second line is not the reference".to_owned());
    };
    let mut blocks = Vec::new();
    let footer = loop {
        match lines.next_line()? {
            Some(HeatLine::Block(block)) => blocks.push(block),
            Some(HeatLine::Footer(footer)) => break footer,
            Some(_) => return Err("a header or reference follows the blocks".to_owned()),
            None => return Err("it ends without a footer".to_owned()),
        }
    };
    if lines.next_line()?.is_some() {
        return Err("something follows the footer".to_owned());
    }
    Ok(Heat {
        header: *header,
        reference,
        blocks,
        footer,
    })
}

struct Lines<'a> {
    reader: BufReader<io::Take<zstd::Decoder<'static, BufReader<&'a [u8]>>>>,
    read: usize,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let decoder = decoder(bytes).map_err(|error| error.to_string())?;
        // One byte more than allowed: reaching it tells a document that is too long from one
        // that ends at the limit.
        let reader = BufReader::new(decoder.take(MAX_DOCUMENT_BYTES + 1));
        Ok(Self { reader, read: 0 })
    }

    fn next_line(&mut self) -> Result<Option<HeatLine>, String> {
        let mut line = Vec::new();
        (&mut self.reader)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(|error| format!("it cannot be decompressed: {error}"))?;
        if self.reader.get_ref().limit() == 0 {
            return Err(format!(
                "it decompresses to more than {MAX_DOCUMENT_BYTES} bytes"
            ));
        }
        if line.is_empty() {
            return Ok(None);
        }
        self.read += 1;
        if self.read > MAX_LINES {
            return Err(format!("it has more than {MAX_LINES} lines"));
        }
        if line.last() != Some(&b'\n') {
            return Err(format!("line {} is cut off or too long", self.read));
        }
        serde_json::from_slice(&line)
            .map(Some)
            .map_err(|error| format!("line {}: {}", self.read, quoted(error)))
    }
}
