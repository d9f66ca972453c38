// SPDX-License-Identifier: MIT OR Apache-2.0
//! `make dist`: every command has a man page and completions, and the programs that read these accept
//! them. A test whose program is missing says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::binary::{BINARY, accepts, commands, third_party};

/// The directory with the pages and the completions.
fn made() -> PathBuf {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let dir = MADE.get_or_init(|| {
        let dir = TempDir::new().unwrap();
        let ran = Command::new(BINARY).arg("dist").arg(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success() && said.is_empty(), "{said}");
        dir
    });
    dir.path().to_owned()
}

fn page(name: &str) -> (PathBuf, String) {
    let path = made().join("man").join(format!("{name}.1"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    (path, text)
}

/// The names of all pages.
fn pages() -> Vec<String> {
    let own = ["nvme-deep".to_owned()];
    let of_host = commands("host").into_iter().map(|c| format!("host-{c}"));
    let all = commands("").into_iter().chain(of_host);
    let all = all.map(|c| format!("nvme-deep-{c}"));
    own.into_iter().chain(all).collect()
}

/// Runs a program on a file, about which it must not complain. `None`: it is not installed.
fn accepted(program: &str, words: &[&str], file: &Path) -> Option<String> {
    let mut command = Command::new(program);
    let command = command.args(words).arg(file).env("MANWIDTH", "80").env("LC_ALL", "C.UTF-8");
    let [out, said] = accepts(command)?;
    assert_eq!(said, "", "{command:?}");
    Some(out)
}

#[test]
fn every_command_has_a_page_with_its_options() {
    let mut made: Vec<String> = fs::read_dir(made().join("man"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    made.sort();
    let pages = pages();
    let mut want: Vec<String> = pages.iter().map(|name| format!("{name}.1")).collect();
    want.sort();
    assert_eq!(made, want);

    for name in pages {
        let (_, text) = page(&name);
        assert!(text.contains("\\fB\\-h\\fR, \\fB\\-\\-help\\fR"), "{text}");
        let example = name.replacen("nvme-deep-", "nvme-deep ", 1).replace("host-", "host ");
        assert!(text.contains(&example.replace('-', "\\-")), "{name}: {text}");
        assert!(!text.contains("test\\-ignore"), "a hidden option: {text}");
    }
    let (_, latency) = page("nvme-deep-latency");
    assert!(latency.contains("\\fB\\-\\-stages\\fR[=\\fI<SET>\\fR]"), "{latency}");
    // `-h` hides it
    let (_, serve) = page("nvme-deep-serve");
    assert!(serve.contains("Maximum number of groups with their own series"), "{serve}");
}

#[test]
fn man_programs_accept_the_pages() {
    for name in pages() {
        let (path, _) = page(&name);
        accepted("groff", &["-man", "-Tutf8", "-ww", "-z"], &path);
        let shown = accepted("man", &["--warnings", "-E", "UTF-8", "-l"], &path);
        if let Some(shown) = shown {
            assert!(shown.contains("OPTIONS"), "{shown}");
        }
        if let Some(shown) = accepted("lexgrog", &["--"], &path) {
            assert!(shown.contains(&format!("\"{name} - ")), "{shown}");
        }
    }
}

#[test]
fn shells_accept_the_completions() {
    for (shell, file) in
        [("bash", "nvme-deep.bash"), ("zsh", "_nvme-deep"), ("fish", "nvme-deep.fish")]
    {
        let path = made().join("completions").join(file);
        accepted(shell, &["-n"], &path);
        let text = fs::read_to_string(&path).unwrap();
        for command in commands("") {
            assert!(text.contains(&command), "{file}: {command}");
        }
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let complete = |words: &str| {
        let script = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _nvme__deep nvme-deep \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; \
             echo \"${{COMPREPLY[@]}}\"",
            made().join("completions/nvme-deep.bash").display()
        );
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "", "{words}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("nvme-deep lat"), "latency");
    assert_eq!(complete("nvme-deep trace --kst"), "--kstack");
    assert_eq!(complete("nvme-deep trace --time w"), "wall");
    // what --help hides
    assert_eq!(complete("nvme-deep latency --test-"), "");
    assert_eq!(complete("nvme-deep dis"), "");
}

#[test]
fn the_notices_have_the_texts_of_all_linked_crates() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("NOTICES");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/notices.py");
    let ran = Command::new("python3")
        .args(["-B".as_ref(), script.as_os_str()])
        .args(["x86_64-unknown-linux-gnu".as_ref(), file.as_os_str()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}");
    let notices = fs::read_to_string(&file).unwrap();
    for (name, version) in third_party() {
        let title = format!("{name} {version}");
        let lines = notices.lines().filter(|line| *line == title).count();
        assert!(lines >= 2, "{title}: in the list, and above a licence text");
    }
    for library in ["libbpf, in libbpf-sys", "zstd, in zstd-sys"] {
        assert!(notices.contains(&format!("\n{library} ")), "{library}");
    }
    for words in [
        "COMMON DEVELOPMENT AND DISTRIBUTION LICENSE",
        "Redistributions in binary form must reproduce the above copyright",
    ] {
        assert!(notices.contains(words), "{words}");
    }
}
