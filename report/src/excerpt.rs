//! The part of a manifest that asked for a cell.

use schema::plan::ManifestSource;

/// Longer excerpts are cut: the page of each of thousands of cells carries one.
const LONGEST_LINES: usize = 80;
const LONGEST_BYTES: usize = 8 << 10;

/// The manifest that holds the job, with its place in the list, and the job's part of its text.
pub(crate) fn find<'a>(
    manifests: &'a [ManifestSource],
    job: &str,
) -> Option<(usize, &'a ManifestSource, String)> {
    manifests
        .iter()
        .enumerate()
        .find_map(|(number, manifest)| Some((number, manifest, of_job(&manifest.text, job)?)))
        .map(|(number, manifest, text)| (number, manifest, shorten(&text)))
}

/// The lines before the first job, and those of this job. Works on the text, not on its meaning,
/// so that comments and the author's own layout stay.
fn of_job(text: &str, job: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.iter().position(|line| names(line, job))?;
    let indent = indentation(lines.get(start)?);
    let first = lines
        .iter()
        .position(|line| line.trim_end() == "jobs:")
        .filter(|first| *first < start);
    let begins_item = |line: &&str| {
        indentation(line) <= indent
            && !line.trim().is_empty()
            && !line.trim_start().starts_with('#')
    };
    let length = lines
        .iter()
        .skip(start + 1)
        .take_while(|line| !begins_item(line))
        .count();
    let head = lines.iter().take(first.map_or(0, |first| first + 1));
    let body = lines.iter().skip(start).take(length + 1);
    Some(
        head.chain(body)
            .copied()
            .collect::<Vec<_>>()
            .join("\n")
            .trim_end()
            .to_owned(),
    )
}

/// Whether a line is `- id: <job>`, quoted or not, or `- { id: <job>, …`.
fn names(line: &str, job: &str) -> bool {
    let Some(rest) = line.trim_start().strip_prefix('-') else {
        return false;
    };
    let rest = rest.trim_start().trim_start_matches('{').trim_start();
    let Some(value) = rest.strip_prefix("id:") else {
        return false;
    };
    let value = value.split([',', '}', '#']).next().unwrap_or_default();
    value.trim().trim_matches(['"', '\'']) == job
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn shorten(text: &str) -> String {
    let mut short = String::new();
    for (number, line) in text.lines().enumerate() {
        if number == LONGEST_LINES || short.len() + line.len() > LONGEST_BYTES {
            short.push_str("# … cut here; the whole manifest is among the downloads");
            break;
        }
        short.push_str(line);
        short.push('\n');
    }
    short.truncate(short.trim_end().len());
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version: 1\ntitle: T\njobs:\n  - id: a\n    mode: inference\n\n  # of b\n  - id: \"b\"\n    mode: training\n";

    #[test]
    fn a_job_is_cut_out_with_the_head() {
        assert_eq!(
            of_job(TEXT, "b").unwrap(),
            "version: 1\ntitle: T\njobs:\n  - id: \"b\"\n    mode: training"
        );
        assert!(
            of_job(TEXT, "a")
                .unwrap()
                .ends_with("mode: inference\n\n  # of b")
        );
        assert_eq!(of_job(TEXT, "c"), None);
        assert_eq!(
            of_job("- { id: x, mode: inference }", "x").unwrap(),
            "- { id: x, mode: inference }"
        );
    }

    #[test]
    fn odd_texts_do_no_harm() {
        for text in ["", "-", "- id:", "é\n- id: é", "- id: a\n\t- id: b\r\n"] {
            let _whatever = of_job(text, "a");
        }
        let long = format!("- id: a\n{}", "    x: yyyyyyyy\n".repeat(10_000));
        let manifests = [ManifestSource {
            path: "m".to_owned(),
            text: long,
        }];
        let (_, _, excerpt) = find(&manifests, "a").unwrap();
        assert!(excerpt.len() < 10_000 && excerpt.contains("cut here"));
    }
}
