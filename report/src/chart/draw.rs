//! ECharts in this process: QuickJS runs its own renderer for SVG.

use std::collections::BTreeMap;

use rquickjs::{CatchResultExt, Context, Function, Runtime};
use schema::Digest;
use serde_json::Value;

use super::svg;
use crate::{ReportError, embed};

/// Width of a chart at report time, in pixels. Narrower screens scroll it; scripts redraw it.
pub(crate) const WIDTH: usize = 720;

/// What ECharts asks of a browser, as far as drawing goes.
const BROWSER: &str = "
    globalThis.global = globalThis;
    globalThis.setTimeout = () => 0;
    globalThis.clearTimeout = () => {};
    globalThis.console = { log() {}, warn() {}, error() {} };
";

/// Defines `draw(option, colours, width, height)`.
const DRAW: &str = "
    globalThis.draw = function (option, colours, width, height) {
        const names = JSON.parse(colours);
        const prepared = photofinishCharts.prepare(JSON.parse(option), (name) => names[name]);
        const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width, height });
        chart.setOption(prepared);
        const svg = chart.renderToSVGString();
        chart.dispose();
        return svg;
    };
";

/// Draws options as SVG. The engine starts with the first drawing; equal options are drawn once.
#[derive(Default)]
pub(crate) struct Drawer {
    engine: Option<(Runtime, Context)>,
    drawn: BTreeMap<Digest, String>,
}

impl Drawer {
    /// The option as SVG in the colours of the page around it. `name` is unique on the page.
    pub(crate) fn draw(
        &mut self,
        option: &Value,
        height: usize,
        name: &str,
    ) -> Result<String, ReportError> {
        let option = option.to_string();
        let key = Digest::of_parts([option.as_bytes(), &height.to_le_bytes()]);
        if let Some(known) = self.drawn.get(&key) {
            return svg::rewrite(known, name, WIDTH, height);
        }
        let colours = serde_json::to_string(&svg::sentinels())
            .map_err(|error| ReportError::Chart(error.to_string()))?;
        let raw = self
            .context()?
            .with(|context| -> Result<String, ReportError> {
                let draw: Function<'_> = context
                    .globals()
                    .get("draw")
                    .catch(&context)
                    .map_err(failure)?;
                draw.call((option.as_str(), colours, WIDTH, height))
                    .catch(&context)
                    .map_err(failure)
            })?;
        let drawn = svg::rewrite(&raw, name, WIDTH, height)?;
        self.drawn.insert(key, raw);
        Ok(drawn)
    }

    fn context(&mut self) -> Result<&Context, ReportError> {
        if self.engine.is_none() {
            let runtime = Runtime::new().map_err(failure)?;
            runtime.set_max_stack_size(4 << 20);
            let context = Context::full(&runtime).map_err(failure)?;
            let kit = embed::script(embed::CHART_KIT)
                .ok_or_else(|| ReportError::Chart("its script is missing".to_owned()))?;
            context.with(|context| {
                for source in [BROWSER, embed::ECHARTS, kit, DRAW] {
                    context
                        .eval::<(), _>(source)
                        .catch(&context)
                        .map_err(failure)?;
                }
                Ok::<_, ReportError>(())
            })?;
            self.engine = Some((runtime, context));
        }
        self.engine
            .as_ref()
            .map(|(_, context)| context)
            .ok_or_else(|| ReportError::Chart("no engine".to_owned()))
    }
}

fn failure(error: impl std::fmt::Display) -> ReportError {
    ReportError::Chart(error.to_string())
}

#[cfg(test)]
mod tests {
    use schema::tables::Interval;

    use super::*;
    use crate::{
        chart::{Axis, Intervals, Point, Quantity, Series},
        marks::Mark,
    };

    /// The chart of two estimates.
    fn drawn(quantity: Quantity, centres: [f64; 2]) -> String {
        let point = |(row, centre)| {
            let interval = Interval {
                low: Some(centre),
                centre,
                high: Some(centre),
                blocks: 6,
                confidence: 0.95,
            };
            Point::new(row, &interval, String::new()).unwrap()
        };
        let chart = Intervals {
            rows: vec!["a".to_owned(), "b".to_owned()],
            series: vec![Series {
                name: "x".to_owned(),
                mark: Mark::default(),
                points: centres.into_iter().enumerate().map(point).collect(),
            }],
            axis: Axis {
                name: String::new(),
                quantity,
            },
            reference: None,
        };
        let option = chart.option().unwrap();
        Drawer::default()
            .draw(&option, chart.height(), "x")
            .unwrap()
    }

    #[test]
    fn ticks_are_written_as_tables_write_numbers() {
        let holds = |svg: &str, ticks: &[&str]| {
            for tick in ticks {
                assert!(svg.contains(&format!(">{tick}<")), "{tick}: {svg}");
            }
        };
        let times = drawn(Quantity::Time, [519e3, 147e6]);
        holds(&times, &["500\u{a0}µs", "1\u{a0}ms", "100\u{a0}ms"]);
        let close = drawn(Quantity::Time, [600e3, 1.9e6]);
        holds(&close, &["0", "0.5\u{a0}ms", "1.5\u{a0}ms", "2\u{a0}ms"]);
        let ratios = drawn(Quantity::Ratio, [1.0, 2100.0]);
        holds(&ratios, &["1×", "10×", "1\u{202f}000×"]);
    }
}
