//! What each client address has open, so that one cannot have everything.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// The addresses that have streams open. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Peers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: Limits,
    by_ip: Mutex<HashMap<IpAddr, Usage>>,
}

/// What one address may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) streams: usize,
    /// Names of all its streams, taken together.
    pub(super) names: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    streams: usize,
    names: usize,
}

/// One stream's part in what its address has. Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    peers: Peers,
    /// None for clients in this process.
    ip: Option<IpAddr>,
    names: usize,
}

/// A limit that was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub(super) enum Full {
    #[error("{0} streams are open, which is the limit")]
    Streams(usize),
    #[error("{0} streams are open from one address, which is the limit")]
    PeerStreams(usize),
    #[error("a stream may subscribe to {0} names")]
    Names(usize),
    #[error("the streams of one address may subscribe to {0} names")]
    PeerNames(usize),
}

// === impl Peers ===

impl Peers {
    pub(super) fn new(limits: Limits) -> Self {
        Self(Arc::new(Shared {
            limits,
            by_ip: Mutex::default(),
        }))
    }

    /// Counts a stream, if there may be one more.
    pub(super) fn open(&self, ip: Option<IpAddr>) -> Result<Share, Full> {
        let ip = ip.map(|ip| ip.to_canonical());
        if let Some(ip) = ip {
            let mut by_ip = self.0.by_ip.lock();
            let usage = by_ip.entry(ip).or_default();
            if usage.streams >= self.0.limits.streams {
                return Err(Full::PeerStreams(self.0.limits.streams));
            }
            usage.streams += 1;
        }
        Ok(Share {
            peers: self.clone(),
            ip,
            names: 0,
        })
    }
}

// === impl Share ===

impl Share {
    /// Whose it is.
    pub(super) fn ip(&self) -> Option<IpAddr> {
        self.ip
    }

    /// Counts the names of the stream, if there may be so many; how many were counted before does not matter.
    pub(super) fn set_names(&mut self, names: usize) -> Result<(), Full> {
        if names == self.names {
            return Ok(());
        }
        if let Some(ip) = self.ip {
            let limits = &self.peers.0.limits;
            let mut by_ip = self.peers.0.by_ip.lock();
            let usage = by_ip.entry(ip).or_default();
            let total = usage.names.saturating_sub(self.names) + names;
            if names > self.names && total > limits.names {
                return Err(Full::PeerNames(limits.names));
            }
            usage.names = total;
        }
        self.names = names;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Some(ip) = self.ip else {
            return;
        };
        let mut by_ip = self.peers.0.by_ip.lock();
        if let Entry::Occupied(mut entry) = by_ip.entry(ip) {
            let usage = entry.get_mut();
            usage.streams = usage.streams.saturating_sub(1);
            usage.names = usage.names.saturating_sub(self.names);
            if usage.streams == 0 {
                entry.remove();
            }
        }
    }
}

// === impl Full ===

impl Full {
    /// As metrics name it.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Streams(_) => "streams",
            Self::PeerStreams(_) => "peer_streams",
            Self::Names(_) => "names",
            Self::PeerNames(_) => "peer_names",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers() -> Peers {
        Peers::new(Limits {
            streams: 2,
            names: 10,
        })
    }

    fn ip(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    #[test]
    fn one_address_does_not_take_what_others_may_have() {
        let peers = peers();
        let one = peers.open(ip("10.0.0.1")).unwrap();
        let mapped = peers.open(ip("::ffff:10.0.0.1")).unwrap();
        let refused = peers.open(ip("10.0.0.1")).unwrap_err();
        assert_eq!(refused, Full::PeerStreams(2));
        peers.open(ip("10.0.0.2")).unwrap();
        drop(mapped);
        peers.open(ip("10.0.0.1")).unwrap();
        drop(one);
        assert!(peers.0.by_ip.lock().is_empty(), "nothing is left behind");
    }

    #[test]
    fn names_count_over_all_streams_of_an_address() {
        let peers = peers();
        let mut one = peers.open(ip("10.0.0.1")).unwrap();
        let mut two = peers.open(ip("10.0.0.1")).unwrap();
        one.set_names(6).unwrap();
        one.set_names(7).unwrap();
        assert_eq!(two.set_names(4).unwrap_err(), Full::PeerNames(10));
        two.set_names(3).unwrap();
        one.set_names(1).unwrap();
        two.set_names(9).unwrap();
        drop(one);
        two.set_names(10).unwrap();
        let mut inside = peers.open(None).unwrap();
        inside.set_names(1000).unwrap();
    }
}
