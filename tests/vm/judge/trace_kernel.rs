// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a trace with the kernel's own record of nvme/* (tests/vm/guest/record.sh).

use std::collections::BTreeMap;

use serde_json::Value;

use super::guest::Outcome;
use super::json::{number, text};
use super::trace_read::{TraceRun, at, leading_number};

/// An event as the kernel prints it.
#[derive(Clone, Debug)]
pub struct KernelEvent {
    /// Its time, to the microsecond.
    pub at_ns: u64,
    /// The thread's name; `None` if the kernel prints `<...>`.
    pub comm: Option<String>,
    /// The thread id.
    pub tid: u64,
    /// The CPU.
    pub cpu: u64,
    /// `nvme_setup_cmd` and the like.
    pub event: String,
    /// `nvme0`.
    pub ctrl: String,
    /// The rest of the line.
    pub rest: String,
}

/// Fields with another meaning in the kernel's text than in ours, as explained at their tables in
/// src/nvme/decode: `sv` is another bit, `all` and `pr` include reserved bits above them.
const OTHERWISE: [&str; 3] = ["sv", "all", "pr"];

/// The kernel's names of commands (drivers/nvme/host/trace.h), with their opcodes.
const ADMIN: &str = "\
    delete_sq=0x00 create_sq=0x01 get_log_page=0x02 delete_cq=0x04 create_cq=0x05 identify=0x06 \
    abort_cmd=0x08 set_features=0x09 get_features=0x0a async_event=0x0c ns_mgmt=0x0d \
    activate_fw=0x10 download_fw=0x11 dev_self_test=0x14 ns_attach=0x15 keep_alive=0x18 \
    directive_send=0x19 directive_recv=0x1a virtual_mgmt=0x1c nvme_mi_send=0x1d nvme_mi_recv=0x1e \
    dbbuf=0x7c format_nvm=0x80 security_send=0x81 security_recv=0x82 sanitize_nvm=0x84 \
    get_lba_status=0x86";
const IO: &str = "\
    flush=0x00 write=0x01 read=0x02 write_uncor=0x04 compare=0x05 write_zeroes=0x08 dsm=0x09 \
    verify=0x0c resv_register=0x0d resv_report=0x0e resv_acquire=0x11 io_mgmt_recv=0x12 \
    resv_release=0x15 copy=0x19 io_mgmt_send=0x1d zone_mgmt_send=0x79 zone_mgmt_recv=0x7a \
    zone_append=0x7d";

impl KernelEvent {
    /// `   nvme-614   [000] .....    21.345678: nvme_setup_cmd: nvme0: qid=0, ...`
    fn parse(line: &str) -> Option<Self> {
        let (who, rest) = line.split_once(" [")?;
        let (comm, tid) = who.trim().rsplit_once('-')?;
        let mut words = rest.splitn(2, "] ");
        let cpu = words.next()?.parse().ok()?;
        let rest = words.next()?.trim_start();
        let (_, rest) = rest.split_once(' ')?;
        let (time, rest) = rest.trim_start().split_once(": ")?;
        let (seconds, micros) = time.split_once('.')?;
        let micros: u64 = micros.parse().ok()?;
        let (event, rest) = rest.split_once(": ")?;
        let (ctrl, rest) = rest.split_once(": ")?;
        Some(Self {
            at_ns: seconds.parse::<u64>().ok()? * 1_000_000_000 + micros * 1000,
            comm: (comm != "<...>").then(|| comm.to_owned()),
            tid: tid.trim().parse().ok()?,
            cpu,
            event: event.to_owned(),
            ctrl: ctrl.to_owned(),
            rest: rest.to_owned(),
        })
    }

    fn head(&self) -> (&str, Option<(&str, &str)>) {
        let command = self.rest.split_once(", cmd=(");
        let command = command.map(|(head, cmd)| (head, cmd.strip_suffix(')').unwrap()));
        match command {
            Some((head, cmd)) => (head, Some(cmd.split_once(' ').unwrap_or((cmd, "")))),
            None => (&self.rest, None),
        }
    }

    /// The fields before the command.
    pub fn fields(&self) -> BTreeMap<&str, &str> {
        self.head().0.split(", ").filter_map(|f| f.split_once('=')).collect()
    }

