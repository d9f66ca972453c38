// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that the user names to be read.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::{fs, io};

use crate::error::{Failure, Kind};
use crate::model::filter::quoted;
use crate::model::text::printable;
use anyhow::{Error, Result};

/// Largest text that is read: a whole one is in memory.
const MAX_TEXT: u64 = 1 << 30;

/// What an error of opening a file means. A file of another user says whose it is: `sudo` may have
/// made it.
fn explained(path: &Path, error: &io::Error) -> String {
    let owner = fs::metadata(path).map(|found| found.uid());
    match owner {
        Ok(0) if error.kind() == ErrorKind::PermissionDenied => {
            format!("it belongs to root: sudo chown $USER {}", quoted(&path.to_string_lossy()))
        }
        Ok(uid) if error.kind() == ErrorKind::PermissionDenied => {
            format!("its permissions forbid it, and it belongs to the user with id {uid}")
        }
        _ => error.to_string(),
    }
}

fn unreadable(path: &Path, why: &str) -> Error {
    let text = format!("{} can't be read ({why})", printable(path));
    Failure::error(Kind::Usage, text)
}

/// Opens a file. It may be a pipe.
///
/// # Errors
/// If it cannot be read, or is a directory; one sentence.
pub fn open(path: &Path) -> Result<(File, Metadata)> {
    let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.map_err(|error| unreadable(path, &explained(path, &error)))?;
    if metadata.is_dir() {
        return Err(unreadable(path, "it is a directory: give a file"));
    }
    Ok((file, metadata))
}

/// Refuses a pipe, which can be read only once.
///
/// # Errors
/// If it is one; one sentence, by which `option` needs two passes.
pub fn require_file(path: &Path, option: &str) -> Result<()> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(path, &error.to_string()))?;
    let kind = metadata.file_type();
    // who opens a directory says what it is
    if kind.is_file() || kind.is_block_device() || kind.is_dir() {
        return Ok(());
    }
    let text = format!(
        "{} is a pipe, and {option} reads a recording twice: save it in a file, and give that",
        printable(path)
    );
    Err(Failure::error(Kind::Usage, text))
}

/// Reads a text of at most 1 GiB. Bytes that are not UTF-8 become U+FFFD.
///
/// # Errors
/// If it cannot be read, or is larger; one sentence.
pub fn read_text(path: &Path) -> Result<String> {
    let (file, _) = open(path)?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_TEXT + 1).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(path, &error.to_string()))?;
    if bytes.len() as u64 > MAX_TEXT {
        return Err(unreadable(path, "it is larger than 1 GiB: give a part of it"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
