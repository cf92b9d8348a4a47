//! The one chart of jobs and overview: estimates with their intervals, a row a setting.

use charming::{
    Chart,
    component::{Axis as ChartAxis, Grid},
    element::{
        AxisLabel, AxisLine, AxisTick, AxisType, LineStyle, NameLocation, SplitLine, Tooltip,
        Trigger,
    },
    series::Custom,
};
use schema::tables::Interval;
use serde_json::{Value, json};

use crate::{ReportError, marks::Mark, text, units};

/// Ratios and times beyond these are some mistake, and would break the arithmetic of an axis.
const DRAWABLE: std::ops::Range<f64> = 1e-9..1e15;

/// A label has two lines of so many characters at most.
const LONGEST_LINE: usize = 32;
/// Heights of a row whose label has one line, and two.
const ROW: [usize; 2] = [24, 34];
const TOP: usize = 8;
const BOTTOM: usize = 52;

/// A chart of intervals.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    /// Labels of the rows, top first.
    pub(crate) rows: Vec<String>,
    pub(crate) series: Vec<Series>,
    pub(crate) axis: Axis,
    /// A line that stands for "no difference", and the band of differences too small to matter.
    pub(crate) reference: Option<[f64; 3]>,
}

/// Estimates of one contender.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) mark: Mark,
    pub(crate) points: Vec<Point>,
}

/// An estimate with its interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) row: usize,
    pub(crate) centre: f64,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
    /// The same in words.
    pub(crate) label: String,
}

/// The horizontal axis.
#[derive(Debug, Default)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) quantity: Quantity,
}

/// What the numbers of an axis are, which decides how they are written and where ticks stand.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Times divided by a time: around 1.
    #[default]
    Ratio,
    /// Nanoseconds, written in the units that tables use: from zero when the axis is linear.
    Time,
}

impl Point {
    /// `None` when the estimate is no number that a picture can show. An end that cannot be shown
    /// is unbounded.
    pub(crate) fn new(row: usize, interval: &Interval, label: String) -> Option<Self> {
        let centre = Some(interval.centre).filter(|centre| DRAWABLE.contains(centre))?;
        let end = |end: Option<f64>| end.filter(|end| DRAWABLE.contains(end));
        Some(Self {
            row,
            centre,
            low: end(interval.low).filter(|low| *low <= centre),
            high: end(interval.high).filter(|high| *high >= centre),
            label,
        })
    }
}

/// The line of no difference, and the band of this margin around it.
pub(crate) fn no_difference(margin: f64) -> [f64; 3] {
    let factor = 1.0
        + if (0.0..10.0).contains(&margin) {
            margin
        } else {
            0.0
        };
    [1.0, 1.0 / factor, factor]
}

/// The label of a row: in two lines where one is too short, the second cut where that is, too.
fn label(row: &str) -> String {
    let row = text::clean(row).replace('\n', " ");
    let Some((end, next)) = row.char_indices().nth(LONGEST_LINE) else {
        return row;
    };
    let line = row.get(..end).unwrap_or_default();
    let first = match next {
        ' ' => line,
        _ => line.rsplit_once(' ').map_or("", |(first, _)| first),
    };
    if first.trim().is_empty() {
        return text::shorten(&row, LONGEST_LINE);
    }
    let rest = row.get(first.len()..).unwrap_or_default();
    let rest = text::shorten(rest.trim_start(), LONGEST_LINE);
    format!("{}\n{rest}", first.trim_end())
}

