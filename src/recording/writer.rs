// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records events into a file. A thread of its own packs, compresses and writes them: the thread that
//! reads the ring only makes a record of each event.

use super::events::Batch;
use super::frame::{Content, HEAD_BYTES, HEADER_BYTES, Head, MAX_PAYLOAD, Summary, header};
use super::ring::{Keep, Ring, RingCopy};
use crate::model::event::Event;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::mem::take;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::{io, thread};

/// Batches that may wait for the thread, each of up to 1.2 MB. If more arrive, the sender waits, and
/// events stay in the ring of the BPF side.
const WAITING: usize = 2;

/// What the thread has to do.
type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// What the thread has done.
#[derive(Debug, Default)]
struct Progress {
    bytes: AtomicU64,
    failed: AtomicBool,
}

/// What was written.
#[derive(Debug, Default)]
pub struct Written {
    /// Bytes of the file, in whole blocks.
    pub bytes: u64,
    /// Events in whole blocks.
    pub events: u64,
    /// Events that could not be written.
    pub lost: u64,
    /// Events that the ring had dropped.
    pub evicted: u64,
    /// Why the file could not be written to its end.
    pub error: Option<io::Error>,
}

/// A recording that is being written.
pub struct Writer {
    batch: Batch,
    jobs: SyncSender<Job>,
    progress: Arc<Progress>,
    thread: JoinHandle<Written>,
}

impl Writer {
    /// Begins a recording in an empty file. With `keep`, blocks stay in memory until
    /// [`Writer::dump`].
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn create(file: File, keep: Option<Keep>) -> io::Result<Self> {
        let progress = Arc::new(Progress::default());
        let (jobs, received) = sync_channel::<Job>(WAITING);
        let mut worker = Worker {
            file: BlockWriter::create(file)?,
            progress: Arc::clone(&progress),
            ring: keep.map(Ring::new),
            written: Written::default(),
        };
        let thread = thread::Builder::new().name("record".into()).spawn(move || {
            received.iter().for_each(|job| job(&mut worker));
            worker.finish()
        })?;
        Ok(Self { batch: Batch::new(), jobs, progress, thread })
    }

    /// Adds an event. Waits if the thread cannot keep up.
    #[inline]
    pub fn push(&mut self, event: &Event) {
        self.batch.push(event);
        if self.batch.is_full() {
            self.flush();
        }
    }

    /// Ends the current block, so that its events are in the file soon.
    #[inline(never)]
    pub fn flush(&mut self) {
        if self.batch.summary().events > 0 {
            let batch = take(&mut self.batch);
            self.job(move |worker| worker.write(batch.summary(), &batch.pack()));
        }
    }

    fn job(&self, job: impl FnOnce(&mut Worker) + Send + 'static) {
        // the thread ends only when the sender is gone, or by a panic, which `finish` passes on
        if self.jobs.send(Box::new(job)).is_err() {
            self.progress.failed.store(true, Ordering::Relaxed);
        }
    }

