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
