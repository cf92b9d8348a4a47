//! A YAML document as a tree that remembers where everything stands, within bounds that a hostile
//! file cannot exceed.
//!
//! The manifest is read from this tree, and `serde_yaml` must read the same from the text.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};

use crate::fault::Fault;

/// Deepest nesting of lists and mappings. A manifest needs 7.
const DEPTH_LIMIT: usize = 24;

/// Most nodes, each use of an alias counted as a copy of what it stands for.
const NODE_LIMIT: usize = 250_000;

/// The key by which YAML 1.1 merged one mapping into another.
const MERGE: &str = "<<";

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Bytes of the text.
    pub(crate) span: Range<usize>,
    /// The value; an alias shares that of what it stands for.
    pub(crate) kind: Arc<Kind>,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A word, a number, a text, or nothing.
    Scalar {
        /// Without quotes, escapes resolved.
        text: String,
        /// Written without quotes: it may be a number, a boolean or null.
        plain: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A mapping in the order of the file.
    Map(Vec<Entry>),
}

/// An entry of a mapping.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The key.
    pub(crate) key: String,
    /// Its place.
    pub(crate) key_span: Range<usize>,
    /// The value.
    pub(crate) value: Node,
}

/// A step from a node to one below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The value of a key.
    Key(String),
    /// The key itself.
    Name(String),
    /// An item of a list; a single value counts as a list of one.
    Index(usize),
}

impl Node {
    /// The place of what `path` leads to, or of the last node on the way that exists.
    pub(crate) fn locate(&self, path: &[Step]) -> Range<usize> {
        let Some((step, rest)) = path.split_first() else {
            return self.span.clone();
        };
        match (step, &*self.kind) {
            (Step::Key(wanted), Kind::Map(entries)) => entries
                .iter()
                .find(|entry| entry.key == *wanted)
                .map_or_else(|| self.span.clone(), |entry| entry.value.locate(rest)),
            (Step::Name(wanted), Kind::Map(entries)) => entries
                .iter()
                .find(|entry| entry.key == *wanted)
                .map_or_else(|| self.span.clone(), |entry| entry.key_span.clone()),
            (Step::Index(index), Kind::List(items)) => items
                .get(*index)
                .map_or_else(|| self.span.clone(), |item| item.locate(rest)),
            (Step::Index(0), _) => self.locate(rest),
            _ => self.span.clone(),
        }
    }
}

/// Reads one document.
pub(crate) fn parse(text: &str) -> Result<Node, Fault> {
    refuse_unprintable(text)?;
    refuse_directives(text)?;
    let mut builder = Builder::new(text);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| builder.syntax(&error))?;
        builder.take(event, span)?;
    }
    builder.root.ok_or_else(|| {
        Fault::new(0..0, "the file is empty")
            .help("a manifest begins with `version: 1` and has `jobs`")
    })
}

/// Refuses what YAML holds unprintable (`c-printable` of its specification 1.2) wherever it stands,
/// comments included; and what readers do not agree upon: a byte-order mark inside, and the
/// characters that end a line in YAML 1.1 and not in 1.2.
fn refuse_unprintable(text: &str) -> Result<(), Fault> {
    let ends_some_lines = |c: char| matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}');
    let is_printable = |c: char| {
        matches!(
            c,
            '\t' | '\n' | '\r' | ' '..='~' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..
        ) && c != '\u{feff}'
            && !ends_some_lines(c)
    };
    let odd = text.char_indices().find(|(_, c)| !is_printable(*c));
    odd.map_or(Ok(()), |(at, c)| {
        let message = format!(
            "a manifest cannot hold the character {}",
            c.escape_unicode()
        );
        let help = if ends_some_lines(c) {
            "leave it out: whether it ends a line depends on the version of YAML"
        } else {
            "leave it out"
        };
        Err(Fault::new(at..at + c.len_utf8(), message).help(help))
    })
}

