// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each format must keep to besides: JSON parses and has the true texts, XML is well formed, CSV
//! has its columns and no formulas, the binary formats can be read.

use std::collections::BTreeMap;
use std::io::Cursor;

use hdrhistogram::serialization::interval_log::IntervalLogIterator;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use roxmltree::{Document, ParsingOptions};
use serde_json::Value;

use super::judge::{Findings, evidence};
use super::plant::{Planted, marks};
use super::strings::is_forbidden;

/// Checks that a value with a mark has the text of that mark.
fn value(view: &str, text: &str, planted: &[Planted], findings: &mut Findings) {
    for planted in marks(text).into_iter().filter_map(|n| planted.get(n)) {
        let forms = forms(&planted.text);
        let is_short = forms[2].chars().count() <= LIMIT;
        if is_short && !forms.iter().any(|form| text.contains(form)) {
            let evidence = format!(
                "`{}` for `{}` of {}",
                text.escape_debug(),
                planted.text.escape_ascii(),
                planted.place
            );
            findings.add(view, "another value", evidence);
        }
    }
}

/// The columns of an escaped text, before it is cut.
const LIMIT: usize = 512;

/// The forms that a text may have in a value: the text, escaped as on a terminal, as one word, and as a
/// label of a metric, whose format has escapes for backslashes and line feeds.
fn forms(bytes: &[u8]) -> [String; 4] {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let word = escaped(bytes, " ;,", "");
    [text, escaped(bytes, "", ""), word, escaped(bytes, "\r\t\0", "\\\n")]
}

/// The text with escapes, `also` those of some characters by number, but not of those of `keep`.
fn escaped(bytes: &[u8], also: &str, keep: &str) -> String {
    let mut all = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                c if keep.contains(c) => all.push(c),
                '\\' | '\n' | '\r' | '\t' | '\0' if !also.contains(c) => {
                    all.extend(c.escape_debug())
                }
                ' '..='~' if !also.contains(c) => all.push(c),
                c if !c.is_ascii() && c.escape_debug().len() == 1 => all.push(c),
                c => all.extend(c.escape_unicode()),
            }
        }
        let invalid = chunk.invalid().iter();
        invalid.for_each(|byte| all += &format!("\\x{byte:02x}"));
    }
    all
}

fn strings<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(all) => all.iter().for_each(|one| strings(one, found)),
        Value::Object(all) => {
            found.extend(all.keys().map(String::as_str));
            all.values().for_each(|one| strings(one, found));
        }
        _ => {}
    }
}

/// An object per line.
pub fn json(view: &str, text: &str, planted: &[Planted], findings: &mut Findings) -> Vec<Value> {
    let mut all = vec![];
    for line in text.lines() {
        match serde_json::from_str::<Value>(line) {
            Ok(object) if object["type"].is_string() => {
                let mut found = vec![];
                strings(&object, &mut found);
                for text in found {
                    value(view, text, planted, findings);
                }
                all.push(object);
            }
            Ok(_) => findings.add(view, "JSON without a type", line.escape_debug().to_string()),
            Err(error) => {
                let at = line.char_indices().nth(error.column()).map_or(0, |c| c.0);
                let evidence = format!("{error}: {}", evidence(line, at, planted));
                findings.add(view, "not JSON", evidence);
            }
        }
    }
    all
}

/// Number of elements by name and attributes.
fn elements(document: &Document<'_>) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let attributes = node.attributes().map(|a| a.name());
        let name = node.tag_name().name();
        let shape = [name].into_iter().chain(attributes).collect::<Vec<_>>();
        *all.entry(shape.join(" ")).or_default() += 1;
    }
    all
}

fn xml(text: &str) -> Result<Document<'_>, roxmltree::Error> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(text, options)
}

