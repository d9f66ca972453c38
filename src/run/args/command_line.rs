// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of the command line before clap reads them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Options whose value is optional, and a word. Clap takes such a value after `=` only, because an
/// INTERVAL may follow the option.
const OPTIONAL: [&str; 2] = ["--stages", "--kstack"];

/// Joins `--stages fine` to `--stages=fine`: an INTERVAL begins with a digit, and no other argument
/// of these commands with a letter. What follows `--` is a program's.
pub fn joined(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut all: Vec<OsString> = Vec::new();
    let mut words = words.peekable();
    while let Some(mut word) = words.next() {
        if word == "--" {
            all.push(word);
            break;
        }
        let is_value =
            |next: &OsString| next.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
        if OPTIONAL.iter().any(|option| word == *option)
            && let Some(value) = words.next_if(is_value)
        {
            word.push(OsStr::new("="));
            word.push(value);
        }
        all.push(word);
    }
    all.extend(words);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(words: &str) -> String {
        let words = joined(words.split(' ').map(OsString::from));
        let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
        words.join(" ")
    }

    #[test]
    fn a_word_after_an_option_is_its_value_and_a_number_is_not() {
        for (typed, read) in [
            ("latency --stages fine 1", "latency --stages=fine 1"),
            ("latency --stages 1 3", "latency --stages 1 3"),
            ("latency --stages .5", "latency --stages .5"),
            ("trace --kstack complete -n 1", "trace --kstack=complete -n 1"),
            ("trace --kstack --stages fine", "trace --kstack --stages=fine"),
            ("latency --stages=fine", "latency --stages=fine"),
            ("latency --from a --stages", "latency --from a --stages"),
            ("latency --exec -- perf --stages fine", "latency --exec -- perf --stages fine"),
        ] {
            assert_eq!(text(typed), read);
        }
    }
}
