// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a picture: created before the run, written after it.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::units::size_text;
use crate::view::picture::{Canvas, Png, Svg};
use anyhow::Result;

use crate::run::eprint_note;
use crate::run::outfile::{OutFile, Rules};

/// A picture that will be written. Without [`Picture::write`] there is no file.
pub struct Picture {
    out: OutFile,
    file: File,
    is_png: bool,
}

impl Picture {
    /// Creates the file: a run must not fail at its end because of the path. One that ends in `.png` is a
    /// PNG, any other an SVG. `inputs` are read while it is written.
    ///
    /// # Errors
    /// If it exists, is an input, or cannot be created; one sentence.
    pub fn create(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<Self> {
        let is_png = path.extension().is_some_and(|ending| ending == "png");
        let rules = Rules { force, inputs, is_binary: is_png, ..Rules::default() };
        let (out, file) = OutFile::create(path, &rules)?;
        Ok(Self { out, file, is_png })
    }

    /// Whether stdout gets it.
    pub fn is_stdout(&self) -> bool {
        self.out.is_stdout()
    }

    /// Draws the picture and keeps the file. `name` is for readers who do not see it; `what` is said
    /// on stderr.
    ///
    /// # Errors
    /// If it cannot be written; one sentence.
    pub fn write(
        mut self,
        size: (u32, u32),
        name: &str,
        what: &str,
        draw: impl FnOnce(&mut dyn Canvas),
    ) -> Result<()> {
        let mut canvas: Box<dyn Canvas> = match self.is_png {
            true => Box::new(Png::new(size)),
            false => Box::new(Svg::new(size, name)),
        };
        draw(&mut *canvas);
        let bytes = canvas.finish();
        let written = bytes.and_then(|bytes| self.file.write_all(&bytes));
        written.map_err(|error| self.out.failed(error))?;
        let path = self.out.name();
        let size = self.out.keep()?.map(size_text);
        let size = size.map_or_else(String::new, |size| format!(", {size}"));
        eprint_note(&format!("{path}: {what}{size}"));
        Ok(())
    }
}
