//! Markdown that shows text as it is and reads well as plain text.

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{Cell, CellAlignment, Table};

use super::figures::MISSING;

/// Text such that GitHub shows it literally, also at the start of a line.
pub(super) fn escaped(text: &str) -> String {
    escaped_at(text, true)
}

/// Text for a table cell, where no heading, list or quotation can begin.
pub(super) fn escaped_cell(text: &str) -> String {
    escaped_at(text, false)
}

fn escaped_at(text: &str, line_start: bool) -> String {
    let chars: Vec<char> = one_line(text).chars().collect();
    let word = |i: Option<usize>| {
        i.and_then(|i| chars.get(i))
            .is_some_and(|c| c.is_alphanumeric())
    };
    let mut escaped = String::with_capacity(text.len());
    for (i, &c) in chars.iter().enumerate() {
        let next = chars.get(i + 1).copied();
        let special = match c {
            '\\' | '|' | '*' | '`' | '[' | ']' | '<' => true,
            // Within a word an underscore is only itself; escaping it would spoil every variable name.
            '_' => !(word(i.checked_sub(1)) && word(Some(i + 1))),
            '~' => next == Some('~') || i.checked_sub(1).is_some_and(|p| chars[p] == '~'),
            '&' => next.is_some_and(|n| n.is_ascii_alphabetic() || n == '#'),
            // Only at the start of a line do these begin a heading, a quotation or a list.
            '#' | '>' => line_start && i == 0,
            '-' | '+' => line_start && i == 0 && next.is_none_or(|n| n == ' ' || n == c),
            '.' | ')' => {
                line_start
                    && i > 0
                    && i <= 9
                    && chars[..i].iter().all(char::is_ascii_digit)
                    && next.is_none_or(|n| n == ' ')
            }
            _ => false,
        };
        if special {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// The words of capbench itself, with their code spans: `guard.window` stays one. Spans whose content could
/// mean something else are escaped like all other text, since the words may quote what a user wrote.
pub(super) fn prose(text: &str) -> String {
    spans(text, escaped, escaped_cell, |code| format!("`{code}`"))
}

/// The pieces of a text outside and inside its code spans, each put down in its way.
pub(super) fn spans(
    text: &str,
    first: impl Fn(&str) -> String,
    plain: impl Fn(&str) -> String,
    code: impl Fn(&str) -> String,
) -> String {
    let text = one_line(text);
    let harmless = |c: char| c.is_alphanumeric() || " _.,:;=/-+()%@\"'".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let mut plain_until = 0;
    while let Some(open) = rest[plain_until..].find('`').map(|i| plain_until + i) {
        let Some(length) = rest[open + 1..].find('`') else {
            break;
        };
        let inside = &rest[open + 1..=open + length];
        if inside.is_empty() || inside.trim() != inside || !inside.chars().all(harmless) {
            plain_until = open + 1;
            continue;
        }
        // Only at its start can a text begin a heading or a list.
        let before = &rest[..open];
        let set = if out.is_empty() {
            first(before)
        } else {
            plain(before)
        };
        out.push_str(&set);
        out.push_str(&code(inside));
        rest = &rest[open + length + 2..];
        plain_until = 0;
    }
    let set = if out.is_empty() {
        first(rest)
    } else {
        plain(rest)
    };
    out.push_str(&set);
    out
}

/// A code span around any text; not for table cells, which a bar would end.
pub(super) fn code(text: &str) -> String {
    let text = one_line(text);
    if text.trim().is_empty() {
        return String::new();
    }
    let longest = text
        .split(|c| c != '`')
        .map(str::len)
        .max()
        .unwrap_or_default();
    let fence = "`".repeat(longest + 1);
    if longest > 0 {
        format!("{fence} {text} {fence}")
    } else {
        format!("{fence}{text}{fence}")
    }
}

/// Control characters, line ends and the invisible marks that turn the direction of text, made visible
/// or harmless.
pub(super) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_control() => ' ',
            '\u{2028}' | '\u{2029}' => ' ',
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}' => {
                '\u{FFFD}'
            }
            c => c,
        })
        .collect()
}

