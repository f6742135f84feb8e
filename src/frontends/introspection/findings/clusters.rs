//! Each cluster by itself: whether it is read, with which rights, for how long still, and by whose clock.

use std::time::Duration;

use super::{Facts, Finding};
use crate::index::{ClusterState, Kind};
use crate::model::ClusterRole;
use crate::proto::tributary_v1::Severity;
use crate::publish::{ClusterStatus, Connection, KindStatus, LinkInfo};

/// Credentials that end sooner than this should be renewed.
const EXPIRY_NOTICE: Duration = Duration::from_hours(14 * 24);
/// A first list that takes longer than this is looked into.
const SYNC_NOTICE: Duration = Duration::from_secs(30);
/// Clocks that differ by less are the same for every purpose: answers are dated to the second.
const SKEW_NOTICE_MILLIS: u64 = 30_000;

pub(super) fn check(facts: &Facts, cluster: &ClusterStatus, findings: &mut Vec<Finding>) {
    findings.push(connection(facts, cluster));
    rights(cluster, findings);
    unread(cluster, findings);
    if let Some(link) = &cluster.link {
        credentials(facts, cluster, link, findings);
    }
    findings.extend(clock(cluster));
}

fn connection(facts: &Facts, cluster: &ClusterStatus) -> Finding {
    let name = cluster.name.to_string();
    let summary = facts.summary(cluster);
    let served = match summary {
        Some(summary) if summary.state == ClusterState::Synced => format!(
            "Its {} endpoints are served as last known; what happens to them is not noticed.",
            summary.endpoints
        ),
        _ if cluster.role == ClusterRole::Home => {
            "Nothing can be answered until it has been read.".to_owned()
        }
        _ => "None of its endpoints is known; the other clusters are not affected.".to_owned(),
    };
    let secret = match (&cluster.link, cluster.role) {
        (Some(link), _) => format!("Secret {}", link.secret),
        (None, ClusterRole::Home) => "the kubeconfig or service account of the server".to_owned(),
        (None, ClusterRole::Linked) => "the Secret that links it".to_owned(),
    };
    match &cluster.connection {
        Connection::Connected => Finding::ok("connection", name, "in contact, every kind is watched"),
        Connection::Connecting => Finding::ok("connection", name, "being read"),
        Connection::Unreachable(reason) => Finding::new(
            Severity::Error,
            "connection",
            name,
            format!("its API server cannot be reached: {reason}"),
            served,
            format!("See whether the API server runs and can be reached from here, and whether its address in {secret} is still right. It is tried again all the time; nothing has to be restarted."),
        )
        .since(cluster.since),
        Connection::Rejected(reason) => Finding::new(
            Severity::Error,
            "connection",
            name,
            format!("it cannot be used: {reason}"),
            served,
            format!("Mend {secret}, or the rights of its account. It is used as soon as it changes; nothing has to be restarted."),
        )
        .since(cluster.since),
    }
}

/// Kinds that may not be read, each with what is missing in answers.
fn rights(cluster: &ClusterStatus, findings: &mut Vec<Finding>) {
    let name = &cluster.name;
    let mut denied = 0;
    for (kind, status, _) in &cluster.kinds {
        if *status != KindStatus::Denied {
            continue;
        }
        // Linkerd's own remote account may not read Nodes, and little is lost by it.
        let (severity, meaning) = loss(*kind);
        denied += usize::from(severity != Severity::Note);
        let resource = kind.resource();
        let manifest = match cluster.role {
            ClusterRole::Home => "rbac-read",
            ClusterRole::Linked => "rbac-linked",
        };
        findings.push(Finding::new(
            severity,
            "rights",
            name.to_string(),
            format!("{resource} may not be listed and watched"),
            meaning,
            format!("In cluster {name}, grant list and watch on {resource} to the account that is used: `deploy/{manifest}.yaml` has the rule. It is noticed within seconds."),
        ));
    }
    if denied == 0 {
        findings.push(Finding::ok(
            "rights",
            name.to_string(),
            "everything that answers need may be read",
        ));
    }
}

