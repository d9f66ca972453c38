// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ledger as text, below each report and each trace. Every line fits 80 columns.

use std::io;
use std::io::Write;

use super::theme::Theme;
use crate::model::ledger::{Accuracy, HookLine, Ledger, OwnCost, TraceLedger};
use crate::model::text::Text;
use crate::units::{counted, nanos};
use crate::view::header::{TIE, WIDTH, hang};

/// Writes the ledger: the verdict and its reasons, and with `detail` all counts.
///
/// # Errors
/// Errors of the writer.
pub fn write_ledger(l: &Ledger, theme: Theme, detail: bool, out: &mut dyn Write) -> io::Result<()> {
    let accuracy = l.accuracy();
    let verdict = verdict(l, &accuracy, theme);
    writeln!(out, "{}  {verdict}", theme.head("accuracy"))?;
    if l.imported {
        let text = "  read from a text, which does not say what its tracer lost";
        writeln!(out, "{text}; {} in the text", counted(l.matched, "command"))?;
        if !detail && accuracy == Accuracy::Unknown {
            return Ok(());
        }
    } else if !l.misses_known && (detail || accuracy != Accuracy::Exact) {
        writeln!(
            out,
            "  kprobes and classic tracepoints miss interrupts that come while another\n  such \
                 program runs; this kernel does not count how many (6.7 and later do)"
        )?;
    }
    if !detail {
        if accuracy != Accuracy::Exact {
            writeln!(out, "  {}, {} in flight", commands(l), l.in_flight)?;
        }
        // a point without its best method is shown with the reason
        return methods(l, theme, out);
    }
    let balance = match l.balance {
        Some(b) if b.balanced => ": balanced",
        Some(_) => ": NOT BALANCED",
        None => "",
    };
    writeln!(
        out,
        "  commands     seen {} = matched {} + in flight {} + ending {} + requeued {}\n    \
             + overwritten {}{balance}",
        l.seen, l.matched, l.in_flight, l.ending, l.requeued, l.overwritten
    )?;
    writeln!(
        out,
        "  completions  {} seen, {} issued outside the run; {} commands filtered out",
        l.completions, l.orphan_completions, l.filtered
    )?;
    if l.by_task > 0 {
        writeln!(
            out,
            "  cgroup       {} commands selected by the task that submitted them",
            l.by_task
        )?;
    }
    before(l, out)?;
    skipped(l, out)?;
    writeln!(
        out,
        "  lost         ring {}, no row {}, untracked {}, no submitter {},\n    \
             negative {}, doorbells {}",
        l.ring_drops,
        l.no_row,
        l.untracked,
        l.unattributed,
        l.negative_intervals,
        l.doorbell_list_full
    )?;
    if let Some(t) = &l.trace {
        trace(t, out)?;
    }
    writeln!(
        out,
        "  discarded    late doorbells {}, unsure doorbells {}, early irqs {},\n    \
             starts {}; requeues {}",
        l.late_doorbells, l.unsure_doorbells, l.early_irqs, l.discarded_starts, l.requeue_events
    )?;
    if let Some(cost) = &l.own_cost {
        own_cost(cost, out)?;
    }
    hooks(l, theme, out)
}

/// The accuracy in a few words.
fn verdict(l: &Ledger, accuracy: &Accuracy, theme: Theme) -> String {
    let later = match l.uncovered {
        0 => String::new(),
        n => format!("; not known for {}", counted(n, "later command")),
    };
    match accuracy {
        Accuracy::Exact => theme.good(&exact(l)),
        Accuracy::Unknown if l.uncovered > 0 && l.misses_known => {
            let later = counted(l.uncovered, "command");
            theme.warn(&format!("NOT KNOWN for the last {later}, exact before"))
        }
        Accuracy::Unknown => theme.warn("NOT KNOWN"),
        Accuracy::Degraded(why) => theme.warn(&format!("DEGRADED: {}{later}", why.join(", "))),
    }
}

/// The commands that the ledger is about.
fn commands(l: &Ledger) -> String {
    let part = l.selected.map(|n| format!("{n} of ")).unwrap_or_default();
    part + &counted(l.matched, "command")
}

/// The counts are exact; times of some points may be missing.
fn exact(l: &Ledger) -> String {
    let mut text = format!("exact: {}, 0 lost", commands(l));
    for (n, what) in [
        (l.in_flight, "in flight"),
        (l.filtered, "filtered out"),
        (l.by_task, "selected by their task"),
        (l.fewer_points, "with fewer stages"),
        (l.unseen_bios, "whose bio was not seen"),
        (l.unpaired_waits, "with a wait of unknown length"),
    ] {
        if n > 0 {
            text.push_str(&format!(", {n} {what}"));
        }
    }
    if l.recursion_misses > 0 {
        text.push_str(&format!(", at most {} boundaries not observed", l.recursion_misses));
    }
    if l.shares_cells {
        text.push_str("; CPUs share histograms to save memory, so each command costs more");
    }
    text
}

/// What is missing of the stages before the request.
fn before(l: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    if l.unseen_bios + l.unstored_bios + l.unpaired_waits == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "  before       {} requests whose bio was not seen, {} bios without room,\n    \
             {} waits of unknown length",
        l.unseen_bios, l.unstored_bios, l.unpaired_waits
    )
}

