//! Transcripts: requests and changes in, responses out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

mod wildcard;

use super::*;
use crate::frontends::xds::resource::Completeness;

/// What is known, and a stream that is told of it.
struct Scene {
    session: Session,
    known: BTreeMap<(Kind, &'static str), Known>,
    message_len: usize,
}

impl Scene {
    fn new(variant: Variant) -> Self {
        Self {
            session: Session::new(variant),
            known: BTreeMap::new(),
            message_len: 4,
        }
    }

    fn present(&mut self, kind: Kind, name: &'static str, version: u64) -> &mut Self {
        self.with_completeness(kind, name, version, Completeness::Complete)
    }

    fn with_completeness(
        &mut self,
        kind: Kind,
        name: &'static str,
        version: u64,
        completeness: Completeness,
    ) -> &mut Self {
        let message = vec![0; self.message_len];
        let resource = Resource::new(kind, name, Version(version), &message);
        let known = Known::Present(Arc::new(resource), completeness);
        self.set(kind, name, known)
    }

    fn set(&mut self, kind: Kind, name: &'static str, known: Known) -> &mut Self {
        self.known.insert((kind, name), known);
        self.session.on_change(name);
        self
    }

    fn request(&mut self, kind: Kind, nonce: &str, names: &[&str]) -> Verdict {
        self.ask(kind, request(nonce, names))
    }

    fn ask(&mut self, kind: Kind, request: Request) -> Verdict {
        self.session.on_request(kind, request).verdict
    }

