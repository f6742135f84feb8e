//! Quantities as Kubernetes writes them: `500m`, `0.25`, `1k`, `2Ki`, `1e3`.

/// Digits on either side of the point that matter: a quantity that needs more has no meaning as a weight.
const DIGITS_MAX: usize = 18;
/// Exponents beyond these make nothing, or more than fits.
const EXPONENT_MAX: i32 = 60;

/// A quantity in thousandths, rounded up; negative ones are zero, and what does not fit is the greatest number there is.
///
/// `None` if the text is no quantity. Source: `k8s.io/apimachinery/pkg/api/resource`, grammar of `Quantity`.
pub(super) fn milli(text: &str) -> Option<u64> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned
        .find(|character: char| character != '.' && !character.is_ascii_digit())
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (decimal, binary) = scale(suffix)?;
    if negative {
        return Some(0);
    }
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let Some(mantissa) = mantissa(whole, fraction) else {
        return Some(u64::MAX);
    };
    let fraction_len = i32::try_from(fraction.len().min(DIGITS_MAX)).ok()?;
    let scaled = mantissa.saturating_mul(1 << binary);
    Some(shift(scaled, decimal - fraction_len + 3))
}

/// The digits of a number without its point; `None` if there are too many before it.
fn mantissa(whole: &str, fraction: &str) -> Option<u128> {
    if whole.len() > DIGITS_MAX {
        return None;
    }
    let is_cut = fraction.len() > DIGITS_MAX;
    let fraction = &fraction[..fraction.len().min(DIGITS_MAX)];
    let digits = whole.bytes().chain(fraction.bytes());
    let mut value: u128 = 0;
    for digit in digits {
        value = value
            .saturating_mul(10)
            .saturating_add(u128::from(digit - b'0'));
    }
    // Digits that were left off count, as everything is rounded up.
    Some(value.saturating_add(u128::from(is_cut)))
}

/// What a suffix multiplies by: a power of ten, and a power of two.
fn scale(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "" => (0, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E'])?;
            let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
            if unsigned.is_empty() || !unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let negative = digits.starts_with('-');
            let exponent = unsigned.parse().unwrap_or(EXPONENT_MAX).min(EXPONENT_MAX);
            (if negative { -exponent } else { exponent }, 0)
        }
    })
}

/// A value times a power of ten, rounded up.
fn shift(value: u128, exponent: i32) -> u64 {
    let power = 10_u128.checked_pow(exponent.unsigned_abs());
    let shifted = match power {
        Some(power) if exponent >= 0 => value.saturating_mul(power),
        Some(power) => value.div_ceil(power),
        None if exponent >= 0 && value > 0 => u128::MAX,
        None => value.min(1),
    };
    u64::try_from(shifted).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(milli(text), expected, "{text:?}");
    }

    #[test]
    fn quantities_are_numbers_with_a_suffix() {
        check("1", Some(1000));
        check("500m", Some(500));
        check("0.25", Some(250));
        check(".5", Some(500));
        check("5.", Some(5000));
        check("+2", Some(2000));
        check("1k", Some(1_000_000));
        check("1Ki", Some(1_024_000));
        check("0.5Ki", Some(512_000));
        check("1e1", Some(10_000));
        check("15e-1", Some(1500));
        check("0", Some(0));
        check("000.100", Some(100));
    }

    #[test]
    fn what_is_below_a_thousandth_counts_as_one() {
        check("1u", Some(1));
        check("100n", Some(1));
        check("1.0001", Some(1001));
        check("1e-60", Some(1));
        check("0.000000000000000000000000000000000000000001", Some(1));
        check("0n", Some(0));
    }

    #[test]
    fn what_does_not_fit_is_clamped() {
        check("-1", Some(0));
        check("-500m", Some(0));
        check("9E", Some(u64::MAX));
        check("1e999999999999", Some(u64::MAX));
        check(
            "99999999999999999999999999999999999999999999",
            Some(u64::MAX),
        );
        check("0e60", Some(0));
        check("1Ei", Some(u64::MAX));
    }

    #[test]
    fn what_is_no_quantity_is_nothing() {
        for text in [
            "", "-", ".", "1.2.3", "1x", "m", "1 k", "1e", "1e+", "1K", "--1", "1e1.5",
        ] {
            check(text, None);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_quantity_or_none(text in "[-+]?[0-9.]{0,60}[a-zA-Z]{0,2}[-+]?[0-9]{0,12}") {
            let _ = milli(&text);
        }
    }
}
