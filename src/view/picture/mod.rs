// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures: areas and texts on a [`Canvas`], which is written as SVG or as PNG. A view draws once,
//! and does not depend on the format.

mod axis;
mod paint;
mod png;
mod svg;

pub use self::axis::{Axis, Tick, short, times};
pub use self::paint::{LEVELS, Paint, level, level_counts, level_rgb};
pub use self::png::Png;
pub use self::svg::{Svg, escape, style};

/// A rectangle, in pixels; `y` grows downwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Left end.
    pub x: f64,
    /// Upper end.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// Which part of a text is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The begin.
    Start,
    /// The middle.
    Middle,
    /// The end.
    End,
}

/// How a text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextStyle {
    /// The title of the picture.
    Title,
    /// Labels.
    Label,
    /// Remarks, names of units.
    Dim,
}

/// Colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Scheme {
    /// SVG: as the viewer prefers; PNG: light
    #[default]
    Auto,
    /// Dark text on a light page
    Light,
    /// Light text on a dark page
    Dark,
}

/// A destination of areas and texts.
pub trait Canvas {
    /// Fills an area. SVG shows the note while the pointer is on it.
    fn area(&mut self, area: Area, paint: Paint, note: Option<&str>);

    /// Writes a line of text. `y` is its base line.
    fn text(&mut self, at: (f64, f64), anchor: Anchor, styled: TextStyle, text: &str);

    /// The finished file.
    ///
    /// # Errors
    /// If it cannot be encoded.
    fn finish(self: Box<Self>) -> std::io::Result<Vec<u8>>;
}
