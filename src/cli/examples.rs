// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows the options in `--help`, and the section EXAMPLES of the man pages: a command line,
//! indented by two, and below it what it does, indented by six.

use std::iter::from_fn;

/// The end of `-h` of commands that trace the driver.
pub const WITH_FILTERS: &str =
    "Filters (--disk, --ctrl, --opcode, --pid, ...), more options, examples: --help.";
/// The end of `-h` of other commands.
pub const ONLY_EXAMPLES: &str = "More options and examples: --help.";

pub const PROGRAM: &str = "\
Examples:
  nvme-deep latency --stages 1
      Latency of each namespace, opcode and stage, every second
  nvme-deep record -o slow.nvd --stages=full --context --duration 60s
      Record what happens, to look at it later and elsewhere
  nvme-deep diagnose --from slow.nvd
      Why the commands of that recording are slow

Run as root. With CAP_BPF and CAP_PERFMON only, less is available: run `doctor` as that user. \
Recordings are read without root.

Exit codes: 0 done or stopped, 1 failed while running, 2 wrong usage, 3 `--check` found a change \
or a cause, 4 not permitted, 5 the kernel lacks what is needed, 6 no such NVMe device, 130 ended at \
once by a second signal.";

pub const TOP: &str = "\
Examples:
  nvme-deep top
      Every second
  nvme-deep top 500ms --stages=fine --ctrl nvme1
      Twice a second, one controller, with all eight stages
  nvme-deep top --by container,opcode
      A row per container and opcode; the key b: per container, per opcode
  nvme-deep top --from run.nvd
      A recording, at the speed at which it was made";

pub const LATENCY: &str = "\
Examples:
  nvme-deep latency --stages 1
      A report every second, with stages
  nvme-deep latency --stages=fine --disk nvme0n1 --exec -- fio job.fio
      All eight stages of one disk while a program runs
  nvme-deep latency --from run.nvd --opcode read
      The reads of a recording";

pub const TRACE: &str = "\
Examples:
  nvme-deep trace --pair --stages
      One line per command, with its stages
  nvme-deep trace --slow 1ms --kstack
      Commands of at least 1 ms, and who submitted them
  nvme-deep trace --errors --tee errors.nvd
      Commands that fail, on the screen and to a file
  nvme-deep trace --from run.nvd --pair -n 20
      The first 20 commands of a recording";

pub const STACKS: &str = "\
Examples:
  nvme-deep stacks --duration 10s
      The kernel stacks that submit commands, by number of commands
  nvme-deep stacks --by latency --svg out.svg
      A flame graph, by sum of latencies
  nvme-deep stacks --at complete
      How completions are found: interrupt, poll, cancellation";

pub const RECORD: &str = "\
Examples:
  nvme-deep record -o run.nvd --stages=full --context --duration 60s
      Record for a minute what `diagnose` and `diff` need
  nvme-deep record -o stuck.nvd --ring 15m --trigger slow=50ms,reset
      Keep the last 15 minutes, and write them when a command is slow or a controller is reset
  nvme-deep record -o job.nvd --exec -- fio job.fio
      Record while a program runs";

pub const DIAGNOSE: &str = "\
Examples:
  nvme-deep diagnose
      Observe for 10 s
  nvme-deep diagnose --duration 60s --expect 200us
      Observe for a minute; commands should take 200 us
  nvme-deep diagnose --from slow.nvd --baseline good.nvd
      A recording, compared with one of a better time";

pub const INFLIGHT: &str = "\
Examples:
  nvme-deep inflight
      Look once; a verdict on commands of at least 100 ms
  nvme-deep inflight 1 --age 10x --kstack
      Every second; commands of ten times the p99 of their kind, and who submitted them";

pub const HEATMAP: &str = "\
Examples:
  nvme-deep heatmap --from run.nvd --stage device --svg device.svg
      The device stage over time
  nvme-deep heatmap --from run.nvd --y lba --ctrl nvme0 --nsid 1 --png lba.png
      Where on the disk the commands are
  nvme-deep heatmap --y depth --duration 10s --svg depth.svg
      Commands in flight, live";

pub const PATTERN: &str = "\
Examples:
  nvme-deep pattern --duration 10s
      One report of 10 s
  nvme-deep pattern 1 --delta
      Each second by itself
  nvme-deep pattern --from run.nvd --svg pattern.svg
      A recording, also as a picture";

