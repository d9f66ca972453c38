// SPDX-License-Identifier: MIT OR Apache-2.0
//! `join --format perfetto` of the recordings that tests/join.rs joins. The trace is decoded here by the
//! numbers of the fields; `make check-exports` reads the output of `export` by Perfetto's own definitions.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::binary::run;

const NVMET: [&str; 2] = ["tests/host/nvmet-guest.nvd", "tests/host/nvmet-host.nvd"];
const QEMU: [&str; 2] = ["tests/host/qemu-guest.nvd", "tests/host/qemu-host.nvd"];

/// The fields of a message: number, and a number or bytes.
pub enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let len = bytes.iter().position(|b| b & 0x80 == 0).unwrap() + 1;
    let (head, rest) = bytes.split_at(len);
    *bytes = rest;
    let digits = head.iter().rev();
    digits.fold(0, |n, b| n << 7 | u64::from(b & 0x7f))
}

pub fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            wire => {
                let len = if wire == 1 { 8 } else { varint(&mut bytes) };
                let (content, rest) = bytes.split_at(usize::try_from(len).unwrap());
                bytes = rest;
                Field::Bytes(content)
            }
        };
        all.push((key >> 3, field));
    }
    all
}

fn number(fields: &[(u64, Field<'_>)], key: u64) -> Option<u64> {
    fields.iter().find_map(|(k, field)| match field {
        Field::Number(n) if *k == key => Some(*n),
        _ => None,
    })
}

fn bytes<'a>(all: &[(u64, Field<'a>)], key: u64) -> Option<&'a [u8]> {
    all.iter().find_map(|(k, field)| match field {
        Field::Bytes(b) if *k == key => Some(*b),
        _ => None,
    })
}

/// A slice with its details.
#[derive(Clone, Debug, Default)]
struct Slice {
    name: String,
    begin_ns: u64,
    end_ns: u64,
    details: BTreeMap<String, u64>,
    inner: Vec<Self>,
}

