// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of latencies over time. Latencies of neighbouring commands resemble each other, so
//! single commands are no independent sample. Slices of time are nearly independent: they are what is
//! resampled. Pure, and deterministic: the seed of the random numbers is fixed.

pub mod intervals;
pub mod sample;
