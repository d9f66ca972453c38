// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of latencies over time. Latencies of neighbouring commands resemble each other, so
//! single commands are no independent sample. Slices of time are nearly independent: they are what is
//! resampled. Pure, and deterministic: the seed of the random numbers is fixed.

pub mod bootstrap;
pub mod dependence;
pub mod histogram;
pub mod holm;
pub mod ratio;
pub mod sample;
pub mod slices;
pub mod spread;
pub mod student;