/// What a trace has, apart from its slices: texts by number, and tracks with their parents.
#[derive(Default)]
struct Trace<'a> {
    names: BTreeMap<u64, String>,
    keys: BTreeMap<u64, String>,
    tracks: BTreeMap<u64, (String, Option<u64>)>,
    events: Vec<(u64, Vec<(u64, Field<'a>)>)>,
}

fn text(fields: &[(u64, Field<'_>)], key: u64) -> String {
    String::from_utf8(bytes(fields, key).unwrap().to_vec()).unwrap()
}

impl<'a> Trace<'a> {
    fn read(trace: &'a [u8]) -> Self {
        let mut read = Self::default();
        for (_, packet) in fields(trace) {
            let Field::Bytes(packet) = packet else {
                panic!("a packet is a message");
            };
            read.packet(&fields(packet));
        }
        // as the readers of traces do: by time, and equal times in their order
        read.events.sort_by_key(|(at_ns, _)| *at_ns);
        read
    }

    fn packet(&mut self, packet: &[(u64, Field<'a>)]) {
        for (table, entry) in bytes(packet, 12).map(fields).unwrap_or_default() {
            let Field::Bytes(entry) = entry else { continue };
            let entry = fields(entry);
            let to = match table {
                2 => &mut self.names,
                3 => &mut self.keys,
                _ => continue,
            };
            to.insert(number(&entry, 1).unwrap(), text(&entry, 2));
        }
        if let Some(track) = bytes(packet, 60).map(fields) {
            let place = (text(&track, 2), number(&track, 5));
            self.tracks.insert(number(&track, 1).unwrap(), place);
        }
        if let Some(event) = bytes(packet, 11).map(fields) {
            self.events.push((number(packet, 8).unwrap(), event));
        }
    }

    fn begun(&self, at_ns: u64, event: &[(u64, Field<'_>)]) -> Slice {
        let details = event.iter().filter_map(|(key, field)| match field {
            Field::Bytes(note) if *key == 4 => {
                let note = fields(note);
                // unsigned or signed
                let value = number(&note, 3).or_else(|| number(&note, 4))?;
                Some((self.keys[&number(&note, 1).unwrap()].clone(), value))
            }
            _ => None,
        });
        Slice {
            name: self.names[&number(event, 10).unwrap()].clone(),
            begin_ns: at_ns,
            details: details.collect(),
            ..Slice::default()
        }
    }

    /// The name of the track that a track belongs to in the end.
    fn top(&self, track: u64) -> &str {
        let mut top = &self.tracks[&track];
        while let Some(parent) = top.1 {
            top = &self.tracks[&parent];
        }
        &top.0
    }
}

/// The slices of the commands, by the name of their controller's track.
fn slices(trace: &[u8]) -> BTreeMap<String, Vec<Slice>> {
    let trace = Trace::read(trace);
    let mut open: BTreeMap<u64, Vec<Slice>> = BTreeMap::new();
    let mut done: BTreeMap<String, Vec<Slice>> = BTreeMap::new();
    for (at_ns, event) in &trace.events {
        let track = number(event, 11).unwrap();
        let stack = open.entry(track).or_default();
        match number(event, 9).unwrap() {
            1 => stack.push(trace.begun(*at_ns, event)),
            2 => {
                let mut slice = stack.pop().unwrap();
                slice.end_ns = *at_ns;
                match stack.last_mut() {
                    Some(outer) => outer.inner.push(slice),
                    None => done.entry(trace.top(track).into()).or_default().push(slice),
                }
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "a slice has no end");
    done
}

/// The commands of both sides: a controller of the guest, and one of the host.
fn joined(dir: &Path, [guest, host]: [&str; 2], ctrl: &str, more: &str) -> [Vec<Slice>; 2] {
    let out = dir.join("out");
    let words = format!("join {guest} {host} --format perfetto --force -o {}", out.display());
    let ran = run(&format!("{words} {more}"));
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), ""), "{}", ran.err);
    let mut all = slices(&fs::read(out).unwrap());
    let host: Vec<String> = all.keys().filter(|n| n.starts_with("host ")).cloned().collect();
    assert_eq!(host.len(), 1, "{host:?}");
    [all.remove(ctrl).unwrap(), all.remove(&host[0]).unwrap()]
}

/// Each command of the host is within its command of the guest, with its stages.
fn assert_within([guest, host]: &[Vec<Slice>; 2], error_ns: u64) {
    let mut found = 0;
    for served in host {
        let same = |slice: &&Slice| {
            ["cid", "slba"].iter().all(|key| slice.details.get(*key) == served.details.get(*key))
                && slice.begin_ns <= served.begin_ns + error_ns
                && served.end_ns <= slice.end_ns + error_ns
        };
        found += usize::from(guest.iter().any(|slice| same(&slice)));
        let stages: u64 = served.inner.iter().map(|s| s.end_ns - s.begin_ns).sum();
        assert_eq!(stages, served.end_ns - served.begin_ns, "{served:?}");
        assert!(served.details["uncertain_ns"] <= error_ns, "{served:?}");
    }
    assert_eq!(found, host.len());
}

#[test]
fn commands_of_both_sides_are_on_one_time_line() {
    let dir = tempfile::tempdir().unwrap();
    let same = joined(dir.path(), NVMET, "nvme2", "--clock same");
    assert_eq!([same[0].len(), same[1].len()], [422, 422]);
    assert_within(&same, 0);
    // the clock of the pairs is off by no more than it says
    let pairs = joined(dir.path(), NVMET, "nvme2", "--clock pairs");
    let error_ns = pairs[1][0].details["uncertain_ns"];
    assert_within(&pairs, error_ns);
    for (a, b) in same[1].iter().zip(&pairs[1]) {
        assert!(a.begin_ns.abs_diff(b.begin_ns) <= error_ns, "{a:?} {b:?}");
    }
    let qemu = joined(dir.path(), QEMU, "nvme0", "");
    assert_eq!([qemu[0].len(), qemu[1].len()], [400, 400]);
    assert_within(&qemu, qemu[1][0].details["uncertain_ns"]);
    let stages: Vec<&str> = qemu[1][0].inner.iter().map(|s| &*s.name).collect();
    assert_eq!(stages, ["host_submit", "backend"]);
}

#[test]
fn what_has_no_time_line_is_refused() {
    let [guest, host] = NVMET;
    let words = format!("join {guest} {host} --format perfetto");
    run(&words).refuses(2, "--output <OUT>");
    run(&format!("{words} --json -o -")).refuses(2, "cannot be used with");
    run(&format!("{words} -o {guest} --force")).refuses(2, "is a recording to read");
}
