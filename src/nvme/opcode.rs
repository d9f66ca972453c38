// SPDX-License-Identifier: MIT OR Apache-2.0
//! NVMe opcodes: their names, and the parsing of opcodes on the command line.
//!
//! The meaning of an opcode depends on the kind of queue (0x02 is a read on an I/O queue, and Get
//! Log Page on the admin queue), so both are stored together. The values come from the NVMe base
//! 2.1, NVM and ZNS command set specifications, checked against `include/linux/nvme.h` of Linux and
//! `libnvme`'s `types.h`.
//!
//! Pure: no I/O. Vendor-specific opcodes have no name.

use std::error::Error;
use std::{fmt, mem};

/// The kind of submission queue a command was sent to (NVMe base, "Queue").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueKind {
    /// The admin queue: queue identifier 0, one per controller.
    Admin,
    /// An I/O queue: queue identifier 1 and above.
    Io,
}

impl QueueKind {
    /// Both kinds, in the order in which `parse` returns them.
    pub const BOTH: [Self; 2] = [Self::Admin, Self::Io];

    /// The name: `admin` or `io`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Io => "io",
        }
    }

    fn table(self) -> &'static [(u8, &'static str)] {
        match self {
            Self::Admin => ADMIN,
            Self::Io => IO,
        }
    }
}

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An NVMe opcode: CDW0 bits 7:0 of a submission queue entry, and the kind of its queue.
///
/// Shown as its name if the specifications give one, else as `io 0x9d` or `admin 0xc1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opcode {
    /// The kind of queue, which determines the meaning of `code`.
    pub queue: QueueKind,
    /// The opcode byte.
    pub code: u8,
}

