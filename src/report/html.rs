// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building a page. Texts are escaped; what is not escaped is a literal of the program or a picture of ours, so
//! that no name in a recording can become markup.

use crate::view::picture::{escape, style};
use crate::view::table::is_text;

const CSS: &str = include_str!("page.css");
const JS: &str = include_str!("page.js");
/// SHA-256 of the style and of the script, in base64: nothing else may be applied or run.
const CSS_HASH: &str = "NddMGWgwnLMTtqh198Ai2x/wxZrRbRsz7x2aCN9Pp0I=";
const JS_HASH: &str = "gBB48x9E5sYSQcLtz+RSqyEa4xJJgflt5+Lwr3NCiqs=";

/// A part of a page.
#[derive(Clone, Debug, Default)]
pub struct Html(String);

/// A colour of a bar, its name and its part of the bar's time.
pub type BarPart = (&'static str, String, f64);

impl Html {
    /// A text.
    pub fn of(text: &str) -> Self {
        let mut html = Self::default();
        html.text(text);
        html
    }

    /// Adds markup: only literals, never a text from outside.
    pub fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds a text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        escape(text, &mut self.0);
        self
    }

    /// Adds a text in which commands are between backquotes.
    pub fn prose(&mut self, text: &str) -> &mut Self {
        for (n, part) in text.split('`').enumerate() {
            match n % 2 {
                1 => self.element("code", part),
                _ => self.text(part),
            };
        }
        self
    }

    /// Adds another part.
    pub fn part(&mut self, part: &Self) -> &mut Self {
        self.0.push_str(&part.0);
        self
    }

    /// Adds an element with a text.
    pub fn element(&mut self, tag: &'static str, text: &str) -> &mut Self {
        self.tag("<", tag).text(text).tag("</", tag.split(' ').next().unwrap_or(tag))
    }

    fn tag(&mut self, begin: &'static str, tag: &'static str) -> &mut Self {
        self.markup(begin).markup(tag).markup(">")
    }

    /// Adds a picture, whose texts are escaped already.
    pub fn picture(&mut self, svg: &str) -> &mut Self {
        self.markup("<div class=\"scroll\">");
        self.0.push_str(svg);
        self.markup("</div>\n")
    }

    /// Adds a section that can be folded.
    pub fn fold(&mut self, open: bool, title: &str, inside: impl FnOnce(&mut Self)) -> &mut Self {
        self.markup(if open { "<details open>" } else { "<details>" }).element("summary", title);
        inside(self);
        self.markup("</details>\n")
    }

    /// Adds a table. Heads look as in text tables: `<` marks texts, which are aligned to the left. The
    /// script makes it sortable.
    pub fn table<'h>(&mut self, heads: &[&'h str], rows: impl Iterator<Item = Vec<Self>>) {
        let class = |head: &'h str| if is_text(head) { "" } else { " class=\"n\"" };
        self.markup("<div class=\"scroll\"><table><thead><tr>");
        for head in heads {
            self.markup("<th scope=\"col\"").markup(class(head)).markup(">");
            self.text(head.trim_start_matches('<')).markup("</th>");
        }
        self.markup("</tr></thead><tbody>\n");
        for row in rows {
            self.markup("<tr>");
            for (cell, head) in row.iter().zip(heads) {
                self.markup("<td").markup(class(head)).markup(">").part(cell).markup("</td>");
            }
            self.markup("</tr>\n");
        }
        self.markup("</tbody></table></div>\n");
    }

    /// A bar of stages. `length`: its part of the whole width.
    pub fn bar(parts: &[BarPart], length: f64) -> Self {
        let mut html = Self::default();
        let names: Vec<&str> = parts.iter().map(|(_, name, _)| name.as_str()).collect();
        html.svg("bar", (1000, 14), &names.join(", "));
        let whole: f64 = parts.iter().map(|(_, _, part)| part).sum();
        let mut x = 0.0;
        for (class, name, part) in parts {
            let width = part / whole.max(1e-9) * 1000.0 * length;
            html.rect(class, [x, 0.0, width, 14.0], name);
            x += width;
        }
        html.markup("</svg>");
        html
    }

    /// Columns with these heights, from 0 to 1, and their notes.
    pub fn columns(name: &str, columns: &[(f64, String)]) -> Self {
        let mut html = Self::default();
        html.svg("columns", (10 * columns.len() as u32, 24), name);
        for (n, (height, note)) in columns.iter().enumerate().filter(|(_, (part, _))| *part > 0.0) {
            let height = (height * 24.0).max(1.0);
            html.rect("p5", [10.0 * n as f64, 24.0 - height, 9.0, height], note);
        }
        html.markup("</svg>");
        html
    }

    fn svg(&mut self, class: &'static str, (width, height): (u32, u32), name: &str) {
        self.markup("<svg class=\"").markup(class).markup("\" viewBox=\"0 0 ");
        self.text(&format!("{width} {height}"))
            .markup("\" preserveAspectRatio=\"none\" role=\"img\"");
        self.markup(" aria-label=\"").text(name).markup("\">");
    }

    fn rect(&mut self, class: &'static str, at: [f64; 4], note: &str) {
        self.markup("<rect class=\"").markup(class).markup("\"");
        let names = [" x=\"", " y=\"", " width=\"", " height=\""];
        for (name, value) in names.into_iter().zip(at) {
            self.markup(name).text(&format!("{value:.1}")).markup("\"");
        }
        self.markup("><title>").text(note).markup("</title></rect>");
    }

    /// The whole page.
    pub fn page(title: &str, body: &Self) -> String {
        let mut html = Self::default();
        html.markup("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
        html.markup("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ");
        html.markup("style-src 'sha256-").markup(CSS_HASH).markup("'; script-src 'sha256-");
        html.markup(JS_HASH).markup("'; base-uri 'none'; form-action 'none'\">\n");
        html.markup("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.markup("<meta name=\"color-scheme\" content=\"light dark\">\n");
        html.element("title", title).markup("<style>");
        html.0.push_str(&page_style());
        html.markup("</style></head>\n<body>\n").part(body);
        html.markup("<script>").markup(JS).markup("</script>\n</body></html>\n");
        html.0
    }
}

fn page_style() -> String {
    format!("{CSS}{}", style())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// SHA-256 in base64, by the tools of the system.
    fn hash(text: &str) -> String {
        let script = "sha256sum | cut -c1-64 | tr a-f A-F | basenc -d --base16 | base64";
        let mut tools = Command::new("sh");
        tools.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut tools = tools.spawn().unwrap();
        tools.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let out = tools.wait_with_output().unwrap().stdout;
        String::from_utf8(out).unwrap().trim_end().to_owned()
    }

    #[test]
    fn the_policy_allows_the_style_and_the_script_of_the_page() {
        assert_eq!(CSS_HASH, hash(&page_style()));
        assert_eq!(JS_HASH, hash(JS));
    }
}
