// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asynchronous events: dword 0 of the completion of an Asynchronous Event Request. The kernel's
//! tracepoint `nvme_async_event` calls it `result` (NVMe base 2.1, section 5.1.2, figures 147 to
//! 154).

use std::fmt;

use super::decode::names::LOG_PAGE;
use super::decode::{Field, Names, Value};

/// An asynchronous event; shown as `notice/ana-change lid=0xc:ana`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AsyncEvent(pub u32);

impl AsyncEvent {
    /// Asynchronous Event Type: bits 2:0.
    #[must_use]
    pub fn kind(self) -> u8 {
        self.0.to_le_bytes()[0] & 7
    }

    /// Asynchronous Event Information: bits 15:8.
    #[must_use]
    pub fn info(self) -> u8 {
        self.0.to_le_bytes()[1]
    }

    /// Log Page Identifier: bits 23:16. The log page with details of the event.
    #[must_use]
    pub fn log_page(self) -> u8 {
        self.0.to_le_bytes()[2]
    }

    /// The name of the type; `reserved` or `vendor-specific` if it has none.
    #[must_use]
    pub fn kind_name(self) -> &'static str {
        KIND.get(self.kind().into())
    }

    /// The name of the event information, which depends on the type.
    #[must_use]
    pub fn info_name(self) -> &'static str {
        let names = match self.kind() {
            0 => &ERROR,
            1 => &HEALTH,
            2 => &NOTICE,
            3 => &IMMEDIATE,
            4 => &ONE_SHOT,
            6 => &IO,
            7 => &VENDOR,
            _ => &NONE,
        };
        names.get(self.info().into())
    }

    /// The name of the log page.
    #[must_use]
    pub fn log_page_name(self) -> &'static str {
        LOG_PAGE.get(self.log_page().into())
    }

    /// `NVME_AEN` (the kernel's name for the dword), `type`, `info` and `lid`.
    #[must_use]
    pub fn fields(self) -> [Field; 4] {
        let field = |key, value| Field { key, value, detail: false };
        let code = |code: u8, name| Value::Code(code.into(), name);
        [
            field("NVME_AEN", Value::Hex(self.0.into())),
            field("type", code(self.kind(), self.kind_name())),
            field("info", code(self.info(), self.info_name())),
            field("lid", Value::HexCode(self.log_page().into(), self.log_page_name())),
        ]
    }
}

impl fmt::Display for AsyncEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [whole, _, info, lid] = self.fields();
        let known = ![self.kind_name(), self.info_name()].contains(&"reserved");
        if known {
            write!(f, "{}/{}", self.kind_name(), self.info_name())?;
        } else {
            write!(f, "{}/{} {}", self.kind_name(), info.value, whole.value)?;
        }
        write!(f, " lid={}", lid.value)
    }
}

static KIND: Names = Names::new(&[
    (0, "error"),
    (1, "health"),
    (2, "notice"),
    (3, "immediate"),
    (4, "one-shot"),
    (6, "io-command-set"),
    (7, "vendor-specific"),
]);

/// Figure 149.
static ERROR: Names = Names::new(&[
    (0x00, "invalid-doorbell-register"),
    (0x01, "invalid-doorbell-value"),
    (0x02, "diagnostic-failure"),
    (0x03, "persistent-internal-error"),
    (0x04, "transient-internal-error"),
    (0x05, "firmware-image-load-error"),
]);

/// Figure 150.
static HEALTH: Names = Names::new(&[
    (0x00, "subsystem-reliability"),
    (0x01, "temperature-threshold"),
    (0x02, "spare-below-threshold"),
]);

/// Figure 151, and EFh: Zoned Namespace command set 1.2.
static NOTICE: Names = Names::new(&[
    (0x00, "attached-namespace-changed"),
    (0x01, "firmware-activation-starting"),
    (0x02, "telemetry-log-changed"),
    (0x03, "ana-change"),
    (0x04, "predictable-latency-event"),
    (0x05, "lba-status-alert"),
    (0x06, "endurance-group-event"),
    (0x07, "reachability-group-change"),
    (0x08, "reachability-association-change"),
    (0x09, "allocated-namespace-changed"),
    (0xef, "zone-descriptor-changed"),
    (0xf0, "discovery-log-changed"),
    (0xf1, "host-discovery-log-changed"),
    (0xf2, "ave-discovery-log-changed"),
    (0xf3, "pull-model-ddc-request-log-changed"),
]);

/// Figure 153.
static IMMEDIATE: Names =
    Names::new(&[(0x00, "normal-shutdown"), (0x01, "temperature-hysteresis-recovery")]);

/// Figure 154.
static ONE_SHOT: Names =
    Names::new(&[(0x00, "controller-data-queue-tail"), (0x01, "controller-data-queue-full")]);

/// Figure 152.
static IO: Names = Names::new(&[
    (0x00, "reservation-log-available"),
    (0x01, "sanitize-completed"),
    (0x02, "sanitize-completed-with-deallocation"),
    (0x03, "sanitize-entered-media-verification"),
]);

static VENDOR: Names = Names::with_vendor(&[], 0..=0xff);

static NONE: Names = Names::new(&[]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_type_information_and_log_page() {
        for (result, shown) in [
            (0x0004_0002, "notice/attached-namespace-changed lid=0x4:changed-attached-namespaces"),
            (0x000c_0302, "notice/ana-change lid=0xc:ana"),
            (0x0070_f002, "notice/discovery-log-changed lid=0x70:discovery"),
            (0x0002_0101, "health/temperature-threshold lid=0x2:smart"),
            (0x0001_0000, "error/invalid-doorbell-register lid=0x1:error"),
            (0x00c1_0507, "vendor-specific/vendor-specific lid=0xc1:vendor-specific"),
            (0x0001_4402, "notice/68:reserved 0x14402 lid=0x1:error"),
            (0x0000_0105, "reserved/1:reserved 0x105 lid=0x0:supported-log-pages"),
        ] {
            assert_eq!(AsyncEvent(result).to_string(), shown);
        }
        let fields = AsyncEvent(0x0002_0101).fields();
        let fields: Vec<_> = fields.iter().map(|f| format!("{}={}", f.key, f.value)).collect();
        let want = ["NVME_AEN=0x20101", "type=1:health", "info=1:temperature-threshold"];
        assert_eq!((&fields[..3], &*fields[3]), (&want.map(str::to_owned)[..], "lid=0x2:smart"));
    }
}
