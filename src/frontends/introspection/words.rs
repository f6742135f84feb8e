//! What became of endpoints, in words for operators.

use crate::index::{
    Candidate, Exclusion, ExplainedMember, ExplainedSlice, Held, Joined, Rule, Silence, ViewKey,
    Withheld, Withholding,
};
use crate::model::{Backing, Endpoint, Membership, ServiceFacts};
use crate::proto::tributary_v1 as pb;

/// What is odd about an endpoint that is served; usually nothing.
pub(super) fn served_note(joined: &Joined) -> String {
    match joined {
        Joined::Unreadable => "Pods of this cluster may not be read: no identity".to_owned(),
        Joined::Address | Joined::Pod(_) | Joined::ExternalWorkload(_) | Joined::Held(_) => {
            String::new()
        }
    }
}

/// Why an endpoint is not served.
pub(super) fn excluded_note(reason: Exclusion, endpoint: &Endpoint) -> String {
    let conditions = endpoint.conditions;
    match reason {
        Exclusion::NotReady if conditions.terminating && conditions.serving => {
            "draining (terminating, serving)"
        }
        Exclusion::NotReady if conditions.terminating => "terminating",
        Exclusion::NotReady => "not ready",
        Exclusion::Held(Held::PodUnknown) => "the Pod it names does not exist",
        Exclusion::Held(Held::PodFinished) => "the Pod it names has finished",
        Exclusion::Held(Held::PodWithoutAddress) => "the Pod it names has no address yet",
        Exclusion::Held(Held::ExternalWorkloadUnknown) => {
            "the ExternalWorkload it names is not known (they are read in the home cluster only)"
        }
        Exclusion::ProxyUnreadable => {
            "meshed, but the ports of its linkerd-proxy container cannot be read"
        }
        Exclusion::OtherInstance => "another instance",
        Exclusion::OtherNode => "on another node (internalTrafficPolicy: Local)",
        Exclusion::OtherZone => "meant for other zones (hints)",
        Exclusion::OtherFamily => "its workload is served by the address of the other family",
        Exclusion::Withheld(Withholding::OutOfContact) => {
            "withheld: contact with its cluster is lost for longer than --remote-staleness-ttl"
        }
        Exclusion::Withheld(Withholding::Draining) => "withheld: its cluster is being drained",
        Exclusion::Duplicate => "another endpoint has the same address",
    }
    .to_owned()
}

/// Why some or all of a cluster is withheld; nothing if nothing is.
pub(super) fn withheld(withheld: Withheld) -> String {
    if withheld == Withheld::NOTHING {
        return String::new();
    }
    match withheld.why() {
        Withholding::OutOfContact => {
            "contact is lost for longer than --remote-staleness-ttl".to_owned()
        }
        Withholding::Draining => "annotation tributary.dev/drain of its Secret".to_owned(),
    }
}

/// How a Service says where its endpoints are.
pub(super) fn service(facts: &ServiceFacts) -> String {
    match &facts.membership {
        Membership::Local => "its own EndpointSlices".to_owned(),
        Membership::Remote(remote) => match &remote.service {
            Some(service) => format!("its labels name {service}@{}", remote.cluster),
            None => "its label multicluster.linkerd.io/remote-service is missing".to_owned(),
        },
        Membership::Federated(federation) => {
            let local = federation.local.iter().map(ToString::to_string);
            let remote = federation.remote.iter();
            let remote = remote.map(|(cluster, service)| format!("{service}@{cluster}"));
            let members: Vec<_> = local.chain(remote).collect();
            if members.is_empty() {
                return "federated: its annotations name no member".to_owned();
            }
            format!("federated: its annotations name {}", members.join(", "))
        }
    }
}

/// Why a member contributes nothing.
pub(super) fn silence(silence: Silence) -> &'static str {
    match silence {
        Silence::Syncing => "not read yet: it contributes nothing so far",
        Silence::NotLinked => "not linked: it contributes nothing",
        Silence::NoService => "the cluster has no such Service",
        Silence::ExternalName => "of type ExternalName, which cannot be federated",
    }
}

