// SPDX-License-Identifier: MIT OR Apache-2.0
//! The capacity of a namespace as text.

/// Capacity in decimal units, as on the labels of disks.
pub(super) fn capacity(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes as f64, "B");
    for next in ["kB", "MB", "GB", "TB", "PB"] {
        if value < 1000.0 {
            break;
        }
        value /= 1000.0;
        unit = next;
    }
    if value < 9.95 && unit != "B" {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_decimal() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (1 << 30, "1.1 GB"),
            (960_197_124_096, "960 GB"),
            (3_840_755_982_336, "3.8 TB"),
            (u64::MAX, "18447 PB"),
        ] {
            assert_eq!(capacity(bytes), text);
        }
    }
}