impl Intervals {
    /// Whether there is something to draw.
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers().next().is_none()
    }

    /// The height that the rows need, in pixels.
    pub(crate) fn height(&self) -> usize {
        let [one, two] = ROW;
        let has_two = self.rows.iter().any(|row| label(row).contains('\n'));
        let row = one + 11 * self.series.len().saturating_sub(1);
        let row = row.max(if has_two { two } else { one });
        TOP + BOTTOM + row * self.rows.len().max(1)
    }

    /// The option for ECharts. Colours are names that start with `@`.
    pub(crate) fn option(&self) -> Result<Value, ReportError> {
        let mut chart = Chart::new()
            .animation(false)
            .grid(
                Grid::new()
                    .top(TOP as f64)
                    .bottom(BOTTOM as f64)
                    .left(self.label_width())
                    .right(28),
            )
            .tooltip(
                Tooltip::new()
                    .trigger(Trigger::Item)
                    .formatter("{b}")
                    .background_color("@raised")
                    .border_color("@rule"),
            )
            .x_axis(self.horizontal())
            .y_axis(
                ChartAxis::new()
                    .type_(AxisType::Category)
                    .inverse(true)
                    .axis_line(AxisLine::new().show(false))
                    .axis_tick(AxisTick::new().show(false))
                    .axis_label(AxisLabel::new().color("@ink").font_size(12).interval(0))
                    .data(self.rows.iter().map(|row| label(row)).collect()),
            );
        if self.reference.is_some() {
            chart = chart.series(
                Custom::new()
                    .render_item("reference")
                    .item_style(charming::element::ItemStyle::new().color("@muted")),
            );
        }
        for series in &self.series {
            let colour = format!("@series-{}", series.mark.colour);
            chart = chart.series(
                Custom::new()
                    .name(text::clean(&series.name))
                    .render_item("interval")
                    .item_style(charming::element::ItemStyle::new().color(colour.as_str())),
            );
        }
        let mut option =
            serde_json::to_value(&chart).map_err(|error| ReportError::Chart(error.to_string()))?;
        self.patch(&mut option);
        Ok(option)
    }

    fn horizontal(&self) -> ChartAxis {
        let axis = ChartAxis::new()
            .name(self.axis.name.as_str())
            .name_location(NameLocation::Middle)
            .name_gap(30)
            .axis_label(AxisLabel::new().color("@muted").font_size(12))
            .split_line(
                SplitLine::new()
                    .show(true)
                    .line_style(LineStyle::new().color("@rule")),
            );
        match self.scale() {
            Scale::Log { base, min, max } => {
                axis.type_(AxisType::Log).log_base(base).min(min).max(max)
            }
            Scale::Linear { step, min, max } => {
                axis.type_(AxisType::Value).interval(step).min(min).max(max)
            }
        }
    }

    /// What charming has no words for: data with names, functions by name, text in the tooltip that
    /// needs no markup.
    fn patch(&self, option: &mut Value) {
        let data = self.series.iter().enumerate().map(|(place, series)| {
            let place = self.place(place);
            Value::Array(series.points.iter().map(|point| {
                json!({
                    "name": text::clean(&point.label),
                    "value": [point.centre, point.row, point.low, point.high, place, series.mark.shape],
                })
            }).collect())
        });
        let reference = self
            .reference
            .iter()
            .map(|reference| json!([{ "value": reference }]));
        let all: Vec<Value> = reference.chain(data).collect();
        if let Some(list) = option.get_mut("series").and_then(Value::as_array_mut) {
            for (series, data) in list.iter_mut().zip(all) {
                let drawer = series
                    .get("renderItem")
                    .and_then(Value::as_str)
                    .map(|name| name.trim_matches(['#', '*']).to_owned());
                let is_reference = drawer.as_deref() == Some("reference");
                if let Some(series) = series.as_object_mut() {
                    series.insert("renderItem".to_owned(), json!(drawer));
                    series.insert("data".to_owned(), data);
                    series.insert("silent".to_owned(), json!(is_reference));
                    series.insert("clip".to_owned(), json!(true));
                    series.insert("emphasis".to_owned(), json!({ "disabled": true }));
                    let encode = if is_reference {
                        json!({ "x": [0] })
                    } else {
                        json!({ "x": [0, 2, 3], "y": 1 })
                    };
                    series.insert("encode".to_owned(), encode);
                }
            }
        }
        for axis in ["xAxis", "yAxis"] {
            // One axis is written as a list of one.
            if let Some(axis) = option.get_mut(axis).map(|axis| match axis {
                Value::Array(list) if list.len() == 1 => list.remove(0),
                other => other.take(),
            }) {
                let name = if axis.get("inverse").is_some() {
                    "yAxis"
                } else {
                    "xAxis"
                };
                option[name] = axis;
            }
        }
        if let Some(grid) = option.pointer_mut("/grid/0").map(Value::take) {
            option["grid"] = grid;
        }
        let scale = self.scale();
        let ticks = json!(scale.ticks());
        option["xAxis"]["axisLabel"]["formatter"] = json!(self.formatter(scale));
        option["xAxis"]["axisLabel"]["customValues"] = ticks.clone();
        // Lines of the grid stand where ticks do.
        option["xAxis"]["axisTick"] = json!({ "customValues": ticks });
        option["xAxis"]["nameTextStyle"] = json!({ "color": "@muted", "fontSize": 12 });
        option["tooltip"]["renderMode"] = json!("richText");
        option["tooltip"]["textStyle"] = json!({ "color": "@ink", "fontSize": 13 });
        option["tooltip"]["confine"] = json!(true);
    }

    /// The chart kit's name for how ticks are written. An axis with equal steps has one unit; on a
    /// logarithmic one each tick has its own, like the rows of a table.
    fn formatter(&self, scale: Scale) -> &'static str {
        match (self.axis.quantity, scale) {
            (Quantity::Ratio, _) => "ratio",
            (Quantity::Time, Scale::Log { .. }) => "time",
            (Quantity::Time, Scale::Linear { max, .. }) => units::time_unit(max).1,
        }
    }

    /// Room for the labels of the rows. Fonts differ between machines, so it is a generous guess
    /// and not what ECharts would measure.
    fn label_width(&self) -> f64 {
        let longest = self
            .rows
            .iter()
            .flat_map(|row| label(row).lines().map(|line| line.chars().count()).max())
            .max()
            .unwrap_or(0);
        14.0 + 7.3 * longest as f64
    }

    /// How far from the middle of its row a series stands, as a share of the row's height:
    /// closer to its own than to the next row.
    fn place(&self, series: usize) -> f64 {
        let count = self.series.len().max(1) as f64;
        ((series as f64 - (count - 1.0) / 2.0) * 0.7 / count * 1000.0).round() / 1000.0
    }

    fn numbers(&self) -> impl Iterator<Item = f64> {
        self.series
            .iter()
            .flat_map(|series| &series.points)
            .flat_map(|point| [Some(point.centre), point.low, point.high])
            .flatten()
    }

    fn scale(&self) -> Scale {
        let reference = self.reference.iter().flatten().copied();
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for number in self.numbers().chain(reference) {
            low = low.min(number);
            high = high.max(number);
        }
        Scale::over(low, high, self.axis.quantity)
    }
}

