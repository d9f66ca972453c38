// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of the functions of a process, from the symbol tables of its executable and libraries.

use std::collections::BTreeMap;
use std::io;
use std::io::ErrorKind;

use blazesym::Pid;
use blazesym::helper::ElfResolver;
use blazesym::symbolize::source::{Process, Source};
use blazesym::symbolize::{Input, ProcessMemberInfo, ProcessMemberType, Resolve, Symbolizer};

use crate::machine::process::{MAX_BINARY, open, path_of};

/// The symbols of a file that the process has mapped, if it is a regular one. `None`: blazesym has its own
/// way for what is no file.
fn resolver(member: ProcessMemberInfo<'_>) -> blazesym::Result<Option<Box<dyn Resolve>>> {
    let ProcessMemberType::Path(path) = member.member_entry else {
        return Ok(None);
    };
    let file = open(&path.maps_file)?;
    if file.metadata()?.len() > MAX_BINARY {
        return Err(io::Error::from(ErrorKind::FileTooLarge).into());
    }
    let resolver = ElfResolver::open(path_of(&file))?;
    Ok(Some(Box::new(resolver)))
}

/// Names of functions by address. They are kept: a process that has ended has none.
pub struct Functions {
    source: Source<'static>,
    symbolizer: Symbolizer,
    names: BTreeMap<u64, Option<String>>,
}

impl Functions {
    /// The mappings of a process.
    pub fn of(pid: u32) -> Self {
        let symbolizer = Symbolizer::builder()
            .enable_code_info(false)
            .enable_inlined_fns(false)
            .set_process_dispatcher(resolver)
            .build();
        let mut process = Process::new(Pid::from(pid));
        // a file in the /tmp of the process
        process.perf_map = false;
        Self { source: Source::Process(process), symbolizer, names: BTreeMap::new() }
    }

    /// Looks the functions at these addresses up, as far as that was not done before.
    pub fn look_up(&mut self, addresses: impl Iterator<Item = u64>) {
        let new: Vec<u64> = addresses.filter(|address| !self.names.contains_key(address)).collect();
        if new.is_empty() {
            return;
        }
        let found = self.symbolizer.symbolize(&self.source, Input::AbsAddr(&new));
        // the process has ended
        let Ok(found) = found else { return };
        for (address, symbol) in new.into_iter().zip(found) {
            let name = symbol.into_sym().map(|sym| match sym.offset {
                0 => sym.name.into_owned(),
                offset => format!("{}+{offset:#x}", sym.name),
            });
            self.names.insert(address, name);
        }
    }

    /// The function that was found at an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        self.names.get(&address)?.as_deref()
    }
}
