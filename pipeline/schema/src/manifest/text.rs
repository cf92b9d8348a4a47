//! Words and prose: text with bounds, so that nothing odd reaches a page, a path or a terminal.

use std::{borrow::Cow, fmt, ops::Deref};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

use crate::characters::is_unfit_for_prose;

/// Longest name, in bytes.
const NAME_LIMIT: usize = 64;

/// Longest prose, in characters.
const PROSE_LIMIT: usize = 1000;

/// A name that is a path segment: `[a-z0-9_-]+`, at most 64 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(String);

/// Text for readers: white space collapsed, no characters that do not show themselves, at most 1,000 characters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prose(String);

impl Deref for JobId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Deref for Prose {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

fn name<E: de::Error>(text: &str) -> Result<JobId, E> {
    let fits =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if text.is_empty() {
        Err(E::custom("a name must not be empty"))
    } else if text.len() > NAME_LIMIT {
        Err(E::custom(format_args!(
            "a name has at most {NAME_LIMIT} characters"
        )))
    } else if !text.bytes().all(fits) {
        Err(E::custom(format_args!(
            "the name {text:?} may hold only lower-case letters, digits, `_` and `-`"
        )))
    } else {
        Ok(JobId(text.to_owned()))
    }
}

fn prose<E: de::Error>(text: &str) -> Result<Prose, E> {
    let is_odd = |c: &char| is_unfit_for_prose(*c) && !matches!(c, '\n' | '\t' | '\r');
    if let Some(odd) = text.chars().find(is_odd) {
        let kind = if odd.is_control() {
            "control"
        } else {
            "invisible"
        };
        return Err(E::custom(format_args!(
            "the text holds the {kind} character {}; leave it out",
            odd.escape_unicode()
        )));
    }
    if text.chars().count() > PROSE_LIMIT {
        return Err(E::custom(format_args!(
            "the text has more than {PROSE_LIMIT} characters"
        )));
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    Ok(Prose(words.join(" ")))
}

macro_rules! from_text {
    ($type:ident, $make:ident, $expected:literal, $schema:tt) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        $make(text)
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

from_text!(JobId, name, "a name such as `inference`", {
    "type": "string",
    "pattern": "^[a-z0-9_-]+$",
    "maxLength": 64,
});
from_text!(Prose, prose, "text", { "type": "string", "maxLength": 1000 });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_tidied_and_tricks_are_refused() {
        let read = |json: &str| serde_json::from_str::<Prose>(json);
        assert_eq!(&*read(r#""  two\n  words ""#).unwrap(), "two words");
        assert!(read(r#""\u001b[31mred""#).is_err());
        for trick in [
            "\u{202e}",
            "a\u{61c}b",
            "\u{200b}",
            "so\u{ad}ft",
            "\u{e0041}",
        ] {
            assert!(
                read(&serde_json::json!(trick).to_string()).is_err(),
                "{trick:?}"
            );
        }
        assert_eq!(&*read("\"می\u{200c}روم\"").unwrap(), "می\u{200c}روم");
        assert!(read(&format!("{:?}", "x".repeat(1001))).is_err());
        assert!(read("3").is_err());
    }

    #[test]
    fn names_are_path_segments() {
        let read = |text: &str| serde_json::from_value::<JobId>(text.into());
        assert_eq!(&*read("gpu-fp16_2").unwrap(), "gpu-fp16_2");
        for bad in ["", "A", "a b", "../x", "é", ".", &"x".repeat(65)] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
