//! Traces of cells whose rounds took turns for minutes, as `cargo xtask experiment drift` writes them, and
//! what interleaving gains by them.

use schema::tables::Interval;

use crate::{
    interleaving::{self, Block},
    percentile,
};

/// What the name of a cell ends in that is another's twin.
pub const AGAIN: &str = " again";

/// Turns of a stretch: about ten seconds, and a whole block.
const STRETCHES: [usize; 2] = [20, 60];

/// Confidence of the interval of each gain, by itself.
const CONFIDENCE: f64 = 0.95;

/// Median steps in nanoseconds: by block, turn and cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Where it was measured, in words; empty where the text does not say.
    pub place: String,
    cells: Vec<String>,
    blocks: Vec<Vec<Vec<f64>>>,
}

/// By how much interleaving lowers the error of a ratio of two cells of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Gain {
    /// Second and first cell, in words.
    pub of: String,
    /// Turns of the stretches that the ratio was measured over.
    pub turns: usize,
    /// Root mean square error back to back ÷ that interleaved ([`interleaving::gain`]); `None` where the
    /// trace is too short.
    pub gain: Option<Interval>,
    /// Root mean square error interleaved ÷ that by pairs of turns ([`interleaving::gain_of_pairs`]).
    pub pairs: Option<Interval>,
}

impl Trace {
    /// How many blocks it has.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Reads a trace: where it was measured, behind `# `, which may be missing; a line of names, `block,turn,`
    /// first; then for each turn its block, its number and a time for each name.
    ///
    /// # Errors
    /// Names the first line that is none of a trace.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().peekable();
        let place = lines.next_if(|line| line.starts_with("# "));
        let place = place.map_or("", |line| line.trim_start_matches("# "));
        let names = lines
            .next()
            .and_then(|names| names.strip_prefix("block,turn,"));
        let names = names.ok_or("a trace begins with `block,turn,` and the names of its cells")?;
        let cells: Vec<String> = names.split(',').map(str::to_owned).collect();
        let mut blocks: Vec<Vec<Vec<f64>>> = Vec::new();
        let mut last = None;
        for line in lines {
            let mut fields = line.split(',');
            let (block, _turn) = (fields.next(), fields.next());
            let times = fields.map(|time| {
                time.parse()
                    .ok()
                    .filter(|ns: &f64| ns.is_normal() && *ns > 0.0)
            });
            let times: Option<Vec<f64>> = times.collect();
            let times = times.filter(|times| times.len() == cells.len());
            let times = times.ok_or_else(|| format!("no turn of a trace: {line}"))?;
            if last != block {
                blocks.push(Vec::new());
                last = block;
            }
            if let Some(turns) = blocks.last_mut() {
                turns.push(times);
            }
        }
        Ok(Self {
            place: place.to_owned(),
            cells,
            blocks,
        })
    }

    /// The gain of interleaving for every two engines, and for each cell and its twin, over stretches of
    /// both lengths. The true ratio is taken to be the median over the whole trace.
    #[must_use]
    pub fn gains(&self) -> Vec<Gain> {
        let mut gains = Vec::new();
        for (second, name) in self.cells.iter().enumerate() {
            for (first, earlier) in self.cells.iter().enumerate().take(second) {
                let is_twin = name.strip_suffix(AGAIN) == Some(earlier);
                let are_engines = !name.ends_with(AGAIN) && !earlier.ends_with(AGAIN);
                if is_twin || are_engines {
                    let blocks = self.pair(first, second);
                    let logs = blocks.iter().flatten().map(|[one, other]| other - one);
                    let truth = percentile::middle(logs).unwrap_or(0.0);
                    gains.extend(STRETCHES.map(|turns| Gain {
                        of: format!("{name} against {earlier}"),
                        turns,
                        gain: interleaving::gain(&blocks, turns, truth, CONFIDENCE),
                        pairs: interleaving::gain_of_pairs(&blocks, turns, truth, CONFIDENCE),
                    }));
                }
            }
        }
        gains
    }

    /// The logarithms of the times of two cells.
    fn pair(&self, first: usize, second: usize) -> Vec<Block> {
        let log = |cells: &Vec<f64>, at: usize| cells.get(at).map(|ns| libm::log(*ns));
        let pair = |cells: &Vec<f64>| Some([log(cells, first)?, log(cells, second)?]);
        let blocks = self.blocks.iter();
        blocks
            .map(|turns| turns.iter().filter_map(pair).collect())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_block_by_block() {
        let text = "# A machine\nblock,turn,a/b,c/d,a/b again\n0,0,2,2,8\n0,1,5,5,1\n2,0,3,4,5\n";
        let trace = Trace::parse(text).unwrap();
        assert_eq!(trace.place, "A machine");
        assert_eq!(
            trace.blocks.iter().map(Vec::len).collect::<Vec<_>>(),
            [2, 1]
        );
        assert_eq!(trace.blocks[1][0], [3.0, 4.0, 5.0]);
        let gains = trace.gains();
        let of: Vec<_> = gains
            .iter()
            .map(|gain| (gain.of.as_str(), gain.turns))
            .collect();
        let expected = [
            ("c/d against a/b", 20),
            ("c/d against a/b", 60),
            ("a/b again against a/b", 20),
            ("a/b again against a/b", 60),
        ];
        assert_eq!(of, expected);
        assert!(gains.iter().all(|gain| gain.gain.is_none()), "{gains:?}");
    }

    #[test]
    fn what_is_no_trace_is_named() {
        for text in [
            "",
            "a,b\n",
            "block,turn,a\n0,0\n",
            "block,turn,a\n0,0,1,2\n",
            "block,turn,a\n0,0,0\n",
        ] {
            assert!(Trace::parse(text).is_err(), "{text}");
        }
    }

    /// A drift that both cells share, each with a little noise of its own: interleaving cancels it.
    #[test]
    fn a_shared_drift_is_what_is_gained() {
        let mut text = "block,turn,one,two\n".to_owned();
        for block in 0..6 {
            for turn in 0..20 {
                let drift = 1e6 * (1.0 + 0.01 * f64::from(turn));
                let own = f64::from((turn * 7 + block * 3) % 5) * 1e3;
                text.push_str(&format!(
                    "{block},{turn},{},{}\n",
                    drift + own,
                    drift * 1.5 - own
                ));
            }
        }
        let gains = Trace::parse(&text).unwrap().gains();
        let gain = gains[0].gain.unwrap();
        assert!(gain.low.unwrap() > 3.0, "{gain:?}");
        assert_eq!((gains[0].turns, gain.blocks), (20, 6));
        assert_eq!(gains[1].gain, None);
    }
}
