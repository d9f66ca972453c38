// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was observed beside the points of a command.

/// Bits of [`Conditions::bits`]. They are part of the format of recordings, and the same as `ND_BESIDE_*`
/// of bpf/include/abi.h.
mod bit {
    pub const IRQ: u8 = 1;
    pub const IDLE: u8 = 1 << 1;
    pub const SOFTIRQ_KNOWN: u8 = 1 << 2;
    pub const SOFTIRQ: u8 = 1 << 3;
    pub const RUNG: u8 = 1 << 4;
    pub const ELIDED: u8 = 1 << 5;
}

/// How the driver announced a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Announcement {
    /// By a write to the doorbell register: in a virtual machine usually an exit.
    Rung,
    /// By the shadow doorbell only: the device had asked for no write (its event index).
    Elided,
}

impl Announcement {
    /// The name in JSON and in exports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rung => "rung",
            Self::Elided => "elided",
        }
    }
}

/// What was observed beside the points of a command. `None`: not observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Conditions(u8);

impl Conditions {
    /// From the bits of an event or a recording.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether anything was observed.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    const fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Whether the CPU of the interrupt was idle before it (the interrupted task is the idle task).
    pub fn cpu_idle(self) -> Option<bool> {
        self.has(bit::IRQ).then(|| self.has(bit::IDLE))
    }

    /// Whether the interrupt interrupted a soft interrupt, or the command was reaped in one.
    pub fn in_softirq(self) -> Option<bool> {
        self.has(bit::SOFTIRQ_KNOWN).then(|| self.has(bit::SOFTIRQ))
    }

    /// How the command was announced. `None` also where the event index moved meanwhile.
    pub fn announcement(self) -> Option<Announcement> {
        match (self.has(bit::RUNG), self.has(bit::ELIDED)) {
            (true, false) => Some(Announcement::Rung),
            (false, true) => Some(Announcement::Elided),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_observed_is_none() {
        let none = Conditions::default();
        assert_eq!(none.cpu_idle(), None);
        assert_eq!(none.in_softirq(), None);
        assert_eq!(none.announcement(), None);
        let idle = Conditions::from_bits(bit::IRQ | bit::IDLE | bit::SOFTIRQ_KNOWN | bit::RUNG);
        assert_eq!(idle.cpu_idle(), Some(true));
        assert_eq!(idle.in_softirq(), Some(false));
        assert_eq!(idle.announcement(), Some(Announcement::Rung));
        let both = Conditions::from_bits(bit::RUNG | bit::ELIDED);
        assert_eq!(both.announcement(), None);
    }
}
