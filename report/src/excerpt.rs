//! The parts of manifests that asked for jobs.

use std::{borrow::Cow, collections::BTreeMap};

use saphyr_parser::{Event, Parser, Span};
use schema::plan::ManifestSource;

/// Longer excerpts are cut: the page of each of thousands of cells carries one.
const LONGEST_LINES: usize = 80;
const LONGEST_BYTES: usize = 8 << 10;

/// What asked for a job.
#[derive(Debug)]
pub(crate) struct Excerpt<'a> {
    /// The manifest's place in the list.
    pub(crate) place: usize,
    pub(crate) manifest: &'a ManifestSource,
    /// The manifest's lines before its first job, and those of this job, with the author's own
    /// comments and layout.
    pub(crate) text: String,
}

/// The parts of all jobs, by the job.
pub(crate) fn all(manifests: &[ManifestSource]) -> BTreeMap<String, Excerpt<'_>> {
    let mut found = BTreeMap::new();
    for (place, manifest) in manifests.iter().enumerate() {
        for (job, text) in of_manifest(&manifest.text) {
            found.entry(job).or_insert(Excerpt {
                place,
                manifest,
                text,
            });
        }
    }
    found
}

fn of_manifest(text: &str) -> Vec<(String, String)> {
    // One kind of line end, so that the parser counts lines as we do.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = text.lines().collect();
    let reader = Reader::read(&text, &lines);
    // The line after those of the job before, or after `jobs:`.
    let mut free = reader.head;
    let jobs = reader.jobs.into_iter().map(|job| {
        let first = first_line(&lines, free, job.first);
        free = job.last + 1;
        let head = lines.iter().take(reader.head.min(first));
        let body = lines.iter().take(free).skip(first);
        let text: Vec<&str> = head.chain(body).copied().collect();
        (job.id, shorten(text.join("\n").trim_end()))
    });
    jobs.collect()
}

/// The line on which an item of a list begins: that of its dash, which may stand above its
/// content.
fn first_line(lines: &[&str], free: usize, content: usize) -> usize {
    let has_dash = |line: &usize| {
        lines
            .get(*line)
            .is_some_and(|line| line.trim_start().starts_with('-'))
    };
    let from = free.min(content);
    (from..=content).rev().find(has_dash).unwrap_or(content)
}

/// A job's place in a manifest: lines counted from 0, the last one included.
struct Job {
    id: String,
    first: usize,
    last: usize,
}

/// A list or mapping that has not ended yet.
enum Open {
    List,
    /// With the key whose value comes next.
    Map(Option<String>),
}

/// Follows the parser down to `jobs`, and to the `id` of each. What lies deeper, claims with ids
/// of their own, is only passed.
#[derive(Default)]
struct Reader {
    open: Vec<Open>,
    /// Number of lines up to and including that of the key `jobs`.
    head: usize,
    jobs: Vec<Job>,
    /// The job that is being read, and its id as far as it is known.
    current: Option<(Option<String>, usize, usize)>,
}

impl Reader {
    /// Reads the first document, as far as it is YAML: a stranger's bundle may hold anything.
    fn read(text: &str, lines: &[&str]) -> Self {
        let mut reader = Self::default();
        let mut parser = Parser::new_from_str(text);
        while let Some(Ok((event, span))) = parser.next_event() {
            if matches!(event, Event::DocumentEnd) {
                break;
            }
            reader.take(event, span, lines);
        }
        reader
    }

    fn take(&mut self, event: Event<'_>, span: Span, lines: &[&str]) {
        let (first, last) = extent(span, lines);
        match event {
            Event::SequenceStart(..) => {
                self.reach(last);
                self.open.push(Open::List);
            }
            Event::MappingStart(..) => {
                if self.is_job() {
                    self.current = Some((None, first, first));
                }
                self.reach(last);
                self.open.push(Open::Map(None));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
                // What is closed by indentation ends where something else begins.
                if !span.is_empty() {
                    self.reach(last);
                }
                if self.is_job()
                    && let Some((Some(id), first, last)) = self.current.take()
                {
                    self.jobs.push(Job { id, first, last });
                }
                self.value_ended();
            }
            Event::Scalar(text, ..) => {
                self.reach(last);
                self.scalar(text, first);
            }
            Event::Alias(_) => {
                self.reach(last);
                self.value_ended();
            }
            _ => {}
        }
    }

    fn scalar(&mut self, text: Cow<'_, str>, line: usize) {
        let depth = self.open.len();
        match self.open.last_mut() {
            Some(Open::Map(key @ None)) => {
                if depth == 1 && text == "jobs" {
                    self.head = line + 1;
                }
                *key = Some(text.into_owned());
                return;
            }
            Some(Open::Map(Some(key))) if depth == 3 && key == "id" => {
                if let Some((id, ..)) = &mut self.current {
                    *id = Some(text.into_owned());
                }
            }
            _ => {}
        }
        self.value_ended();
    }

    fn value_ended(&mut self) {
        if let Some(Open::Map(key)) = self.open.last_mut() {
            *key = None;
        }
    }

    /// Whether what comes next, or what has just been closed, is an item of `jobs`.
    fn is_job(&self) -> bool {
        matches!(&self.open[..], [Open::Map(Some(key)), Open::List] if key == "jobs")
    }

