// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of rings, recorded and read again; and the user instructions of a command.
#![allow(clippy::print_stderr, reason = "the counts are printed")]

use std::fs;
use std::fs::File;
use std::path::Path;

use crate::StageSet;
use crate::abi::{NO_EVENT, event};
use crate::model::event::Event;
use crate::model::ledger::Ledger;
use crate::recording::{Item as Recorded, Reader as RecordingReader};
use crate::settings::OriginDetail;
use tempfile::TempDir;

use super::*;
use crate::cli::Command;
use crate::cli::tests::parsed;
use crate::run::args::common::SessionOptions;
use crate::run::fixture::{LiveEvents, read_ring};
use crate::testing::ring::{read_record, ring_of};
use crate::testing::valgrind;

fn options(words: &str, file: &Path) -> RecordOptions {
    let words = format!("record --force --output={} {words}", file.display());
    let Command::Record(args) = parsed(&words).unwrap() else { panic!() };
    args.checked().unwrap()
}

#[test]
fn all_is_recorded_unless_stages_say_less() {
    let dir = TempDir::new().unwrap();
    for (words, all, timers) in [
        ("", true, true),
        ("--stages=full", true, true),
        ("--ring 1m", true, false),
        ("--stages=fine", false, false),
        ("--stages=none --ring 1m", false, false),
    ] {
        let settings = options(words, &dir.path().join("file")).settings;
        assert_eq!(settings.stage_set == StageSet::Full, all, "{words}");
        assert_eq!((settings.context(), settings.has_timers()), (all, timers), "{words}");
        let who = match (all, words.contains("--ring")) {
            (true, _) => OriginDetail::Submitters,
            (false, true) => OriginDetail::Cgroups,
            (false, false) => OriginDetail::Nobody,
        };
        let leaves_out = who != OriginDetail::Nobody;
        assert_eq!((settings.origin(), settings.leaves_out()), (who, leaves_out), "{words}");
    }
    let settings = options("--process fio", &dir.path().join("file")).settings;
    assert_eq!(settings.required_origin(), OriginDetail::Nobody, "else by the caller");
}

/// Records what is in a ring, up to one step after the other. Returns the commands and the reason of the trigger.
fn run(words: &str, file: &Path, ring: &File, steps: &[u64]) -> (u64, String) {
    let options = options(words, file);
    let recording = create(&options, &System::at("/nonexistent")).unwrap();
    let mut recorder = Recorder::begin(&options, recording, None);
    let (mut events, mut event, mut begin) = (LiveEvents::of_none(), NO_EVENT, 0);
    for step in steps {
        read_ring(ring, begin..*step, &mut events);
        begin = *step;
        events.fetch(Some(step) == steps.last()).unwrap();
        while let Some(decoded) = events.next_event(&mut event) {
            decoded.unwrap();
            recorder.event(&event);
        }
    }
    let fired = recorder.fired.what.clone();
    let written = recorder.file.finish(Duration::ZERO, &Ledger::default()).unwrap();
    (written.events, fired)
}

fn recorded(file: &Path) -> Vec<Event> {
    let mut reader = RecordingReader::open(File::open(file).unwrap()).unwrap();
    let mut all = vec![];
    while let Some(item) = reader.next().unwrap() {
        if let Recorded::Event(event) = item {
            all.push(*event);
        }
    }
    all
}

/// Reads, some by other threads, without times, failed, or slow; and other events between them.
fn mixed() -> Vec<Vec<u8>> {
    let one = |n: u64| {
        let mut bytes = read_record(n);
        match n % 97 {
            1 => bytes[0] = 6,
            // not completed as far as is known
            2 => bytes[19] |= 1,
            3..6 => bytes.truncate(128),
            6 => bytes[40] = 0x81,
            8 => bytes[18] |= 0x80,
            7 => bytes[128..136].copy_from_slice(&(n + 1).to_ne_bytes()),
            n => bytes[104] = n as u8 % 5,
        }
        bytes
    };
    (0..9000).map(one).collect()
}

