//! What is to be concluded from what became of endpoints, and what to do: the part of an explanation that is for people
//! who have to act.
//!
//! Commands are written so that they can be pasted; where they are about another cluster, the text says which.

use std::net::IpAddr;

use crate::index::{Candidate, Exclusion, Held, Silence, ViewKey, Withholding};
use crate::model::{Backing, Conditions, ServiceName};
use crate::proto::tributary_v1 as pb;

/// A piece of advice in the making; the smallest rank is the most important. Equal ones are given once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ranked {
    rank: u8,
    meaning: String,
    action: String,
}

/// What is known of a member when its endpoints are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'a> {
    /// Its cluster.
    pub(super) cluster: &'a str,
    /// The Service there.
    pub(super) service: &'a ServiceName,
    /// Whether contact with the cluster is lost.
    pub(super) stale: bool,
}

// === impl Ranked ===

impl Ranked {
    pub(super) fn new(rank: u8, meaning: impl Into<String>, action: impl Into<String>) -> Self {
        Self {
            rank,
            meaning: meaning.into(),
            action: action.into(),
        }
    }
}

/// In order, without repetitions.
pub(super) fn finish(mut all: Vec<Ranked>) -> Vec<pb::Advice> {
    all.sort();
    all.dedup();
    all.into_iter()
        .map(|advice| pb::Advice {
            meaning: advice.meaning,
            action: advice.action,
        })
        .collect()
}

/// About a member that contributes nothing.
pub(super) fn on_silence(silence: Silence, at: Context<'_>) -> Ranked {
    let Context {
        cluster, service, ..
    } = at;
    let ServiceName { namespace, name } = service;
    match silence {
        Silence::Syncing => Ranked::new(
            0,
            format!(
                "Cluster {cluster} has not been read since we started, so none of its endpoints is known."
            ),
            "Look at why: `tributary clusters`.",
        ),
        Silence::NotLinked => Ranked::new(
            0,
            format!(
                "The Service names cluster {cluster}, and no Secret links a cluster of that name."
            ),
            format!(
                "Link it (`linkerd multicluster link-gen --cluster-name {cluster}`), or correct the name on the Service; \
                 `tributary clusters` lists those that are linked."
            ),
        ),
        Silence::NoService => Ranked::new(
            1,
            format!(
                "Cluster {cluster} has no Service {namespace}/{name}, so it has no endpoints to contribute."
            ),
            format!("In cluster {cluster}: kubectl -n {namespace} get service {name}"),
        ),
        Silence::ExternalName => Ranked::new(
            1,
            format!(
                "{namespace}/{name} in cluster {cluster} is of type ExternalName, which has no endpoints."
            ),
            "Make it a Service with a selector, or take it out of the federated Service.",
        ),
    }
}

/// About a slice without the port that is asked for.
pub(super) fn on_port(slice: &str, key: &ViewKey, at: Context<'_>) -> Ranked {
    let (port, cluster) = (key.port, at.cluster);
    let ServiceName { namespace, name } = at.service;
    Ranked::new(
        2,
        format!(
            "EndpointSlice {slice} of cluster {cluster} does not have port {port} of the Service, so its endpoints are for other ports."
        ),
        format!(
            "If it should have it, compare the port's name and targetPort with the containers' ports. In cluster {cluster}: \
             kubectl -n {namespace} get service {name} -o yaml"
        ),
    )
}

/// About an endpoint that is not in the answer; `None` if nobody has to do anything.
pub(super) fn on_candidate(
    candidate: &Candidate,
    key: &ViewKey,
    at: Context<'_>,
) -> Option<Ranked> {
    let why = candidate.excluded?;
    let endpoint = candidate.endpoint.endpoint();
    let object = match &endpoint.backing {
        Backing::Address => None,
        Backing::Pod(pod) => Some(("pod", pod.namespace.to_string(), pod.name.to_string())),
        Backing::ExternalWorkload(name) => Some((
            "externalworkload",
            candidate.endpoint.slice().service.namespace.to_string(),
            name.to_string(),
        )),
    };
    let kubectl = |verb: &str| match &object {
        Some((kind, namespace, name)) => {
            format!(
                "In cluster {}: kubectl -n {namespace} {verb} {kind} {name}",
                at.cluster
            )
        }
        None => format!(
            "In cluster {}: kubectl -n {} get endpointslice {} -o yaml",
            at.cluster,
            candidate.endpoint.slice().service.namespace,
            candidate.endpoint.slice_name(),
        ),
    };
    let what = match &object {
        Some((_, namespace, name)) => format!("{namespace}/{name}"),
        None => candidate.endpoint.socket.to_string(),
    };
    Some(match why {
        Exclusion::NotReady => not_ready(&what, endpoint.conditions, at, &kubectl("describe")),
        Exclusion::Held(held) => on_held(held, &what, at, &kubectl("get")),
        Exclusion::ProxyUnreadable => Ranked::new(
            2,
            format!("{what} is labelled as meshed and its linkerd-proxy container does not say where it listens: a client would not know how to reach it."),
            format!("Restart it, so that a proxy is injected as it should be. {}", kubectl("get")),
        ),
        Exclusion::OtherInstance => Ranked::new(
            5,
            "You asked for one instance; other endpoints of the Service are others.",
            "Ask for the whole Service: leave the first part of the name out.",
        ),
        Exclusion::OtherNode => Ranked::new(
            4,
            match &key.node {
                Some(node) => format!("The Service has internalTrafficPolicy: Local, and {what} is not on node {node}."),
                None => "The Service has internalTrafficPolicy: Local, and it is not known on which node the client is.".to_owned(),
            },
            "Look from a client's node with --node; or set internalTrafficPolicy: Cluster on the Service.",
        ),
        Exclusion::OtherZone => Ranked::new(
            4,
            match &key.zone {
                Some(zone) => format!("Zone hints keep clients in zone {zone} to the endpoints that are meant for it, and {what} is meant for another."),
                None => format!("Zone hints give {what} to other clients."),
            },
            "Usually nothing. To have clients use every zone, take trafficDistribution, or the annotation service.kubernetes.io/topology-mode, off the Service.",
        ),
        Exclusion::OtherFamily => Ranked::new(
            6,
            format!("Each workload is served by one address, and {what} is by one of the other IP family."),
            "Nothing; --enable-ipv6 of the server decides which.",
        ),
        Exclusion::Withheld(Withholding::OutOfContact) => Ranked::new(
            0,
            format!("Contact with cluster {} is lost for longer than --remote-staleness-ttl, and others are left.", at.cluster),
            "Restore the connection: `tributary clusters` says what is wrong with it. The endpoints come back at once.",
        ),
        Exclusion::Withheld(Withholding::Draining) => Ranked::new(
            3,
            format!("Cluster {} is being drained, and others are left.", at.cluster),
            format!(
                "If it should not be, take the annotation off the Secret that links it: kubectl -n linkerd annotate secret \
                 -l multicluster.linkerd.io/cluster-name={} tributary.dev/drain-",
                at.cluster
            ),
        ),
        Exclusion::Duplicate => Ranked::new(
            1,
            format!("Another endpoint of the answer has the address {}. One of them is believed: the home cluster's, then that of the first cluster by name.", candidate.endpoint.socket),
            "If they are in different clusters, give these Pod ranges that do not overlap: `tributary check` names them. Within one cluster it is the same endpoint in two slices.",
        ),
    })
}

