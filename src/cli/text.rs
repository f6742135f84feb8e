//! How values are written for people.

use std::time::Duration;

/// A length of time as kubectl writes it: its largest unit and the next one, such as `3m12s` or `2d4h`.
pub(super) fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let (large, small) = if days > 0 {
        (format!("{days}d"), (hours % 24, 'h'))
    } else if hours > 0 {
        (format!("{hours}h"), (minutes % 60, 'm'))
    } else if minutes > 0 {
        (format!("{minutes}m"), (seconds % 60, 's'))
    } else {
        (format!("{seconds}s"), (0, 's'))
    };
    match small {
        (0, _) => large,
        (count, unit) => format!("{large}{count}{unit}"),
    }
}

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

/// `default.shop` of the identity `default.shop.serviceaccount.identity.linkerd.cluster.local`; others as they are.
pub(super) fn short_identity(identity: &str) -> &str {
    match identity.split_once(".serviceaccount.identity.") {
        Some((account, _)) => account,
        None => identity,
    }
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

/// One of several, or not: `1 endpoint`, `2 endpoints`.
pub(super) fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        for (seconds, expected) in [
            (0, "0s"),
            (12, "12s"),
            (60, "1m"),
            (192, "3m12s"),
            (3_600, "1h"),
            (3_661, "1h1m"),
            (187_200, "2d4h"),
            (86_401, "1d"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }

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

    #[test]
    fn identities_of_service_accounts_are_short() {
        let identity = "default.shop.serviceaccount.identity.linkerd.cluster.local";
        assert_eq!(short_identity(identity), "default.shop");
        assert_eq!(short_identity("spiffe://shop/web"), "spiffe://shop/web");
    }
}
