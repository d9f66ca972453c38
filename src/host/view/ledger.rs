// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ledger of the host side as text.

use std::io;
use std::io::Write;

use crate::model::ledger::{Accuracy, HostLedger};
use crate::units::counted;
use crate::view::header::entry_at;

/// Column of the text of an entry.
const INDENT: usize = 10;

fn entry(label: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    entry_at(INDENT, label, text, out)
}

/// Writes the ledger: one line if nothing was lost, more with `detail`.
///
/// # Errors
/// Errors of the writer.
pub fn ledger_text(ledger: &HostLedger, detail: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut text = counted(ledger.commands, "command");
    if ledger.unfinished > 0 {
        text += &format!(", {} unfinished", ledger.unfinished);
    }
    if ledger.interrupts > 0 {
        text += &format!(", {}", counted(ledger.interrupts, "interrupt"));
    }
    let accuracy = ledger.accuracy();
    let grade = match &accuracy {
        Accuracy::Degraded(why) => format!("DEGRADED: {text}; {}", why.join(", ")),
        Accuracy::Unknown => {
            format!("NOT KNOWN: {text} in a text, which does not say what is missing")
        }
        Accuracy::Exact => format!("exact: {text}, 0 lost"),
    };
    entry("accuracy", &grade, out)?;
    if !detail && !matches!(accuracy, Accuracy::Degraded(_)) {
        return Ok(());
    }
    for (program, hits) in &ledger.hits {
        let skipped = ledger.skipped.get(program).copied().unwrap_or(0);
        let mut text = format!("{program}: {hits} hits, {skipped} skipped");
        if let Some(ns) = ledger.run_ns.get(program) {
            text += &format!(", {ns} ns per hit in the program");
        }
        entry("hook", &text, out)?;
    }
    if ledger.other > 0 {
        entry("other", &format!("{} lines about something else", ledger.other), out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_named_and_fit_the_screen() {
        let ledger = HostLedger {
            commands: 7,
            without_begin: 1,
            without_end: 2,
            lost: 3,
            not_read: 4,
            failed_checks: 5,
            hits: [("nvmet_req_init".into(), 8)].into(),
            ..HostLedger::default()
        };
        let mut out = Vec::new();
        ledger_text(&ledger, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let want = "accuracy  DEGRADED: 7 commands; 1 end without a start, 2 starts without an end,\n          \
                    3 events lost, 4 events not read, 5 hits that failed a check\nhook      \
                    nvmet_req_init: 8 hits, 0 skipped\n";
        assert_eq!(text, want);
    }
}