impl Opcode {
    /// The canonical name, such as `read`; `None` for reserved and vendor-specific codes.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let mut table = self.queue.table().iter();
        table.find(|(code, _)| *code == self.code).map(|(_, name)| *name)
    }

    /// The name, or the code such as `0x9d` if it has none.
    #[must_use]
    pub fn name_or_code(self) -> String {
        let code = || format!("{:#04x}", self.code);
        self.name().map_or_else(code, str::to_owned)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` in both branches, so that the width of a format string is applied.
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&format!("{} {:#04x}", self.queue, self.code)),
        }
    }
}

/// The text is not the name or code of an NVMe command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOpcode {
    /// The text, without surrounding blanks.
    pub text: String,
    /// The most similar name, if it is similar enough for a typing error.
    pub suggestion: Option<&'static str>,
}

impl fmt::Display for UnknownOpcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is neither the name nor the code (0 to 0xff) of an NVMe command",
            self.text
        )?;
        if let Some(name) = self.suggestion {
            write!(f, " (did you mean `{name}`?)")?;
        }
        f.write_str("; give a name such as read, write, flush, dsm or admin:identify, ")?;
        f.write_str("or a code such as 0x02 (both kinds of queue), io:0x02 or admin:0x06")
    }
}

impl Error for UnknownOpcode {}

/// Parses one opcode. Returns several if the text does not determine the kind of queue.
///
/// Accepts a name or an alias (any case, `_` for `-`), a code in decimal or `0x` hexadecimal (that
/// code on both kinds of queue, admin first), and both after `io:` or `admin:`. Accepts the output
/// of [`Opcode`]'s `Display` too.
///
/// # Errors
///
/// [`UnknownOpcode`] if no command has that name on that kind of queue, or if the number does not
/// fit one byte.
pub fn parse(text: &str) -> Result<Vec<Opcode>, UnknownOpcode> {
    let text = text.trim();
    let word = text.to_ascii_lowercase().replace('_', "-");
    let (queues, item) = split_queue(&word);
    let found: Vec<Opcode> = match code(item) {
        Some(code) => queues.iter().map(|&queue| Opcode { queue, code }).collect(),
        None => queues.iter().filter_map(|&queue| by_name(queue, item)).collect(),
    };
    if found.is_empty() {
        return Err(UnknownOpcode { text: text.to_owned(), suggestion: nearest(item) });
    }
    Ok(found)
}

/// Splits off a leading `io:` or `admin:`. Accepts a blank for the colon, as in `Opcode`'s
/// `Display`.
fn split_queue(word: &str) -> (&'static [QueueKind], &str) {
    match word.split_once([':', ' ']) {
        Some(("io", item)) => (&[QueueKind::Io], item.trim_start()),
        Some(("admin", item)) => (&[QueueKind::Admin], item.trim_start()),
        _ => (&QueueKind::BOTH, word),
    }
}

fn code(item: &str) -> Option<u8> {
    let (digits, radix) = match item.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None => (item, 10),
    };
    // `from_str_radix` accepts a sign, which an opcode does not have.
    let plain = digits.chars().all(|c| c.is_digit(radix));
    plain.then(|| u8::from_str_radix(digits, radix).ok()).flatten()
}

fn by_name(queue: QueueKind, item: &str) -> Option<Opcode> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == item);
    let name = alias.map_or(item, |(_, name)| *name);
    let entry = queue.table().iter().find(|(_, known)| *known == name);
    entry.map(|&(code, _)| Opcode { queue, code })
}

/// The name or alias with the fewest edits, if these are at most one per three characters typed (at
/// least one edit is allowed).
fn nearest(item: &str) -> Option<&'static str> {
    let limit = (item.chars().count() / 3).max(1);
    let names = IO.iter().chain(ADMIN).map(|(_, name)| *name);
    names
        .chain(ALIASES.iter().map(|(alias, _)| *alias))
        .map(|name| (distance(item, name), name))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// Edit distance in which the swap of two neighbours is one edit (optimal string alignment),
/// because a swap (`raed`) is a more likely error than two wrong letters.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = mem::replace(&mut above, row);
    }
    above[b.len()]
}

/// I/O opcodes: NVMe base 2.1 "I/O Commands", the NVM and the Zoned Namespace command sets, and the
/// Key Value opcodes that the NVM set does not use. Store and Retrieve (01h, 02h) have the names of
/// the NVM set.
#[rustfmt::skip] // two opcodes per line, for comparison with the specification's table
const IO: &[(u8, &str)] = &[
    (0x00, "flush"),                (0x01, "write"),
    (0x02, "read"),                 (0x04, "write-uncorrectable"),
    (0x05, "compare"),              (0x06, "kv-list"),
    (0x08, "write-zeroes"),         (0x09, "dataset-management"),
    (0x0c, "verify"),               (0x0d, "reservation-register"),
    (0x0e, "reservation-report"),   (0x10, "kv-delete"),
    (0x11, "reservation-acquire"),  (0x12, "io-mgmt-recv"),
    (0x14, "kv-exist"),             (0x15, "reservation-release"),
    (0x18, "cancel"),               (0x19, "copy"),
    (0x1d, "io-mgmt-send"),         (0x79, "zone-mgmt-send"),
    (0x7a, "zone-mgmt-recv"),       (0x7d, "zone-append"),
    (0x7f, "fabrics"),
];

/// Admin opcodes: NVMe base 2.1 "Admin Command Set", and three of the Computational Programs set.
#[rustfmt::skip]
const ADMIN: &[(u8, &str)] = &[
    (0x00, "delete-sq"),            (0x01, "create-sq"),
    (0x02, "get-log-page"),         (0x04, "delete-cq"),
    (0x05, "create-cq"),            (0x06, "identify"),
    (0x08, "abort"),                (0x09, "set-features"),
    (0x0a, "get-features"),         (0x0c, "async-event"),
    (0x0d, "ns-management"),        (0x10, "firmware-commit"),
    (0x11, "firmware-download"),    (0x14, "self-test"),
    (0x15, "ns-attachment"),        (0x18, "keep-alive"),
    (0x19, "directive-send"),       (0x1a, "directive-recv"),
    (0x1c, "virtualization-mgmt"),  (0x1d, "nvme-mi-send"),
    (0x1e, "nvme-mi-recv"),         (0x20, "capacity-mgmt"),
    (0x21, "discovery-info-mgmt"),  (0x22, "fabric-zoning-recv"),
    (0x24, "lockdown"),             (0x25, "fabric-zoning-lookup"),
    (0x28, "clear-export-nvm"),     (0x29, "fabric-zoning-send"),
    (0x2a, "create-export-nvms"),   (0x2d, "manage-export-nvms"),
    (0x31, "manage-export-ns"),     (0x35, "manage-export-port"),
    (0x39, "send-disc-log-page"),   (0x3d, "track-send"),
    (0x3e, "track-recv"),           (0x41, "migration-send"),
    (0x42, "migration-recv"),       (0x45, "controller-data-queue"),
    (0x7c, "doorbell-buffer-config"), (0x7f, "fabrics"),
    (0x80, "format-nvm"),           (0x81, "security-send"),
    (0x82, "security-recv"),        (0x84, "sanitize"),
    (0x85, "load-program"),         (0x86, "get-lba-status"),
    (0x88, "program-activation-mgmt"), (0x89, "memory-range-set-mgmt"),
];

/// Aliases: names in nvme-cli, in the kernel and in the block layer.
#[rustfmt::skip]
const ALIASES: &[(&str, &str)] = &[
    ("dsm", "dataset-management"),         ("discard", "dataset-management"),
    ("trim", "dataset-management"),        ("write-zeros", "write-zeroes"),
    ("write-uncor", "write-uncorrectable"), ("resv-register", "reservation-register"),
    ("resv-report", "reservation-report"), ("resv-acquire", "reservation-acquire"),
    ("resv-release", "reservation-release"), ("get-log", "get-log-page"),
    ("set-feature", "set-features"),       ("get-feature", "get-features"),
    ("abort-cmd", "abort"),                ("async-event-request", "async-event"),
    ("aer", "async-event"),                ("ns-mgmt", "ns-management"),
    ("ns-attach", "ns-attachment"),        ("fw-commit", "firmware-commit"),
    ("fw-download", "firmware-download"),  ("device-self-test", "self-test"),
    ("dbbuf", "doorbell-buffer-config"),   ("format", "format-nvm"),
    ("sanitize-nvm", "sanitize"),          ("fabric", "fabrics"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_typed_and_more() {
        let both = [QueueKind::Admin, QueueKind::Io];
        let [admin, io] = both.map(|queue| move |code| Opcode { queue, code });
        for (text, want) in [
            (" Write_Zeroes ", vec![io(0x08)]),
            ("TRIM", vec![io(0x09)]),
            ("Admin:Get_Log", vec![admin(0x02)]),
            ("2", vec![admin(2), io(2)]),
            ("0X02", vec![admin(2), io(2)]),
            ("fabrics", vec![admin(0x7f), io(0x7f)]),
            ("io:fabrics", vec![io(0x7f)]),
            ("admin:0x06", vec![admin(6)]),
            ("io:255", vec![io(255)]),
        ] {
            assert_eq!(parse(text), Ok(want));
        }
        assert_eq!(io(0x9d).to_string(), "io 0x9d");
        assert_eq!(admin(0x03).to_string(), "admin 0x03");
        assert_eq!(format!("{:>6}|", io(2)), "  read|");
        for code in 0..=u8::MAX {
            for opcode in [io(code), admin(code)] {
                assert!(parse(&opcode.to_string()).unwrap().contains(&opcode));
                if let Some(name) = opcode.name() {
                    assert_eq!(parse(&format!("{}:{name}", opcode.queue)), Ok(vec![opcode]));
                }
            }
        }
        for (alias, name) in ALIASES {
            assert_eq!(parse(alias), parse(name), "{alias}");
        }
    }
}
