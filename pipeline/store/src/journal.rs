//! A heat while it is measured: each line a file of its own, complete and verifiable alone, so
//! that whatever happens at most the block in flight is lost.

use std::fs;

use schema::{
    Digest, Heat, OutcomeKind,
    record::{self, Block, HeatFooter, HeatHeader, HeatLine, Reference},
};
use serde::{Deserialize, Serialize};

use crate::{
    Corrupt, Store, StoreError, WriterLock, atomic, codec, heat,
    layout::{Origin, SealedName},
    stamp::Stamp,
};

/// A heat that is being measured.
#[derive(Debug)]
pub struct Journal<'a> {
    lock: &'a WriterLock,
    header: HeatHeader,
    reference: Option<Reference>,
    blocks: Vec<Block>,
    bytes: u64,
}

/// What `key.json` holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyFile {
    pub(crate) version: u32,
    /// For whoever looks: each heat says it for itself.
    pub(crate) group: String,
    pub(crate) key: Digest,
    pub(crate) key_parts: std::collections::BTreeMap<String, String>,
}

/// What could be read of a journal: its lines up to the first that is missing or damaged.
#[derive(Debug, Default)]
pub(crate) struct OpenLines {
    pub(crate) header: Option<HeatHeader>,
    pub(crate) reference: Option<Reference>,
    pub(crate) blocks: Vec<Block>,
    /// Total size of the good lines.
    bytes: u64,
    /// Files that are not part of the good lines: the first is damaged, or one before it is gone;
    /// those after it are of no use without it. A writer that was killed leaves none, since a line
    /// gets its name when it is whole.
    pub(crate) rest: Vec<Corrupt>,
}

impl WriterLock {
    /// Starts to measure a heat. An open journal of the same key is thrown away.
    ///
    /// # Errors
    /// The store cannot be written, or the header breaks a rule.
    pub fn begin(&self, header: HeatHeader) -> Result<Journal<'_>, StoreError> {
        heat::check_header(&header).map_err(|reason| invalid("header", reason))?;
        self.make_folder(&self.heat_folder(&header.key))?;
        self.throw_away(&header.key)?;
        self.make_folder(&self.journal_folder(&header.key))?;
        self.write_key_file(&header)?;
        let mut journal = Journal {
            lock: self,
            header,
            reference: None,
            blocks: Vec::new(),
            bytes: 0,
        };
        let line = HeatLine::Header(Box::new(journal.header.clone()));
        journal.write_line(0, &line)?;
        Ok(journal)
    }

    /// Goes on with a heat that was begun and not sealed; `None` if there is none.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn resume(&self, key: &Digest) -> Result<Option<Journal<'_>>, StoreError> {
        let found = self
            .sealed(key)
            .and_then(|sealed| Ok((sealed, self.open_lines(key)?)));
        let (sealed, lines) = match found {
            Ok(found) => found,
            // Something else lies in the place of the folder.
            Err(StoreError::Corrupt(damage)) => {
                self.set_aside(&damage)?;
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // Sealing removes the journal last: one that lies beside its own heat is a leftover.
        let is_leftover = lines.header.as_ref().is_some_and(|header| {
            let started = Stamp::from_rfc3339(&header.started);
            let mut own = sealed.iter().filter(|sealed| sealed.is_own());
            own.any(|sealed| Some(sealed.started) == started)
        });
        if !is_leftover {
            // Kept for whoever wants to know what happened to what was measured.
            for corrupt in &lines.rest {
                self.set_aside(corrupt)?;
            }
        }
        let Some(header) = lines.header.filter(|_| !is_leftover) else {
            self.throw_away(key)?;
            return Ok(None);
        };
        let OpenLines {
            reference,
            blocks,
            bytes,
            ..
        } = lines;
        Ok(Some(Journal {
            lock: self,
            header,
            reference,
            blocks,
            bytes,
        }))
    }

    pub(crate) fn throw_away(&self, key: &Digest) -> Result<(), StoreError> {
        let folder = self.journal_folder(key);
        if fs::symlink_metadata(&folder).is_err() {
            return Ok(());
        }
        // Out of its place as a whole: one that is half removed would look damaged.
        let doomed = tempfile::Builder::new()
            .prefix(atomic::WRITE_PREFIX)
            .tempdir_in(self.tmp())
            .map_err(StoreError::temporary("remove", &folder))?;
        let place = doomed.path().join("journal");
        atomic::rename(&folder, &place)?;
        atomic::remove(&place)
    }

    /// Says what a key is made of, unless that is said.
    pub(crate) fn write_key_file(&self, header: &HeatHeader) -> Result<(), StoreError> {
        match self.read_key_file(&header.key) {
            Ok(Some(_)) => return Ok(()),
            Ok(None) | Err(StoreError::Corrupt(_) | StoreError::Version { .. }) => {}
            Err(error) => return Err(error),
        }
        let file = KeyFile {
            version: record::VERSION,
            group: header.group.clone(),
            key: header.key,
            key_parts: header.key_parts.clone(),
        };
        let json = codec::line(&file).map_err(|reason| invalid("key", reason))?;
        self.put_file(&self.key_file(&header.key), &json)
    }

    /// Puts a complete heat in its place and returns the hash of its content.
    pub(crate) fn write_heat(
        &self,
        heat: &Heat,
        file: &[u8],
        origin: Origin,
    ) -> Result<Digest, StoreError> {
        let started = Stamp::from_rfc3339(&heat.header.started)
            .ok_or_else(|| invalid("heat", format!("no time of day: {}", heat.header.started)))?;
        let name = SealedName {
            started,
            digest: Digest::of_bytes(file),
            origin,
        };
        self.make_folder(&self.heat_folder(&heat.header.key))?;
        self.write_key_file(&heat.header)?;
        self.put_file(&self.sealed_file(&heat.header.key, &name), file)?;
        Ok(name.digest)
    }
}

