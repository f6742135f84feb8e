use crate::index::{Exclusion, Families, Held, MeshPolicy, ViewKey, examine};
use crate::model::PortSet;
use crate::testing::{
    ServiceBuilder, SliceBuilder, World, cluster, describe, external_workload, home, node_in, pod,
    service, slice,
};

/// A home cluster with nodes n0 in zone a and n1 in zone b, a Pod on each, and one Service.
fn world(service: ServiceBuilder, slices: impl IntoIterator<Item = SliceBuilder>) -> World {
    let mut objects = vec![
        service.object(),
        node_in("a", "n0"),
        node_in("b", "n1"),
        pod("shop/web-0")
            .ip("10.0.0.1")
            .ip("fd00::1")
            .on_node("n0")
            .object(),
        pod("shop/web-1").ip("10.0.0.2").on_node("n1").object(),
    ];
    objects.extend(slices.into_iter().map(SliceBuilder::object));
    let mut world = World::default();
    world.say(home().begins_with(objects));
    world
}

/// What a client is told, which says `NODE INSTANCE PORT`; `-` where it does not say.
fn check(world: &World, client: &str, expected: &str) {
    let [node, instance, port] = client.split(' ').collect::<Vec<_>>()[..] else {
        panic!("expected node, instance and port: {client:?}");
    };
    let said = |text| Some(text).filter(|text| *text != "-");
    let port = port.parse().unwrap();
    let view = world.view_of(said(instance), said(node).unwrap_or(""), "shop/web", port);
    assert_eq!(describe(&view), expected, "{client}");
}

fn web() -> ServiceBuilder {
    service("shop/web").port(80, "http")
}

fn of_two_zones() -> SliceBuilder {
    slice("web")
        .endpoint("10.0.0.1")
        .pod("shop/web-0")
        .zone("a")
        .for_zones(&["a"])
        .endpoint("10.0.0.2")
        .pod("shop/web-1")
        .zone("b")
        .for_zones(&["b"])
}

#[test]
fn hints_choose_by_zone_unless_that_leaves_nothing() {
    let both = "10.0.0.1:8080 web-0 in a, 10.0.0.2:8080 web-1 in b";
    let hinted = world(web(), [of_two_zones()]);
    check(&hinted, "n0 - 80", "10.0.0.1:8080 web-0 in a");
    check(&hinted, "n1 - 80", "10.0.0.2:8080 web-1 in b");
    check(&hinted, "n9 - 80", both);
    check(&hinted, "- - 80", both);

    let one_unhinted = world(web(), [of_two_zones(), slice("more").endpoint("10.0.0.9")]);
    check(&one_unhinted, "n0 - 80", &format!("{both}, 10.0.0.9:8080"));

    let unready = slice("more").endpoint("10.0.0.9").not_ready();
    let unhinted_is_not_ready = world(web(), [of_two_zones(), unready]);
    check(
        &unhinted_is_not_ready,
        "n0 - 80",
        "10.0.0.1:8080 web-0 in a",
    );

    let elsewhere = of_two_zones().for_zones(&["a"]);
    check(&world(web(), [elsewhere]), "n1 - 80", both);
}

#[test]
fn hints_are_looked_at_after_the_instance_is() {
    let slice = of_two_zones()
        .hostname("web-1")
        .endpoint("10.0.0.9")
        .hostname("web-1");
    let world = world(web(), [slice]);
    check(
        &world,
        "n1 web-1 80",
        "10.0.0.2:8080 web-1 in b, 10.0.0.9:8080",
    );
    check(&world, "n1 web-9 80", "-");
    check(&world, "n1 WEB-1 80", "-");
}

