// SPDX-License-Identifier: MIT OR Apache-2.0

use super::super::reduced::reduced;
use super::*;

/// BTF of these types and names.
fn blob(types: &[u32], names: &[u8]) -> Vec<u8> {
    let (t, s) = (4 * types.len() as u32, names.len() as u32);
    let header = [0x0001_eb9f, HEADER, 0, t, t, s];
    let words = header.iter().chain(types);
    let words = words.flat_map(|word| word.to_ne_bytes());
    words.chain(names.iter().copied()).collect()
}

/// An image with `struct request { void *tag; }`, which is type 2.
fn image() -> Vec<u8> {
    let pointer = [0, kind::PTR << 24, 0];
    let request = [1, kind::STRUCT << 24 | 1, 8, 9, 1, 0];
    blob(&[&pointer[..], &request].concat(), b"\0request\0tag\0")
}

/// A module with `struct nvme_request { struct request rq; }`: its first type is 3, its first name 13.
fn module() -> Vec<u8> {
    blob(&[13, kind::STRUCT << 24 | 1, 8, 26, 2, 0], b"nvme_request\0rq\0")
}

#[test]
fn the_types_of_a_module_continue_the_image() {
    let image = Rc::new(Btf::parse(&image()).unwrap());
    let module = Btf::of(module(), Some(Rc::clone(&image))).unwrap();
    assert_eq!(image.id_of_struct("request"), Some(2));
    assert_eq!(module.id_of_struct("request"), Some(2));
    assert_eq!(image.id_of_struct("nvme_request"), None);
    assert_eq!(module.id_of_struct("nvme_request"), Some(3));
    assert!(module.has_path("nvme_request", &["rq", "tag"]));
    let structure = module.structure("nvme_request").unwrap();
    assert_eq!((structure.size, structure.members["rq"]), (8, 0));
}

#[test]
fn a_reduced_file_has_the_types_of_both_and_the_ids_of_the_image() {
    let image = Rc::new(Btf::parse(&image()).unwrap());
    let module = Btf::of(module(), Some(Rc::clone(&image))).unwrap();
    let bytes = reduced(&[&*image, &module], Some(&*image));
    let file = Btf::parse(&bytes).unwrap();
    assert!(file.has_path("nvme_request", &["rq", "tag"]));
    assert_eq!(file.structure("request"), image.structure("request"));
    // each once: request, its pointer, nvme_request, the enum of ids
    assert_eq!(file.end(), 5);
    let ids = file.record(4).unwrap();
    let values: Vec<_> = ids.groups().map(|[name, id]| (file.text(name), id)).collect();
    assert_eq!(values, [("ND_TYPE_ID_REQUEST", 2), ("ND_TYPE_ID_TIMESPEC64", 0)]);
}

#[test]
fn types_that_refer_to_nothing_or_only_to_themselves_are_refused() {
    assert!(Btf::parse(&module()).is_none(), "split");
    let pointer = |of| vec![0, kind::PTR << 24, of];
    let named = |name| vec![name, kind::FWD << 24, 0];
    let argument = |name, of| vec![0, kind::FUNC_PROTO << 24 | 1, 0, name, of];
    // libbpf follows these without end, or divides by 0
    let pair = |of| vec![0, kind::TYPEDEF << 24, 2, 0, kind::CONST << 24, of];
    let number = |size| vec![0, kind::INT << 24, size, 0];
    let parses = |types: &Vec<u32>| Btf::parse(&blob(types, b"\0a\0")).is_some();
    for good in [pointer(1), named(1), argument(1, 1), pair(0), number(4)] {
        assert!(parses(&good), "{good:?}");
    }
    for bad in [pointer(2), named(3), argument(3, 1), argument(0, 2), pair(1), number(0)] {
        assert!(!parses(&bad), "{bad:?}");
    }
}

/// A struct with 65,535 members in each of 64 members of a struct.
#[test]
fn names_and_members_have_limits() {
    let long = [&b"\0"[..], &[b'x'; 600], b"\0"].concat();
    let of = |name| Btf::parse(&blob(&[name, kind::FWD << 24, 0], &long)).unwrap();
    assert_eq!(of(1).text(1), "");
    assert_eq!(of(400).text(400).len(), 201);
    let many = |id: u32, count: u32| -> Vec<u32> {
        let members = (0..count).flat_map(|_| [0, id, 0]);
        [1, kind::STRUCT << 24 | count, 0].into_iter().chain(members).collect()
    };
    let types = [many(0, 65_535), many(1, 64), many(2, 64)].concat();
    let btf = Btf::parse(&blob(&types, b"\0a\0")).unwrap();
    let mut walk = Walk::default();
    btf.collect(3, 0, &mut walk, &mut BTreeMap::new());
    assert!(walk.members < 10_000_000, "{}", walk.members);
}

#[test]
fn a_type_may_have_more_than_65535_members() {
    let count = 70_000_u32;
    let values = (0..count).flat_map(|value| [1, value]);
    let types = [1, kind::ENUM << 24 | count, 4].into_iter().chain(values);
    let types: Vec<_> = types.chain([3, kind::FWD << 24, 0]).collect();
    let btf = Btf::parse(&blob(&types, b"\0a\0b\0")).unwrap();
    assert_eq!(btf.end(), 3);
    assert_eq!(btf.record(1).unwrap().groups::<2>().count(), 70_000);
}

/// Each of the names comes from the first source that has it: all of its types.
#[test]
fn a_type_comes_from_the_first_source() {
    let request = |size| [1, kind::STRUCT << 24, size];
    let twice = [request(1), request(2)].concat();
    let [first, second] = [&twice[..], &request(3)[..]]
        .map(|types| Btf::parse(&blob(types, b"\0request\0")).unwrap());
    let sizes = |sources: &[&Btf]| -> Vec<u32> {
        let file = Btf::parse(&reduced(sources, None)).unwrap();
        let sizes = (1..file.end()).map(|id| file.record(id).unwrap().size_or_type);
        sizes.collect()
    };
    assert_eq!(sizes(&[&first, &second]), [1, 2]);
    assert_eq!(sizes(&[&second, &first]), [3]);
}

#[test]
fn a_cut_file_is_refused() {
    let whole = image();
    assert!(Btf::parse(&whole).is_some());
    for length in 0..whole.len() {
        assert!(Btf::parse(&whole[..length]).is_none(), "{length} bytes");
    }
    assert!(Btf::parse(&blob(&[0, 31 << 24, 0], b"\0")).is_none(), "kind");
}
