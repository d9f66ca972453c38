// SPDX-License-Identifier: MIT OR Apache-2.0
//! BTF of only the types that the programs read, from one or several sources. For each of these types,
//! libbpf searches all types that it is given: 150,000 in a kernel.

use std::collections::{BTreeSet, HashMap};

use super::btf::{Btf, HEADER, Record, kind};
use crate::machine::btf::NameFilter;

/// The types that bpf/nvme_deep.bpf.c reads, without the suffix of a flavor (`___loop`).
pub const READ: [&str; 29] = [
    "bio",
    "blk_mq_alloc_data",
    "blk_mq_hw_ctx",
    "blk_mq_queue_data",
    "blk_mq_tag_set",
    "blkcg",
    "blkcg_gq",
    "block_device",
    "bpf_func_id",
    "cgroup",
    "cgroup_subsys_id",
    "cgroup_subsys_state",
    "css_set",
    "device",
    "dm_crypt_io",
    "dm_io",
    "dm_target_io",
    "gendisk",
    "kernel_stat",
    "kernfs_node",
    "kobject",
    "nvme_ctrl",
    "nvme_queue",
    "nvme_request",
    "pcpu_hot",
    "req_flag_bits",
    "request",
    "request_queue",
    "task_struct",
];

/// Types whose ids in the kernel's BTF the programs pass to the kernel: `enum nd_type_id` of
/// bpf/include/kernel.bpf.h.
pub(super) const IDS: [(&str, &str); 2] =
    [("ND_TYPE_ID_REQUEST", "request"), ("ND_TYPE_ID_TIMESPEC64", "timespec64")];

/// The kinds that relocations begin with.
const KINDS: [u32; 4] = [kind::STRUCT, kind::UNION, kind::ENUM, kind::ENUM64];

/// BTF of the types in [`READ`], and of those that they contain. Pointers become pointers to void. A type
/// comes from the first source that has it. With `image`, the kernel's own BTF, an enum has the ids of some
/// types there.
pub fn reduced(sources: &[&Btf], image: Option<&Btf>) -> Vec<u8> {
    let mut writer = Writer::new();
    let mut missing = BTreeSet::from(READ);
    for source in sources {
        let names = missing.iter().copied();
        let filter = NameFilter::of(names.flat_map(|name| KINDS.map(|kind| (kind, name))));
        let found = source.passing(&KINDS, &filter);
        let found = found.filter(|(_, _, name)| missing.contains(name));
        // a kernel can have several types of a name: libbpf compares them
        let found: Vec<_> = found.collect();
        for (id, _, name) in found {
            writer.take(source, id);
            missing.remove(name);
        }
    }
    writer.finish();
    if let Some(image) = image {
        let ids = IDS.map(|(label, name)| (label, image.id_of_struct(name).unwrap_or(0)));
        writer.numbers("nd_type_id", &ids);
    }
    writer.bytes()
}

/// Copies types, with those that they contain, and numbers them anew.
struct Writer<'b> {
    /// The new id of each type that is taken: by its source, and its id there.
    taken: HashMap<(usize, u32), u32>,
    /// The same types, in the order of their new ids.
    queue: Vec<(&'b Btf, u32)>,
    types: Vec<u8>,
    strings: Vec<u8>,
    offsets: HashMap<&'b str, u32>,
}

impl<'b> Writer<'b> {
    fn new() -> Self {
        Self {
            taken: HashMap::new(),
            queue: Vec::new(),
            types: Vec::new(),
            strings: vec![0],
            offsets: HashMap::from([("", 0)]),
        }
    }

    /// The new id of a type.
    fn take(&mut self, source: &'b Btf, id: u32) -> u32 {
        // 0 is void
        if id == 0 {
            return 0;
        }
        let owner = source.owner(id);
        let next = self.queue.len() as u32 + 1;
        let key = (std::ptr::from_ref(owner).addr(), id);
        let new = *self.taken.entry(key).or_insert(next);
        if new == next {
            self.queue.push((owner, id));
        }
        new
    }

    /// The new offset of a name.
    fn name(&mut self, text: &'b str) -> u32 {
        let (strings, offsets) = (&mut self.strings, &mut self.offsets);
        *offsets.entry(text).or_insert_with(|| {
            let at = strings.len() as u32;
            strings.extend(text.bytes().chain([0]));
            at
        })
    }

    fn put(&mut self, words: &[u32]) {
        let bytes = words.iter().flat_map(|word| word.to_ne_bytes());
        self.types.extend(bytes);
    }

    /// Writes the types that are taken, and those that they contain.
    fn finish(&mut self) {
        let mut written = 0;
        while let Some(&(source, id)) = self.queue.get(written) {
            written += 1;
            match source.record(id) {
                Some(record) => self.write(source, record),
                // its new id is already used
                None => self.put(&[0, kind::FWD << 24, 0]),
            }
        }
    }

    fn write(&mut self, source: &'b Btf, record: Record<'b>) {
        let name = self.name(source.text(record.name));
        let with = |size_or_type| [name, record.info, size_or_type];
        match record.kind() {
            kind::INT => {
                self.put(&with(record.size_or_type));
                self.types.extend(record.rest);
            }
            kind::FLOAT => self.put(&with(record.size_or_type)),
            // relocations do not follow pointers
            kind::PTR => self.put(&with(0)),
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                let of = self.take(source, record.size_or_type);
                self.put(&with(of));
            }
            kind::ARRAY => {
                self.put(&with(0));
                for [of, index, count] in record.groups() {
                    let words = [self.take(source, of), self.take(source, index), count];
                    self.put(&words);
                }
            }
            kind::STRUCT | kind::UNION => {
                self.put(&with(record.size_or_type));
                for [member, of, offset] in record.groups() {
                    let member = self.name(source.text(member));
                    let of = self.take(source, of);
                    self.put(&[member, of, offset]);
                }
            }
            kind::ENUM => self.values::<2>(source, record, &with(record.size_or_type)),
            kind::ENUM64 => self.values::<3>(source, record, &with(record.size_or_type)),
            // not contained in a struct
            _ => self.put(&[name, kind::FWD << 24, 0]),
        }
    }

    /// Writes an enum.
    fn values<const N: usize>(&mut self, source: &'b Btf, record: Record<'b>, head: &[u32]) {
        self.put(head);
        for mut value in record.groups::<N>() {
            value[0] = self.name(source.text(value[0]));
            self.put(&value);
        }
    }

    /// Writes an enum of numbers.
    fn numbers(&mut self, name: &'b str, numbers: &[(&'b str, u32)]) {
        let name = self.name(name);
        self.put(&[name, kind::ENUM << 24 | numbers.len() as u32, 4]);
        for &(name, number) in numbers {
            let words = [self.name(name), number];
            self.put(&words);
        }
    }

    /// The file: `struct btf_header`, types, strings.
    fn bytes(self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let header = [0x0001_eb9f, HEADER, 0, types, types, strings];
        let header = header.into_iter().flat_map(u32::to_ne_bytes);
        header.chain(self.types).chain(self.strings).collect()
    }
}
