// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exported functions, build id and USDT notes of an executable.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use object::Object;
use object::ObjectSection;
use object::ObjectSegment;
use object::ObjectSymbol;

use super::process::TargetError;

/// What is needed of an executable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Offset in the file of each exported function, past `endbr64` if a `push` follows.
    functions: BTreeMap<String, usize>,
    build_id: Option<String>,
    /// Providers of USDT probes.
    providers: BTreeSet<String>,
}

/// Instruction that begins functions of newer builds.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// Bytes to skip at the begin of a function. A probe on `endbr64` takes a single step; the `push`
/// after it does not, and leaves the arguments as they are.
fn skipped(code: &[u8]) -> usize {
    let is_push = |code: &[u8]| match code {
        [0x41, op, ..] | [op, ..] => (0x50..=0x57).contains(op),
        [] => false,
    };
    match code.strip_prefix(&ENDBR64) {
        Some(rest) if is_push(rest) => ENDBR64.len(),
        _ => 0,
    }
}

/// Providers of the probes in a section `.note.stapsdt`. Each note has its sizes, the name of its
/// kind, three addresses, and three texts: provider, probe, arguments.
fn providers(mut notes: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
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
        let end = texts.iter().position(|&b| b == 0).unwrap_or(0);
        found.insert(String::from_utf8_lossy(&texts[..end]).into_owned());
        let next = to.next_multiple_of(4);
        notes = notes.get(next..).unwrap_or_default();
    }
    found
}

impl Symbols {
    /// Reads an executable.
    ///
    /// # Errors
    /// If it cannot be read, or is no ELF file.
    pub fn read(path: &Path) -> Result<Self, TargetError> {
        let wrong = |error: String| TargetError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let bytes = fs::read(path).map_err(|e| wrong(e.to_string()))?;
        Self::parse(&bytes).map_err(|e| wrong(e.to_string()))
    }

    fn parse(bytes: &[u8]) -> object::Result<Self> {
        let file = object::File::parse(bytes)?;
        let segments: Vec<(u64, u64, u64)> = file
            .segments()
            .map(|s| (s.address(), s.file_range().0, s.file_range().1))
            .collect();
        let offset = |address: u64| {
            let inside = |(at, _, len): &&(u64, u64, u64)| (*at..at + len).contains(&address);
            let (at, from, _) = segments.iter().find(inside)?;
            usize::try_from(address - at + from).ok()
        };
        let mut functions = BTreeMap::new();
        for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_definition) {
            let named = symbol.name().ok().zip(offset(symbol.address()));
            if let Some((name, at)) = named {
                let at = at + skipped(bytes.get(at..).unwrap_or_default());
                functions.insert(name.to_owned(), at);
            }
        }
        let notes = file.section_by_name(".note.stapsdt");
        let notes = notes.and_then(|s| s.data().ok()).unwrap_or_default();
        let build_id = file.build_id()?.map(|id| {
            let digits: Vec<String> = id.iter().map(|b| format!("{b:02x}")).collect();
            digits.concat()
        });
        Ok(Self {
            functions,
            build_id,
            providers: providers(notes),
        })
    }

    /// Where to probe an exported function: an offset in the file.
    pub fn probe_offset(&self, function: &str) -> Option<usize> {
        self.functions.get(function).copied()
    }

    /// The build id in hexadecimal.
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// Whether it has USDT probes of this provider.
    pub fn has_provider(&self, provider: &str) -> bool {
        self.providers.contains(provider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_after_endbr64_is_probed() {
        assert_eq!(skipped(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48]), 4);
        assert_eq!(skipped(&[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57]), 4);
        assert_eq!(skipped(&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x83]), 0);
        assert_eq!(skipped(&[0x55]), 0);
        assert_eq!(skipped(&[]), 0);
    }

    #[test]
    fn notes_have_providers() {
        let mut note = vec![8, 0, 0, 0, 24 + 11, 0, 0, 0, 3, 0, 0, 0];
        note.extend(b"stapsdt\0");
        note.extend([0; 24]);
        note.extend(b"spdk\0probe\0");
        note.push(0);
        let both = [note.clone(), note].concat();
        assert_eq!(providers(&both), BTreeSet::from(["spdk".to_owned()]));
        assert_eq!(providers(&both[..30]), BTreeSet::new());
        assert_eq!(providers(&[0xff; 40]), BTreeSet::new());
    }

    #[test]
    fn this_program_has_functions() {
        let own = Symbols::read(Path::new("/proc/self/exe"));
        assert!(own.is_ok(), "{own:?}");
        assert!(Symbols::read(Path::new("/proc/self/cmdline")).is_err());
    }
}
