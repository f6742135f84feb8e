//! Endpoints of linked clusters that are withheld from clients: since contact with their cluster has been lost for too
//! long, or since the cluster is being drained.
//!
//! Never the last ones: what would leave a client without any endpoint is not withheld. One rule for every front-end, since
//! all of them are answered by [`select`](super::select()).

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use super::select::{Candidate, Exclusion};

/// The whole of a cluster, in thousandths.
const WHOLE: u16 = 1000;

/// How much of a cluster's endpoints is withheld, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    per_mille: u16,
    why: Withholding,
}

/// Why endpoints of a cluster are withheld.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Withholding {
    /// Contact with the cluster has been lost for longer than is tolerated.
    #[default]
    OutOfContact,
    /// Somebody has asked for it.
    Draining,
}

// === impl Withheld ===

impl Withheld {
    /// Nothing is withheld.
    pub const NOTHING: Self = Self {
        per_mille: 0,
        why: Withholding::OutOfContact,
    };

    /// Everything is.
    pub fn all(why: Withholding) -> Self {
        Self {
            per_mille: WHOLE,
            why,
        }
    }

    /// So many thousandths of the endpoints, always the same ones; more of them contain all of fewer.
    pub fn part(per_mille: u16, why: Withholding) -> Self {
        match per_mille.min(WHOLE) {
            0 => Self::NOTHING,
            per_mille => Self { per_mille, why },
        }
    }

    /// How much, in thousandths.
    pub fn per_mille(self) -> u16 {
        self.per_mille
    }

    /// Why; of no meaning if nothing is withheld.
    pub fn why(self) -> Withholding {
        self.why
    }

    fn has(self, socket: SocketAddr) -> bool {
        let digest = match socket.ip() {
            IpAddr::V4(ip) => xxh3_64(&ip.octets()),
            IpAddr::V6(ip) => xxh3_64(&ip.octets()),
        };
        digest % u64::from(WHOLE) < u64::from(self.per_mille)
    }
}

/// Leaves out what is withheld, unless nothing would be left. The ranges are those of the clusters that it is about.
pub(super) fn withhold(candidates: &mut [Candidate], clusters: &[(Range<usize>, Withheld)]) {
    let mut excluded = Vec::new();
    for (range, withheld) in clusters {
        for at in range.clone() {
            let candidate = &candidates[at];
            if candidate.excluded.is_none() && withheld.has(candidate.endpoint.socket) {
                excluded.push((at, withheld.why));
            }
        }
    }
    let served = candidates.iter().filter(|known| known.excluded.is_none());
    if served.count() > excluded.len() {
        for (at, why) in excluded {
            candidates[at].excluded = Some(Exclusion::Withheld(why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Change;
    use crate::testing::{World, cluster, describe, home, service, slice};

    fn withheld(cluster: &str, withheld: Withheld) -> Change {
        Change::Withheld {
            cluster: cluster.into(),
            withheld,
        }
    }

    /// `shop/web` with one endpoint at home, if `home` says so, and one in each of two clusters.
    fn world(at_home: bool) -> World {
        let mut world = World::default();
        let federated = service("shop/web")
            .port(80, "http")
            .federated("web-here", "web@east,web@west");
        let here = slice("h").of("shop/web-here").endpoint("10.0.0.1");
        let here = if at_home { here } else { here.not_ready() };
        let local = service("shop/web-here").port(80, "http");
        world.say(home().begins_with([federated.object(), local.object(), here.object()]));
        for (name, ip) in [("east", "10.1.0.1"), ("west", "10.2.0.1")] {
            let there = slice("s").in_cluster(name).endpoint(ip);
            let web = service("shop/web").port(80, "http");
            world.say(cluster(name).begins_with([web.object(), there.object()]));
        }
        world
    }

    fn check(world: &World, expected: &str) {
        assert_eq!(describe(&world.view("shop/web", 80)), expected);
    }

    #[test]
    fn what_is_withheld_comes_back_when_it_is_not() {
        let mut world = world(true);
        let all = "10.0.0.1:8080, 10.1.0.1:8080@east, 10.2.0.1:8080@west";
        check(&world, all);
        let stale = Withheld::all(Withholding::OutOfContact);
        world.say([withheld("east", stale)]);
        assert_eq!(world.touched_services(), "shop/web");
        check(&world, "10.0.0.1:8080, 10.2.0.1:8080@west");
        // It stays so for the next session, and goes with the link.
        let web = service("shop/web").port(80, "http");
        let there = slice("s").in_cluster("east").endpoint("10.1.0.1");
        let again = cluster("east").session(9);
        world.say(again.begins_with([web.object(), there.object()]));
        check(&world, "10.0.0.1:8080, 10.2.0.1:8080@west");
        world.say([withheld("east", Withheld::NOTHING)]);
        check(&world, all);
    }

    #[test]
    fn the_last_endpoints_are_never_withheld() {
        let mut world = world(false);
        let stale = Withheld::all(Withholding::OutOfContact);
        world.say([withheld("east", stale)]);
        check(&world, "10.2.0.1:8080@west");
        world.say([withheld("west", Withheld::all(Withholding::Draining))]);
        check(&world, "10.1.0.1:8080@east, 10.2.0.1:8080@west");
    }

    #[test]
    fn the_home_cluster_is_never_withheld() {
        let mut world = world(true);
        world.say([withheld("home", Withheld::all(Withholding::Draining))]);
        assert_eq!(world.touched_services(), "");
    }

    #[test]
    fn more_contains_all_of_less() {
        let sockets: Vec<SocketAddr> = (0..4000_u32)
            .map(|number| SocketAddr::from((number.to_be_bytes(), 80)))
            .collect();
        let mut before = 0;
        for per_mille in [1, 100, 500, 999, 1000] {
            let part = Withheld::part(per_mille, Withholding::Draining);
            let less = Withheld::part(per_mille - 1, Withholding::Draining);
            let has = sockets.iter().filter(|socket| part.has(**socket)).count();
            assert!(
                sockets
                    .iter()
                    .all(|socket| part.has(*socket) || !less.has(*socket))
            );
            assert!(has > before, "{per_mille}: {has} of {}", sockets.len());
            before = has;
        }
        assert_eq!(before, sockets.len());
        assert_eq!(Withheld::part(0, Withholding::Draining), Withheld::NOTHING);
    }
}
