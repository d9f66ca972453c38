// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of a picture: created before the run, written after it.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use crate::units::size_text;
use crate::view::picture::{Canvas, Png, Svg};
use anyhow::Result;

use crate::run::args::common::{PictureFile, PictureFormat};
use crate::run::eprint_note;
use crate::run::outfile::{OutFile, Rules};

/// A picture that will be written. Without [`Picture::write`] there is no file.
pub struct Picture {
    out: OutFile,
    file: File,
    settings: PictureFile,
}

impl Picture {
    /// Creates the file: a run must not fail at its end because of the path. `inputs` are read while
    /// it is written.
    ///
    /// # Errors
    /// If it exists, is an input, or cannot be created; one sentence.
    pub fn create(settings: &PictureFile, inputs: &[PathBuf]) -> Result<Self> {
        let rules = Rules {
            force: settings.force,
            inputs,
            is_binary: settings.format == PictureFormat::Png,
            ..Rules::default()
        };
        let (out, file) = OutFile::create(&settings.path, &rules)?;
        Ok(Self { out, file, settings: settings.clone() })
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
        let PictureFile { format, scheme, .. } = self.settings;
        let mut canvas: Box<dyn Canvas> = match format {
            PictureFormat::Svg => Box::new(Svg::new(size, name, scheme)),
            PictureFormat::Png => Box::new(Png::new(size, scheme)),
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