#[test]
fn a_node_local_service_keeps_clients_on_their_node() {
    let plain = slice("more").endpoint("10.0.0.9").node("n0");
    let mut world = world(web().node_local(), [of_two_zones(), plain]);
    check(&world, "n0 - 80", "10.0.0.1:8080 web-0 in a");
    check(&world, "n1 - 80", "10.0.0.2:8080 web-1 in b");
    check(&world, "n9 - 80", "-");
    check(&world, "- - 80", "-");
    world.say([home().apply(pod("shop/web-0").ip("10.0.0.1"))]);
    check(&world, "- - 80", "10.0.0.1:8080 web-0 in a");
}

#[test]
fn a_node_local_service_believes_slices_where_pods_may_not_be_read() {
    let slice = slice("web")
        .endpoint("10.0.0.7")
        .pod("shop/web-7")
        .node("n0");
    let mut world = world(web().node_local(), [slice]);
    check(&world, "n0 - 80", "-");
    world.say([home().unreadable(crate::index::Kind::Pod)]);
    check(&world, "n0 - 80", "10.0.0.7:8080 unreadable");
    check(&world, "n1 - 80", "-");
}

#[test]
fn only_the_answers_of_node_local_services_depend_on_the_node() {
    for (service, depends) in [(web(), false), (web().node_local(), true)] {
        let world = world(service, [of_two_zones()]);
        let client = crate::index::ClientLocality {
            node: Some("n0".into()),
            zone: None,
        };
        let key = ViewKey::new(&world.snapshot("shop/web"), 80, None, &client);
        assert_eq!(key.node.is_some(), depends);
    }
}

#[test]
fn a_workload_is_served_by_one_family() {
    let dual = slice("web-4")
        .endpoint("10.0.0.1")
        .pod("shop/web-0")
        .endpoint("10.0.0.2")
        .pod("shop/web-1")
        .endpoint("10.0.0.9");
    let dual6 = slice("web-6")
        .endpoint("fd00::1")
        .pod("shop/web-0")
        .endpoint("fd00::9");
    let mut world = world(web(), [dual, dual6]);
    check(
        &world,
        "- - 80",
        "10.0.0.1:8080 web-0, 10.0.0.2:8080 web-1, 10.0.0.9:8080, [fd00::9]:8080",
    );
    world.policy.families = Families::Ipv6First;
    check(
        &world,
        "- - 80",
        "10.0.0.2:8080 web-1, 10.0.0.9:8080, [fd00::1]:8080 web-0, [fd00::9]:8080",
    );
    world.policy.families = Families::Any;
    check(
        &world,
        "- - 80",
        "10.0.0.1:8080 web-0, 10.0.0.2:8080 web-1, 10.0.0.9:8080, [fd00::1]:8080 web-0, [fd00::9]:8080",
    );
}

#[test]
fn hints_come_before_the_preferred_family_and_after_the_unwanted_one() {
    let v4 = slice("web-4")
        .endpoint("10.0.0.1")
        .pod("shop/web-0")
        .for_zones(&["a"]);
    let v6 = slice("web-6")
        .endpoint("fd00::1")
        .pod("shop/web-0")
        .for_zones(&["b"]);
    let mut world = world(web(), [v4, v6]);
    check(&world, "n0 - 80", "10.0.0.1:8080 web-0");
    check(&world, "n1 - 80", "10.0.0.1:8080 web-0");
    world.policy.families = Families::Ipv6First;
    check(&world, "n0 - 80", "10.0.0.1:8080 web-0");
    check(&world, "n1 - 80", "[fd00::1]:8080 web-0");
}

#[test]
fn ports_are_looked_up_by_name_and_other_numbers_taken_as_they_are() {
    let named = slice("named")
        .port(8080, "http")
        .port(9090, "admin")
        .endpoint("10.0.0.8");
    let unnamed = slice("unnamed").port(7070, "").endpoint("10.0.0.9");
    let without = slice("without").without_ports().endpoint("10.0.0.7");
    let world = world(
        web()
            .port(90, "admin")
            .port(70, "")
            .port(60, "gone")
            .port(80, "admin"),
        [named, unnamed, without],
    );
    check(&world, "- - 80", "10.0.0.8:8080");
    check(&world, "- - 90", "10.0.0.8:9090");
    check(&world, "- - 70", "10.0.0.9:7070");
    check(&world, "- - 60", "-");
    check(&world, "- - 1234", "10.0.0.8:1234, 10.0.0.9:1234");
}

