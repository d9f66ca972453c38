// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring buffers of a run that traces.

use super::value::size;

/// Smallest ring. The kernel requires at least one page.
const MIN_BUFFER: u32 = 64 << 10;
/// Largest ring. The kernel uses two bits of a record's length as flags (BPF_RINGBUF_BUSY_BIT,
/// BPF_RINGBUF_DISCARD_BIT).
pub const MAX_BUFFER: u32 = 1 << 30;

/// The ring buffers.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct BufferArgs {
    /// Size of all ring buffers together (`4M`, `64M`)
    ///
    /// Rounded up to a power of two. Each group of 8 CPUs has its own. Events that find no room are lost
    /// and counted. [default: 16M, or 2M for each 8 CPUs if that is more; less if the controllers' tags
    /// need much memory]
    #[arg(id = "buffer", long = "buffer", hide_short_help = true, value_name = "SIZE",
          value_parser = ring_bytes, conflicts_with = "from")]
    pub bytes: Option<u32>,
}

/// The size of the ring buffers. Rounds up to a power of two.
pub(crate) fn ring_bytes(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(size(text)?).ok();
    bytes
        .filter(|bytes| (MIN_BUFFER..=MAX_BUFFER).contains(bytes))
        .map(u32::next_power_of_two)
        .ok_or_else(|| format!("`{text}` is out of range: give a size between 64K and 1G"))
}
