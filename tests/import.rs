// SPDX-License-Identifier: MIT OR Apache-2.0
//! `import`: what each kind of text gives, and what is said of what it lacks.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::{objects, run};
use crate::live::of;

/// The report of an import, and the lines of `view --json` of its recording.
fn imported(text: &str, view: &str) -> (Value, Vec<Value>) {
    let dir = TempDir::new().unwrap();
    let [from, to] = ["text", "nvd"].map(|name| dir.path().join(name).display().to_string());
    fs::write(&from, text).unwrap();
    let ran = run(&format!("import {from} -o {to} --json"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    // as people read it
    let shown = run(&format!("import {from}"));
    let wide = shown.out.lines().find(|line| line.chars().count() > 80);
    assert_eq!(wide, None);
    (report, objects(&format!("{view} --json --from {to}")))
}

/// An object has at least these fields, and its objects theirs.
fn assert_has(object: &Value, some: Value) {
    for (key, value) in some.as_object().unwrap() {
        match value {
            Value::Object(_) => assert_has(&object[key], value.clone()),
            _ => assert_eq!(object[key], *value, "{key}: {object}"),
        }
    }
}

fn lacks(report: &Value, what: &str) {
    let all = report["lacks"].as_array().unwrap().iter();
    assert!(all.clone().any(|l| l.as_str().unwrap().contains(what)), "no `{what}`: {report}");
}

fn kinds(report: &Value) -> Vec<(&str, u64)> {
    let all = report["unread"].as_array().unwrap().iter();
    all.map(|u| (u["kind"].as_str().unwrap(), u["count"].as_u64().unwrap())).collect()
}

fn stages(command: &Value) -> Vec<(&str, u64)> {
    let all = command["stages"].as_array().unwrap().iter();
    all.map(|s| (s["name"].as_str().unwrap(), s["ns"].as_u64().unwrap())).collect()
}

#[test]
fn ftrace_gives_commands_with_the_stages_that_its_events_make() {
    let text = include_str!("import/ftrace.txt");
    let (report, lines) = imported(text, "trace --stages=fine");
    let commands = of(&lines, "command");
    assert_eq!((commands.len(), &report["ledger"]["matched"]), (2, &2.into()));
    let write = commands[0];
    let fields = json!({ "slba": 4096, "nlb": 16, "fua": true });
    assert_has(
        write,
        json!({ "disk": "nvme2n1", "qid": 1, "cid": 4101, "opcode": "write", "fields": fields }),
    );
    assert_has(
        write,
        json!({ "comm": "writer", "pid": 300, "bytes": 8192, "driver_ns": 4_005_000 }),
    );
    let want = [
        ("queue", 30_000),
        ("submit.map", 2000),
        ("submit.ring+device", 3_998_000),
        ("complete", 5000),
    ];
    assert_eq!(stages(write), want, "{write}");
    let status = json!({ "value": 0x371 });
    assert_has(
        commands[1],
        json!({ "opcode": "identify", "status": status, "driver_ns": 800_000_000 }),
    );
    // the third read has no end, a completion no begin; nothing is lost silently
    let ends =
        json!({ "in_flight": 1, "orphan_completions": 1, "overwritten": 0, "lost_events": 3 });
    assert_has(&report["ledger"], ends);
    assert_eq!(of(&lines, "unfinished").len(), 1);
    lacks(&report, "3 events at its start");
    lacks(&report, "submit+device");
    assert_eq!(kinds(&report), [("jbd2_run_stats", 1), ("nvme_setup_cmd, in another form", 1)]);
    let first = report["unread"][1]["first"].as_str().unwrap();
    assert!(first.contains("cmdid=x") && report["unread"][1]["line"] == 17, "{report}");
}

#[test]
fn the_example_in_the_documentation_is_real() {
    let ran = run("import tests/import/ftrace.txt");
    assert_eq!((ran.code, ran.out.is_empty()), (Some(0), false), "{}", ran.err);
    assert!(fs::read_to_string("docs/import.md").unwrap().contains(&ran.out), "{}", ran.out);
}

#[test]
fn trace_cmd_and_perf_script_give_the_same() {
    let setup = "nvme0: disk=nvme0n1, qid=3, cmdid=448, nsid=1, flags=0x0, meta=0x0, \
                 cmd=(nvme_cmd_read slba=2048, len=255, ctrl=0x0, dsmgmt=7, reftag=0)";
    let done = "nvme0: disk=nvme0n1, qid=3, cmdid=448, res=0x0, retries=1, flags=0x0, status=0x281";
    for [before, between] in [
        [
            "cpus=2\n dd-22  [002]   5.000100: nvme_setup_cmd:    ",
            "\n <idle>-0 [002]   5.000300: nvme_complete_rq:   ",
        ],
        [
            "dd    22 [002]   5.000100:  nvme:nvme_setup_cmd: ",
            "\nswapper 0 [002]  5.000300: nvme:nvme_complete_rq: ",
        ],
        [
            "dd-22 (   20) [002] d..2. 5.000100000: nvme_setup_cmd: ",
            "\n<idle>-0 (-----) [002] d.h2. 5.000300000: nvme_complete_rq: ",
        ],
    ] {
        let (report, lines) = imported(&format!("{before}{setup}{between}{done}\n"), "trace");
        let [command] = of(&lines, "command")[..] else { panic!("{lines:?}") };
        assert_has(
            command,
            json!({ "comm": "dd", "tid": 22, "cpu": 2, "driver_ns": 200_000, "retries": 1 }),
        );
        assert_has(
            command,
            json!({ "fields": { "slba": 2048, "nlb": 256 }, "status": { "value": 0x281 } }),
        );
        assert_eq!(kinds(&report), []);
        lacks(&report, "block_getrq");
    }
}

#[test]
fn perf_trace_has_no_blocks_and_hides_zeros() {
    let text = "     0.000 fio/3218 nvme:nvme_setup_cmd(disk: \"nvme1n1\", ctrl_id: 1, qid: 3, opcode: 2, \
                fctype: 1, cid: 448, nsid: 1, cdw10: 132542552314041)\n     \
                0.289 :0/0 nvme:nvme_complete_rq(disk: \"nvme1n1\", ctrl_id: 1, qid: 3, cid: 448)\n     \
                0.400 (         ): fio/3218 nvme:nvme_setup_cmd(disk: \"nvme1n1\", ctrl_id: 1, qid: 3, cid: 9, nsid: 1)\n     \
                0.500 :0/0 nvme:nvme_complete_rq(disk: \"nvme1n1\", ctrl_id: 1, qid: 3, cid: 9, status: 2)\n";
    let (report, lines) = imported(text, "trace");
    let [read, flush] = of(&lines, "command")[..] else { panic!("{lines:?}") };
    let status = json!({ "value": 0 });
    assert_has(
        read,
        json!({ "ctrl": "nvme1", "opcode": "read", "driver_ns": 289_000, "status": status }),
    );
    assert_eq!(read["fields"], json!({}), "blocks that are not there: {read}");
    assert_has(flush, json!({ "opcode": "flush", "status": { "value": 2 } }));
    lacks(&report, "the blocks and sizes of 2 commands");
    let (_, rows) = imported(text, "pattern");
    assert_eq!(rows[0]["rows"], json!([]), "{rows:?}");
}

#[test]
fn blkparse_gives_the_time_from_issue_to_completion() {
    let text = "259,1    2        1     0.000000000  1701  Q FWFSM 8388872 + 32 [xfs]\n\
                259,1    2        3     0.000012000   211  D  FN [kworker/2:1H]\n\
                259,1    2        4     0.000230500     0  C  FN 0 [0]\n\
                259,1    2        5     0.000241000   211  D  WFSM 8388872 + 32 [kworker/2:1H]\n\
                259,1    2        6     0.000640000     0  C  WFSM 8388872 + 32 [0]\n\
                259,1    2        7     0.000650000     0  C  R 64 + 8 [0]\n\
                CPU0 (259,1):\n";
    let (report, lines) = imported(text, "trace");
    let [flush, write] = of(&lines, "command")[..] else { panic!("{lines:?}") };
    assert_has(flush, json!({ "opcode": "flush", "driver_ns": 218_500 }));
    assert_has(
        write,
        json!({ "opcode": "write", "driver_ns": 399_000, "qid": null, "disk": "259:1" }),
    );
    assert_eq!(stages(write), [("submit+device+complete", 399_000)]);
    let fields = json!({ "slba": 8_388_872, "nlb": 32 });
    assert_has(write, json!({ "fields": fields, "bytes": 32 * 512, "comm": "kworker/2:1H" }));
    assert_has(&report, json!({ "ledger": { "orphan_completions": 1 }, "other": 1 }));
    lacks(&report, "NVMe fields");
    assert_eq!(kinds(&report), [("something else", 1)]);
}

#[test]
fn a_requeued_request_is_issued_again_and_passthrough_is_no_flush() {
    let text = "259,1 2 1 0.000010000 211 D R 64 + 8 [fio]\n\
                259,1 2 2 0.000020000 211 R R 64 + 8 [0]\n\
                259,1 2 3 0.000030000 211 D R 64 + 8 [fio]\n\
                259,1 2 4 0.000040000 211 D FN [kworker/2:1H]\n\
                259,1 2 5 0.000050000 300 D N 512 [nvme]\n\
                259,1 2 6 0.000060000 0 C N 0 [0]\n\
                259,1 2 7 0.000070000 0 C FN 0 [0]\n\
                259,1 2 8 0.000090000 0 C R 64 + 8 [0]\n";
    let (report, lines) = imported(text, "trace");
    let [flush, read] = of(&lines, "command")[..] else { panic!("{report}") };
    assert_has(flush, json!({ "opcode": "flush", "driver_ns": 30_000 }));
    assert_has(read, json!({ "opcode": "read", "driver_ns": 60_000 }));
    assert_has(&report["ledger"], json!({ "overwritten": 0, "orphan_completions": 0 }));
    assert_eq!(kinds(&report), [("a request without sectors", 2)]);
    // also where the recording is read
    assert_eq!(of(&lines, "end")[0]["ledger"]["undecodable"], 2, "{lines:?}");
}

const QEMU: &str = "\
pci_nvme_admin_cmd cid 28 sqid 0 opc 0x6 opname 'NVME_ADM_CMD_IDENTIFY'
pci_nvme_identify cid 28 cns 0x5 ctrlid 0 csi 0x0
pci_nvme_enqueue_req_completion cid 28 cqid 0 dw0 0x0 dw1 0x0 status 0x0
pci_nvme_io_cmd cid 32770 nsid 0x1 sqid 1 opc 0x2 opname 'NVME_NVM_CMD_READ'
pci_nvme_read cid 32770 nsid 1 nlb 8 count 4096 lba 0x40
pci_nvme_enqueue_req_completion cid 32770 cqid 1 dw0 0x0 dw1 0x0 status 0x0
pci_nvme_irq_msix raising MSI-X IRQ vector 1
";

#[test]
fn a_log_of_qemu_without_times_has_an_order_and_no_latency() {
    let (report, lines) = imported(QEMU, "host trace");
    let [identify, read] = of(&lines, "command")[..] else { panic!("{lines:?}") };
    assert_has(identify, json!({ "opcode": "identify", "total_ns": null }));
    let fields = json!({ "slba": 64, "nlb": 8 });
    assert_has(read, json!({ "opcode": "read", "fields": fields, "total_ns": null }));
    assert!(read["time_ns"].as_u64() > identify["time_ns"].as_u64());
    lacks(&report, "start QEMU with -msg timestamp=on");
    assert_has(&report, json!({ "resolution_ns": 0, "other": 1 }));
    let (_, rows) = imported(QEMU, "host latency");
    for row in rows[0]["rows"].as_array().unwrap() {
        assert_has(row, json!({ "count": 1, "unmeasured": 1 }));
    }
}

#[test]
fn the_times_of_old_and_new_qemu_are_read() {
    let old = |n: usize| format!("7@1788927128.49{n}000:");
    let new = |n: usize| format!("2026-09-09T04:12:08.49{n}000Z ");
    for stamp in [&old as &dyn Fn(usize) -> String, &new] {
        let text: String =
            QEMU.lines().enumerate().map(|(n, line)| format!("{}{line}\n", stamp(n))).collect();
        let (report, lines) = imported(&text, "host trace");
        let times = json!({ "time_ns": 1_788_927_128_495_000_000_u64, "total_ns": 2_000_000 });
        assert_has(of(&lines, "command")[1], times);
        assert_eq!(report["resolution_ns"], 1000);
        lacks(&report, "answers of the storage: pci_nvme_rw_cb");
    }
}

#[test]
fn a_log_of_qemu_without_begins_says_which_events_give_them() {
    let ends: String = QEMU.lines().filter(|l| !l.contains("_cmd ")).collect::<Vec<_>>().join("\n");
    let other = "7@1788927128.493679:apic_mem_writel 0x380 = 0x17d0f064";
    let (report, lines) = imported(
        &ends.replace("pci_", "7@1788927128.493000:pci_").replace("\n", &format!("\n{other}\n")),
        "host trace",
    );
    assert_eq!(of(&lines, "command").len(), 0, "their queues and opcodes are not known");
    assert_eq!(of(&lines, "interrupt").len(), 1);
    assert_eq!(report["ledger"]["orphan_completions"], 2);
    lacks(&report, "starts of commands, with their opcodes: pci_nvme_io_cmd");
    assert_eq!(kinds(&report), [("apic_mem_writel", 4)]);
}

/// Also the recording says that lines were not understood.
#[test]
fn malformed_lines_of_a_log_are_in_the_ledger_of_the_recording() {
    let text = QEMU.to_owned() + "pci_nvme_irq_msix raising MSI-X IRQ vector of tomorrow\n";
    let (report, lines) = imported(&text, "host trace");
    assert_eq!(kinds(&report), [("pci_nvme_irq_msix, in another form", 1)]);
    assert_eq!(of(&lines, "host_end")[0]["ledger"]["undecodable"], 1, "{lines:?}");
}

#[test]
fn spdk_gives_the_states_of_each_request() {
    let text = "28:   6026.658 ( 12656064)     RDMA_REQ_NEW                    id:    r3622\n\
                28:   6026.820 ( 12656406)     RDMA_REQ_EXECUTING              id:    r3622            time:  0.162\n\
                28:   6026.992 ( 12656766)     RDMA_REQ_EXECUTED               id:    r3622            time:  0.334\n\
                28:   6027.115 ( 12657024)     RDMA_REQ_COMPLETING             id:    r3622            time:  0.457\n\
                28:   6027.471 ( 12657770)     RDMA_REQ_COMPLETED              id:    r3622            time:  0.813\n\
                TSC Rate: 2100000000\n";
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("text").display().to_string();
    fs::write(&file, text).unwrap();
    let report = objects(&format!("import {file} --json")).remove(0);
    let states = report["rows"].as_array().unwrap().iter();
    let states: Vec<_> =
        states.map(|s| (s["name"].as_str().unwrap(), s["max_ns"].as_u64().unwrap())).collect();
    assert_eq!(states[1..3], [("RDMA_REQ_EXECUTING", 162), ("RDMA_REQ_EXECUTED", 334)]);
    lacks(&report, "no ids");
    assert_eq!(kinds(&report), [("something else", 1)]);
    let report = objects("import tests/host/spdk_trace.json --json").remove(0);
    assert_eq!(report["rows"].as_array().unwrap().len() as u64, 6, "{report}");
    run(&format!("import {file} -o {file}.nvd")).refuses(2, "no commands to record");
}

/// The report on a text of KVM.
fn of_kvm(text: &str) -> Value {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("kvm");
    fs::write(&file, text).unwrap();
    let words = format!("import {} --bar 0xfebd0000-0xfebd3fff --json", file.display());
    objects(&words).remove(0)
}

#[test]
fn old_text_of_kvm_does_not_know_returns_to_user_space() {
    let text = " kvm-56  [000] 19.000178: kvm_entry: vcpu 0\n \
                kvm-56  [000] 19.000181: kvm_exit: reason ept_violation rip 0xc011518c\n \
                kvm-56  [000] 19.000183: kvm_mmio: mmio write len 4 gpa 0xfebd1008 val 0x1\n \
                kvm-56  [000] 19.000185: kvm_entry: vcpu 0\n";
    let report = of_kvm(text);
    assert_has(&report["rows"][0], json!({ "name": "SQ tail of queue 1", "max_ns": 4000 }));
    lacks(&report, "kvm_userspace_exit");
}

/// `perf trace` prints the fields of an event, and none that is zero.
#[test]
fn doorbells_are_read_from_perf_trace() {
    let text = "  0.000 CPU 0/KVM/56 kvm:kvm_exit(exit_reason: 48, guest_rip: 0xc011518c, isa: 1)\n  \
                0.002 CPU 0/KVM/56 kvm:kvm_mmio(type: 2, len: 4, gpa: 4273803272, val: 1)\n  \
                0.003 CPU 0/KVM/56 kvm:kvm_mmio(type: 1, len: 4, gpa: 4273803276, val: 1)\n  \
                0.004 CPU 0/KVM/56 kvm:kvm_userspace_exit(reason: 6)\n  \
                0.007 CPU 0/KVM/56 kvm:kvm_entry(rip: 0xc011518c)\n";
    let report = of_kvm(text);
    let row = json!({ "name": "SQ tail of queue 1, in user space", "count": 1, "max_ns": 7000 });
    assert_has(&report["rows"][0], row);
    assert_eq!((&report["ledger"]["matched"], kinds(&report)), (&1.into(), vec![]));
}

const SETUP: &str =
    "nvme_setup_cmd: nvme0: disk=nvme0n1, qid=1, cmdid=7, nsid=1, flags=0x0, meta=0x0, cmd=";
const READ: &str = "(nvme_cmd_read slba=8, len=7, ctrl=0x0, dsmgmt=0, reftag=0)";
const DONE: &str = "nvme_complete_rq: nvme0: disk=nvme0n1, qid=1, cmdid=7, res=0x0, retries=0, flags=0x0, status=0x0";

/// An ftrace text with these events, a second apart.
fn ftrace(events: &[String]) -> String {
    let line = |(n, event): (usize, &String)| {
        format!("          reader-301     [001] .....    {}.000000: {event}\n", 50 + n)
    };
    events.iter().enumerate().map(line).collect()
}

/// nvme_setup_cmd of this disk, block_getrq and block_rq_issue of this device number.
fn request(disk: u32, device: &str, slba: u64, cid: u16) -> [String; 3] {
    let setup = SETUP.replace("nvme0", &format!("nvme{disk}"));
    let setup = setup.replace("cmdid=7", &format!("cmdid={cid}"));
    let read = READ.replace("slba=8", &format!("slba={slba}"));
    [
        format!("block_getrq: {device} R {slba} + 8 [reader]"),
        setup + &read,
        format!("block_rq_issue: {device} R 4096 () {slba} + 8 none,0,0 [reader]"),
    ]
}

fn done(disk: u32, cid: u16) -> String {
    DONE.replace("nvme0", &format!("nvme{disk}")).replace("cmdid=7", &format!("cmdid={cid}"))
}

/// The sectors of several disks are the same numbers.
#[test]
fn a_request_belongs_to_the_command_of_its_own_disk() {
    let [get_a, set_a, issue_a] = request(0, "259,0", 4096, 1);
    let [get_b, set_b, issue_b] = request(1, "259,3", 4096, 2);
    let sda = "block_getrq: 8,0 R 4096 + 8 [reader]".to_owned();
    let [get_c, set_c, issue_c] = request(0, "259,0", 64, 3);
    let [get_d, set_d, issue_d] = request(1, "259,3", 128, 4);
    // a mirror: both disks are asked for the same sectors
    let [get_e, set_e, issue_e] = request(0, "259,0", 8000, 5);
    let [get_f, set_f, issue_f] = request(1, "259,3", 8000, 6);
    let sda_more = (1..4).map(|n| format!("block_getrq: 8,0 R {n} + 8 [reader]"));
    let mut events: Vec<String> = sda_more.collect();
    events.extend([get_c, set_c, issue_c, get_d, set_d, issue_d]);
    events.extend([sda, get_a, set_a, issue_a, get_b, set_b, issue_b]);
    events.extend([get_e, get_f, set_f, issue_f, set_e, issue_e]);
    events.extend([(0, 1), (1, 2), (0, 3), (1, 4), (0, 5), (1, 6)].map(|(d, c)| done(d, c)));
    let (report, lines) = imported(&ftrace(&events), "trace --stages=fine");
    let commands = of(&lines, "command");
    assert_eq!(commands.len(), 6, "{report}");
    for (cid, queue) in [(1, 1), (2, 1), (3, 1), (4, 1), (5, 4), (6, 1)] {
        let command = commands.iter().find(|c| c["cid"] == cid).unwrap();
        let want = [("queue", queue * 1_000_000_000), ("submit.map", 1_000_000_000)];
        assert_eq!(stages(command)[..2], want, "{command}");
    }
}

/// A setup takes the allocations that fit it, so that none is left for a later command.
#[test]
fn two_allocations_of_a_sector_are_of_no_command_and_are_forgotten() {
    let [get, set, _] = request(0, "259,0", 4096, 7);
    let mut events = vec![get.clone(), get.clone(), set.clone(), DONE.to_owned()];
    events.extend([get, set, DONE.to_owned()]);
    let (report, lines) = imported(&ftrace(&events), "trace");
    let [first, second] = of(&lines, "command")[..] else { panic!("{report}") };
    assert_eq!(stages(first)[0].0, "submit+device+complete", "{first}");
    assert_eq!(stages(second)[0], ("queue", 1_000_000_000), "{second}");
    lacks(&report, "the allocation of 1 command");
}

/// Two CQEs, and then the completions: neither is known, and the CQE after them is not of the second.
#[test]
fn a_completion_takes_no_cqe_of_another_command() {
    let set = |cid| request(0, "259,0", 4096, cid)[1].clone();
    let cqe = || "nvme_sq: nvme0: disk=nvme0n1, qid=1, head=1, tail=2".to_owned();
    let mut events = vec![set(1), set(2), set(3), cqe(), cqe(), done(0, 1)];
    events.extend([cqe(), done(0, 2), done(0, 3), set(4), cqe(), done(0, 4)]);
    // the driver aborts a command, which has no CQE
    events.extend([set(5), set(6), cqe(), done(0, 6).replace("status=0x0", "status=0x371")]);
    events.push(done(0, 5));
    let (report, lines) = imported(&ftrace(&events), "trace");
    let with_cqe = of(&lines, "command").into_iter().filter(|c| stages(c).len() == 2);
    let with_cqe: Vec<_> = with_cqe.map(|c| c["cid"].as_u64().unwrap()).collect();
    assert_eq!(with_cqe, [4, 5], "{report}");
}

/// Other events between a CQE and its completion are not commands' ends.
#[test]
fn a_line_of_another_event_takes_no_cqe_away() {
    let set = request(0, "259,0", 4096, 1)[1].clone();
    let cqe = "nvme_sq: nvme0: disk=nvme0n1, qid=1, head=1, tail=2".to_owned();
    let other = "block_bio_queue: 259,0 R 8 + 8 [fio]".to_owned();
    let (report, lines) = imported(&ftrace(&[set, cqe, other, done(0, 1)]), "trace");
    let [command] = of(&lines, "command")[..] else { panic!("{report}") };
    assert_eq!(stages(command).len(), 2, "{command}");
}

/// Generation 0 is one like the others, if completions have them.
#[test]
fn an_end_belongs_to_the_command_with_its_generation() {
    let set = |cid| request(0, "259,0", 4096, cid)[1].clone();
    let events = [set(0x2007), done(0, 0x7), set(0x1008), done(0, 0x1008)];
    let (report, lines) = imported(&ftrace(&events), "trace");
    let [command] = of(&lines, "command")[..] else { panic!("{report}") };
    assert_eq!(
        (&command["cid"], &report["ledger"]["orphan_completions"]),
        (&0x1008.into(), &1.into())
    );
    // kernels that print no generation at the end
    let (report, _) = imported(&ftrace(&[set(0x2007), done(0, 0x7)]), "trace");
    assert_eq!(report["ledger"]["matched"], 1, "{report}");
}

/// A command that is not understood has taken the tag of the one before: that did not end with it.
#[test]
fn a_setup_that_is_not_understood_ends_nothing() {
    let unknown = "(nvme_cmd_of_tomorrow x=1)";
    let events = [format!("{SETUP}{READ}"), format!("{SETUP}{unknown}"), DONE.to_owned()];
    let (report, lines) = imported(&ftrace(&events), "trace");
    assert_eq!(of(&lines, "command").len(), 0, "{report}");
    let whole = [format!("{SETUP}{READ}"), DONE.to_owned()];
    let (_, lines) = imported(&ftrace(&whole), "trace");
    assert_eq!(of(&lines, "command")[0]["driver_ns"], 1_000_000_000);
}

/// To look for a time after each colon of a long line takes time that grows with its square.
#[test]
fn a_line_of_a_megabyte_is_not_understood_and_takes_no_minutes() {
    let mut text = ftrace(&[format!("{SETUP}{READ}"), DONE.to_owned()]);
    text += &":".repeat(1 << 20);
    text += "\n0.1 ";
    text += &"(".repeat(1 << 20);
    let dir = TempDir::new().unwrap();
    let from = dir.path().join("text").display().to_string();
    fs::write(&from, text).unwrap();
    let report = objects(&format!("import {from} --json")).remove(0);
    assert_eq!(report["ledger"]["matched"], 1, "{report}");
    assert_eq!(kinds(&report).iter().map(|(_, count)| count).sum::<u64>(), 2, "{report}");
}

/// A text does not say what is missing before and after it.
#[test]
fn no_import_is_exact() {
    let dir = TempDir::new().unwrap();
    let to = dir.path().join("a.nvd").display().to_string();
    for (text, view, says) in [
        ("tests/host/qemu.log", "host latency", "what its tracer lost; 10 commands in the text"),
        ("tests/import/ftrace.txt", "latency", "accuracy  DEGRADED: 3 events lost"),
    ] {
        assert_eq!(run(&format!("import {text} -o {to} --force")).code, Some(0));
        let ran = run(&format!("{view} --from {to}"));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        let said = ran.out + &ran.err;
        assert!(said.contains(says) && !said.contains("exact"), "{text}: {said}");
    }
}

/// A program that calls it can tell that there was nothing to read.
#[test]
fn a_text_without_a_command_ends_with_an_error_after_the_report() {
    let dir = TempDir::new().unwrap();
    let from = dir.path().join("text").display().to_string();
    for (text, code) in [
        ("pci_nvme_irq_msix raising MSI-X IRQ vector 1\n".to_owned(), 1),
        (ftrace(&[DONE.to_owned()]), 1),
        (ftrace(&[format!("{SETUP}{READ}")]), 0),
    ] {
        fs::write(&from, &text).unwrap();
        let ran = run(&format!("import {from}"));
        assert_eq!(ran.code, Some(code), "{text}{}", ran.err);
        assert!(ran.out.starts_with("format "), "{}", ran.out);
        let says = format!("nvme-deep: {from}: it has no command\n");
        assert_eq!(ran.err, if code == 1 { says } else { String::new() });
    }
}

#[test]
fn a_file_that_is_no_text_is_named_with_the_program_that_prints_one() {
    let dir = TempDir::new().unwrap();
    let from = dir.path().join("file").display().to_string();
    // struct blk_io_trace begins with its magic number and version, 0x65617407, in the order of the machine
    let blktrace = 0x6561_7407_u32.to_ne_bytes();
    for (bytes, says) in [
        (&b"\x17\x08Dtracing6\0"[..], "`trace-cmd report FILE`"),
        (b"PERFILE2h\0\0\0", "`perf script -i FILE`"),
        (&[blktrace.as_slice(), &[1, 0, 0, 0, 0xff]].concat(), "`blkparse -i FILE`"),
        (b"\x1f\x8b\x08\0\0", "`zcat FILE`"),
        (b"", "it is empty"),
        (b"\n \n", "it is empty"),
        (b"\x7fELF\x02", "no line of it has a known format"),
    ] {
        fs::write(&from, bytes).unwrap();
        run(&format!("import {from}")).refuses(2, says);
    }
}

#[test]
fn a_text_without_one_event_that_can_be_read_makes_no_recording() {
    let dir = TempDir::new().unwrap();
    let [from, to] = ["text", "nvd"].map(|name| dir.path().join(name).display().to_string());
    fs::write(&from, ftrace(&["nvme_setup_cmd: of another form".to_owned()])).unwrap();
    run(&format!("import {from} -o {to}")).refuses(2, "no event of the text can be read");
    assert!(!Path::new(&to).exists());
}
