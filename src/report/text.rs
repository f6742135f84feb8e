//! How values are written for people.

use std::time::Duration;

/// A length of time as kubectl writes it: its largest unit and the next one, such as `3m12s` or `2d4h`.
pub fn age(duration: Duration) -> String {
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

/// `default.shop` of the identity `default.shop.serviceaccount.identity.linkerd.cluster.local`; others as they are.
pub fn short_identity(identity: &str) -> &str {
    match identity.split_once(".serviceaccount.identity.") {
        Some((account, _)) => account,
        None => identity,
    }
}

/// One of several, or not: `1 endpoint`, `2 endpoints`.
pub fn count(number: usize, thing: &str) -> String {
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
    fn identities_of_service_accounts_are_short() {
        let identity = "default.shop.serviceaccount.identity.linkerd.cluster.local";
        assert_eq!(short_identity(identity), "default.shop");
        assert_eq!(short_identity("spiffe://shop/web"), "spiffe://shop/web");
    }
}
