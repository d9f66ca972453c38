// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads tracefs: the layout of events, and the functions that ftrace can hook.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use serde::Serialize;

use super::names::{Wanted, each_line, module};
use super::{System, Unreadable};

/// The mount points of tracefs: its own, and that before 4.1, which most machines still have.
const PLACES: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// The position of a field in the record of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// Offset in bytes from the start of the record.
    pub offset: u32,
    /// Size in bytes; for an array, the size of the whole array.
    pub size: u32,
    /// The number is signed.
    pub signed: bool,
}

/// The layout of an event's records, from its `format` file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventFormat {
    /// The event's number on this kernel, valid until the next boot (or load of the module).
    pub id: u32,
    /// Its fields by name, including the `common_` ones.
    pub fields: BTreeMap<String, Field>,
}

/// Why tracefs does not show something. Events are named as in `nvme:nvme_setup_cmd`.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// tracefs is not mounted.
    #[error("tracefs is not mounted")]
    NotMounted,
    /// tracefs cannot be read.
    #[error("tracefs: {0}")]
    Unreadable(Unreadable),
    /// tracefs has no files.
    #[error("tracefs is mounted, but empty: kernel lockdown does that")]
    Empty,
    /// tracefs is not in its usual places, and /proc/mounts cannot be read.
    #[error("tracefs is nowhere to be seen")]
    NotFound,
    /// The format of an event has no number.
    #[error("the format of {event} has no id")]
    NoId {
        /// The event.
        event: String,
    },
    /// The format of an event cannot be read.
    #[error("the format of {event}: {error}")]
    NoFormat {
        /// The event.
        event: String,
        /// Why it cannot be read.
        error: Unreadable,
    },
    /// The kernel has other events of the category only.
    #[error("this kernel has no event {event}")]
    NoEvent {
        /// The event.
        event: String,
    },
    /// The kernel has no events of a category.
    #[error(
        "this kernel has no events of `{category}`: the module is not loaded, or built without \
         tracepoints"
    )]
    NoCategory {
        /// The category.
        category: String,
    },
    /// The kernel has no list of functions that ftrace can hook.
    #[error("this kernel has no function tracer (CONFIG_DYNAMIC_FTRACE)")]
    NoFunctionTracer,
    /// The list of functions that ftrace can hook cannot be read.
    #[error("available_filter_functions: {0}")]
    NoFunctions(Unreadable),
}

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

/// Parses `field:u16 cid; offset:52; size:2; signed:0;`, with tabs in between.
fn field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let name = declared(parts.next()?.strip_prefix("field:")?)?;
    let mut found = Field { offset: u32::MAX, size: 0, signed: false };
    for (key, value) in parts.filter_map(|p| p.split_once(':')) {
        match key {
            "offset" => found.offset = value.parse().ok()?,
            "size" => found.size = value.parse().ok()?,
            "signed" => found.signed = value != "0",
            _ => {}
        }
    }
    (found.offset != u32::MAX && found.size > 0).then(|| (name.to_owned(), found))
}

impl EventFormat {
    /// Parses the text of a `format` file; `None` if it has no id. Invalid lines are skipped, so a
    /// field that cannot be read is not in the map.
    pub fn parse(text: &str) -> Option<Self> {
        // the format string that follows may contain anything
        let head = text.lines().take_while(|l| !l.starts_with("print fmt:"));
        let (mut id, mut fields) = (None, BTreeMap::new());
        for line in head {
            let line = line.trim_start();
            if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            }
            fields.extend(field(line));
        }
        Some(Self { id: id?, fields })
    }
}

impl System {
    /// The directory of a readable tracefs.
    ///
    /// # Errors
    /// If there is none.
    pub fn tracefs(&self) -> Result<PathBuf, TracefsError> {
        let mut refused = None;
        for place in PLACES {
            let at = self.path(place);
            match fs::read_dir(at.join("events")) {
                Ok(_) => return Ok(at),
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => refused = refused.or(Some(e.into())),
            }
        }
        Err(match (refused, self.mounted("tracefs")) {
            (_, Some(false)) => TracefsError::NotMounted,
            (Some(refused), _) => TracefsError::Unreadable(refused),
            (None, Some(true)) => TracefsError::Empty,
            (None, None) => TracefsError::NotFound,
        })
    }

