// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules for the structure of the sources: which module may use which, and what C and Rust must have in common.
//! build.rs makes Rust structs and enumerators of the shared headers (bpf/include/*abi.h).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, fs};

use nvme_deep::model::counters::COUNTS;

/// Data and arithmetic: these use nothing above them, only the standard library, serde, the names of
/// option values (clap) and each other.
const BASE: [&str; 4] = ["units", "nvme", "model", "probe"];
/// The commands. They do not use each other.
const COMMANDS: [&str; 19] = [
    "diagnose", "diff", "dist", "doctor", "export", "heatmap", "host", "import", "inflight",
    "info", "join", "latency", "pattern", "record", "report", "serve", "stacks", "top", "trace",
];

type Graph = BTreeMap<String, BTreeSet<String>>;

fn text_of(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Files below `dir`, by their path in the repository.
fn files(dir: &str) -> Vec<String> {
    let mut found = vec![];
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{dir}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn is_rust(path: &String) -> bool {
    Path::new(path).extension().is_some_and(|e| e == "rs")
}

/// Rust source without comments and what follows it for tests.
fn code_of(path: &str) -> String {
    let text = text_of(path);
    let code = text.split("#[cfg(test)]\n").next().unwrap().lines();
    code.filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// `src/session/read.rs` is `session::read`. `super` in a file is the path without its last
/// segment. For src/session/mod.rs no segment is left: `super` is the crate.
fn module_path(file: &str) -> Vec<String> {
    let path = file.trim_start_matches("src/").trim_end_matches(".rs");
    let path = path.trim_end_matches("/mod");
    if path == "lib" {
        return vec![];
    }
    path.split('/').map(Into::into).collect()
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

/// The text after each `prefix` that does not continue another path or word.
fn after<'a>(code: &'a str, prefix: &str) -> Vec<&'a str> {
    code.match_indices(prefix)
        .filter(|(at, _)| {
            !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':')
        })
        .map(|(at, found)| &code[at + found.len()..])
        .collect()
}

/// The modules of the crate that the code of a file names.
fn names_modules(file: &str, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let code = code_of(file);
    let mut named: BTreeSet<String> = ["crate::", "nvme_deep::"]
        .iter()
        .flat_map(|prefix| after(&code, prefix))
        .map(|rest| word(rest).to_owned())
        .collect();
    for mut rest in after(&code, "super::") {
        let mut at = module_path(file);
        at.pop();
        while let Some(up) = rest.strip_prefix("super::") {
            at.pop();
            rest = up;
        }
        named.insert(at.first().map_or(word(rest), String::as_str).to_owned());
    }
    let own = module_path(file).first().cloned().unwrap_or_default();
    named.retain(|m| *m != own && modules.contains(m));
    named
}

fn modules() -> BTreeSet<String> {
    let all = files("src").into_iter().filter(is_rust);
    all.filter_map(|file| module_path(&file).first().cloned()).collect()
}

/// The actual dependencies between top-level modules.
fn dependencies() -> Graph {
    let modules = modules();
    let mut graph = Graph::new();
    for file in files("src").into_iter().filter(is_rust) {
        if let Some(module) = module_path(&file).first() {
            let named = names_modules(&file, &modules);
            graph.entry(module.clone()).or_default().extend(named);
        }
    }
    graph
}

#[test]
fn the_base_uses_nothing_above_it() {
    let graph = dependencies();
    for module in BASE {
        for named in &graph[module] {
            assert!(BASE.contains(&named.as_str()), "{module} uses {named}");
        }
    }
    for file in files("src").into_iter().filter(is_rust) {
        let module = module_path(&file).first().cloned().unwrap_or_default();
        if !BASE.contains(&module.as_str()) || file.ends_with("tests.rs") {
            continue;
        }
        for line in code_of(&file).lines() {
            let used = line.trim_start().trim_start_matches("pub ");
            if let Some(path) = used.strip_prefix("use ") {
                let first = word(path);
                let local = first.starts_with(|c: char| c.is_uppercase());
                let fine =
                    local || ["std", "serde", "clap", "crate", "super", "self"].contains(&first);
                assert!(fine, "{file}: {line}");
            }
        }
    }
}

#[test]
fn commands_do_not_use_each_other() {
    for (module, named) in dependencies() {
        // cli has the list of the commands
        let users = ["cli", "lib", "main"];
        for other in named.iter().filter(|other| COMMANDS.contains(&other.as_str())) {
            assert!(users.contains(&module.as_str()), "{module} uses the command {other}");
        }
    }
}

#[test]
fn only_run_and_session_touch_the_kernel() {
    for (module, named) in dependencies() {
        let may = ["run", "session", "lib"].contains(&module.as_str());
        assert!(may || !named.contains("session"), "{module} uses session");
    }
    for file in files("src").into_iter().filter(is_rust) {
        let may = file.starts_with("src/session/");
        assert!(may || !code_of(&file).contains("libbpf_"), "{file} uses libbpf");
    }
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> &'a str {
    let rest = text.split_once(begin).expect(begin).1;
    rest.split_once(end).expect(end).0
}

/// The enumerators of an enum of abi.h, without the `_MAX`.
fn enumerators(name: &str) -> Vec<String> {
    let text = text_of("bpf/include/abi.h");
    between(&text, &format!("enum {name} {{\n"), "};")
        .lines()
        .filter(|l| l.trim_start().starts_with("ND_") && !l.contains("_MAX"))
        .map(|l| word(l.trim_start()).to_owned())
        .collect()
}

#[test]
fn the_counters_have_the_same_names_in_the_same_order_on_both_sides() {
    let names: Vec<String> = enumerators("nd_count")
        .iter()
        .map(|name| name.trim_start_matches("ND_").replace('_', "").to_lowercase())
        .collect();
    let rust: Vec<String> = COUNTS.iter().map(|c| format!("{c:?}").to_lowercase()).collect();
    assert_eq!(names, rust);
}

#[test]
fn no_source_knows_the_machine_that_it_was_written_on() {
    // in halves, so that this file does not match
    let foreign = [
        concat!("/wo", "rk/"),
        concat!("/tmp/", "helper"),
        concat!("/ho", "me/"),
        concat!("deb.", "debian.org"),
        concat!("crates", ".io"),
        concat!("git", "hub.com"),
    ];
    let dirs = ["src", "bpf", "btf", "tests", "docs", "packaging", "contrib"];
    let mut all: Vec<String> = dirs.into_iter().flat_map(files).collect();
    let own = "Makefile build.rs Cargo.toml README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md";
    all.extend(own.split(' ').map(Into::into));
    for file in all {
        let bytes = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(&file)).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        // links in pages and pictures are for readers; other files must not download from these hosts
        let for_readers = [".md", ".svg"].iter().any(|end| file.ends_with(end));
        let foreign = &foreign[..if for_readers { 3 } else { 6 }];
        for (i, line) in text.lines().enumerate() {
            let found = foreign.iter().find(|f| line.contains(**f));
            assert_eq!(found, None, "{file}:{}: {line}", i + 1);
        }
    }
}

