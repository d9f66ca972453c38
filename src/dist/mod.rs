// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hidden command `dist`: writes completions and man pages, from the definition of the command
//! line. A command, because then each binary can write its own, without a second build.

use crate::error::{Failure, Kind};
use crate::run::args::common::is_stdout;
use crate::run::outfile::cannot_create;
use anyhow::Result;
use clap::Command;
use clap_complete::{Generator, Shell, generate};
use clap_mangen::generate_to;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes the completions to DIRECTORY/completions and the man pages to DIRECTORY/man.
///
/// # Errors
/// If a file can't be written.
pub fn run(args: &DistArgs, program: &Command) -> Result<()> {
    if is_stdout(&args.directory) {
        let text = "dist writes several files: give it a directory, not `-`";
        return Err(Failure::error(Kind::Usage, text));
    }
    let completions = args.directory.join("completions");
    let man = args.directory.join("man");
    for dir in [&completions, &man] {
        fs::create_dir_all(dir).map_err(|e| cannot_create(dir, &e))?;
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

    generate_to(with_all_texts(program.clone()), &man).map_err(|e| cannot_create(&man, &e))
}

/// clap_mangen 0.3 leaves out the text of an option that `-h` hides.
fn with_all_texts(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(with_all_texts)
}

fn write(path: &Path, text: &[u8]) -> Result<()> {
    fs::write(path, text).map_err(|e| cannot_create(path, &e))
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

/// `dist`.
#[derive(Clone, Debug, clap::Args)]
pub struct DistArgs {
    /// The directory to write to: DIRECTORY/man and DIRECTORY/completions
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
}