    /// What is sent now, each as `kind nonce: name=version… -removed… ?absent…`.
    fn sent(&mut self) -> Vec<String> {
        let known = &self.known;
        let responses = self.session.responses(|kind, name| {
            let known = known.iter().find(|((k, n), _)| *k == kind && *n == name);
            known.map_or(Known::NotYet, |(_, known)| known.clone())
        });
        let text = |response: &Response| {
            let mut text = format!("{:?} {}:", response.kind, response.nonce);
            for (name, resource) in &response.resources {
                write!(text, " {name}={}", resource.version.0).unwrap();
            }
            for name in &response.removed {
                write!(text, " -{name}").unwrap();
            }
            for name in &response.absent {
                write!(text, " ?{name}").unwrap();
            }
            text
        };
        responses.iter().map(text).collect()
    }
}

fn request(nonce: &str, names: &[&str]) -> Request {
    Request {
        nonce: nonce.to_owned(),
        names: names.iter().map(|name| Arc::from(*name)).collect(),
        ..Request::default()
    }
}

fn refusal(nonce: &str, names: &[&str]) -> Request {
    Request {
        refused: true,
        ..request(nonce, names)
    }
}

const SOTW: Variant = Variant::StateOfTheWorld;
const NOTHING: [&str; 0] = [];

#[test]
fn what_is_known_is_sent_once_and_what_changes_is_sent_alone() {
    let mut scene = Scene::new(SOTW);
    scene.present(Kind::Assignment, "a", 1);
    scene.present(Kind::Assignment, "b", 1);
    scene.request(Kind::Assignment, "", &["a", "b"]);
    assert_eq!(scene.sent(), ["Assignment 1: a=1 b=1"]);
    assert_eq!(scene.sent(), NOTHING);
    scene.request(Kind::Assignment, "1", &["a", "b"]);
    assert_eq!(scene.sent(), NOTHING);
    scene.present(Kind::Assignment, "b", 2);
    assert_eq!(scene.sent(), ["Assignment 2: b=2"]);
    scene.present(Kind::Assignment, "a", 1);
    scene.request(Kind::Assignment, "2", &["a", "b"]);
    assert_eq!(scene.sent(), NOTHING, "news that say the same");
}

#[test]
fn one_response_of_a_kind_is_on_its_way_and_the_next_has_the_latest() {
    let mut scene = Scene::new(SOTW);
    scene.present(Kind::Assignment, "a", 1);
    scene.request(Kind::Assignment, "", &["a"]);
    assert_eq!(scene.sent(), ["Assignment 1: a=1"]);
    for version in 2..100 {
        scene.present(Kind::Assignment, "a", version);
        assert_eq!(scene.sent(), NOTHING);
    }
    scene.request(Kind::Assignment, "1", &["a"]);
    assert_eq!(scene.sent(), ["Assignment 2: a=99"]);
}

#[test]
fn names_come_and_go() {
    let mut scene = Scene::new(SOTW);
    for name in ["a", "b"] {
        scene.present(Kind::Assignment, name, 1);
    }
    scene.request(Kind::Assignment, "", &["a"]);
    assert_eq!(scene.sent(), ["Assignment 1: a=1"]);
    scene.request(Kind::Assignment, "1", &["a", "b"]);
    assert_eq!(scene.sent(), ["Assignment 2: b=1"]);
    scene.request(Kind::Assignment, "2", &["b"]);
    assert_eq!(scene.sent(), NOTHING);
    scene.present(Kind::Assignment, "a", 2);
    assert_eq!(scene.sent(), NOTHING, "not wanted any more");
    scene.request(Kind::Assignment, "2", &["a", "b"]);
    assert_eq!(scene.sent(), ["Assignment 3: a=2"], "wanted again");
    scene.request(Kind::Assignment, "3", &[]);
    assert_eq!(scene.sent(), NOTHING, "nothing at all is wanted");
    assert_eq!(scene.session.name_count(), 0);
}

#[test]
fn a_stale_request_is_not_answered_but_its_names_count() {
    let mut scene = Scene::new(SOTW);
    scene.present(Kind::Assignment, "a", 1);
    scene.present(Kind::Assignment, "b", 1);
    scene.request(Kind::Assignment, "", &["a"]);
    assert_eq!(scene.sent(), ["Assignment 1: a=1"]);
    scene.request(Kind::Assignment, "1", &["a"]);
    scene.present(Kind::Assignment, "a", 2);
    assert_eq!(scene.sent(), ["Assignment 2: a=2"]);
    let verdict = scene.request(Kind::Assignment, "1", &["a", "b"]);
    assert_eq!(verdict, Verdict::Stale);
    assert_eq!(scene.sent(), NOTHING);
    scene.request(Kind::Assignment, "2", &["a", "b"]);
    assert_eq!(scene.sent(), ["Assignment 3: b=1"]);
}

#[test]
fn a_client_that_asks_again_while_it_warms_gets_its_endpoints_again() {
    let mut scene = Scene::new(SOTW);
    scene.present(Kind::Assignment, "a", 1);
    scene.request(Kind::Assignment, "", &["a"]);
    scene.sent();
    scene.request(Kind::Assignment, "1", &["a"]);
    let verdict = scene.request(Kind::Assignment, "1", &["a"]);
    assert_eq!(verdict, Verdict::Again);
    assert_eq!(scene.sent(), ["Assignment 2: a=1"]);
}

#[test]
fn what_was_refused_is_not_sent_again_until_it_changes() {
    let mut scene = Scene::new(SOTW);
    scene.present(Kind::Assignment, "a", 1);
    scene.request(Kind::Assignment, "", &["a"]);
    scene.sent();
    let verdict = scene.ask(Kind::Assignment, refusal("1", &["a"]));
    assert_eq!(verdict, Verdict::Refused);
    assert_eq!(scene.sent(), NOTHING);
    scene.present(Kind::Assignment, "a", 1);
    assert_eq!(scene.sent(), NOTHING);
    scene.present(Kind::Assignment, "a", 2);
    assert_eq!(scene.sent(), ["Assignment 2: a=2"]);
    scene.request(Kind::Assignment, "2", &["a"]);
    scene.present(Kind::Assignment, "a", 1);
    assert_eq!(scene.sent(), ["Assignment 3: a=1"], "true again");
}

#[test]
fn after_a_refusal_each_resource_goes_alone_so_that_the_good_ones_arrive() {
    for variant in [SOTW, Variant::Delta] {
        let names = ["a", "bad", "c"];
        let mut scene = Scene::new(variant);
        for name in names {
            scene.present(Kind::Assignment, name, 1);
        }
        scene.request(Kind::Assignment, "", &names);
        assert_eq!(scene.sent(), ["Assignment 1: a=1 bad=1 c=1"]);
        let again: &[&str] = if variant == SOTW { &names } else { &[] };
        scene.ask(Kind::Assignment, refusal("1", again));
        assert_eq!(scene.sent(), ["Assignment 2: a=1"]);
        scene.request(Kind::Assignment, "2", again);
        assert_eq!(scene.sent(), ["Assignment 3: bad=1"]);
        scene.ask(Kind::Assignment, refusal("3", again));
        assert_eq!(scene.sent(), ["Assignment 4: c=1"]);
        scene.request(Kind::Assignment, "4", again);
        assert_eq!(scene.sent(), NOTHING);
    }
}

#[test]
fn clusters_and_listeners_are_told_of_all_together() {
    let mut scene = Scene::new(SOTW);
    scene.present(Kind::Listener, "a", 1);
    scene.request(Kind::Listener, "", &["a", "b"]);
    assert_eq!(scene.sent(), NOTHING, "b is not known yet");
    scene.present(Kind::Listener, "b", 1);
    assert_eq!(scene.sent(), ["Listener 1: a=1 b=1"]);
    scene.request(Kind::Listener, "1", &["a", "b"]);
    scene.set(Kind::Listener, "a", Known::Absent);
    assert_eq!(scene.sent(), ["Listener 2: b=1 ?a"]);
}

#[test]
fn a_wildcard_is_answered_even_if_there_is_nothing() {
    for variant in [SOTW, Variant::Delta] {
        let mut scene = Scene::new(variant);
        scene.request(Kind::Cluster, "", &[]);
        scene.request(Kind::Listener, "", &["*"]);
        assert_eq!(scene.sent(), ["Cluster 1:", "Listener 2:"]);
        scene.request(Kind::Cluster, "1", &[]);
        assert_eq!(scene.sent(), NOTHING);
    }
    let mut scene = Scene::new(SOTW);
    scene.request(Kind::Assignment, "", &[]);
    assert_eq!(scene.sent(), NOTHING, "there is no wildcard for endpoints");
}

#[test]
fn endpoints_follow_a_cluster_that_was_told_of_even_if_the_client_has_them() {
    for variant in [SOTW, Variant::Delta] {
        let mut scene = Scene::new(variant);
        scene.present(Kind::Assignment, "a", 1);
        scene.present(Kind::Cluster, "a", 1);
        scene.request(Kind::Assignment, "", &["a"]);
        assert_eq!(scene.sent(), ["Assignment 1: a=1"]);
        let again: &[&str] = if variant == SOTW { &["a"] } else { &[] };
        scene.request(Kind::Assignment, "1", again);
        scene.request(Kind::Cluster, "", &["a"]);
        assert_eq!(
            scene.sent(),
            ["Cluster 2: a=1", "Assignment 3: a=1"],
            "without waiting for the client to accept the cluster"
        );
    }
}

#[test]
fn a_service_that_goes_takes_its_endpoints_first() {
    for variant in [SOTW, Variant::Delta] {
        let mut scene = Scene::new(variant);
        scene.present(Kind::Cluster, "a", 1);
        scene.present(Kind::Assignment, "a", 1);
        scene.request(Kind::Cluster, "", &["a"]);
        scene.request(Kind::Assignment, "", &["a"]);
        assert_eq!(scene.sent().len(), 2);
        let again: &[&str] = if variant == SOTW { &["a"] } else { &[] };
        scene.request(Kind::Cluster, "1", again);
        scene.request(Kind::Assignment, "2", again);
        scene.present(Kind::Assignment, "a", 0);
        scene.set(Kind::Cluster, "a", Known::Absent);
        let gone = if variant == SOTW { "" } else { " -a" };
        assert_eq!(
            scene.sent(),
            [
                "Assignment 3: a=0".to_owned(),
                format!("Cluster 4:{gone} ?a")
            ]
        );
    }
}

#[test]
fn nothing_is_said_of_what_has_not_been_read() {
    let mut scene = Scene::new(SOTW);
    let early = Completeness::TooEarly;
    scene.with_completeness(Kind::Assignment, "a", 1, early);
    scene.request(Kind::Assignment, "", &["a", "b"]);
    assert_eq!(scene.sent(), NOTHING);
    assert!(!scene.session.is_answered());
    scene.with_completeness(Kind::Assignment, "a", 1, Completeness::Partial);
    assert_eq!(
        scene.sent(),
        ["Assignment 1: a=1"],
        "it has been waited for"
    );
    scene.request(Kind::Assignment, "1", &["a", "b"]);
    scene.with_completeness(Kind::Assignment, "a", 2, early);
    assert_eq!(
        scene.sent(),
        ["Assignment 2: a=2"],
        "it is followed from then on"
    );
}

#[test]
fn a_client_that_has_something_keeps_it_rather_than_get_a_part() {
    let mut scene = Scene::new(SOTW);
    scene.with_completeness(Kind::Assignment, "a", 1, Completeness::Partial);
    let returning = Request {
        answered_before: true,
        ..request("", &["a"])
    };
    scene.ask(Kind::Assignment, returning);
    assert_eq!(scene.sent(), NOTHING);
    scene.present(Kind::Assignment, "a", 1);
    assert_eq!(scene.sent(), ["Assignment 1: a=1"]);

    let mut scene = Scene::new(SOTW);
    scene.present(Kind::Listener, "a", 1);
    scene.with_completeness(Kind::Assignment, "a", 1, Completeness::Partial);
    scene.request(Kind::Listener, "", &["a"]);
    assert_eq!(scene.sent(), ["Listener 1: a=1"]);
    let accepted = Request {
        answered_before: true,
        ..request("1", &["a"])
    };
    scene.ask(Kind::Listener, accepted);
    scene.request(Kind::Assignment, "", &["a"]);
    assert_eq!(
        scene.sent(),
        ["Assignment 2: a=1"],
        "to accept something on this stream is not to have come with it"
    );
}

#[test]
fn delta_clients_say_what_they_have() {
    let mut scene = Scene::new(Variant::Delta);
    for kind in [Kind::Cluster, Kind::Assignment] {
        for name in ["same", "changed"] {
            scene.present(kind, name, 7);
        }
        scene.set(kind, "gone", Known::Absent);
    }
    let has = BTreeMap::from([
        (Arc::from("same"), Version(7).to_string()),
        (Arc::from("changed"), Version(6).to_string()),
        (Arc::from("gone"), "whatever".to_owned()),
    ]);
    let names = ["same", "changed", "gone"];
    let returning = Request {
        has: has.clone(),
        ..request("", &names)
    };
    scene.ask(Kind::Cluster, returning);
    assert_eq!(scene.sent(), ["Cluster 1: changed=7 -gone ?gone"]);

    scene.set(Kind::Assignment, "gone", Known::NotYet);
    let returning = Request {
        has,
        ..request("", &names)
    };
    scene.ask(Kind::Assignment, returning);
    assert_eq!(
        scene.sent(),
        ["Assignment 2: changed=7 same=7"],
        "endpoints are sent even so"
    );
}

#[test]
fn delta_clients_get_whatever_they_ask_for_again() {
    let mut scene = Scene::new(Variant::Delta);
    scene.present(Kind::Assignment, "a", 1);
    scene.request(Kind::Assignment, "", &["a"]);
    scene.sent();
    scene.request(Kind::Assignment, "1", &[]);
    scene.request(Kind::Assignment, "", &["a"]);
    assert_eq!(scene.sent(), ["Assignment 2: a=1"]);
    scene.request(Kind::Assignment, "2", &[]);
    let both = Request {
        unwanted: vec!["a".into(), "never".into()],
        ..request("", &["b"])
    };
    let outcome = scene.session.on_request(Kind::Assignment, both);
    assert_eq!(outcome.added, [Arc::from("b")]);
    assert_eq!(outcome.dropped, [Arc::from("a")]);
    scene.present(Kind::Assignment, "a", 2);
    assert_eq!(scene.sent(), NOTHING);
    scene.present(Kind::Assignment, "b", 1);
    assert_eq!(scene.sent(), ["Assignment 3: b=1"]);
}

#[test]
fn a_wildcard_goes_on_to_say_what_is_not_there() {
    let mut scene = Scene::new(Variant::Delta);
    scene.present(Kind::Cluster, "a", 1);
    scene.request(Kind::Cluster, "", &["*", "a"]);
    assert_eq!(scene.sent(), ["Cluster 1: a=1"]);
    let unsubscribe = Request {
        unwanted: vec!["a".into()],
        ..request("1", &[])
    };
    scene.ask(Kind::Cluster, unsubscribe);
    assert_eq!(scene.sent(), ["Cluster 2: -a"]);
}

#[test]
fn large_answers_are_split() {
    let mut scene = Scene::new(SOTW);
    scene.message_len = RESPONSE_BYTES_MAX / 2 - 200;
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        scene.present(Kind::Assignment, name, 1);
    }
    scene.request(Kind::Assignment, "", &names);
    assert_eq!(scene.sent(), ["Assignment 1: a=1 b=1"]);
    scene.request(Kind::Assignment, "1", &names);
    assert_eq!(scene.sent(), ["Assignment 2: c=1 d=1"]);
    scene.request(Kind::Assignment, "2", &names);
    assert_eq!(scene.sent(), ["Assignment 3: e=1"]);
}