/// Refuses directives that readers do not agree upon: other versions of YAML than 1.1 and 1.2, and
/// those that no version knows.
fn refuse_directives(text: &str) -> Result<(), Fault> {
    let mut start = 0;
    for line in text.split_inclusive(['\n', '\r']) {
        let shown = line.trim_end();
        // Directives come before all else.
        let is_comment = shown.trim_start().starts_with('#');
        if !shown.is_empty() && !is_comment && !shown.starts_with('%') {
            break;
        }
        let mut words = shown.split_whitespace();
        let message = match (words.next(), words.next()) {
            (Some("%YAML"), Some("1.1" | "1.2")) | (Some("%TAG"), _) => None,
            (Some("%YAML"), _) => Some("this is another version of YAML"),
            (Some(word), _) if word.starts_with('%') => Some("this directive is not known"),
            _ => None,
        };
        if let Some(message) = message {
            return Err(Fault::new(start..start + shown.len(), message)
                .help("leave the line out: manifests are YAML 1.2"));
        }
        start += line.len();
    }
    Ok(())
}

/// A list or mapping that has not ended yet.
struct Open {
    start: usize,
    anchor: usize,
    nodes: usize,
    kind: Kind,
    /// In a mapping: the key whose value comes next.
    key: Option<(String, Range<usize>)>,
}

struct Builder<'a> {
    places: Places<'a>,
    open: Vec<Open>,
    anchors: BTreeMap<usize, (Node, usize)>,
    nodes: usize,
    documents: usize,
    root: Option<Node>,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            places: Places::new(text),
            open: Vec::new(),
            anchors: BTreeMap::new(),
            nodes: 0,
            documents: 0,
            root: None,
        }
    }

    fn syntax(&self, error: &ScanError) -> Fault {
        let at = self.places.byte(error.marker().index());
        // The parser is stricter here than YAML, and tells of it after the tab.
        let before = self.places.text.get(..at).unwrap_or_default();
        let tab = before.trim_end_matches('\t').len();
        if tab < at && error.info().ends_with("a valid YAML whitespace") {
            return Fault::new(tab..at, "a tab stands where a space is needed")
                .help("put a space there");
        }
        // The parser has a bound of its own, and meets it before the tree is told of any level.
        if error.info() == "recursion limit exceeded" {
            let is_opening = |c: char| c.is_whitespace() || "[{".contains(c);
            let run = before.trim_end_matches(is_opening).len();
            let at = at - before.get(run..).map_or(0, |run| run.trim_start().len());
            return too_deep(at..at);
        }
        Fault::new(at..at, format!("this is not YAML: {}", error.info())).help(advice(error.info()))
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        let range = self.places.range(span);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(Fault::new(range, "a second document begins here").help(
                        "a manifest is one document: put the jobs of both under one `jobs`",
                    ));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                refuse_tag(tag.is_some(), &range)?;
                let plain = style == ScalarStyle::Plain;
                let kind = Kind::Scalar {
                    text: text.into_owned(),
                    plain,
                };
                self.count(1, &range)?;
                let kind = Arc::new(kind);
                self.add(Node { span: range, kind }, anchor, 1)
            }
            Event::Alias(anchor) => {
                let Some((node, nodes)) = self.anchors.get(&anchor).cloned() else {
                    return Err(Fault::new(
                        range,
                        "this alias stands inside what it stands for",
                    ));
                };
                self.count(nodes, &range)?;
                // What is wrong with it is wrong here; what it holds stands where it was written.
                let kind = node.kind;
                self.add(Node { span: range, kind }, 0, nodes)
            }
            Event::SequenceStart(anchor, tag) => {
                refuse_tag(tag.is_some(), &range)?;
                self.begin(range, anchor, Kind::List(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                refuse_tag(tag.is_some(), &range)?;
                self.begin(range, anchor, Kind::Map(Vec::new()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(range.end),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn begin(&mut self, range: Range<usize>, anchor: usize, kind: Kind) -> Result<(), Fault> {
        if self.open.len() >= DEPTH_LIMIT {
            return Err(too_deep(range));
        }
        self.open.push(Open {
            start: range.start,
            anchor,
            nodes: 1,
            kind,
            key: None,
        });
        Ok(())
    }

    fn end(&mut self, end: usize) -> Result<(), Fault> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let span = open.start..self.places.trimmed_end(open.start, end);
        // What it holds has been counted.
        self.count(1, &span)?;
        let kind = Arc::new(open.kind);
        self.add(Node { span, kind }, open.anchor, open.nodes)
    }

    /// Counts nodes that were not there before.
    fn count(&mut self, nodes: usize, range: &Range<usize>) -> Result<(), Fault> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > NODE_LIMIT {
            return Err(Fault::new(
                range.clone(),
                format!("more than {NODE_LIMIT} values, aliases counted as what they stand for"),
            ));
        }
        Ok(())
    }

    /// Puts a complete node, of `nodes` with all that it holds, where it belongs.
    fn add(&mut self, node: Node, anchor: usize, nodes: usize) -> Result<(), Fault> {
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), nodes));
        }
        let Some(open) = self.open.last_mut() else {
            self.root.get_or_insert(node);
            return Ok(());
        };
        open.nodes = open.nodes.saturating_add(nodes);
        match (&mut open.kind, open.key.take()) {
            (Kind::List(items), _) => items.push(node),
            (Kind::Map(entries), Some((key, key_span))) => {
                entries.push(Entry {
                    key,
                    key_span,
                    value: node,
                });
            }
            (Kind::Map(entries), None) => open.key = Some(key_of(&node, entries)?),
            (Kind::Scalar { .. }, _) => {}
        }
        Ok(())
    }
}

