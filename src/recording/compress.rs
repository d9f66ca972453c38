// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compresses payloads of blocks into zstd frames.
//!
//! A block of events is columns, in planes of bytes. Most planes are noise, or nearly constant: what differs
//! is how often each byte occurs. So each plane is a zstd block, which has a code of its own. That takes
//! fewer bytes than one code for the whole.

use std::io;

use zstd::zstd_safe::CCtx;
use zstd::zstd_safe::CParameter;
use zstd::zstd_safe::InBuffer;
use zstd::zstd_safe::OutBuffer;
use zstd::zstd_safe::ParamSwitch;
use zstd::zstd_safe::ResetDirective;
use zstd::zstd_safe::SafeResult;
use zstd::zstd_safe::compress_bound;
use zstd::zstd_safe::get_error_name;
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;

/// Level of zstd. Higher levels cost more than they save on columns of times.
const LEVEL: i32 = 1;
/// The level of full blocks, which are of runs with many commands per second: the search for repeated
/// bytes makes larger steps. Constant planes are found even so.
const FAST: i32 = -20;
/// Bytes that a part may need besides those of its content.
const PART: usize = 16;

/// Compresses payloads.
pub struct Compressor {
    context: CCtx<'static>,
    out: Vec<u8>,
}

fn failed(code: usize) -> io::Error {
    io::Error::other(get_error_name(code))
}

impl Compressor {
    /// # Errors
    /// If zstd lacks memory.
    pub fn new() -> io::Result<Self> {
        let context = CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        let mut compressor = Self {
            context,
            out: Vec::new(),
        };
        // at a level below zero, bytes that do not repeat would be stored as they are
        let literals = CParameter::LiteralCompressionMode(ParamSwitch::Enable);
        compressor.context.set_parameter(literals).map_err(failed)?;
        Ok(compressor)
    }

    /// Compresses a payload, with fewer instructions if it is `full`. At each of the cuts, positions in
    /// order, bytes of another kind begin.
    ///
    /// # Errors
    /// If zstd fails.
    pub fn compress(&mut self, payload: &[u8], cuts: &[usize], full: bool) -> io::Result<&[u8]> {
        let level = CParameter::CompressionLevel(if full { FAST } else { LEVEL });
        let set = self.context.set_parameter(level);
        let error = match set.and_then(|_| self.frame(payload, cuts)) {
            Ok(0) => return Ok(&self.out),
            Ok(_) => io::Error::other("zstd needs more room than it says"),
            Err(code) => failed(code),
        };
        // else the next payload would be a part of this frame
        let _ = self.context.reset(ResetDirective::SessionOnly);
        Err(error)
    }

    /// Returns how many bytes lacked room.
    fn frame(&mut self, payload: &[u8], cuts: &[usize]) -> SafeResult {
        self.out.clear();
        let most = compress_bound(payload.len()) + PART * (cuts.len() + 1);
        self.out.reserve(most);
        let size = Some(payload.len() as u64);
        self.context.set_pledged_src_size(size)?;
        let mut out = OutBuffer::around(&mut self.out);
        let mut begin = 0;
        for &cut in cuts {
            let part = payload.get(begin..cut).unwrap_or_default();
            begin += part.len();
            let mut part = InBuffer::around(part);
            self.context
                .compress_stream2(&mut out, &mut part, ZSTD_EndDirective::ZSTD_e_flush)?;
        }
        let mut rest = InBuffer::around(&payload[begin..]);
        self.context
            .compress_stream2(&mut out, &mut rest, ZSTD_EndDirective::ZSTD_e_end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_payload_comes_back(
            payloads in vec(
                (vec((vec(any::<u8>(), 1..9), 1..3000_usize, 0..9_usize), 0..9), any::<bool>()), 1..4,
            ),
        ) {
            let mut compressor = Compressor::new().unwrap();
            for (parts, full) in payloads {
                let (mut payload, mut cuts) = (vec![], vec![]);
                for (bytes, times, cut) in parts {
                    payload.extend(bytes.repeat(times));
                    // also within a part, and twice at a place
                    cuts.push(payload.len() - cut.min(bytes.len()));
                }
                cuts.sort();
                let compressed = compressor.compress(&payload, &cuts, full).unwrap();
                prop_assert_eq!(zstd::bulk::decompress(compressed, payload.len()).unwrap(), payload);
            }
        }
    }
}
