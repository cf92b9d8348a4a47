//! Links of a page, read from its markup. Our templates quote every attribute.

use std::collections::{BTreeMap, BTreeSet};

/// Values of an attribute, their entities resolved.
pub fn values(html: &str, attribute: &str) -> Vec<String> {
    let start = format!(" {attribute}=\"");
    html.split(&start)
        .skip(1)
        .filter_map(|rest| rest.split_once('"'))
        .map(|(value, _)| unescape(value))
        .collect()
}

pub fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// What is wrong with the links of a site: one line each.
pub fn broken(files: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let pages: BTreeMap<&str, String> = files
        .iter()
        .filter(|(path, _)| path.ends_with(".html"))
        .map(|(path, content)| {
            (
                path.as_str(),
                String::from_utf8(content.clone()).expect("UTF-8"),
            )
        })
        .collect();
    let ids: BTreeMap<&str, Vec<String>> = pages
        .iter()
        .map(|(path, html)| (*path, values(html, "id")))
        .collect();
    let mut wrong = Vec::new();
    for (path, html) in &pages {
        let unique: BTreeSet<&String> = ids[path].iter().collect();
        if unique.len() != ids[path].len() {
            wrong.push(format!("{path} has an id twice"));
        }
        for link in ["href", "src", "data-echarts"]
            .iter()
            .flat_map(|attribute| values(html, attribute))
        {
            if link.starts_with("data:image/svg+xml,") {
                continue;
            }
            let (file, fragment) = link.split_once('#').unwrap_or((&link, ""));
            let target = resolve(path, file);
            let known = files.contains_key(&target);
            let found = fragment.is_empty()
                || ids
                    .get(target.as_str())
                    .is_some_and(|ids| ids.iter().any(|id| id == fragment));
            if !known || !found {
                wrong.push(format!("{path} links to {link}"));
            }
        }
        for label in values(html, "aria-labelledby") {
            if !ids[path].contains(&label) {
                wrong.push(format!("{path} is labelled by {label}"));
            }
        }
    }
    wrong
}

/// A relative link as a path below the site; what leaves the site keeps its `..`.
fn resolve(page: &str, link: &str) -> String {
    if link.is_empty() {
        return page.to_owned();
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." if !parts.is_empty() => drop(parts.pop()),
            other => parts.push(other),
        }
    }
    parts.join("/")
}