    fn reach(&mut self, line: usize) {
        if let Some((.., last)) = &mut self.current {
            *last = line.max(*last);
        }
    }
}

/// The first and the last line of what the parser found, from 0.
fn extent(span: Span, lines: &[&str]) -> (usize, usize) {
    let first = span.start.line().saturating_sub(1);
    let end = span.end.line().saturating_sub(1);
    // A text of several lines ends for the parser where the next thing begins.
    let has_part = lines.get(end).is_some_and(|line| {
        let mut before = line.chars().take(span.end.col());
        before.any(|character| !character.is_whitespace())
    });
    let last = if has_part || end == first {
        end
    } else {
        end.saturating_sub(1)
    };
    (first, last)
}

fn shorten(text: &str) -> String {
    let mut short = String::new();
    for (number, line) in text.lines().enumerate() {
        if number == LONGEST_LINES || short.len() + line.len() > LONGEST_BYTES {
            short.push_str("# … cut here; the whole manifest is among the downloads");
            break;
        }
        short.push_str(line);
        short.push('\n');
    }
    short.truncate(short.trim_end().len());
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version: 1\ntitle: T\njobs:\n  - id: a\n    mode: inference\n    claims:\n      - { id: b, states: x }\n      - id: c\n\n  # of b\n  - mode: training\n    # what it is\n    question: |\n      Long\n      words\n\n    id: \"b\"\n";

    fn of_job(text: &str, job: &str) -> Option<String> {
        let mut jobs = of_manifest(text).into_iter();
        jobs.find_map(|(id, text)| (id == job).then_some(text))
    }

    #[test]
    fn a_job_is_cut_out_with_the_head() {
        assert_eq!(
            of_job(TEXT, "a").unwrap(),
            "version: 1\ntitle: T\njobs:\n  - id: a\n    mode: inference\n    claims:\n      - { id: b, states: x }\n      - id: c"
        );
        assert_eq!(
            of_job(TEXT, "b").unwrap(),
            "version: 1\ntitle: T\njobs:\n  - mode: training\n    # what it is\n    question: |\n      Long\n      words\n\n    id: \"b\""
        );
        assert_eq!(of_job(TEXT, "c"), None, "an id, and not a job's");
        let list = of_manifest(TEXT);
        assert_eq!(list.len(), 2);
    }

    #[test]
    fn jobs_may_be_written_in_any_way() {
        assert_eq!(
            of_job("jobs: [{ id: x }, { id: y,\n  mode: z }]\n", "x").unwrap(),
            "jobs: [{ id: x }, { id: y,"
        );
        assert_eq!(
            of_job("jobs: [{ id: x }, { id: y,\n  mode: z }]\n", "y").unwrap(),
            "jobs: [{ id: x }, { id: y,\n  mode: z }]"
        );
        assert_eq!(
            of_job("jobs:\n-\n  # first\n  id: x\n-\n  id: y\nafter: 1\n", "y").unwrap(),
            "jobs:\n-\n  id: y"
        );
        assert_eq!(
            of_job(
                "jobs:\n- question: >\n    a\n    b\n  id: x\n- id: y\n",
                "x"
            )
            .unwrap(),
            "jobs:\n- question: >\n    a\n    b\n  id: x"
        );
        // The last value is a text of several lines.
        assert_eq!(
            of_job("jobs:\n- id: x\n  question: |\n    a\n\n- id: y\n", "x").unwrap(),
            "jobs:\n- id: x\n  question: |\n    a"
        );
        assert_eq!(
            of_job(
                "jobs:\n  - id: x\n    question: |+\n      a\n\n\n  - id: y\n",
                "x"
            )
            .unwrap(),
            "jobs:\n  - id: x\n    question: |+\n      a"
        );
        assert_eq!(
            of_job("jobs:\n- id: x\n  question: |\n    a\n    é b", "x").unwrap(),
            "jobs:\n- id: x\n  question: |\n    a\n    é b"
        );
        assert_eq!(
            of_job(
                "jobs:\n  - id: x\n    question: >-\n      a\n  # y\n  - id: y\n",
                "y"
            )
            .unwrap(),
            "jobs:\n  - id: y"
        );
        assert_eq!(
            of_job("jobs:\r- id: x\r\n- id: y\r", "x").unwrap(),
            "jobs:\n- id: x"
        );
        assert_eq!(of_job("defaults: { jobs: [{ id: x }] }\n", "x"), None);
    }

    #[test]
    fn odd_texts_do_no_harm() {
        for text in [
            "",
            "-",
            "- id:",
            "é\n- id: é",
            "- id: a\n\t- id: b\r\n",
            "jobs: *x",
            "jobs:\n- &a [*a]\n- id: {}\n- id",
            "]}",
        ] {
            let _whatever = of_manifest(text);
        }
        let long = format!("jobs:\n- id: a\n{}", "  x: yyyyyyyy\n".repeat(10_000));
        let manifests = [ManifestSource {
            path: "m".to_owned(),
            text: long,
        }];
        let excerpt = &all(&manifests)["a"].text;
        assert!(excerpt.len() < 10_000 && excerpt.contains("cut here"));
    }
}