    /// Asks the thread. It answers after all earlier jobs.
    fn ask<T: Send + 'static>(
        &mut self,
        question: impl FnOnce(&mut Worker) -> T + Send + 'static,
    ) -> Option<T> {
        self.flush();
        let (answer, answered) = sync_channel(1);
        self.job(move |worker| drop(answer.send(question(worker))));
        answered.recv().ok()
    }

    /// Adds a block of another kind, which applies to the events after it.
    pub fn block(&mut self, content: Content, at_ns: u64, data: &impl Serialize) {
        // strings, numbers and lists of them: this cannot fail
        let payload = serde_json::to_vec(data).unwrap_or_default();
        self.flush();
        self.job(move |worker| worker.write(Summary::at(content, at_ns), &payload));
    }

    /// Writes the ring to the file. What comes later goes there directly. Returns the number of
    /// events that the ring had dropped.
    pub fn dump(&mut self) -> u64 {
        self.ask(Worker::dump).unwrap_or(0)
    }

    /// What is in the ring up to here, which goes on; `None`: there is no ring.
    pub fn ring(&mut self) -> Option<RingCopy> {
        self.ask(|worker| worker.ring.as_ref().map(Ring::copy)).flatten()
    }

    /// Bytes in the file, or in the ring.
    pub fn bytes(&self) -> u64 {
        self.progress.bytes.load(Ordering::Relaxed)
    }

    /// Whether the file could not be written. What comes later is lost, and counted.
    pub fn has_failed(&self) -> bool {
        self.progress.failed.load(Ordering::Relaxed)
    }

    /// Writes what is left, and ends the thread.
    pub fn finish(mut self) -> Written {
        self.flush();
        drop(self.jobs);
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// The thread's part.
struct Worker {
    file: BlockWriter<File>,
    progress: Arc<Progress>,
    /// `None`: blocks go to the file.
    ring: Option<Ring>,
    written: Written,
}

impl Worker {
    fn write(&mut self, summary: Summary, payload: &[u8]) {
        match (Block::new(summary, payload), &mut self.ring) {
            (Ok(block), Some(ring)) => ring.push(block),
            (Ok(block), None) => self.put(&block),
            (Err(error), _) => self.fail(error, summary),
        }
        self.note();
    }

    /// Writes a block. What comes after one that could not be written is lost.
    fn put(&mut self, block: &Block) {
        if self.written.error.is_some() {
            self.written.lost += u64::from(block.summary.events);
        } else if let Err(error) = self.file.write(block) {
            self.fail(error, block.summary);
        } else {
            self.written.events += u64::from(block.summary.events);
        }
    }

    fn fail(&mut self, error: io::Error, lost: Summary) {
        self.written.lost += u64::from(lost.events);
        self.written.error = Some(error);
        self.progress.failed.store(true, Ordering::Relaxed);
    }

    fn note(&self) {
        let bytes = self.ring.as_ref().map_or_else(|| self.file.bytes(), Ring::bytes);
        self.progress.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the number of events that the ring had dropped.
    fn dump(&mut self) -> u64 {
        if let Some(ring) = self.ring.take() {
            self.written.evicted = ring.evicted();
            ring.blocks().for_each(|block| self.put(block));
        }
        self.note();
        self.written.evicted
    }

    fn finish(mut self) -> Written {
        self.dump();
        Written { bytes: self.file.bytes(), ..self.written }
    }
}

/// Level of zstd. A command costs 200 instructions less than with level 1, and its files are 6 to 8 % larger.
/// Higher levels cost more than they save on columns of times.
const LEVEL: i32 = -5;

/// A compressed block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Its content.
    pub summary: Summary,
    /// Bytes before the compression.
    pub raw_bytes: u32,
    /// The payload as it will be in the file.
    pub payload: Vec<u8>,
}

impl Block {
    /// Compresses a payload of at most [`MAX_PAYLOAD`] bytes.
    ///
    /// # Errors
    /// If it is longer, or zstd lacks memory.
    pub fn new(summary: Summary, payload: &[u8]) -> io::Result<Self> {
        if payload.len() > MAX_PAYLOAD {
            return Err(io::Error::other("a block is longer than the format permits"));
        }
        let raw_bytes = payload.len() as u32;
        Ok(Self { summary, raw_bytes, payload: zstd::bulk::compress(payload, LEVEL)? })
    }

    /// Bytes in the file.
    pub const fn bytes(&self) -> u64 {
        (HEAD_BYTES + self.payload.len()) as u64
    }
}

/// A file of blocks that is being written.
pub struct BlockWriter<W> {
    file: W,
    number: u32,
    bytes: u64,
}

impl<W: Write> BlockWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(mut file: W) -> io::Result<Self> {
        file.write_all(&header())?;
        Ok(Self { file, number: 0, bytes: HEADER_BYTES as u64 })
    }

    /// Bytes written, in whole blocks.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes a block, in one write if the file takes all at once.
    ///
    /// # Errors
    /// If the file cannot be written. It may then end in an incomplete block.
    pub fn write(&mut self, block: &Block) -> io::Result<()> {
        let head = Head {
            summary: block.summary,
            number: self.number,
            payload_bytes: block.payload.len() as u32,
            raw_bytes: block.raw_bytes,
            payload_crc: crc32fast::hash(&block.payload),
        };
        self.file.write_all(&[&head.to_bytes()[..], &block.payload].concat())?;
        self.number = self.number.wrapping_add(1);
        self.bytes += block.bytes();
        Ok(())
    }
}