#[test]
fn of_several_endpoints_with_one_address_the_best_is_served() {
    let bare = slice("a").endpoint("10.0.0.1");
    let stranger = slice("b").endpoint("10.0.0.1").pod("shop/web-1");
    let owner = slice("c").endpoint("10.0.0.1").pod("shop/web-0");
    check(&world(web(), [bare.clone()]), "- - 80", "10.0.0.1:8080");
    check(
        &world(web(), [bare.clone(), stranger.clone()]),
        "- - 80",
        "10.0.0.1:8080 web-1",
    );
    check(
        &world(web(), [bare, stranger, owner]),
        "- - 80",
        "10.0.0.1:8080 web-0",
    );
}

#[test]
fn an_address_stays_while_another_slice_lists_it() {
    let listed = || slice("one").endpoint("10.0.0.1").pod("shop/web-0");
    let again = slice("two").endpoint("10.0.0.1").pod("shop/web-0");
    let mut world = world(web(), [listed(), again]);
    world.say([home().delete(listed())]);
    check(&world, "- - 80", "10.0.0.1:8080 web-0");
}

#[test]
fn of_several_clusters_the_home_cluster_then_the_first_by_name_is_believed() {
    let mut world = world(
        service("shop/web").federated("local", "web@east,web@west"),
        [slice("l").of("shop/local").endpoint("10.0.0.1")],
    );
    world.say([home().apply(service("shop/local"))]);
    for name in ["west", "east"] {
        let slice = slice("web")
            .endpoint("10.0.0.1")
            .endpoint("10.0.0.5")
            .object();
        world.say(cluster(name).begins_with([service("shop/web").object(), slice]));
    }
    check(&world, "- - 80", "10.0.0.1:80, 10.0.0.5:80@east");
    let collisions: Vec<String> = world
        .view("shop/web", 80)
        .collisions
        .iter()
        .map(|known| format!("{} {}>{}", known.socket, known.winner, known.loser))
        .collect();
    assert_eq!(
        collisions,
        [
            "10.0.0.1:80 home>east",
            "10.0.0.1:80 home>west",
            "10.0.0.5:80 east>west"
        ]
    );
}

#[test]
fn a_member_of_another_cluster_is_not_filtered() {
    let mut world = world(service("shop/web").mirrors("web@east"), []);
    world.say([cluster("east").linked()]);
    world.say(
        cluster("east").begins_with([
            web().node_local().object(),
            slice("web")
                .endpoint("10.1.0.1")
                .zone("a")
                .for_zones(&["a"])
                .object(),
            slice("web-b")
                .endpoint("10.1.0.2")
                .zone("b")
                .for_zones(&["b"])
                .object(),
        ]),
    );
    check(
        &world,
        "n0 - 80",
        "10.1.0.1:8080@east in a, 10.1.0.2:8080@east in b",
    );
}