/// A table whose columns line up in plain text. Cells must be escaped already. Columns of figures are
/// aligned to the right.
pub(super) fn table(titles: &[String], rows: &[Vec<String>]) -> String {
    let right: Vec<bool> = (0..titles.len())
        .map(|column| is_numeric(rows.iter().filter_map(|r| r.get(column))))
        .collect();
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(titles);
    for row in rows {
        table.add_row(row.iter().map(Cell::new).collect::<Vec<_>>());
    }
    for (column, &right) in table.column_iter_mut().zip(&right) {
        if right {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines: Vec<String> = table.lines().collect();
    if let Some(rule) = lines.get_mut(1) {
        *rule = aligned_rule(rule, &right);
    }
    lines.join("\n")
}

/// The line under the header, with the colons by which Markdown aligns to the right.
fn aligned_rule(rule: &str, right: &[bool]) -> String {
    let mut columns = right.iter();
    let mut marked = String::with_capacity(rule.len());
    for (i, c) in rule.chars().enumerate() {
        if c == '|' && i > 0 && columns.next() == Some(&true) {
            marked.pop();
            marked.push(':');
        }
        marked.push(c);
    }
    marked
}

/// Whether all cells are figures or missing, with at least one figure among them.
pub(super) fn is_numeric<'a>(cells: impl Iterator<Item = &'a String>) -> bool {
    let mut figures = 0;
    for cell in cells {
        let number = cell
            .trim_start_matches(['<', '>'])
            .trim_end_matches('%')
            .trim_end()
            .replace(',', "");
        if number.parse::<f64>().is_ok() {
            figures += 1;
        } else if !(cell == MISSING || cell.is_empty()) {
            return false;
        }
    }
    figures > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_shown_as_it_is() {
        assert_eq!(escaped("innodb_io_capacity"), "innodb_io_capacity");
        assert_eq!(escaped("_x_ *b* a|b"), "\\_x\\_ \\*b\\* a\\|b");
        assert_eq!(escaped("<img src=x>"), "\\<img src=x>");
        assert_eq!(escaped("# no\nheading"), "\\# no heading");
        assert_eq!(escaped("- no list"), "\\- no list");
        assert_eq!(escaped_cell("> 0.1 %"), "> 0.1 %");
        assert_eq!(escaped("-3.4"), "-3.4");
        assert_eq!(escaped("1. no list"), "1\\. no list");
        assert_eq!(escaped("v1. x"), "v1. x");
        assert_eq!(escaped("a &lt; b & c"), "a \\&lt; b & c");
        assert_eq!(escaped("~~gone~~ ~2"), "\\~\\~gone\\~\\~ ~2");
        assert_eq!(escaped("evil\u{202e}txt"), "evil\u{FFFD}txt");
        assert_eq!(code("a`b|c"), "`` a`b|c ``");
    }

    #[test]
    fn the_tools_own_words_keep_their_code() {
        assert_eq!(prose("by `guard.window` now"), "by `guard.window` now");
        assert_eq!(prose("`a*b` and `x` *c*"), "\\`a\\*b\\` and `x` \\*c\\*");
        assert_eq!(prose("# `x`"), "\\# `x`");
        assert_eq!(prose("a ` b"), "a \\` b");
        assert_eq!(prose("é `` `"), "é \\`\\` \\`");
    }

    proptest::proptest! {
        /// Whatever the text, a row stays one line with one cell more than it has bars inside.
        #[test]
        fn no_text_breaks_a_row(text in "\\PC{0,20}|[|`\\\\\n\r\t<>_*-]{0,12}") {
            let titles = ["a".to_owned(), "b".to_owned()];
            let row = table(&titles, &[vec![escaped_cell(&text), "x".to_owned()]]);
            let last = row.lines().last().unwrap_or_default();
            assert_eq!(row.lines().count(), 3, "{row}");
            assert_eq!(bars(last), 3, "{row}");
            assert_eq!(code(&text).lines().count().max(1), 1);
        }
    }

    /// Bars that end a cell: those that no backslash stands before (cmark-gfm, ext/scanners.re).
    fn bars(row: &str) -> usize {
        row.matches('|').count() - row.matches("\\|").count()
    }

    #[test]
    fn tables_line_up() {
        let titles = ["threads", "p95, ms", "verdict"].map(str::to_owned);
        let rows = [["8", "15.2", "valid"], ["128", "n/a", "failed"]]
            .map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(
            table(&titles, &rows),
            "| threads | p95, ms | verdict |\n\
             |--------:|--------:|---------|\n\
             |       8 |    15.2 | valid   |\n\
             |     128 |     n/a | failed  |"
        );
    }
}
