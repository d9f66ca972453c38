// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads BTF (Documentation/bpf/btf.rst), also the split BTF of modules, which libbpf-rs cannot read. A start
//! reads all types of the kernel. For 126,611 types libbpf takes 77 million instructions to load them and 8 million
//! to look for one by its name; this takes 4 million, and 14 with all names and the BTF for libbpf. Most modes
//! start in less than 600 million.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use super::elf;
use crate::machine::types::Structure;

/// BTF_KIND_*, of include/uapi/linux/btf.h.
pub(super) mod kind {
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// The size of `struct btf_header`.
pub(super) const HEADER: u32 = 24;
/// The size of `struct btf_type`.
const RECORD: usize = 12;

/// The kernel's limits of names, of all names, and of types (include/linux/kallsyms.h,
/// include/uapi/linux/btf.h). A file that exceeds them could take all memory.
const NAME: usize = 512;
const NAMES: usize = 1 << 24;
const TYPES: usize = 1 << 20;

/// A walk through nested structs. In a file, a struct may contain itself.
#[derive(Default)]
struct Walk {
    depth: u32,
    members: usize,
}

impl Walk {
    /// Goes into a struct with this number of members; false: it has been going on for too long. No kernel
    /// nests as deeply.
    const fn enter(&mut self, members: usize) -> bool {
        self.members += 1 + members;
        if self.depth >= 32 || self.members > 100_000 {
            return false;
        }
        self.depth += 1;
        true
    }
}

/// Ids by kind and name, of the names that were looked for: `None` if there is no such type.
type Found = BTreeMap<u32, HashMap<String, Option<u32>>>;

/// Names of types to look for.
#[derive(Default)]
pub struct Wanted<'n> {
    /// Functions.
    pub functions: Vec<&'n str>,
    /// Tracepoints.
    pub tracepoints: Vec<&'n str>,
    /// Structures.
    pub structures: Vec<&'n str>,
}

impl Wanted<'_> {
    /// With nothing found.
    fn to_find(&self) -> Found {
        let names = |names: &[&str]| names.iter().map(|n| ((*n).to_owned(), None)).collect();
        let typedefs = self.tracepoints.iter().map(|t| (typedef_of(t), None));
        BTreeMap::from([
            (kind::FUNC, names(&self.functions)),
            (kind::TYPEDEF, typedefs.collect()),
            (kind::STRUCT, names(&self.structures)),
        ])
    }
}

/// The type that describes a tracepoint.
fn typedef_of(tracepoint: &str) -> String {
    format!("btf_trace_{tracepoint}")
}

/// A type: `struct btf_type`, and what follows it.
#[derive(Clone, Copy)]
pub(super) struct Record<'b> {
    pub name: u32,
    pub info: u32,
    /// The size, or for a reference the type that it refers to.
    pub size_or_type: u32,
    pub rest: &'b [u8],
}

/// The 32-bit number at an offset.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_ne_bytes(bytes))
}

/// The kind of a type. Kernels before 7.1 have five bits for it, and 16 for the number of members: the other
/// bits are 0 there.
const fn kind_of(info: u32) -> u32 {
    info >> 24 & 0x7f
}

/// The number of members, values or parameters.
const fn count_of(info: u32) -> usize {
    (info & 0xff_ffff) as usize
}

/// The number of bytes after the record. `None`: a kind that is not known.
const fn rest_of(info: u32) -> Option<usize> {
    Some(match kind_of(info) {
        kind::INT | kind::VAR | kind::DECL_TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * count_of(info),
        kind::ENUM | kind::FUNC_PROTO => 8 * count_of(info),
        kind::PTR | kind::FWD | kind::TYPEDEF | kind::VOLATILE | kind::CONST => 0,
        kind::RESTRICT | kind::FUNC | kind::FLOAT | kind::TYPE_TAG => 0,
        _ => return None,
    })
}

impl<'b> Record<'b> {
    pub const fn kind(&self) -> u32 {
        kind_of(self.info)
    }

    /// The words after the record, in groups.
    pub fn groups<const N: usize>(&self) -> impl Iterator<Item = [u32; N]> + use<'b, N> {
        let group = |bytes: &[u8]| {
            let words = bytes.as_chunks::<4>().0;
            std::array::from_fn(|at| u32::from_ne_bytes(words[at]))
        };
        self.rest.chunks_exact(4 * N).map(group)
    }
}

