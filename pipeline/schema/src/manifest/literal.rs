//! Numbers with their units: `3%`, `300ms`, `2GiB`.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor},
};

/// A share, written as a percentage.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Percent {
    /// The share: 0.03 for `3%`.
    pub share: f64,
}

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration {
    /// Nanoseconds.
    pub ns: u64,
}

/// An amount of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
}

/// The longest time that a manifest may ask for: 30 days.
const LONGEST_NS: f64 = 30.0 * 86_400e9;

/// The largest amount of memory that a manifest may ask for: 1 PiB.
const LARGEST_BYTES: f64 = (1_u64 << 50) as f64;

const TIMES: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];

const SIZES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", (1_u64 << 10) as f64),
    ("MiB", (1_u64 << 20) as f64),
    ("GiB", (1_u64 << 30) as f64),
    ("TiB", (1_u64 << 40) as f64),
];

/// Splits `4.5GiB` into 4.5 and `GiB`. Only plain decimal numbers: no sign, no exponent, so that
/// infinity and NaN cannot be written.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let starts_well = number.starts_with(|c: char| c.is_ascii_digit());
    let number: f64 = number
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())?;
    starts_well.then_some((number, unit.trim_start()))
}

fn scaled(text: &str, units: &[(&str, f64)], most: f64) -> Option<u64> {
    let (number, unit) = split(text)?;
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    let value = (number * scale).round();
    (value >= 0.0 && value <= most).then_some(value as u64)
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match split(text) {
            Some((number, "%")) if number > 0.0 && number <= 100.0 => Ok(Self {
                // Not `number / 100.0`: 99.9 is no binary number, and dividing rounds it again.
                share: format!("{number}e-2").parse().unwrap_or(number / 100.0),
            }),
            Some((_, "%")) => Err(format!("`{text}` must be more than 0% and at most 100%")),
            _ => Err(format!("`{text}` is no percentage: write it like `3%`")),
        }
    }
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        scaled(text, TIMES, LONGEST_NS).map(|ns| Self { ns }).ok_or_else(|| {
            format!(
                "`{text}` is no length of time: write it like `300ms`, `90s`, `4m` or `2h` (at most 30d)"
            )
        })
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        scaled(text, SIZES, LARGEST_BYTES)
            .map(|bytes| Self { bytes })
            .ok_or_else(|| {
                format!("`{text}` is no amount of memory: write it like `512MiB` or `2GiB`")
            })
    }
}

macro_rules! literal {
    ($type:ident, $expected:literal, $pattern:literal) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_any(Text)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "description": concat!("Expected: ", $expected, "."),
                    "type": "string",
                    "pattern": $pattern,
                })
            }
        }
    };
}

literal!(
    Percent,
    "a percentage such as `3%`",
    r"^[0-9]+(\.[0-9]*)? *%$"
);
literal!(
    Duration,
    "a length of time such as `300ms` or `4m`",
    r"^[0-9]+(\.[0-9]*)? *(ns|us|ms|s|m|h|d)$"
);
literal!(
    Size,
    "an amount of memory such as `2GiB`",
    r"^[0-9]+(\.[0-9]*)? *([kMGT]?B|[KMGT]iB)$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_their_values() {
        assert_eq!("3%".parse(), Ok(Percent { share: 0.03 }));
        assert_eq!("99.9%".parse(), Ok(Percent { share: 0.999 }));
        assert_eq!("2.5 %".parse(), Ok(Percent { share: 0.025 }));
        assert_eq!("300ms".parse(), Ok(Duration { ns: 300_000_000 }));
        assert_eq!(
            "1.5h".parse(),
            Ok(Duration {
                ns: 5_400_000_000_000
            })
        );
        assert_eq!("2GiB".parse(), Ok(Size { bytes: 2 << 30 }));
        assert_eq!(
            "2GB".parse(),
            Ok(Size {
                bytes: 2_000_000_000
            })
        );
    }

    #[test]
    fn what_is_not_a_plain_number_with_a_unit_is_refused() {
        for bad in [
            "",
            "%",
            "3",
            "-3%",
            "0%",
            "101%",
            "nan%",
            "inf%",
            "1e3%",
            "3 percent",
            ".5%",
            "1.2.3%",
        ] {
            assert!(bad.parse::<Percent>().is_err(), "{bad}");
        }
        for bad in [
            "",
            "4",
            "m",
            "4 min",
            "-1s",
            "1e9h",
            "31d",
            "9999999999999999999999h",
            "infs",
            "4M",
        ] {
            assert!(bad.parse::<Duration>().is_err(), "{bad}");
        }
        for bad in ["", "2", "GiB", "2gib", "-1GiB", "99999999TiB"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}
