//! ECharts' SVG made fit for a page: no inline styles (the page's policy forbids them), colours of
//! the page's theme, ids of its own, and nothing that a picture does not need.

use std::collections::BTreeMap;

use quick_xml::{
    Reader, Writer, XmlVersion,
    events::{BytesStart, Event, attributes::Attribute},
};

use crate::ReportError;

/// Colours that options name by `@`, in the style sheet `--name`.
const COLOURS: &[&str] = &[
    "ink", "muted", "rule", "raised", "series-0", "series-1", "series-2", "series-3", "series-4",
    "series-5", "series-6", "series-7",
];

/// Elements that a drawing may hold.
const ELEMENTS: &[&str] = &[
    "svg", "g", "path", "rect", "circle", "line", "polyline", "polygon", "text", "tspan", "defs",
    "clipPath",
];

/// Attributes that survive, besides what `style` holds.
const ATTRIBUTES: &[&str] = &[
    "d",
    "x",
    "y",
    "x1",
    "y1",
    "x2",
    "y2",
    "cx",
    "cy",
    "r",
    "width",
    "height",
    "points",
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-opacity",
    "stroke-dasharray",
    "stroke-linejoin",
    "stroke-linecap",
    "opacity",
    "transform",
    "dominant-baseline",
    "text-anchor",
    "xml:space",
    "id",
    "clip-path",
];

/// Properties of `style` that are attributes too. Families of fonts are left to the page.
const PROPERTIES: &[&str] = &[
    "font-size",
    "font-weight",
    "font-style",
    "fill",
    "stroke",
    "opacity",
];

/// A colour of its own for each name, to be found again in the drawing.
pub(super) fn sentinels() -> BTreeMap<&'static str, String> {
    COLOURS
        .iter()
        .enumerate()
        .map(|(number, name)| (*name, sentinel(number)))
        .collect()
}

fn sentinel(number: usize) -> String {
    format!("#fe{number:02x}cb")
}

/// Rewrites a drawing. `id` keeps its ids apart from those of other drawings on the page.
pub(super) fn rewrite(
    raw: &str,
    id: &str,
    width: usize,
    height: usize,
) -> Result<String, ReportError> {
    let mut reader = Reader::from_str(raw);
    let mut writer = Writer::new(Vec::new());
    let mut skipping = 0_usize;
    let mut at_root = true;
    loop {
        let event = reader.read_event().map_err(failure)?;
        let event = match event {
            Event::Eof => break,
            Event::Start(_) | Event::End(_) if skipping > 0 => {
                if matches!(event, Event::Start(_)) {
                    skipping += 1;
                } else {
                    skipping -= 1;
                }
                continue;
            }
            _ if skipping > 0 => continue,
            Event::Start(start) if start.name().as_ref() == "style" => {
                skipping = 1;
                continue;
            }
            Event::Start(start) if at_root => {
                at_root = false;
                Event::Start(root(element(&start, id)?, width, height))
            }
            Event::Start(start) => Event::Start(element(&start, id)?),
            Event::Empty(start) => Event::Empty(element(&start, id)?),
            Event::End(end) => Event::End(end),
            Event::Text(text) if text.trim().is_empty() => continue,
            Event::Text(text) => Event::Text(text),
            Event::GeneralRef(reference) => Event::GeneralRef(reference),
            _ => continue,
        };
        writer.write_event(event).map_err(failure)?;
    }
    String::from_utf8(writer.into_inner()).map_err(failure)
}

fn element(start: &BytesStart<'_>, id: &str) -> Result<BytesStart<'static>, ReportError> {
    let name = start.name().as_ref().to_owned();
    if !ELEMENTS.contains(&name.as_str()) {
        return Err(ReportError::Chart(format!(
            "unexpected element `{name}` in the drawing"
        )));
    }
    let mut clean = BytesStart::new(name);
    for attribute in start.attributes() {
        let attribute = attribute.map_err(failure)?;
        let key = attribute.key.as_ref().to_owned();
        let value = value(&attribute)?;
        if key == "style" {
            for (property, value) in value.split(';').filter_map(|part| part.split_once(':')) {
                let (property, value) = (property.trim(), value.trim());
                if PROPERTIES.contains(&property) {
                    clean.push_attribute((property, paint(value).as_str()));
                }
            }
        } else if ATTRIBUTES.contains(&key.as_str()) {
            let value = match key.as_str() {
                "id" | "clip-path" => own_id(&value, id),
                _ => paint(&value),
            };
            clean.push_attribute((key.as_str(), value.as_str()));
        }
    }
    Ok(clean)
}

fn root(drawn: BytesStart<'static>, width: usize, height: usize) -> BytesStart<'static> {
    drop(drawn);
    let mut root = BytesStart::new("svg");
    for (key, value) in [
        ("class", "chart-static".to_owned()),
        ("width", width.to_string()),
        ("height", height.to_string()),
        ("viewBox", format!("0 0 {width} {height}")),
        ("aria-hidden", "true".to_owned()),
        ("preserveAspectRatio", "xMinYMid".to_owned()),
        ("focusable", "false".to_owned()),
    ] {
        root.push_attribute((key, value.as_str()));
    }
    root
}

fn value(attribute: &Attribute<'_>) -> Result<String, ReportError> {
    attribute
        .normalized_value(XmlVersion::Implicit1_0)
        .map(std::borrow::Cow::into_owned)
        .map_err(failure)
}

/// A colour of the theme for the colour that stood for it.
fn paint(value: &str) -> String {
    COLOURS
        .iter()
        .enumerate()
        .find(|(number, _)| sentinel(*number) == value)
        .map_or_else(|| value.to_owned(), |(_, name)| format!("var(--{name})"))
}

/// `zr3-c0` and `url(#zr3-c0)` count instances; ours name the drawing.
fn own_id(value: &str, id: &str) -> String {
    match value.split_once("zr") {
        Some((before, rest)) => {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}chart-{id}{rest}")
        }
        None => value.to_owned(),
    }
}

fn failure(error: impl std::fmt::Display) -> ReportError {
    ReportError::Chart(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_become_attributes_and_colours_names() {
        let raw = r##"<svg width="9" height="9" xmlns="http://www.w3.org/2000/svg"><style>.a{}</style>
<g clip-path="url(#zr7-c0)"><text style="font-size:12px;font-family:serif;" ecmeta_x="1" fill="#fe00cb">a &lt; b</text></g></svg>"##;
        assert_eq!(
            rewrite(raw, "abc", 20, 10).unwrap(),
            "<svg class=\"chart-static\" width=\"20\" height=\"10\" viewBox=\"0 0 20 10\" aria-hidden=\"true\" \
             preserveAspectRatio=\"xMinYMid\" focusable=\"false\"><g clip-path=\"url(#chart-abc-c0)\"><text font-size=\"12px\" fill=\"var(--ink)\">\
             a &lt; b</text></g></svg>"
        );
    }

    #[test]
    fn what_is_no_picture_is_refused() {
        for bad in [
            "<svg><script>1</script></svg>",
            "<svg><foreignObject/></svg>",
            "<svg><g",
            "<svg></g></svg>",
        ] {
            assert!(rewrite(bad, "x", 1, 1).is_err(), "{bad}");
        }
    }
}