/// A picture with the elements of the harmless one.
pub fn svg(
    view: &str,
    text: &str,
    harmless: Option<&str>,
    planted: &[Planted],
    findings: &mut Findings,
) {
    let document = match xml(text) {
        Ok(document) => document,
        Err(error) => {
            let row = text.lines().nth(error.pos().row as usize - 1).unwrap_or("");
            let column = row.char_indices().nth(error.pos().col as usize - 1);
            let evidence = evidence(row, column.map_or(0, |c| c.0), planted);
            return findings.add(view, "not well-formed XML", format!("{error}: {evidence}"));
        }
    };
    if let Some(harmless) = harmless {
        let harmless = xml(harmless).unwrap();
        let (found, want) = (elements(&document), elements(&harmless));
        if found != want {
            findings.add(view, "other elements", format!("{found:?} for {want:?}"));
        }
    }
}

/// What begins a formula, also in its wide forms.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Rows with the columns of the header, and no formulas.
pub fn csv(view: &str, text: &str, planted: &[Planted], findings: &mut Findings) -> String {
    let mut rows = 0;
    let mut reader = csv::ReaderBuilder::new();
    for row in reader.has_headers(false).from_reader(text.as_bytes()).records() {
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                findings.add(view, "not CSV", error.to_string());
                break;
            }
        };
        rows += 1;
        for cell in &row {
            let begins = cell.trim_start().starts_with(FORMULA) || cell.starts_with(['\t', '\r']);
            if begins && cell.parse::<f64>().is_err() {
                findings.add(view, "a formula", evidence(cell, 0, planted));
            }
        }
    }
    format!("{rows} rows")
}

/// A table. Returns the number of rows.
pub fn parquet(view: &str, bytes: &[u8], planted: &[Planted], findings: &mut Findings) -> String {
    let bytes = bytes::Bytes::copy_from_slice(bytes);
    let reader = SerializedFileReader::new(bytes).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let mut count = 0;
    for row in rows {
        count += 1;
        let row = match row {
            Ok(row) => row,
            Err(error) => {
                findings.add(view, "not Parquet", error.to_string());
                break;
            }
        };
        for (_, field) in row.get_column_iter() {
            if let Field::Str(text) = field {
                leaf(view, text, planted, findings);
            }
        }
    }
    format!("{count} entries")
}

/// Checks the text of a field. Lines are those of the view: the frames of a stack.
fn leaf(view: &str, text: &str, planted: &[Planted], findings: &mut Findings) {
    value(view, text, planted, findings);
    let forged = text.find("\nFORGED");
    if let Some(at) = text.find(is_forbidden).or(forged) {
        findings.add(view, "raw text in a field", evidence(text, at, planted));
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let len = bytes.iter().take(10).position(|b| b & 0x80 == 0)? + 1;
    let digits = bytes[..len].iter().rev();
    let value = digits.fold(0_u64, |n, b| n << 7 | u64::from(b & 0x7f));
    Some((value, &bytes[len..]))
}

/// The fields of a protobuf message with their numbers; `None` if it is none.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut fields = vec![];
    while !bytes.is_empty() {
        let (key, rest) = varint(bytes)?;
        let (content, rest) = match key & 7 {
            0 => (&rest[..0], varint(rest)?.1),
            1 => rest.split_at_checked(8)?,
            2 => {
                let (len, rest) = varint(rest)?;
                rest.split_at_checked(usize::try_from(len).ok()?)?
            }
            5 => rest.split_at_checked(4)?,
            _ => return None,
        };
        bytes = rest;
        fields.push((key >> 3, content));
    }
    Some(fields)
}

/// The texts of a packet: of a descriptor of a track (60), of interned data (12), of an event (11).
fn texts(packet: &[u8]) -> Vec<&[u8]> {
    let (mut texts, fields) = (vec![], |message| fields(message).unwrap_or_default());
    for (number, part) in fields(packet) {
        for (inner, content) in fields(part) {
            match (number, inner) {
                (60, 2) => texts.push(content),
                (11 | 12, _) => texts.extend(fields(content).into_iter().map(|field| field.1)),
                _ => {}
            }
        }
    }
    texts.retain(|text| text.windows(2).any(|w| w == b"Zq"));
    texts
}

