// SPDX-License-Identifier: MIT OR Apache-2.0
//! `import` of KVM's tracepoints of a guest in the guest. QEMU's own log of doorbell writes is the truth.

use std::collections::BTreeMap;

use serde_json::Value;

use super::guest::{Outcome, Suite};

const KVM: Suite = Suite::of("kvm", &["nvme_null nvme0 0"]);

/// Writes by queue and side (`SQ tail`, `CQ head`).
type Writes = BTreeMap<(u64, String), u64>;

/// The lines of `pci_nvme_mmio_doorbell_sq` and `_cq`.
fn logged(log: &str) -> Writes {
    let mut writes = Writes::new();
    for line in log.lines() {
        for (event, field, side) in [
            ("pci_nvme_mmio_doorbell_sq ", "sqid ", "SQ tail"),
            ("pci_nvme_mmio_doorbell_cq ", "cqid ", "CQ head"),
        ] {
            let Some((_, text)) = line.split_once(event) else {
                continue;
            };
            let number = text.split_once(field).unwrap().1;
            let number: String = number.chars().take_while(char::is_ascii_digit).collect();
            let key = (number.parse().unwrap(), side.to_owned());
            *writes.entry(key).or_default() += 1;
        }
    }
    writes
}

fn each_doorbell_of_the_firmware_is_counted(outcome: &Outcome) {
    let lines = outcome.objects("kvm", "kvm");
    let [end] = &lines[..] else { panic!("{lines:?}") };
    let count = |row: &Value| {
        // QEMU handles each write in user space
        let (side, queue) = row["name"].as_str().unwrap().split_once(" of queue ").unwrap();
        let qid = queue.strip_suffix(", in user space").unwrap().parse().unwrap();
        assert!(row["max_ns"].as_u64().unwrap() > 0, "{row}");
        ((qid, side.to_owned()), row["count"].as_u64().unwrap())
    };
    let seen: Writes = end["rows"].as_array().unwrap().iter().map(count).collect();
    let want = logged(&outcome.text("kvm", "second.log"));
    assert_eq!(seen, want);
    assert!(want.values().sum::<u64>() >= 10, "{want:?}");
    for none in ["overwritten", "lost_events"] {
        assert_eq!(end["ledger"][none], 0, "{end}");
    }
}

super::on_kernels! {
    suite KVM [each_doorbell_of_the_firmware_is_counted] { | only_in_test_all on_6_12 "6.12" }
}
