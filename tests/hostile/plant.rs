// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replaces every text of a recording. Each text ends in a mark (`Zq7z`), by which a view's output
//! shows the field that it is from.

use std::collections::BTreeMap;

use nvme_deep::model::controller::ControllerInfo;
use nvme_deep::model::ledger::{HostLedger, Ledger};
use nvme_deep::model::machine::MachineInfo;
use nvme_deep::model::target::HostController;
use nvme_deep::recording::{RunInfo, StackInfo};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_value, json, to_value};

use super::blocks;
use super::blocks::Block;

/// Fields that the reader takes as words of the format, although it does not refuse others.
const WORDS_OF_THE_FORMAT: [&str; 2] = ["run.target.kind", "run.target.clock"];

/// Fields whose words views compare with known ones. A case keeps or replaces them.
const KNOWN_WORDS: [&str; 9] = [
    "controllers[].transport",
    "machine.controllers[].transport",
    "machine.controllers[].class",
    "machine.controllers[].state",
    "machine.controllers[].iommu_group",
    "machine.controllers[].disks[].scheduler",
    "machine.controllers[].disks[].write_cache",
    "ledger.methods[].point",
    "ledger.missing_hooks[].point",
];

/// A text in a recording.
#[derive(Clone, Debug)]
pub struct Planted {
    pub place: String,
    /// UTF-8, but for names of threads.
    pub text: Vec<u8>,
}

/// Makes the text number `n` of a place.
pub type Make<'a> = &'a dyn Fn(usize) -> String;
/// Makes 11 bytes of the name of thread `n`.
pub type MakeName<'a> = &'a dyn Fn(usize) -> Vec<u8>;

/// Plants texts. Equal texts of one recording stay equal.
pub struct Planter<'a> {
    pub make: Make<'a>,
    pub make_name: MakeName<'a>,
    /// Keep the words that views compare with known ones.
    pub keep: bool,
    pub planted: Vec<Planted>,
    numbers: BTreeMap<Vec<u8>, usize>,
    /// Whether a place takes any text.
    takes: BTreeMap<String, bool>,
}

/// The mark of a text.
pub fn mark(n: usize) -> String {
    format!("Zq{n}z")
}

/// The numbers of the marks in a text.
pub fn marks(text: &str) -> Vec<usize> {
    let parts = text.split("Zq").skip(1);
    let numbers = parts.filter_map(|part| part.split_once('z')?.0.parse().ok());
    numbers.collect()
}

impl<'a> Planter<'a> {
    pub fn new(make: Make<'a>, make_name: MakeName<'a>, keep: bool) -> Self {
        Self {
            make,
            make_name,
            keep,
            planted: vec![],
            numbers: BTreeMap::new(),
            takes: BTreeMap::new(),
        }
    }

    /// The text in place of another one. `None`: a text that is missing there.
    fn text(&mut self, place: &str, old: Option<&str>) -> String {
        let key = old.filter(|o| !o.is_empty()).unwrap_or(place);
        let next = self.planted.len();
        let n = *self.numbers.entry(key.as_bytes().into()).or_insert(next);
        if n == next {
            let text = match (self.make)(n) {
                empty if empty.is_empty() => empty,
                text => text + &mark(n),
            };
            let place = place.to_owned();
            let text = text.into_bytes();
            self.planted.push(Planted { place, text });
        }
        String::from_utf8(self.planted[n].text.clone()).unwrap()
    }

    /// A name of a file: that of recordings is not in them.
    pub fn file(&mut self, start: &str) -> String {
        let name = start.to_owned() + &mark(self.planted.len());
        self.planted.push(Planted {
            place: "name of the file".to_owned(),
            text: name.clone().into_bytes(),
        });
        name
    }

    /// Replaces a text of another file.
    pub fn value(&mut self, place: &str, value: &mut Value) {
        *value = self.text(place, value.as_str()).into();
    }

    fn name(&mut self, bytes: &mut [u8]) {
        let next = self.planted.len();
        let key = [b"thread ", &*bytes].concat();
        let n = *self.numbers.entry(key).or_insert(next);
        let mark = mark(n);
        let mut name = (self.make_name)(n);
        name.truncate(bytes.len() - mark.len());
        name.extend(mark.bytes());
        if n == next {
            let place = "name of a thread".to_owned();
            let text = name.clone();
            self.planted.push(Planted { place, text });
        }
        bytes.fill(0);
        bytes[..name.len()].copy_from_slice(&name);
    }

    fn keeps(&self, place: &str) -> bool {
        WORDS_OF_THE_FORMAT.contains(&place) || self.keep && KNOWN_WORDS.contains(&place)
    }

