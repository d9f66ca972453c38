// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `diff`, checked.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Error;
use anyhow::Result;

use super::color;
use super::filter::ctrl_instance;
use super::usage;
use crate::cli::diff::DiffArgs;
use nvme_deep::model::untrusted::printable;

/// Smallest change that can be claimed: more than twice the width of a bucket.
const LEAST: f64 = 0.02;

/// Options of `diff`.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffOptions {
    /// Recordings of the first side.
    pub a: Vec<PathBuf>,
    /// Recordings of the second side.
    pub b: Vec<PathBuf>,
    /// Controllers of A and of B to compare; empty: all, by name.
    pub ctrls: BTreeMap<u32, u32>,
    /// Smallest change that is claimed: 0.02 is 2 %.
    pub least: f64,
    /// Fail if something changed.
    pub check: bool,
    /// JSON lines instead of text.
    pub json: bool,
    /// Show all values.
    pub verbose: bool,
    /// Colour the text.
    pub color: bool,
}

fn least(text: &str) -> Result<f64> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let share = number.map(|percent| percent / 100.0);
    share.filter(|s| (LEAST..10.0).contains(s)).ok_or_else(|| {
        usage(format!(
            "`{text}` is not a change that can be looked for: give at least 2%, as in \
             `--min-change 5%`"
        ))
    })
}

/// Parses `nvme0` and `nvme0=nvme1`.
fn pairs(words: &[String]) -> Result<BTreeMap<u32, u32>> {
    let (mut pairs, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for word in words {
        let (a, b) = word.split_once('=').unwrap_or((word, word));
        let (a, b) = (ctrl_instance(a)?, ctrl_instance(b)?);
        if pairs.insert(a, b).is_some() || !taken.insert(b) {
            return Err(usage(format!(
                "`--ctrl {word}`: each controller can be compared with one other only"
            )));
        }
    }
    Ok(pairs)
}

/// Splits a list at its commas. The longest part that is the name of a file is taken whole: a name may
/// contain commas.
fn parts(mut list: &[u8], is_file: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut all = Vec::new();
    loop {
        let commas = (0..list.len()).rev().filter(|at| list[*at] == b',');
        let mut ends = iter::once(list.len()).chain(commas);
        let whole = ends.find(|end| is_file(Path::new(OsStr::from_bytes(&list[..*end]))));
        let end = whole.or_else(|| list.iter().position(|byte| *byte == b','));
        let (part, rest) = list.split_at(end.unwrap_or(list.len()));
        all.push(OsStr::from_bytes(part).into());
        match rest.split_first() {
            Some((_, rest)) => list = rest,
            None => return all,
        }
    }
}

/// Parses the recordings of a side.
fn paths(text: &OsStr) -> Result<Vec<PathBuf>> {
    let paths = parts(text.as_bytes(), &Path::exists);
    let mut seen = BTreeSet::new();
    if let Some(twice) = paths.iter().find(|path| !seen.insert(*path)) {
        return Err(usage(format!(
            "{} is given twice on one side: that adds nothing to it. Give each recording once",
            printable(twice)
        )));
    }
    Ok(paths)
}

impl TryFrom<DiffArgs> for DiffOptions {
    type Error = Error;

    fn try_from(args: DiffArgs) -> Result<Self> {
        let DiffArgs {
            a,
            b,
            ctrl,
            min_change,
            check,
            json,
            verbose,
            color: when,
        } = args;
        Ok(Self {
            a: paths(&a)?,
            b: paths(&b)?,
            ctrls: pairs(&ctrl)?,
            least: least(&min_change)?,
            check,
            json,
            verbose,
            color: color(when, json),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_split_at_commas_that_are_in_no_file_name() {
        let files = ["a", "a,b", "c,d,e", "c"].map(Path::new);
        let split = |list: &str| {
            let all = parts(list.as_bytes(), &|path| files.contains(&path));
            all.iter()
                .map(|p| p.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(split("a,b"), ["a,b"], "the longest name wins");
        assert_eq!(split("a,c"), ["a", "c"]);
        assert_eq!(split("a,b,c,d,e,x,y"), ["a,b", "c,d,e", "x", "y"]);
        assert_eq!(split("x,a"), ["x", "a"]);
        assert_eq!(split("x"), ["x"]);
        assert_eq!(split(",a,"), ["", "a", ""]);
    }
}