/// Types of a kernel image, of a file, or of a module on top of the image's.
pub struct Btf {
    blob: Vec<u8>,
    types: Range<usize>,
    strings: Range<usize>,
    /// Where each of its own types is, from the start of the types.
    starts: Vec<u32>,
    base: Option<Rc<Self>>,
    /// The id of its first own type: lower ones belong to the base.
    first: u32,
    /// The offset of its first own string.
    first_string: u32,
    found: RefCell<Found>,
}

impl Btf {
    /// The BTF of the running kernel.
    pub fn vmlinux() -> Option<Self> {
        Self::of(fs::read("/sys/kernel/btf/vmlinux").ok()?, None)
    }

    /// The BTF of a loaded module, on top of the kernel image's.
    pub fn module(name: &str, base: &Rc<Self>) -> Option<Self> {
        let blob = fs::read(Path::new("/sys/kernel/btf").join(name)).ok()?;
        Self::of(blob, Some(Rc::clone(base)))
    }

    /// The BTF of a file: raw, or the .BTF section of an ELF file. Not split BTF, which refers to types
    /// that are not in it.
    pub fn parse(file: &[u8]) -> Option<Self> {
        let blob = elf::section(file, ".BTF").unwrap_or(file);
        Self::of(blob.to_vec(), None).filter(Self::is_sound)
    }

    fn of(blob: Vec<u8>, base: Option<Rc<Self>>) -> Option<Self> {
        let header = |at| word(&blob, at);
        if blob.get(..2)? != 0xeb9f_u16.to_ne_bytes() {
            return None;
        }
        let section = |offset, length| {
            let start = header(4)?.checked_add(header(offset)?)? as usize;
            let section = start..start.checked_add(header(length)? as usize)?;
            blob.get(section.clone()).map(|_| section)
        };
        let (types, strings) = (section(8, 12)?, section(16, 20)?);
        // each name ends
        if strings.is_empty() || strings.len() > NAMES || blob[strings.end - 1] != 0 {
            return None;
        }
        let starts = starts(&blob[types.clone()]).filter(|starts| starts.len() < TYPES)?;
        Some(Self {
            first: base.as_ref().map_or(1, |base| base.end()),
            first_string: base.as_ref().map_or(0, |base| base.strings.len() as u32),
            blob,
            types,
            strings,
            starts,
            base,
            found: RefCell::default(),
        })
    }

    /// The id after its last type.
    fn end(&self) -> u32 {
        self.first + self.starts.len() as u32
    }

    /// Whether all names and types that its types refer to are its own, and no type is only itself. libbpf
    /// would follow such a one without end, and divide by a size of 0.
    fn is_sound(&self) -> bool {
        let (end, names) = (self.end(), self.strings.len() as u32);
        let typed = |id: u32| id < end;
        (1..end).filter_map(|id| self.record(id)).all(|record| {
            record.name < names
                && match record.kind() {
                    kind::INT | kind::ENUM | kind::ENUM64 => record.size_or_type > 0,
                    kind::FWD | kind::FLOAT => true,
                    kind::ARRAY => record.groups().all(|[of, index, _]| typed(of.max(index))),
                    kind::STRUCT | kind::UNION => {
                        record.groups().all(|[name, of, _]| name < names && typed(of))
                    }
                    kind::DATASEC => record.groups().all(|[of, _, _]| typed(of)),
                    kind::FUNC_PROTO => {
                        let all = |[name, of]: [u32; 2]| name < names && typed(of);
                        typed(record.size_or_type) && record.groups().all(all)
                    }
                    kind::PTR | kind::FUNC | kind::VAR | kind::DECL_TAG => {
                        typed(record.size_or_type)
                    }
                    _ => self.ends(record),
                }
        })
    }

