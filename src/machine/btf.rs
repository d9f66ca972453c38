// SPDX-License-Identifier: MIT OR Apache-2.0
//! BTF, read through libbpf. libbpf-rs does not read split (module) BTF, so this module uses
//! libbpf's raw FFI. It contains nearly all of the crate's FFI calls.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::ffi::CStr;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::ptr::null_mut;
use std::slice::from_raw_parts;

use libbpf_sys::btf;
use libbpf_sys::btf__add_btf;
use libbpf_sys::btf__find_by_name_kind;
use libbpf_sys::btf__free;
use libbpf_sys::btf__load_module_btf;
use libbpf_sys::btf__load_vmlinux_btf;
use libbpf_sys::btf__name_by_offset;
use libbpf_sys::btf__parse;
use libbpf_sys::btf__raw_data;
use libbpf_sys::btf__type_by_id;
use libbpf_sys::btf__type_cnt;
use libbpf_sys::btf_member;
use libbpf_sys::btf_type;

use super::structure::Structure;

const KIND_PTR: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_TYPEDEF: u32 = 8;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;

/// A walk through nested structs. In a file, a struct may contain itself.
#[derive(Default)]
struct Walk {
    depth: u32,
    structs: u32,
}

impl Walk {
    /// Goes into a struct; false: it has been going on for too long. No kernel nests as deeply.
    const fn enter(&mut self) -> bool {
        if self.depth >= 32 || self.structs >= 10_000 {
            return false;
        }
        self.depth += 1;
        self.structs += 1;
        true
    }
}

/// An owned BTF object. A module's object refers to the kernel image's, which must outlive it. The
/// number is the id of its first type: lower ids belong to the image.
pub struct Btf(NonNull<btf>, u32, RefCell<Found>);

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
            (KIND_FUNC, names(&self.functions)),
            (KIND_TYPEDEF, typedefs.collect()),
            (KIND_STRUCT, names(&self.structures)),
        ])
    }
}

/// The type that describes a tracepoint.
fn typedef_of(tracepoint: &str) -> String {
    format!("btf_trace_{tracepoint}")
}

/// A cheap hash of a name: most types are skipped by it.
fn mark(name: &[u8]) -> usize {
    let last = name.last().copied().unwrap_or(0);
    name.len() % 64 * 64 + usize::from(last) % 64
}

impl Btf {
    /// The BTF of the running kernel.
    pub fn vmlinux() -> Option<Self> {
        // SAFETY: no arguments; returns null on failure, otherwise an object that the caller owns.
        NonNull::new(unsafe { btf__load_vmlinux_btf() }).map(Self::of)
    }

    /// The BTF of a loaded module, on top of the kernel image's.
    pub fn module(name: &str, base: &Self) -> Option<Self> {
        let name = CString::new(name).ok()?;
        // SAFETY: `name` is NUL-terminated and lives through the call; `base` is a valid BTF object
        // and outlives the result, because the caller drops it last.
        let btf = NonNull::new(unsafe { btf__load_module_btf(name.as_ptr(), base.0.as_ptr()) })?;
        Some(Self(btf, base.types(), RefCell::default()))
    }

    /// The BTF of a file: raw, or the .BTF section of an ELF file.
    pub fn parse(path: &Path) -> Option<Self> {
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: `path` is NUL-terminated and lives through the call; no BTF.ext is requested.
        let btf = NonNull::new(unsafe { btf__parse(path.as_ptr(), null_mut()) })?;
        Some(Self::of(btf))
    }

    /// An object without a base.
    fn of(btf: NonNull<btf>) -> Self {
        Self(btf, 1, RefCell::default())
    }

    /// The number of types, including those of the base and `void`.
    fn types(&self) -> u32 {
        // SAFETY: a valid BTF object; libbpf only reads.
        unsafe { btf__type_cnt(self.0.as_ptr()) }
    }

    /// Looks for these types, in one pass. A look-up of one of them goes through all types of the kernel,
    /// a million instructions. `base`: that of a module, which has been asked for the same types.
    pub fn look_for(&self, wanted: &Wanted<'_>, base: Option<&Self>) {
        let mut found = wanted.to_find();
        let mut marks = [false; 64 * 64];
        for name in found.values().flat_map(HashMap::keys) {
            marks[mark(name.as_bytes())] = true;
        }
        for id in self.1..self.types() {
            let Some(of_kind) = self.kind_of(id).and_then(|(kind, _)| found.get_mut(&kind)) else {
                continue;
            };
            let name = self.name_of(id).to_bytes();
            if !marks[mark(name)] {
                continue;
            }
            let entry = str::from_utf8(name).ok().and_then(|n| of_kind.get_mut(n));
            if let Some(entry) = entry.filter(|entry| entry.is_none()) {
                *entry = Some(id);
            }
        }
        for (kind, names) in found.iter_mut() {
            for (name, id) in names.iter_mut().filter(|(_, id)| id.is_none()) {
                *id = base.and_then(|base| base.find(name, *kind));
            }
        }
        self.2.replace(found);
    }

