// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings with hostile text in every field, shown by every view and in every format: one line
//! stays one line, JSON parses, XML is well formed, CSV has its columns, no cell begins a formula.
//!
//! The recordings are those of the repository. Their texts are replaced in the bytes of the blocks, and
//! the checksums are made right. Each view is also run on harmless texts, and must have the same lines.
//!
//! `NVME_DEEP_HOSTILE_CASES=100` adds random cases, `NVME_DEEP_HOSTILE_SEED=7` chooses them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

#[path = "hostile/blocks.rs"]
mod blocks;
#[path = "hostile/cases.rs"]
mod cases;
#[path = "hostile/formats.rs"]
mod formats;
#[path = "hostile/judge.rs"]
mod judge;
#[path = "hostile/library.rs"]
mod library;
#[path = "hostile/plant.rs"]
mod plant;
#[path = "hostile/strings.rs"]
mod strings;
#[path = "hostile/terminal.rs"]
mod terminal;
mod testing;
#[path = "hostile/views.rs"]
mod views;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tempfile::TempDir;

use self::cases::{Case, Files};
use self::judge::Findings;
use self::plant::{Planted, marks};
use self::strings::{CONTROLS, FILE, LINES, SINK, THREADS, WORDS, mixed};
use self::views::{Form, Output, REFUSALS, VIEWS, View};

/// Random cases, unless the environment says another number.
const RANDOM: usize = 1;

/// Texts of recordings that no view shows.
const NOT_SHOWN: [&str; 3] = ["controllers[].model", "machine.hypervisor", "spdk.entries[].poller"];

fn number(variable: &str, default: usize) -> usize {
    let set = env::var(variable).ok();
    set.map_or(default, |text| text.parse().unwrap())
}

fn case(name: &str, keep: bool, text: impl Fn(usize) -> String + Sync + 'static) -> Case {
    Case {
        name: name.to_owned(),
        text: Box::new(text),
        thread: Box::new(|n| THREADS[n % THREADS.len()].to_vec()),
        file: FILE,
        keep,
        patch: None,
        may_refuse: false,
        compare: true,
    }
}

/// Texts that no view has trouble with.
fn harmless(keep: bool) -> Case {
    Case {
        thread: Box::new(|_| b"x".to_vec()),
        file: "x",
        ..case("harmless", keep, |_| "x".into())
    }
}

fn from_list(list: &'static [&'static str], first: usize) -> impl Fn(usize) -> String + Sync {
    move |n| list[(first + n) % list.len()].to_owned()
}

fn random(seed: usize) -> impl Iterator<Item = Case> {
    let cases = number("NVME_DEEP_HOSTILE_CASES", RANDOM);
    (seed..seed + cases).map(|seed| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        let texts = (0..64).map(|_| mixed().new_tree(&mut runner).unwrap().current());
        let texts: Vec<String> = texts.collect();
        let name = format!("random {seed}");
        case(&name, seed.is_multiple_of(2), move |n| texts[n % texts.len()].clone())
    })
}

/// The cases, with those words that views know kept or not.
fn all_cases() -> Vec<Case> {
    let seed = number("NVME_DEEP_HOSTILE_SEED", 1);
    eprintln!("random texts: NVME_DEEP_HOSTILE_SEED={seed}");
    let mut all = vec![
        case("all at once", true, |_| SINK.into()),
        case("all at once, unknown words", false, |_| SINK.into()),
        case("lines", true, from_list(&LINES, 0)),
        case("words", true, from_list(&WORDS, 0)),
        case("controls", false, from_list(&CONTROLS, 0)),
    ];
    all.extend(random(seed));
    all.push(Case { compare: false, ..case("empty", false, |_| String::new()) });
    // one text in seven: others are seen beside it
    let long = |n: usize| {
        if n.is_multiple_of(7) { "long ".repeat(20_000) } else { "x".into() }
    };
    all.push(Case { compare: false, may_refuse: true, ..case("long", true, long) });
    let lone = |n: usize| {
        if n % 5 == 4 { "SURROGATE".into() } else { "x".into() }
    };
    all.push(Case {
        patch: Some(("SURROGATE", "\\ud800")),
        compare: false,
        may_refuse: true,
        ..case("lone surrogates", true, lone)
    });
    all
}