#[test]
fn every_listed_endpoint_is_explained() {
    let slice = of_two_zones()
        .endpoint("10.0.0.3")
        .not_ready()
        .endpoint("10.0.0.4")
        .pod("shop/nobody")
        .for_zones(&["a"])
        .endpoint("10.0.0.5")
        .external_workload("vm")
        .for_zones(&["a"])
        .endpoint("10.0.0.6")
        .pod("shop/done")
        .for_zones(&["a"])
        .endpoint("10.0.0.7")
        .pod("shop/odd")
        .for_zones(&["a"])
        .endpoint("10.0.0.8")
        .pod("shop/starting")
        .for_zones(&["a"])
        .endpoint("10.0.0.1")
        .for_zones(&["a"])
        .endpoint("fd00::1")
        .pod("shop/web-0")
        .for_zones(&["a"]);
    let mut world = world(web(), [slice]);
    world.policy.mesh = MeshPolicy {
        default_opaque_ports: PortSet::default(),
        ..MeshPolicy::default()
    };
    world.say([
        home().apply(pod("shop/done").finished()),
        home().apply(pod("shop/odd").ip("10.0.0.7").meshed_by("linkerd")),
        home().apply(pod("shop/starting").meshed()),
    ]);
    let key = ViewKey {
        port: 80,
        instance: None,
        zone: Some("a".into()),
        node: None,
    };
    let reasons: Vec<Option<Exclusion>> = examine(&world.snapshot("shop/web"), &key, &world.policy)
        .into_iter()
        .map(|candidate| candidate.excluded)
        .collect();
    assert_eq!(
        reasons,
        [
            None,
            Some(Exclusion::Duplicate),
            Some(Exclusion::OtherZone),
            Some(Exclusion::NotReady),
            Some(Exclusion::Held(Held::PodUnknown)),
            Some(Exclusion::Held(Held::ExternalWorkloadUnknown)),
            Some(Exclusion::Held(Held::PodFinished)),
            Some(Exclusion::ProxyUnreadable),
            Some(Exclusion::Held(Held::PodWithoutAddress)),
            Some(Exclusion::OtherFamily),
        ]
    );
}

/// A world with an ExternalWorkload `vm` of two families.
fn with_vm(service: ServiceBuilder, slices: impl IntoIterator<Item = SliceBuilder>) -> World {
    let mut world = world(service, slices);
    let vm = external_workload("shop/vm").ip("10.0.1.1").ip("fd00:1::1");
    world.say([home().apply(vm)]);
    world
}

#[test]
fn external_workloads_are_served_by_one_family() {
    let v4 = slice("v4").endpoint("10.0.1.1").external_workload("vm");
    let v6 = || slice("v6").endpoint("fd00:1::1").external_workload("vm");
    let bare = slice("bare").endpoint("fd00::9");
    let mut world = with_vm(web(), [v4, v6(), bare]);
    check(
        &world,
        "- - 80",
        "10.0.1.1:8080 external vm, [fd00::9]:8080",
    );
    world.policy.families = Families::Ipv6First;
    check(
        &world,
        "- - 80",
        "[fd00::9]:8080, [fd00:1::1]:8080 external vm",
    );
    world.say([home().delete(v6())]);
    check(
        &world,
        "- - 80",
        "10.0.1.1:8080 external vm, [fd00::9]:8080",
    );
}

#[test]
fn external_workloads_are_on_no_node_but_in_zones() {
    let slice = || {
        slice("vm")
            .endpoint("10.0.1.1")
            .external_workload("vm")
            .zone("a")
            .for_zones(&["a"])
            .endpoint("10.0.0.2")
            .pod("shop/web-1")
            .zone("b")
            .for_zones(&["b"])
    };
    let anywhere = with_vm(web(), [slice()]);
    check(&anywhere, "n0 - 80", "10.0.1.1:8080 external vm in a");
    let local = with_vm(web().node_local(), [slice()]);
    check(&local, "n0 - 80", "-");
    check(&local, "n1 - 80", "10.0.0.2:8080 web-1 in b");
}

#[test]
fn external_workloads_of_linked_clusters_are_left_out() {
    let mut world = World::default();
    world.say(home().begins_with([service("shop/web").mirrors("web@east").object()]));
    world.say([cluster("east").linked()]);
    world.say(
        cluster("east").begins_with([
            service("shop/web").port(80, "http").object(),
            external_workload("shop/vm").ip("10.0.1.1").object(),
            slice("vm")
                .endpoint("10.0.1.1")
                .external_workload("vm")
                .endpoint("10.0.1.2")
                .object(),
        ]),
    );
    check(&world, "- - 80", "10.0.1.2:8080@east");
}
