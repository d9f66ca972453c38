// SPDX-License-Identifier: MIT OR Apache-2.0
//! The heading of each recording where several are shown, one after the other.

use std::io;
use std::io::Write;

use serde::Serialize;

use super::json::{SCHEMA_VERSION, line};
use super::theme::Theme;
use crate::model::text::Text;
use crate::recording::RunInfo;
use crate::when::{RunClock, local_time};

/// What the heading of a recording has.
#[derive(Clone, Copy, Debug)]
pub struct Heading<'a> {
    /// The file.
    pub file: &'a Text,
    /// Its run.
    pub info: &'a RunInfo,
    /// Wall clock minus CLOCK_MONOTONIC at the first event, in nanoseconds, if it is known.
    pub wall_ns: Option<i64>,
}

#[derive(Serialize)]
struct HeadingLine<'a> {
    r#type: &'static str,
    schema_version: u32,
    file: &'a Text,
    host: Option<&'a Text>,
    kernel: Option<&'a Text>,
    arch: &'a Text,
    boot_id: Option<&'a Text>,
    begin_ns: u64,
    begin: Option<String>,
}

impl Heading<'_> {
    /// The begin of the run, in nanoseconds since 1970.
    fn begin(&self) -> Option<i64> {
        let begin = self.info.begin_ns;
        self.wall_ns.map(|offset| begin.wrapping_add_signed(offset).cast_signed())
    }

    /// One line: `==> FILE: host HOST, Linux RELEASE, began TIME <==`. What is not known is left
    /// out.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn text(&self, theme: Theme, out: &mut dyn Write) -> io::Result<()> {
        let RunInfo { host, kernel, .. } = self.info;
        let facts = [
            host.as_ref().map(|host| format!("host {host}")),
            kernel.as_ref().map(|release| format!("Linux {release}")),
            self.begin().map(|ns| {
                let time = local_time(ns, "%Y-%m-%d %H:%M:%S %:z");
                format!("began {time}")
            }),
        ];
        let facts: Vec<String> = facts.into_iter().flatten().collect();
        let colon = if facts.is_empty() { "" } else { ": " };
        let text = format!("==> {}{colon}{} <==", self.file, facts.join(", "));
        writeln!(out, "{}", theme.head(&text))
    }

    /// One object, of type `recording`.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let info = self.info;
        let heading = HeadingLine {
            r#type: "recording",
            schema_version: SCHEMA_VERSION,
            file: self.file,
            host: info.host.as_ref(),
            kernel: info.kernel.as_ref(),
            arch: &info.arch,
            boot_id: info.boot_id.as_ref(),
            begin_ns: info.begin_ns,
            begin: RunClock { begin_ns: info.begin_ns, wall_ns: self.wall_ns }
                .rfc3339(info.begin_ns),
        };
        line(&heading, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> RunInfo {
        RunInfo {
            host: Some("db\u{1b}[1m1".into()),
            kernel: Some("6.12.9".into()),
            begin_ns: 5_000_000_000,
            ..RunInfo::default()
        }
    }

    fn text(info: &RunInfo, wall_ns: Option<i64>) -> String {
        let heading = Heading { file: &"a.nvd".into(), info, wall_ns };
        let mut out = vec![];
        heading.text(Theme { color: false }, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_heading_names_what_is_known() {
        let known = text(&info(), Some(1_700_000_000_000_000_000));
        let known = known.strip_suffix(" <==\n").unwrap();
        let begin = "==> a.nvd: host db\\u{1b}[1m1, Linux 6.12.9, began 2023-11-1";
        assert!(known.starts_with(begin), "{known}");
        assert_eq!(text(&RunInfo::default(), None), "==> a.nvd <==\n");
    }

    #[test]
    fn the_object_has_null_for_what_is_not_known() {
        let (info, file) = (info(), "a.nvd".into());
        let mut heading = Heading { file: &file, info: &info, wall_ns: None };
        let json = |heading: &Heading<'_>| -> serde_json::Value {
            let mut out = vec![];
            heading.json(&mut out).unwrap();
            serde_json::from_slice(&out).unwrap()
        };
        let object = json(&heading);
        assert_eq!(object["type"], "recording");
        assert_eq!(object["host"], r"db\u{1b}[1m1");
        assert!(object["begin"].is_null() && object["boot_id"].is_null());
        heading.wall_ns = Some(0);
        let begin = json(&heading)["begin"].as_str().unwrap().to_owned();
        assert!(begin.contains(":05.000000000"), "{begin}");
    }
}