/// How numbers become places.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scale {
    Linear { step: f64, min: f64, max: f64 },
    Log { base: f64, min: f64, max: f64 },
}

/// Ticks of a logarithmic axis in every decade.
const MANTISSAS: [f64; 3] = [1.0, 2.0, 5.0];

/// More ticks than this crowd a logarithmic axis: powers of ten are left.
const MOST_TICKS: usize = 10;

impl Scale {
    /// Ratios are equal steps on a logarithmic axis, so it is taken as soon as it has enough
    /// ticks; a narrow range gets a linear one with round ticks.
    fn over(low: f64, high: f64, quantity: Quantity) -> Self {
        if !(low.is_finite() && high.is_finite() && low <= high) {
            return Self::Linear {
                step: 1.0,
                min: 0.0,
                max: 1.0,
            };
        }
        let from_zero = quantity == Quantity::Time;
        let wide = if from_zero { 12.0 } else { 3.0 };
        if low > 0.0 && high / low > wide {
            // Nobody halves a millisecond seven times; a ratio is halved and doubled.
            if from_zero || high / low > 200.0 {
                // Nothing sits on the edge, and no tick needs to.
                let room = (high / low).powf(0.04);
                return Self::Log {
                    base: 10.0,
                    min: low / room,
                    max: high * room,
                };
            }
            return Self::Log {
                base: 2.0,
                min: (low.log2() - 1e-9).floor().exp2(),
                max: (high.log2() + 1e-9).ceil().exp2(),
            };
        }
        // Nothing sits on the edge.
        let room = (high - low) * 0.04;
        let (low, high) = if from_zero {
            (low.min(0.0), high + room)
        } else {
            (low - room, high + room)
        };
        let span = (high - low).max(high.abs() * 0.01).max(1e-12);
        let raw = span / 5.0;
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|nice| nice * power)
            .find(|step| *step >= raw)
            .unwrap_or(raw);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        // Ticks are whole multiples of the step.
        Self::Linear {
            step: tidy(step),
            min: tidy(first * step),
            max: tidy(last.max(first + 1.0) * step),
        }
    }

    /// Where ticks stand, from left to right.
    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear { step, min, max } => {
                let last = ((max - min) / step).round().clamp(0.0, 100.0) as u32;
                (0..=last)
                    .map(|number| tidy(min + f64::from(number) * step))
                    .collect()
            }
            Self::Log { base, min, max } if base < 10.0 => {
                std::iter::successors(Some(min), |tick| Some(tick * base))
                    .take_while(|tick| *tick <= max)
                    .collect()
            }
            Self::Log { min, max, .. } => {
                let all: Vec<f64> = decimal_ticks(min, max)
                    .filter(|tick| (min..=max).contains(tick))
                    .collect();
                if all.len() <= MOST_TICKS {
                    return all;
                }
                let is_power = |tick: &f64| format!("{tick:e}").starts_with("1e");
                all.into_iter().filter(is_power).collect()
            }
        }
    }
}