    /// Whether a typedef or modifier leads to another kind of type. In C there are a few in a row.
    fn ends<'b>(&'b self, mut record: Record<'b>) -> bool {
        for _ in 0..32 {
            match record.kind() {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {}
                _ => return true,
            }
            if record.size_or_type == 0 {
                return true;
            }
            match self.record(record.size_or_type) {
                Some(next) => record = next,
                None => return false,
            }
        }
        false
    }

    /// Id, kind and name of each type of its own, not of the base, that is of these kinds and passes.
    pub(super) fn passing<'b>(
        &'b self,
        kinds: &[u32],
        filter: &'b NameFilter,
    ) -> impl Iterator<Item = (u32, u32, &'b str)> + use<'b> {
        let kinds = kinds.iter().fold(0_u32, |all, kind| all | 1 << kind);
        let (types, strings) = (&self.blob[self.types.clone()], self.own_strings());
        (self.first..).zip(&self.starts).filter_map(move |(id, &start)| {
            let kind = kind_of(word(types, start as usize + 4)?);
            if kinds >> kind & 1 == 0 {
                return None;
            }
            let name = word(types, start as usize)?.checked_sub(self.first_string)?;
            let text = strings.get(name as usize..)?;
            filter.passes(kind, text).then(|| (id, kind, text_of(text)))
        })
    }

    /// Finds these types in one pass, and remembers them. A look-up of a single one goes through all types
    /// of the kernel, a million instructions. Call this for the base before its modules.
    pub fn look_for(&self, wanted: &Wanted<'_>) {
        let mut found = wanted.to_find();
        let names =
            found.iter().flat_map(|(kind, names)| names.keys().map(|name| (*kind, name.as_str())));
        let filter = NameFilter::of(names);
        let kinds: Vec<_> = found.keys().copied().collect();
        for (id, kind, name) in self.passing(&kinds, &filter) {
            let entry = found.get_mut(&kind).and_then(|of| of.get_mut(name));
            if let Some(entry) = entry.filter(|entry| entry.is_none()) {
                *entry = Some(id);
            }
        }
        for (kind, names) in &mut found {
            for (name, id) in names.iter_mut().filter(|(_, id)| id.is_none()) {
                *id = self.base.as_ref().and_then(|base| base.find(name, *kind));
            }
        }
        self.found.replace(found);
    }

    /// The first type of this name and kind: its own, else the base's.
    fn find(&self, name: &str, kind: u32) -> Option<u32> {
        if let Some(found) = self.found.borrow().get(&kind).and_then(|of| of.get(name)) {
            return *found;
        }
        let filter = NameFilter::of([(kind, name)].into_iter());
        let mut passing = self.passing(&[kind], &filter);
        let own = passing.find_map(|(id, _, its)| (its == name).then_some(id));
        own.or_else(|| self.base.as_ref()?.find(name, kind))
    }

    /// The id of a struct.
    pub(super) fn id_of_struct(&self, name: &str) -> Option<u32> {
        self.find(name, kind::STRUCT)
    }

    /// Whether it describes a function of this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.find(name, kind::FUNC).is_some()
    }

    /// The number of arguments of a function; `None` if it is not described.
    pub fn function_arguments(&self, name: &str) -> Option<usize> {
        let function = self.find(name, kind::FUNC)?;
        let proto = self.record(self.record(function)?.size_or_type)?;
        (proto.kind() == kind::FUNC_PROTO).then(|| count_of(proto.info))
    }

    /// The number of arguments of a tracepoint; `None` if it is not described.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        let typedef = self.find(&typedef_of(name), kind::TYPEDEF)?;
        let pointer = self.record(typedef)?.size_or_type;
        let proto = self.record(self.record(pointer)?.size_or_type)?;
        // the first parameter is the private data of the probe
        (proto.kind() == kind::FUNC_PROTO).then(|| count_of(proto.info).saturating_sub(1))
    }

    /// The object that contains a type: this one or its base.
    pub(super) fn owner(&self, id: u32) -> &Self {
        match &self.base {
            Some(base) if id < self.first => base,
            _ => self,
        }
    }

    pub(super) fn record(&self, id: u32) -> Option<Record<'_>> {
        if id < self.first {
            return self.base.as_ref()?.record(id);
        }
        let start = *self.starts.get((id - self.first) as usize)? as usize;
        let at = self.blob[self.types.clone()].get(start..)?;
        let info = word(at, 4)?;
        Some(Record {
            name: word(at, 0)?,
            info,
            size_or_type: word(at, 8)?,
            rest: at.get(RECORD..RECORD + rest_of(info)?)?,
        })
    }

    fn own_strings(&self) -> &[u8] {
        &self.blob[self.strings.clone()]
    }

    /// The text at an offset; empty if there is none.
    pub(super) fn text(&self, offset: u32) -> &str {
        match (&self.base, offset.checked_sub(self.first_string)) {
            (Some(base), None) => base.text(offset),
            (_, own) => {
                let own = own.and_then(|at| self.own_strings().get(at as usize..));
                text_of(own.unwrap_or_default())
            }
        }
    }

    /// Name, type and offset in bits of each member; empty for types without members.
    fn members(&self, id: u32) -> Vec<(&str, u32, u32)> {
        let is_struct = |r: &Record<'_>| matches!(r.kind(), kind::STRUCT | kind::UNION);
        let Some(record) = self.record(id).filter(is_struct) else {
            return Vec::new();
        };
        // with bit fields, the upper byte is the size
        let mask = if record.info >> 31 == 1 { 0xff_ffff } else { u32::MAX };
        let member = |[name, of, bits]: [u32; 3]| (self.text(name), of, bits & mask);
        record.groups().map(member).collect()
    }

    fn collect(&self, id: u32, base: u32, walk: &mut Walk, into: &mut BTreeMap<String, u32>) {
        let members = self.members(id);
        if !walk.enter(members.len()) {
            return;
        }
        for (name, of, bits) in members {
            let at = base.saturating_add(bits / 8);
            if name.is_empty() {
                self.collect(of, at, walk, into);
            } else {
                into.insert(name.to_owned(), at);
            }
        }
        walk.depth -= 1;
    }

    /// The layout of a struct.
    pub fn structure(&self, name: &str) -> Option<Structure> {
        let id = self.find(name, kind::STRUCT)?;
        let mut found = Structure { size: self.record(id)?.size_or_type, members: BTreeMap::new() };
        self.collect(id, 0, &mut Walk::default(), &mut found.members);
        Some(found)
    }

    /// Whether a struct has this path of nested members. Anonymous structs and unions may be in
    /// between.
    pub fn has_path(&self, name: &str, path: &[&str]) -> bool {
        self.find(name, kind::STRUCT).is_some_and(|id| self.leads(id, path, &mut Walk::default()))
    }

    fn leads(&self, id: u32, path: &[&str], walk: &mut Walk) -> bool {
        let Some((first, rest)) = path.split_first() else {
            return true;
        };
        let members = self.members(id);
        if !walk.enter(members.len()) {
            return false;
        }
        let found = members.into_iter().any(|(name, of, _)| {
            (name.is_empty() && self.leads(of, path, walk))
                || (name == *first && self.leads(of, rest, walk))
        });
        walk.depth -= 1;
        found
    }
}