    /// The name of the command and its fields.
    pub fn command(&self) -> (&str, BTreeMap<&str, &str>) {
        let (name, fields) = self.head().1.unwrap_or(("", ""));
        let fields = fields.split(", ").filter_map(|f| f.split_once('='));
        (name, fields.collect())
    }
}

/// The kernel's record of a case. It must be complete.
pub fn record(outcome: &Outcome, case: &str) -> Vec<KernelEvent> {
    for line in outcome.text(case, "kernel.stats").lines() {
        for lost in ["overrun: ", "commit overrun: ", "dropped events: "] {
            if let Some(n) = line.strip_prefix(lost) {
                assert_eq!(n.trim(), "0", "{case}: the kernel's record: {line}");
            }
        }
    }
    let text = outcome.text(case, "kernel");
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    let events = lines.map(|l| KernelEvent::parse(l).unwrap_or_else(|| panic!("{case}: {l}")));
    let mut events: Vec<_> = events.collect();
    events.sort_by_key(|e| e.at_ns);
    assert!(!events.is_empty(), "{case}: the kernel recorded nothing");
    events
}

fn code_of(name: &str, admin: bool) -> Option<u64> {
    let prefix = if admin { "nvme_admin_" } else { "nvme_cmd_" };
    let mut table = if admin { ADMIN } else { IO }.split(' ');
    let Some(name) = name.strip_prefix(prefix) else {
        return leading_number(name); // an opcode without a name
    };
    table.find_map(|entry| leading_number(entry.strip_prefix(name)?.strip_prefix('=')?))
}

/// CDW10 to CDW15 of a command that the kernel can't decode, from its dump of 24 bytes.
fn dwords(dump: &str) -> Vec<u64> {
    let bytes: Vec<u64> =
        dump.split_whitespace().map(|b| u64::from_str_radix(b, 16).unwrap()).collect();
    bytes.chunks(4).map(|b| b.iter().rev().fold(0, |dword, byte| dword << 8 | byte)).collect()
}

/// The number in a field of a trace: `8`, `true`, `{"code":8,"name":..}`.
pub fn value_of(field: &Value) -> Option<u64> {
    let flag = field.as_bool().map(u64::from);
    flag.or_else(|| field.as_u64()).or_else(|| field["code"].as_u64())
}

/// Compares the two records of one event: every field that both have.
fn assert_same(kernel: &KernelEvent, ours: &Value, bare_tags: bool) {
    let both = || format!("{kernel:?}\n{ours}");
    assert_eq!(kernel.ctrl, text(ours, "ctrl"), "{}", both());
    let disk = kernel.fields().get("disk").copied();
    assert_eq!(disk, ours["disk"].as_str(), "{}", both());
    for (name, value) in kernel.fields() {
        let ours = match name {
            "disk" => continue,
            "cmdid" => number(ours, "cid") & if bare_tags { 0xfff } else { 0xffff },
            "meta" => value_of(&ours["metadata"]).unwrap(),
            "head" => number(ours, "sq_head"),
            "tail" => number(ours, "sq_tail"),
            "res" | "NVME_AEN" => number(ours, "result"),
            "status" => number(&ours["status"], "value"),
            "flags" if kernel.event == "nvme_complete_rq" => number(ours, "request_flags"),
            name => number(ours, name),
        };
        assert_eq!(leading_number(value), Some(ours), "{name}: {}", both());
    }
    if kernel.event != "nvme_setup_cmd" {
        return;
    }
    assert_eq!(kernel.tid, number(ours, "tid"), "{}", both());
    assert_eq!(kernel.cpu, number(ours, "cpu"), "{}", both());
    if let Some(comm) = &kernel.comm {
        assert_eq!(comm, text(ours, "comm"), "{}", both());
    }
    let (name, fields) = kernel.command();
    let admin = text(ours, "queue") == "admin";
    let code = code_of(name, admin).unwrap_or_else(|| panic!("what is {name}?"));
    assert_eq!(code, number(ours, "opcode_value"), "{}", both());
    for (name, value) in fields {
        let known = &ours["fields"];
        if name == "cdw10" && value.contains(' ') {
            for (n, dword) in (10..).zip(dwords(value)) {
                if let Some(ours) = value_of(&known[format!("cdw{n}")]) {
                    assert_eq!(ours, dword, "cdw{n}: {}", both());
                }
            }
        } else if !OTHERWISE.contains(&name) {
            let ours = value_of(&known[name]);
            assert!(ours.is_some(), "no `{name}`: {}", both());
            assert_eq!(leading_number(value), ours, "{name}: {}", both());
        }
    }
}