/// Program runs that the kernel skipped, and what was recovered.
fn skipped(l: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    if l.recursion_misses + l.unseen_setups + l.unseen_completions == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "  skipped      {} program runs; found all the same: {} setups,\n    \
             {} completions; {} commands unmeasured, {} lost",
        l.recursion_misses,
        l.unseen_setups,
        l.unseen_completions,
        l.unmeasured,
        l.unrecovered + l.unattributed + l.overwritten
    )
}

fn hooks(l: &Ledger, theme: Theme, out: &mut dyn Write) -> io::Result<()> {
    let name = |h: &HookLine| format!("{} {}", h.kind, h.target);
    let firing: Vec<_> =
        l.hooks.iter().filter(|h| h.hits > 0).map(|h| format!("{} {}", name(h), h.hits)).collect();
    let silent: Vec<_> = l
        .hooks
        .iter()
        .filter(|h| h.hits == 0)
        .map(|h| match &h.may_stay_silent {
            Some(when) => format!("{} ({when})", name(h)),
            None => name(h),
        })
        .collect();
    wrapped("  hooks        ", &firing, out)?;
    wrapped("  0 hits       ", &silent, out)?;
    methods(l, theme, out)
}

/// Points that are not observed, or not by the best method, with each reason once.
fn methods(l: &Ledger, theme: Theme, out: &mut dyn Write) -> io::Result<()> {
    // points with the same reasons share the lines
    let mut groups: Vec<(Vec<String>, Lack<'_>)> = Vec::new();
    for method in &l.methods {
        let lack = Lack::of(&method.point, l);
        if lack.reasons.is_empty() {
            continue;
        }
        match groups.iter_mut().find(|(_, other)| *other == lack) {
            Some((points, _)) => points.push(method.point.to_string()),
            None => groups.push((vec![method.point.to_string()], lack)),
        }
    }
    for (points, lack) in groups {
        let points = points.join(", ");
        let what = match lack.instead {
            None => theme.warn(&format!("no {points}")),
            Some(method) => format!("{points} by {method}"),
        };
        writeln!(out, "  {what}, because")?;
        for (why, methods) in lack.reasons {
            hang(WIDTH, &format!("    {}: ", methods.join(", ")), why, str::to_owned, out)?;
        }
    }
    Ok(())
}

/// Cost by the kernel's statistics of BPF programs. The statistics have a cost themselves.
fn own_cost(cost: &OwnCost, out: &mut dyn Write) -> io::Result<()> {
    let per_command =
        cost.ns_per_command.map_or_else(String::new, |ns| format!("{} a command, ", nanos(ns)));
    writeln!(
        out,
        "  own cost     {per_command}{:.2}% of one CPU (programs only)",
        100.0 * cost.share_of_a_cpu
    )?;
    let ran = cost.programs.iter().filter(|p| p.runs > 0);
    let items: Vec<_> = ran
        .map(|p| {
            let mean = nanos(p.run_ns as f64 / p.runs as f64);
            format!("{} {} {} x {mean}", p.kind, p.target, p.runs)
        })
        .collect();
    wrapped("               ", &items, out)
}

fn trace(t: &TraceLedger, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "  shown        submits {}, commands {}, others {}; not asked for {}",
        t.submits_shown,
        t.commands_shown,
        t.events_shown,
        t.not_shown + t.past_count
    )?;
    writeln!(
        out,
        "  not shown    ring full: submits {}, commands {}, others {}; not written {};\n    \
             not valid {}, stacks {}; out of order {}",
        t.lost_submits,
        t.lost_completions,
        t.lost_events,
        t.not_written,
        t.undecodable,
        t.stacks_not_taken + t.stacks_lost,
        t.out_of_order
    )
}

/// Why a point does not use the best method: each reason once, with the methods that it excludes.
#[derive(PartialEq, Eq)]
struct Lack<'l> {
    instead: Option<&'l Text>,
    reasons: Vec<(&'l Text, Vec<String>)>,
}

impl<'l> Lack<'l> {
    fn of(point: &Text, l: &'l Ledger) -> Self {
        let mut lack = Self { instead: None, reasons: Vec::new() };
        for m in l.missing_hooks.iter().filter(|m| m.point == *point) {
            lack.instead = m.instead.as_ref();
            match lack.reasons.iter_mut().find(|(why, _)| **why == m.why) {
                Some((_, methods)) => methods.push(m.method.to_string()),
                None => lack.reasons.push((&m.why, vec![m.method.to_string()])),
            }
        }
        lack
    }
}

/// A list after a label, over as many lines as needed. Lines break between items, unless one is too long
/// for a line. Writes nothing for an empty list.
fn wrapped(label: &str, items: &[String], out: &mut dyn Write) -> io::Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    let fits = |item: &String| label.chars().count() + item.chars().count() < WIDTH;
    let list = match items.iter().all(fits) {
        true => items.iter().map(|item| item.replace(' ', &TIE.to_string())).collect(),
        false => items.to_vec(),
    };
    hang(WIDTH, label, &list.join(", "), str::to_owned, out)
}
