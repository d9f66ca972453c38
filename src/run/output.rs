// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of whole lines to a file descriptor. Handles a full disk, and a pipe without a reader.

use std::fs::File;
use std::io;
use std::io::{ErrorKind, Seek, SeekFrom, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The destination of lines.
#[derive(Debug)]
pub struct Output {
    file: File,
    failed: Option<io::Error>,
}

impl Output {
    /// An output to this file.
    pub const fn to(file: File) -> Self {
        Self { file, failed: None }
    }

    /// Writes whole lines. Returns how many bytes of them were written. Keeps the error.
    pub fn write(&mut self, lines: &[u8]) -> usize {
        if self.failed.is_some() {
            return 0;
        }
        let mut done = 0;
        while done < lines.len() {
            match self.file.write(&lines[done..]) {
                Ok(0) => self.failed = Some(ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.failed = Some(error),
            }
            if self.failed.is_some() {
                break;
            }
        }
        let whole = lines[..done].iter().rposition(|&b| b == b'\n');
        let whole = whole.map_or(0, |at| at + 1);
        if done < lines.len() {
            self.take_back(done - whole);
        }
        whole
    }

    /// Removes the last, incomplete line if the output is a regular file.
    fn take_back(&mut self, bytes: usize) {
        let is_file = self.file.metadata().is_ok_and(|m| m.is_file());
        if bytes == 0 || !is_file {
            return;
        }
        if let Ok(at) = self.file.seek(SeekFrom::End(0)) {
            // if this fails, the incomplete line stays: there is no other remedy
            let _ = self.file.set_len(at.saturating_sub(bytes as u64));
        }
    }

    /// Checks whether a pipe has lost its reader, without a write: there may be no event for a long
    /// time.
    pub fn look(&mut self) {
        let mut fds = [PollFd::new(&self.file, PollFlags::empty())];
        let now = Timespec::default();
        let polled = poll(&mut fds, Some(&now));
        let gone = polled.is_ok() && fds[0].revents().contains(PollFlags::ERR);
        if gone && self.failed.is_none() {
            self.failed = Some(ErrorKind::BrokenPipe.into());
        }
    }

    /// Whether a write has failed. Nothing is written after that.
    pub const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The error of the write that failed.
    pub const fn take_error(&mut self) -> Option<io::Error> {
        self.failed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::pipe;
    use std::os::fd::OwnedFd;
    use std::time::{Duration, Instant};
    use std::{fs, thread};

    /// Looks until the reader, which was closed, has gone. Another test may be starting a process: that has the
    /// reader, too, until it executes its program.
    fn look_until_it_has_gone(out: &mut Output) {
        let begin = Instant::now();
        while !out.has_failed() && begin.elapsed() < Duration::from_secs(10) {
            out.look();
            thread::yield_now();
        }
        assert!(out.has_failed());
    }

    #[test]
    fn lines_arrive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut out = Output::to(File::create(&path).unwrap());
        assert_eq!(out.write(b"one\ntwo\n"), 8);
        assert_eq!(out.write(b""), 0);
        assert_eq!(fs::read(&path).unwrap(), b"one\ntwo\n");
    }

    #[test]
    fn nothing_is_written_to_a_reader_that_has_gone() {
        let (reader, writer) = pipe().unwrap();
        let writer = File::from(OwnedFd::from(writer));
        drop(reader);
        look_until_it_has_gone(&mut Output::to(writer.try_clone().unwrap()));
        let mut out = Output::to(writer);
        assert_eq!(out.write(b"one\n    frame\ntwo\n"), 0);
        assert!(out.has_failed());
        assert_eq!(out.write(b"three\n"), 0);
        assert_eq!(out.take_error().unwrap().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reader_that_has_gone_is_noticed_before_anything_is_written() {
        let (reader, writer) = pipe().unwrap();
        let mut out = Output::to(File::from(OwnedFd::from(writer)));
        out.look();
        assert!(!out.has_failed());
        drop(reader);
        look_until_it_has_gone(&mut out);
        let mut file = Output::to(tempfile::tempfile().unwrap());
        file.look();
        assert!(!file.has_failed());
    }

    #[test]
    fn a_full_disk_keeps_whole_lines() {
        let Ok(full) = File::options().write(true).open("/dev/full") else {
            return;
        };
        let mut out = Output::to(full);
        assert_eq!(out.write(b"one\ntwo\n"), 0);
        assert_eq!(out.take_error().unwrap().kind(), ErrorKind::StorageFull);
    }
}
