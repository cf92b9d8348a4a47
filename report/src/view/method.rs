//! The page that says how everything is done.

use schema::{
    OutcomeKind, Tables,
    tables::{Judgement, Verdict},
};
use serde::Serialize;
use statistics::coverage::{
    COVERAGE, Coverage, LASTING, Lasting, OF_TWELVE, OfTwelve, ROUNDS, Rounds,
};

use super::{
    chrome::{Chrome, link},
    experiments::Experiments,
};
use crate::{
    error::ReportError,
    units,
    words::{self, Badge},
};

/// The page of the method.
#[derive(Debug, Serialize)]
pub(crate) struct MethodPage {
    chrome: Chrome,
    verdicts: Vec<Meaning>,
    outcomes: Vec<Meaning>,
    judgements: Vec<Meaning>,
    rounds: Vec<OfMachine<RoundsRow>>,
    coverage: Vec<OfMachine<Covered>>,
    of_twelve: Vec<OfTwelveRow>,
    lasting: Vec<LastingRow>,
    experiments: Experiments,
}

/// What is told of a machine that is made up.
#[derive(Debug, Serialize)]
struct OfMachine<T> {
    machine: &'static str,
    rows: Vec<T>,
}

/// By machine, in the order in which each comes first.
fn by_machine<'a, R: 'a, T: From<&'a R>>(
    rows: &'a [R],
    machine: fn(&R) -> &'static str,
) -> Vec<OfMachine<T>> {
    let mut machines: Vec<OfMachine<T>> = Vec::new();
    for row in rows {
        let machine = machine(row);
        match machines.iter_mut().find(|of| of.machine == machine) {
            Some(of) => of.rows.push(row.into()),
            None => machines.push(OfMachine {
                machine,
                rows: vec![row.into()],
            }),
        }
    }
    machines
}

/// What intervals hold, and half their width, by how many rounds a block has.
#[derive(Debug, Serialize)]
struct RoundsRow {
    rounds: u32,
    medians: String,
    medians_half: String,
    pairs: String,
    pairs_half: String,
}

impl From<&Rounds> for RoundsRow {
    fn from(row: &Rounds) -> Self {
        let tenths = |value: f64| units::fixed(value, 1);
        let hundredths = |value: f64| units::fixed(value, 2);
        Self {
            rounds: row.rounds,
            medians: tenths(row.medians),
            medians_half: hundredths(row.medians_half),
            pairs: tenths(row.pairs),
            pairs_half: hundredths(row.pairs_half),
        }
    }
}

/// How often intervals hold the truth, by how far blocks lie apart and by the way in which they are made; in per cent.
#[derive(Debug, Serialize)]
struct Covered {
    apart: String,
    six: String,
    looks: String,
    blocks: String,
    own: String,
    plain_t: String,
    bootstrap: String,
}

impl From<&Coverage> for Covered {
    fn from(row: &Coverage) -> Self {
        let tenths = |value: f64| units::fixed(value, 1);
        Self {
            apart: match row.apart_s {
                ..1.0 => "at once".to_owned(),
                apart_s => format!("{apart_s} s apart"),
            },
            six: tenths(row.six),
            looks: tenths(row.looks),
            blocks: tenths(row.blocks),
            own: tenths(row.own),
            plain_t: tenths(row.plain_t),
            bootstrap: tenths(row.bootstrap),
        }
    }
}

/// The same of twelve comparisons together.
#[derive(Debug, Serialize)]
struct OfTwelveRow {
    machine: &'static str,
    plain: String,
    six: String,
    wider: String,
    twelve: String,
}

impl From<&OfTwelve> for OfTwelveRow {
    fn from(row: &OfTwelve) -> Self {
        Self {
            machine: row.machine,
            plain: units::fixed(row.plain, 1),
            six: units::fixed(row.six, 1),
            wider: units::fixed(row.wider, 2),
            twelve: units::fixed(row.twelve, 1),
        }
    }
}

/// What intervals hold by how long a mood lasts.
#[derive(Debug, Serialize)]
struct LastingRow {
    mood: String,
    six: String,
    looks: String,
    six_minute: String,
    family_of_six: String,
    family_of_twelve: String,
}

impl From<&Lasting> for LastingRow {
    fn from(row: &Lasting) -> Self {
        let percent = |share: f64| units::fixed(share, 1);
        Self {
            mood: units::span((row.mood_s * 1e9) as u64),
            six: percent(row.six),
            looks: percent(row.looks),
            six_minute: percent(row.six_minute),
            family_of_six: percent(row.family_of_six),
            family_of_twelve: percent(row.family_of_twelve),
        }
    }
}