    fn find(&self, name: &str, kind: u32) -> Option<u32> {
        if let Some(found) = self.2.borrow().get(&kind).and_then(|of| of.get(name)) {
            return *found;
        }
        // libbpf begins with the kernel image's types, some hundred thousand, which do not include
        // the module's
        if self.1 > 1 {
            let own = (self.1..self.types()).find(|&id| self.is(id, name, kind));
            if own.is_some() {
                return own;
            }
        }
        let name = CString::new(name).ok()?;
        // SAFETY: a valid BTF object and a NUL-terminated name; libbpf only reads.
        let id = unsafe { btf__find_by_name_kind(self.0.as_ptr(), name.as_ptr(), kind) };
        u32::try_from(id).ok().filter(|&id| id > 0)
    }

    /// Whether it describes a function of this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.find(name, KIND_FUNC).is_some()
    }

    /// The number of arguments of a tracepoint; `None` if it is not described.
    pub fn tracepoint_arguments(&self, name: &str) -> Option<usize> {
        let typedef = self.find(&typedef_of(name), KIND_TYPEDEF)?;
        let pointer = self.referred(typedef)?;
        let proto = self.referred(pointer)?;
        let (kind, vlen) = self.kind_of(proto)?;
        // the first parameter is the private data of the probe
        (kind == KIND_FUNC_PROTO).then(|| vlen.saturating_sub(1))
    }

    fn raw_type(&self, id: u32) -> Option<NonNull<btf_type>> {
        // SAFETY: a valid BTF object; returns null for an id out of range.
        NonNull::new(unsafe { btf__type_by_id(self.0.as_ptr(), id) }.cast_mut())
    }

    fn is(&self, id: u32, name: &str, kind: u32) -> bool {
        self.kind_of(id).is_some_and(|(k, _)| k == kind)
            // SAFETY: valid while the object lives; the value is copied.
            && self.raw_type(id).is_some_and(|t| self.name_at(unsafe { t.as_ref() }.name_off) == name)
    }

    /// Kind, and number of members or parameters.
    fn kind_of(&self, id: u32) -> Option<(u32, usize)> {
        // SAFETY: libbpf's pointer is valid and unchanged while the object lives; the value is
        // copied.
        let info = unsafe { self.raw_type(id)?.as_ref() }.info;
        Some((info >> 24 & 0x1f, (info & 0xffff) as usize))
    }

    /// The size, or for a reference the type that it refers to.
    fn size_or_type(&self, id: u32) -> Option<u32> {
        // SAFETY: as above; both variants of the union are a u32.
        Some(unsafe { self.raw_type(id)?.as_ref().__bindgen_anon_1.size })
    }

    fn referred(&self, id: u32) -> Option<u32> {
        let (kind, _) = self.kind_of(id)?;
        matches!(kind, KIND_PTR | KIND_TYPEDEF)
            .then(|| self.size_or_type(id))
            .flatten()
    }

    fn text_at(&self, offset: u32) -> &CStr {
        // SAFETY: libbpf returns null or a NUL-terminated string that lives as long as the object.
        let text = unsafe { btf__name_by_offset(self.0.as_ptr(), offset) };
        if text.is_null() {
            return c"";
        }
        // SAFETY: not null, see above.
        unsafe { CStr::from_ptr(text) }
    }

    fn name_at(&self, offset: u32) -> &str {
        self.text_at(offset).to_str().unwrap_or("")
    }

    /// The name of a type.
    fn name_of(&self, id: u32) -> &CStr {
        // SAFETY: valid while the object lives; the value is copied.
        let offset = self.raw_type(id).map(|t| unsafe { t.as_ref() }.name_off);
        self.text_at(offset.unwrap_or(0))
    }

    /// Name, type and offset in bits of each member; empty for types without members.
    fn members(&self, id: u32) -> Vec<(&str, u32, u32)> {
        let Some((KIND_STRUCT | KIND_UNION, count)) = self.kind_of(id) else {
            return Vec::new();
        };
        let Some(at) = self.raw_type(id) else {
            return Vec::new();
        };
        // SAFETY: a struct or union record is followed by its `count` members (BTF format,
        // Documentation/bpf/btf.rst); libbpf has checked that they are there.
        let members = unsafe { from_raw_parts(at.as_ptr().add(1).cast::<btf_member>(), count) };
        // SAFETY: valid while the object lives; the value is copied.
        let bitfields = unsafe { at.as_ref() }.info >> 31 == 1;
        let mask = if bitfields { 0xff_ffff } else { u32::MAX };
        members
            .iter()
            .map(|m| (self.name_at(m.name_off), m.type_, m.offset & mask))
            .collect()
    }

    fn collect(&self, id: u32, base: u32, walk: &mut Walk, into: &mut BTreeMap<String, u32>) {
        if !walk.enter() {
            return;
        }
        for (name, of, bits) in self.members(id) {
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
        let id = self.find(name, KIND_STRUCT)?;
        let mut found = Structure {
            size: self.size_or_type(id)?,
            members: BTreeMap::new(),
        };
        self.collect(id, 0, &mut Walk::default(), &mut found.members);
        Some(found)
    }

    /// Whether a struct has this path of nested members. Anonymous structs and unions may be in
    /// between.
    pub fn has_path(&self, name: &str, path: &[&str]) -> bool {
        self.find(name, KIND_STRUCT)
            .is_some_and(|id| self.leads(id, path, &mut Walk::default()))
    }

    fn leads(&self, id: u32, path: &[&str], walk: &mut Walk) -> bool {
        let Some((first, rest)) = path.split_first() else {
            return true;
        };
        if !walk.enter() {
            return false;
        }
        let found = self.members(id).into_iter().any(|(name, of, _)| {
            (name.is_empty() && self.leads(of, path, walk))
                || (name == *first && self.leads(of, rest, walk))
        });
        walk.depth -= 1;
        found
    }

    /// Adds all types of another object. Returns false on failure.
    pub fn add(&mut self, other: &Self) -> bool {
        self.2.get_mut().clear();
        // SAFETY: two valid BTF objects; libbpf copies from the second into the first.
        unsafe { btf__add_btf(self.0.as_ptr(), other.0.as_ptr()) >= 0 }
    }

    /// The whole object, in the format of a file.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let mut size = 0;
        // SAFETY: a valid BTF object; returns null on failure, else `size` bytes that the object
        // owns.
        let data = unsafe { btf__raw_data(self.0.as_ptr(), &mut size) };
        if data.is_null() {
            return None;
        }
        // SAFETY: see above; the bytes are copied.
        Some(unsafe { from_raw_parts(data.cast::<u8>(), size as usize) }.to_vec())
    }
}

