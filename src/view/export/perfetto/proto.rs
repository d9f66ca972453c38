// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protocol Buffers: the wire format, as far as a trace needs it.

/// Wire types.
const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const LENGTH: u32 = 2;

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

fn varint(mut n: u64, to: &mut impl FnMut(u8)) {
    while n >= 0x80 {
        to((n as u8 & 0x7f) | 0x80);
        n >>= 7;
    }
    to(n as u8);
}

impl Message {
    fn raw(&mut self, n: u64) {
        varint(n, &mut |byte| self.bytes.push(byte));
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.raw(u64::from(field << 3 | wire));
    }

    /// A number, or a bool or an enum.
    pub(super) fn number(&mut self, field: u32, n: impl Into<u64>) {
        self.key(field, VARINT);
        self.raw(n.into());
    }

    /// A signed number (int32, int64).
    pub(super) fn signed(&mut self, field: u32, n: i64) {
        self.number(field, n.cast_unsigned());
    }

    /// A double.
    pub(super) fn double(&mut self, field: u32, n: f64) {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&n.to_le_bytes());
    }

    /// Text.
    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.key(field, LENGTH);
        self.raw(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// A message in this message.
    pub(super) fn nested(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.key(field, LENGTH);
        let begin = self.bytes.len();
        write(self);
        // the length comes before the content, and most have one byte
        let len = (self.bytes.len() - begin) as u64;
        let mut at = begin;
        varint(len, &mut |byte| {
            self.bytes.insert(at, byte);
            at += 1;
        });
    }

    /// The message so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Empties the message.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_the_specification_shows() {
        // the examples of the documentation of the wire format
        let mut message = Message::default();
        message.number(1, 150_u32);
        message.text(2, "testing");
        message.nested(3, |m| m.number(1, 150_u32));
        assert_eq!(message.bytes(), b"\x08\x96\x01\x12\x07testing\x1a\x03\x08\x96\x01");
        message.clear();
        message.signed(1, -2);
        message.double(2, 1.0);
        let signed = b"\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(message.bytes()[..11], signed[..]);
        assert_eq!(message.bytes()[11..], *b"\x11\0\0\0\0\0\0\xf0\x3f");
    }

    #[test]
    fn a_long_message_has_a_long_length() {
        let mut message = Message::default();
        message.nested(1, |m| m.text(1, &"x".repeat(300)));
        let bytes = message.bytes();
        assert_eq!(bytes[..3], [0x0a, 0xaf, 0x02]);
        assert_eq!(bytes.len(), 3 + 303);
    }
}
