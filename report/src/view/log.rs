//! What a worker wrote to its standard error, as a page shows it.

/// From so many on, lines like each other are shown by the first and the last.
const LIKE: usize = 4;

/// A log without its colours, and of lines in a row that differ in digits alone (an engine that tells the same
/// of fifty operators, each with its time) the first and the last. The downloads have it as it was written.
pub(crate) fn readable(log: &str) -> String {
    let plain = without_colours(log);
    let lines: Vec<&str> = plain.lines().collect();
    let mut shown = String::with_capacity(plain.len());
    for alike in lines.chunk_by(|one, next| is_like(one, next)) {
        match alike {
            [first, between @ .., last] if alike.len() >= LIKE => {
                let count = between.len();
                let told = format!("… {count} more lines that differ in digits at most");
                push(&mut shown, &[first, told.as_str(), last]);
            }
            _ => push(&mut shown, alike),
        }
    }
    shown
}

/// Without the sequences that set colours alone (`ESC [ … m`): any other may hide text, and stays to be seen.
fn without_colours(log: &str) -> String {
    let mut plain = String::with_capacity(log.len());
    let mut rest = log;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        let end = after.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == ';');
        if let Some(behind) = end.strip_prefix('m') {
            rest = behind;
        } else {
            plain.push_str("\x1b[");
            rest = after;
        }
    }
    plain + rest
}

fn push(shown: &mut String, lines: &[&str]) {
    for line in lines {
        shown.push_str(line);
        shown.push('\n');
    }
}

/// Whether two lines say the same, whatever the numbers in them.
fn is_like(one: &str, other: &str) -> bool {
    fn words(line: &str) -> impl Iterator<Item = &str> {
        let parts = line.split(|character: char| character.is_ascii_digit());
        parts.filter(|part| !part.is_empty())
    }
    !one.trim().is_empty() && words(one).eq(words(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_left_out() {
        assert_eq!(readable("\x1b[1;31mred\x1b[m\nplain"), "red\nplain\n");
        assert_eq!(readable("\x1b[2J\x1b]0;title\n"), "\x1b[2J\x1b]0;title\n");
        assert_eq!(readable("\x1b[\x1b[32mgreen\x1b[0"), "\x1b[green\x1b[0\n");
        assert_eq!(readable(""), "");
    }

    #[test]
    fn of_lines_like_each_other_the_first_and_the_last_are_shown() {
        let log = |lines: usize| {
            let line = |at: usize| format!("09:{at:02}: no plan for operator {}\n", at * 7);
            (0..lines).map(line).collect::<String>()
        };
        assert_eq!(readable(&log(3)), log(3));
        assert!(readable(&log(4)).contains("\n… 2 more lines that"));
        assert_eq!(readable("1\n2\n3\n4\n").lines().count(), 3);
        assert_eq!(
            readable(&format!("start\n{}end\n", log(5))),
            "start\n09:00: no plan for operator 0\n… 3 more lines that differ in digits at most\n\
             09:04: no plan for operator 28\nend\n"
        );
        // Lines that say something else, and empty ones, are all shown.
        assert_eq!(readable("a\nb\nc\nd\ne\n"), "a\nb\nc\nd\ne\n");
        assert_eq!(readable("a\n\n\n\n\nb\n"), "a\n\n\n\n\nb\n");
    }
}
