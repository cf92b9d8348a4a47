//! Lock files: which wheels an engine is installed from.
//!
//! A lock file is a requirements file that pip itself checks (`pip install --require-hashes -r`),
//! for every supported Python at once. Comments above each requirement add what pip does not
//! need and a reader wants to know before a download: each wheel's name and sizes.

mod write;

use schema::Digest;

pub use write::{WriteLock, write};

/// The wheels of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Hash of the file's text, and of its base's where its kit stands on another: part of the
    /// installation's name and of every heat's key.
    pub digest: Digest,
    /// The pinned packages, in the file's order.
    pub pins: Vec<Pin>,
}

/// A package at one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// For example `torch`.
    pub name: String,
    /// For example `2.11.0`.
    pub version: String,
    /// One wheel for all Pythons, or one for each.
    pub wheels: Vec<Wheel>,
}

/// A file of a package index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wheel {
    /// Its name, which says what it runs on.
    pub file: String,
    /// Its size.
    pub download_bytes: u64,
    /// The size of the files in it.
    pub unpacked_bytes: u64,
    /// Its SHA-256.
    pub sha256: Digest,
}

impl Lock {
    /// Reads a lock file's text.
    ///
    /// # Errors
    /// Says the line that is not as [`write()`] makes it, or the package whose comments and
    /// hashes disagree.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut pins: Vec<Pin> = Vec::new();
        let mut wheels: Vec<Wheel> = Vec::new();
        let mut hashes: Vec<Digest> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: &str| format!("line {}: {what}", number + 1);
            let line = line.trim().trim_end_matches('\\').trim_end();
            if let Some(comment) = line.strip_prefix('#') {
                wheels.extend(wheel(comment));
            } else if let Some(hash) = line.strip_prefix("--hash=sha256:") {
                hashes.push(hash.parse().map_err(|_| wrong("not a SHA-256"))?);
            } else if let Some((name, version)) = line.split_once("==") {
                settle(&pins, &mut hashes)?;
                pins.push(Pin {
                    name: name.to_owned(),
                    version: version.to_owned(),
                    wheels: std::mem::take(&mut wheels),
                });
            } else if !line.is_empty() {
                return Err(wrong("neither a comment, a requirement nor a hash"));
            }
        }
        settle(&pins, &mut hashes)?;
        if pins.is_empty() {
            return Err(String::from("it names no package"));
        }
        Ok(Self {
            digest: Digest::of_bytes(text.as_bytes()),
            pins,
        })
    }

    /// The wheels for a Python, one a package.
    ///
    /// # Errors
    /// Names the package that has none for this Python.
    pub fn wheels_for(&self, tag: &str) -> Result<Vec<(&Pin, &Wheel)>, String> {
        self.pins
            .iter()
            .map(|pin| {
                let wheel = pin.wheels.iter().find(|wheel| wheel.fits(tag));
                wheel
                    .map(|wheel| (pin, wheel))
                    .ok_or_else(|| format!("{} {} is not locked for {tag}", pin.name, pin.version))
            })
            .collect()
    }

    /// The most that any Python's wheels take: to download, and unpacked.
    #[must_use]
    pub fn largest_bytes(&self) -> (u64, u64) {
        let largest = |size: fn(&Wheel) -> u64| {
            self.pins
                .iter()
                .map(|pin| pin.wheels.iter().map(size).max().unwrap_or(0))
                .sum()
        };
        (
            largest(|wheel| wheel.download_bytes),
            largest(|wheel| wheel.unpacked_bytes),
        )
    }
}

impl Wheel {
    /// Whether it runs on the CPython of this tag, for example `cp312`.
    #[must_use]
    pub fn fits(&self, tag: &str) -> bool {
        // PyPA specification "Binary distribution format": the parts before the last of
        // `name-version[-build]-python-abi-platform.whl`.
        let mut parts = self.file.rsplit('-').skip(1);
        let (Some(abis), Some(pythons)) = (parts.next(), parts.next()) else {
            return false;
        };
        // CPython's stable interface: what is built for one version runs on all later ones.
        let stable = abis.split('.').any(|abi| abi == "abi3");
        let ours = minor(tag);
        let since = |one: &str| stable && minor(one).zip(ours).is_some_and(|(it, ours)| it <= ours);
        let mut pythons = pythons.split('.');
        pythons.any(|one| one == tag || one == "py3" || since(one))
    }
}

