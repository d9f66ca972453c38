// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of `--from`: opened and checked before any output, shown one after the other.

use std::io::IsTerminal;
use std::io::stdout;
use std::path::PathBuf;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::render::recording::Heading;
use nvme_deep::render::theme::Theme;
use nvme_deep::session::settings::Settings;

use crate::commands::input;
use crate::commands::replay::Replay;
use crate::commands::say;
use crate::commands::standard;
use crate::exit::Failure;

/// How one recording was shown.
pub enum Ended {
    /// With the end of the recording. An error is one of the file.
    File(Result<()>),
    /// The reader of stdout has gone.
    NoReader,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::File(Err(error))
    }
}

/// The form of the output, for headings.
pub struct Form {
    /// JSON lines instead of text.
    pub json: bool,
    /// Colour the text.
    pub color: bool,
    /// In text, the ledger goes to stderr.
    pub ledger_apart: bool,
}

/// Opens all recordings. `require` checks what the command needs besides the settings.
///
/// # Errors
/// If one cannot be read, lacks what is asked for, or is given twice; one sentence.
pub fn open_all(
    paths: &[PathBuf],
    settings: &Settings,
    require: &dyn Fn(&Replay) -> Result<()>,
) -> Result<Vec<Replay>> {
    let mut all: Vec<Replay> = Vec::new();
    for path in paths {
        let replay = Replay::open(path, settings)?;
        require(&replay)?;
        if let Some(same) = all.iter().find(|other| other.file_id() == replay.file_id()) {
            let (path, same) = (replay.path(), same.path());
            let text = if path == same {
                format!("{path} is given twice: give each recording once")
            } else {
                format!("{path} is the same file as {same}: give each recording once")
            };
            return Err(Failure::error(Kind::Usage, text));
        }
        all.push(replay);
    }
    Ok(all)
}

/// Opens a recording again, for another pass over it, with these settings.
///
/// # Errors
/// If it is a pipe: one sentence, with what needs two passes (`option`). As [`Replay::open`].
pub fn again(replay: &Replay, settings: &Settings, option: &str) -> Result<Replay> {
    input::require_file(replay.file(), option)?;
    Replay::open(replay.file(), settings)
}

fn head(replay: &mut Replay, form: &Form) -> Result<Ended> {
    let wall_ns = match replay.first_clock() {
        Ok(wall_ns) => wall_ns,
        Err(error) => return Ok(error.into()),
    };
    let heading = Heading {
        file: replay.path(),
        info: replay.info(),
        wall_ns,
    };
    let mut out = standard::stdout();
    if form.json {
        heading.json(&mut out)?;
    } else {
        heading.text(Theme { color: form.color }, &mut out)?;
        if form.ledger_apart && !stdout().is_terminal() {
            say(&format!("{}:", replay.path()));
        }
    }
    Ok(Ended::File(Ok(())))
}

/// Shows each recording by `show`, with a heading if there are several. Then an error of one file
/// is reported at its end, and the others are shown.
///
/// # Errors
/// Errors of the output. Of one recording: its error; of several: that there were errors.
pub fn show_each(
    replays: Vec<Replay>,
    form: &Form,
    show: &mut dyn FnMut(Replay) -> Result<Ended>,
) -> Result<()> {
    let (all, mut incomplete) = (replays.len(), 0);
    for mut replay in replays {
        let mut ended = Ended::File(Ok(()));
        if all > 1 {
            ended = head(&mut replay, form)?;
        }
        if matches!(ended, Ended::File(Ok(()))) {
            ended = show(replay)?;
        }
        match ended {
            Ended::NoReader => return Ok(()),
            Ended::File(Ok(())) => {}
            Ended::File(Err(error)) if all == 1 => return Err(error),
            Ended::File(Err(error)) => {
                say(&format!("{error:#}"));
                incomplete += 1;
            }
        }
    }
    if incomplete == 0 {
        return Ok(());
    }
    Err(Failure::error(
        Kind::Run,
        format!("{incomplete} of {all} recordings could not be read to the end: see above"),
    ))
}
