//! How values are written for people.

use std::time::Duration;

pub(super) use crate::report::text::{age, count, short_identity};

/// A time of day in UTC, `12:03:07Z`, of a time since the epoch.
pub(super) fn time_of_day(since_epoch: Duration) -> String {
    let seconds = since_epoch.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}Z", seconds % 60)
}

/// The text, or its beginning and `…`, at most `width` characters.
pub(super) fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

/// The text, or `-` for nothing.
pub(super) fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

/// A paragraph with its title, each line at most `width` characters unless a word is longer.
pub(super) fn wrapped(title: &str, text: &str, width: usize) -> String {
    let indent = " ".repeat(title.chars().count());
    let (mut out, mut line, mut is_empty) = (String::new(), title.to_owned(), true);
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + word.chars().count() > width {
            out.push_str(line.trim_end());
            out.push('\n');
            line.clone_from(&indent);
        }
        line.push_str(word);
        line.push(' ');
        is_empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_start_at_midnight_utc() {
        assert_eq!(time_of_day(Duration::from_secs(1_700_000_000)), "22:13:20Z");
        assert_eq!(time_of_day(Duration::from_secs(86_399)), "23:59:59Z");
    }

    #[test]
    fn long_texts_end_in_an_ellipsis() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdef", 5), "abcd…");
        assert_eq!(shorten("äöü", 2), "ä…");
    }
}