/// Controller, queue, and for setups the thread. Both sides must have the events of a lane in the
/// same order. Setups of different threads may differ in order: since 7.0 a task may be preempted
/// between the kernel's record and our program.
type Lane = (String, u64, u64);

/// Compares the trace with the kernel's record of the same period: it must have the same events,
/// with the same fields and times. Both must cover all commands, from the first to the last.
pub fn assert_as_the_kernel(outcome: &Outcome, case: &str, run: &TraceRun) {
    // a trace has these only on demand
    let shown = |kind: &&str| run.count(kind) > 0 || !["sq", "async_event"].contains(kind);
    let kinds = ["submit", "complete", "sq", "async_event"];
    let kinds: Vec<_> = kinds.into_iter().filter(shown).collect();
    assert_kinds_as_the_kernel(outcome, case, run, &kinds);
}

/// The same for some kinds of events.
pub fn assert_kinds_as_the_kernel(outcome: &Outcome, case: &str, run: &TraceRun, kinds: &[&str]) {
    let record = record(outcome, case);
    let bare_tags = outcome.kernel() == "5.10";
    for (event, ours) in [
        ("nvme_setup_cmd", "submit"),
        ("nvme_complete_rq", "complete"),
        ("nvme_sq", "sq"),
        ("nvme_async_event", "async_event"),
    ] {
        if !kinds.contains(&ours) {
            continue;
        }
        let mut theirs = BTreeMap::<Lane, Vec<&KernelEvent>>::new();
        for event in record.iter().filter(|e| e.event == event) {
            let qid = event.fields().get("qid").and_then(|q| leading_number(q));
            let tid = if ours == "submit" { event.tid } else { 0 };
            let lane = (event.ctrl.clone(), qid.unwrap_or(0), tid);
            theirs.entry(lane).or_default().push(event);
        }
        let mut mine = BTreeMap::<Lane, Vec<&Value>>::new();
        for event in run.of(ours) {
            let tid = event["tid"].as_u64().filter(|_| ours == "submit");
            let lane = (
                text(event, "ctrl").to_owned(),
                event["qid"].as_u64().unwrap_or(0),
                tid.unwrap_or(0),
            );
            mine.entry(lane).or_default().push(event);
        }
        let lanes = |keys: Vec<&Lane>| -> Vec<Lane> { keys.into_iter().cloned().collect() };
        assert_eq!(lanes(theirs.keys().collect()), lanes(mine.keys().collect()), "{case} {event}");
        let mut apart = Vec::new();
        for (lane, theirs) in &theirs {
            let mine = &mine[lane];
            if theirs.len() != mine.len() {
                // show the first pair that differs
                let pair = theirs.iter().zip(mine).find(|(t, m)| {
                    event != "nvme_sq"
                        && event != "nvme_async_event"
                        && t.fields().get("cmdid").and_then(|c| leading_number(c))
                            != m["cid"].as_u64()
                });
                panic!(
                    "{case} {event} {lane:?}: the kernel has {}, we have {}; from {pair:#?} on",
                    theirs.len(),
                    mine.len()
                );
            }
            for (theirs, mine) in theirs.iter().zip(mine) {
                assert_same(theirs, mine, bare_tags && event == "nvme_complete_rq");
                apart.push(theirs.at_ns.abs_diff(at(mine)));
            }
        }
        assert_at_the_same_time(apart, &format!("{case} {event}"));
    }
}

/// Both read the same clock. The emulator may stop a CPU between the two: of few events, that may be the median.
fn assert_at_the_same_time(mut apart: Vec<u64>, what: &str) {
    apart.sort_unstable();
    let most = if apart.len() < 10 { 100_000_000 } else { 2_000_000 };
    if let Some(middle) = apart.get(apart.len() / 2) {
        assert!(*middle < most, "{what}: {middle} ns apart");
    }
}
