// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `diff`, checked.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
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

/// Parses the recordings of a side.
fn paths(text: &OsStr) -> Result<Vec<PathBuf>> {
    let words = text.as_bytes().split(|byte| *byte == b',');
    let paths: Vec<PathBuf> = words.map(|w| OsStr::from_bytes(w).into()).collect();
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
