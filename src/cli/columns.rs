//! Plain tables: aligned, without borders, headings in capitals.

use super::text::wrapped;

/// Widest line of a table that is not wide.
pub(super) const WIDTH: usize = 120;
/// Space between columns.
const GAP: &str = "  ";
/// How the end of a line is set off that is too long for it.
const INDENT: &str = "    ";

/// A column: its heading, and whether its cells are numbers, which are on the right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    heading: &'static str,
    is_number: bool,
}

// === impl Column ===

impl Column {
    pub(super) const fn text(heading: &'static str) -> Self {
        Self {
            heading,
            is_number: false,
        }
    }

    pub(super) const fn number(heading: &'static str) -> Self {
        Self {
            heading,
            is_number: true,
        }
    }
}

/// The lines of a table, the headings first. What does not fit into `width` of the last column goes on below its line.
pub(super) fn lines<const N: usize>(
    columns: [Column; N],
    rows: &[[String; N]],
    width: Option<usize>,
) -> Vec<String> {
    let headings = columns.map(|column| column.heading.to_owned());
    let all = || std::iter::once(&headings).chain(rows);
    let widths: [usize; N] = std::array::from_fn(|at| {
        let cells = all().map(|row| row[at].chars().count());
        cells.max().unwrap_or_default()
    });
    all()
        .map(|row| {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let padding = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
                let is_last = at + 1 == N;
                if at > 0 {
                    line.push_str(GAP);
                }
                let too_long = |width| line.chars().count() + cell.chars().count() > width;
                match width {
                    Some(width) if is_last && too_long(width) => {
                        line.truncate(line.trim_end().len());
                        line.push('\n');
                        line.push_str(&wrapped(INDENT, cell, width));
                    }
                    _ if columns[at].is_number => line.extend([padding.as_str(), cell]),
                    _ => line.extend([cell.as_str(), padding.as_str()]),
                }
            }
            line.trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_a_long_end_goes_below() {
        let columns = [
            Column::text("NAME"),
            Column::number("SIZE"),
            Column::text("NOTE"),
        ];
        let rows = [
            ["a", "1", ""].map(str::to_owned),
            ["longer", "1000", "one two three"].map(str::to_owned),
        ];
        assert_eq!(
            lines(columns, &rows, Some(20)),
            [
                "NAME    SIZE  NOTE",
                "a          1",
                "longer  1000\n    one two three"
            ]
        );
        assert_eq!(
            lines(columns, &rows, None)[2],
            "longer  1000  one two three"
        );
    }
}
