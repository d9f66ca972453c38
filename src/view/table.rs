// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables. A column is as wide as its cells.

use std::io;
use std::io::Write;

use super::theme::Theme;

/// From this width on, tables have more columns.
pub(crate) const WIDE: usize = 120;

/// A head and a cell. A head that begins with `<` marks a column of texts, aligned to the left; other columns
/// have numbers.
pub(crate) type Cell<'h> = (&'h str, String);

/// A cell of texts.
pub(crate) const fn is_text(head: &str) -> bool {
    matches!(head.as_bytes().first(), Some(b'<'))
}

/// Rows of cells. All have the same heads; a row of one cell is a title.
#[derive(Default)]
pub(crate) struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

fn size(text: &str) -> usize {
    text.chars().count()
}

fn size_of_last_line(text: &str) -> usize {
    size(text.trim_end().rsplit('\n').next().unwrap_or_default())
}

impl Table {
    /// Adds a row. Its first cell is a text.
    pub(crate) fn row(&mut self, cells: Vec<Cell<'_>>) {
        let (heads, cells): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
        self.heads = heads.into_iter().map(str::to_owned).collect();
        self.rows.push(cells);
    }

    /// Adds a title of the rows that follow.
    pub(crate) fn title(&mut self, title: String) {
        self.rows.push(vec![title]);
    }

    /// The same with the first columns in one.
    fn joined(&self, texts: usize) -> Self {
        let join = |row: &Vec<String>| match row.split_at_checked(texts) {
            Some((first, rest)) => [vec![first.join(" ")], rest.to_vec()].concat(),
            None => row.clone(),
        };
        let mut heads = join(&self.heads);
        heads[0] = format!("<{}", heads[0].replace('<', ""));
        Self { heads, rows: self.rows.iter().map(join).collect() }
    }

    /// Writes the table. A first cell that is too long for the width has a line of its own; of a last
    /// text whose parts are two blanks apart, those that fit are written.
    pub(crate) fn write(&self, theme: Theme, width: usize, out: &mut dyn Write) -> io::Result<()> {
        let heads: Vec<&str> = self.heads.iter().map(|h| h.trim_start_matches('<')).collect();
        let rows = || self.rows.iter().filter(|row| row.len() > 1);
        let mut sizes: Vec<usize> = heads.iter().map(|head| size(head)).collect();
        for (n, most) in sizes.iter_mut().enumerate() {
            *most = rows().map(|row| size(&row[n])).fold(*most, usize::max);
        }
        // of a text at the end, the first part always stays
        let first_part = |row: &Vec<String>| {
            row.last().map_or(0, |cell| size(cell.split("  ").next().unwrap_or_default()))
        };
        let least = rows().map(first_part).max().unwrap_or(0);
        let Some((first, others)) = sizes.split_first_mut() else {
            return Ok(());
        };
        let taken = |gap: usize| -> usize {
            let heads = self.heads[1..].iter().zip(&*others);
            let sizes = heads.map(|(head, size)| size + if is_text(head) { 2 } else { gap });
            let all: usize = sizes.sum();
            // a text at the end may be cut
            let last = others.last().filter(|_| self.heads.last().is_some_and(|h| is_text(h)));
            all - last.map_or(0, |last| last.saturating_sub(least))
        };
        let texts = self.heads.iter().take_while(|head| is_text(head)).count();
        if texts > 1 && *first + taken(1) > width {
            return self.joined(texts).write(theme, width, out);
        }
        let gap = if *first + taken(2) <= width { 2 } else { 1 };
        *first = (*first).min(width.saturating_sub(taken(gap)));
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for (n, cell) in cells.enumerate() {
                let (size, is_text) = (sizes[n], is_text(&self.heads[n]));
                if n == 0 && cell.chars().count() > size {
                    text += &format!("{cell}\n{:size$}", "");
                    continue;
                }
                text += &" ".repeat(if n == 0 {
                    0
                } else if is_text {
                    2
                } else {
                    gap
                });
                text += &if is_text { format!("{cell:<size$}") } else { format!("{cell:>size$}") };
            }
            while size_of_last_line(&text) > width
                && let Some((cut, _)) = text.trim_end().rsplit_once("  ")
            {
                text.truncate(cut.len());
            }
            text.truncate(text.trim_end().len());
            text
        };
        writeln!(out, "{}", theme.dim(&line(&mut heads.iter().copied())))?;
        for row in &self.rows {
            match row.as_slice() {
                [title] => writeln!(out, "{}", theme.head(title))?,
                cells => writeln!(out, "{}", line(&mut cells.iter().map(String::as_str)))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(names: [&str; 2], places: [&str; 2], width: usize) -> String {
        let mut table = Table::default();
        for (name, place) in names.into_iter().zip(places) {
            let cells = [("<NAME", name), ("N", "12345"), ("<WHERE", place)];
            table.row(cells.map(|(head, cell)| (head, cell.into())).into());
        }
        let mut out = Vec::new();
        table.write(Theme { color: false }, width, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn names_of_two_columns_are_one_where_there_is_no_room() {
        let mut table = Table::default();
        for (disk, op) in [("nvme0n1", "read <=16K"), ("nvme0", "doorbell-buffer-config")] {
            table.row(vec![("<DISK", disk.into()), ("<OP", op.into()), ("N", "12345".into())]);
        }
        let mut out = Vec::new();
        table.write(Theme { color: false }, 26, &mut out).unwrap();
        let want = "DISK OP                  N\nnvme0n1 read <=16K   12345\n\
                    nvme0 doorbell-buffer-config\n                     12345\n";
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn columns_are_as_wide_as_their_cells_and_long_names_have_a_line() {
        let (names, places) = (["ab", "abcdef"], ["device 9%"; 2]);
        let wide = "NAME        N  WHERE\nab      12345  device 9%\nabcdef  12345  device 9%\n";
        assert_eq!(text(names, places, 24), wide);
        let closer = wide.replace("  12345", " 12345").replace("   N", "  N");
        assert_eq!(text(names, places, 23), closer);
        let narrow = "NAME     N  WHERE\nab   12345  device 9%\nabcdef\n     12345  device 9%\n";
        assert_eq!(text(names, places, 21), narrow);
        // `submit.ring+device+complete`, the longest name of a stage, has 28 characters: the first
        // part of the last text stays and the others go
        let places = ["submit.ring+device+complete 9%  queue 8%", "device 9%  queue 8%"];
        let want = "NAME     N  WHERE\nab   12345  submit.ring+device+complete 9%\nabcdef\n     \
                    12345  device 9%  queue 8%\n";
        assert_eq!(text(names, places, 42), want);
    }
}
