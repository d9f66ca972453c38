//! The ring of single commands, and of events. The callback runs inside libbpf: it copies the bytes and returns;
//! decoding, and whatever may fail, comes after.

use std::cell::RefCell;
use std::io::Error;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use libbpf_rs::ErrorKind;
use libbpf_rs::MapCore;
use libbpf_rs::MapHandle;
use libbpf_rs::RingBuffer;
use libbpf_rs::RingBufferBuilder;

use crate::abi::CommandRecord;

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
            sink.borrow_mut().push(CommandRecord::decode(bytes).ok());
            0
        })?;
        Ok(Self {
            ring: builder.build()?,
            records,
        })
    }

    /// Waits up to `timeout` and takes what has come. `None` in the list is a record that could not
    /// be decoded.
    ///
    /// # Errors
    /// Where the ring can't be polled. A signal is not an error, only an early return.
    pub fn take(&self, timeout: Duration) -> Result<Vec<Option<CommandRecord>>> {
        match self.ring.poll(timeout) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        Ok(self.records.take())
    }
}

/// The ring of events.
pub struct EventMap(pub(super) MapHandle);

impl EventMap {
    /// Its reader's end; each record goes to the closure, which must not panic.
    ///
    /// # Errors
    /// Where the ring can't be mapped.
    pub fn reader<'a>(&'a self, sink: impl FnMut(&[u8]) + 'a) -> Result<EventRing<'a>> {
        EventRing::new(&self.0, sink)
    }
}

/// Records that are taken at once, some 20 MB.
const AT_ONCE: usize = 100_000;

/// The reader's end of the ring of events.
pub struct EventRing<'a> {
    ring: RingBuffer<'a>,
}

impl<'a> EventRing<'a> {
    fn new(map: &'a dyn MapCore, mut sink: impl FnMut(&[u8]) + 'a) -> Result<Self> {
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes| {
            sink(bytes);
            0
        })?;
        Ok(Self {
            ring: builder.build()?,
        })
    }

    /// Empties the ring, but for what is more than [`AT_ONCE`]: others have something to do, too, and
    /// a busy machine may never let the ring run dry. True: there may be more. Nobody waits for us:
    /// the kernel side wakes no one.
    ///
    /// # Errors
    /// Where the ring can't be read.
    pub fn drain(&self) -> Result<bool> {
        let n = self.ring.consume_raw_n(AT_ONCE);
        match usize::try_from(n) {
            Ok(n) => Ok(n >= AT_ONCE),
            Err(_) => Err(Error::from_raw_os_error(-n)).context("failed to read the ring"),
        }
    }
}
