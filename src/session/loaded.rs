// SPDX-License-Identifier: MIT OR Apache-2.0
//! A loaded object.

use libbpf_rs::{MapCore, MapHandle, Object, ProgramInput};

use crate::error::{Mismatch, Operation, Result};

/// One of the builds, loaded. A map has the same name in every build that contains it.
pub struct Loaded(pub Object);

impl Loaded {
    /// Returns a map by name.
    pub fn map(&self, name: &str) -> Result<MapHandle> {
        let map = self.0.maps().find(|m| m.name() == name);
        let map = map.ok_or_else(|| Mismatch::NoMap { map: name.into() })?;
        MapHandle::try_from(&map).map_err(Operation::OpenMap(name.into()).failed())
    }

    /// Runs a program that is not attached (BPF_PROG_TEST_RUN), and returns its return value.
    pub fn run(&self, name: &str, args: [u64; 2]) -> Result<u32> {
        let mut args = args.map(u64::to_ne_bytes).concat();
        let program = self.0.progs_mut().find(|p| p.name() == name);
        let program = program.ok_or_else(|| Mismatch::NoProgram { program: name.into() })?;
        let input = ProgramInput { context_in: Some(&mut args), ..ProgramInput::default() };
        let output = program.test_run(input);
        Ok(output.map_err(Operation::RunControl.failed())?.return_value)
    }
}
