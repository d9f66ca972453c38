// SPDX-License-Identifier: MIT OR Apache-2.0
//! The status of a completion, as in Linux's `nvme_request.status`: the Status Field of the CQE
//! without the phase tag (NVMe base 2.2, section 4.2.3).
//!
//! Names come from the specifications: NVMe base 2.2 figures 102 to 107, additions of 2.3, and
//! the Zoned Namespace command set. Some command specific codes have different meanings for I/O and
//! for Fabrics commands; [`Status::of`] takes the command into account.

use std::fmt;

use super::opcode::Opcode;
use super::status_names::{COMMAND, FABRICS, GENERIC, IO_COMMAND, MEDIA, PATH, Table};

/// Status Code Type: the kind of error (NVMe base 2.2, figure 101).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StatusType {
    /// 0h: Generic Command Status; also success.
    Generic,
    /// 1h: Command Specific Status.
    CommandSpecific,
    /// 2h: Media and Data Integrity Errors.
    Media,
    /// 3h: Path Related Status. Codes from 70h on come from the host.
    Path,
    /// 4h to 6h.
    Reserved(u8),
    /// 7h: Vendor Specific.
    Vendor,
}

impl fmt::Display for StatusType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generic => f.write_str("Generic"),
            Self::CommandSpecific => f.write_str("Command Specific"),
            Self::Media => f.write_str("Media"),
            Self::Path => f.write_str("Path"),
            Self::Reserved(code) => write!(f, "Type {code:#x}"),
            Self::Vendor => f.write_str("Vendor Specific"),
        }
    }
}

/// A status; shown as `Generic/Invalid Command Opcode (0x001) DNR`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

impl Status {
    /// Linux's status of a command that it cancelled, as in a reset (`NVME_SC_HOST_ABORTED_CMD`).
    pub const HOST_ABORTED: Self = Self(0x371);

    /// Whether the command succeeded: type and code are zero.
    #[must_use]
    pub fn is_success(self) -> bool {
        self.code_and_type() == 0
    }

    /// Status Code: bits 7:0.
    #[must_use]
    pub fn code(self) -> u8 {
        self.0.to_le_bytes()[0]
    }

    /// Status Code Type: bits 10:8.
    #[must_use]
    pub fn kind(self) -> StatusType {
        match self.0.to_le_bytes()[1] & 7 {
            0 => StatusType::Generic,
            1 => StatusType::CommandSpecific,
            2 => StatusType::Media,
            3 => StatusType::Path,
            7 => StatusType::Vendor,
            reserved => StatusType::Reserved(reserved),
        }
    }

    /// Type and code, as in the kernel's `NVME_SC_*`: bits 10:0.
    #[must_use]
    pub fn code_and_type(self) -> u16 {
        self.0 & 0x7ff
    }

    /// Command Retry Delay: bits 12:11. If not zero, it selects one of the controller's three
    /// delays.
    #[must_use]
    pub fn retry_delay(self) -> u8 {
        self.0.to_le_bytes()[1] >> 3 & 3
    }

    /// More: bit 13. The error log has an entry for this command.
    #[must_use]
    pub fn more(self) -> bool {
        self.0 & 0x2000 != 0
    }

    /// Do Not Retry: bit 14. A retry of the same command will fail.
    #[must_use]
    pub fn do_not_retry(self) -> bool {
        self.0 & 0x4000 != 0
    }

    /// The name of the code for an I/O or admin command; `None` if it is reserved.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let code = self.code();
        let named = match self.kind() {
            StatusType::Generic => find(GENERIC, code),
            StatusType::CommandSpecific => {
                let io = find(COMMAND, code).or_else(|| find(IO_COMMAND, code));
                io.or((0x70..=0x7f).contains(&code).then_some("Directive Specific"))
            }
            StatusType::Media => find(MEDIA, code),
            StatusType::Path => find(PATH, code),
            StatusType::Reserved(_) | StatusType::Vendor => None,
        };
        let vendor = code >= 0xc0 || self.kind() == StatusType::Vendor;
        named.or(vendor.then_some("Vendor Specific"))
    }

    /// The name of the code for this command, which may be a Fabrics command.
    #[must_use]
    pub fn name_for(self, opcode: Opcode) -> Option<&'static str> {
        self.of(opcode).name()
    }

    /// The status with its command, for display.
    #[must_use]
    pub fn of(self, opcode: Opcode) -> StatusOf {
        StatusOf { status: self, opcode }
    }

    fn show(self, name: Option<&str>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = name.unwrap_or("Unknown");
        write!(f, "{}/{name} ({:#05x})", self.kind(), self.code_and_type())?;
        if self.retry_delay() != 0 {
            write!(f, " CRD{}", self.retry_delay())?;
        }
        if self.more() {
            f.write_str(" MORE")?;
        }
        if self.do_not_retry() {
            f.write_str(" DNR")?;
        }
        Ok(())
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(self.name(), f)
    }
}