fn not_ready(what: &str, conditions: Conditions, at: Context<'_>, kubectl: &str) -> Ranked {
    let cluster = at.cluster;
    if at.stale {
        return Ranked::new(
            0,
            format!(
                "{cluster} reported {what} as not ready before contact was lost; whether it has recovered cannot be known."
            ),
            format!(
                "Restore the connection to {cluster}'s API server: `tributary clusters` says what is wrong with it."
            ),
        );
    }
    if conditions.terminating {
        return Ranked::new(
            5,
            format!(
                "{what} is being deleted. It may finish what it has begun, and is given nothing new."
            ),
            format!("Nothing, unless it stays so. {kubectl}"),
        );
    }
    Ranked::new(
        2,
        format!(
            "Kubernetes does not find {what} ready: its readiness probe, or a readiness gate, says no."
        ),
        format!("Its conditions and events say why. {kubectl}"),
    )
}

fn on_held(held: Held, what: &str, at: Context<'_>, kubectl: &str) -> Ranked {
    let cluster = at.cluster;
    match held {
        Held::PodUnknown if at.stale => Ranked::new(
            0,
            format!(
                "The slice names Pod {what}, which {cluster} had not told us of when contact was lost."
            ),
            format!(
                "Restore the connection to {cluster}'s API server: `tributary clusters` says what is wrong with it."
            ),
        ),
        Held::PodUnknown => Ranked::new(
            2,
            format!(
                "The slice names Pod {what}, which {cluster} does not have. For a moment that is usual: slices and Pods are told apart."
            ),
            format!(
                "If it stays, somebody writes the slice by hand, or its controller is stuck. {kubectl}"
            ),
        ),
        Held::PodFinished => Ranked::new(
            2,
            format!("Pod {what} has finished, and its address may be another Pod's by now."),
            format!("Usually nothing: its slice drops it in a moment. {kubectl}"),
        ),
        Held::PodWithoutAddress => Ranked::new(
            3,
            format!(
                "Pod {what} is meshed and has no address yet as far as we know; served now, it would have no identity."
            ),
            format!("Usually nothing: it joins as soon as the address is known. {kubectl}"),
        ),
        Held::ExternalWorkloadUnknown => Ranked::new(
            2,
            format!(
                "The slice names ExternalWorkload {what}, which is not known. They are read in the home cluster only."
            ),
            format!("In the home cluster, see whether it exists and may be read. {kubectl}"),
        ),
    }
}

/// About an address that no slice lists, and those who have it.
pub(super) fn on_unlisted(
    ip: IpAddr,
    service: &ServiceName,
    holders: &[pb::Holder],
) -> Vec<Ranked> {
    let ServiceName { namespace, name } = service;
    if holders.is_empty() {
        return vec![Ranked::new(
            1,
            format!(
                "No EndpointSlice of {namespace}/{name} lists {ip}, and no Pod or Service that we read has it."
            ),
            "Check the address. If it belongs to a linked cluster, `tributary clusters` says whether that one is read.",
        )];
    }
    holders
        .iter()
        .map(|holder| {
            let pb::Holder {
                cluster,
                kind,
                name: owner,
                namespace: within,
            } = holder;
            let kind = kind.to_lowercase();
            Ranked::new(
                1,
                format!("No EndpointSlice of {namespace}/{name} lists {ip}. It belongs to {kind} {within}/{owner} of cluster {cluster}."),
                format!(
                    "If it should be part of it, compare its labels with the selector of the Service, in cluster {cluster}: \
                     kubectl -n {within} get {kind} {owner} --show-labels"
                ),
            )
        })
        .collect()
}