/// What to do about an error of syntax, by the parser's words for it.
fn advice(info: &str) -> &'static str {
    const ADVICE: &[(&str, &str)] = &[
        ("tabs disallowed", "indent with spaces"),
        ("unknown anchor", "put text that begins with `*` in quotes"),
        (
            "unexpected character",
            "put text that begins with this character in quotes",
        ),
    ];
    let known = ADVICE.iter().find(|(words, _)| info.contains(words));
    known.map_or(
        "indent entries alike, and close every quote and bracket",
        |(_, advice)| advice,
    )
}

fn too_deep(range: Range<usize>) -> Fault {
    Fault::new(range, format!("nested more than {DEPTH_LIMIT} deep"))
        .help("a manifest needs no more than seven levels")
}

fn key_of(node: &Node, entries: &[Entry]) -> Result<(String, Range<usize>), Fault> {
    let Kind::Scalar { text, plain } = &*node.kind else {
        return Err(Fault::new(node.span.clone(), "a key must be a word")
            .help("a list or a mapping cannot be a key; is a `:` or a quote missing?"));
    };
    if text.is_empty() {
        return Err(Fault::new(node.span.clone(), "a key is empty")
            .help("put a word before the `:`, or text that holds a `:` in quotes"));
    }
    if *plain && text == MERGE {
        return Err(
            Fault::new(node.span.clone(), "manifests have no merge keys").help(
                "write the entries out; an alias stands for a whole value: `measure: *usual`",
            ),
        );
    }
    // Linear, but no mapping of a manifest is long; a hostile one is stopped here.
    if entries.len() > 256 {
        return Err(Fault::new(
            node.span.clone(),
            "more than 256 keys in one mapping",
        ));
    }
    if entries.iter().any(|entry| entry.key == *text) {
        return Err(Fault::new(
            node.span.clone(),
            format!("the key `{text}` is there twice"),
        )
        .help("keep one of them; a list holds several values: `[a, b]`"));
    }
    Ok((text.clone(), node.span.clone()))
}

fn refuse_tag(tagged: bool, range: &Range<usize>) -> Result<(), Fault> {
    if tagged {
        return Err(Fault::new(range.clone(), "a tag stands before this value")
            .help("manifests use no tags: leave out what begins with `!`"));
    }
    Ok(())
}

/// Where characters stand in bytes.
struct Places<'a> {
    text: &'a str,
    /// Byte of each character; empty for plain ASCII.
    bytes: Vec<u32>,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        let bytes = if text.is_ascii() {
            Vec::new()
        } else {
            text.char_indices()
                .map(|(at, _)| u32::try_from(at).unwrap_or(u32::MAX))
                .collect()
        };
        Self { text, bytes }
    }

    fn byte(&self, index: usize) -> usize {
        let end = self.text.len();
        if self.bytes.is_empty() {
            return index.min(end);
        }
        self.bytes.get(index).map_or(end, |at| *at as usize)
    }

    fn range(&self, span: Span) -> Range<usize> {
        let start = self.byte(span.start.index());
        start..self.byte(span.end.index()).max(start)
    }

    /// A block ends where the next begins: leaves out the white space between.
    fn trimmed_end(&self, start: usize, end: usize) -> usize {
        self.text
            .get(start..end)
            .map_or(end, |inside| start + inside.trim_end().len())
            .max(start)
    }
}
