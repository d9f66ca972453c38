// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel memory, read by a program that user space runs (bpf/memory.bpf.c; BPF_PROG_TEST_RUN of raw
//! tracepoints since 5.10). A read of an address that is not mapped fails, and harms nothing.

use libbpf_rs::{MapCore, MapFlags, MapHandle, ObjectBuilder};

use super::libbpf_log;
use super::load::refusal;
use crate::abi::nd_memory_limit;
use crate::error::failed;
use crate::machine::inflight::Memory;
use crate::session::load::Loaded;
use anyhow::Result;

/// Maximum number of bytes per run.
const WINDOW: usize = nd_memory_limit::ND_MEMORY_WINDOW.0 as usize;

const PROGRAM: &str = "read_memory";

/// The memory of the running kernel.
pub struct KernelMemory {
    loaded: Loaded,
    window: MapHandle,
}

impl KernelMemory {
    /// Loads the program.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn open() -> Result<Self> {
        libbpf_log::forget();
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/memory.bpf.o"));
        let mut builder = ObjectBuilder::default();
        let builder = builder.name("nvme_deep").map_err(failed("name the BPF object"))?;
        let open = builder.open_memory(object).map_err(failed("open the BPF object"))?;
        let object = open.load().map_err(refusal)?;
        let loaded = Loaded(object);
        let window = loaded.map("window")?;
        Ok(Self { loaded, window })
    }

    /// Reads at most one window.
    fn read_window(&self, at: u64, to: &mut [u8]) -> Result<bool> {
        if self.loaded.run(PROGRAM, [at, to.len() as u64])? != 0 {
            return Ok(false);
        }
        let bytes = self.window.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let bytes = bytes.map_err(failed("read map `window`"))?;
        let bytes = bytes.unwrap_or_default();
        let Some(bytes) = bytes.get(..to.len()) else {
            return Ok(false);
        };
        to.copy_from_slice(bytes);
        Ok(true)
    }
}

impl Memory for KernelMemory {
    fn read(&mut self, at: u64, to: &mut [u8]) -> bool {
        let starts = (0_u64..).map(|n| at.wrapping_add(n * WINDOW as u64));
        // an error here is one of the whole run, which other reads have, too
        starts
            .zip(to.chunks_mut(WINDOW))
            .all(|(at, part)| self.read_window(at, part).unwrap_or(false))
    }
}
