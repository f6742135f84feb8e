//! What a wildcard for clusters stands for, when that is known and when it changes.

use super::*;

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|&name| name.into()).collect()
}

#[test]
fn a_wildcard_waits_until_it_is_known_what_it_stands_for() {
    for variant in [SOTW, Variant::Delta] {
        let mut scene = Scene::new(variant);
        scene.session.expect_list();
        scene.request(Kind::Cluster, "", &[]);
        assert_eq!(scene.sent(), [""; 0]);
        assert!(!scene.session.is_answered());
        scene.present(Kind::Cluster, "a", 1);
        scene.present(Kind::Cluster, "b", 2);
        assert_eq!(scene.session.cover(names(&["a", "b"])), names(&["a", "b"]));
        assert_eq!(scene.sent(), ["Cluster 1: a=1 b=2"]);
        scene.request(Kind::Cluster, "1", &[]);
        assert_eq!(scene.session.cover(names(&["a", "b"])), names(&[]));
        assert_eq!(scene.sent(), [""; 0], "nothing is new");
    }
}

#[test]
fn a_wildcard_is_not_answered_before_anything_of_it_is_known() {
    for variant in [SOTW, Variant::Delta] {
        let mut scene = Scene::new(variant);
        scene.session.expect_list();
        scene.request(Kind::Cluster, "", &[]);
        scene.session.cover(names(&["a"]));
        assert_eq!(scene.sent(), [""; 0]);
        scene.present(Kind::Cluster, "a", 1);
        assert_eq!(scene.sent(), ["Cluster 1: a=1"]);
        scene.request(Kind::Cluster, "1", &[]);
        assert_eq!(scene.sent(), [""; 0]);
    }
}

#[test]
fn a_wildcard_that_stands_for_nothing_yet_is_answered_when_that_is_known() {
    for variant in [SOTW, Variant::Delta] {
        let mut scene = Scene::new(variant);
        scene.session.expect_list();
        scene.request(Kind::Cluster, "", &[]);
        assert_eq!(scene.sent(), [""; 0]);
        scene.session.cover(Vec::new());
        assert_eq!(scene.sent(), ["Cluster 1:"]);
    }
}

#[test]
fn what_a_wildcard_stands_for_no_more_leaves_after_its_endpoints() {
    for variant in [SOTW, Variant::Delta] {
        let mut scene = Scene::new(variant);
        scene.session.expect_list();
        scene.request(Kind::Cluster, "", &[]);
        for name in ["a", "b"] {
            scene.present(Kind::Cluster, name, 1);
            scene.present(Kind::Assignment, name, 1);
        }
        scene.session.cover(names(&["a", "b"]));
        scene.request(Kind::Assignment, "", &["a", "b"]);
        assert_eq!(
            scene.sent(),
            ["Cluster 1: a=1 b=1", "Assignment 2: a=1 b=1"]
        );
        scene.request(Kind::Cluster, "1", &[]);
        let again: &[&str] = match variant {
            Variant::StateOfTheWorld => &["a", "b"],
            Variant::Delta => &[],
        };
        scene.request(Kind::Assignment, "2", again);
        assert_eq!(scene.sent(), [""; 0]);

        // The Service goes: its endpoints are replaced by none, and then the cluster leaves.
        scene.set(Kind::Cluster, "a", Known::Absent);
        scene.present(Kind::Assignment, "a", 9);
        scene.session.cover(names(&["b"]));
        let expected = match variant {
            Variant::StateOfTheWorld => "Cluster 4: b=1",
            Variant::Delta => "Cluster 4: -a",
        };
        let sent = scene.sent();
        assert!(sent[0].starts_with("Assignment 3: a=9"), "{sent:?}");
        assert_eq!(sent[1..], [expected], "{variant:?}");
        assert_eq!(scene.session.let_go(), names(&["a"]));
        assert_eq!(scene.session.names(Kind::Cluster).len(), 1);
    }
}

#[test]
fn a_name_that_is_asked_for_stays_when_a_wildcard_loses_it() {
    let mut scene = Scene::new(Variant::Delta);
    scene.session.expect_list();
    scene.request(Kind::Cluster, "", &["*", "a"]);
    scene.present(Kind::Cluster, "a", 1);
    scene.session.cover(names(&["a"]));
    assert_eq!(scene.sent(), ["Cluster 1: a=1"]);
    scene.request(Kind::Cluster, "1", &[]);
    scene.session.cover(Vec::new());
    assert_eq!(scene.sent(), [""; 0]);
    scene.session.cover(names(&["a"]));
    // Not asked for any more, but covered: told again [P24].
    let unwanted = Request {
        unwanted: vec!["a".into()],
        ..request("", &[])
    };
    scene.ask(Kind::Cluster, unwanted);
    assert_eq!(scene.sent(), ["Cluster 2: a=1"]);
    // Without the wildcard nothing is left.
    scene.request(Kind::Cluster, "2", &[]);
    let nothing = Request {
        unwanted: vec!["*".into()],
        ..request("", &[])
    };
    let outcome = scene.session.on_request(Kind::Cluster, nothing);
    assert_eq!(outcome.dropped, names(&["a"]));
    assert_eq!(scene.sent(), [""; 0]);
}

#[test]
fn a_client_that_comes_back_is_told_what_its_wildcard_stands_for_no_more() {
    let mut scene = Scene::new(Variant::Delta);
    scene.session.expect_list();
    let has = [("a", Version(1)), ("b", Version(1)), ("gone", Version(1))];
    let first = Request {
        has: has
            .into_iter()
            .map(|(name, version)| (name.into(), version.to_string()))
            .collect(),
        ..request("", &[])
    };
    scene.ask(Kind::Cluster, first);
    scene.present(Kind::Cluster, "a", 1);
    scene.present(Kind::Cluster, "b", 2);
    assert_eq!(scene.sent(), [""; 0]);
    scene.session.cover(names(&["a", "b"]));
    assert_eq!(scene.sent(), ["Cluster 1: b=2 -gone"]);
}
