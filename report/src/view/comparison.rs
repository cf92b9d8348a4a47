//! A family of verdicts: sentences, rows, tally and chart.

use schema::{
    Measure,
    printed::{self, Bounds},
    tables::{
        ComparisonRow, ComparisonTable, FirstPayback, FirstSteps, Interval, JobTable, Payback,
        Verdict,
    },
};
use serde::Serialize;

use super::{parity::share_of_bound, scaling, setting::Settings};
use crate::{
    curve,
    ids::Index,
    interval::{self, Estimate},
    lines::Plot,
    marks::{Mark, Marks},
    picture::Picture,
    units,
    words::{self, Badge},
};

/// A value of the compared axis.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) mark: Mark,
}

/// A family of verdicts.
#[derive(Debug, Serialize)]
pub(crate) struct Family {
    /// Unique on a page.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) baseline: Contender,
    pub(crate) contenders: Vec<Contender>,
    /// What all pairs share; may be empty.
    pub(crate) shared: String,
    pub(crate) confidence: String,
    pub(crate) summaries: Vec<Summary>,
    pub(crate) rows: Vec<Row>,
    pub(crate) break_evens: Vec<Even>,
    pub(crate) picture: Option<Picture>,
    /// Ratios over the axis, where it is one of numbers; that of workers has a plot of its own.
    pub(crate) curve: Option<Plot>,
    /// The axis.
    pub(crate) axis: String,
}

/// What a contender's verdicts come to, in a sentence.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) contender: Contender,
    /// The verdict of most pairs.
    pub(crate) badge: Badge,
    /// For example `faster in 5 of 6 settings`.
    pub(crate) headline: String,
    /// For example `with intervals from 0.20× to 0.55×`; holds for all those pairs together.
    pub(crate) range: String,
    /// Whether there are ratios, and too few blocks to bound them.
    pub(crate) unbounded: bool,
    /// The other verdicts, for example `1 too close to call`.
    pub(crate) others: String,
}

/// A pair.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    pub(crate) setting: String,
    pub(crate) contender: Contender,
    pub(crate) badge: Badge,
    pub(crate) ratio: Option<Estimate>,
    /// To sort by.
    pub(crate) centre: Option<f64>,
    pub(crate) glyph: Option<Glyph>,
    pub(crate) reason: String,
    pub(crate) parity: String,
    /// The errors of the contender and of the baseline, each beside its bound.
    pub(crate) agreement: Option<String>,
    pub(crate) parity_value: Option<f64>,
    /// In int8, for example `3 of 4 rows`.
    pub(crate) top1: Option<String>,
    /// Whether it is computed in int8, or its baseline.
    pub(crate) is_int8: bool,
    pub(crate) floor: String,
    /// When it has paid for getting ready, for example `with warm caches ahead at once`.
    pub(crate) payback: Option<String>,
    /// The same of its first start.
    pub(crate) first_payback: Option<String>,
    /// Names of the cells' pages, below the folder of the job's cells; absent where there are none.
    pub(crate) cell: Option<String>,
    pub(crate) baseline_cell: Option<String>,
}

/// Two contenders of which one is ahead in the long run, and ready later.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Even {
    pub(crate) setting: String,
    pub(crate) early: Contender,
    pub(crate) late: Contender,
    /// With warm caches, for example `1,200 [1,100, 1,300]`.
    pub(crate) steps: String,
    /// To sort by.
    pub(crate) centre: Option<f64>,
    /// From the first start, for example `3,400, cold`.
    pub(crate) first: String,
    pub(crate) first_centre: Option<f64>,
}

/// An interval drawn small, in a box of 120 × 14.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Glyph {
    pub(crate) low: f64,
    pub(crate) centre: f64,
    pub(crate) high: f64,
    /// Where the ratio 1 stands.
    pub(crate) one: f64,
    pub(crate) open_low: bool,
    pub(crate) open_high: bool,
}