#[test]
fn a_file_has_the_events_of_the_ring() {
    let dir = TempDir::new().unwrap();
    let records = mixed();
    let ring = ring_of(&dir.path().join("ring"), records.iter().map(Vec::as_slice));
    let mut ends: Vec<u64> = vec![];
    for record in &records {
        ends.push(ends.last().unwrap_or(&0) + 8 + record.len() as u64);
    }
    let steps: Vec<u64> = ends.chunks(700).filter_map(|c| c.last().copied()).collect();
    let events: Vec<Event> = records.iter().map(|record| event(record, 0).unwrap()).collect();
    let redacted: Vec<Event> = events.iter().map(Event::redacted).collect();
    let file = dir.path().join("file");
    for (words, why) in [
        ("", ""),
        ("--ring 1h", ""),
        ("--ring 1h --trigger slow=1h", ""),
        ("--ring 1h --trigger slow=300ms", "read on nvme0 queue 2 took 1.0s"),
        ("--ring 1h --trigger error", "read on nvme0: Generic/Capacity Exceeded (0x081)"),
        ("--redact", ""),
    ] {
        let got = run(words, &file, &ring, &steps);
        assert_eq!(got, (9000, why.into()), "{words}");
        let want = if words == "--redact" { &redacted } else { &events };
        let found = recorded(&file);
        let differs = found.iter().zip(want).find(|(found, want)| found != want);
        assert!(found.len() == 9000 && differs.is_none(), "{words}: {differs:#?}");
    }
}

#[test]
fn the_last_ring_that_cannot_be_written_is_an_error() {
    let dir = TempDir::new().unwrap();
    let (spool, file) = (dir.path().join("spool"), dir.path().join("file"));
    let system = System::at("/nonexistent");
    let options = options("--ring 1h", &file);
    let mut recording = create(&options, &system).unwrap();
    recording.begin();
    let mut ring = || recording.ring(&Fired::default(), Duration::ZERO, &Ledger::default());
    assert!(Flight::new(&spool, 1, None, &system).is_err());
    fs::create_dir(&spool).unwrap();
    let mut flight = Flight::new(&spool, 1, None, &system).unwrap();
    flight.write(ring().unwrap());
    flight.wait().unwrap();
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 1);
    fs::remove_dir_all(&spool).unwrap();
    flight.write(ring().unwrap());
    let error = flight.wait().unwrap_err().to_string();
    assert!(error.contains("can't be written"), "{error}");
}

/// The most user instructions of a command.
const MOST: u64 = 1500;

/// Bytes of a record in the ring.
const BYTES: u64 = 192;
const TEST: &str = "record::tests::a_command_costs_at_most_1500_instructions";

#[test]
#[ignore = "needs valgrind and a release build; a part of make test-all"]
fn a_command_costs_at_most_1500_instructions() {
    if let Some(commands) = valgrind::task() {
        // as many commands at a time as come in 20 ms
        let commands: u64 = commands.parse().unwrap();
        let steps: Vec<u64> = (1..=commands / 2000).map(|n| n * 2000 * BYTES).collect();
        let ring = File::open("ring").unwrap();
        let (written, _) = run("", Path::new("file"), &ring, &steps);
        assert_eq!(written, commands);
        return;
    }
    let dir = TempDir::new().unwrap();
    let records: Vec<Vec<u8>> = (0..100_000).map(read_record).collect();
    ring_of(&dir.path().join("ring"), records.iter().map(Vec::as_slice));
    let [few, many] = [20_000, 100_000].map(|commands: u64| {
        valgrind::instructions_of_test(TEST, &commands.to_string(), dir.path())
    });
    let bytes = File::open(dir.path().join("file")).unwrap().metadata().unwrap().len();
    let each = (many - few) / 80_000;
    eprintln!("{each:5} instructions, {:.1} bytes a command", bytes as f64 / 1e5);
    assert!(each <= MOST, "a command costs {each} instructions");
}
