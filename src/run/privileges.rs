// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dropping of privileges. Capabilities are those of a thread: threads that are started later
//! inherit them.

use std::io;

use anyhow::{Context, Result};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Work that may need a capability.
pub struct Need<'a> {
    /// The capabilities that permit it, the weakest first.
    pub any_of: &'a [CapabilitySet],
    /// Why, for the user.
    pub why: &'a str,
    /// Does the work. Returns false if it is not permitted.
    pub works: &'a mut dyn FnMut() -> Result<bool>,
}

/// Capabilities of maps and programs of BPF.
pub const FOR_BPF: [CapabilitySet; 2] = [CapabilitySet::BPF, CapabilitySet::SYS_ADMIN];

/// Capabilities of files in directories of others.
pub const FOR_FILES: [CapabilitySet; 1] = [CapabilitySet::DAC_OVERRIDE];

/// Makes sure that no program that this process executes gains privileges. To be called before
/// threads are started.
///
/// # Errors
/// If the kernel refuses.
pub fn forbid_new() -> Result<()> {
    set_no_new_privs(true).context("failed to set no_new_privs")
}

fn set(effective: CapabilitySet, permitted: CapabilitySet) -> io::Result<()> {
    let inheritable = CapabilitySet::empty();
    let sets = CapabilitySets { effective, permitted, inheritable };
    Ok(set_capabilities(None, sets)?)
}

/// Drops all capabilities of this thread. Fewer privileges are a precaution, so a failure is not an
/// error.
pub fn drop_all() {
    let none = CapabilitySet::empty();
    let _ = set(none, none);
}

/// Drops all capabilities of this thread that no work needs. Returns a sentence about those that
/// stay.
///
/// # Errors
/// If the kernel refuses, or if work fails for another reason.
pub fn drop_unneeded(needs: &mut [Need<'_>]) -> Result<String> {
    let refused = "failed to drop capabilities";
    let had = capabilities(None).context(refused)?.permitted;
    if had.is_empty() {
        return Ok("no capabilities to drop".into());
    }
    let _ = clear_ambient_capability_set();
    for capability in CapabilitySet::all().iter() {
        // needs CAP_SETPCAP, and a kernel that has the capability
        let _ = remove_capability_from_bounding_set(capability);
    }
    let mut keep = CapabilitySet::empty();
    let mut stay = vec![];
    for need in needs {
        set(keep, had).context(refused)?;
        if (need.works)()? {
            continue;
        }
        for &capability in need.any_of.iter().filter(|c| had.contains(**c)) {
            set(keep | capability, had).context(refused)?;
            if (need.works)()? {
                keep |= capability;
                stay.push(format!("{} stays: {}", name(capability), need.why));
                break;
            }
        }
    }
    set(keep, keep).context(refused)?;
    Ok(if stay.is_empty() {
        "all capabilities dropped".into()
    } else {
        format!("capabilities dropped; {}", stay.join("; "))
    })
}

/// As in capabilities(7).
fn name(capability: CapabilitySet) -> String {
    let names = capability.iter_names().map(|(name, _)| format!("CAP_{name}"));
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::thread;

    /// In a thread of its own, which has its own capabilities.
    fn alone<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(work).join().unwrap()
    }

    #[test]
    fn nothing_stays_if_nothing_is_needed() {
        let (said, left) = alone(|| {
            let mut works = || Ok(true);
            let mut needs = [Need { any_of: &FOR_BPF, why: "maps", works: &mut works }];
            let said = drop_unneeded(&mut needs).unwrap();
            (said, capabilities(None).unwrap())
        });
        assert!(said.ends_with("dropped") || said.ends_with("to drop"), "{said}");
        assert!(left.effective.is_empty() && left.permitted.is_empty());
    }

    #[test]
    fn the_weakest_capability_that_suffices_stays() {
        if !capabilities(None).unwrap().permitted.contains(CapabilitySet::SYS_ADMIN) {
            return;
        }
        let (said, left) = alone(|| {
            let has = |c| capabilities(None).unwrap().effective.contains(c);
            let tries = Cell::new(0);
            let mut bpf = || {
                tries.set(tries.get() + 1);
                Ok(has(CapabilitySet::SYS_ADMIN))
            };
            let mut file = || Ok(has(CapabilitySet::DAC_OVERRIDE));
            let said = drop_unneeded(&mut [
                Need { any_of: &FOR_BPF, why: "maps", works: &mut bpf },
                Need { any_of: &FOR_FILES, why: "the file", works: &mut file },
            ]);
            assert_eq!(tries.get(), 3);
            (said.unwrap(), capabilities(None).unwrap())
        });
        let keep = CapabilitySet::SYS_ADMIN | CapabilitySet::DAC_OVERRIDE;
        assert_eq!((left.effective, left.permitted), (keep, keep));
        let words = "CAP_SYS_ADMIN stays: maps; CAP_DAC_OVERRIDE stays: the file";
        assert!(said.ends_with(words), "{said}");
    }

    #[test]
    fn a_thread_that_needs_none_has_none() {
        let left = alone(|| {
            drop_all();
            capabilities(None).unwrap()
        });
        assert!(left.effective.is_empty() && left.permitted.is_empty());
    }
}
