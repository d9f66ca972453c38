// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failed and retried commands of a controller.

use crate::nvme::status::{Status, StatusType};

/// Number of status code types (3 bits).
pub const TYPES: usize = 8;

/// Failed and retried commands of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Completed commands with a status other than success, by the number of its status code type.
    pub by_type: [u64; TYPES],
    /// Completed commands that were retries.
    pub retried: u64,
}

impl Failures {
    /// The counts with the status code types that they are of.
    pub fn types(&self) -> impl Iterator<Item = (StatusType, u64)> {
        let kinds = (0_u16..).map(|number| Status(number << 8).kind());
        kinds.zip(self.by_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_with_their_type() {
        let failures = Failures { by_type: [1, 2, 3, 4, 5, 6, 7, 8], retried: 0 };
        let types: Vec<_> = failures.types().collect();
        assert_eq!(types[0], (StatusType::Generic, 1));
        assert_eq!(types[2], (StatusType::Media, 3));
        assert_eq!(types[4], (StatusType::Reserved(4), 5));
        assert_eq!(types[7], (StatusType::Vendor, 8));
        assert_eq!(types.len(), TYPES);
    }
}
