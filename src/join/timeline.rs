// SPDX-License-Identifier: MIT OR Apache-2.0
//! Both machines on one time line: the guest's recording as `export --format perfetto` writes it, and
//! the commands of the host side with their times on the guest's clock.

use std::collections::BTreeMap;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use crate::join::clock::Offset;
use crate::join::matching::Join;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::run::exit::usage;
use crate::settings::{Events, Mode};
use crate::units::{nanos, size_text};
use crate::view::export::Sink;
use crate::view::export::perfetto::Perfetto;
use anyhow::Result;

use crate::join::Joined;
use crate::model::target::{Served, name_of};
use crate::run::drive::FileReader;
use crate::run::eprint_note;
use crate::run::exporting::{Counts, add, begins};
use crate::run::outfile::{OutFile, Rules};

/// Length of the intervals of the completion rates, as in `export`.
const INTERVAL: Duration = Duration::from_millis(100);

/// The commands of the host side, by their ends on the guest's clock, with what to add to their times to get
/// the guest's. One without a partner has the offset of the one before it.
fn on_host<'j>(join: &'j Join, offset: &Offset) -> Vec<(&'j Served, i64)> {
    let partners: BTreeMap<usize, usize> =
        join.pairs.iter().map(|&(guest, host)| (host, guest)).collect();
    let mut near = 0;
    let shifted = join.host.iter().enumerate().map(|(n, served)| {
        near = partners.get(&n).copied().unwrap_or(near);
        (served, join.guest.get(near).map_or(0, |g| -offset.at(g.issue_ns.cast_signed())))
    });
    let mut shifted: Vec<_> = shifted.collect();
    shifted.sort_by_key(|(served, by)| served.last_ns.cast_signed().wrapping_add(*by));
    shifted
}

/// Writes the time line, and reports what is in it.
///
/// # Errors
/// If the clocks have no known offset, or the file cannot be written; one sentence.
pub fn write(joined: &Joined<'_>, path: &Path) -> Result<()> {
    let Joined { args, join, guest, host, .. } = joined;
    let Some(offset) = &join.offset else {
        return Err(usage(
            "--format perfetto needs the offset of the clocks, and no pair of commands tells it",
        ));
    };
    let inputs = [args.guest.clone(), args.host.clone()];
    let rules = Rules { force: args.force, inputs: &inputs, is_binary: true, ..Rules::default() };
    let (output, out) = OutFile::create(path, &rules)?;
    let settings = Mode::Events(Events::default()).with(StageSet::Total);
    let failed = |error| output.failed(error);
    let out = BufWriter::with_capacity(1 << 16, out);
    let begins = begins(&settings, &guest.file)?;
    let mut perfetto = Perfetto::new(out, begins, INTERVAL);
    let mut counts = Counts::default();
    let name = Text::from("guest");
    let guest = (FileReader::open(&guest.file.file, &settings)?, &name);
    let (_, ended) = add(guest, &mut perfetto, &mut counts, &failed)?;
    let error_ns = join.error_ns().unwrap_or_default();
    let mut shown = 0_u64;
    for (served, shift_ns) in on_host(join, offset) {
        let name = &name_of(&host.targets, served.id.ctrl);
        let is_shown = perfetto.on_host(served, name, shift_ns, error_ns).map_err(failed)?;
        shown += u64::from(is_shown);
    }
    perfetto.finish().map_err(failed)?;
    drop(perfetto);
    let name = output.name();
    let bytes = output.keep()?;
    let size = bytes.map_or_else(String::new, |bytes| format!(", {}", size_text(bytes)));
    eprint_note(&format!(
        "{name}: {} commands of the guest, {shown} of the host side, {} of them paired{size}; times of \
         the host side are uncertain by {}",
        counts.commands,
        join.pairs.len(),
        nanos(error_ns as f64)
    ));
    ended
}
