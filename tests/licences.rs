// SPDX-License-Identifier: MIT OR Apache-2.0
//! The licences of everything linked permit distribution, and THIRD-PARTY.md lists it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// Licences that user space (MIT OR Apache-2.0) can be linked with. CDDL-1.0 covers only its own
/// files.
const ALLOWED: [&str; 10] = [
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
    "CDDL-1.0",
    "BSL-1.0",
];

/// C libraries. libbpf is compiled into libbpf-sys; the others are the system's, or linked
/// statically.
const C_LIBRARIES: [(&str, &str); 4] = [
    ("libbpf", "LGPL-2.1-only OR BSD-2-Clause"),
    ("libelf (elfutils)", "GPL-2.0-or-later OR LGPL-3.0-or-later"),
    ("zlib", "Zlib"),
    ("zstd (compiled into zstd-sys)", "BSD-3-Clause"),
];

/// Crates that are linked, with version and licence.
fn crates() -> BTreeMap<String, String> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
        .args(["--target", "x86_64-unknown-linux-gnu", "--format", "{p}|{l}"])
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (package, licence) = line.trim_end_matches(" (*)").split_once('|').unwrap();
        let mut words = package.split(' ');
        let name = format!("{} {}", words.next().unwrap(), words.next().unwrap());
        (name, licence.to_owned())
    };
    let mut crates: BTreeMap<String, String> = text.lines().map(line).collect();
    crates.retain(|name, _| !name.starts_with("nvme-deep "));
    crates
}

/// Whether an allowed licence can be chosen for each part of an SPDX expression. Of parentheses,
/// only `(A OR B) AND C` is supported; no others occur.
fn is_allowed(expression: &str) -> bool {
    let allowed = |name: &str| {
        let name = name.trim().trim_matches(['(', ')']);
        ALLOWED.contains(&name.split(" WITH ").next().unwrap())
    };
    expression.split(" AND ").all(|part| part.replace('/', " OR ").split(" OR ").any(allowed))
}

#[test]
fn every_linked_crate_has_an_allowed_licence() {
    let crates = crates();
    assert!(crates.len() > 40, "{}", crates.len());
    for (name, licence) in crates {
        assert!(is_allowed(&licence), "{name}: `{licence}`");
    }
}

fn notice() -> String {
    let mut text = String::from(
        "# Third-party software\n\nThe binary contains these crates and C libraries. \
         `NVME_DEEP_BLESS=1 cargo test --test all licences` writes this file.\n\n\
         | crate | licence |\n|---|---|\n",
    );
    for (name, licence) in crates() {
        writeln!(text, "| {name} | {} |", licence.replace('/', " OR ")).unwrap();
    }
    text.push_str("\n| C library | licence |\n|---|---|\n");
    for (name, licence) in C_LIBRARIES {
        writeln!(text, "| {name} | {licence} |").unwrap();
    }
    text
}

#[test]
fn the_notice_names_all_that_is_linked() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("THIRD-PARTY.md");
    if env::var_os("NVME_DEEP_BLESS").is_some() {
        fs::write(&path, notice()).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), notice());
}
