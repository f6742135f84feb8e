//! Who claims which address within one cluster.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::model::{ExternalWorkloadName, PodName, ServiceName};

/// Claims by address. Most addresses have one, which is kept without another allocation.
#[derive(Debug, Default)]
pub(super) struct Claims(HashMap<IpAddr, Claimed>);

/// A claim to an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// It is a cluster IP of this Service.
    Service(ServiceName),
    /// It is an address of this Pod, or of the Node where the Pod has a host port.
    Pod(PodName),
    /// It is an address of this ExternalWorkload.
    External(ExternalWorkloadName),
}

#[derive(Debug)]
enum Claimed {
    By(Claim),
    /// By several, in order, without duplicates.
    BySeveral(Vec<Claim>),
}

// === impl Claims ===

impl Claims {
    /// Moves a claim from some addresses to others; either list may repeat itself.
    pub(super) fn replace(&mut self, claim: &Claim, before: &[IpAddr], after: &[IpAddr]) {
        for ip in before.iter().filter(|ip| !after.contains(ip)) {
            self.remove(*ip, claim);
        }
        for ip in after.iter().filter(|ip| !before.contains(ip)) {
            self.add(*ip, claim);
        }
    }

    /// Every address that is claimed, in no particular order.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.0.keys().copied()
    }

    /// Services that claim an address, in name order.
    pub(super) fn services(&self, ip: IpAddr) -> impl Iterator<Item = &ServiceName> {
        self.claims(ip).iter().filter_map(|claim| match claim {
            Claim::Service(service) => Some(service),
            Claim::Pod(_) | Claim::External(_) => None,
        })
    }

    /// Pods that claim an address, in name order.
    pub(super) fn pods(&self, ip: IpAddr) -> impl Iterator<Item = &PodName> {
        self.claims(ip).iter().filter_map(|claim| match claim {
            Claim::Pod(pod) => Some(pod),
            Claim::Service(_) | Claim::External(_) => None,
        })
    }

    /// ExternalWorkloads that claim an address, in name order.
    pub(super) fn external(&self, ip: IpAddr) -> impl Iterator<Item = &ExternalWorkloadName> {
        self.claims(ip).iter().filter_map(|claim| match claim {
            Claim::External(workload) => Some(workload),
            Claim::Service(_) | Claim::Pod(_) => None,
        })
    }

    fn claims(&self, ip: IpAddr) -> &[Claim] {
        match self.0.get(&ip) {
            None => &[],
            Some(Claimed::By(claim)) => std::slice::from_ref(claim),
            Some(Claimed::BySeveral(claims)) => claims,
        }
    }

    fn add(&mut self, ip: IpAddr, claim: &Claim) {
        let claims = match self.0.remove(&ip) {
            None => Claimed::By(claim.clone()),
            Some(Claimed::By(known)) if known == *claim => Claimed::By(known),
            Some(Claimed::By(known)) => {
                let mut claims = vec![known, claim.clone()];
                claims.sort_unstable();
                Claimed::BySeveral(claims)
            }
            Some(Claimed::BySeveral(mut claims)) => {
                if let Err(place) = claims.binary_search(claim) {
                    claims.insert(place, claim.clone());
                }
                Claimed::BySeveral(claims)
            }
        };
        self.0.insert(ip, claims);
    }

    fn remove(&mut self, ip: IpAddr, claim: &Claim) {
        match self.0.get_mut(&ip) {
            Some(Claimed::By(known)) if known == claim => {
                self.0.remove(&ip);
            }
            Some(Claimed::BySeveral(claims)) => {
                claims.retain(|known| known != claim);
                if let [last] = &claims[..] {
                    let last = Claimed::By(last.clone());
                    self.0.insert(ip, last);
                }
            }
            Some(Claimed::By(_)) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn pod(name: &str) -> Claim {
        Claim::Pod(PodName::new("shop", name))
    }

    fn check(claims: &Claims, address: &str, expected: &str) {
        let names: Vec<_> = claims
            .pods(ip(address))
            .map(|pod| pod.name.as_str())
            .collect();
        assert_eq!(names.join(" "), expected, "{address}");
    }

    #[test]
    fn claims_are_kept_in_order_and_leave_nothing_behind() {
        let mut claims = Claims::default();
        let (one, two) = ([ip("10.0.0.1")], [ip("10.0.0.2"), ip("10.0.0.2")]);
        for name in ["c", "a", "b", "a"] {
            claims.replace(&pod(name), &[], &one);
        }
        check(&claims, "10.0.0.1", "a b c");
        claims.replace(&pod("b"), &one, &two);
        check(&claims, "10.0.0.1", "a c");
        check(&claims, "10.0.0.2", "b");
        claims.replace(&pod("b"), &two, &[]);
        claims.replace(&pod("x"), &one, &[]);
        claims.replace(&pod("c"), &one, &[]);
        check(&claims, "10.0.0.1", "a");
        claims.replace(&pod("a"), &one, &[]);
        assert_eq!(claims.addresses().count(), 0);
    }

    #[test]
    fn services_and_pods_are_told_apart() {
        let mut claims = Claims::default();
        let service = Claim::Service(ServiceName::new("shop", "web"));
        claims.replace(&pod("web"), &[], &[ip("10.0.0.1")]);
        claims.replace(&service, &[], &[ip("10.0.0.1")]);
        check(&claims, "10.0.0.1", "web");
        assert_eq!(claims.services(ip("10.0.0.1")).count(), 1);
    }
}
