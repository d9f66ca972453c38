// SPDX-License-Identifier: MIT OR Apache-2.0
//! Submissions and completions of a controller over time, in bounded memory, and what they show of a
//! limit.
//!
//! Little's law (time = number in flight / rate) holds for every device, so it shows nothing. A limit
//! shows in three facts together:
//! - The completions of windows of time vary far less than independent ones would. Those of random
//!   arrivals vary as much as independent ones.
//! - The number in flight changes, and the rate does not.
//! - Submissions changed that number. Where a slower device did, as below a load that paces itself, the
//!   completions changed first.
//!
//! There is no limit near this rate if it rises with the number in flight, or if completions vary as
//! independent ones do. A load that always has the same number in flight shows none of this.

mod window;

use window::Windows;

use super::verdict::{Reason, open, out};
use crate::units::{percent, rate, size_text};

/// Width of a bin at first, in nanoseconds.
const FIRST_WIDTH_NS: u64 = 250_000;
/// Most bins. If more are needed, each two become one.
const MOST_BINS: usize = 8192;
/// The number in flight varies if its 90 % quantile is this many times its 10 % quantile.
const VARIES: f64 = 1.5;
/// Variance by mean; 1 for independent completions.
const EVEN: f64 = 0.5;
/// Below this part of the time with a command in flight, there is no queue that a limit makes.
const BUSY: f64 = 0.5;

/// What is counted in a bin.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    submitted: u32,
    completed: u32,
    bytes_completed: u64,
}

impl Bin {
    const fn plus(self, other: Self) -> Self {
        Self {
            submitted: self.submitted.saturating_add(other.submitted),
            completed: self.completed.saturating_add(other.completed),
            bytes_completed: self.bytes_completed.saturating_add(other.bytes_completed),
        }
    }
}

/// Submissions and completions by time.
#[derive(Clone, Debug)]
pub struct Rates {
    origin_ns: Option<u64>,
    width_ns: u64,
    bins: Vec<Bin>,
    /// Submitted before the first bin.
    before: u64,
    commands: u64,
    time_ns: f64,
    /// Sum of bytes, and of their squares.
    bytes: [f64; 2],
}

impl Default for Rates {
    fn default() -> Self {
        Self {
            origin_ns: None,
            width_ns: FIRST_WIDTH_NS,
            bins: Vec::new(),
            before: 0,
            commands: 0,
            time_ns: 0.0,
            bytes: [0.0; 2],
        }
    }
}

/// A rate that does not change with the number in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flat {
    /// Bytes per second; otherwise commands per second.
    pub is_bytes: bool,
    /// Per second.
    pub rate: f64,
    /// Variance by mean of completions; independent ones have 1.
    pub dispersion: f64,
    /// The part of the changes of the number in flight that submissions made.
    pub by_submissions: f64,
    /// 10 % and 90 % quantile of the number in flight.
    pub in_flight: (f64, f64),
}

impl Flat {
    /// `150 IOPS`, or `125M/s`
    pub fn limit(&self) -> String {
        match self.is_bytes {
            false => format!("{} IOPS", rate(self.rate)),
            true => format!("{}/s", size_text(self.rate as u64)),
        }
    }
}

impl Rates {
    /// Adds a command.
    pub fn add(&mut self, (begin_ns, end_ns): (u64, u64), bytes: u32) {
        self.origin_ns.get_or_insert(begin_ns);
        self.commands += 1;
        self.time_ns += end_ns.saturating_sub(begin_ns) as f64;
        self.bytes[0] += f64::from(bytes);
        self.bytes[1] += f64::from(bytes).powi(2);
        match self.bin(begin_ns) {
            Some(bin) => bin.submitted = bin.submitted.saturating_add(1),
            None => self.before += 1,
        }
        if let Some(bin) = self.bin(end_ns) {
            bin.completed = bin.completed.saturating_add(1);
            bin.bytes_completed += u64::from(bytes);
        }
    }

    /// The bin of a time; `None` before the first one.
    fn bin(&mut self, at_ns: u64) -> Option<&mut Bin> {
        let since = at_ns.checked_sub(self.origin_ns?)?;
        while since / self.width_ns >= MOST_BINS as u64 {
            let pairs = self.bins.chunks(2);
            self.bins = pairs
                .map(|pair| pair.iter().fold(Bin::default(), |sum, bin| sum.plus(*bin)))
                .collect();
            self.width_ns *= 2;
        }
        let at = (since / self.width_ns) as usize;
        if at >= self.bins.len() {
            self.bins.resize(at + 1, Bin::default());
        }
        self.bins.get_mut(at)
    }

    /// Mean bytes of a byte's command: the unit in which bytes of independent commands have a variance
    /// equal to the mean.
    fn unit(&self) -> f64 {
        let [sum, squares] = self.bytes;
        squares / sum.max(1.0)
    }

    /// Commands in flight at the start of each bin, and at the end.
    fn in_flight(&self) -> Vec<f64> {
        let mut now = self.before as f64;
        let mut all = vec![now];
        for bin in &self.bins {
            now += f64::from(bin.submitted) - f64::from(bin.completed);
            all.push(now);
        }
        all
    }

    /// The limit that they show; otherwise why there is none near this rate, or why that is not known.
    pub fn limit(&self) -> Result<Flat, Reason> {
        let windows = Windows::of(self);
        if !windows.is_enough() {
            let is_idle = windows.busy_part < BUSY && windows.are_seldom_busy();
            if is_idle && windows.varies_like_independent() {
                let busy = percent(windows.busy_part);
                return Err(out(format!(
                    "commands are in flight for {busy} of the time, at irregular times"
                )));
            }
            return Err(open("needs more time with at least two commands in flight"));
        }
        let (low, high) = windows.in_flight;
        let text = format!("{low:.1} to {high:.1} in flight");
        if high < low * VARIES {
            let even = windows.even().map(|flat| {
                format!(
                    "; completions are as even as under a limit of {}, or from an evenly paced program",
                    flat.limit()
                )
            });
            return Err(open(format!(
                "the number in flight did not vary ({text}){}: needs another depth within the run",
                even.unwrap_or_default()
            )));
        }
        if let Some(flat) = windows.flat() {
            return Ok(flat);
        }
        Err(if let Some((rate, number)) = windows.response() {
            out(format!(
                "the rate follows the number in flight: {rate:.1} times at {number:.1} times as many"
            ))
        } else if windows.varies_when_busy() {
            out("completions vary as independent ones do")
        } else {
            open(format!(
                "the rate is not flat, and does not follow the number ({text}): needs other depths, for longer"
            ))
        })
    }
}

#[cfg(test)]
mod tests;
