// SPDX-License-Identifier: MIT OR Apache-2.0
//! Functions and USDT notes of an executable or a library.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::machine::process::{self, MAX_BINARY};

/// What is needed of an executable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Each exported function, and each other function with a unique name.
    /// The place of each in the file: past `endbr64` if a `push` follows.
    pub functions: BTreeMap<String, usize>,
    /// USDT probes by provider: names, and numbers of arguments.
    pub probes: BTreeMap<String, BTreeMap<String, usize>>,
    /// The release of SPDK, if its text is in this file.
    pub spdk_release: Option<String>,
}

/// What is before the release in the text that SPDK prints at its start: `SPDK v24.09`.
const SPDK: &[u8] = b"SPDK v";

/// The release of SPDK in constant data: `24.09`, `26.05-pre`.
fn spdk_release(data: &[u8]) -> Option<String> {
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || [b'.', b'-'].contains(b);
    let found = data.windows(SPDK.len()).enumerate();
    let mut texts = found.filter(|(_, w)| *w == SPDK).map(|(at, _)| {
        let rest = data[at + SPDK.len()..].iter();
        let text: Vec<u8> = rest.take_while(|b| is_part(b)).copied().collect();
        String::from_utf8_lossy(&text).into_owned()
    });
    texts.find(|text| text.starts_with(|c: char| c.is_ascii_digit()))
}

/// Instruction that begins functions of newer builds for x86. On arm64 the kernel takes a single step at each
/// first instruction that compilers emit (`stp`, `sub`, `bti`, `paciasp`): nothing is skipped there.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Bytes to skip at the start of a function. A probe on `endbr64` takes a single step; the `push`
/// after it does not, and leaves the arguments in registers as they are.
fn skipped(code: &[u8]) -> usize {
    let is_push = |code: &[u8]| match code {
        [0x41, op, ..] | [op, ..] => (0x50..=0x57).contains(op),
        [] => false,
    };
    match code.strip_prefix(&ENDBR64) {
        Some(rest) if cfg!(target_arch = "x86_64") && is_push(rest) => ENDBR64.len(),
        _ => 0,
    }
}

/// Most segments of an executable.
const SEGMENTS: usize = 256;

/// The name of a symbol, as long as `left` bytes of names are left.
fn short_name<'data>(symbol: &impl ObjectSymbol<'data>, left: &mut usize) -> Option<&'data str> {
    if *left == 0 {
        return None;
    }
    let name = symbol.name().ok()?;
    let is_short = name.len() <= *left;
    *left = left.saturating_sub(name.len());
    is_short.then_some(name)
}

/// The probes in a section `.note.stapsdt`. Each note has its sizes, the name of its kind, three
/// addresses, and three texts: provider, probe, arguments.
fn probes(mut notes: &[u8]) -> BTreeMap<String, BTreeMap<String, usize>> {
    let mut found: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    let word = |bytes: &[u8], at: usize| {
        let word = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(word) as usize)
    };
    while let (Some(name), Some(desc)) = (word(notes, 0), word(notes, 4)) {
        let from = 12 + name.next_multiple_of(4);
        let to = from.saturating_add(desc);
        let Some(texts) = notes.get(from + 24..to) else {
            break;
        };
        let mut texts = texts.split(|&b| b == 0).map(String::from_utf8_lossy);
        if let (Some(provider), Some(probe), Some(args)) =
            (texts.next(), texts.next(), texts.next())
        {
            let of_provider = found.entry(provider.into_owned()).or_default();
            // each has a size and a place, `8@x0`; on arm64 a place may have a space, `8@[sp, 16]`
            of_provider.insert(probe.into_owned(), args.matches('@').count());
        }
        let next = to.next_multiple_of(4);
        notes = notes.get(next..).unwrap_or_default();
    }
    found
}

/// A section of an ELF file.
pub fn section<'f>(file: &'f [u8], name: &str) -> Option<&'f [u8]> {
    let file = object::File::parse(file).ok()?;
    file.section_by_name(name)?.data().ok()
}

impl Symbols {
    /// Reads an open executable of at most [`MAX_BINARY`] bytes.
    ///
    /// # Errors
    /// If it cannot be read, is larger, or is no ELF file: why.
    pub fn of(file: &File) -> Result<Self, String> {
        let mut magic = [0; 4];
        // before the rest, which may be much
        let read = file.read_exact_at(&mut magic, 0);
        if read.is_err() || magic != *b"\x7fELF" {
            return Err("it is no ELF file".into());
        }
        let bytes = process::read(file, MAX_BINARY).map_err(|e| e.to_string())?;
        Self::parse(&bytes).map_err(|e| e.to_string())
    }

