// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks as a flame graph. The width is the weight of a stack; the process is at the root, the driver
//! on top.

use std::io;
use std::io::{ErrorKind, Write};

use inferno::flamegraph::color::{BackgroundColor, Color};
use inferno::flamegraph::{Options, from_lines};

use crate::model::report::stacks::{StackRow, Weight};
use crate::view::stacks::{common, folded};

const WHITE: Color = Color { r: 255, g: 255, b: 255 };

/// Writes a flame graph as SVG.
///
/// # Errors
/// Errors of the writer, and [`ErrorKind::InvalidInput`] if there are no stacks.
pub fn svg(rows: &[StackRow], by: Weight, title: &str, out: &mut dyn Write) -> io::Result<()> {
    draw(rows, by, title, Options::default(), out)
}

/// The same without scripts and styles, for a page, which has these.
///
/// # Errors
/// If there are no stacks.
pub fn inline(rows: &[StackRow], by: Weight, title: &str) -> io::Result<String> {
    let mut options = Options::default();
    (options.no_javascript, options.bgcolors) = (true, Some(BackgroundColor::Flat(WHITE)));
    options.image_width = Some(1200);
    let mut out = Vec::new();
    draw(rows, by, title, options, &mut out)?;
    let text = String::from_utf8_lossy(&out);
    let picture = text.find("<svg").map_or("", |at| &text[at..]);
    // names are escaped: these are the tags of the library
    let parts = picture.split_once("<style").zip(picture.split_once("</script>"));
    let text = parts.map_or(String::new(), |((before, _), (_, after))| format!("{before}{after}"));
    Ok(text.replacen(" onload=\"init(evt)\"", "", 1))
}

fn draw(
    rows: &[StackRow],
    by: Weight,
    title: &str,
    mut options: Options<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    if rows.is_empty() {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "there is nothing to draw: no command has completed",
        ));
    }
    let folded = folded(rows, by, common(rows).0);
    let lines: Vec<String> = folded.iter().map(|(s, n)| format!("{s} {n}")).collect();
    options.title = title.to_owned();
    options.count_name = match by {
        Weight::Count => "commands",
        Weight::Latency => "us",
    }
    .into();
    options.name_type = "Function:".into();
    // a function has the same colour in every graph, so that graphs can be compared
    options.deterministic = true;
    from_lines(&mut options, lines.iter().map(String::as_str), out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::stacks::tests::rows;

    fn draw(by: Weight) -> String {
        let mut out = Vec::new();
        svg(&rows(), by, "reads & <writes>", &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_flame_graph_has_every_function_with_its_share() {
        let count = draw(Weight::Count);
        assert!(count.starts_with("<?xml"));
        assert!(count.trim_end().ends_with("</svg>"));
        assert!(count.contains("reads &amp; &lt;writes"), "{count}");
        assert!(count.contains("nvme_queue_rqs (910 commands, 91.00%)"), "{count}");
        assert!(count.contains("nvme_queue_rq (89 commands, 8.90%)"), "{count}");
        assert!(draw(Weight::Latency).contains("nvme_queue_rqs (106,000 us, 24.37%)"));
        assert_eq!(count, draw(Weight::Count), "colours are not random");
    }

    #[test]
    fn a_page_gets_the_graph_without_scripts_and_styles() {
        let text = inline(&rows(), Weight::Count, "reads & <writes>").unwrap();
        assert!(text.contains("nvme_queue_rqs (910 commands, 91.00%)"), "{text}");
        for other in ["<script", "<style", "onload", "onclick"] {
            assert!(!text.contains(other), "{other}: {text}");
        }
    }

    #[test]
    fn nothing_to_draw_says_so() {
        let error = svg(&[], Weight::Count, "", &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("no command"), "{error}");
    }
}
