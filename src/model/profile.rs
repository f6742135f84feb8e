//! ServiceProfiles: what an object of `linkerd.io/v1alpha2` says about the requests of one Service.

use std::fmt;
use std::sync::Arc;

use super::{Namespace, Text};

/// A ServiceProfile within the home cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProfileName {
    /// Its namespace: that of the Service, or of the clients it is for.
    pub namespace: Namespace,
    /// Its name: the full DNS name of the Service.
    pub name: Text,
}

/// What a ServiceProfile says. Parts that make no sense are left out where it is read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileFacts {
    /// `spec.routes`, in order.
    pub routes: Box<[Route]>,
    /// `spec.retryBudget`; `None` means the default.
    pub retry_budget: Option<RetryBudget>,
    /// `spec.dstOverrides`, in order.
    pub overrides: Box<[Override]>,
}

/// A class of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its name; may be empty.
    pub name: Text,
    /// Which requests belong to it.
    pub condition: RequestMatch,
    /// How its responses are judged, in order.
    pub classes: Box<[ResponseClass]>,
    /// Whether failed requests may be sent again.
    pub retryable: bool,
    /// How long a request may take; `None` if that is not said, cannot be read, or is zero.
    pub timeout: Option<SignedDuration>,
}

/// A condition on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestMatch {
    /// All of these hold.
    All(Box<[RequestMatch]>),
    /// One of these holds.
    Any(Box<[RequestMatch]>),
    /// This does not hold.
    Not(Arc<RequestMatch>),
    /// The path matches this regular expression.
    Path(Text),
    /// The method is this one.
    Method(HttpMethod),
}

/// The method of a request, in upper case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpMethod(Text);

/// A class of responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseClass {
    /// Which responses belong to it.
    pub condition: ResponseMatch,
    /// Whether they are failures.
    pub failure: bool,
}

/// A condition on a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseMatch {
    /// All of these hold.
    All(Box<[ResponseMatch]>),
    /// One of these holds.
    Any(Box<[ResponseMatch]>),
    /// This does not hold.
    Not(Arc<ResponseMatch>),
    /// The status is in this range.
    Status(StatusRange),
}

/// HTTP status codes, both ends included; 0 where an end is not said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusRange {
    /// The lowest.
    pub min: u16,
    /// The highest.
    pub max: u16,
}

/// How many retries are allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudget {
    /// Retries for each original request.
    pub ratio: f32,
    /// Retries allowed in any case, each second.
    pub min_per_second: u32,
    /// How long a request counts.
    pub ttl: SignedDuration,
}

/// An authority that takes a share of the traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Host, perhaps with a port; never empty.
    pub authority: Text,
    /// Its share, in ten-thousandths of the unit that the object counts in.
    pub weight: u32,
}

/// A length of time in nanoseconds, which users may write with a sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignedDuration(i64);

// === impl ProfileName ===

impl ProfileName {
    /// Names a ServiceProfile.
    pub fn new(namespace: impl Into<Namespace>, name: impl Into<Text>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

// === impl HttpMethod ===

impl HttpMethod {
    /// A method, written in any case.
    pub fn new(text: &str) -> Self {
        Self(text.to_uppercase().into())
    }

    /// The method in upper case.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl RetryBudget ===

impl Default for RetryBudget {
    /// What holds where nothing is said.
    fn default() -> Self {
        Self {
            ratio: 0.2,
            min_per_second: 10,
            ttl: SignedDuration(10_000_000_000),
        }
    }
}

// === impl SignedDuration ===

impl SignedDuration {
    /// Reads a length of time as Go writes it, such as `1h2m3.5s`.
    ///
    /// That is an optional sign, then `0` or pairs of number and unit without spaces; a number may have a fraction. `None`
    /// for anything else, and for what does not fit into 64 bits of nanoseconds. Fractions of a nanosecond are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, mut rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Some(Self(0));
        }
        if rest.is_empty() {
            return None;
        }
        let mut nanos: i128 = 0;
        while !rest.is_empty() {
            let number = rest.len() - rest.trim_start_matches(is_numeric).len();
            let (digits, after) = rest.split_at(number);
            let unit = after.find(is_numeric).unwrap_or(after.len());
            let (unit, after) = after.split_at(unit);
            nanos += pair(digits, nanos_of(unit)?)?;
            if nanos > i128::from(i64::MAX) + i128::from(negative) {
                return None;
            }
            rest = after;
        }
        let nanos = if negative { -nanos } else { nanos };
        i64::try_from(nanos).ok().map(Self)
    }

    /// Whether it is no time at all.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Whole seconds, rounded toward zero, and the nanoseconds left over; both have its sign.
    pub fn parts(self) -> (i64, i32) {
        let nanos = (self.0 % 1_000_000_000) as i32;
        (self.0 / 1_000_000_000, nanos)
    }
}

fn is_numeric(character: char) -> bool {
    character == '.' || character.is_ascii_digit()
}

fn nanos_of(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Nanoseconds of a decimal number of units.
fn pair(number: &str, unit: i128) -> Option<i128> {
    /// Digits of a fraction that can matter: an hour has fewer nanoseconds.
    const FRACTION_MAX: usize = 13;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole = match whole {
        "" => 0,
        // Longer than this, it cannot fit anyway.
        whole => i128::from(whole.parse::<u64>().ok()?),
    };
    let fraction = &fraction[..fraction.len().min(FRACTION_MAX)];
    let (mut part, mut scale) = (0, 1);
    for digit in fraction.bytes() {
        part = part * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    Some(whole * unit + part * unit / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(i64, i32)>) {
        let got = SignedDuration::parse(text).map(SignedDuration::parts);
        assert_eq!(got, expected, "{text:?}");
    }

    #[test]
    fn durations_are_pairs_of_number_and_unit() {
        check("10s", Some((10, 0)));
        check("250ms", Some((0, 250_000_000)));
        check("1.5h", Some((5_400, 0)));
        check("1h2m3.004s", Some((3_723, 4_000_000)));
        check(".5s", Some((0, 500_000_000)));
        check("5.s", Some((5, 0)));
        check("1ns", Some((0, 1)));
        check("1us", Some((0, 1_000)));
        check("1\u{b5}s1\u{3bc}s", Some((0, 2_000)));
        check("1.9ns", Some((0, 1)));
        check("0.1234567891234567899h", Some((444, 444_440_844)));
        check("0", Some((0, 0)));
        check("-0", Some((0, 0)));
        check("0s", Some((0, 0)));
    }

    #[test]
    fn durations_may_have_a_sign() {
        check("-1.5s", Some((-1, -500_000_000)));
        check("+1s", Some((1, 0)));
        check(
            "-9223372036854775808ns",
            Some((-9_223_372_036, -854_775_808)),
        );
        check("9223372036854775807ns", Some((9_223_372_036, 854_775_807)));
    }

    #[test]
    fn what_is_no_duration_is_nothing() {
        for text in [
            "",
            "-",
            "10",
            "1d",
            "ten",
            "1S",
            "5 s",
            "s",
            ".s",
            "1..5s",
            "1s ",
            "--1s",
            "00",
            "9999999h",
            "9223372036854775808ns",
            "99999999999999999999s",
            "١s",
        ] {
            check(text, None);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_duration_or_none(text in "[-+]?[0-9.hmsnu\u{b5}]{0,30}") {
            let _ = SignedDuration::parse(&text);
        }
    }
}