/// The offset of each type. `None` if one is incomplete, or of an unknown kind.
fn starts(types: &[u8]) -> Option<Vec<u32>> {
    // most kernels have a type per 30 bytes
    let mut starts = Vec::with_capacity(types.len() / 24);
    let mut at = 0;
    while at < types.len() {
        starts.push(u32::try_from(at).ok()?);
        at += RECORD + rest_of(word(types, at + 4)?)?;
    }
    (at == types.len()).then_some(starts)
}

/// The text before the first 0 byte; empty if it is not UTF-8, or too long.
fn text_of(bytes: &[u8]) -> &str {
    let bytes = &bytes[..bytes.len().min(NAME)];
    let end = bytes.iter().position(|&byte| byte == 0);
    str::from_utf8(&bytes[..end.unwrap_or(0)]).unwrap_or("")
}

/// Names to look for, as hashes of their kinds and first bytes: rules out most types quickly.
pub(super) struct NameFilter(Box<[bool; 4096]>);

impl NameFilter {
    pub(super) fn of<'n>(names: impl Iterator<Item = (u32, &'n str)>) -> Self {
        let mut hashes = Box::new([false; 4096]);
        for (kind, name) in names {
            hashes[Self::hash(kind, name.as_bytes())] = true;
        }
        Self(hashes)
    }

    /// Of the first four bytes of a name, or those before its end.
    fn hash(kind: u32, name: &[u8]) -> usize {
        let head = name.first_chunk().copied().unwrap_or_else(|| {
            let mut head = [0; 4];
            head[..name.len()].copy_from_slice(name);
            head
        });
        let head = u32::from_le_bytes(head);
        // the lowest bit that is set is the highest of the first byte that is 0
        let ends = head.wrapping_sub(0x0101_0101) & !head & 0x8080_8080;
        let head = match ends.trailing_zeros() {
            32 => head,
            end => head & ((1 << (end - 7)) - 1),
        };
        (head.wrapping_mul(0x9e37_79b1).wrapping_add(kind << 27) >> 20) as usize
    }

    /// Whether a type of this kind can have one of the names. `text` begins with its name.
    fn passes(&self, kind: u32, text: &[u8]) -> bool {
        self.0[Self::hash(kind, text)]
    }
}

#[cfg(test)]
#[path = "btf_tests.rs"]
mod tests;
