// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reader with a file that a model of the kernel side writes. The mappings are those of a real
//! ring, except that the two copies of the data are real copies.

use std::fs::File;
use std::os::unix::fs::FileExt;

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, memfd_create};

use super::*;

/// The kernel side of a ring.
pub struct Kernel {
    file: File,
    size: usize,
    produced: usize,
}

impl Kernel {
    /// An empty ring of `pages` pages, with its positions at `start`.
    pub fn new(pages: usize, start: usize) -> Self {
        let file = File::from(memfd_create("ring", MemfdFlags::CLOEXEC).unwrap());
        let size = pages * page_size();
        file.set_len((2 * page_size() + 2 * size) as u64).unwrap();
        file.write_all_at(&start.to_ne_bytes(), 0).unwrap();
        let mut kernel = Self { file, size, produced: start };
        kernel.produce(0);
        kernel
    }

    pub fn reader(&self, window_pages: usize) -> EventRing {
        let ring = self.file.try_clone().unwrap().into();
        EventRing::with_window(ring, self.size, window_pages * page_size()).unwrap()
    }

    fn consumed(&self) -> usize {
        let mut word = [0; size_of::<usize>()];
        self.file.read_exact_at(&mut word, 0).unwrap();
        usize::from_ne_bytes(word)
    }

    fn produce(&mut self, bytes: usize) {
        self.produced = self.produced.wrapping_add(bytes);
        let at = page_size() as u64;
        self.file.write_all_at(&self.produced.to_ne_bytes(), at).unwrap();
    }

    /// Writes at a position, in both copies.
    fn write(&self, position: usize, bytes: &[u8]) {
        let at = position & (self.size - 1);
        let (head, tail) = bytes.split_at(bytes.len().min(self.size - at));
        for copy in [0, self.size] {
            for (at, bytes) in [(at, head), (0, tail)] {
                let at = (2 * page_size() + copy + at) as u64;
                self.file.write_all_at(bytes, at).unwrap();
            }
        }
    }

    /// Reserves space for a record, and returns its position; `None` if the ring is full.
    pub fn reserve(&mut self, bytes: usize) -> Option<usize> {
        let room = HEADER + bytes.next_multiple_of(HEADER);
        let position = self.produced;
        if position.wrapping_add(room).wrapping_sub(self.consumed()) > self.size - 1 {
            return None;
        }
        self.write(position, &(bytes as u32 | BUSY).to_ne_bytes());
        // the kernel stores the page offset here, which readers do not use
        self.write(position + 4, &[0xee; 4]);
        self.produce(room);
        Some(position)
    }

    pub fn submit(&self, position: usize, record: &[u8], flags: u32) {
        self.write(position.wrapping_add(HEADER), record);
        self.write(position, &(record.len() as u32 | flags).to_ne_bytes());
    }

    /// Writes a whole record; false if the ring is full.
    pub fn output(&mut self, record: &[u8], flags: u32) -> bool {
        let position = self.reserve(record.len());
        position.is_some_and(|p| {
            self.submit(p, record, flags);
            true
        })
    }
}

/// Bytes that differ between records, and within a record.
fn record(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (number * 31 + i * 7) as u8).collect()
}

/// More than any test puts in.
const AT_ONCE: usize = 100_000;

