// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a release consists of: the bill of materials, the crate, the notes.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::third_party;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the command prints, which must succeed.
fn printed(command: &mut Command) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let ran = command.current_dir(root).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {said}");
    String::from_utf8(ran.stdout).unwrap()
}

fn bill(triple: &str) -> Value {
    let dir = TempDir::new().unwrap();
    let versions = dir.path().join("BUILDINFO");
    let libraries = "rustc 1.95\nelfutils (libelf): elfutils 0.188\nglibc: glibc 2.36\n";
    fs::write(&versions, libraries).unwrap();
    let mut command = Command::new("python3");
    command.args(["-B", "packaging/sbom.py", triple, VERSION]);
    let printed = printed(command.arg(&versions).env("SOURCE_DATE_EPOCH", "1700000000"));
    serde_json::from_str(&printed).unwrap()
}

/// The crates of THIRD-PARTY.md, each with the checksum of Cargo.lock, and the C libraries.
#[test]
fn the_bill_of_materials_has_all_that_is_linked() {
    let crates = third_party().into_iter();
    let crates: BTreeSet<String> =
        crates.map(|(name, version)| format!("pkg:cargo/{name}@{version}")).collect();
    for triple in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        let bill = bill(triple);
        assert_eq!(bill["bomFormat"], "CycloneDX");
        assert_eq!(bill["metadata"]["component"]["version"], VERSION);
        assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
        let parts = bill["components"].as_array().unwrap();
        let place = |part: &Value| part["purl"].as_str().unwrap().to_owned();
        let all: BTreeSet<String> = parts.iter().map(place).collect();
        assert_eq!(all.len(), parts.len(), "{triple}: one twice");
        let missing: Vec<_> = crates.difference(&all).collect();
        assert!(missing.is_empty(), "{triple}: {missing:?}");
        for part in parts.iter().filter(|p| place(p).starts_with("pkg:cargo/")) {
            let sum = part["hashes"][0]["content"].as_str().unwrap();
            assert_eq!(sum.len(), 64, "{part}");
        }
        for begin in ["pkg:generic/libbpf@1.", "pkg:generic/zstd@1.", "pkg:deb/debian/glibc@2.36"] {
            assert!(all.iter().any(|p| p.starts_with(begin)), "{triple}: {begin}");
        }
    }
}

/// The crate has the sources of the program and of the BPF side, and nothing that only tests need.
#[test]
fn the_crate_has_what_a_build_needs() {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["package", "--list", "--allow-dirty", "--offline", "--locked"]);
    let list = printed(&mut command);
    let packed: BTreeSet<&str> = list.lines().collect();
    let tracked =
        printed(Command::new("git").args(["ls-files", "src", "bpf", "btf/*.c", "build.rs"]));
    let missing: Vec<_> = tracked.lines().filter(|file| !packed.contains(file)).collect();
    let snapshots = |file: &&&str| file.ends_with(".snap");
    assert_eq!(missing.iter().filter(|f| !snapshots(f)).count(), 0, "{missing:?}");
    for directory in ["tests/", "benches/", "docs/", "packaging/", "target/"] {
        let found: Vec<_> = packed.iter().filter(|f| f.starts_with(directory)).collect();
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn this_version_has_notes_and_its_files_are_named() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let title = format!("\n## {VERSION}\n");
    assert!(read("CHANGELOG.md").contains(&title), "packaging/release.sh takes the notes there");
    let package = format!("nvme-deep_{VERSION}-1_amd64.deb");
    for page in ["README.md", "docs/install.md"] {
        assert!(read(page).contains(&package), "{page}: {package}");
    }
    let image = format!("nvme-deep:{VERSION}\n");
    assert!(read("contrib/daemonset.yaml").contains(&image));
}