    /// Replaces the texts of a recording.
    pub fn plant(&mut self, recording: &[Block]) -> Vec<Block> {
        let mut recording = recording.to_vec();
        let is_host = recording.iter().any(|b| b.kind == blocks::HOST_EVENTS);
        for block in &mut recording {
            match block.kind {
                blocks::RUN => self.block::<RunInfo>("run", block),
                blocks::STACKS => self.block::<Vec<StackInfo>>("stacks", block),
                blocks::CONTROLLERS => self.block::<Vec<ControllerInfo>>("controllers", block),
                blocks::MACHINE => self.block::<MachineInfo>("machine", block),
                blocks::HOST_CONTROLLERS => self.block::<Vec<HostController>>("targets", block),
                blocks::LEDGER | blocks::END if is_host => {
                    self.block::<With<HostLedger>>("", block);
                }
                blocks::LEDGER | blocks::END => self.block::<With<Ledger>>("", block),
                blocks::EVENTS => {
                    blocks::names(&mut block.payload).for_each(|name| self.name(name))
                }
                _ => {}
            }
        }
        recording
    }

    fn block<T: DeserializeOwned + Serialize>(&mut self, place: &str, block: &mut Block) {
        let value: Value = serde_json::from_slice(&block.payload).unwrap();
        // with the keys that an older file lacks
        let mut value = to_value(from_value::<T>(value).unwrap()).unwrap();
        complete(&mut value);
        let mut sites = vec![];
        find(&value, place, "", &mut sites);
        sites.retain(|site| !self.keeps(&site.place));
        for site in sites {
            site.replace::<T>(&mut value, self);
        }
        block.payload = serde_json::to_vec(&value).unwrap();
    }
}

/// A block with a ledger, which the library's type leaves as it is.
#[derive(Serialize, Deserialize)]
struct With<L> {
    at_ns: u64,
    #[serde(default)]
    evicted: u64,
    ledger: L,
}

/// Adds what is left out if it is empty.
fn complete(value: &mut Value) {
    let Some(ledger) = value.get_mut("ledger") else {
        return;
    };
    if let Some(missing) = ledger.get_mut("missing_hooks") {
        let words = ["doorbell", "fentry", "a_hook", "a reason", "kprobe"];
        let [point, method, hook, why, instead] = words;
        *missing = json!([{ "point": point, "method": method, "hook": hook, "why": why, "tried": true,
            "instead": instead }]);
    }
    for map in ["hits", "skipped", "run_ns", "trap_ns"] {
        if let Some(map) = ledger.get_mut(map).and_then(Value::as_object_mut) {
            map.insert("a_program".into(), 0.into());
        }
    }
}

/// A text, a key of a map, or a null that may stand for a text.
struct Site {
    place: String,
    /// Pointer into the JSON value.
    pointer: String,
    /// `Some`: the key of that object.
    key: Option<String>,
}

fn find(value: &Value, place: &str, pointer: &str, sites: &mut Vec<Site>) {
    let site = |key: Option<&String>| Site {
        place: place.to_owned(),
        pointer: pointer.to_owned(),
        key: key.cloned(),
    };
    match value {
        Value::Null | Value::String(_) => sites.push(site(None)),
        Value::Array(all) => {
            for (n, one) in all.iter().enumerate() {
                find(one, &format!("{place}[]"), &format!("{pointer}/{n}"), sites);
            }
        }
        Value::Object(all) => {
            for (key, one) in all {
                let place = format!("{place}.{key}");
                let place = place.trim_start_matches('.');
                find(one, place, &format!("{pointer}/{key}"), sites);
            }
            // keys last: the pointers before them stay valid
            let place = format!("{place} (key)");
            sites.extend(all.keys().map(|key| Site { place: place.clone(), ..site(Some(key)) }));
        }
        _ => {}
    }
}

impl Site {
    fn put(&self, text: &str, all: &mut Value) {
        match (&self.key, all.pointer_mut(&self.pointer)) {
            (None, Some(value)) => *value = text.into(),
            (Some(key), Some(Value::Object(map))) => {
                let value = map.remove(key).unwrap();
                map.insert(text.into(), value);
            }
            _ => panic!("{}: no such place", self.pointer),
        }
    }

    /// Whether the reader takes any text there. A key that is not part of a map is ignored.
    fn takes<T: DeserializeOwned + Serialize>(&self, all: &Value) -> bool {
        let mut probe = all.clone();
        self.put("probe", &mut probe);
        let read = from_value::<T>(probe.clone()).map(|read| to_value(read).unwrap());
        read.is_ok_and(|read| read == probe)
    }

    /// Puts a text there, unless the reader needs what is there.
    fn replace<T: DeserializeOwned + Serialize>(&self, all: &mut Value, planter: &mut Planter<'_>) {
        let old = match &self.key {
            Some(key) => Some(key.clone()),
            None => {
                let text = all.pointer(&self.pointer).and_then(Value::as_str);
                text.map(ToOwned::to_owned)
            }
        };
        // without a name, a frame has only an address
        if old.is_none() && self.place.starts_with("stacks") {
            return;
        }
        let takes = planter.takes.get(&self.place).copied();
        let takes = takes.unwrap_or_else(|| self.takes::<T>(all));
        planter.takes.insert(self.place.clone(), takes);
        if takes {
            let text = planter.text(&self.place, old.as_deref());
            self.put(&text, all);
        }
    }
}