fn drained(ring: &mut EventRing, most: usize) -> (Vec<Vec<u8>>, bool) {
    let mut got = vec![];
    let more = ring.drain(most, |bytes| {
        assert_eq!(bytes.as_ptr() as usize % 8, 0);
        got.push(bytes.to_vec());
    });
    (got, more.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn records_come_whole_and_in_order(
        sizes in vec((0..600_usize, any::<bool>(), any::<bool>()), 1..200),
        ring_pages in prop::sample::select(vec![1_usize, 2, 4, 8]),
        window_pages in prop::sample::select(vec![2_usize, 4, 8, 16]),
        // the last values make the position wrap around
        start in prop::sample::select(vec![0, 4088, usize::MAX - 8191, usize::MAX - 7]),
    ) {
        let mut kernel = Kernel::new(ring_pages, start);
        let mut ring = kernel.reader(window_pages);
        let (mut sent, mut got) = (vec![], vec![]);
        for (number, (bytes, discard, pause)) in sizes.into_iter().enumerate() {
            let record = record(number, bytes);
            let flags = if discard { DISCARD } else { 0 };
            if pause || !kernel.output(&record, flags) {
                got.extend(drained(&mut ring, AT_ONCE).0);
                prop_assert_eq!(kernel.consumed(), kernel.produced);
                if !pause {
                    prop_assert!(kernel.output(&record, flags), "an empty ring has room");
                }
            }
            if !pause && !discard {
                sent.push(record);
            }
        }
        got.extend(drained(&mut ring, AT_ONCE).0);
        prop_assert_eq!(kernel.consumed(), kernel.produced);
        prop_assert_eq!(got, sent);
    }
}

#[test]
fn the_window_moves_through_a_ring_that_is_larger() {
    let mut kernel = Kernel::new(8, 0);
    let mut ring = kernel.reader(2);
    let mut begins = vec![];
    for round in 0..100 {
        let record = record(round, 1000);
        assert!(kernel.output(&record, 0));
        assert_eq!(drained(&mut ring, AT_ONCE), (vec![record], false));
        let window = ring.window.as_ref().unwrap();
        assert_eq!(window.pages.bytes, 2 * page_size());
        begins.push(window.begin / page_size());
    }
    begins.dedup();
    assert!(begins.len() > 12, "{begins:?}");
    assert!(begins.iter().all(|&page| page < 8), "{begins:?}");
}

#[test]
fn a_small_ring_is_mapped_once_and_for_all() {
    let mut kernel = Kernel::new(2, page_size() + 8);
    let mut ring = kernel.reader(4);
    for round in 0..50 {
        let record = record(round, 1000);
        assert!(kernel.output(&record, 0));
        assert_eq!(drained(&mut ring, AT_ONCE), (vec![record], false));
        assert_eq!(ring.window.as_ref().unwrap().begin, 0);
    }
}

#[test]
fn a_window_as_large_as_the_ring_is_gone_through_again() {
    let mut kernel = Kernel::new(4, 0);
    let mut ring = kernel.reader(4);
    // more than once around, so that records end with the window
    for round in 0..300 {
        let record = record(round, 248);
        assert!(kernel.output(&record, 0));
        if round % 3 == 0 {
            drained(&mut ring, AT_ONCE);
        }
    }
    drained(&mut ring, AT_ONCE);
    assert_eq!(kernel.consumed(), kernel.produced);
}

#[test]
fn a_record_that_is_still_written_holds_up_those_behind_it() {
    let mut kernel = Kernel::new(1, 0);
    let mut ring = kernel.reader(2);
    assert_eq!(drained(&mut ring, AT_ONCE), (vec![], false));
    assert!(kernel.output(b"first", 0));
    let busy = kernel.reserve(6).unwrap();
    assert!(kernel.output(b"third", 0));
    assert_eq!(drained(&mut ring, AT_ONCE), (vec![b"first".to_vec()], false));
    assert_eq!(kernel.consumed(), busy);
    assert_eq!(drained(&mut ring, AT_ONCE), (vec![], false));
    kernel.submit(busy, b"second", 0);
    let rest = vec![b"second".to_vec(), b"third".to_vec()];
    assert_eq!(drained(&mut ring, AT_ONCE), (rest, false));
}

#[test]
fn so_many_are_taken_at_once_and_no_more() {
    let mut kernel = Kernel::new(1, 0);
    let mut ring = kernel.reader(2);
    for (n, flags) in [(0, 0), (1, DISCARD), (2, 0), (3, 0), (4, DISCARD), (5, 0)] {
        assert!(kernel.output(&[n], flags));
    }
    assert_eq!(drained(&mut ring, 2), (vec![vec![0], vec![2]], true));
    // each takes 16 bytes: space that was not read is not released
    assert_eq!(kernel.consumed(), 3 * 16);
    assert_eq!(drained(&mut ring, 2), (vec![vec![3], vec![5]], false));
    assert_eq!(kernel.consumed(), kernel.produced);
}

#[test]
fn space_is_given_back_while_a_drain_goes_on_and_never_before_it_was_read() {
    let mut kernel = Kernel::new(1, 0);
    let mut ring = kernel.reader(2);
    let record = record(1, 56);
    while kernel.output(&record, 0) {}
    let (mut read, mut lags) = (0, vec![]);
    ring.drain(AT_ONCE, |_| {
        lags.push(read - kernel.consumed());
        read += 64;
    })
    .unwrap();
    let batch = page_size() / 16;
    assert!(lags.iter().all(|&lag| lag < batch), "{lags:?}");
    // but not after each record
    assert!(lags.iter().any(|&lag| lag == batch - 64), "{lags:?}");
    assert_eq!(kernel.consumed(), kernel.produced);
}

#[test]
fn what_does_not_fit_the_window_is_an_error_and_stays() {
    let mut kernel = Kernel::new(8, 0);
    let mut ring = kernel.reader(2);
    let large = record(1, 2 * page_size());
    assert!(kernel.output(b"before", 0));
    let at = kernel.reserve(large.len()).unwrap();
    kernel.submit(at, &large, 0);
    let mut got = vec![];
    for _ in 0..2 {
        let error = ring.drain(AT_ONCE, |b| got.push(b.to_vec())).unwrap_err();
        let said = error.to_string();
        assert!(said.contains("are mapped of it"), "{said}");
    }
    assert_eq!(got, [b"before"]);
    assert_eq!(kernel.consumed(), at);
    // the record is still in its place
    let mut larger = kernel.reader(4);
    assert_eq!(drained(&mut larger, AT_ONCE), (vec![large], false));
}

#[test]
fn a_record_may_take_all_of_the_window() {
    let mut kernel = Kernel::new(8, 0);
    let mut ring = kernel.reader(2);
    let large = record(1, 2 * page_size() - HEADER);
    for _ in 0..3 {
        assert!(kernel.output(&large, 0));
        assert_eq!(drained(&mut ring, AT_ONCE), (vec![large.clone()], false));
    }
}

#[test]
fn what_can_be_no_ring_is_refused() {
    for size in [0, 3 * page_size(), page_size() / 2, 1 << 63] {
        let kernel = Kernel::new(1, 0);
        let ring = kernel.file.try_clone().unwrap().into();
        assert!(EventRing::new(ring, size).is_err(), "{size}");
    }
}
