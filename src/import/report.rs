// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an import has read, and what its text lacks.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use serde::{Serialize, Serializer};

use super::lines::{Skipped, Unread};
use crate::model::histogram::Histogram;
use crate::model::ledger::{Ledger, TraceLedger};
use crate::model::machine::{ControllerInfo, DiskInfo};
use crate::model::stage::StageSet;
use crate::model::target::TargetInfo;
use crate::model::text::Text;
use crate::units::{counted, nanos};
use crate::view::header::entry_at;
use crate::view::json::{Dist, dist, typed_line};
use crate::view::table::{Table, WIDE};
use crate::view::text::times;
use crate::view::theme::Theme;

/// Column of the texts.
const COLUMN: usize = 12;

/// The disks of a controller by namespace: name, and bytes of a block or 0.
type Disks = BTreeMap<u32, (String, u32)>;

/// What a text has, and what it lacks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// What the text is.
    pub format: &'static str,
    /// What it has: `command`, `request`, `doorbell write`.
    #[serde(skip)]
    pub what: &'static str,
    /// What was read, and what was not.
    pub ledger: Ledger,
    /// Resolution of the times; zero: there are none.
    pub resolution_ns: u64,
    /// What the text lacks, and what follows from that; a sentence each.
    pub lacks: Vec<String>,
    /// The lines that give nothing.
    #[serde(flatten)]
    pub skipped: Skipped,
    /// What is measured other than commands: states of objects, doorbells.
    #[serde(serialize_with = "to_json", skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<(Text, Histogram)>,
    /// Times of the first and the last event.
    #[serde(skip)]
    pub span: Option<(u64, u64)>,
    /// The stages of the commands.
    #[serde(skip)]
    pub stage_set: StageSet,
    /// Whether it has the events of CQEs.
    #[serde(skip)]
    pub has_sq: bool,
    /// The target whose commands they are; `None`: the driver's.
    #[serde(skip)]
    pub target: Option<TargetInfo>,
    /// The disks, by controller.
    #[serde(skip)]
    pub disks: BTreeMap<u32, Disks>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a Text,
    #[serde(flatten)]
    dist: Dist,
}

fn to_json<S: Serializer>(rows: &[(Text, Histogram)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(rows.iter().map(|(name, h)| Row { name, dist: dist(h, false) }))
}

impl Report {
    /// A report of what was read and of the lines that were not, without the rest.
    pub fn new(
        format: &'static str,
        what: &'static str,
        mut ledger: Ledger,
        skipped: Skipped,
    ) -> Self {
        ledger.not_read(skipped.malformed);
        Self { format, what, ledger, skipped, ..Self::default() }
    }

    /// The controllers and disks.
    pub fn controllers(&self) -> Vec<ControllerInfo> {
        let disk = |(nsid, (name, lba_bytes)): (&u32, &(String, u32))| DiskInfo {
            name: name.as_str().into(),
            nsid: *nsid,
            lba_bytes: *lba_bytes,
            csi: 0,
        };
        let controller = |(&instance, disks): (&u32, &Disks)| ControllerInfo {
            instance,
            disks: disks.iter().map(disk).collect(),
            ..ControllerInfo::default()
        };
        self.disks.iter().map(controller).collect()
    }

    /// Writes it.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        if json {
            return typed_line("import", self, out);
        }
        let Self { format, ledger, resolution_ns, lacks, rows, .. } = self;
        let Skipped { other, unread, .. } = &self.skipped;
        let mut table = Table::default();
        for (name, h) in rows {
            let mut cells = vec![("<OF", name.to_string()), ("N", h.count().to_string())];
            cells.extend(times(h, false, false));
            table.row(cells);
        }
        table.write(Theme { color: false }, WIDE, out)?;
        let mut entry = |label: &str, text: &str| entry_at(COLUMN, label, text, out);
        entry("format", format)?;
        let mut text = counted(ledger.matched, self.what);
        let lost = ledger.trace.as_ref().map_or(0, TraceLedger::lost);
        for (count, what, how) in [
            (ledger.in_flight, "start", " without an end before the text ends"),
            (ledger.orphan_completions, "end", " without a start"),
            (ledger.overwritten + ledger.untracked, "start", " without an end"),
            (lost, "event", " lost before the text was written"),
        ] {
            if count > 0 {
                text += &format!(", {}{how}", counted(count, what));
            }
        }
        entry("read", &text)?;
        if *other > 0 {
            entry("not needed", &format!("{} about something else", counted(*other, "event")))?;
        }
        match resolution_ns {
            0 => entry("times", "none: only the order of the lines")?,
            ns => entry("times", &format!("to {}", nanos(*ns as f64)))?,
        }
        for (n, lack) in lacks.iter().enumerate() {
            entry(if n == 0 { "lacks" } else { "" }, lack)?;
        }
        for (n, Unread { kind, count, line, first }) in unread.iter().enumerate() {
            let text = format!("{} of {kind}; line {line}: {first}", counted(*count, "line"));
            entry(if n == 0 { "not read" } else { "" }, &text)?;
        }
        Ok(())
    }
}