/// What became of the port in a slice.
pub(super) fn port(slice: &ExplainedSlice<'_>, number: u16) -> String {
    match (slice.port_name, slice.port) {
        (Some(name), Some(port)) if name.is_empty() => format!("port {number} → {port}"),
        (Some(name), Some(port)) => format!("port {name} → {port}"),
        (None, Some(_)) => format!("port {number}, which the Service does not define"),
        (Some(name), None) => {
            let ports = slice.chunk.facts.ports.iter();
            let has: Vec<_> = ports
                .map(|port| format!("{:?}", port.name.as_str()))
                .collect();
            match &has[..] {
                [] => "has no ports".to_owned(),
                has => format!(
                    "has no port named {:?}, only {}",
                    name.as_str(),
                    has.join(", ")
                ),
            }
        }
        (None, None) => "has no ports".to_owned(),
    }
}

/// The rules that an endpoint was put to, up to the one that it broke.
pub(super) fn rules(
    member: &ExplainedMember<'_>,
    candidate: &Candidate,
    key: &ViewKey,
) -> Vec<pb::RuleOutcome> {
    let broken = candidate.excluded.map(Exclusion::rule);
    let mut outcomes = Vec::new();
    for rule in &member.rules {
        let failed = candidate.excluded.filter(|_| broken == Some(*rule));
        outcomes.push(pb::RuleOutcome {
            rule: rule.as_str().to_owned(),
            passed: failed.is_none(),
            reason: match failed {
                Some(why) => excluded_note(why, candidate.endpoint.endpoint()),
                None => passed(*rule, candidate, key),
            },
        });
        if failed.is_some() {
            break;
        }
    }
    outcomes
}

/// Why an endpoint passed a rule.
fn passed(rule: Rule, candidate: &Candidate, key: &ViewKey) -> String {
    let found = &candidate.endpoint;
    let endpoint = found.endpoint();
    match rule {
        Rule::Ready => "its slice says ready".to_owned(),
        Rule::Workload => match (found.joined(), &endpoint.backing) {
            (Joined::Unreadable, _) => {
                "Pods of this cluster may not be read: no identity".to_owned()
            }
            (Joined::ExternalWorkload(_), _) => "its ExternalWorkload is known".to_owned(),
            (_, Backing::Address) => "its slice names nothing behind it".to_owned(),
            (_, Backing::Pod(pod)) if found.is_vouched_for() => {
                format!("Pod {pod} has the address")
            }
            (_, Backing::Pod(pod)) => {
                format!("Pod {pod} is there, without this address: no identity")
            }
            (_, Backing::ExternalWorkload(name)) => format!("ExternalWorkload {name}"),
        },
        Rule::Instance => "it is the instance asked for".to_owned(),
        Rule::Proxy => match found.pod() {
            Some(pod) if pod.facts.template.control_plane_namespace.is_some() => {
                "meshed, and the ports of its proxy are known".to_owned()
            }
            _ => "not meshed".to_owned(),
        },
        Rule::Family => "of a family that is served".to_owned(),
        Rule::Node => "on the client's node".to_owned(),
        Rule::Hints => match (&endpoint.zone_hints, &key.zone) {
            (None, _) => "no zone hints".to_owned(),
            (Some(hints), Some(zone)) if hints.contains(zone) => format!("hinted for zone {zone}"),
            (Some(_), Some(zone)) => {
                format!(
                    "hints do not apply: not every endpoint has some, or none is for zone {zone}"
                )
            }
            (Some(_), None) => "hints do not apply: the client's zone is not known".to_owned(),
        },
        Rule::Fresh => "not withheld, or nothing else would be left".to_owned(),
        Rule::Unique => "nothing that is preferred has its address".to_owned(),
    }
}
