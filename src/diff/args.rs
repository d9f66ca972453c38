// SPDX-License-Identifier: MIT OR Apache-2.0
//! `diff`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::model::text::printable;
use anyhow::Result;

use crate::run::args::common::{ColorArg, JSON, JSON_LONG, WITH_FILTERS};
use crate::run::args::filter::{FilterArgs, ctrl_instance};
use crate::run::exit::usage;

const EXAMPLES: &str = "\
Examples:
  nvme-deep diff before.nvd after.nvd
      What became slower or faster, by stage
  nvme-deep diff a1.nvd,a2.nvd,a3.nvd b1.nvd,b2.nvd,b3.nvd --check
      Several recordings a side; exit code 3 if something changed
  nvme-deep diff one.nvd one.nvd --map nvme0=nvme1
      Two controllers of one recording";

/// Smallest change that can be claimed: more than twice the width of a bucket.
const LEAST: f64 = 0.02;

/// `diff`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct DiffArgs {
    /// The recording before the change (see `record`)
    ///
    /// Or several, separated by commas. A name that contains a comma is taken whole if there is such a
    /// file.
    #[arg(value_name = "A")]
    pub a: OsString,

    /// The recording after the change, or several
    #[arg(value_name = "B")]
    pub b: OsString,

    /// Compare nvme0 of A with nvme1 of B (`nvme0=nvme1`), and no other controllers
    #[arg(long, value_name = "CTRL=CTRL", value_delimiter = ',', value_parser = pair, conflicts_with_all = ["ctrl", "disk"])]
    pub map: Vec<(u32, u32)>,

    /// Report no change smaller than this
    ///
    /// In percent of the total (of a row, if that is longer). The minimum is 2%.
    #[arg(long, value_name = "PERCENT", default_value = "2%", value_parser = least)]
    pub min_change: f64,

    /// End with exit code 3 if something changed
    ///
    /// With 1 if there were too few commands for any comparison.
    #[arg(long)]
    pub check: bool,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    /// Show all rows, also those that are the same or have too few commands
    #[arg(long, short)]
    pub verbose: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,

    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Parses a change: 0.02 is 2 %.
fn least(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let share = number.map(|percent| percent / 100.0);
    share.filter(|s| (LEAST..10.0).contains(s)).ok_or_else(|| {
        format!(
            "`{text}` is not a change that can be looked for: give at least 2%, as in \
             `--min-change 5%`"
        )
    })
}

/// Parses `nvme0=nvme1`.
fn pair(text: &str) -> Result<(u32, u32), String> {
    let both = text.split_once('=');
    let (a, b) = both.ok_or("give a controller of A and one of B, as in `--map nvme0=nvme1`")?;
    Ok((ctrl_instance(a)?, ctrl_instance(b)?))
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

impl DiffArgs {
    /// The recordings of both sides.
    ///
    /// # Errors
    /// If a side has one twice.
    pub fn sides(&self) -> Result<[Vec<PathBuf>; 2]> {
        Ok([paths(&self.a)?, paths(&self.b)?])
    }

    /// Controllers of A, each with the one of B to compare it with; empty: all, by name.
    ///
    /// # Errors
    /// If one is to be compared with several.
    pub fn map(&self) -> Result<BTreeMap<u32, u32>> {
        let (mut pairs, mut taken) = (BTreeMap::new(), BTreeSet::new());
        for &(a, b) in &self.map {
            if pairs.insert(a, b).is_some() || !taken.insert(b) {
                return Err(usage(format!(
                    "--map nvme{a}=nvme{b}: each controller can be compared with one other only"
                )));
            }
        }
        Ok(pairs)
    }
}
