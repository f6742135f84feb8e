use super::*;
use crate::model::{ClusterName, ClusterRole};
use crate::publish::{Clock, Connection, LinkInfo, LinkObject, Proof, Reading};

const DAY: Duration = Duration::from_hours(24);

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + 20_000 * DAY
}

fn status(name: &str, role: ClusterRole) -> ClusterStatus {
    ClusterStatus {
        name: name.into(),
        role,
        connection: Connection::Connected,
        since: Duration::from_mins(7),
        age: Some(Duration::ZERO),
        kinds: Vec::new(),
        link: (role == ClusterRole::Linked).then(|| {
            Arc::new(LinkInfo {
                secret: format!("linkerd/{name}"),
                server: "https://west:6443/".to_owned(),
                proof: Proof::Certificate,
                fingerprint: "0123".to_owned(),
                expires: Some(now() + 300 * DAY),
                authority_expires: None,
                is_verified: true,
            })
        }),
        clock: Clock::default(),
        out_of_contact: None,
        drain: None,
    }
}

/// A home cluster and a linked one, with which all is well.
fn fine() -> Facts {
    let west = LinkObject {
        cluster: ClusterName::from("west"),
        control_plane_namespace: "linkerd".to_owned(),
    };
    Facts {
        clusters: vec![
            status("home", ClusterRole::Home),
            status("west", ClusterRole::Linked),
        ],
        summaries: Arc::default(),
        survey: Survey {
            links: Reading::Known([("multicluster/west".to_owned(), west)].into()),
            ..Survey::default()
        },
        addresses: Vec::new(),
        unlinked: Vec::new(),
        now: now(),
    }
}

/// Findings that are not fine, in short; each has to say what to do.
fn check(change: impl FnOnce(&mut Facts), expected: &[&str]) {
    let mut facts = fine();
    change(&mut facts);
    let bad: Vec<String> = facts
        .findings()
        .into_iter()
        .filter(|finding| finding.severity() != pb::Severity::Ok)
        .inspect(|finding| {
            assert!(!finding.meaning.is_empty() && !finding.action.is_empty());
        })
        .map(|finding| {
            let severity = finding.severity().as_str_name();
            let severity = severity.trim_start_matches("SEVERITY_").to_lowercase();
            format!(
                "{severity} {} {}: {}",
                finding.check, finding.subject, finding.what
            )
        })
        .collect();
    assert_eq!(bad, expected);
}

fn link(facts: &mut Facts, change: impl FnOnce(&mut LinkInfo)) {
    let link = facts.clusters[1].link.as_mut().expect("a link");
    change(Arc::make_mut(link));
}

#[test]
fn where_all_is_well_every_check_says_so() {
    check(|_| {}, &[]);
    let said: Vec<_> = fine()
        .findings()
        .into_iter()
        .map(|finding| finding.check)
        .collect();
    for check in [
        "connection",
        "rights",
        "credentials",
        "secrets",
        "link-objects",
    ] {
        assert!(said.iter().any(|said| said == check), "{check}: {said:?}");
    }
}

#[test]
fn credentials_are_told_of_before_they_end_and_after() {
    check(
        |facts| link(facts, |link| link.expires = Some(now() + 3 * DAY)),
        &["warning credentials west: the certificate in Secret linkerd/west expires in 3 days"],
    );
    check(
        |facts| link(facts, |link| link.expires = Some(now() - DAY)),
        &["error credentials west: the certificate in Secret linkerd/west has expired"],
    );
    check(
        |facts| link(facts, |link| link.authority_expires = Some(now())),
        &[
            "warning credentials west: the certificate authority in Secret linkerd/west expires in 0 s",
        ],
    );
    check(
        |facts| link(facts, |link| link.is_verified = false),
        &["warning credentials west: Secret linkerd/west says insecure-skip-tls-verify"],
    );
}

#[test]
fn clocks_may_differ_a_little() {
    let set = |facts: &Facts, ahead: i64| {
        let ours = now();
        let off = Duration::from_secs(ahead.unsigned_abs());
        let theirs = if ahead > 0 { ours + off } else { ours - off };
        facts.clusters[1].clock.compare(theirs, ours);
    };
    check(|facts| set(facts, -29), &[]);
    check(
        |facts| set(facts, 600),
        &["warning clock west: the clock of its API server is 10 min ahead of ours"],
    );
    check(
        |facts| set(facts, -90),
        &["warning clock west: the clock of its API server is 90 s behind ours"],
    );
}

#[test]
fn links_and_secrets_have_to_fit_together() {
    let object = |cluster: &str| LinkObject {
        cluster: cluster.into(),
        control_plane_namespace: String::new(),
    };
    let say = |facts: &mut Facts, links: &[(&str, &str)]| {
        let named = links
            .iter()
            .map(|(name, cluster)| ((*name).to_owned(), object(cluster)));
        facts.survey.links = Reading::Known(named.collect());
    };
    check(
        |facts| say(facts, &[("m/west", "west"), ("m/north", "north")]),
        &[
            "error link-objects links: Link m/north is there, and no Secret in the control plane's namespace links cluster north",
        ],
    );
    check(
        |facts| say(facts, &[("a/west", "west"), ("b/west", "west")]),
        &["warning link-objects links: Links a/west, b/west are all for cluster west"],
    );
    check(
        |facts| say(facts, &[("m/w", "west")]),
        &["warning link-objects links: Link m/w is for cluster west, and is not called that"],
    );
    check(
        |facts| say(facts, &[]),
        &["note link-objects links: cluster west is linked by a Secret, and no Link is for it"],
    );
    check(|facts| facts.survey.links = Reading::Absent, &[]);
}

#[test]
fn findings_come_by_subject_and_the_worst_first() {
    check(
        |facts| {
            facts.clusters[1].connection = Connection::Unreachable("refused".to_owned());
            link(facts, |link| link.expires = Some(now() + DAY));
            let idle = ("linkerd/x".to_owned(), "no label".to_owned());
            facts.survey.idle_secrets = [idle].into();
            facts.unlinked = vec![(ServiceName::new("shop", "web"), "gone".to_owned())];
        },
        &[
            "warning secrets links: Secret linkerd/x links no cluster: no label",
            "error connection west: its API server cannot be reached: refused",
            "warning credentials west: the certificate in Secret linkerd/west expires in 24 h",
            "warning unlinked-cluster services: Service shop/web names cluster gone, which is not linked",
        ],
    );
}
