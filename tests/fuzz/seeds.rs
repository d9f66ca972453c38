// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inputs that a run begins with: the corpus, and the files of other tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::blocks::{NEXT, Part, input_of, of_recording};
use crate::crafted::crafted;
use crate::targets::{ALL, Form};

/// Recordings of the driver, and of both sides.
const RECORDINGS: [&str; 5] = [
    "recordings/5.10.nvd",
    "recordings/6.12.nvd",
    "exports/none.nvd",
    "exports/complete.nvd",
    "recordings/diagnose/lost-interrupt.nvd",
];
const BOTH: [[&str; 2]; 3] = [
    ["host/qemu-guest.nvd", "host/qemu-host.nvd"],
    ["host/nested-guest.nvd", "host/nested-host.nvd"],
    ["host/qemu-guest.nvd", "host/qemu.nvd"],
];

/// The directory of the tests.
fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn read(name: &str) -> Vec<u8> {
    fs::read(tests().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn input(parts: &[Part]) -> Vec<u8> {
    [&[ALL], input_of(parts).as_slice()].concat()
}

/// The files of other tests as inputs, each with its name.
fn others(target: &str) -> Vec<(String, Vec<u8>)> {
    let plain = |name: &str| vec![(name.to_owned(), read(name))];
    match target {
        "recordings" => {
            let of = |name: &&str| ((*name).to_owned(), input(&of_recording(&read(name))));
            RECORDINGS.iter().map(of).collect()
        }
        "join" => {
            let next = Part { kind: NEXT, ..Part::default() };
            let of = |[guest, host]: &[&str; 2]| {
                let mut parts = of_recording(&read(guest));
                parts.push(next.clone());
                parts.extend(of_recording(&read(host)));
                (format!("{guest} {host}"), input(&parts))
            };
            BOTH.iter().map(of).collect()
        }
        "import" => [plain("host/qemu.log"), plain("import/texts.txt")].concat(),
        "spdk-trace" => plain("host/spdk_trace.json"),
        "kvm-trace" => plain("host/kvm.trace"),
        _ => vec![],
    }
}

/// All inputs of the corpus, and of other tests.
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let mut all = others(target);
    all.extend(crafted(target));
    let files = fs::read_dir(tests().join("fuzz/corpus").join(target)).into_iter().flatten();
    for path in files.map(|file| file.unwrap().path()) {
        all.push((path.display().to_string(), fs::read(&path).unwrap()));
    }
    // the same order everywhere, so that a seed gives the same run
    all.sort();
    all
}

/// The inputs that fuzzing starts with; recordings once per command.
pub fn seeds(target: &str, form: Form) -> Vec<Vec<u8>> {
    let mut all = vec![];
    for (_, input) in corpus(target) {
        if form == Form::Parts && input.first() == Some(&ALL) {
            for which in 0..32 {
                let mut one = input.clone();
                one[0] = which;
                all.push(one);
            }
        } else {
            all.push(input);
        }
    }
    all.push(vec![]);
    all
}
