//! What is wrong with a manifest, and at which bytes; a [`crate::Diagnostic`] once file and line
//! are known.

use std::{fmt, ops::Range};

use serde::de;

use crate::suggest;

/// Most characters that are shown of a number.
const NUMBER_LIMIT: usize = 40;

/// What `serde` calls a sequence, and how it is written.
const LIST: &str = "a list";
const HOW_TO_LIST: &str = "begin each entry with `- `, or put `[` and `]` around the list";

/// An error at a place of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Where; `None` until the value being read is known.
    pub(crate) span: Option<Range<usize>>,
    /// What is wrong.
    pub(crate) message: String,
    /// What would be right.
    pub(crate) help: Option<String>,
    /// The key that is missing, if that is what is wrong.
    pub(crate) missing: Option<&'static str>,
    /// What was expected where a number stands, until the number's own text is known.
    expected: Option<String>,
}

impl Fault {
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            span: Some(span),
            ..Self::nowhere(message)
        }
    }

    fn nowhere(message: impl Into<String>) -> Self {
        Self {
            span: None,
            message: message.into(),
            help: None,
            missing: None,
            expected: None,
        }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Quotes a number as it was written: its value may be printed otherwise.
    pub(crate) fn quoting(mut self, number: &str) -> Self {
        if let Some(expected) = self.expected.take() {
            self.message = unlike(&expected, &format!("the number `{}`", cut(number)));
        }
        self
    }

    /// Puts the fault at `span`, unless it knows its place already.
    pub(crate) fn at(mut self, span: &Range<usize>) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::nowhere(message.to_string())
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let expected = in_words(expected);
        let number = match found {
            de::Unexpected::Unsigned(number) => Some(number.to_string()),
            de::Unexpected::Signed(number) => Some(number.to_string()),
            de::Unexpected::Float(number) => Some(number.to_string()),
            _ => None,
        };
        let found = match (&number, found) {
            (Some(number), _) => format!("the number `{number}`"),
            (None, de::Unexpected::Unit) => "nothing".to_owned(),
            (None, de::Unexpected::Seq) => "a list".to_owned(),
            (None, de::Unexpected::Map) => "a mapping".to_owned(),
            (None, de::Unexpected::Str(text)) => format!("the text {text:?}"),
            (None, de::Unexpected::Bool(value)) => format!("the word `{value}`"),
            (None, other) => other.to_string(),
        };
        Self {
            help: (expected == LIST).then(|| HOW_TO_LIST.to_owned()),
            expected: number.is_some().then(|| expected.clone()),
            ..Self::nowhere(unlike(&expected, &found))
        }
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::nowhere(format!("unknown key `{field}`")).help(suggest::among(
            field,
            expected.iter().copied(),
            "known keys",
        ))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::nowhere(format!("unknown value `{variant}`")).help(suggest::among(
            variant,
            expected.iter().copied(),
            "known values",
        ))
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            missing: Some(field),
            ..Self::nowhere(format!("the key `{field}` is missing"))
        }
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::nowhere(format!("the key `{field}` is there twice"))
    }
}

/// A number as it is shown: one of hundreds of digits is known by the first.
pub(crate) fn cut(number: &str) -> String {
    match number.char_indices().nth(NUMBER_LIMIT) {
        Some((end, _)) => format!("{}…", number.get(..end).unwrap_or_default()),
        None => number.to_owned(),
    }
}

fn unlike(expected: &str, found: &str) -> String {
    format!("expected {expected}, found {found}")
}

/// What was expected, without the names of Rust's types.
fn in_words(expected: &dyn de::Expected) -> String {
    match expected.to_string().as_str() {
        "u32" => "a whole number up to 4294967295".to_owned(),
        "u64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a string" => "text".to_owned(),
        "enum" | "variant identifier" => "one word".to_owned(),
        "unit" => "nothing beside the word".to_owned(),
        "a sequence" => LIST.to_owned(),
        other => other.to_owned(),
    }
}
