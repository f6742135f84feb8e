use super::Dispatch;
use crate::index::Change;
use crate::testing::{ServiceBuilder, World, cluster, home, service};

/// How `shop/web` is answered, or why it is not.
fn check(service: ServiceBuilder, more: Vec<Change>, expected: &str) {
    let text = match Dispatch::of(&world(service, more).snapshot("shop/web")) {
        Ok(dispatch) => format!("{dispatch:?}")
            .split('(')
            .next()
            .unwrap_or_default()
            .to_owned(),
        Err(refusal) => refusal.to_string(),
    };
    assert_eq!(text, expected);
}

fn world(service: ServiceBuilder, more: Vec<Change>) -> World {
    let mut world = World::default();
    world.say(home().begins_with([service.object()]));
    world.say(more);
    world
}

fn web() -> ServiceBuilder {
    service("shop/web")
}

fn east_has(service: ServiceBuilder) -> Vec<Change> {
    cluster("east").begins_with([service.object()])
}

#[test]
fn services_are_answered_from_where_they_say() {
    check(web(), vec![], "Local");
    check(web().federated("", ""), vec![], "Federated");
    check(web().federated("", "").external_name(), vec![], "Federated");
    check(web().mirrors("api@east"), vec![], "Remote");
    check(
        web().mirrors("api@east"),
        east_has(service("shop/api")),
        "Remote",
    );
    check(
        web().mirrors("api@east"),
        east_has(service("shop/other")),
        "Remote",
    );
}

#[test]
fn what_has_no_endpoints_by_its_nature_is_refused() {
    check(service("shop/api"), vec![], "service shop/web not found");
    let external = |name: &str| format!("{name} is of type ExternalName, which has no endpoints");
    check(web().external_name(), vec![], &external("shop/web"));
    check(
        web().external_name().mirrors("api@east"),
        vec![],
        &external("shop/web"),
    );
    let there = east_has(service("shop/api").external_name());
    check(web().mirrors("api@east"), there, &external("shop/api"));
    check(
        web().mirrors("@east"),
        vec![],
        "shop/web names the linked cluster east, but has no label multicluster.linkerd.io/remote-service",
    );
    check(
        web().mirrors("api@east"),
        vec![Change::LinksKnown],
        "shop/web is looked for in cluster east, which is not linked",
    );
}

#[test]
fn a_stream_ends_when_its_service_becomes_something_else() {
    let kinds = || {
        [
            web(),
            web().mirrors("api@east"),
            web().mirrors("b@east"),
            web().federated("a", ""),
        ]
    };
    for (opened, one) in kinds().into_iter().enumerate() {
        let dispatch = Dispatch::of(&world(one, vec![]).snapshot("shop/web")).unwrap();
        for (now, other) in kinds().into_iter().enumerate() {
            let snapshot = world(other, vec![]).snapshot("shop/web");
            assert_eq!(
                dispatch.still_holds(&snapshot),
                opened == now,
                "{dispatch:?} {now}"
            );
        }
        let gone = world(service("shop/api"), vec![]).snapshot("shop/web");
        assert_eq!(dispatch.still_holds(&gone), dispatch != Dispatch::Federated);
    }
    let edited = world(web().federated("b", "c@east"), vec![]).snapshot("shop/web");
    assert!(Dispatch::Federated.still_holds(&edited));
}
