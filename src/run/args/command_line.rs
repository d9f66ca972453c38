// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of the command line before clap reads them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use clap::{Arg, Command};

use crate::units::parse_duration;

/// Options whose value is optional, and a word. Clap takes such a value after `=` only, because an
/// INTERVAL may follow the option.
const OPTIONAL: [&str; 2] = ["--stages", "--kstack"];

/// Joins `--stages fine` to `--stages=fine`: an INTERVAL begins with a digit, and these commands have no
/// argument that begins with a letter. What follows `--` belongs to a program.
pub fn joined(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    let mut words = words.peekable();
    while let Some(mut word) = words.next() {
        if word == "--" {
            all.push(word);
            break;
        }
        let is_value = |next: &OsString| {
            next.as_bytes().first().is_some_and(u8::is_ascii_alphabetic) && !is_meant_as_file(next)
        };
        if OPTIONAL.iter().any(|option| word == *option)
            && let Some(value) = words.next_if(is_value)
        {
            word.push(OsStr::new("="));
            word.push(value);
        }
        all.push(word);
    }
    all.extend(words);
    all
}

/// Whether a word is a path, or has the ending of recordings.
fn is_meant_as_file(word: &OsStr) -> bool {
    let path = Path::new(word);
    let is_path = word.as_bytes().contains(&b'/') && !path.starts_with("/dev");
    is_path || path.extension().is_some_and(|ending| ending == "nvd")
}

/// Whether a word is a recording: a file that exists, or a word that looks like one. A time does not.
fn is_file(word: &OsStr) -> bool {
    if is_meant_as_file(word) {
        return true;
    }
    let is_time = word.to_str().is_some_and(|text| parse_duration(text).is_ok());
    !is_time
        && Path::new(word)
            .metadata()
            .is_ok_and(|found| found.is_file() || found.file_type().is_fifo())
}

/// Whether the next word is the value of this option.
fn takes_next(word: &[u8], command: &Command) -> bool {
    let mut all = command.get_arguments();
    let named = |arg: &&Arg, name: &[u8]| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(aliases).any(|long| long.as_bytes() == name)
    };
    let option = match word {
        [b'-', b'-', name @ ..] => all.find(|arg| named(arg, name)),
        // of several letters only the last can have a value of its own
        [b'-', .., short] => {
            all.find(|arg| arg.get_short().is_some_and(|s| s == char::from(*short)))
        }
        _ => None,
    };
    let needs_value = |arg: &Arg| arg.get_action().takes_values() && !arg.is_require_equals_set();
    option.is_some_and(needs_value)
}

/// Turns files among the arguments of a command that reads recordings into `--from=FILE`. `program`:
/// the definition of all commands.
pub fn with_files(words: Vec<OsString>, program: &Command) -> Vec<OsString> {
    let mut command = program;
    let mut all: Vec<OsString> = Vec::new();
    let mut words = words.into_iter();
    all.extend(words.next());
    while let Some(word) = words.next() {
        if word == "--" {
            all.push(word);
            break;
        }
        if word.as_bytes().first() == Some(&b'-') {
            let has_value = takes_next(word.as_bytes(), command);
            all.push(word);
            all.extend(words.by_ref().take(usize::from(has_value)));
        } else if let Some(found) = command.find_subcommand(&word) {
            command = found;
            all.push(word);
        } else if command.get_arguments().any(|arg| arg.get_id() == "from") && is_file(&word) {
            let mut option = OsString::from("--from=");
            option.push(word);
            all.push(option);
        } else {
            all.push(word);
        }
    }
    all.extend(words);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::ffi::OsStr;

    #[test]
    fn files_are_arguments_in_any_order() {
        let program = crate::cli::Args::command();
        for (typed, read) in [
            ("latency run.nvd 1 5", "latency --from=run.nvd 1 5"),
            ("latency 1 run.nvd 5", "latency 1 --from=run.nvd 5"),
            ("latency --from a.nvd b.nvd", "latency --from a.nvd --from=b.nvd"),
            ("trace -n 5 run.nvd --json", "trace -n 5 --from=run.nvd --json"),
            ("trace --tee run.nvd", "trace --tee run.nvd"),
            ("latency --stages run.nvd", "latency --stages --from=run.nvd"),
            ("trace --kstack a/b 5", "trace --kstack --from=a/b 5"),
            ("latency --stages fine run.nvd 1", "latency --stages=fine --from=run.nvd 1"),
            ("trace -vc /sys/fs/cgroup/a run.nvd", "trace -vc /sys/fs/cgroup/a --from=run.nvd"),
            ("trace --min-lat 1ms run.nvd", "trace --min-lat 1ms --from=run.nvd"),
            ("host trace run.nvd", "host trace --from=run.nvd"),
            ("latency Cargo.toml", "latency --from=Cargo.toml"),
            ("trace --from a /missing", "trace --from a --from=/missing"),
            ("latency /dev/nvme0n1", "latency /dev/nvme0n1"),
            ("latency --exec -- cat run.nvd", "latency --exec -- cat run.nvd"),
            ("diff a.nvd b.nvd", "diff a.nvd b.nvd"),
            ("record -o run.nvd", "record -o run.nvd"),
        ] {
            let typed = format!("nvme-deep {typed}");
            let words = with_files(joined(typed.split(' ').map(OsString::from)), &program);
            assert_eq!(words[1..].join(OsStr::new(" ")), read);
        }
    }
}
