// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures: areas and texts on a [`Canvas`], which is written as SVG or as PNG. A view draws once,
//! and does not depend on the format.

pub use self::axis::{Axis, Tick, short, times};
pub use self::png::Png;
pub use self::svg::{Svg, escape, style};
use colorous::VIRIDIS;

mod axis;
mod png;
mod svg;

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
    /// The start.
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

/// Number of levels.
pub const LEVELS: u8 = 16;

/// What a colour is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// The page.
    Page,
    /// The plot without data.
    Plot,
    /// Lines of the grid.
    Grid,
    /// Frames, and text.
    Ink,
    /// Remarks.
    Dim,
    /// Bars.
    Bar,
    /// Bars of a second kind.
    OtherBar,
    /// A line over cells.
    Line,
    /// A second line over cells.
    OtherLine,
    /// A level, 0 to [`LEVELS`] - 1.
    Level(u8),
}

impl Paint {
    /// All colours; the index of each is [`Paint::index`].
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let fixed = [Self::Page, Self::Plot, Self::Grid, Self::Ink, Self::Dim];
        let marks = [Self::Bar, Self::OtherBar, Self::Line, Self::OtherLine];
        fixed.into_iter().chain(marks).chain((0..LEVELS).map(Self::Level))
    }

    pub(crate) const fn index(self) -> u8 {
        match self {
            Self::Page => 0,
            Self::Plot => 1,
            Self::Grid => 2,
            Self::Ink => 3,
            Self::Dim => 4,
            Self::Bar => 5,
            Self::OtherBar => 6,
            Self::Line => 7,
            Self::OtherLine => 8,
            Self::Level(n) => 9 + n,
        }
    }

    /// Red, green, blue.
    pub(crate) fn rgb(self, dark: bool) -> [u8; 3] {
        let either = |on_light, on_dark| if dark { on_dark } else { on_light };
        match self {
            Self::Page => either([255; 3], [13, 17, 23]),
            Self::Plot => either([246, 247, 249], [22, 27, 34]),
            Self::Grid => either([222, 225, 230], [48, 54, 61]),
            Self::Ink => either([31, 35, 40], [230, 237, 243]),
            Self::Dim => either([89, 99, 110], [145, 152, 161]),
            Self::Bar => either([49, 104, 142], [53, 183, 121]),
            Self::OtherBar => either([191, 135, 0], [253, 231, 37]),
            Self::Line => either([227, 26, 28], [251, 106, 74]),
            Self::OtherLine => either([255, 127, 0], [255, 255, 255]),
            Self::Level(n) => {
                let part = 0.75 * f64::from(n) / f64::from(LEVELS - 1);
                let at = if dark { 0.25 + part } else { 0.75 - part };
                VIRIDIS.eval_continuous(at).as_array()
            }
        }
    }
}

/// The colour of a level on a dark page: red, green, blue.
pub fn level_rgb(level: u8) -> [u8; 3] {
    Paint::Level(level).rgb(true)
}

/// The level of a count up to `most`: logarithmic, so that one command can be
/// seen beside thousands.
pub fn level(count: u64, most: u64) -> u8 {
    let last = LEVELS - 1;
    (0..last).rev().find(|&n| count >= level_counts(n + 1, most).0).map_or(0, |n| n + 1)
}

/// The counts of a level, first and last; empty (first above last) if no count has it.
pub fn level_counts(level: u8, most: u64) -> (u64, u64) {
    let first = |n: u8| {
        let share = f64::from(n) / f64::from(LEVELS - 1);
        // the largest count alone has the last level
        if n >= LEVELS - 1 { most } else { (most as f64).powf(share).ceil() as u64 }
    };
    let end = if level >= LEVELS - 1 { most } else { first(level + 1).saturating_sub(1) };
    (first(level), end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_the_counts_that_its_legend_says() {
        for most in [1, 2, 7, 16, 1000, 123_456_789] {
            assert_eq!(level(most, most), LEVELS - 1);
            for count in [1, 2, 3, 7, 15, 999, 1_234_567].into_iter().filter(|c| *c <= most) {
                let (first, last) = level_counts(level(count, most), most);
                assert!((first..=last).contains(&count), "{count} of {most}");
            }
        }
        assert_eq!(level(1, 1000), 0);
    }
}
