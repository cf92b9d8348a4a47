//! What the program carries inside: the files of `site/`, what experiments found, and ECharts.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// ECharts, minified, under the Apache License 2.0 that its head names.
pub(crate) const ECHARTS: &str = include_str!(concat!(env!("OUT_DIR"), "/echarts.min.js"));

/// The script that charts share between the browser and the drawing at report time.
pub(crate) const CHART_KIT: &str = "chart-kit.js";

/// The script of this name.
pub(crate) fn script(name: &str) -> Option<&'static str> {
    SCRIPTS
        .iter()
        .find(|(file, _)| *file == name)
        .map(|(_, text)| *text)
}

/// What the experiment of this name found.
pub(crate) fn experiment(name: &str) -> Option<&'static str> {
    let file = |(file, _): &&(&str, &str)| file.strip_suffix(".csv") == Some(name);
    EXPERIMENTS.iter().find(file).map(|(_, text)| *text)
}

/// All styles in the order of their names, as one sheet.
pub(crate) fn style_sheet() -> String {
    STYLES
        .iter()
        .map(|(_, text)| *text)
        .collect::<Vec<_>>()
        .join("\n")
}
