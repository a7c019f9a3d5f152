//! As much of SQL as checking a workload's statements needs: where its parameters stand.

/// Positions of the `?` outside quotes and comments, and of the same for `;`.
fn scan(sql: &str) -> Result<(Vec<usize>, Option<usize>), String> {
    let bytes = sql.as_bytes();
    let mut marks = Vec::new();
    let mut end = None;
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            quote @ (b'\'' | b'"' | b'`') => {
                let mut j = i + 1;
                loop {
                    match bytes.get(j) {
                        None => {
                            return Err(format!(
                                "the quote {} is not closed in `{sql}`",
                                char::from(quote)
                            ));
                        }
                        Some(b'\\') if quote != b'`' => j += 2,
                        Some(b) if *b == quote => break,
                        Some(_) => j += 1,
                    }
                }
                i = j;
            }
            b'/' if bytes.get(i + 1) == Some(&b'*') => match sql[i + 2..].find("*/") {
                Some(length) => i += 2 + length + 1,
                None => return Err(format!("the comment is not closed in `{sql}`")),
            },
            b'#' => i = line_end(bytes, i),
            b'-' if bytes.get(i + 1) == Some(&b'-')
                && bytes.get(i + 2).is_none_or(u8::is_ascii_whitespace) =>
            {
                i = line_end(bytes, i);
            }
            b'?' => marks.push(i),
            b';' => end = end.or(Some(i)),
            _ => {}
        }
        i += 1;
    }
    Ok((marks, end))
}

fn line_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..]
        .iter()
        .position(|b| *b == b'\n')
        .map_or(bytes.len(), |length| from + length)
}

/// The statement as text: `{table}` replaced by the number, each parameter by its value, which is SQL as
/// it stands (quoted where it is text). `None` when there are not as many values as parameters.
pub fn fill(sql: &str, table: u32, values: &[String]) -> Option<String> {
    let (marks, _) = scan(sql).ok()?;
    if marks.len() != values.len() {
        return None;
    }
    let mut text = String::with_capacity(sql.len());
    let mut from = 0;
    for (mark, value) in marks.into_iter().zip(values) {
        text.push_str(&sql[from..mark].replace("{table}", &table.to_string()));
        text.push_str(value);
        from = mark + 1;
    }
    text.push_str(&sql[from..].replace("{table}", &table.to_string()));
    Some(text)
}

/// Number of parameters of a statement.
///
/// # Errors
/// What is wrong with it as a statement of a workload.
pub(super) fn check(sql: &str) -> Result<usize, String> {
    let (marks, end) = scan(sql)?;
    if end.is_some() {
        return Err(format!(
            "`{sql}` holds a `;`: write one statement each, without it"
        ));
    }
    let verb = sql
        .split(|c: char| !c.is_ascii_alphabetic())
        .find(|word| !word.is_empty())
        .unwrap_or_default()
        .to_ascii_lowercase();
    if ["begin", "start", "commit", "rollback"].contains(&verb.as_str()) {
        return Err(format!(
            "`{sql}`: a transaction is opened and committed by `begin = true`"
        ));
    }
    Ok(marks.len())
}

/// The statement with its bracket after VALUES repeated `rows` times.
///
/// # Errors
/// When it does not end in such a bracket that holds all of its parameters.
pub(super) fn with_rows(sql: &str, rows: u32) -> Result<String, String> {
    let wrong =
        || format!("`rows` needs a statement that ends in VALUES and one bracket, not `{sql}`");
    let trimmed = sql.trim_end();
    let (marks, _) = scan(sql)?;
    let values = trimmed
        .to_ascii_lowercase()
        .rfind("values")
        .ok_or_else(wrong)?;
    let after = &trimmed[values + "values".len()..];
    let bracket = after.trim_start();
    if !bracket.starts_with('(')
        || !bracket.ends_with(')')
        || marks.first().is_none_or(|first| *first < values)
    {
        return Err(wrong());
    }
    let head = &trimmed[..trimmed.len() - bracket.len()];
    let mut all = String::with_capacity(head.len() + (bracket.len() + 1) * rows as usize);
    all.push_str(head);
    for row in 0..rows {
        if row > 0 {
            all.push(',');
        }
        all.push_str(bracket);
    }
    Ok(all)
}

/// The statement for people: brackets repeated by [`with_rows`] are counted instead of shown.
pub(super) fn abbreviated(sql: &str) -> String {
    let folded = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    let lower = folded.to_ascii_lowercase();
    let Some(values) = lower.rfind("values") else {
        return folded;
    };
    let tail = folded[values + "values".len()..].trim_start();
    let Some(close) = tail.find(')') else {
        return folded;
    };
    let bracket = &tail[..=close];
    let copies = tail.split("),(").count();
    if copies < 2 || tail.len() != bracket.len() * copies + copies - 1 {
        return folded;
    }
    let head = &folded[..folded.len() - tail.len()];
    format!("{head}{bracket} × {copies} rows")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail by panic")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn marks_in_quotes_and_comments_are_text() {
        for (sql, marks) in [
            ("SELECT ?", 1),
            ("SELECT '?', \"?\", `?`, 'it\\'s ?', 'it''s ?', ?", 1),
            ("SELECT ? /* ? */ + ? -- ?\n + ? # ?", 3),
            ("SELECT 5--1, ?", 1),
        ] {
            assert_eq!(check(sql), Ok(marks), "{sql}");
        }
        for sql in ["SELECT '?", "SELECT /* ?", "SELECT 1; SELECT 2", " commit "] {
            assert!(check(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn values_take_the_place_of_parameters_only() {
        let values = ["7".to_owned(), "'{table}?'".to_owned()];
        assert_eq!(
            fill("SELECT '?' FROM t{table} WHERE a=? AND b=?", 3, &values).unwrap(),
            "SELECT '?' FROM t3 WHERE a=7 AND b='{table}?'"
        );
        assert_eq!(fill("SELECT ?", 1, &values), None);
        assert_eq!(fill("SELECT '", 1, &[]), None);
    }

    #[test]
    fn brackets_are_repeated_and_counted() {
        let sql = with_rows("INSERT INTO t (a) VALUES (f(?), ?) ", 2).unwrap();
        assert_eq!(sql, "INSERT INTO t (a) VALUES (f(?), ?),(f(?), ?)");
        assert!(with_rows("INSERT INTO t SELECT ?", 2).is_err());
        assert!(with_rows("INSERT INTO t VALUES (?) ON DUPLICATE KEY UPDATE a = 1", 2).is_err());
        assert_eq!(
            abbreviated("INSERT INTO t\n VALUES (?),(?),(?)"),
            "INSERT INTO t VALUES (?) × 3 rows"
        );
        assert_eq!(
            abbreviated("INSERT INTO t VALUES (?)"),
            "INSERT INTO t VALUES (?)"
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(sql in "[a-zA-Z?'\"`(),;#/*\\\\ é\n-]{0,60}", rows in 0..4_u32) {
            let _ = check(&sql);
            let _ = with_rows(&sql, rows);
            let _ = abbreviated(&sql);
            let _ = abbreviated(&format!("VALUES {sql}"));
        }
    }
}
