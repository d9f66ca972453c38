// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring of single commands. The callback runs inside libbpf, so it only decodes. Records that
//! cannot be decoded are handled later.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use libbpf_rs::ErrorKind;
use libbpf_rs::MapCore;
use libbpf_rs::RingBuffer;
use libbpf_rs::RingBufferBuilder;

use crate::abi::command_record;
use crate::model::command::CommandRecord;

/// The reader's end of the ring.
pub struct CommandRing<'a> {
    ring: RingBuffer<'a>,
    records: Rc<RefCell<Vec<Option<CommandRecord>>>>,
}

impl<'a> CommandRing<'a> {
    pub(super) fn new(map: &'a dyn MapCore) -> Result<Self> {
        let records = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&records);
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes| {
            sink.borrow_mut().push(command_record(bytes).ok());
            0
        })?;
        Ok(Self {
            ring: builder.build()?,
            records,
        })
    }

    /// Waits up to `timeout`, and returns the records that have arrived. `None` is a record that
    /// could not be decoded.
    ///
    /// # Errors
    /// If the ring cannot be polled. A signal is not an error, only an early return.
    pub fn take(&self, timeout: Duration) -> Result<Vec<Option<CommandRecord>>> {
        match self.ring.poll(timeout) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        Ok(self.records.take())
    }
}