impl Family {
    pub(crate) fn new(
        index: &Index<'_>,
        marks: &Marks,
        job: &JobTable,
        number: usize,
        table: &ComparisonTable,
    ) -> Self {
        let settings = Settings::of(
            table.rows.iter().map(|row| &row.coordinates),
            &job.axes,
            &table.axis,
        );
        let contender = |value: &str| Contender {
            name: words::value(&table.axis, value),
            mark: marks.of(&table.axis, value),
        };
        let scale = GlyphScale::over(&table.rows);
        let rows: Vec<Row> = table
            .rows
            .iter()
            .map(|row| {
                let parity = |id| {
                    index
                        .cell(&job.id, id)
                        .and_then(|cell| cell.parity.as_ref())
                };
                let page =
                    |id: &schema::CellId| index.cell(&job.id, id).map(|cell| cell.id.0.clone());
                let (own, base) = (parity(&row.contender), parity(&row.baseline));
                let error = own.map(|own| own.error);
                let told = |found: &schema::record::Parity| {
                    let error = units::error(found.error);
                    let share = share_of_bound(found.worst_share);
                    let top1 = found.top1.map(words::top1);
                    let top1 = top1.map(|top1| format!(", top-1 in {top1}"));
                    format!("{error}, {share}{}", top1.unwrap_or_default())
                };
                let held = row
                    .ratio
                    .as_ref()
                    .map(|ratio| interval::held(ratio, bounds(job, row)));
                let (ratio, floor) = held.map_or_else(
                    || (None, row.floor.map(units::floor)),
                    |(ratio, floor)| (Some(ratio), floor),
                );
                Row {
                    setting: settings.label(&row.coordinates),
                    contender: contender(&row.value),
                    badge: words::verdict(row.verdict),
                    ratio,
                    centre: row
                        .ratio
                        .map(|ratio| ratio.centre)
                        .filter(|centre| centre.is_finite()),
                    glyph: row.ratio.as_ref().and_then(|ratio| scale.place(ratio)),
                    reason: row.reason.clone(),
                    parity: error.map_or_else(|| units::NOTHING.to_owned(), units::error),
                    agreement: own.map(|own| {
                        let base = base.map(|base| format!("; baseline {}", told(base)));
                        told(own) + &base.unwrap_or_default()
                    }),
                    parity_value: error.filter(|error| error.is_finite()),
                    top1: own.and_then(|own| own.top1).map(words::top1),
                    is_int8: [own, base]
                        .into_iter()
                        .flatten()
                        .any(|it| it.top1.is_some()),
                    floor: floor.unwrap_or_else(|| units::NOTHING.to_owned()),
                    payback: row
                        .payback
                        .as_ref()
                        .map(|payback| paid(payback, row.without_calibration)),
                    first_payback: row.first_payback.as_ref().map(first_payback),
                    cell: page(&row.contender),
                    baseline_cell: page(&row.baseline),
                }
            })
            .collect();
        let evens = table.break_evens.iter().map(|even| Even {
            setting: settings.label(&even.coordinates),
            early: contender(&even.early),
            late: contender(&even.late),
            steps: format!(
                "{}{}",
                uncalibrated(even.without_calibration),
                steps_of(&even.warm)
            ),
            centre: match &even.warm {
                Payback::AtOnce => Some(0.0),
                Payback::After(steps) => Some(steps.centre).filter(|centre| centre.is_finite()),
                Payback::Until(_) | Payback::Never | Payback::Unclear => None,
            },
            first: even
                .first
                .as_ref()
                .map_or_else(|| units::NOTHING.to_owned(), first_steps),
            first_centre: even.first.as_ref().and_then(|first| match first.payback {
                FirstSteps::AtOnce => Some(0.0),
                FirstSteps::After(steps) => Some(steps).filter(|steps| steps.is_finite()),
                FirstSteps::Until(_) | FirstSteps::Never => None,
            }),
        });
        let values = distinct(table.rows.iter().map(|row| row.value.as_str()));
        let contenders: Vec<Contender> = values.iter().map(|value| contender(value)).collect();
        let baseline = contender(&table.baseline);
        let named = rows.iter().map(|row| row.setting.as_str());
        let curve = match table.axis == scaling::AXIS {
            true => None,
            false => curve::draw(table, named),
        };
        Self {
            id: format!("{}-{}", job.id, number + 1),
            title: title(&table.axis, &contenders, &baseline),
            shared: settings.shared(),
            confidence: confidence(table, job),
            summaries: values
                .iter()
                .filter_map(|value| summary(table, value, contender(value), job.measure.margin))
                .collect(),
            rows,
            break_evens: evens.collect(),
            picture: None,
            curve,
            axis: table.axis.clone(),
            baseline,
            contenders,
        }
    }
}

/// What a pair's interval was held against.
pub(crate) fn bounds(job: &JobTable, row: &ComparisonRow) -> Bounds {
    Bounds {
        margin: job.measure.margin,
        floor: row.floor,
    }
}

fn paid(payback: &Payback, without_calibration: bool) -> String {
    let told = match payback {
        Payback::AtOnce => "ahead at once".to_owned(),
        Payback::Never => "never ahead".to_owned(),
        Payback::Unclear => "too close to call".to_owned(),
        Payback::After(after) => format!("ahead after {} steps", steps(after)),
        Payback::Until(until) => format!("ahead for {} steps", steps(until)),
    };
    format!(
        "{}with warm caches {told}",
        uncalibrated(without_calibration)
    )
}

