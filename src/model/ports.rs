//! Sets of ports that stay ranges however wide they are.

use std::fmt;

/// An inclusive range of port numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    /// Lowest port of the range.
    pub low: u16,
    /// Highest port of the range; never below `low`.
    pub high: u16,
}

/// A set of ports kept as ranges; memory follows the number of ranges, not their width.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct PortSet(Box<[PortRange]>);

// === impl PortSet ===

impl PortSet {
    /// Whether the set has this port.
    pub fn contains(&self, port: u16) -> bool {
        self.0
            .iter()
            .any(|range| range.low <= port && port <= range.high)
    }

    /// Whether the set has no port at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a comma-separated list of numbers, ranges `a-b` and, where `resolve` knows them, names.
    ///
    /// One trailing comma is ignored; items are trimmed; a name wins over a number. Items that are none of these are
    /// left out and returned as they were written. Source: grammar of `config.linkerd.io/opaque-ports`.
    pub fn parse(list: &str, resolve: impl Fn(&str) -> Option<u16>) -> (Self, Vec<String>) {
        let list = list.strip_suffix(',').unwrap_or(list);
        let mut ranges = Vec::new();
        let mut bad = Vec::new();
        if !list.is_empty() {
            for item in list.split(',').map(str::trim) {
                match resolve(item)
                    .map(PortRange::from)
                    .or_else(|| parse_item(item))
                {
                    Some(range) => ranges.push(range),
                    None => bad.push(item.to_owned()),
                }
            }
        }
        ranges.sort_unstable();
        ranges.dedup();
        (Self(ranges.into()), bad)
    }
}

impl FromIterator<PortRange> for PortSet {
    fn from_iter<I: IntoIterator<Item = PortRange>>(ranges: I) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        ranges.sort_unstable();
        ranges.dedup();
        Self(ranges.into())
    }
}

impl fmt::Display for PortSet {
    /// A list that [`PortSet::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, range) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            if range.low == range.high {
                write!(f, "{}", range.low)?;
            } else {
                write!(f, "{}-{}", range.low, range.high)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|range| (range.low, range.high)))
            .finish()
    }
}

impl From<u16> for PortRange {
    fn from(port: u16) -> Self {
        Self {
            low: port,
            high: port,
        }
    }
}

fn parse_item(item: &str) -> Option<PortRange> {
    if let Ok(port) = item.parse::<u16>() {
        return Some(port.into());
    }
    let (low, high) = item.split_once('-')?;
    let (low, high) = (low.parse().ok()?, high.parse().ok()?);
    (low <= high).then_some(PortRange { low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(list: &str, has: &[u16], has_not: &[u16], bad: &[&str]) {
        let (set, left_out) = PortSet::parse(list, |name| {
            (name == "web" || name == "a-b").then_some(8080)
        });
        for port in has {
            assert!(set.contains(*port), "{list:?} lacks {port}");
        }
        for port in has_not {
            assert!(!set.contains(*port), "{list:?} has {port}");
        }
        assert_eq!(left_out, bad, "{list:?}");
    }

    #[test]
    fn lists_are_numbers_ranges_and_names() {
        check("25,443", &[25, 443], &[26], &[]);
        check(" 25 , 3000-3010,", &[25, 3000, 3010], &[3011], &[]);
        check("web", &[8080], &[80], &[]);
        check("a-b", &[8080], &[80], &[]);
        check("+80,0081", &[80, 81], &[], &[]);
        check("", &[], &[80], &[]);
    }

    #[test]
    fn bad_items_cost_only_themselves() {
        check(
            "80,bad,99999,5-1,1_0, 7 - 9,,81",
            &[80, 81],
            &[5, 7],
            &["bad", "99999", "5-1", "1_0", "7 - 9", ""],
        );
    }

    #[test]
    fn a_set_is_written_as_the_list_it_is_read_from() {
        for (list, written) in [("4444, 25,443-447,25", "25,443-447,4444"), ("", "")] {
            assert_eq!(PortSet::parse(list, |_| None).0.to_string(), written);
        }
    }

    #[test]
    fn a_wide_range_stays_one_range() {
        let (set, _) = PortSet::parse("1024-65535", |_| None);
        assert_eq!(set.0.len(), 1);
    }
}
