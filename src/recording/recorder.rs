// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records events into a file. A thread of its own encodes, compresses and writes them: the thread
//! that reads the ring only copies each event.

use std::fs::File;
use std::io::Seek;
use std::mem::{replace, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::{io, thread};

use rustix::fs::{OFlags, fcntl_getfl};
use serde::Serialize;

use super::batch::Batch;
use super::block::{BLOCK_ROWS, Builder};
use super::frame::Content;
use super::ring::{Keep, Ring};
use super::target::TargetBuilder;
use super::writer::{Block, BlockWriter};
use crate::abi::PairRecord;
use crate::model::event::Event;
use crate::model::host::HostEvent;

/// Events of a target that are handed over at a time.
const BATCH: usize = 1024;
/// Batches that may wait for the thread: some 5 MB. If more arrive, the sender waits, and events
/// stay in the ring.
const WAITING: usize = 16;

/// What the thread has to do.
enum Job {
    Events(Batch),
    TargetEvents(Vec<HostEvent>),
    /// Ends the current block of events.
    Flush,
    Block(Content, u64, Vec<u8>),
    /// Writes the ring to the file, and answers with the number of events that it had dropped.
    Dump(SyncSender<u64>),
}

/// What the thread has done.
#[derive(Debug, Default)]
struct Progress {
    bytes: AtomicU64,
    events: AtomicU64,
    failed: AtomicBool,
}

/// Where a recording that is written to this file begins. `None`: it is a pipe or a device, or writes
/// go to its end (stdout after `>>`).
fn begin_of(mut file: &File) -> Option<u64> {
    let flags = fcntl_getfl(file).ok()?;
    let is_file = file.metadata().is_ok_and(|m| m.is_file());
    if !is_file || flags.contains(OFlags::APPEND) {
        return None;
    }
    file.stream_position().ok()
}

/// What was written.
#[derive(Debug)]
pub struct Written {
    /// Bytes of the file, in whole blocks.
    pub bytes: u64,
    /// Events in whole blocks.
    pub events: u64,
    /// Events that could not be written.
    pub lost: u64,
    /// Why the file could not be written to its end.
    pub error: Option<io::Error>,
}

/// A recording that is being written.
pub struct Recorder {
    batch: Batch,
    /// Those of a target.
    target_batch: Vec<HostEvent>,
    jobs: SyncSender<Job>,
    /// Emptied batches, to be used again.
    empty: Receiver<Batch>,
    progress: Arc<Progress>,
    thread: JoinHandle<Written>,
}

impl Recorder {
    /// Begins a recording in an empty file. With `keep`, blocks stay in memory until
    /// [`Recorder::dump`].
    ///
    /// # Errors
    /// If the header cannot be written.
    pub fn create(file: File, compress: bool, keep: Option<Keep>) -> io::Result<Self> {
        let begin = begin_of(&file);
        let writer = BlockWriter::create(file, compress)?;
        let (jobs, received) = sync_channel(WAITING);
        let (give_back, empty) = sync_channel(WAITING + 2);
        let progress = Arc::new(Progress::default());
        let mut worker = Worker {
            writer,
            begin,
            builder: Builder::new(),
            target_builder: TargetBuilder::default(),
            payload: Vec::new(),
            progress: Arc::clone(&progress),
            ring: keep.map(Ring::new),
            events: 0,
            lost: 0,
            evicted: 0,
            error: None,
        };
        let thread = thread::Builder::new().name("record".into());
        let thread = thread.spawn(move || {
            for job in received {
                match job {
                    Job::Events(mut batch) => {
                        worker.push_finished(&batch);
                        batch.events().iter().for_each(|e| worker.push(e));
                        batch.clear();
                        // a full channel keeps enough of them
                        let _ = give_back.try_send(batch);
                    }
                    Job::TargetEvents(batch) => batch.iter().for_each(|e| worker.push_target(e)),
                    Job::Flush => worker.flush(),
                    Job::Dump(answer) => {
                        worker.dump();
                        let _ = answer.send(worker.evicted);
                    }
                    Job::Block(content, at_ns, payload) => {
                        worker.flush();
                        worker.write(content, at_ns, 0, &payload);
                    }
                }
            }
            worker.finish()
        })?;
        Ok(Self {
            batch: Batch::default(),
            target_batch: Vec::new(),
            jobs,
            empty,
            progress,
            thread,
        })
    }

    /// Adds an event. Waits if the thread cannot keep up.
    #[inline]
    pub fn push(&mut self, event: &Event) {
        if self.batch.push(event) {
            self.send();
        }
    }

    /// Adds a finished command. Waits if the thread cannot keep up.
    #[inline]
    pub fn push_finished(&mut self, record: &PairRecord<'_>) {
        if !self.batch.takes(record) {
            self.send();
        }
        if self.batch.push_finished(record) {
            self.send();
        }
    }

    /// Adds an event of a target: `info.target` of the run is set.
    pub fn push_target(&mut self, event: &HostEvent) {
        self.target_batch.push(*event);
        if self.target_batch.len() == BATCH {
            self.send();
        }
    }

    #[inline(never)]
    fn send(&mut self) {
        if !self.target_batch.is_empty() {
            let batch = take(&mut self.target_batch);
            self.job(Job::TargetEvents(batch));
        }
        let next = self.empty.try_recv();
        let next = next.unwrap_or_else(|_| self.batch.another());
        let batch = replace(&mut self.batch, next);
        self.job(Job::Events(batch));
    }

    fn job(&self, job: Job) {
        // the thread ends only when the sender is gone, or by a panic, which `finish` reports
        if self.jobs.send(job).is_err() {
            self.progress.failed.store(true, Ordering::Relaxed);
        }
    }

    /// Ends the current block, so that its events are in the file soon.
    pub fn flush(&mut self) {
        self.send();
        self.job(Job::Flush);
    }

    /// Adds a block of another kind, which applies to the events after it.
    pub fn block(&mut self, content: Content, at_ns: u64, data: &impl Serialize) {
        // strings, numbers and lists of them: this cannot fail
        let payload = serde_json::to_vec(data).unwrap_or_default();
        self.send();
        self.job(Job::Block(content, at_ns, payload));
    }

    /// Writes the ring to the file. What comes later goes there directly. Returns the number of
    /// events that the ring had dropped.
    pub fn dump(&mut self) -> u64 {
        self.send();
        let (answer, answered) = sync_channel(1);
        self.job(Job::Dump(answer));
        answered.recv().unwrap_or(0)
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
        self.send();
        drop(self.jobs);
        self.thread.join().unwrap_or_else(|_| Written {
            bytes: self.progress.bytes.load(Ordering::Relaxed),
            events: self.progress.events.load(Ordering::Relaxed),
            lost: 0,
            error: Some(io::Error::other("the thread that writes the file has failed")),
        })
    }
}

/// The thread's part.
struct Worker {
    writer: BlockWriter<File>,
    /// Where the recording begins in the file; `None`: it can't be shortened.
    begin: Option<u64>,
    builder: Builder,
    target_builder: TargetBuilder,
    payload: Vec<u8>,
    progress: Arc<Progress>,
    /// `None`: blocks go to the file.
    ring: Option<Ring>,
    events: u64,
    lost: u64,
    evicted: u64,
    error: Option<io::Error>,
}

impl Worker {
    fn push(&mut self, event: &Event) {
        self.builder.push(event);
        if self.builder.rows() == BLOCK_ROWS {
            self.flush();
        }
    }

    fn push_finished(&mut self, batch: &Batch) {
        let (mut commands, mut times) = batch.finished();
        while !commands.is_empty() {
            let room = BLOCK_ROWS - self.builder.rows();
            let (now, later) = commands.split_at(room.min(commands.len()));
            let (times_now, times_later) = times.split_at(room.min(times.len()));
            self.builder.push_finished(now, times_now);
            (commands, times) = (later, times_later);
            if self.builder.rows() == BLOCK_ROWS {
                self.flush();
            }
        }
    }

    fn push_target(&mut self, event: &HostEvent) {
        self.target_builder.push(event);
        if self.target_builder.rows() == BLOCK_ROWS {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let rows = self.builder.rows() as u32;
        if rows > 0 {
            let at_ns = self.builder.last_ns();
            let mut payload = take(&mut self.payload);
            payload.clear();
            let content = self.builder.take(&mut payload);
            self.write(content, at_ns, rows, &payload);
            self.payload = payload;
        }
        let rows = self.target_builder.rows() as u32;
        if rows > 0 {
            let at_ns = self.target_builder.last_ns();
            let mut payload = Vec::new();
            self.target_builder.take(&mut payload);
            self.write(Content::HostEvents, at_ns, rows, &payload);
        }
    }

    fn write(&mut self, content: Content, at_ns: u64, events: u32, payload: &[u8]) {
        let block = Block { content, payload, events, at_ns };
        let made = match (&self.error, &mut self.ring) {
            (Some(_), _) => None,
            (None, Some(ring)) => Some(self.writer.prepare(&block).map(|p| ring.push(p))),
            (None, None) => Some(self.writer.write(&block)),
        };
        let kept = self.ring.is_some();
        match made {
            Some(Ok(())) if !kept => self.events += u64::from(events),
            Some(Ok(())) => {}
            Some(Err(error)) => {
                self.fail(error);
                self.lost += u64::from(events);
            }
            None => self.lost += u64::from(events),
        }
        self.note();
    }

    fn fail(&mut self, error: io::Error) {
        // leave whole blocks behind; the reader copes if this fails, too
        if let Some(begin) = self.begin {
            let _ = self.writer.file().set_len(begin + self.writer.bytes());
        }
        self.error = Some(error);
        self.progress.failed.store(true, Ordering::Relaxed);
    }

    fn note(&self) {
        let bytes = self.ring.as_ref().map_or_else(|| self.writer.bytes(), Ring::bytes);
        self.progress.bytes.store(bytes, Ordering::Relaxed);
        self.progress.events.store(self.events, Ordering::Relaxed);
    }

    fn dump(&mut self) {
        self.flush();
        if let Some(ring) = self.ring.take() {
            self.evicted = ring.evicted();
            let kept = ring.events();
            let (events, done) = ring.dump(&mut self.writer);
            self.events += events;
            self.lost += kept - events;
            if let Err(error) = done {
                self.fail(error);
            }
        }
        self.note();
    }

    fn finish(mut self) -> Written {
        self.dump();
        Written {
            bytes: self.writer.bytes(),
            events: self.events,
            lost: self.lost,
            error: self.error,
        }
    }
}
