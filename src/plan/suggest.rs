//! The nearest known word to one that is not known.

/// The candidate that was most likely meant, if any is near enough: at most a third of the
/// letters differ (transpositions count once), or one is the beginning of the other.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = plain(word);
    let length = word.chars().count();
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let other = plain(candidate);
            let distance = strsim::damerau_levenshtein(&word, &other);
            let near = distance <= (length.max(other.chars().count()) / 3).max(1);
            let begins =
                length >= 4 && (other.starts_with(&word) || word.starts_with(other.as_str()));
            ((near && distance < length) || begins).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Case and the choice between `-`, `_` and space are no difference.
pub(super) fn plain(word: &str) -> String {
    word.to_lowercase().replace(['-', ' '], "_")
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_what_was_meant() {
        let words = ["threads", "measure", "load_threads", "tls_ca", "set"];
        assert_eq!(nearest("treads", words), Some("threads"));
        assert_eq!(nearest("Load-Threads", words), Some("load_threads"));
        assert_eq!(nearest("mesure", words), Some("measure"));
        assert_eq!(nearest("meas", words), Some("measure"));
        assert_eq!(nearest("banana", words), None);
        assert_eq!(nearest("x", words), None);
        assert_eq!(nearest("", words), None);
    }
}
