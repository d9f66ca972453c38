// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was loaded: one of the builds of the BPF side.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use anyhow::Context;
use anyhow::Result;
use libbpf_rs::MapCore;
use libbpf_rs::MapHandle;
use libbpf_rs::Object;
use libbpf_rs::skel::Skel;

use crate::abi::skel::NvmeDeepSkel;
use crate::abi::skel_basic::NvmeDeepBasicSkel;
use crate::abi::skel_fine::NvmeDeepFineSkel;
use crate::abi::skel_plain::NvmeDeepPlainSkel;
use crate::abi::skel_total::NvmeDeepTotalSkel;
use crate::abi::skel_tp::TracepointSkel;
use crate::abi::skel_trace::NvmeDeepTraceSkel;

/// A loaded object; whichever, its maps have the same names.
pub enum Loaded<'obj> {
    /// Commands are followed by their request.
    Request(Box<NvmeDeepSkel<'obj>>),
    /// The same in the usual cases (bpf/include/config.bpf.h): latencies of each stage set,
    Total(Box<NvmeDeepTotalSkel<'obj>>),
    /// of the basic stage set,
    Basic(Box<NvmeDeepBasicSkel<'obj>>),
    /// the fine one,
    Fine(Box<NvmeDeepFineSkel<'obj>>),
    /// and traces.
    Trace(Box<NvmeDeepTraceSkel<'obj>>),
    /// The same on a kernel that only a file describes.
    Plain(Box<NvmeDeepPlainSkel<'obj>>),
    /// Commands are followed by controller, queue and tag.
    Tag(Box<TracepointSkel<'obj>>),
}

impl Loaded<'_> {
    /// The object itself.
    pub fn object(&self) -> &Object {
        match self {
            Self::Request(skel) => skel.object(),
            Self::Total(skel) => skel.object(),
            Self::Basic(skel) => skel.object(),
            Self::Fine(skel) => skel.object(),
            Self::Trace(skel) => skel.object(),
            Self::Plain(skel) => skel.object(),
            Self::Tag(skel) => skel.object(),
        }
    }

    /// Tells the programs that slots of a controller lie elsewhere now.
    pub fn forget_places(&mut self) {
        // each skeleton has a type of its own for the same variable
        macro_rules! age {
            ($skel:expr) => {{
                let data = $skel.maps.bss_data.as_deref_mut();
                data.map(|b| &mut b.places_age)
            }};
        }
        let age = match self {
            Self::Request(skel) => age!(skel),
            Self::Total(skel) => age!(skel),
            Self::Basic(skel) => age!(skel),
            Self::Fine(skel) => age!(skel),
            Self::Trace(skel) => age!(skel),
            Self::Plain(skel) => age!(skel),
            // these remember nothing
            Self::Tag(_) => None,
        };
        if let Some(age) = age {
            // SAFETY: it is aligned, lives as long as the reference, and the programs, which write
            // to it at any time, do so by atomic additions.
            let age = unsafe { AtomicU32::from_ptr(age) };
            age.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A map by name.
    pub fn map(&self, name: &str) -> Result<MapHandle> {
        let map = self.object().maps().find(|m| m.name() == name);
        let map = map.with_context(|| format!("the object has no map `{name}`"))?;
        MapHandle::try_from(&map).with_context(|| format!("failed to take hold of map `{name}`"))
    }
}