/// 1, 2 and 5 times every power of ten around a range.
fn decimal_ticks(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (first - 1..=last + 1).flat_map(|exponent| {
        MANTISSAS.map(|mantissa| format!("{mantissa}e{exponent}").parse().unwrap_or(mantissa))
    })
}

/// Twelve digits: the noise of binary fractions is off.
fn tidy(value: f64) -> f64 {
    format!("{value:.12e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_have_two_lines() {
        assert_eq!(label("batch=1, seq=32"), "batch=1, seq=32");
        let exact = "n".repeat(LONGEST_LINE);
        assert_eq!(label(&exact), exact);
        assert_eq!(label(&format!("{exact} b=2")), format!("{exact}\nb=2"));
        assert_eq!(
            label("model=efficientnet_b4, batch=1, image=224"),
            "model=efficientnet_b4, batch=1,\nimage=224"
        );
        assert_eq!(label(&"ä".repeat(40)), format!("{}…", "ä".repeat(31)));
        let long = label(&"ä b ".repeat(40));
        let lengths: Vec<usize> = long.lines().map(|line| line.chars().count()).collect();
        assert!(
            lengths.len() == 2 && lengths.iter().all(|&length| length <= 32),
            "{long}"
        );
        let rows = |row: &str| Intervals {
            rows: vec![row.to_owned()],
            ..Intervals::default()
        };
        assert!(rows(&"ä b ".repeat(40)).height() > rows("b").height());
    }

    #[test]
    fn scales_suit_their_range() {
        use Quantity::{Ratio, Time};
        assert_eq!(
            Scale::over(0.22, 1.1, Ratio),
            Scale::Log {
                base: 2.0,
                min: 0.125,
                max: 2.0
            }
        );
        assert_eq!(
            Scale::over(0.96, 1.04, Ratio),
            Scale::Linear {
                step: 0.02,
                min: 0.94,
                max: 1.06,
            }
        );
        assert_eq!(
            Scale::over(3.0, 18.0, Time),
            Scale::Linear {
                step: 5.0,
                min: 0.0,
                max: 20.0
            }
        );
        assert_eq!(
            Scale::over(1.0, 1.0, Ratio),
            Scale::Linear {
                step: 0.002,
                min: 1.0,
                max: 1.002
            }
        );
        assert_eq!(
            Scale::over(f64::INFINITY, f64::NEG_INFINITY, Time),
            Scale::Linear {
                step: 1.0,
                min: 0.0,
                max: 1.0
            }
        );
        assert!(matches!(
            Scale::over(1.0, 5000.0, Time),
            Scale::Log { base: 10.0, .. }
        ));
        assert!(matches!(
            Scale::over(-1.0, 5.0, Ratio),
            Scale::Linear { .. }
        ));
    }

    #[test]
    fn a_logarithmic_axis_of_times_ends_near_its_data() {
        // 519 µs to 147 ms, in nanoseconds.
        let scale = Scale::over(519e3, 147e6, Quantity::Time);
        let ticks = [5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8];
        assert_eq!(scale.ticks(), ticks);
        let Scale::Log { min, max, .. } = scale else {
            panic!("{scale:?}");
        };
        assert!((4e5..519e3).contains(&min) && (147e6..2e8).contains(&max));
        let scale = Scale::over(519.0, 147e6, Quantity::Time);
        assert_eq!(scale.ticks(), [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]);
        let scale = Scale::over(0.22, 1.1, Quantity::Ratio);
        assert_eq!(scale.ticks(), [0.125, 0.25, 0.5, 1.0, 2.0]);
        let scale = Scale::over(0.96, 1.04, Quantity::Ratio);
        assert_eq!(scale.ticks(), [0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06]);
    }
}
