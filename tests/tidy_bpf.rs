// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for the headers of the BPF programs. Each compiles on its own. Of those that are shared with Rust
//! (bpf/include/*abi.h) build.rs makes Rust structs and enumerators, so no number is written a second time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[cfg(feature = "live")]
use std::env;
use std::env::consts::ARCH;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Numbers that are no enumerators: BTF of clang 14 has none of 64 bits, and C none above `int`.
const MACROS: [&str; 2] = ["ND_KEY_VALID", "ND_IDLE_TASK"];

fn text_of(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The shared headers, by name, with their text.
fn headers() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/include");
    let names = fs::read_dir(dir).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<_> = names
        .filter(|name| name.ends_with("abi.h"))
        .map(|name| (name.clone(), text_of(&format!("bpf/include/{name}"))))
        .collect();
    found.sort();
    assert_eq!(found.len(), 2, "{found:?}");
    found
}

#[test]
fn the_shared_headers_have_enumerators_instead_of_macros() {
    for (file, text) in headers() {
        for line in text.lines() {
            let Some(rest) = line.strip_prefix("#define ") else {
                continue;
            };
            let (name, value) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            // an include guard, or a macro with arguments
            let fine = value.is_empty() || name.contains('(') || MACROS.contains(&name);
            assert!(fine, "{file}: Rust does not see {name}: make it an enumerator");
        }
    }
}

/// A header includes what it uses, whatever another includes before it.
#[cfg(feature = "live")]
#[test]
fn each_header_compiles_on_its_own() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let names = fs::read_dir(root.join("bpf/include")).unwrap();
    let headers: Vec<_> = names.map(|entry| entry.unwrap().path()).collect();
    assert!(headers.len() <= 18, "{headers:?}");
    for header in headers {
        let output = Command::new(&clang)
            .args(["-target", "bpf", "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused-function"])
            .args(["-Wno-pragma-once-outside-header"])
            .args(["-I", env!("LIBBPF_HEADERS"), "-I", env!("OUT_DIR"), "-x", "c"])
            .arg("-idirafter")
            .arg(format!("/usr/include/{}-linux-gnu", ARCH))
            .arg(&header)
            .output()
            .expect("this test needs clang");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}:\n{complaint}", header.display());
    }
}
