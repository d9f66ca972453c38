// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hidden command `dist`: writes completions and man pages, from the definition of the command
//! line. A command, because then each binary can write its own, without a second build.

pub(crate) mod args;
mod man;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::{env, fs};

use crate::error::Kind;
use anyhow::{Context, Result};
use clap::Command;
use clap_complete::{Generator, Shell, generate};
use jiff::Timestamp;

use self::man::write_pages;
use crate::dist::args::DistArgs;
use crate::run::args::common::is_stdout;
use crate::run::exit::Failure;
use crate::run::outfile::{OutFile, Refusal, Rules};

/// Writes the completions to DIRECTORY/completions and the man pages to DIRECTORY/man.
///
/// # Errors
/// If a file can't be written, or SOURCE_DATE_EPOCH is not a number of seconds.
pub fn run(args: &DistArgs, program: &Command) -> Result<()> {
    if is_stdout(&args.directory) {
        let text = "dist writes several files: give it a directory, not `-`";
        return Err(Failure::error(Kind::Usage, text));
    }
    let completions = args.directory.join("completions");
    let man = args.directory.join("man");
    for dir in [&completions, &man] {
        fs::create_dir_all(dir).map_err(|e| Refusal::io(dir, e).into_failure())?;
    }
    let mut command = program.clone();
    let name = command.get_name().to_owned();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut text = Vec::new();
        generate(shell, &mut command, &name, &mut text);
        if shell == Shell::Bash {
            text = mended(&String::from_utf8(text)?, &command).into_bytes();
        }
        write(&completions.join(shell.file_name(&name)), &text)?;
    }

    let date = date()?;
    let mut command = program.clone().disable_help_subcommand(true);
    command.build();
    write_pages(&command, &command, &date, &man)
}

/// Writes a file that everybody may read. A package manager replaces what is there.
fn write(path: &Path, text: &[u8]) -> Result<()> {
    let rules = Rules { force: true, mode: 0o644, sync: false, ..Rules::default() };
    let (out, mut file) = OutFile::create(path, &rules)?;
    let written = file.write_all(text);
    written.map_err(|error| out.failed(error))?;
    out.keep()?;
    Ok(())
}

/// Completions for bash with two corrections of what clap_complete 4.6 writes: it spells the hyphen
/// of the program's name in two ways, so that its dispatch loop finds no label (clap issue 6421), and
/// it offers what `--help` hides.
fn mended(bash: &str, program: &Command) -> String {
    let hidden = hidden(program);
    let mut out = String::with_capacity(bash.len());
    for line in bash.replace("nvme__subcmd__deep", "nvme__deep").lines() {
        let list = line.trim_start().strip_prefix("opts=\"");
        match list.and_then(|list| list.strip_suffix('"')) {
            Some(list) => {
                let words = list.split(' ').filter(|word| !hidden.contains(*word));
                let words: Vec<&str> = words.collect();
                let _ = write!(out, "            opts=\"{}\"", words.join(" "));
            }
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// Options and subcommands that `--help` hides.
fn hidden(program: &Command) -> BTreeSet<String> {
    let names = program.get_subcommands().filter(|c| c.is_hide_set());
    let options = program.get_subcommands().flat_map(Command::get_arguments);
    let options = options.filter(|o| o.is_hide_set());
    let longs = options.filter_map(|o| Some(format!("--{}", o.get_long()?)));
    names.map(|c| c.get_name().to_owned()).chain(longs).collect()
}

/// The subcommands that `--help` lists.
fn shown(program: &Command) -> impl Iterator<Item = &Command> {
    program.get_subcommands().filter(|c| !c.is_hide_set())
}

/// The date of the pages: that of SOURCE_DATE_EPOCH, so that a later build writes the same pages,
/// or today.
fn date() -> Result<String> {
    let time = match env::var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => seconds
            .parse()
            .ok()
            .and_then(|seconds| Timestamp::from_second(seconds).ok())
            .context("SOURCE_DATE_EPOCH is not a number of seconds")?,
        Err(_) => Timestamp::now(),
    };
    Ok(time.strftime("%Y-%m-%d").to_string())
}
