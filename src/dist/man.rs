// SPDX-License-Identifier: MIT OR Apache-2.0
//! Man pages, from the definition of the command line: one for each command, also for those of `host`.

use std::path::Path;

use anyhow::Result;
use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

use super::{shown, write};
use crate::run::args::examples::examples;
use crate::run::exit::MEANINGS;

/// Writes the pages of a command and of its subcommands. `program` is the command at the top.
///
/// # Errors
/// If a file can't be written.
pub(super) fn write_pages(
    command: &Command,
    program: &Command,
    date: &str,
    dir: &Path,
) -> Result<()> {
    write_page(command, program, date, dir)?;
    shown(command).try_for_each(|subcommand| write_pages(subcommand, program, date, dir))
}

fn write_page(command: &Command, program: &Command, date: &str, dir: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name());
    let version = program.get_version().unwrap_or_default();
    let page = |command: Command| {
        Man::new(command)
            .title(name.to_uppercase())
            .date(date)
            .source(format!("{} {version}", program.get_name()))
            .manual("User Commands")
    };
    // a page has what -h leaves out
    let all = command.clone().mut_args(|arg| arg.hide_short_help(false));
    let full = page(all);
    let mut text = vec![];
    full.render_title(&mut text)?;
    full.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    full.render_description_section(&mut text)?;
    full.render_options_section(&mut text)?;
    if command.has_subcommands() {
        full.render_subcommands_section(&mut text)?;
    }
    exit_status().to_writer(&mut text)?;
    section_of_examples(command).to_writer(&mut text)?;
    see_also(name, program).to_writer(&mut text)?;

    let path = dir.join(format!("{name}.1"));
    write(&path, finished(&String::from_utf8(text)?).as_bytes())
}

/// All options with their values. Those of clap_mangen 0.3 have none.
fn synopsis(command: &Command) -> Roff {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let mut line = vec![bold(name)];
    let args: Vec<&Arg> = command.get_arguments().filter(|a| !a.is_hide_set()).collect();
    let groups: Vec<Vec<&Arg>> = command
        .get_groups()
        .filter(|group| group.is_required_set())
        .map(|group| {
            let members: Vec<_> = group.get_args().collect();
            let is_member = |arg: &&Arg| members.contains(&arg.get_id());
            args.iter().copied().filter(is_member).collect()
        })
        .collect();
    let is_single = |arg: &&Arg| !groups.iter().flatten().any(|a| a.get_id() == arg.get_id());
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        args.iter().copied().filter(is_single).partition(|arg| arg.is_positional());
    let (required, optional): (Vec<&Arg>, Vec<&Arg>) =
        options.into_iter().partition(|arg| arg.is_required_set());
    for arg in optional {
        line.push(roman(" ["));
        line.extend(option(arg));
        line.push(roman("]"));
    }
    for arg in required {
        line.push(roman(" "));
        line.extend(option(arg));
    }
    for members in groups {
        for (i, arg) in members.into_iter().enumerate() {
            line.push(roman(if i == 0 { " {" } else { " | " }));
            line.extend(option(arg));
        }
        line.push(roman("}"));
    }
    for arg in positional {
        let (begin, end) = if arg.is_required_set() { (" ", "") } else { (" [", "]") };
        let begin = if arg.is_last_set() { " [-- " } else { begin };
        line.extend([roman(begin), italic(values(arg)), roman(end)]);
    }
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    roff.text(line);
    roff
}

/// An option and its value: `-n|--count COUNT`, `--stages[=SET]`, `--from FILE...`.
fn option(arg: &Arg) -> Vec<Inline> {
    let mut text = vec![];
    if let Some(short) = arg.get_short() {
        text.push(bold(format!("-{short}")));
    }
    if let Some(long) = arg.get_long() {
        text.extend((!text.is_empty()).then(|| roman("|")));
        text.push(bold(format!("--{long}")));
    }
    if matches!(arg.get_action(), ArgAction::Count) {
        text.push(roman("..."));
    }
    let range = arg.get_num_args().unwrap_or_default();
    if arg.get_action().takes_values() && range.takes_values() {
        if range.min_values() == 0 {
            text.extend([roman("[="), italic(values(arg)), roman("]")]);
        } else {
            text.extend([roman(" "), italic(values(arg))]);
        }
    }
    text
}

fn values(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let most = arg.get_num_args().map_or(1, |range| range.max_values());
    names.join(" ") + if most > names.len().max(1) { "..." } else { "" }
}

fn section_of_examples(command: &Command) -> Roff {
    let help = command.get_after_long_help().map(ToString::to_string);
    let mut roff = Roff::new();
    roff.control("SH", ["EXAMPLES"]);
    for (line, what) in examples(&help.unwrap_or_default()) {
        roff.control("TP", []);
        roff.text([bold(line)]);
        roff.text([roman(what)]);
    }
    roff
}

fn exit_status() -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in MEANINGS {
        roff.control("TP", []);
        roff.text([bold(code.to_string())]);
        roff.text([roman(meaning)]);
    }
    roff
}

/// The other pages, and the documentation that the packages install.
fn see_also(name: &str, program: &Command) -> Roff {
    let mut names: Vec<&str> = shown(program).filter_map(Command::get_display_name).collect();
    names.push(program.get_name());
    names.sort_unstable();
    names.retain(|other| *other != name);
    let mut line = vec![];
    for other in names {
        line.extend([bold(other), roman("(1), ")]);
    }
    line.push(roman(format!("/usr/share/doc/{}", program.get_name())));
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]);
    roff.text(line);
    roff
}

/// Replaces the backquotes of help texts by bold type, and leaves out what mandoc's lint warns
/// of: repeated preambles of the sections, empty lines, breaks next to one, spaces at the ends of
/// lines.
fn finished(text: &str) -> String {
    let (preamble, rest) = text.split_once(".TH ").unwrap_or(("", text));
    let rest = rest.replace(preamble, "").replace(".br\n\n.br\n", ".sp\n");
    let mut out = format!("{preamble}.TH ");
    let mut after_space = false;
    for line in rest.lines() {
        let line = if line.is_empty() { ".sp" } else { line };
        if after_space && [".br", ".sp"].contains(&line) {
            continue;
        }
        after_space = line == ".sp";
        // an unpaired one stays
        let pairs = line.matches('`').count() / 2 * 2;
        for (i, part) in line.trim_end().splitn(pairs + 1, '`').enumerate() {
            if i > 0 {
                out.push_str(if i % 2 == 1 { r"\fB" } else { r"\fR" });
            }
            out.push_str(part);
        }
        out.push('\n');
    }
    out
}