/// The members of a struct of kernel.bpf.h that every kernel has. Comments mark the others.
fn members(name: &str) -> Vec<String> {
    let text = text_of("bpf/include/kernel.bpf.h");
    between(&text, &format!("\nstruct {name} {{\n"), "\n};")
        .lines()
        .filter(|l| !["later", "before", "Not on"].iter().any(|w| l.contains(w)))
        .filter_map(|l| l.split(';').next()?.split([' ', '*']).next_back())
        .map(Into::into)
        .collect()
}

#[test]
fn a_btf_file_is_checked_for_every_field_that_the_programs_read() {
    let types = text_of("src/machine/types.rs");
    for name in [
        "request",
        "blk_mq_hw_ctx",
        "blk_mq_queue_data",
        "queue_limits",
        "nvme_request",
        "nvme_ctrl",
        "nvme_queue",
    ] {
        let checked = between(&types, &format!("\"{name}\","), "]");
        for member in members(name) {
            let listed = checked.contains(&format!("\"{member}\""));
            assert!(listed, "src/machine/types.rs does not list {name}.{member}");
        }
    }
}

/// A header includes what it uses, whatever another includes before it.
#[cfg(feature = "live")]
#[test]
fn each_header_compiles_on_its_own() {
    use std::process::Command;

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    for header in files("bpf/include") {
        let output = Command::new(&clang)
            .args(["-target", "bpf", "-fsyntax-only", "-Wall", "-Werror", "-Wno-unused-function"])
            .args(["-Wno-pragma-once-outside-header"])
            .args(["-I", env!("LIBBPF_HEADERS"), "-I", env!("OUT_DIR"), "-x", "c"])
            .arg("-idirafter")
            .arg(format!("/usr/include/{}-linux-gnu", env::consts::ARCH))
            .arg(root.join(&header))
            .output()
            .expect("this test needs clang");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{header}:\n{complaint}");
    }
}

/// Cargo.toml lists the programs; tests/all.rs has the rest.
#[test]
fn no_test_is_forgotten() {
    let (all, manifest) = (text_of("tests/all.rs"), text_of("Cargo.toml"));
    for file in files("tests").iter().filter(|file| is_rust(file) && file.matches('/').count() == 1)
    {
        let stem = file.trim_start_matches("tests/").trim_end_matches(".rs");
        let is_there = all.contains(&format!("\nmod {stem};")) || stem == "diagnose";
        assert!(is_there || manifest.contains(&format!("name = \"{stem}\"")), "{file} is not run");
    }
}