/// Words before those of what calibration is left out of.
const fn uncalibrated(without_calibration: bool) -> &'static str {
    match without_calibration {
        true => "calibration left out, ",
        false => "",
    }
}

/// Of one launch of each, which has no interval.
fn first_payback(first: &FirstPayback) -> String {
    let told = match first.payback {
        FirstSteps::AtOnce => "ahead at once".to_owned(),
        FirstSteps::Never => "never ahead".to_owned(),
        FirstSteps::After(after) => format!("ahead after {} steps", once(after)),
        FirstSteps::Until(until) => format!("ahead for {} steps", once(until)),
    };
    let cold = if first.is_cold { ", cold," } else { "" };
    format!("from the first start{cold} {told}")
}

/// The steps after which what is ahead in the long run is.
fn steps_of(payback: &Payback) -> String {
    match payback {
        Payback::AtOnce => "at once".to_owned(),
        Payback::After(after) => steps(after),
        Payback::Until(_) | Payback::Never | Payback::Unclear => "too close to call".to_owned(),
    }
}

/// The same from the first start.
fn first_steps(first: &FirstPayback) -> String {
    let told = match first.payback {
        FirstSteps::AtOnce => "at once".to_owned(),
        FirstSteps::After(after) => once(after),
        FirstSteps::Until(_) | FirstSteps::Never => units::NOTHING.to_owned(),
    };
    told + if first.is_cold { ", cold" } else { "" }
}

/// A number of steps of one launch, with the digits of others.
fn once(steps: f64) -> String {
    let alone = Interval {
        low: None,
        centre: steps,
        high: None,
        blocks: 1,
        confidence: 0.0,
    };
    let printed = printed::scaled(&alone, 1.0, 2, &[]);
    printed.centre.unwrap_or_else(|| units::NOTHING.to_owned())
}

/// A number of steps, with its interval.
fn steps(steps: &Interval) -> String {
    let printed = printed::scaled(steps, 1.0, 2, &[]);
    let centre = printed.centre.unwrap_or_else(|| units::NOTHING.to_owned());
    format!("{centre} {}", printed.range)
}

fn title(axis: &str, contenders: &[Contender], baseline: &Contender) -> String {
    match contenders {
        [one] => format!("{} against {}", one.name, baseline.name),
        _ => format!("Every {axis} against {}", baseline.name),
    }
}

fn confidence(table: &ComparisonTable, job: &JobTable) -> String {
    let measure = &job.measure;
    let looks = whichever_look(measure);
    let (together, each) = (
        units::chosen(measure.confidence),
        units::confidence(table.confidence_each),
    );
    if table.family == 1 {
        return match looks.as_str() {
            "" => format!("One verdict, at {each} confidence"),
            _ => format!("One verdict at {together} confidence{looks}: an interval at {each}"),
        };
    }
    // Pairs that no table has are those of which claims speak.
    let shown: usize = job.comparisons.iter().map(|it| it.rows.len()).sum();
    let of_claims = match u64::from(table.family).saturating_sub(shown as u64) {
        0 => String::new(),
        pairs => format!(
            ", {} of them of pairs in claims alone,",
            units::count(pairs)
        ),
    };
    format!(
        "{} verdicts drawn together{of_claims} at {together} confidence{looks}: each interval at {each}",
        table.family
    )
}

/// That what is said holds at every look, in words that follow a confidence; empty where there is but one.
pub(super) fn whichever_look(measure: &Measure) -> String {
    match measure.looks().len() {
        0 | 1 => String::new(),
        looks => format!(", whichever of {looks} looks ended the measuring"),
    }
}

/// Each value once, in the order of their first appearance.
pub(super) fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = std::collections::BTreeSet::new();
    values.filter(|value| seen.insert(*value)).collect()
}

/// The order in which a tally is told.
const TOLD: &[Verdict] = &[
    Verdict::Faster,
    Verdict::Slower,
    Verdict::Same,
    Verdict::Unclear,
    Verdict::NotMeasured,
];

fn summary(
    table: &ComparisonTable,
    value: &str,
    contender: Contender,
    margin: f64,
) -> Option<Summary> {
    let rows: Vec<&ComparisonRow> = table.rows.iter().filter(|row| row.value == value).collect();
    let count = |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    // The earliest of equals: `max_by_key` would take the last.
    let most = TOLD
        .iter()
        .copied()
        .rev()
        .max_by_key(|verdict| count(*verdict))?;
    let led = rows.iter().filter(|row| row.verdict == most);
    let ratios: Vec<_> = led
        .filter_map(|row| {
            let floor = row.floor;
            Some((row.ratio.as_ref()?, Bounds { margin, floor }))
        })
        .collect();
    let range = interval::reach(&ratios).unwrap_or_default();
    let total = rows.len();
    let others: Vec<String> = TOLD
        .iter()
        .filter(|verdict| **verdict != most && count(**verdict) > 0)
        .map(|verdict| format!("{} {}", count(*verdict), words::verdict(*verdict).word))
        .collect();
    let badge = words::verdict(most);
    let headline = match total {
        1 => badge.word.to_owned(),
        _ => format!("{} in {} of {total} settings", badge.word, count(most)),
    };
    Some(Summary {
        contender,
        badge,
        headline,
        unbounded: !ratios.is_empty() && range.is_empty(),
        range,
        others: others.join(", "),
    })
}