    fn parse(bytes: &[u8]) -> object::Result<Self> {
        let file = object::File::parse(bytes)?;
        let segments: Vec<(u64, u64, u64)> = file
            .segments()
            .take(SEGMENTS)
            .map(|s| (s.address(), s.file_range().0, s.file_range().1))
            .collect();
        let offset = |address: u64| {
            let inside = |(at, _, len): &&(u64, u64, u64)| {
                address.checked_sub(*at).is_some_and(|since| since < *len)
            };
            let (at, from, _) = segments.iter().find(inside)?;
            usize::try_from((address - at).checked_add(*from)?).ok()
        };
        let place = |address: u64| {
            let at = offset(address)?;
            let code = bytes.get(at..).unwrap_or_default();
            let skip = skipped(code);
            Some(at + skip)
        };
        // names may overlap in the table of strings: all together are no longer than the file, if it
        // was made by a linker
        let mut left = 2 * bytes.len();
        let mut functions = local_functions(&file, &place, &mut left);
        for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_definition) {
            if let Some((name, at)) = short_name(&symbol, &mut left).zip(place(symbol.address())) {
                functions.insert(name.to_owned(), at);
            }
        }
        let notes = file.section_by_name(".note.stapsdt");
        let notes = notes.and_then(|s| s.data().ok()).unwrap_or_default();
        let constants = file.section_by_name(".rodata");
        let constants = constants.and_then(|s| s.data().ok()).unwrap_or_default();
        Ok(Self { functions, spdk_release: spdk_release(constants), probes: probes(notes) })
    }
}

/// The functions of `.symtab`. A name that occurs twice is left out: static functions may share one.
fn local_functions(
    file: &object::File<'_>,
    place: &dyn Fn(u64) -> Option<usize>,
    left: &mut usize,
) -> BTreeMap<String, usize> {
    let mut found: BTreeMap<String, (u64, Option<usize>)> = BTreeMap::new();
    let functions = file.symbols().filter(|s| s.kind() == SymbolKind::Text);
    for symbol in functions.filter(ObjectSymbol::is_definition) {
        let (Some(name), at) = (short_name(&symbol, left), symbol.address()) else {
            continue;
        };
        match found.get_mut(name) {
            Some((known, probe)) if *known != at => *probe = None,
            Some(_) => {}
            None => {
                found.insert(name.to_owned(), (at, place(at)));
            }
        }
    }
    let unique = found.into_iter();
    unique.filter_map(|(name, (_, probe))| Some((name, probe?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_push_after_endbr64_is_probed() {
        for (code, bytes) in [
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48][..], 4),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57], 4),
            (&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83], 0),
            (&[0x55], 0),
            (&[], 0),
        ] {
            assert_eq!(skipped(code), bytes, "{code:?}");
        }
    }

    #[test]
    fn the_release_of_spdk_is_in_its_text() {
        let found = |text: &[u8]| spdk_release(text);
        assert_eq!(found(b"\0SPDK v%s\0SPDK v24.09-pre git sha1 1\0"), Some("24.09-pre".into()));
        assert_eq!(found(b"SPDK v26.05"), Some("26.05".into()));
        assert_eq!(found(b"SPDK v"), None);
    }

    #[test]
    fn notes_have_providers_and_probes() {
        let of_x86 = *b"spdk\0probe\0-4@$0 8@16(%rdi)\0";
        let of_arm64 = *b"spdk\0probe\0-4@x1 8@[sp, 16]\0";
        for texts in [of_x86, of_arm64] {
            let mut note = vec![8, 0, 0, 0, 24 + 28, 0, 0, 0, 3, 0, 0, 0];
            note.extend(b"stapsdt\0");
            note.extend([0; 24]);
            note.extend(texts);
            let both = [note.clone(), note].concat();
            let want = BTreeMap::from([("probe".to_owned(), 2)]);
            assert_eq!(probes(&both), BTreeMap::from([("spdk".to_owned(), want)]));
            assert_eq!(probes(&both[..30]), BTreeMap::new());
        }
        assert_eq!(probes(&[0xff; 40]), BTreeMap::new());
    }
}
