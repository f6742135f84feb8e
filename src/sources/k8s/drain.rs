//! The switch that drains a cluster: an annotation of the Secret that links it.

use std::time::Duration;

/// How long a drain takes where the annotation does not say.
const DEFAULT: Duration = Duration::from_mins(1);

/// Over how long a cluster is to be drained; `None` if it is not.
///
/// `tributary.dev/drain` is a length of time, such as `10m`, or anything else for a minute; `false`, `off` or nothing means no.
pub(in crate::sources) fn over(annotation: &str) -> Option<Duration> {
    match annotation.trim() {
        "" | "false" | "off" | "no" => None,
        text => Some(length(text).unwrap_or(DEFAULT)),
    }
}

/// Reads a number and a unit: `90s`, `10m`, `2h`, or `0`.
fn length(text: &str) -> Option<Duration> {
    let unit = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let number: u64 = number.parse().ok()?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "" if number == 0 => 1,
        _ => return None,
    };
    number.checked_mul(seconds).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_says_whether_and_for_how_long() {
        for (text, expected) in [
            ("", None),
            ("false", None),
            ("off", None),
            ("true", Some(60)),
            ("now", Some(60)),
            ("0", Some(0)),
            ("0s", Some(0)),
            ("90s", Some(90)),
            (" 10m ", Some(600)),
            ("2h", Some(7200)),
            ("99999999999999999999h", Some(60)),
            ("-1m", Some(60)),
        ] {
            assert_eq!(over(text), expected.map(Duration::from_secs), "{text:?}");
        }
    }
}
