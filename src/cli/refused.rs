// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command line that clap refuses, or that asks for --help or --version.

use std::error::Error as _;
use std::ffi::OsString;
use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Error as ClapError, Parser};

use crate::cli::Args;
use crate::error::Kind;
use crate::model::text::clean;
use crate::run::exit;
use crate::run::stdout::{error_of_stdout, flush};

/// Prints an error of clap, or what --help and --version ask for: to clap these are errors, too.
pub(crate) fn explain(refused: &ClapError, words: &[OsString]) -> ExitCode {
    if refused.use_stderr() {
        refuse(refused, words);
        return exit::code(Kind::Usage);
    }
    let printed = refused.print().map_err(|error| error_of_stdout(&error));
    exit::end(printed.and_then(|()| flush()).map_err(Into::into))
}

/// Prints an error of clap. It quotes words of the command line: what a terminal interprets is escaped.
fn refuse(refused: &ClapError, words: &[OsString]) {
    let sentence = wrong_value(refused).or_else(|| conflict(refused, words));
    if let Some(text) = sentence.or_else(|| missing(refused)) {
        let _ = writeln!(stderr(), "nvme-deep: {}", clean(&text));
        return;
    }
    let shown: Vec<_> =
        words.iter().map(|word| OsString::from(&*clean(&word.to_string_lossy()))).collect();
    // a closed stderr is not an error
    let _ = if shown == words {
        refused.print()
    } else {
        match Args::try_parse_from(&shown) {
            Err(same) if same.kind() == refused.kind() => same.print(),
            _ => writeln!(stderr(), "nvme-deep: {}", clean(&refused.to_string())),
        }
    };
}

/// A wrong value of an option as one sentence, like every other error; `None`: the error is another one.
fn wrong_value(refused: &ClapError) -> Option<String> {
    let text = |kind| match refused.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let why = match refused.source() {
        Some(why) => why.to_string(),
        None => choices(refused)?,
    };
    // `--opcode <OPCODE>`, `--stages[=<SET>]`, `[INTERVAL]`
    let name = text(ContextKind::InvalidArg)?.split([' ', '=']).next()?;
    let name = name.trim_matches(['<', '>', '[', ']', '.']);
    let value = text(ContextKind::InvalidValue).filter(|value| !value.is_empty())?;
    Some(format!("{name} {value}: {why}"))
}

/// Options that exclude each other, as one sentence. Where a group excludes an option, clap lists the whole
/// group; only options that were typed are named here.
fn conflict(refused: &ClapError, words: &[OsString]) -> Option<String> {
    if refused.kind() != ErrorKind::ArgumentConflict {
        return None;
    }
    let texts = |kind| match refused.get(kind) {
        Some(ContextValue::String(text)) => vec![text.as_str()],
        Some(ContextValue::Strings(all)) => all.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let mut typed = words.iter().filter_map(|word| word.to_str()).map(flag);
    let mut others = texts(ContextKind::PriorArg);
    others.iter_mut().for_each(|other| *other = flag(other));
    others.retain(|other| typed.clone().any(|word| word == *other));
    let option = flag(texts(ContextKind::InvalidArg).first()?);
    let is_typed = typed.any(|word| word == option) && !others.is_empty();
    is_typed.then(|| format!("{option} cannot be used with {}", others.join(", ")))
}

/// What is missing, as one sentence with the whole command line.
fn missing(refused: &ClapError) -> Option<String> {
    if refused.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let Some(ContextValue::Strings(names)) = refused.get(ContextKind::InvalidArg) else {
        return None;
    };
    let Some(ContextValue::StyledStr(usage)) = refused.get(ContextKind::Usage) else {
        return None;
    };
    let usage = usage.to_string();
    let usage = usage.trim().strip_prefix("Usage: ")?;
    Some(format!("give {}: `{usage}`", names.join(" and ")))
}

/// An option without its value: `--stages[=<SET>]`, `--stages=fine`.
fn flag(text: &str) -> &str {
    text.split([' ', '=', '[']).next().unwrap_or(text)
}

/// The values that an option takes, if these are a list: clap names them, but in more than a sentence.
fn choices(refused: &ClapError) -> Option<String> {
    let Some(ContextValue::Strings(values)) = refused.get(ContextKind::ValidValue) else {
        return None;
    };
    let (last, others) = values.split_last()?;
    Some(match others {
        [] => format!("give {last}"),
        _ => format!("give {} or {last}", others.join(", ")),
    })
}
