//! Times of day in the names of files: fixed width, so that the order of names is that of time.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

/// The present, RFC 3339 in UTC with milliseconds.
#[must_use]
pub fn now() -> String {
    format!("{:.3}", Timestamp::now())
}

/// A moment to the millisecond, between the years 1970 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stamp(Timestamp);

impl Stamp {
    /// The present, cut to the millisecond as [`now`] cuts it.
    pub(crate) fn now() -> Self {
        let now = Timestamp::now();
        Self(Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now))
    }

    /// From RFC 3339 text; `None` if it is not, or lies out of range.
    pub(crate) fn from_rfc3339(text: &str) -> Option<Self> {
        let moment: Timestamp = text.parse().ok()?;
        let milliseconds = moment.as_millisecond();
        // 253402300800000 ms is the first moment of the year 10000.
        if !(0..253_402_300_800_000).contains(&milliseconds) {
            return None;
        }
        Timestamp::from_millisecond(milliseconds).ok().map(Self)
    }

    /// Milliseconds from this moment to the present.
    pub(crate) fn age_ms(self) -> i64 {
        Timestamp::now()
            .as_millisecond()
            .saturating_sub(self.0.as_millisecond())
    }

    pub(crate) fn to_rfc3339(self) -> String {
        format!("{:.3}", self.0)
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = self
            .to_rfc3339()
            .chars()
            .filter(|c| !matches!(c, '-' | ':'))
            .collect();
        f.write_str(&text)
    }
}

impl FromStr for Stamp {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let stamp = Self::from_rfc3339(text).ok_or(())?;
        // Only the one spelling that we write: otherwise order by name is not order by time.
        if stamp.to_string() == text {
            Ok(stamp)
        } else {
            Err(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_the_order_of_time() {
        let texts = [
            "1970-01-01T00:00:00Z",
            "2026-11-20T16:30:00.001Z",
            "2026-11-20T16:30:00.1Z",
            "2026-11-20T17:30:00+00:00",
            "9999-12-30T20:59:58.999Z",
        ];
        let names: Vec<String> = texts
            .iter()
            .map(|text| Stamp::from_rfc3339(text).unwrap().to_string())
            .collect();
        assert!(names.is_sorted(), "{names:?}");
        assert_eq!(names[1], "20261120T163000.001Z");
        for name in &names {
            assert_eq!(name.parse::<Stamp>().unwrap().to_string(), *name);
        }
    }

    #[test]
    fn junk_is_no_stamp() {
        for junk in [
            "",
            "x",
            "2026-11-20T16:30:00.001Z",
            "-00010101T000000.000Z",
            "20261120T163000Z",
        ] {
            assert!(junk.parse::<Stamp>().is_err(), "{junk}");
        }
        assert!(Stamp::from_rfc3339("1969-12-31T23:59:59Z").is_none());
    }
}