/// The minor version of a tag of CPython 3: 12 for `cp312`.
fn minor(tag: &str) -> Option<u32> {
    tag.strip_prefix("cp3")?.parse().ok()
}

/// A comment that describes a wheel: `file download_bytes unpacked_bytes sha256`.
fn wheel(comment: &str) -> Option<Wheel> {
    let mut words = comment.split_whitespace();
    let file = words
        .next()
        .filter(|file| file.ends_with(".whl") && !file.contains('/'))?;
    Some(Wheel {
        file: file.to_owned(),
        download_bytes: words.next()?.parse().ok()?,
        unpacked_bytes: words.next()?.parse().ok()?,
        sha256: words.next()?.parse().ok()?,
    })
}

/// Checks that the last package's comments name the hashes that pip will ask for.
fn settle(pins: &[Pin], hashes: &mut Vec<Digest>) -> Result<(), String> {
    let hashes = std::mem::take(hashes);
    let Some(pin) = pins.last() else {
        return if hashes.is_empty() {
            Ok(())
        } else {
            Err(String::from("a hash of no package"))
        };
    };
    let described: Vec<_> = pin.wheels.iter().map(|wheel| wheel.sha256).collect();
    if described.is_empty() || described != hashes {
        return Err(format!(
            "the comments and the hashes of {} differ",
            pin.name
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        let (a, b, c) = ("a".repeat(64), "b".repeat(64), "c".repeat(64));
        format!(
            "# Written by a command.\n\n# one-1.0-cp311-cp311-linux_x86_64.whl 10 30 {a}\n\
             # one-1.0-cp312-cp312-linux_x86_64.whl 12 34 {b}\none==1.0 \\\n    \
             --hash=sha256:{a} \\\n    --hash=sha256:{b}\n\n\
             # two-2-py2.py3-none-any.whl 5 6 {c}\ntwo==2 \\\n    --hash=sha256:{c}\n"
        )
    }

    #[test]
    fn each_python_gets_its_wheels() {
        let lock = Lock::parse(&text()).unwrap();
        let files = |tag| -> Vec<_> {
            lock.wheels_for(tag)
                .unwrap()
                .iter()
                .map(|(_, wheel)| wheel.file.clone())
                .collect()
        };
        assert_eq!(
            files("cp312"),
            [
                "one-1.0-cp312-cp312-linux_x86_64.whl",
                "two-2-py2.py3-none-any.whl"
            ]
        );
        assert_eq!(
            lock.wheels_for("cp314").unwrap_err(),
            "one 1.0 is not locked for cp314"
        );
        assert_eq!(lock.largest_bytes(), (17, 40));
    }

    #[test]
    fn a_wheel_of_the_stable_interface_fits_that_python_and_later_ones() {
        let fits = |file: &str, tag| {
            let wheel = Wheel {
                file: file.to_owned(),
                download_bytes: 1,
                unpacked_bytes: 1,
                sha256: Digest::of_bytes(b""),
            };
            wheel.fits(tag)
        };
        let stable = "one-1.0-cp312-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl";
        assert!(!fits(stable, "cp311"));
        assert!(fits(stable, "cp312") && fits(stable, "cp313"));
        let own = "one-1.0-cp311-cp311-manylinux_2_17_x86_64.whl";
        assert!(fits(own, "cp311") && !fits(own, "cp312"));
        assert!(fits("one-1.0-cp36-abi3-linux_x86_64.whl", "cp313"));
        assert!(!fits("abi3-linux_x86_64.whl", "cp313"));
    }

    #[test]
    fn a_comment_that_disagrees_with_pip_is_refused() {
        let hash = format!("--hash=sha256:{}", "b".repeat(64));
        let wrong = text().replace(&hash, &format!("--hash=sha256:{}", "d".repeat(64)));
        assert_eq!(
            Lock::parse(&wrong).unwrap_err(),
            "the comments and the hashes of one differ"
        );
        assert!(Lock::parse("").is_err());
        assert!(Lock::parse("one==1.0\n").is_err());
        assert_eq!(
            Lock::parse("-r other.txt\n").unwrap_err(),
            "line 1: neither a comment, a requirement nor a hash"
        );
    }
}