/// What answers go without where a kind may not be read.
fn loss(kind: Kind) -> (Severity, &'static str) {
    match kind {
        Kind::Service | Kind::EndpointSlice | Kind::Endpoints => {
            (Severity::Error, "Without it the cluster has no endpoints.")
        }
        Kind::Pod => (
            Severity::Warning,
            "Endpoints are served without identity, so without mutual TLS, and without labels.",
        ),
        Kind::Node => (
            Severity::Note,
            "Zones of clients on its nodes are not known; those of endpoints come from EndpointSlices.",
        ),
        Kind::ReplicaSet | Kind::Job => (
            Severity::Note,
            "Metrics name ReplicaSets and Jobs in place of the Deployments and CronJobs behind them.",
        ),
        Kind::ExternalWorkload => (
            Severity::Warning,
            "Endpoints that are ExternalWorkloads are not served.",
        ),
        Kind::Server => (
            Severity::Warning,
            "Ports that a Server declares opaque are guessed at by proxies.",
        ),
        Kind::ServiceProfile => (
            Severity::Warning,
            "Routes, retries and timeouts of ServiceProfiles are not applied.",
        ),
    }
}

/// Kinds whose first list does not come to an end.
fn unread(cluster: &ClusterStatus, findings: &mut Vec<Finding>) {
    let is_trying = matches!(
        cluster.connection,
        Connection::Connecting | Connection::Connected
    );
    let unread: Vec<_> = cluster
        .kinds
        .iter()
        .filter(|(_, status, _)| *status == KindStatus::Syncing)
        .map(|(kind, ..)| kind.resource())
        .collect();
    if !is_trying || unread.is_empty() || cluster.since < SYNC_NOTICE {
        return;
    }
    findings.push(
        Finding::new(
            Severity::Warning,
            "unread-kinds",
            cluster.name.to_string(),
            format!("not read yet: {}", unread.join(", ")),
            "A cluster contributes nothing before every kind has been read once.",
            "A large cluster behind a slow network may take minutes. If it does not end, the server's log at --log-level=debug says what each attempt came to.",
        )
        .since(cluster.since),
    );
}

fn credentials(
    facts: &Facts,
    cluster: &ClusterStatus,
    link: &LinkInfo,
    findings: &mut Vec<Finding>,
) {
    let name = cluster.name.to_string();
    let secret = &link.secret;
    let renew = format!(
        "Make new credentials and replace Secret {secret}, e.g. by `linkerd multicluster link-gen`: they are tried beside the old ones and taken over without a gap."
    );
    let (mut is_fine, end) = (true, link.expires);
    for (what, end) in [
        (
            format!("the {} in Secret {secret}", link.proof.as_str()),
            end,
        ),
        (
            format!("the certificate authority in Secret {secret}"),
            link.authority_expires,
        ),
    ] {
        let Some(end) = end else { continue };
        let left = end.duration_since(facts.now);
        let finding = match left {
            Err(past) => Finding::new(
                Severity::Error,
                "credentials",
                name.clone(),
                format!("{what} has expired"),
                "The API server refuses it, or soon will; the cluster is served as last known.",
                renew.clone(),
            )
            .since(past.duration()),
            Ok(left) if left < EXPIRY_NOTICE => Finding::new(
                Severity::Warning,
                "credentials",
                name.clone(),
                format!("{what} expires in {}", span(left)),
                "From then on the cluster cannot be read, and is served as last known.",
                renew.clone(),
            ),
            Ok(_) => continue,
        };
        is_fine = false;
        findings.push(finding);
    }
    if !link.is_verified {
        is_fine = false;
        findings.push(Finding::new(
            Severity::Warning,
            "credentials",
            name.clone(),
            format!("Secret {secret} says insecure-skip-tls-verify"),
            "Whoever is on the way to the API server can pose as it, read the token, and hand us endpoints.",
            format!("Put certificate-authority-data into Secret {secret} in its place."),
        ));
    }
    if is_fine {
        findings.push(Finding::ok(
            "credentials",
            name,
            format!(
                "{} of Secret {secret} (fingerprint {}) is not about to end",
                link.proof.as_str(),
                link.fingerprint
            ),
        ));
    }
}

fn clock(cluster: &ClusterStatus) -> Option<Finding> {
    let ahead = cluster.clock.ahead_millis()?;
    let name = cluster.name.to_string();
    let off = ahead.unsigned_abs();
    if off < SKEW_NOTICE_MILLIS {
        return Some(Finding::ok("clock", name, "its clock and ours agree"));
    }
    let direction = if ahead > 0 { "ahead of" } else { "behind" };
    let off = span(Duration::from_millis(off));
    Some(Finding::new(
        Severity::Warning,
        "clock",
        name,
        format!("the clock of its API server is {off} {direction} ours"),
        "Tokens and certificates may count as expired, or as not valid yet, and lag is measured wrongly.",
        "See which of the two is wrong, and whether its time synchronisation runs.",
    ))
}

/// A length of time with its largest unit.
fn span(length: Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}
