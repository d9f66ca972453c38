// SPDX-License-Identifier: MIT OR Apache-2.0
//! The documentation agrees with the project: its links, files and options exist, and it names
//! every option.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binary::{BINARY, Ran, commands, run};

/// Options of other programs.
const FOREIGN: &str = "--path --num-trace-entries --perf-no_read_workqueue --perf-no_write_workqueue --with-usdt \
    --no-parquet --now --privileged --rm --strip-components --no-default-features --base --btf_base --ignored \
    --locked --release --test --test-threads";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
        .map(|name| root().join(name))
        .to_vec();
    for folder in ["docs", "docs/dev", "docs/reference"] {
        let files = fs::read_dir(root().join(folder)).unwrap();
        pages.extend(files.map(|e| e.unwrap().path()));
    }
    pages.retain(|p| p.extension().is_some_and(|e| e == "md"));
    pages
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The anchors that renderers derive from the headings of a page.
fn anchors(page: &Path) -> BTreeSet<String> {
    let heading = |line: &str| {
        let text = line.trim_start_matches('#').trim();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    };
    let text = read(page);
    text.lines().filter(|l| l.starts_with('#')).map(heading).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut links = 0;
    for page in pages() {
        let text = read(&page);
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}: {link}", page.display());
            let there = anchor.is_empty() || anchors(&target).contains(anchor);
            assert!(there, "{}: no heading for {link}", page.display());
            links += 1;
        }
    }
    assert!(links > 20, "{links}");
}

/// The options in a text: `--name`, or the name in `--name=value`.
fn options_in(text: &str) -> BTreeSet<String> {
    let begins = text.match_indices("--").filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        before.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '-' && c != '|')
    });
    begins
        .map(|(at, _)| {
            let name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            let end = text[at..].find(|c| !name(c)).unwrap_or(text.len() - at);
            text[at..at + end].to_owned()
        })
        .filter(|name| name.len() > 2 && !name.starts_with("---"))
        .collect()
}

/// What `--help` hides: options for tests (docs/dev/testing.md), and an alias of --slow (docs/trace.md).
const HIDDEN: &str = "--test-ignore --test-no-recovery --test-shift --min-lat";

/// The commands with their help.
fn helps() -> Vec<(String, String)> {
    let mut names = commands("");
    names.extend(commands("host").into_iter().map(|name| format!("host {name}")));
    names.into_iter().map(|name| (name.clone(), run(&format!("{name} --help")).out)).collect()
}

#[test]
fn the_docs_name_options_that_exist() {
    let helps = helps().into_iter().map(|(_, help)| help);
    let all: Vec<String> = helps.chain([HIDDEN.into(), FOREIGN.into()]).collect();
    let known = options_in(&all.join("\n"));
    // the change log has options that are gone
    for page in pages().into_iter().filter(|page| !page.ends_with("CHANGELOG.md")) {
        for option in options_in(&read(&page)) {
            assert!(known.contains(&option), "{}: {option}", page.display());
        }
    }
}

#[test]
fn every_option_is_in_the_docs() {
    let docs: String = pages().iter().map(|p| read(p)).collect();
    let named = options_in(&docs);
    for (command, help) in helps() {
        for option in options_in(&help) {
            assert!(named.contains(&option), "{command}: {option} is in no page");
        }
    }
}

/// The cells of a row of a table that begins with this one.
fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// trust.md repeats rows of the first table of dev/cost.md, which has the numbers.
#[test]
fn trust_md_has_the_costs_of_cost_md() {
    let cost = read(&root().join("docs/dev/cost.md"));
    let table = cost.split_once("| added |").unwrap().1;
    let rows = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    let measured: Vec<_> = rows.map(cells).filter(|row| row.len() > 2).collect();
    let trust = read(&root().join("docs/trust.md"));
    let list = trust.split_once("| tool | attributed instructions |\n").unwrap().1;
    let rows = list.lines().skip(1).take_while(|line| line.starts_with('|'));
    let mut n = 0;
    for row in rows.map(cells) {
        let tool = row[0].trim_matches('`').trim_start_matches("nvme-deep ");
        let number = row[1].split(' ').next().unwrap();
        let of_tool = measured.iter().filter(|r| tool.starts_with(r[0]));
        let of_tool = of_tool.max_by_key(|r| r[0].len());
        let of_tool = of_tool.unwrap_or_else(|| panic!("cost.md has no {tool}"));
        assert_eq!(number, of_tool[2], "{tool}");
        n += 1;
    }
    assert_eq!(n, 6);
}

/// The project's files and directories that the docs name exist.
#[test]
fn every_file_that_is_named_exists() {
    for page in pages() {
        for word in read(&page).split(|c: char| c.is_whitespace() || "`(),".contains(c)) {
            let word = word.split('#').next().unwrap_or(word);
            let word = word.trim_end_matches(['.', ':', ';']);
            let ours =
                ["src/", "tests/", "docs/", "bpf/", "contrib/"].iter().any(|d| word.starts_with(d));
            if ours && !word.contains('*') {
                assert!(root().join(word).exists(), "{}: {word}", page.display());
            }
        }
    }
}

/// The command lines in the code blocks of a page, without prompt, sudo, comment and pipe.
fn command_lines(text: &str) -> Vec<String> {
    let blocks = text.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines).filter_map(|line| {
        let line = line.trim_start_matches(|c| c != '$' && c != '#' && c != 's' && c != 'n');
        let line = line.trim_start_matches(['$', '#', ' ']);
        let line = line.trim_start().strip_prefix("sudo ").unwrap_or(line.trim_start());
        line.starts_with("nvme-deep ").then_some(line)
    });
    let ends = ["  (", "  #", " # ", " |", " >", " 2>", " <"];
    let cut = |line: &str| {
        let end = ends.iter().filter_map(|end| line.find(end)).min();
        line[..end.unwrap_or(line.len())].trim().to_owned()
    };
    lines.map(cut).collect()
}

/// Their options exist, go together, and take these values.
#[test]
fn every_command_line_in_the_docs_is_accepted() {
    let mut all = 0;
    for page in pages() {
        for line in command_lines(&read(&page)) {
            let (ours, program) = line.split_once(" -- ").unwrap_or((&line, ""));
            let words = ours.split_whitespace().skip(1);
            let mut words: Vec<&str> = words.map(|w| if w == "PID" { "1" } else { w }).collect();
            words.push("--help");
            let ran = Ran::from(Command::new(BINARY).args(&words));
            assert_eq!(ran.code, Some(0), "{}: {line}{program}: {}", page.display(), ran.err);
            all += 1;
        }
    }
    assert!(all > 100, "{all}");
}