impl Store {
    /// Reads an open journal as far as it is good. It is corrupt only where it is no folder.
    pub(crate) fn open_lines(&self, key: &Digest) -> Result<OpenLines, StoreError> {
        let folder = self.journal_folder(key);
        let mut lines = OpenLines::default();
        let names = atomic::list_own(&folder)?;
        for (place, name) in names.iter().enumerate() {
            let path = folder.join(name);
            let reason = if lines.rest.is_empty() {
                lines.take(key, place, name, &path)?
            } else {
                Some("it follows a line that is damaged or missing".to_owned())
            };
            lines
                .rest
                .extend(reason.map(|reason| Corrupt { path, reason }));
        }
        Ok(lines)
    }
}

impl OpenLines {
    /// Takes the next file; what is wrong with it if it is not the good next line.
    fn take(
        &mut self,
        key: &Digest,
        place: usize,
        name: &str,
        path: &std::path::Path,
    ) -> Result<Option<String>, StoreError> {
        let bytes = match atomic::read(path, codec::MAX_LINE_BYTES) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Some("it has gone".to_owned())),
            Err(StoreError::Corrupt(damage)) => return Ok(Some(damage.reason)),
            Err(error) => return Err(error),
        };
        if name != line_name(place, &bytes) {
            let reason = format!("it is not line {place} as it was written");
            return Ok(Some(reason));
        }
        let taken = serde_json::from_slice::<HeatLine>(&bytes)
            .map_err(codec::quoted)
            .and_then(|line| self.take_line(key, line));
        if taken.is_ok() {
            self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        }
        Ok(taken.err())
    }

    fn take_line(&mut self, key: &Digest, line: HeatLine) -> Result<(), String> {
        match (line, &self.header, &self.reference) {
            (HeatLine::Header(header), None, None) => {
                heat::check_header(&header)?;
                if header.version != record::VERSION || header.key != *key {
                    return Err("it is the header of another heat".to_owned());
                }
                self.header = Some(*header);
            }
            (HeatLine::Reference(reference), Some(header), None) => {
                heat::check_reference(header, &reference)?;
                self.reference = Some(reference);
            }
            (HeatLine::Block(block), Some(header), Some(_)) => {
                heat::check_block(header, self.blocks.len(), &block)?;
                self.blocks.push(block);
            }
            _ => return Err("it is a line out of place".to_owned()),
        }
        Ok(())
    }
}

