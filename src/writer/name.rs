//! Names of slices: functions of what is written, so that nobody has to remember them.

use crate::model::{AddressFamily, ClusterName, ServiceName, Text, Uid};

/// Version of what copies look like. Another one would give every copy another name.
pub(super) const FORMAT: &str = "1";

/// Characters of the Service's name that are kept.
const SERVICE_MAX: usize = 100;
/// Characters of the cluster's name that are kept.
const CLUSTER_MAX: usize = 40;
/// Characters of the hash, of five bits each.
const HASH_LENGTH: usize = 10;
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// What a copy is a copy of, and for whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    /// The home Service.
    pub(super) service: &'a ServiceName,
    /// The cluster that has the slice.
    pub(super) cluster: &'a ClusterName,
    /// The Service there.
    pub(super) member: &'a ServiceName,
    /// The slice's name.
    pub(super) slice: &'a Text,
    /// Its address family, which no object can change.
    pub(super) family: AddressFamily,
}

// === impl Subject ===

impl Subject<'_> {
    /// The copy's name: readable, then a hash of everything that matters. Another `salt` gives another name.
    ///
    /// A DNS subdomain below 253 characters. Must not change from release to release.
    pub(super) fn name(&self, salt: &str) -> Text {
        let parts = [
            FORMAT,
            self.service.namespace.as_str(),
            &self.service.name,
            self.cluster.as_str(),
            self.member.namespace.as_str(),
            &self.member.name,
            self.slice,
            self.family.as_str(),
            salt,
        ];
        let service = cut(&self.service.name, SERVICE_MAX);
        let cluster = cut(self.cluster.as_str(), CLUSTER_MAX);
        format!("{service}-{cluster}-{}", hash(&parts)).into()
    }
}

/// The name of a slice that lists ExternalWorkloads for a Service, the one of this number. Begins as the names do that Linkerd's
/// controller gives.
///
/// A DNS subdomain below 253 characters. Must not change from release to release.
pub(super) fn of_workloads(service: &ServiceName, uid: &Uid, number: u32) -> Text {
    let (uid, number) = (uid.to_string(), number.to_string());
    let namespace = service.namespace.as_str();
    let hash = hash(&[FORMAT, namespace, &service.name, &uid, &number]);
    format!(
        "linkerd-external-{}-{hash}",
        cut(&service.name, SERVICE_MAX)
    )
    .into()
}

/// The beginning of a name, without punctuation at its end.
fn cut(name: &str, max: usize) -> String {
    let lower: String = name
        .chars()
        .take(max)
        .map(|c| match c {
            'a'..='z' | '0'..='9' | '-' | '.' => c,
            'A'..='Z' => c.to_ascii_lowercase(),
            _ => '-',
        })
        .collect();
    lower
        .trim_matches(['-', '.'])
        .replace("..", "--")
        .replace(".-", "--")
        .replace("-.", "--")
}

/// Fifty bits of FNV-1a over the parts, each ended by a zero byte, with the finish of `MurmurHash3` for even bits.
fn hash(parts: &[&str]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        for byte in part.bytes().chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    (0..HASH_LENGTH)
        .map(|place| {
            let digit = (hash >> (64 - 5 * (place + 1))) & 31;
            char::from(ALPHABET[usize::try_from(digit).unwrap_or_default()])
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(service: &str, cluster: &str, slice: &str, salt: &str) -> String {
        let service = ServiceName::new("shop", service);
        let subject = Subject {
            service: &service,
            cluster: &cluster.into(),
            member: &ServiceName::new("shop", "web"),
            slice: &slice.into(),
            family: AddressFamily::V4,
        };
        subject.name(salt).to_string()
    }

    #[test]
    fn names_stay_the_same_from_release_to_release() {
        assert_eq!(
            name("web-federated", "west", "web-x7k2p", ""),
            "web-federated-west-n2b5tvky7e"
        );
        assert_eq!(
            name("web-federated", "west", "web-x7k2p", "1"),
            "web-federated-west-7xebqqh4hq"
        );
        assert_eq!(
            name("web-west", "west", "web-x7k2p", ""),
            "web-west-west-k3p7qt6jo5"
        );
    }

    #[test]
    fn slices_of_workloads_are_numbered() {
        let named = |uid: &str, number| {
            let service = ServiceName::new("shop", "vm");
            of_workloads(&service, &Uid::from(uid), number).to_string()
        };
        let first = named("uid-1", 0);
        assert_eq!(first, "linkerd-external-vm-t6sr46qm5g");
        assert_ne!(first, named("uid-1", 1));
        assert_ne!(first, named("uid-2", 0));
    }

    #[test]
    fn names_are_short_enough_and_end_no_part_with_punctuation() {
        let long = format!("{}-{}", "s".repeat(99), "t".repeat(60));
        let cluster = format!("{}.{}", "c".repeat(39), "d".repeat(24));
        let named = name(&long, &cluster, &"x".repeat(253), "");
        let parts: Vec<_> = named.split('-').collect();
        assert_eq!(parts[0], "s".repeat(99));
        assert_eq!(parts[1], "c".repeat(39));
        assert_eq!(parts[2].len(), HASH_LENGTH);
        assert!(named.len() <= 253);
    }

    #[test]
    fn what_is_cut_off_still_counts() {
        let (one, two) = ("s".repeat(120), "s".repeat(121));
        assert_ne!(name(&one, "west", "x", ""), name(&two, "west", "x", ""));
        assert_ne!(name("a", "b", "cd", ""), name("a", "b", "c", "d"));
    }
}