/// The common scale of a family's small drawings: the logarithm of the ratio.
#[derive(Debug, Clone, Copy)]
struct GlyphScale {
    low: f64,
    high: f64,
}

impl GlyphScale {
    fn over(rows: &[ComparisonRow]) -> Self {
        let ends = rows
            .iter()
            .filter_map(|row| row.ratio)
            .flat_map(|ratio| [ratio.low, Some(ratio.centre), ratio.high]);
        let (mut low, mut high) = (-0.05_f64, 0.05_f64);
        for end in ends.flatten().map(f64::ln).filter(|end| end.is_finite()) {
            low = low.min(end);
            high = high.max(end);
        }
        Self { low, high }
    }

    fn place(self, ratio: &Interval) -> Option<Glyph> {
        let x = |value: f64| {
            let share = (value.ln() - self.low) / (self.high - self.low);
            share
                .is_finite()
                .then(|| (60.0 + 1080.0 * share.clamp(0.0, 1.0)).round() / 10.0)
        };
        let low = ratio.low.and_then(x);
        let high = ratio.high.and_then(x);
        Some(Glyph {
            low: low.unwrap_or(0.0),
            centre: x(ratio.centre)?,
            high: high.unwrap_or(120.0),
            one: x(1.0)?,
            open_low: low.is_none(),
            open_high: high.is_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schema::CellId;

    use super::*;

    fn row(verdict: Verdict, ratio: Option<(f64, f64, f64)>) -> ComparisonRow {
        ComparisonRow {
            coordinates: BTreeMap::new(),
            baseline: CellId("a".to_owned()),
            contender: CellId("b".to_owned()),
            value: "v".to_owned(),
            ratio: ratio.map(|(low, centre, high)| Interval {
                low: Some(low),
                centre,
                high: Some(high),
                blocks: 6,
                confidence: 0.99,
            }),
            is_widened: false,
            floor: None,
            verdict,
            reason: String::new(),
            payback: None,
            first_payback: None,
            without_calibration: false,
        }
    }

    fn summarised(rows: Vec<ComparisonRow>) -> (String, String, String) {
        let table = ComparisonTable {
            break_evens: Vec::new(),
            axis: "engine".to_owned(),
            baseline: "w".to_owned(),
            family: 1,
            confidence_each: 0.95,
            rows,
        };
        let contender = Contender {
            name: "V".to_owned(),
            mark: Mark::default(),
        };
        let summary = summary(&table, "v", contender, 0.05).unwrap();
        (summary.headline, summary.range, summary.others)
    }

    #[test]
    fn a_summary_speaks_only_of_what_its_intervals_bound() {
        let rows = vec![
            row(Verdict::Faster, Some((0.5, 0.53, 0.56))),
            row(Verdict::Faster, Some((0.2, 0.22, 0.25))),
            row(Verdict::Unclear, Some((0.9, 1.0, 1.2))),
            row(Verdict::NotMeasured, None),
        ];
        let (headline, range, others) = summarised(rows);
        assert_eq!(headline, "faster in 2 of 4 settings");
        assert_eq!(range, "with intervals from 0.20× to 0.56×");
        assert_eq!(others, "1 too close to call, 1 not measured");
    }

    #[test]
    fn nothing_measured_has_no_range() {
        let (headline, range, others) = summarised(vec![row(Verdict::NotMeasured, None)]);
        assert_eq!(
            (headline.as_str(), range.as_str(), others.as_str()),
            ("not measured", "", "")
        );
    }

    #[test]
    fn glyphs_stay_in_their_box() {
        let rows = [
            row(Verdict::Faster, Some((0.0, 0.5, f64::INFINITY))),
            row(Verdict::Same, Some((0.9, 1.0, 1.1))),
        ];
        let scale = GlyphScale::over(&rows);
        for row in &rows {
            let glyph = scale.place(row.ratio.as_ref().unwrap()).unwrap();
            for x in [glyph.low, glyph.centre, glyph.high, glyph.one] {
                assert!((0.0..=120.0).contains(&x), "{glyph:?}");
            }
        }
    }
}