/// Checks how a run ended, and what it wrote beside its output.
fn judge_end(name: &str, case: &Case, files: &Files, output: &Output, findings: &mut Findings) {
    let said = judge::text(name, "raw text on stderr", &output.said, &files.planted, findings);
    let codes: &[i32] = if case.may_refuse { &[0, 1, 2] } else { &[0] };
    let ended_well = output.code.is_some_and(|code| codes.contains(&code));
    if !ended_well || said.contains("panicked") {
        let how = format!("{:?} {:?}: {}", output.code, output.signal, said.escape_debug());
        findings.add(name, "ended badly", how.chars().take(300).collect());
    }
    if output.code == Some(2) && said.lines().count() != 1 {
        findings.add(name, "more than a sentence", said.chars().take(300).collect());
    }
}

fn judge_view(
    view: &View,
    case: &Case,
    files: &Files,
    harmless: &Output,
    output: &Output,
) -> Findings {
    let (name, planted) = (view.command, &files.planted[..]);
    let mut all = Findings::default();
    judge_end(name, case, files, output, &mut all);
    let is_text = ![Form::Png, Form::Parquet, Form::Perfetto].contains(&view.form);
    let lossy = |bytes: &[u8]| judge::without_colours(&String::from_utf8_lossy(bytes));
    let [plain, said] = [&harmless.shown, &harmless.said].map(|b| lossy(b));
    let shown = if is_text {
        judge::text(name, "raw text", &output.shown, planted, &mut all)
    } else {
        String::new()
    };
    if case.compare {
        judge::accuracy_is_true(name, &lossy(&output.said), &said, &mut all);
        if is_text && view.form != Form::Wrapped {
            judge::same_lines(name, &shown, &plain, planted, &mut all);
        } else {
            judge::accuracy_is_true(name, &shown, if is_text { &plain } else { "" }, &mut all);
        }
    }
    if output.code == Some(0) {
        judge_form(view, case, planted, &shown, (harmless, output), &mut all);
    }
    all
}

/// Checks what the form of an output promises.
fn judge_form(
    view: &View,
    case: &Case,
    planted: &[Planted],
    shown: &str,
    (harmless, output): (&Output, &Output),
    all: &mut Findings,
) {
    let name = view.command;
    let plain = String::from_utf8_lossy(&harmless.shown);
    let mut none = Findings::default();
    let bytes = &output.shown[..];
    let (found, want) = match view.form {
        Form::Text | Form::Wrapped => return,
        Form::Metrics => (
            formats::metrics(name, shown, planted, all),
            formats::metrics(name, &plain, &[], &mut none),
        ),
        Form::Json => {
            let objects = formats::json(name, shown, planted, all);
            objects.iter().for_each(|o| formats::advice(name, o, planted, all));
            let want = formats::json(name, &plain, &[], &mut none);
            (formats::types(&objects), formats::types(&want))
        }
        Form::Svg => {
            formats::svg(name, shown, case.compare.then_some(&plain), planted, all);
            return;
        }
        Form::Folded => {
            (formats::folded(name, shown, all), formats::folded(name, &plain, &mut none))
        }
        Form::Csv => {
            (formats::csv(name, shown, planted, all), formats::csv(name, &plain, &[], &mut none))
        }
        Form::Parquet => (
            formats::parquet(name, bytes, planted, all),
            formats::parquet(name, &harmless.shown, &[], &mut none),
        ),
        Form::Perfetto => (
            formats::perfetto(name, bytes, planted, all),
            formats::perfetto(name, &harmless.shown, &[], &mut none),
        ),
        Form::Hlog => (formats::hlog(name, shown, all), formats::hlog(name, &plain, &mut none)),
        Form::Png => {
            (formats::png(name, bytes, all), formats::png(name, &harmless.shown, &mut none))
        }
    };
    none.assert_none();
    if case.compare && found != want {
        all.add(name, "another shape", format!("{found} for {want}"));
    }
}

/// Runs a view on all cases.
fn judge_cases(
    number: usize,
    cases: &[(Case, Files)],
    plain: &[(bool, Files)],
) -> (Findings, BTreeSet<usize>) {
    let view = &VIEWS[number];
    let (mut all, mut seen) = (Findings::default(), BTreeSet::new());
    let harmless: Vec<Output> = plain.iter().map(|(_, files)| view.run(number, files)).collect();
    for (output, (keep, _)) in harmless.iter().zip(plain) {
        let said = String::from_utf8_lossy(&output.said);
        assert_eq!(output.code, Some(0), "{}: {said}", view.command);
        assert!(!output.shown.is_empty(), "{}: {said}", view.command);
        if !keep {
            seen.extend(marks(&said));
            seen.extend(marks(&String::from_utf8_lossy(&output.shown)));
        }
    }
    for (case, files) in cases {
        let output = view.run(number, files);
        let harmless = &harmless[plain.iter().position(|(keep, _)| *keep == case.keep).unwrap()];
        let found = judge_view(view, case, files, harmless, &output);
        all.extend(found.of(&case.name));
    }
    (all, seen)
}

