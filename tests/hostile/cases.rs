// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files with planted texts, one directory per case.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::blocks;
use super::blocks::Block;
use super::plant::{Planted, Planter};

/// Recordings of the repository, and their names in a case.
const RECORDINGS: [(&str, &str); 10] = [
    ("tests/recordings/6.12.nvd", "a"),
    ("tests/recordings/5.10.nvd", "b"),
    ("tests/host/nvmet-guest.nvd", "guest"),
    ("tests/host/nvmet-host.nvd", "host"),
    ("tests/recordings/diagnose/discard-storm.nvd", "discard-storm"),
    ("tests/recordings/diagnose/flush-cost.nvd", "flush-cost"),
    ("tests/recordings/diagnose/errors-timeout.nvd", "errors-timeout"),
    ("tests/recordings/diagnose/path-failover.nvd", "path-failover"),
    ("tests/recordings/diagnose/scheduler.nvd", "scheduler"),
    ("tests/recordings/diagnose/tag-wait.nvd", "tag-wait"),
];

/// What the texts of a case are.
pub struct Case {
    pub name: String,
    /// Makes text `n`.
    pub text: Box<dyn Fn(usize) -> String + Sync>,
    /// Makes the bytes of the name of thread `n`.
    pub thread: Box<dyn Fn(usize) -> Vec<u8> + Sync>,
    /// The start of the name of the file `a`.
    pub file: &'static str,
    /// Words that views compare with known ones stay.
    pub keep: bool,
    /// Replaces bytes of the JSON of each block, to write what serde_json would not.
    pub patch: Option<(&'static str, &'static str)>,
    /// The program may refuse such texts.
    pub may_refuse: bool,
    /// The output must have the lines of the harmless one.
    pub compare: bool,
}

/// The files of a case.
pub struct Files {
    pub dir: TempDir,
    /// The name of the file `a`.
    pub name: String,
    pub planted: Vec<Planted>,
}

/// Settings of the machine for a recording that has none.
fn machine() -> Block {
    let disk = |name: &str| {
        json!({ "name": name, "nsid": 1, "scheduler": "none", "nr_requests": 1023, "rq_affinity": 1,
            "io_poll": false, "write_cache": "write back", "max_hw_bytes": 524_288, "max_bytes": 524_288,
            "physical_bytes": 512, "logical_bytes": 512, "io_timeout_ms": 30000 })
    };
    let controller = |instance: u32, name: &str| {
        json!({ "instance": instance, "class": "emulated", "transport": "pcie", "state": "live",
            "io_queues": 2, "depth": 1024, "vectors": 3, "shadow_doorbells": false,
            "iommu_group": "DMA-FQ", "bar": [0xfebd_4000_u32, 0xfebd_7fff_u32], "disks": [disk(name)] })
    };
    let machine = json!({ "hypervisor": "KVM", "is_virtual": true, "is_emulated": false, "cpus": 2,
        "threaded_interrupts": false, "poll_queues": 0, "io_timeout_s": 30, "iommu_strict": true,
        "controllers": [controller(0, "nvme0n1"), controller(1, "nvme1n1")] });
    Block {
        kind: blocks::MACHINE,
        events: 0,
        at_ns: 0,
        payload: serde_json::to_vec(&machine).unwrap(),
    }
}

/// The texts of an SPDK trace.
fn spdk(planter: &mut Planter<'_>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/spdk_trace.json");
    let mut trace: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    for point in trace["tpoints"].as_array_mut().unwrap() {
        // import needs the names of some
        if point["name"] != "BDEV_IO_START" && point["name"] != "SOCK_REQ_QUEUE" {
            continue;
        }
        planter.value("spdk.tpoints[].name", &mut point["name"]);
        for arg in point["args"].as_array_mut().unwrap() {
            planter.value("spdk.tpoints[].args[].name", &mut arg["name"]);
        }
    }
    for entry in trace["entries"].as_array_mut().unwrap() {
        planter.value("spdk.entries[].poller", &mut entry["poller"]);
        if let Some(object) = entry.get_mut("object") {
            planter.value("spdk.entries[].object.id", &mut object["id"]);
        }
        for arg in entry["args"].as_array_mut().unwrap() {
            if arg.is_string() {
                planter.value("spdk.entries[].args[]", arg);
            }
        }
    }
    trace.to_string()
}

fn replace(payload: &mut Vec<u8>, (from, to): (&str, &str)) {
    let text = String::from_utf8(std::mem::take(payload)).unwrap();
    *payload = text.replace(from, to).into_bytes();
}

impl Case {
    /// Writes the files.
    pub fn files(&self) -> Files {
        let dir = TempDir::new().unwrap();
        let mut planter = Planter::new(&*self.text, &*self.thread, self.keep);
        let file = planter.file(self.file);
        for (path, name) in RECORDINGS {
            let mut recording = blocks::read(path);
            if recording.iter().all(|b| b.kind != blocks::MACHINE) && name == "a" {
                recording.insert(2, machine());
            }
            let mut recording = planter.plant(&recording);
            for block in &mut recording {
                let is_json = ![blocks::EVENTS, blocks::HOST_EVENTS].contains(&block.kind);
                if let Some(patch) = self.patch.filter(|_| is_json) {
                    replace(&mut block.payload, patch);
                }
            }
            let name = match name {
                "a" => file.clone(),
                name => format!("{name}.nvd"),
            };
            fs::write(dir.path().join(name), blocks::write(&recording)).unwrap();
        }
        let mut spdk = spdk(&mut planter).into_bytes();
        if let Some(patch) = self.patch {
            replace(&mut spdk, patch);
        }
        fs::write(dir.path().join("spdk.json"), spdk).unwrap();
        let kvm = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/kvm.trace");
        fs::copy(kvm, dir.path().join("kvm.trace")).unwrap();
        Files { dir, name: file, planted: planter.planted }
    }
}
