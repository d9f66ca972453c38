// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures as PNG, twice as large as the coordinates, for dense screens. Notes are left out.

use std::convert::Infallible;
use std::io;

use embedded_graphics::draw_target::DrawTarget;
use embedded_graphics::geometry::{Dimensions, Point, Size};
use embedded_graphics::mono_font::ascii::{FONT_9X18_BOLD, FONT_10X20};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::BinaryColor;
use embedded_graphics::primitives::Rectangle;
use embedded_graphics::text::{Alignment, Text};
use embedded_graphics::{Drawable as _, Pixel};

use super::{Anchor, Area, Canvas, Paint, TextStyle};

/// Pixels for each pixel of the coordinates.
const SCALE: u32 = 2;

/// A PNG file.
#[derive(Debug)]
pub struct Png {
    width: u32,
    height: u32,
    /// A byte per pixel: [`Paint::index`].
    pixels: Vec<u8>,
}

/// Draws with one colour.
struct Pen<'p> {
    png: &'p mut Png,
    paint: Paint,
    /// Factor of the size of a font.
    zoom: i32,
    origin: Point,
}

impl Dimensions for Pen<'_> {
    fn bounding_box(&self) -> Rectangle {
        Rectangle::new(Point::zero(), Size::new(self.png.width, self.png.height))
    }
}

impl DrawTarget for Pen<'_> {
    type Color = BinaryColor;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<BinaryColor>>>(
        &mut self,
        pixels: I,
    ) -> Result<(), Infallible> {
        for Pixel(at, _) in pixels {
            let at = (at - self.origin) * self.zoom + self.origin;
            for x in at.x..at.x + self.zoom {
                for y in at.y..at.y + self.zoom {
                    self.png.set(x, y, self.paint);
                }
            }
        }
        Ok(())
    }
}

impl Png {
    /// An empty picture of this size in pixels of the coordinates.
    pub fn new((width, height): (u32, u32)) -> Self {
        let (width, height) = (width * SCALE, height * SCALE);
        Self { width, height, pixels: vec![Paint::Page.index(); width as usize * height as usize] }
    }

    fn set(&mut self, x: i32, y: i32, paint: Paint) {
        let inside = |n: i32, end: u32| u32::try_from(n).ok().filter(|n| *n < end);
        if let Some((x, y)) = inside(x, self.width).zip(inside(y, self.height)) {
            let at = y as usize * self.width as usize + x as usize;
            self.pixels[at] = paint.index();
        }
    }
}

/// The pixel of a coordinate.
fn pixel(at: f64) -> i32 {
    (at * f64::from(SCALE)).round() as i32
}

impl Canvas for Png {
    fn area(&mut self, area: Area, paint: Paint, _: Option<&str>) {
        let columns = pixel(area.x)..pixel(area.x + area.width);
        for y in pixel(area.y)..pixel(area.y + area.height) {
            columns.clone().for_each(|x| self.set(x, y, paint));
        }
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, styled: TextStyle, text: &str) {
        let (font, paint, zoom): (&MonoFont<'_>, _, _) = match styled {
            TextStyle::Title => (&FONT_9X18_BOLD, Paint::Ink, 2),
            TextStyle::Label => (&FONT_10X20, Paint::Ink, 1),
            TextStyle::Dim => (&FONT_10X20, Paint::Dim, 1),
        };
        let alignment = match anchor {
            Anchor::Start => Alignment::Left,
            Anchor::Middle => Alignment::Center,
            Anchor::End => Alignment::Right,
        };
        let style = MonoTextStyle::new(font, BinaryColor::On);
        let origin = Point::new(pixel(x), pixel(y));
        let mut pen = Pen { png: self, paint, zoom, origin };
        // the error type has no values
        let _ = Text::with_alignment(text, origin, style, alignment).draw(&mut pen);
    }

    fn finish(self: Box<Self>) -> io::Result<Vec<u8>> {
        let palette: Vec<u8> = Paint::all().flat_map(|p| p.rgb(false)).collect();
        let mut file = Vec::new();
        let mut encoder = ::png::Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(::png::ColorType::Indexed);
        encoder.set_depth(::png::BitDepth::Eight);
        encoder.set_palette(palette);
        let mut writer = encoder.write_header().map_err(io::Error::other)?;
        writer.write_image_data(&self.pixels).map_err(io::Error::other)?;
        writer.finish().map_err(io::Error::other)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_was_drawn() {
        let mut png = Box::new(Png::new((40, 20)));
        let area = Area { x: 30.0, y: 10.0, width: 50.0, height: 2.0 };
        png.area(area, Paint::Bar, None);
        png.text((0.0, 9.0), Anchor::Start, TextStyle::Label, "I");
        let file = png.finish().unwrap();
        let mut decoder = ::png::Decoder::new(io::Cursor::new(file));
        decoder.set_transformations(::png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (80, 40));
        let rgb = pixels.chunks(3).collect::<Vec<_>>();
        let count = |paint: Paint| rgb.iter().filter(|p| **p == paint.rgb(false)).count();
        // cut at the right end
        assert_eq!(count(Paint::Bar), 20 * 4);
        assert_eq!(rgb[20 * 80 + 60], Paint::Bar.rgb(false));
        let ink = count(Paint::Ink);
        assert!((10..100).contains(&ink), "{ink}");
        assert_eq!(count(Paint::Page) + ink + 80, 80 * 40);
    }
}