impl Journal<'_> {
    /// What is measured.
    #[must_use]
    pub fn header(&self) -> &HeatHeader {
        &self.header
    }

    /// Parity, once it is judged.
    #[must_use]
    pub fn reference(&self) -> Option<&Reference> {
        self.reference.as_ref()
    }

    /// The blocks measured so far.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Keeps what was judged about parity, once.
    ///
    /// # Errors
    /// It is kept already, breaks a rule, or the store cannot be written.
    pub fn set_reference(&mut self, reference: Reference) -> Result<(), StoreError> {
        if self.reference.is_some() {
            return Err(invalid("reference", "there is one already"));
        }
        heat::check_reference(&self.header, &reference)
            .map_err(|reason| invalid("reference", reason))?;
        self.write_line(1, &HeatLine::Reference(reference.clone()))?;
        self.reference = Some(reference);
        Ok(())
    }

    /// Keeps a measured block.
    ///
    /// # Errors
    /// There is no reference yet, the block breaks a rule, or the store cannot be written.
    pub fn append(&mut self, block: Block) -> Result<(), StoreError> {
        if self.reference.is_none() {
            return Err(invalid("block", "there is no reference yet"));
        }
        heat::check_block(&self.header, self.blocks.len(), &block)
            .map_err(|reason| invalid("block", reason))?;
        self.write_line(self.blocks.len() + 2, &HeatLine::Block(block.clone()))?;
        self.blocks.push(block);
        Ok(())
    }

    /// Ends the heat: writes its artifact, removes the journal, and returns the content's hash.
    ///
    /// # Errors
    /// There is no reference, the footer breaks a rule, or the store cannot be written. The
    /// journal is then still there.
    pub fn seal(self, footer: HeatFooter) -> Result<Digest, StoreError> {
        let Self {
            lock,
            header,
            reference,
            blocks,
            ..
        } = self;
        let reference = reference.ok_or_else(|| invalid("heat", "there is no reference"))?;
        let heat = Heat {
            header,
            reference,
            blocks,
            footer,
        };
        heat::check(&heat).map_err(|reason| invalid("heat", reason))?;
        let file = encode(&heat).map_err(|reason| invalid("heat", reason))?;
        let tries = heat.footer.frontiers.iter().flatten();
        let tries = tries.flat_map(|frontier| &frontier.tries);
        let mut outcomes = heat
            .footer
            .outcomes
            .iter()
            .chain(tries.map(|tried| &tried.outcome));
        let origin = match outcomes.any(|outcome| outcome.kind == OutcomeKind::Unstable) {
            true => Origin::Disturbed,
            false => Origin::Here,
        };
        let digest = lock.write_heat(&heat, &file, origin)?;
        lock.throw_away(&heat.header.key)?;
        Ok(digest)
    }

    fn write_line(&mut self, place: usize, line: &HeatLine) -> Result<(), StoreError> {
        let json = codec::line(line).map_err(|reason| invalid("line of a heat", reason))?;
        let bytes = self.bytes.saturating_add(json.len() as u64 + 1);
        if bytes > codec::MAX_DOCUMENT_BYTES {
            return Err(invalid(
                "line of a heat",
                "the heat would be too long to be read",
            ));
        }
        let folder = self.lock.journal_folder(&self.header.key);
        self.lock
            .put_file(&folder.join(line_name(place, &json)), &json)?;
        self.bytes = bytes;
        Ok(())
    }
}

/// A heat as the bytes of its file.
pub(crate) fn encode(heat: &Heat) -> Result<Vec<u8>, String> {
    let mut document = Vec::new();
    let mut push = |line: &HeatLine| -> Result<(), String> {
        document.extend_from_slice(&codec::line(line)?);
        document.push(b'\n');
        Ok(())
    };
    push(&HeatLine::Header(Box::new(heat.header.clone())))?;
    push(&HeatLine::Reference(heat.reference.clone()))?;
    for block in &heat.blocks {
        push(&HeatLine::Block(block.clone()))?;
    }
    push(&HeatLine::Footer(heat.footer.clone()))?;
    codec::compress(&document)
}

fn line_name(place: usize, bytes: &[u8]) -> String {
    format!("{place:05}-{}.json", Digest::of_bytes(bytes).short())
}

fn invalid(what: &str, reason: impl Into<String>) -> StoreError {
    StoreError::Invalid {
        what: format!("a {what}"),
        reason: reason.into(),
    }
}
