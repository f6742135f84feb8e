//! Lengths of time as people write them on a command line.

use std::time::Duration;

/// What a value has to look like, for messages.
const EXPECTED: &str =
    "expected a number and a unit, such as 2s, 500ms or 1m30s (units: ns, us, ms, s, m, h)";

/// Reads `2s`, `500ms`, `1m30s`, `1.5h` or `0`; never negative.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let unsigned = text.strip_prefix('-');
    if unsigned.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')) {
        return Err(format!("must not be negative; {EXPECTED}"));
    }
    let expected = || EXPECTED.to_owned();
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = length_while(rest, |c| c.is_ascii_digit() || c == '.');
        let (number, after) = rest.split_at(digits);
        let letters = length_while(after, char::is_alphabetic);
        let (unit, after) = after.split_at(letters);
        // A number that f64 refuses (`.`, `1.2.3`, none at all) is no duration either.
        let number: f64 = number.parse().map_err(|_| expected())?;
        let seconds = number * unit_seconds(unit).ok_or_else(expected)?;
        total = Duration::try_from_secs_f64(seconds)
            .ok()
            .and_then(|part| total.checked_add(part))
            .ok_or_else(|| "too long".to_owned())?;
        rest = after;
    }
    if text.is_empty() {
        return Err(expected());
    }
    Ok(total)
}

fn length_while(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1e-9,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected_ms: Option<u64>) {
        let got = parse_duration(text).ok();
        assert_eq!(got, expected_ms.map(Duration::from_millis), "{text:?}");
    }

    #[test]
    fn durations_are_numbers_with_units() {
        check("2s", Some(2_000));
        check("500ms", Some(500));
        check("1m30s", Some(90_000));
        check("1.5h", Some(5_400_000));
        check(".5s", Some(500));
        check("1.s", Some(1_000));
        check("5000us", Some(5));
        check("5000\u{b5}s", Some(5));
        check("0", Some(0));
        check("0s", Some(0));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "", "2", "s", "-2s", "+2s", "2 s", "2S", "2d", "1.2.3s", "inf", "nans", ".s", "2s ",
            "1e3s",
        ] {
            check(text, None);
        }
        check("99999999999999999999h", None);
    }
}
