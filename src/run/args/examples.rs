// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows the options in `--help`: examples. A command line, indented by two, and below it what it
//! does, indented by six.

/// The end of `-h` of commands that trace the driver.
pub const WITH_FILTERS: &str =
    "Filters (--disk, --opcode, --process, ...), more options, examples: --help.";
/// The end of `-h` of other commands.
pub const ONLY_EXAMPLES: &str = "More options and examples: --help.";

pub const PROGRAM: &str = "\
Examples:
  nvme-deep latency --stages 1
      Latency of each namespace, opcode and stage, every second
  nvme-deep record -o slow.nvd --duration 60s
      Record what happens, to look at it later and elsewhere
  nvme-deep diagnose slow.nvd
      Why the commands of that recording are slow

Run as root. With CAP_BPF and CAP_PERFMON only, less is available: run `doctor` as that user. \
Recordings are read without root.

Exit codes: 0 done or stopped, 1 failed while running, 2 wrong usage, 3 `--check` found a change \
or a cause, 4 not permitted, 5 the kernel lacks what is needed, 6 no such NVMe device, 130 ended at \
once by a second signal.";

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory, Parser};

    use super::*;
    use crate::cli::Args;
    use crate::run::args::command_line::with_files;
    use crate::run::exit::tests::MEANINGS;
    use std::ffi::OsString;
    use std::iter::from_fn;

    /// The command lines of the examples, and what each does.
    fn examples(help: &str) -> impl Iterator<Item = (&str, &str)> {
        let mut lines = help.lines();
        from_fn(move || {
            let line = lines.find(|line| line.starts_with("  nvme-deep "))?;
            Some((line.trim_start(), lines.next().unwrap_or_default().trim()))
        })
    }

    /// The examples of a command and of its subcommands.
    fn check(command: &Command, name: &str) {
        let help = command.get_after_long_help().map(ToString::to_string);
        let help = help.unwrap_or_else(|| panic!("{name} has no examples"));
        let found: Vec<_> = examples(&help).collect();
        assert!(!found.is_empty(), "{name}");
        for (line, what) in found {
            assert!(line.starts_with(name), "{name}: {line}");
            assert!(!what.is_empty(), "{line}");
            let words = line.split(' ').map(OsString::from).collect();
            if let Err(refused) = Args::try_parse_from(with_files(words, &Args::command())) {
                panic!("{line}: {refused}");
            }
        }
        for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            check(sub, &format!("{name} {}", sub.get_name()));
        }
    }

    #[test]
    fn the_help_has_every_exit_code() {
        let (_, codes) = PROGRAM.split_once("Exit codes: ").unwrap();
        let codes = codes.split([' ', '\n']);
        let codes: Vec<u8> = codes.filter_map(|word| word.parse().ok()).collect();
        assert_eq!(codes, MEANINGS.map(|(code, _)| code));
    }

    #[test]
    fn every_command_has_examples_which_are_accepted() {
        check(&Args::command(), "nvme-deep");
    }
}
