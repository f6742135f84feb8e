//! What people write, as it is meant.

use std::net::IpAddr;

use crate::answer::length;

/// A text that is there and not empty.
pub(super) fn filled(text: Option<&'static str>) -> Option<&'static str> {
    text.filter(|text| !text.is_empty())
}

/// A number that can be a port.
pub(super) fn port(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|port| *port > 0)
}

pub(super) fn ip(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

/// Whether a list of ports has one. Items are names that somebody has given to ports, numbers, and ranges of numbers; one
/// that is none of these costs only itself.
pub(super) fn lists_port(list: &str, port: u16, named: &[(&str, u16)]) -> bool {
    list.split(',').map(str::trim).any(|item| {
        if item.is_empty() {
            return false;
        }
        if let Some((_, number)) = named.iter().find(|(name, _)| *name == item) {
            return *number == port;
        }
        let (low, high) = item.split_once('-').unwrap_or((item, item));
        match (low.parse::<u16>(), high.parse::<u16>()) {
            (Ok(low), Ok(high)) => low <= port && port <= high,
            _ => false,
        }
    })
}

/// The members that the annotation of a federated Service names, as cluster and Service: each once, in order. White space
/// around names means nothing; an item without exactly one `@` is no member.
pub(super) fn members(list: &str) -> Vec<(&str, &str)> {
    let mut members: Vec<(&str, &str)> = Vec::new();
    for item in list.split(',') {
        let parts: Vec<&str> = item.split('@').map(str::trim).collect();
        if let [service, cluster] = parts[..]
            && !members.contains(&(cluster, service))
        {
            members.push((cluster, service));
        }
    }
    members.sort_unstable();
    members
}

/// The port of an address that a proxy listens on; nothing but an address will do before it.
pub(super) fn listen_port(text: Option<&str>) -> Option<u16> {
    let (host, port) = text?.rsplit_once(':')?;
    let is_address = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(host) => {
            let (host, _zone) = host.split_once('%').unwrap_or((host, ""));
            ip(host).is_some_and(|ip| ip.is_ipv6())
        }
        None => ip(host).is_some_and(|ip| ip.is_ipv4()),
    };
    port.parse().ok().filter(|_| is_address)
}

/// A duration of one number and one unit, which is enough here; an empty text is none.
pub(super) fn duration(text: &str) -> Option<i64> {
    let units = [("ms", 1_000_000), ("s", 1_000_000_000)];
    if text == "0" {
        return Some(0);
    }
    units
        .into_iter()
        .find_map(|(unit, nanos)| Some(text.strip_suffix(unit)?.parse::<i64>().ok()? * nanos))
}

/// A duration in words, unless it is zero.
pub(super) fn told_duration(nanos: i64) -> Option<String> {
    (nanos != 0).then(|| length(0, nanos))
}

/// A weight in ten-thousandths; one below zero is zero.
pub(super) fn weight(text: &str) -> Option<u32> {
    let (number, scale) = match text.strip_suffix('m') {
        Some(number) => (number, 10),
        None => match text.strip_suffix('k') {
            Some(number) => (number, 10_000_000),
            None => (text, 10_000),
        },
    };
    let weight = number.parse::<i64>().ok()? * scale;
    u32::try_from(weight.max(0)).ok()
}
