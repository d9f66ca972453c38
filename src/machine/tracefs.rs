// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads tracefs: the layout of events, and the functions that ftrace can hook.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use super::System;
use crate::machine::kallsyms::{Wanted, each_line};

/// The mount points of tracefs: its own, and the one before 4.1, which most machines still have.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// The name in a C declaration: `disk` in `char disk[32]`.
fn declared(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let text = match text.rfind('[') {
        Some(at) if text.ends_with(']') => &text[..at],
        _ => text,
    };
    let name = text.split_whitespace().next_back()?.trim_start_matches('*');
    (!name.is_empty()).then_some(name)
}

/// Name and offset in `field:u16 cid; offset:52; size:2; signed:0;`, with tabs in between.
fn field(line: &str) -> Option<(String, u32)> {
    let mut parts = line.trim_start().split(';').map(str::trim);
    let name = declared(parts.next()?.strip_prefix("field:")?)?;
    let offset = parts.find_map(|part| part.strip_prefix("offset:"))?;
    Some((name.to_owned(), offset.parse().ok()?))
}

/// The offsets in bytes of an event's fields, including the `common_` ones, from the text of its `format`
/// file. Lines that make no sense are skipped.
#[must_use]
pub fn fields_of(format: &str) -> BTreeMap<String, u32> {
    // the format string that follows may contain anything
    let head = format.lines().take_while(|l| !l.starts_with("print fmt:"));
    head.filter_map(field).collect()
}

impl System {
    /// The directory of a readable tracefs.
    pub fn tracefs(&self) -> Option<PathBuf> {
        let mut places = PLACES.iter().map(|place| self.path(place));
        places.find(|at| fs::read_dir(at.join("events")).is_ok())
    }

    /// The offsets of the fields of an event, as in `nvme`, `nvme_setup_cmd`. `None`: there is no such event,
    /// or tracefs cannot be read.
    pub fn event_fields(&self, category: &str, event: &str) -> Option<BTreeMap<String, u32>> {
        let at = self.tracefs()?.join("events").join(category).join(event);
        Some(fields_of(&fs::read_to_string(at.join("format")).ok()?))
    }

    /// The wanted functions that ftrace can hook, which fentry and fast kprobes need, clones included.
    /// Reads `available_filter_functions`, which takes the kernel a moment to write. `None`: it cannot be
    /// read.
    pub fn filter_functions(&self, wanted: &[&str]) -> Option<BTreeSet<String>> {
        let wanted = Wanted::new(wanted);
        let mut found = BTreeSet::new();
        let read = each_line(&self.tracefs()?.join("available_filter_functions"), |line| {
            let name = line.split(|&b| b == b' ').next().unwrap_or(line);
            found.extend(wanted.pick(name));
        });
        read.is_ok().then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::TestMachine;
    use super::*;

    const SETUP: &str = r#"name: nvme_setup_cmd
ID: 1337
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char disk[32];	offset:8;	size:32;	signed:0;
	field:int ctrl_id;	offset:40;	size:4;	signed:1;
	field:int qid;	offset:44;	size:4;	signed:1;
	field:u8 opcode;	offset:48;	size:1;	signed:0;
	field:u8 flags;	offset:49;	size:1;	signed:0;
	field:u8 fctype;	offset:50;	size:1;	signed:0;
	field:u16 cid;	offset:52;	size:2;	signed:0;
	field:u32 nsid;	offset:56;	size:4;	signed:0;
	field:bool metadata;	offset:60;	size:1;	signed:0;
	field:u8 cdw10[24];	offset:61;	size:24;	signed:0;

print fmt: "nvme%d: %sqid=%d, cmdid=%u, nsid=%u, flags=0x%x, meta=0x%x, cmd=(%s %s)", REC->ctrl_id, nvme_trace_disk_name(p, REC->disk), REC->qid, REC->cid, REC->nsid, REC->flags, REC->metadata, field:int nonsense;	offset:9;	size:9;
"#;

    #[test]
    fn the_format_of_an_event_gives_its_fields() {
        let setup = fields_of(SETUP);
        assert_eq!(setup.len(), 14);
        assert_eq!((setup["disk"], setup["cid"], setup["cdw10"]), (8, 52, 61));
        assert_eq!(setup["common_pid"], 4);
        let without = "\tfield:u8 a;\tsize:1;\n\tfield:u8 b;\toffset:99999999999;\tsize:1;\n";
        assert!(fields_of(without).is_empty());
    }

    #[test]
    fn tracefs_is_found_in_either_place() {
        for place in PLACES {
            let machine = TestMachine::new(&[]);
            assert_eq!(machine.tracefs(), None);
            machine.put(&format!("{place}/events/nvme/nvme_setup_cmd/format"), SETUP);
            assert_eq!(machine.event_fields("nvme", "nvme_setup_cmd").unwrap()["cid"], 52);
            assert_eq!(machine.event_fields("nvme", "nope"), None);
            assert_eq!(machine.filter_functions(&["nvme_irq"]), None);
            machine.put(
                &format!("{place}/available_filter_functions"),
                "blk_mq_start_request\nblk_mq_start_request_not\nnvme_irq [nvme]\n\
                 nvme_prep_rq.part.0 [nvme]\nnvme_poll [nvme]\n__ftrace_invalid_address___64\n",
            );
            let wanted = ["blk_mq_start_request", "nvme_irq", "nvme_prep_rq", "gone"];
            let want = ["blk_mq_start_request", "nvme_irq", "nvme_prep_rq.part.0"];
            assert_eq!(machine.filter_functions(&wanted), Some(want.map(str::to_owned).into()));
        }
    }
}
