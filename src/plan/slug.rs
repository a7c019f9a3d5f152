//! The plan's name as a part of a folder's name.

use super::Plan;

/// Longest slug in bytes; file systems allow 255, the time and a suffix follow.
const LONGEST: usize = 100;

impl Plan {
    /// The name as a folder can bear it: letters of any script and digits stay, everything else becomes a
    /// single `-`; never empty, hidden, or a path.
    pub fn slug(&self) -> String {
        slug(&self.name)
    }
}

fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        let keep = c.is_alphanumeric() || c == '_' || is_mark(c);
        if keep {
            if slug.len() + c.len_utf8() > LONGEST {
                break;
            }
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let trimmed = slug.trim_end_matches('-');
    if trimmed.is_empty() {
        "plan".to_owned()
    } else {
        trimmed.to_owned()
    }
}

/// Combining marks of the common blocks, so that accents typed as two characters survive.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{93a}'..='\u{94f}' | '\u{3099}' | '\u{309a}')
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn names_become_folders() {
        assert_eq!(
            slug("orders-db, new instance before cut-over"),
            "orders-db-new-instance-before-cut-over"
        );
        assert_eq!(slug("../../etc/passwd"), "etc-passwd");
        assert_eq!(slug(".."), "plan");
        assert_eq!(slug("订单库 容量"), "订单库-容量");
        assert_eq!(slug("a\u{202e}b"), "a-b");
        assert_eq!(slug("e\u{301}te\u{301}"), "e\u{301}te\u{301}");
        assert!(slug(&"ü".repeat(300)).len() <= 100);
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config {
            failure_persistence: None,
            ..Default::default()
        })]

        #[test]
        fn a_slug_is_one_plain_path_component(name in ".*") {
            let slug = slug(&name);
            proptest::prop_assert!(!slug.is_empty() && slug.len() <= 100);
            proptest::prop_assert!(!slug.starts_with('.') && !slug.contains(['/', '\\', '\0']));
            proptest::prop_assert!(!slug.chars().any(char::is_whitespace));
        }
    }
}
