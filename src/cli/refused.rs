// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command line that clap refuses, or that asks for --help or --version.

use std::error::Error as _;
use std::ffi::OsString;
use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Error as ClapError, Parser};

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
    let sentence = not_read(refused, words)
        .or_else(|| wrong_value(refused, words))
        .or_else(|| conflict(refused, words))
        .or_else(|| missing(refused))
        .or_else(|| unknown(refused, words))
        .or_else(|| needless_value(refused));
    if let Some(text) = sentence {
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

/// The text of a context.
fn text(refused: &ClapError, kind: ContextKind) -> Option<&str> {
    match refused.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// A recording for a command that reads none.
fn not_read(refused: &ClapError, words: &[OsString]) -> Option<String> {
    let word = match refused.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => ContextKind::InvalidValue,
    };
    let word = text(refused, word).filter(|word| word.ends_with(".nvd"))?;
    let command = words.get(1)?.to_str()?;
    let looks_at = match command {
        "inflight" | "record" | "serve" | "doctor" => {
            "looks at this machine, and reads no recording"
        }
        _ => return None,
    };
    Some(format!("{word}: `{command}` {looks_at}: `nvme-deep info {word}` shows which commands do"))
}

/// A value of an option that takes none, as one sentence.
fn needless_value(refused: &ClapError) -> Option<String> {
    let is_it = refused.kind() == ErrorKind::TooManyValues;
    let option = flag(text(refused, ContextKind::InvalidArg).filter(|_| is_it)?);
    Some(format!("{option} takes no value"))
}

/// What to write if a word is the program of --exec.
fn after_dashes(word: &str, words: &[OsString]) -> Option<String> {
    let has = |typed: &str| words.iter().any(|word| word == typed);
    (has("--exec") && !has("--") && !word.starts_with('-'))
        .then(|| format!("write the command after two dashes: --exec -- {word}"))
}

/// A wrong value of an option as one sentence, like every other error; `None`: the error is another one.
fn wrong_value(refused: &ClapError, words: &[OsString]) -> Option<String> {
    let text = |kind| text(refused, kind);
    let why = refused.source().map(ToString::to_string).or_else(|| choices(refused));
    // `--opcode <OPCODE>`, `--stages[=<SET>]`, `[INTERVAL]`
    let name = text(ContextKind::InvalidArg)?.split([' ', '=']).next()?;
    let name = name.trim_matches(['<', '>', '[', ']', '.']);
    let value = text(ContextKind::InvalidValue)?;
    let after_dashes = after_dashes(value, words).filter(|_| ["INTERVAL", "FILE"].contains(&name));
    if after_dashes.is_some() {
        return after_dashes;
    }
    Some(match value {
        "" => [Some(format!("{name} needs a value")), why]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(": "),
        _ => format!("{name} {value}: {}", why?),
    })
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
    let all = [[option].as_slice(), &others].concat();
    let part = all.contains(&"--from") && all.contains(&"--duration");
    let advice = match () {
        () if part => ": --since and --until read a part of a recording",
        () if option == "--from" && others == ["--from"] => {
            return Some("give one recording".into());
        }
        () if all.contains(&"--from") => ": that is for tracing only, leave it out",
        () => "",
    };
    // a file among the arguments is an option here
    let named = |option: &str| {
        if option == "--" {
            return "-- COMMAND".into();
        }
        let mut files = words.iter().filter_map(|word| word.to_str()?.strip_prefix("--from="));
        let file = files.next().filter(|_| option == "--from");
        file.map_or_else(|| option.to_owned(), |file| format!("{file} (a recording)"))
    };
    let others: Vec<String> = others.into_iter().map(named).collect();
    is_typed.then(|| format!("{} cannot be used with {}{advice}", named(option), others.join(", ")))
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

/// A word that is no option or no command, as one sentence with the next best one.
fn unknown(refused: &ClapError, words: &[OsString]) -> Option<String> {
    let (what, word, similar) = match refused.kind() {
        ErrorKind::UnknownArgument => {
            ("option", ContextKind::InvalidArg, ContextKind::SuggestedArg)
        }
        ErrorKind::InvalidSubcommand => {
            ("command", ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand)
        }
        _ => return None,
    };
    let Some(ContextValue::String(word)) = refused.get(word) else {
        return None;
    };
    let is_negative = |typed: &&str| {
        let digits = typed.strip_prefix('-').filter(|_| typed.starts_with(word.as_str()));
        digits.is_some_and(|digits| digits.starts_with(|first: char| first.is_ascii_digit()))
    };
    if let Some(typed) = words.iter().filter_map(|typed| typed.to_str()).find(is_negative) {
        return Some(format!("`{typed}` is negative: times and numbers must be above zero"));
    }
    if what == "option"
        && let Some(text) = after_dashes(word, words)
    {
        return Some(text);
    }
    if what == "command" && word.ends_with(".nvd") {
        return Some(format!("give a command for {word}, as in `nvme-deep diagnose {word}`"));
    }
    let similar = match refused.get(similar) {
        _ if word == "--no-color" => Some("--color never"),
        Some(ContextValue::String(one)) => Some(one.as_str()),
        Some(ContextValue::Strings(all)) => {
            all.iter().map(String::as_str).find(|name| *name != "dist")
        }
        _ => None,
    };
    let what = match word.starts_with('-') || what == "command" {
        true => format!("there is no {what} `{word}`"),
        false => format!("unexpected argument `{word}`"),
    };
    let advice = similar.map(|name| format!(": did you mean `{name}`?")).unwrap_or_default();
    let program = Args::command();
    let (mut command, mut path) = (&program, "nvme-deep".to_owned());
    for word in words.iter().skip(1) {
        let Some(inner) = command.find_subcommand(word) else { break };
        path = format!("{path} {}", inner.get_name());
        command = inner;
    }
    let end = if advice.is_empty() { "; " } else { " " };
    Some(format!("{what}{advice}{end}see `{path} -h`"))
}

/// An option without its value: `--stages[=<SET>]`, `--stages=fine`. `--` for the program after it, which is
/// `[COMMAND]...` to clap.
fn flag(text: &str) -> &str {
    text.split([' ', '=', '[']).next().filter(|option| !option.is_empty()).unwrap_or("--")
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