impl Drop for Btf {
    fn drop(&mut self) {
        // SAFETY: owned by `self`, and freed once.
        unsafe { btf__free(self.0.as_ptr()) }
    }
}

/// Joins a base and the split BTF on top of it (a module's) into one object. The split BTF
/// continues the base's numbering of types and string bytes, so the sections are concatenated.
///
/// `None` if either is not BTF.
pub fn flatten(base: &[u8], split: &[u8]) -> Option<Vec<u8>> {
    let (base, split) = (Parts::of(base)?, Parts::of(split)?);
    let types = [base.types, split.types].concat();
    let strings = [base.strings, split.strings].concat();
    let (types_len, strings_len) = (
        u32::try_from(types.len()).ok()?,
        u32::try_from(strings.len()).ok()?,
    );
    let header: [u32; 5] = [24, 0, types_len, types_len, strings_len];
    let mut flat = base.magic.to_vec();
    flat.extend(header.into_iter().flat_map(u32::to_ne_bytes));
    flat.extend(types);
    flat.extend(strings);
    Some(flat)
}

/// The sections of a BTF blob (struct btf_header).
struct Parts<'a> {
    magic: &'a [u8],
    types: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(blob: &'a [u8]) -> Option<Self> {
        let word = |at: usize| -> Option<usize> {
            let bytes = blob.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_ne_bytes(bytes)).ok()
        };
        if blob.get(..2)? != 0xeb9f_u16.to_ne_bytes() {
            return None;
        }
        let data = blob.get(word(4)?..)?;
        let section = |offset: usize, len: usize| data.get(offset..offset.checked_add(len)?);
        Some(Self {
            magic: &blob[..4],
            types: section(word(8)?, word(12)?)?,
            strings: section(word(16)?, word(20)?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blob(types: &[u8], strings: &[u8]) -> Vec<u8> {
        let mut blob = vec![0x9f, 0xeb, 1, 0];
        let (t, s) = (types.len() as u32, strings.len() as u32);
        blob.extend([24, 0, t, t, s].into_iter().flat_map(u32::to_ne_bytes));
        blob.extend(types);
        blob.extend(strings);
        blob
    }

    #[test]
    fn a_split_object_is_laid_behind_its_base() {
        let flat = flatten(&blob(b"BASE", b"\0a\0"), &blob(b"MODULE", b"b\0")).unwrap();
        assert_eq!(flat, blob(b"BASEMODULE", b"\0a\0b\0"));
        assert_eq!(flatten(b"not", &blob(b"", b"")), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(a: Vec<u8>, b in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = flatten(&a, &b);
            let mut headed = vec![0x9f, 0xeb, 1, 0];
            headed.extend(&b);
            let _ = flatten(&headed, &headed);
        }
    }
}