    /// The layout of `category:event`, as in `nvme:nvme_setup_cmd`.
    ///
    /// # Errors
    /// If it is not available.
    pub fn event_format(&self, category: &str, event: &str) -> Result<EventFormat, TracefsError> {
        let events = self.tracefs()?.join("events");
        let path = events.join(category).join(event).join("format");
        let event = format!("{category}:{event}");
        match fs::read_to_string(&path) {
            Ok(text) => EventFormat::parse(&text).ok_or(TracefsError::NoId { event }),
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(TracefsError::NoFormat { event, error: e.into() })
            }
            Err(_) if events.join(category).exists() => Err(TracefsError::NoEvent { event }),
            Err(_) => Err(TracefsError::NoCategory { category: category.to_owned() }),
        }
    }

    /// The wanted functions that ftrace can hook (fentry and fast kprobes need that), clones
    /// included, each with its module; `None` for the kernel image. Reads
    /// `available_filter_functions`, which takes the kernel a moment to write.
    ///
    /// # Errors
    /// If the list is not available.
    pub fn filter_functions(
        &self,
        wanted: &[&str],
    ) -> Result<BTreeMap<String, Option<String>>, TracefsError> {
        let path = self.tracefs()?.join("available_filter_functions");
        let wanted = Wanted::new(wanted);
        let mut found = BTreeMap::new();
        let read = each_line(&path, |line| {
            let end = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
            if let Some(name) = wanted.pick(&line[..end]) {
                found.entry(name).or_insert_with(|| module(&line[end..]));
            }
        });
        match read {
            Ok(()) => Ok(found),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(TracefsError::NoFunctionTracer),
            Err(e) => Err(TracefsError::NoFunctions(e.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use proptest::prelude::any;
    use proptest::{prop_assert, proptest};
    use tempfile::TempDir;

    const COMMON: &str = "\
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

";
    const SETUP: &str = r#"	field:char disk[32];	offset:8;	size:32;	signed:0;
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
    const COMPLETE: &str = r#"	field:char disk[32];	offset:8;	size:32;	signed:0;
	field:int ctrl_id;	offset:40;	size:4;	signed:1;
	field:int qid;	offset:44;	size:4;	signed:1;
	field:int cid;	offset:48;	size:4;	signed:1;
	field:u64 result;	offset:56;	size:8;	signed:0;
	field:u8 retries;	offset:64;	size:1;	signed:0;
	field:u8 flags;	offset:65;	size:1;	signed:0;
	field:u16 status;	offset:66;	size:2;	signed:0;

print fmt: "nvme%d: %sqid=%d, cmdid=%u, res=%#llx, retries=%u, flags=0x%x, status=%#x", REC->ctrl_id, nvme_trace_disk_name(p, REC->disk), REC->qid, REC->cid, REC->result, REC->retries, REC->flags, REC->status
"#;

    fn format_of(name: &str, id: u32, fields: &str) -> String {
        format!("name: {name}\nID: {id}\n{COMMON}{fields}")
    }

    fn at(offset: u32, size: u32, signed: bool) -> Field {
        Field { offset, size, signed }
    }

    #[test]
    fn the_formats_of_the_nvme_events_give_their_fields() {
        let setup = EventFormat::parse(&format_of("nvme_setup_cmd", 1337, SETUP)).unwrap();
        assert_eq!(setup.id, 1337);
        assert_eq!(setup.fields.len(), 14);
        assert_eq!(setup.fields["disk"], at(8, 32, false));
        assert_eq!(setup.fields["ctrl_id"], at(40, 4, true));
        assert_eq!(setup.fields["cid"], at(52, 2, false));
        assert_eq!(setup.fields["cdw10"], at(61, 24, false));
        let complete = EventFormat::parse(&format_of("nvme_complete_rq", 1338, COMPLETE)).unwrap();
        assert_eq!(complete.fields["cid"], at(48, 4, true));
        assert_eq!(complete.fields["result"], at(56, 8, false));
        assert_eq!(complete.fields["common_pid"], at(4, 4, true));
    }

    #[test]
    fn declarations_of_every_kind_give_their_name() {
        for (text, name) in [
            ("__data_loc char[] comm", "comm"),
            ("char rwbs[10]", "rwbs"),
            ("u8 cdw10[4 * 6]", "cdw10"),
            ("const void * call_site", "call_site"),
            ("const char *name", "name"),
            ("bool metadata", "metadata"),
        ] {
            assert_eq!(declared(text), Some(name), "{text}");
        }
        assert_eq!(declared(""), None);
        assert_eq!(declared("[]"), None);
    }

    #[test]
    fn a_field_without_a_place_is_left_out_and_a_text_without_id_is_no_format() {
        let text = "ID: 7\n\tfield:u8 a;\tsize:1;\n\tfield:u8 b;\toffset:99999999999;\tsize:1;\n";
        assert!(EventFormat::parse(text).unwrap().fields.is_empty());
        assert_eq!(EventFormat::parse("ID: many\n"), None);
        assert_eq!(EventFormat::parse(""), None);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in any::<String>()) {
            let _ = EventFormat::parse(&text);
        }

        #[test]
        fn a_format_cut_or_changed_anywhere_is_parsed_or_refused(
            cut in 0..900_usize, at in 0..900_usize, with in "[\\[\\];:*\t\n 0-9a]{0,4}",
        ) {
            let mut text = format_of("nvme_setup_cmd", 1, SETUP);
            text.truncate(cut);
            text.insert_str(at.min(text.len()), &with);
            if let Some(format) = EventFormat::parse(&text) {
                prop_assert!(format.fields.values().all(|f| f.size > 0));
            }
        }
    }

    #[test]
    fn events_are_found_in_either_place_and_what_is_missing_says_why() {
        for place in PLACES {
            let root = TempDir::new().unwrap();
            let system = System::at(root.path());
            put(
                &root,
                &format!("{place}/events/nvme/nvme_setup_cmd/format"),
                &format_of("nvme_setup_cmd", 5, SETUP),
            );
            put(&root, &format!("{place}/events/nvme/nvme_sq/format"), "garbage");
            assert_eq!(system.event_format("nvme", "nvme_setup_cmd").unwrap().id, 5);
            let why =
                |category, event| system.event_format(category, event).unwrap_err().to_string();
            assert!(why("nvme", "nvme_sq").contains("no id"));
            assert!(why("nvme", "nope").contains("no event nvme:nope"));
            assert!(why("block", "block_rq_issue").contains("no events of `block`"));
        }
    }

    #[test]
    fn a_missing_tracefs_and_an_empty_one_have_different_reasons() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        let why = || system.event_format("nvme", "nvme_sq").unwrap_err().to_string();
        assert!(why().contains("nowhere"), "{}", why());
        put(&root, "proc/mounts", "sysfs /sys sysfs rw 0 0\n");
        assert!(why().contains("not mounted"), "{}", why());
        put(&root, "proc/mounts", "none /sys/kernel/tracing tracefs rw 0 0\n");
        assert!(why().contains("lockdown"), "{}", why());
    }

    #[test]
    fn filter_functions_come_with_their_module_and_their_clones() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        put(&root, "sys/kernel/tracing/events/enable", "0\n");
        let why = system.filter_functions(&["nvme_irq"]).unwrap_err();
        assert!(matches!(why, TracefsError::NoFunctionTracer), "{why}");
        put(
            &root,
            "sys/kernel/tracing/available_filter_functions",
            "blk_mq_start_request\nblk_mq_start_request_not\nnvme_irq [nvme]\n\
             nvme_prep_rq.part.0 [nvme]\nnvme_poll [nvme]\n__ftrace_invalid_address___64\n",
        );
        let found = system
            .filter_functions(&["blk_mq_start_request", "nvme_irq", "nvme_prep_rq", "gone"])
            .unwrap();
        let nvme = Some("nvme".to_owned());
        let want = BTreeMap::from([
            ("blk_mq_start_request".into(), None),
            ("nvme_irq".into(), nvme.clone()),
            ("nvme_prep_rq.part.0".into(), nvme),
        ]);
        assert_eq!(found, want);
    }
}
