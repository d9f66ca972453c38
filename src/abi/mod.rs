// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the BPF side and user space share. The records of events are structs of their own
//! (record.rs), which build anywhere. The rest is the maps: with the feature `live`, build.rs makes
//! Rust of the C (maps.rs), and abi_checks.rs compares both.

#[cfg(feature = "live")]
mod abi_checks;
mod events;
#[cfg(feature = "live")]
mod maps;
mod record;

use std::mem::size_of;

use bytemuck::{AnyBitPattern, try_pod_read_unaligned};

#[cfg(feature = "live")]
pub use self::events::wait_bits;
pub use self::events::{decode_event, event, event_time};
#[cfg(feature = "live")]
pub use self::maps::*;
pub use self::record::{NO_EVENT, Record, TIMES_OF_RECORD, WORDS_OF_RECORD};

/// The bytes are not a valid value of the map or the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError;

fn read<T: AnyBitPattern>(bytes: &[u8]) -> Result<T, DecodeError> {
    bytes.get(..size_of::<T>()).and_then(|b| try_pod_read_unaligned(b).ok()).ok_or(DecodeError)
}