/// A word and what it means.
#[derive(Debug, Serialize)]
struct Meaning {
    badge: Badge,
    meaning: &'static str,
}

impl MethodPage {
    /// # Errors
    /// When what experiments found cannot be told.
    pub(crate) fn new(tables: &Tables) -> Result<Self, ReportError> {
        let verdict = |verdict, meaning| Meaning {
            badge: words::verdict(verdict),
            meaning,
        };
        let judgement = |judgement, meaning| Meaning {
            badge: words::judgement(judgement),
            meaning,
        };
        let experiments = Experiments::read().map_err(|message| ReportError::Template {
            page: "method.html".to_owned(),
            message,
        })?;
        Ok(Self {
            chrome: Chrome::new(tables, "", "method", "Method")
                .with_crumbs(vec![link("Overview", "index.html")]),
            verdicts: vec![
                verdict(
                    Verdict::Faster,
                    "The whole interval lies below one, beyond the margin and beyond the machine's own noise.",
                ),
                verdict(
                    Verdict::Slower,
                    "The whole interval lies above one, beyond the margin and beyond the machine's own noise.",
                ),
                verdict(
                    Verdict::Same,
                    "The whole interval lies inside the margin, and so does the machine's own noise: whatever difference there is, it is not worth acting on.",
                ),
                verdict(
                    Verdict::Unclear,
                    "Neither of these: the picture is not sharp enough. More blocks or a quieter machine may settle it.",
                ),
                verdict(
                    Verdict::NotMeasured,
                    "One of the two has no speed, so there is nothing to compare; its outcome says why.",
                ),
            ],
            rounds: by_machine(&ROUNDS, |row| row.machine),
            coverage: by_machine(&COVERAGE, |row| row.machine),
            of_twelve: OF_TWELVE.iter().map(Into::into).collect(),
            lasting: LASTING.iter().map(Into::into).collect(),
            experiments,
            outcomes: OutcomeKind::ALL
                .iter()
                .map(|kind| Meaning {
                    badge: words::outcome(*kind),
                    meaning: words::outcome_meaning(*kind),
                })
                .collect(),
            judgements: vec![
                judgement(
                    Judgement::Confirmed,
                    "Every pair, or cell, that the claim speaks of and that could be measured agrees with it, or more than half of them where it is about most of them; the reason counts those that could not.",
                ),
                judgement(
                    Judgement::Contradicted,
                    "One of them says the opposite; where the claim is about most of them, half of them do.",
                ),
                judgement(
                    Judgement::Unclear,
                    "They neither agree with it nor say the opposite.",
                ),
                judgement(
                    Judgement::NotMeasurableHere,
                    "None of what it speaks of could be measured on this machine.",
                ),
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        template::Templates,
        view::{experiments, invented_tables},
    };

    #[test]
    fn experiments_are_told_where_some_were_made() {
        let tables = invented_tables();
        let mut page = MethodPage::new(&tables).unwrap();
        page.experiments = experiments::tests::made();
        let html = Templates::new()
            .unwrap()
            .render("method.html", &page)
            .unwrap();
        for told in [
            "A worker against itself</th><td class=\"number\">4</td><td class=\"number\">2<br>",
            "5 % longer</th><td class=\"number\">4</td><td class=\"number\">1<br>",
            "One (3, revision abc, def); Other (1, revision def)</td>",
            "The quickstart was run 4 times",
            "Of its 1 comparisons, 0 turned",
            "BERT-tiny, inference<br>",
            "All launches of ours took 3 min; those of the fixed design take 8 min 10 s, if",
            "6 min 40 s",
            "30 min",
            "training: batch 8, model resnet18</th><td class=\"number\">1.01 %</td>\
             <td class=\"number\">12</td><td class=\"number\">2 min</td>\
             <td class=\"number\">40<br><span class=\"range\">16 and more</span></td><td class=\"number\">6 min 40 s</td>",
            "too short to tell",
            "<td class=\"number\">69.4</td><td class=\"number\">98.5</td>",
            "<td class=\"number\">19.52 %</td><td class=\"number\">95.3</td><td class=\"number\">1.82 %</td>",
        ] {
            assert!(html.contains(told), "{told}");
        }
    }
}