/// A status and its command; shown like [`Status`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StatusOf {
    /// The status.
    pub status: Status,
    /// The command.
    pub opcode: Opcode,
}

impl StatusOf {
    /// The name of the code for this command; `None` if it is reserved.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let code = self.status.code();
        let other = code >= 0x80 && self.status.kind() == StatusType::CommandSpecific;
        if self.opcode.code != 0x7f || !other {
            return self.status.name();
        }
        let transport = (0xb0..=0xbf).contains(&code).then_some("Transport Specific");
        let vendor = (code >= 0xc0).then_some("Vendor Specific");
        find(FABRICS, code).or(transport).or(vendor)
    }
}

impl fmt::Display for StatusOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.status.show(self.name(), f)
    }
}

fn find(table: &Table, code: u8) -> Option<&'static str> {
    let entry = table.iter().find(|(known, _)| *known == code);
    entry.map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::opcode::QueueKind;

    #[test]
    fn a_status_is_shown_with_all_that_is_in_it() {
        for (status, shown) in [
            (0x0000, "Generic/Success (0x000)"),
            (0x4001, "Generic/Invalid Command Opcode (0x001) DNR"),
            (0x6002, "Generic/Invalid Field in Command (0x002) MORE DNR"),
            (0x0821, "Generic/Command Interrupted (0x021) CRD1"),
            (0x5822, "Generic/Transient Transport Error (0x022) CRD3 DNR"),
            (0x4109, "Command Specific/Invalid Log Page (0x109) DNR"),
            (0x0171, "Command Specific/Directive Specific (0x171)"),
            (0x01b9, "Command Specific/Zone Is Full (0x1b9)"),
            (0x0281, "Media/Unrecovered Read Error (0x281)"),
            (0x0370, "Path/Host Pathing Error (0x370)"),
            (0x0371, "Path/Command Aborted By Host (0x371)"),
            (0x00c5, "Generic/Vendor Specific (0x0c5)"),
            (0x0742, "Vendor Specific/Vendor Specific (0x742)"),
            (0x0017, "Generic/Unknown (0x017)"),
            (0x0104, "Command Specific/Unknown (0x104)"),
            (0x0512, "Type 0x5/Unknown (0x512)"),
        ] {
            assert_eq!(Status(status).to_string(), shown);
        }
        for status in 0..=0x7fff {
            let text = Status(status).to_string();
            assert!(text.contains(&format!("({:#05x})", status & 0x7ff)));
        }
    }

    #[test]
    fn only_type_and_code_decide_whether_it_succeeded() {
        assert!(Status(0).is_success());
        assert!(Status(0x2000).is_success());
        assert!(!Status(0x0100).is_success());
        assert_eq!(Status(0x4371).code_and_type(), Status::HOST_ABORTED.0);
        assert_eq!(Status(0x370).kind(), StatusType::Path);
    }

    #[test]
    fn a_fabrics_command_has_its_own_meanings() {
        let [fabrics, log] = [0x7f, 0x02].map(|code| Opcode { queue: QueueKind::Admin, code });
        for (status, opcode, name) in [
            (0x182, fabrics, Some("Connect Invalid Parameters")),
            (0x182, log, Some("Attempted Write to Read Only Range")),
            (0x1b8, fabrics, Some("Transport Specific")),
            (0x186, fabrics, None),
            (0x1c0, fabrics, Some("Vendor Specific")),
            // below 80h, and for other types, all commands share the names
            (0x101, fabrics, Some("Invalid Queue Identifier")),
            (0x002, fabrics, Some("Invalid Field in Command")),
        ] {
            assert_eq!(Status(status).name_for(opcode), name);
        }
        let shown = Status(0x4191).of(fabrics).to_string();
        assert_eq!(shown, "Command Specific/Authentication Required (0x191) DNR");
    }

    #[test]
    fn tables_are_sorted_and_have_no_code_twice() {
        for table in [GENERIC, COMMAND, IO_COMMAND, FABRICS, MEDIA, PATH] {
            assert!(table.windows(2).all(|two| two[0].0 < two[1].0));
        }
    }
}
