// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--svg` and `--png`: the file of a picture.

use std::path::PathBuf;

use crate::view::picture::Scheme;

/// The file of a picture.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct PictureArgs {
    /// Write an SVG file; `-`: to stdout
    ///
    /// A pointer on a cell shows its numbers.
    #[arg(long, value_name = "OUT")]
    pub svg: Option<PathBuf>,

    /// Write a PNG file; `-`: to stdout
    #[arg(long, value_name = "OUT")]
    pub png: Option<PathBuf>,
}

/// Formats of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// SVG.
    Svg,
    /// PNG.
    Png,
}

/// The file of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFile {
    /// Its path.
    pub path: PathBuf,
    /// Its format.
    pub format: PictureFormat,
    /// Replace it if it exists.
    pub force: bool,
    /// Its colours.
    pub scheme: Scheme,
}
