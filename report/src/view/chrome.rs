//! What surrounds every page: where one is, where one can go, who made it.

use schema::{Tables, record::Tool};
use serde::Serialize;

/// A link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Link {
    pub(crate) label: String,
    pub(crate) href: String,
}

/// A link of these.
pub(crate) fn link(label: impl Into<String>, href: impl Into<String>) -> Link {
    Link {
        label: label.into(),
        href: href.into(),
    }
}

/// The surroundings of a page.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Chrome {
    /// Title of the site.
    pub(crate) site: String,
    /// Title of the page; empty on the overview.
    pub(crate) title: String,
    /// From the page to the folder of the site: empty, or `../` and so on.
    pub(crate) root: &'static str,
    /// Which entry of the navigation is this page.
    pub(crate) here: &'static str,
    /// The pages above this one, outermost first.
    pub(crate) crumbs: Vec<Link>,
    /// When and with what it was measured.
    pub(crate) footer: Vec<String>,
}

impl Chrome {
    pub(crate) fn new(
        tables: &Tables,
        root: &'static str,
        here: &'static str,
        title: &str,
    ) -> Self {
        let mut footer = Vec::new();
        if let Some((first, last)) = &tables.measured {
            footer.push(if first == last {
                format!("Measured {}", moment(first))
            } else {
                format!("Measured {} to {}", moment(first), moment(last))
            });
        }
        footer.extend(tables.tools.iter().map(tool));
        Self {
            site: site_title(tables),
            title: title.to_owned(),
            root,
            here,
            crumbs: Vec::new(),
            footer,
        }
    }

    pub(crate) fn with_crumbs(mut self, crumbs: Vec<Link>) -> Self {
        self.crumbs = crumbs;
        self
    }
}

/// What measured, for example `photofinish 0.1.0, revision 4d6a7d0`.
pub(crate) fn tool(tool: &Tool) -> String {
    let revision = tool
        .revision
        .as_deref()
        .map(|revision| format!(", revision {revision}"))
        .unwrap_or_default();
    format!("photofinish {}{revision}", tool.version)
}

/// The title of the site, never empty.
pub(crate) fn site_title(tables: &Tables) -> String {
    if tables.title.trim().is_empty() {
        "photofinish".to_owned()
    } else {
        tables.title.clone()
    }
}

/// `2026-11-20T16:28:00Z` as `2026-11-20 16:28 UTC`; anything else as it is.
pub(crate) fn moment(rfc3339: &str) -> String {
    let parts = rfc3339.split_once('T').and_then(|(date, time)| {
        let utc = time.ends_with('Z') || time.ends_with("+00:00");
        let minutes = time.get(..5).filter(|_| utc && date.len() == 10)?;
        Some(format!("{date} {minutes} UTC"))
    });
    parts.unwrap_or_else(|| rfc3339.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_others_left() {
        assert_eq!(moment("2026-11-20T16:28:09.123Z"), "2026-11-20 16:28 UTC");
        for odd in [
            "",
            "yesterday",
            "2026-11-20T",
            "2026-11-20T16:2éZ",
            "2026-11-20T16:28:09+02:00",
        ] {
            assert_eq!(moment(odd), odd);
        }
    }
}