pub const EXPORT: &str = "\
Examples:
  nvme-deep export run.nvd --format perfetto -o run.pftrace
      A time line for ui.perfetto.dev
  nvme-deep export a.nvd b.nvd --format parquet --redact -o runs.parquet
      A row per command of two recordings, without names
  nvme-deep export run.nvd --format csv --slow 10ms -o -
      Slow commands as CSV, to stdout";

pub const DIFF: &str = "\
Examples:
  nvme-deep diff before.nvd after.nvd
      What became slower or faster, by stage
  nvme-deep diff a1.nvd,a2.nvd,a3.nvd b1.nvd,b2.nvd,b3.nvd --check
      Several recordings a side; exit code 3 if something changed
  nvme-deep diff one.nvd one.nvd --ctrl nvme0=nvme1
      Two controllers of one recording";

pub const HOST: &str = "\
Examples:
  nvme-deep host list
      What serves NVMe on this machine
  nvme-deep host latency --nvmet --duration 10s
      Latencies of the kernel's target";

pub const HOST_LIST: &str = "\
Examples:
  nvme-deep host list
      The targets, and the methods that work for each";

pub const HOST_TRACE: &str = "\
Examples:
  nvme-deep host trace --nvmet
      Every command of the kernel's target
  nvme-deep host trace --pid 4711 -o host.nvd
      The commands of a QEMU or SPDK process, to a file for `join`";

pub const HOST_LATENCY: &str = "\
Examples:
  nvme-deep host latency --nvmet --duration 10s
      The kernel's target, for 10 s
  nvme-deep host latency --from host.nvd
      A recording of the host side";

pub const HOST_IMPORT: &str = "\
Examples:
  nvme-deep host import --qemu-log qemu.log -o host.nvd
      A recording from a log of QEMU";

pub const HOST_ANNOTATE: &str = "\
Examples:
  nvme-deep host annotate trace.json host.nvd
      The entries of an SPDK trace, each with its command";

pub const HOST_SPDK: &str = "\
Examples:
  nvme-deep host spdk --pid 4711
      The changes of state of this SPDK target";

pub const HOST_MSGS: &str = "\
Examples:
  nvme-deep host msgs --pid 4711 --duration 10s
      The messages of this SPDK process in 10 s";

pub const HOST_KVM: &str = "\
Examples:
  nvme-deep host kvm --pid 4711 --guest guest.nvd --duration 10s
      The doorbell writes of a virtual machine, with a recording of its driver
  nvme-deep host kvm kvm.txt --bar 0xfebf0000-0xfebf3fff
      Those of a trace by trace-cmd";

pub const JOIN: &str = "\
Examples:
  nvme-deep join guest.nvd host.nvd
      Where the time of each command went: driver, target, between them
  nvme-deep join guest.nvd host.nvd --format perfetto -o both.pftrace
      Both sides on one time line";

pub const SERVE: &str = "\
Examples:
  nvme-deep serve
      http://127.0.0.1:9998/metrics
  nvme-deep serve --stages --textfile /var/lib/node_exporter/nvme-deep.prom
      To a file for node_exporter, with stages";

pub const DOCTOR: &str = "\
Examples:
  nvme-deep doctor
      What this machine supports
  nvme-deep doctor --attach kprobe
      The same, if only kprobes were used";

/// The command lines of the examples, and what each does.
pub fn examples(help: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = help.lines();
    from_fn(move || {
        let line = lines.find(|line| line.starts_with("  nvme-deep "))?;
        Some((line.trim_start(), lines.next().unwrap_or_default().trim()))
    })
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use clap::CommandFactory;
    use clap::Parser;

    use super::*;
    use crate::cli::args::Args;
    use crate::exit::MEANINGS;

    /// The examples of a command and of its subcommands.
    fn check(command: &Command, name: &str) {
        let help = command.get_after_long_help().map(ToString::to_string);
        let help = help.unwrap_or_else(|| panic!("{name} has no examples"));
        let found: Vec<_> = examples(&help).collect();
        assert!(!found.is_empty(), "{name}");
        for (line, what) in found {
            assert!(line.starts_with(name), "{name}: {line}");
            assert!(!what.is_empty(), "{line}");
            if let Err(refused) = Args::try_parse_from(line.split(' ')) {
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
