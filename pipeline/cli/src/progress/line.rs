//! The line of a sweep's progress, for a terminal of any width: first what is measured, then how
//! far everything has come.

use std::iter;

/// A terminal that does not tell its width is taken for one of this width.
pub(super) const USUAL_WIDTH: usize = 80;

/// Fewer characters of a group's name than these tell nothing.
const SHORTEST_GROUP: usize = 8;

/// What the line tells.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    /// The group that is measured.
    pub(super) group: String,
    /// The engine and its variant.
    pub(super) engine: String,
    /// What happens to it.
    pub(super) phase: String,
    /// Which of the group's blocks this is; empty before the first.
    pub(super) block: String,
    /// Blocks that are measured, of all groups.
    pub(super) done: u64,
    /// Blocks of all groups.
    pub(super) of: u64,
    /// Time that is left, in words.
    pub(super) left: String,
}

impl Line {
    /// The line in at most `width` characters, one column left free: some terminals break a line
    /// that fills the last one.
    pub(super) fn fit(&self, width: usize) -> String {
        let counts = format!("{}/{} blocks, {} left", self.done, self.of, self.left);
        let tail = match width {
            100.. => format!("{} {counts}", self.bar(24)),
            72.. => format!("{} {counts}", self.bar(8)),
            _ => counts,
        };
        let width = width.saturating_sub(1);
        let room = width.saturating_sub(tail.chars().count() + 2);
        let what = self.what(room);
        let line = format!("{what:room$}  {tail}");
        line.chars().take(width).collect()
    }

    /// What is measured, as much of it as there is room for. The engine goes last: the groups of
    /// a run follow each other, while engines take turns.
    fn what(&self, room: usize) -> String {
        let Self {
            group,
            engine,
            phase,
            block,
            ..
        } = self;
        if engine.is_empty() {
            return cut(group, room);
        }
        let doing = format!("{engine}: {phase}");
        let fits = |text: &String| text.chars().count() <= room;
        let taken = doing.chars().count() + 1;
        let shortened = match room.saturating_sub(taken) {
            SHORTEST_GROUP.. => format!("{} {doing}", cut(group, room - taken)),
            _ => doing.clone(),
        };
        [
            format!("{group} {doing}{block}"),
            format!("{group} {doing}"),
            shortened,
        ]
        .into_iter()
        .find(fits)
        .unwrap_or_else(|| doing.chars().take(room).collect())
    }

    fn bar(&self, width: u64) -> String {
        let full = self
            .done
            .min(self.of)
            .saturating_mul(width)
            .checked_div(self.of)
            .unwrap_or(width);
        let marks = (0..width).map(|place| match place.cmp(&full) {
            std::cmp::Ordering::Less => '=',
            std::cmp::Ordering::Equal => '>',
            std::cmp::Ordering::Greater => ' ',
        });
        iter::once('[').chain(marks).chain([']']).collect()
    }
}

/// A name in at most `room` characters: its end, which tells groups of a job apart.
fn cut(name: &str, room: usize) -> String {
    let count = name.chars().count();
    if count <= room {
        return name.to_owned();
    }
    let rest = name.chars().skip(count + 1 - room.min(count));
    iter::once('…').chain(rest).take(room).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(group: &str) -> Line {
        Line {
            group: group.to_owned(),
            engine: "other/steady".to_owned(),
            phase: "warming up".to_owned(),
            block: ", block 3 of 8".to_owned(),
            done: 10,
            of: 16,
            left: "63 s".to_owned(),
        }
    }

    #[test]
    fn the_cell_shows_on_every_width() {
        let short = line("small/batch=1");
        assert_eq!(
            short.fit(60),
            "…/batch=1 other/steady: warming up  10/16 blocks, 63 s left"
        );
        assert_eq!(
            short.fit(80),
            "small/batch=1 other/steady: warming up       [=====>  ] 10/16 blocks, 63 s left"
        );
        assert_eq!(
            short.fit(120),
            "small/batch=1 other/steady: warming up, block 3 of 8                 [===============>        ] 10/16 blocks, 63 s left"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_the_engine_stays() {
        let group = "convolutions/resnet50 batch=64 image=224 precision=fp32";
        for width in 0..200 {
            for name in [group, "g", ""] {
                let fitted = line(name).fit(width);
                assert!(fitted.chars().count() <= width, "{width}: {fitted}");
                assert!(width < 60 || fitted.contains("other/steady: warming up"));
            }
        }
        assert!(line(group).fit(80).starts_with('…'));
    }

    #[test]
    fn a_bar_is_empty_at_first_and_full_at_last() {
        let mut line = line("g");
        for (done, of, bar) in [
            (0, 4, "[>   ]"),
            (4, 4, "[====]"),
            (9, 4, "[====]"),
            (0, 0, "[====]"),
        ] {
            (line.done, line.of) = (done, of);
            assert_eq!(line.bar(4), bar);
        }
    }
}