/// Every text of a recording must be in some view, or be listed.
fn assert_shown(planted: &[Planted], seen: &BTreeSet<usize>) {
    let all = planted.iter().enumerate();
    let hidden = all.filter(|(n, _)| !seen.contains(n)).map(|(_, p)| p.place.as_str());
    let shown: BTreeSet<&str> =
        seen.iter().filter_map(|&n| Some(planted.get(n)?.place.as_str())).collect();
    let hidden: BTreeSet<&str> = hidden.filter(|place| !shown.contains(place)).collect();
    let listed = BTreeSet::from(NOT_SHOWN);
    assert_eq!(hidden, listed, "add a view, or list the field in NOT_SHOWN");
}

#[test]
fn no_view_passes_a_hostile_text_on() {
    // only the second replaces all texts
    let plain = [true, false].map(|keep| (keep, harmless(keep).files()));
    let with_files = |case: Case| {
        let files = case.files();
        (case, files)
    };
    let cases: Vec<(Case, Files)> = all_cases().into_iter().map(with_files).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut found, mut seen) = (Findings::default(), BTreeSet::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= VIEWS.len() {
                return (found, seen);
            }
            let (more, marks) = judge_cases(number, &cases, &plain);
            found.extend(more);
            seen.extend(marks);
        }
    };
    let (mut all, mut seen) = (Findings::default(), BTreeSet::new());
    let workers = thread::available_parallelism().unwrap().get().min(8);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let (found, marks) = worker.join().unwrap();
            all.extend(found);
            seen.extend(marks);
        }
    });
    all.assert_none();
    assert_shown(&plain[1].1.planted, &seen);
}

#[test]
fn top_passes_no_hostile_text_to_a_terminal() {
    let mut all = Findings::default();
    for case in
        [case("all at once", false, |_| SINK.into()), case("lines", true, from_list(&LINES, 0))]
    {
        let (files, mut found) = (case.files(), Findings::default());
        terminal::judge(&files, &mut found);
        all.extend(found.of(&case.name));
    }
    all.assert_none();
}

#[test]
fn no_view_of_the_library_passes_a_hostile_text_on() {
    let harmless = library::outputs(&|_| "x".into(), b"x");
    let mut all = Findings::default();
    let cases = all_cases().into_iter().filter(|case| case.compare);
    for (n, case) in cases.enumerate() {
        let outputs = library::outputs(&*case.text, &(case.thread)(n));
        let empty = TempDir::new().unwrap();
        let files = Files { dir: empty, name: String::new(), planted: outputs.planted };
        for ((command, form, plain), (_, _, bytes)) in harmless.all.iter().zip(outputs.all) {
            let view = View { command, form: *form };
            let [plain, output] = [plain.clone(), bytes].map(Output::of);
            all.extend(judge_view(&view, &case, &files, &plain, &output).of(&case.name));
        }
    }
    all.assert_none();
}

#[test]
fn no_refusal_passes_the_name_of_a_file_on() {
    let refuses = Case { may_refuse: true, ..harmless(true) };
    let case = Case { file: FILE, ..harmless(true) };
    let files = case.files();
    let path = files.dir.path().join(&files.name);
    let whole = fs::read(&path).unwrap();
    let mut all = Findings::default();
    for (state, bytes) in [("foreign", &b"text"[..]), ("cut", &whole[..whole.len() / 2])] {
        fs::write(&path, bytes).unwrap();
        for (number, view) in REFUSALS.iter().enumerate() {
            let output = view.run(number, &files);
            judge_end(view.command, &refuses, &files, &output, &mut all);
            let none = output.code == Some(0);
            assert!(!none, "{state}: {}", view.command);
        }
    }
    fs::remove_file(&path).unwrap();
    let missing = REFUSALS.iter().filter(|view| !view.command.ends_with("-o A"));
    for (number, view) in missing.enumerate() {
        let output = view.run(number, &files);
        judge_end(view.command, &refuses, &files, &output, &mut all);
        assert_eq!(output.code, Some(2), "{}", view.command);
    }
    all.assert_none();
}