/// A trace of packets. Returns their number.
pub fn perfetto(view: &str, bytes: &[u8], planted: &[Planted], findings: &mut Findings) -> String {
    let packets = fields(bytes).unwrap_or_default();
    if packets.is_empty() {
        findings.add(view, "no packets", format!("{} bytes", bytes.len()));
    }
    let mut lines = 0;
    for text in packets.iter().flat_map(|(_, packet)| texts(packet)) {
        lines += text.iter().filter(|byte| **byte == b'\n').count();
        match str::from_utf8(text) {
            Ok(text) => leaf(view, text, planted, findings),
            Err(_) => findings.add(view, "not UTF-8", text.escape_ascii().to_string()),
        }
    }
    format!("{} packets, {lines} lines", packets.len())
}

/// A log of histograms. Returns the number of lines.
pub fn hlog(view: &str, text: &str, findings: &mut Findings) -> String {
    let entries = IntervalLogIterator::new(text.as_bytes());
    let mut count = 0;
    for entry in entries {
        count += 1;
        if let Err(error) = entry {
            findings.add(view, "not a histogram log", format!("entry {count}: {error:?}"));
            break;
        }
    }
    format!("{count} entries")
}

/// Stacks for flame graph tools: frames between semicolons, a blank, a number. Returns the number of
/// frames.
pub fn folded(view: &str, text: &str, findings: &mut Findings) -> String {
    for line in text.lines() {
        let weight = line.rsplit_once(' ').map(|(_, weight)| weight.parse::<u64>());
        if !matches!(weight, Some(Ok(_))) {
            findings.add(view, "no weight", line.escape_debug().to_string());
        }
    }
    format!("{} semicolons", text.matches(';').count())
}

/// A picture of pixels. Returns its size.
pub fn png(view: &str, bytes: &[u8], findings: &mut Findings) -> String {
    let decoder = png::Decoder::new(Cursor::new(bytes));
    let read = decoder.read_info().and_then(|mut reader| {
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels)
    });
    match read {
        Ok(frame) => format!("{} x {}", frame.width, frame.height),
        Err(error) => {
            findings.add(view, "not PNG", error.to_string());
            String::new()
        }
    }
}

/// The types of objects, in their order.
pub fn types(objects: &[Value]) -> String {
    let types = objects.iter().map(|o| o["type"].as_str().unwrap_or("?"));
    types.collect::<Vec<&str>>().join(" ")
}

/// Checks that texts in advice are quoted for a shell.
pub fn advice(view: &str, value: &Value, planted: &[Planted], findings: &mut Findings) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| advice(view, one, planted, findings)),
        Value::Object(all) => {
            for (key, one) in all {
                match one.as_str().filter(|_| key == "advice") {
                    Some(text) if !is_quoted(text) => {
                        findings.add(view, "advice", evidence(text, 0, planted));
                    }
                    _ => advice(view, one, planted, findings),
                }
            }
        }
        _ => {}
    }
}

/// Whether all marks are between quotation marks of a shell.
fn is_quoted(advice: &str) -> bool {
    let (mut inside, mut chars) = (false, advice.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => inside = !inside,
            '\\' if !inside => drop(chars.next()),
            'Z' if !inside && advice[at..].starts_with("Zq") => return false,
            _ => {}
        }
    }
    true
}

/// Samples for Prometheus: a name, labels in quotation marks, and a value, in a line each.
pub fn metrics(view: &str, text: &str, planted: &[Planted], findings: &mut Findings) -> String {
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let labels = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once("} "));
        let Some((labels, _)) = labels.filter(|(_, number)| number.parse::<f64>().is_ok()) else {
            findings.add(view, "no sample", line.escape_debug().to_string());
            continue;
        };
        let (mut inside, mut text, mut chars) = (false, String::new(), labels.chars());
        while let Some(c) = chars.next() {
            match c {
                '"' => inside = !inside,
                '\\' => text.push(match chars.next() {
                    Some('n') => '\n',
                    c => c.unwrap_or('\\'),
                }),
                c if inside => text.push(c),
                ',' => text.push('\n'),
                _ => {}
            }
        }
        if inside {
            findings.add(view, "an open label", line.escape_debug().to_string());
        }
        value(view, &text, planted, findings);
    }
    format!("{} lines", text.lines().count())
}
