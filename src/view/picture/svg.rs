// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pictures as SVG. Notes are `title` elements, which browsers show while the pointer is on an area.

use std::fmt::Write;
use std::io;

use super::{Anchor, Area, Canvas, Paint, TextStyle};

/// An SVG file.
#[derive(Debug)]
pub struct Svg {
    text: String,
    /// A page of a million commands has no room for the notes of all cells.
    has_notes: bool,
}

/// Escapes the characters that have a meaning in XML and HTML, also within quoted attributes.
pub fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push_str("&#10;"),
            c => out.push(c),
        }
    }
}

/// A coordinate, without needless digits.
fn number(value: f64, out: &mut String) {
    let begin = out.len();
    let _ = write!(out, "{value:.2}");
    let digits = out[begin..].trim_end_matches('0').trim_end_matches('.').len();
    out.truncate(begin + digits);
}

fn rules(dark: bool, out: &mut String) {
    for paint in Paint::all() {
        let [r, g, b] = paint.rgb(dark);
        let _ = write!(out, ".p{}{{fill:#{r:02x}{g:02x}{b:02x}}}", paint.index());
    }
}

/// The style of pictures, dark or light as the viewer prefers: each file has it, and a page of several
/// pictures has it once.
pub fn style() -> String {
    let mut text = String::from(
        "text{font-family:system-ui,sans-serif;font-size:12px}\
         .t{font-size:16px;font-weight:600}rect{shape-rendering:crispEdges}\n",
    );
    rules(false, &mut text);
    text.push_str("\n@media screen and (prefers-color-scheme:dark){");
    rules(true, &mut text);
    text.push('}');
    // the notes below lines can be read
    let lines = [Paint::Line, Paint::OtherLine].map(|line| line.index());
    let _ = write!(text, "\n.p{},.p{}{{pointer-events:none}}\n", lines[0], lines[1]);
    text
}

impl Svg {
    /// An empty picture of this size in pixels.
    pub fn new(size: (u32, u32), name: &str) -> Self {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        begin(size, name, &mut text);
        let _ = writeln!(text, "<style>{}</style>", style());
        Self { text, has_notes: true }
    }

    /// An empty picture in a page, which has the [`style`].
    pub fn inline(size: (u32, u32), name: &str, has_notes: bool) -> Self {
        let mut text = String::new();
        begin(size, name, &mut text);
        Self { text, has_notes }
    }
}

fn begin((width, height): (u32, u32), name: &str, out: &mut String) {
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\""
    );
    escape(name, out);
    out.push_str("\">\n");
}

impl Canvas for Svg {
    fn area(&mut self, area: Area, paint: Paint, note: Option<&str>) {
        let out = &mut self.text;
        let _ = write!(out, "<rect class=\"p{}\"", paint.index());
        for (name, value) in
            [("x", area.x), ("y", area.y), ("width", area.width), ("height", area.height)]
        {
            let _ = write!(out, " {name}=\"");
            number(value, out);
            out.push('"');
        }
        if let Some(note) = note.filter(|_| self.has_notes) {
            out.push_str("><title>");
            escape(note, out);
            out.push_str("</title></rect>\n");
        } else {
            out.push_str("/>\n");
        }
    }

    fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, styled: TextStyle, text: &str) {
        let (class, paint) = match styled {
            TextStyle::Title => ("t ", Paint::Ink),
            TextStyle::Label => ("", Paint::Ink),
            TextStyle::Dim => ("", Paint::Dim),
        };
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let out = &mut self.text;
        let _ = write!(out, "<text class=\"{class}p{}\"{anchor} x=\"", paint.index());
        number(x, out);
        out.push_str("\" y=\"");
        number(y, out);
        out.push_str("\">");
        escape(text, out);
        out.push_str("</text>\n");
    }

    fn finish(mut self: Box<Self>) -> io::Result<Vec<u8>> {
        self.text.push_str("</svg>\n");
        Ok(self.text.into_bytes())
    }
}