#[test]
fn after_the_last_request_the_rest_comes_without_being_accepted() {
    let mut scene = Scene::new(SOTW);
    scene.message_len = RESPONSE_BYTES_MAX;
    scene.present(Kind::Assignment, "a", 1);
    scene.present(Kind::Assignment, "b", 1);
    scene.request(Kind::Assignment, "", &["a", "b"]);
    assert_eq!(scene.sent(), ["Assignment 1: a=1"]);
    assert!(!scene.session.is_answered());
    scene.session.on_half_close();
    assert_eq!(scene.sent(), ["Assignment 2: b=1"]);
    scene.session.on_half_close();
    assert!(scene.session.is_answered());
}

#[test]
fn equal_content_has_equal_versions_whatever_its_history() {
    let version = |history: &[(&'static str, u64)]| {
        let mut scene = Scene::new(SOTW);
        let mut nonce = String::new();
        let mut last = None;
        for (name, version) in history {
            scene.present(Kind::Assignment, name, *version);
            scene.request(Kind::Assignment, &nonce, &["a", "b"]);
            let known = &scene.known;
            let responses = scene.session.responses(|kind, name| {
                let known = known.iter().find(|((k, n), _)| *k == kind && *n == name);
                known.map_or(Known::NotYet, |(_, known)| known.clone())
            });
            for response in responses {
                nonce = response.nonce.to_string();
                last = Some(response.version);
            }
        }
        last
    };
    let one = version(&[("a", 1), ("b", 5), ("a", 2)]);
    let two = version(&[("b", 5), ("a", 2)]);
    assert_eq!(one, two);
    assert_ne!(one, version(&[("b", 5), ("a", 3)]));
}
