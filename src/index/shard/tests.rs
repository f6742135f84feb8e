use crate::index::{Held, Joined, Kind, Object, ObjectName};
use crate::model::{ServiceName, SliceName};
use crate::testing::{
    SliceBuilder, World, cluster, describe, external_workload, home, job, node, pod, replica_set,
    server, service, slice,
};

/// A home cluster with Services `shop/web` and `shop/api`, and one slice.
fn world(slice: SliceBuilder) -> World {
    let mut world = World::default();
    world.say(home().begins_with([
        service("shop/web").object(),
        service("shop/api").object(),
        slice.object(),
    ]));
    world
}

fn web() -> SliceBuilder {
    slice("web").endpoint("10.0.0.1").pod("shop/web-0")
}

/// What the Service lists, and what the last changes touched.
fn check(world: &World, service: &str, expected: &str, touched: &str) {
    assert_eq!(describe(&world.view(service, 80)), expected);
    assert_eq!(world.touched_services(), touched);
}

#[test]
fn an_endpoint_joins_when_its_pod_does_and_leaves_with_it() {
    let mut world = world(web());
    check(&world, "shop/web", "-", "shop/api shop/web");
    world.say([home().apply(pod("shop/web-0"))]);
    check(&world, "shop/web", "10.0.0.1:80 web-0", "shop/web");
    world.say([home().apply(pod("shop/web-0"))]);
    check(&world, "shop/web", "10.0.0.1:80 web-0", "");
    world.say([home().apply(pod("shop/web-0").finished())]);
    check(&world, "shop/web", "-", "shop/web");
    world.say([home().apply(pod("shop/web-0"))]);
    world.say([home().delete(pod("shop/web-0"))]);
    check(&world, "shop/web", "-", "shop/web");
    world.say([home().apply(pod("shop/other"))]);
    check(&world, "shop/web", "-", "");
}

#[test]
fn a_pod_is_named_by_what_owns_its_owner() {
    let mut world = world(web());
    let owned = pod("shop/web-0").owned_by("ReplicaSet", "web-5d");
    world.say([home().apply(owned)]);
    check(
        &world,
        "shop/web",
        "10.0.0.1:80 web-0/ReplicaSet:web-5d",
        "shop/web",
    );
    world.say([home().apply(replica_set("shop/web-5d", Some(("Deployment", "web"))))]);
    check(
        &world,
        "shop/web",
        "10.0.0.1:80 web-0/Deployment:web",
        "shop/web",
    );
    world.say([home().apply(replica_set("other/web-5d", Some(("Deployment", "no"))))]);
    check(&world, "shop/web", "10.0.0.1:80 web-0/Deployment:web", "");
    world.say([home().apply(replica_set("shop/web-5d", Some(("Rollout", "web"))))]);
    check(
        &world,
        "shop/web",
        "10.0.0.1:80 web-0/ReplicaSet:web-5d",
        "shop/web",
    );
    world.say([home().resync(Kind::ReplicaSet, [])]);
    check(
        &world,
        "shop/web",
        "10.0.0.1:80 web-0/ReplicaSet:web-5d",
        "",
    );
}

#[test]
fn a_job_passes_on_whatever_owns_it() {
    let mut world = world(web());
    world.say([
        home().apply(job("shop/nightly-1", Some(("CronJob", "nightly")))),
        home().apply(pod("shop/web-0").owned_by("Job", "nightly-1")),
    ]);
    check(
        &world,
        "shop/web",
        "10.0.0.1:80 web-0/CronJob:nightly",
        "shop/web",
    );
    world.say([home().apply(job("shop/nightly-1", None))]);
    check(
        &world,
        "shop/web",
        "10.0.0.1:80 web-0/Job:nightly-1",
        "shop/web",
    );
}

#[test]
fn relabelled_slice_leaves_its_old_service() {
    let mut world = world(slice("s").endpoint("10.0.0.1"));
    check(&world, "shop/web", "10.0.0.1:80", "shop/api shop/web");
    world.say([home().apply(slice("s").of("shop/api").endpoint("10.0.0.1"))]);
    check(&world, "shop/web", "-", "shop/api shop/web");
    check(&world, "shop/api", "10.0.0.1:80", "shop/api shop/web");
    let name = ObjectName::Slice(SliceName::new("shop", "s"));
    world.say([home().delete_named(name)]);
    check(&world, "shop/api", "-", "shop/api");
}

#[test]
fn a_slice_survives_its_service() {
    let mut world = world(slice("s").endpoint("10.0.0.1"));
    world.say([home().delete(service("shop/web"))]);
    check(&world, "shop/web", "-", "shop/web");
    world.say([home().apply(service("shop/web"))]);
    check(&world, "shop/web", "10.0.0.1:80", "shop/web");
}

#[test]
fn pods_that_may_not_be_read_are_served_without_identity_until_they_may_be() {
    let mut world = world(web().endpoint("10.0.0.2").pod("shop/web-1"));
    world.say([home().apply(pod("shop/web-1"))]);
    check(&world, "shop/web", "10.0.0.2:80 web-1", "shop/web");
    world.say([home().unreadable(Kind::Pod)]);
    check(
        &world,
        "shop/web",
        "10.0.0.1:80 unreadable, 10.0.0.2:80 web-1",
        "shop/web",
    );
    world.say([home().unreadable(Kind::Pod)]);
    check(
        &world,
        "shop/web",
        "10.0.0.1:80 unreadable, 10.0.0.2:80 web-1",
        "",
    );
    world.say([home().resync(Kind::Pod, [pod("shop/web-0").object()])]);
    check(&world, "shop/web", "10.0.0.1:80 web-0", "shop/web");
}

#[test]
fn kinds_that_may_not_be_read_hold_nothing_up() {
    let mut world = World::default();
    world.say([
        home().opened(),
        home().unreadable(Kind::Pod),
        home().unreadable(Kind::Node),
        home().unreadable(Kind::ReplicaSet),
        home().unreadable(Kind::Job),
        home().unreadable(Kind::ExternalWorkload),
        home().unreadable(Kind::Server),
        home().unreadable(Kind::ServiceProfile),
        home().unreadable(Kind::Service),
        home().apply(web()),
        home().resync(Kind::EndpointSlice, [web().object()]),
    ]);
    let pending = |world: &World| world.index.clusters()[0].pending.clone();
    assert_eq!(pending(&world), [Kind::Service]);
    check(&world, "shop/web", "-", "");
    world.say([home().resync(Kind::Service, [service("shop/web").object()])]);
    assert_eq!(pending(&world), []);
    check(&world, "shop/web", "10.0.0.1:80 unreadable", "shop/web");
}

#[test]
fn a_resync_takes_away_what_it_does_not_list() {
    let mut world = world(slice("s").endpoint("10.0.0.1"));
    let other = slice("t").of("shop/api").endpoint("10.0.0.2").object();
    world.say([home().resync(Kind::EndpointSlice, [other])]);
    check(&world, "shop/web", "-", "shop/api shop/web");
    check(&world, "shop/api", "10.0.0.2:80", "shop/api shop/web");
    let sizes = |world: &World| {
        let home = &world.index.clusters()[0];
        (home.services, home.endpoints)
    };
    assert_eq!(sizes(&world), (2, 1));
    world.say([home().resync(Kind::Service, [])]);
    assert_eq!(sizes(&world), (0, 1));
}

#[test]
fn one_service_of_many_is_touched_alone() {
    let services = (0..1000).map(|n| service(&format!("shop/svc-{n}")).object());
    let slices = (0..1000).map(|n| {
        let pod = format!("shop/pod-{n}");
        slice(&format!("s-{n}"))
            .of(&format!("shop/svc-{n}"))
            .endpoint("10.0.0.1")
            .pod(&pod)
            .object()
    });
    let mut world = World::default();
    world.say(home().begins_with(services.chain(slices)));
    assert_eq!(world.touched.services.len(), 1000);
    world.say([home().apply(pod("shop/pod-7"))]);
    check(&world, "shop/svc-7", "10.0.0.1:80 pod-7", "shop/svc-7");
    assert!(!world.touched.clusters && world.touched.nodes.is_empty());
    world.say([cluster("east").linked(), cluster("east").unlinked()]);
    check(&world, "shop/svc-7", "10.0.0.1:80 pod-7", "");
}

#[test]
fn an_external_workload_joins_late_and_leaves_when_it_goes() {
    let mut world = world(slice("vm").endpoint("10.0.0.1").external_workload("vm-0"));
    check(&world, "shop/web", "-", "shop/api shop/web");
    world.say([home().apply(external_workload("other/vm-0").ip("10.0.0.1"))]);
    check(&world, "shop/web", "-", "");
    let vm = external_workload("shop/vm-0").ip("10.0.0.1");
    world.say([home().apply(vm.clone())]);
    check(&world, "shop/web", "10.0.0.1:80 external vm-0", "shop/web");
    world.say([home().apply(vm.clone())]);
    check(&world, "shop/web", "10.0.0.1:80 external vm-0", "");
    world.say([home().apply(vm.clone().owned_by("Group", "vms"))]);
    check(
        &world,
        "shop/web",
        "10.0.0.1:80 external vm-0/Group:vms",
        "shop/web",
    );
    world.say([home().unreadable(Kind::ExternalWorkload)]);
    check(
        &world,
        "shop/web",
        "10.0.0.1:80 external vm-0/Group:vms",
        "",
    );
    world.say([home().resync(Kind::ExternalWorkload, [])]);
    check(&world, "shop/web", "-", "shop/web");
}

#[test]
fn kinds_that_a_cluster_does_not_have_add_nothing_and_count_when_it_gets_them() {
    let mut world = World::default();
    world.say(
        home()
            .begins_with([
                service("shop/web").object(),
                slice("vm")
                    .endpoint("10.0.0.1")
                    .external_workload("vm-0")
                    .object(),
            ])
            .into_iter()
            .filter(|change| {
                let text = format!("{change:?}");
                !text.contains("Resync(ExternalWorkload") && !text.contains("Resync(Server")
            }),
    );
    let pending = |world: &World| world.index.clusters()[0].pending.clone();
    assert_eq!(pending(&world), [Kind::ExternalWorkload, Kind::Server]);
    world.say([
        home().unreadable(Kind::ExternalWorkload),
        home().unreadable(Kind::Server),
    ]);
    assert_eq!(pending(&world), []);
    check(&world, "shop/web", "-", "shop/web");
    let vm = external_workload("shop/vm-0").ip("10.0.0.1").object();
    world.say([home().resync(Kind::ExternalWorkload, [vm])]);
    check(&world, "shop/web", "10.0.0.1:80 external vm-0", "shop/web");
}

/// Ports that Servers say are opaque, of whatever is behind the first endpoint.
fn server_opaque(world: &World) -> String {
    let view = world.view("shop/web", 80);
    let ports = match view.endpoints[0].joined() {
        Joined::Pod(workload) => &workload.server_opaque,
        Joined::ExternalWorkload(workload) => &workload.server_opaque,
        other => panic!("no workload: {other:?}"),
    };
    format!("{ports:?}")
}

#[test]
fn servers_add_to_one_another_whatever_order_they_come_and_go_in() {
    let mut world = world(web());
    let gold = pod("shop/web-0").label("tier=gold").label("app=web");
    world.say([home().apply(gold.clone().port(8080, "http"))]);
    let says = |world: &mut World, change, ports: &str, touched: &str| {
        world.say([change]);
        assert_eq!(server_opaque(world), ports);
        assert_eq!(world.touched_services(), touched);
    };
    let (one, two) = (
        server("shop/one", "8080").pods("tier=gold"),
        server("shop/two", "http").pods(""),
    );
    says(
        &mut world,
        home().apply(one.clone()),
        "[(8080, 8080)]",
        "shop/web",
    );
    says(&mut world, home().apply(one.clone()), "[(8080, 8080)]", "");
    // It says nothing new of this Pod.
    says(&mut world, home().apply(two.clone()), "[(8080, 8080)]", "");
    says(&mut world, home().delete(one), "[(8080, 8080)]", "");
    let three = server("shop/three", "9090").pods("tier=gold app=web");
    says(
        &mut world,
        home().apply(three),
        "[(8080, 8080), (9090, 9090)]",
        "shop/web",
    );
    says(&mut world, home().delete(two), "[(9090, 9090)]", "shop/web");
    says(
        &mut world,
        home().apply(server("other/three", "1").pods("")),
        "[(9090, 9090)]",
        "",
    );
    says(
        &mut world,
        home().apply(pod("shop/web-0").label("tier=silver")),
        "[]",
        "shop/web",
    );
    says(&mut world, home().apply(gold), "[(9090, 9090)]", "shop/web");
    says(
        &mut world,
        home().resync(Kind::Server, []),
        "[]",
        "shop/web",
    );
}

#[test]
fn a_name_may_stand_for_several_ports() {
    let mut world = world(web());
    world.say([
        home().apply(server("shop/web", "web").pods("")),
        home().apply(
            pod("shop/web-0")
                .port(9080, "web")
                .port(8080, "web")
                .port(1, "other"),
        ),
    ]);
    assert_eq!(server_opaque(&world), "[(8080, 8080), (9080, 9080)]");
}

#[test]
fn a_server_selects_pods_and_external_workloads_apart() {
    let mut world = world(slice("vm").endpoint("10.0.0.1").external_workload("vm-0"));
    let vm = external_workload("shop/vm-0")
        .label("app=vm")
        .port(8080, "http");
    world.say([
        home().apply(vm),
        home().apply(server("shop/pods", "8080").pods("app=vm")),
    ]);
    assert_eq!(server_opaque(&world), "[]");
    world.say([home().apply(server("shop/vms", "http").external_workloads("app=vm"))]);
    assert_eq!(server_opaque(&world), "[(8080, 8080)]");
    assert_eq!(world.touched_services(), "shop/web");
}

#[test]
fn a_server_touches_only_services_of_workloads_it_says_something_new_of() {
    let services = (0..1000).map(|n| service(&format!("shop/svc-{n}")).object());
    let slices = (0..1000).map(|n| {
        slice(&format!("s-{n}"))
            .of(&format!("shop/svc-{n}"))
            .endpoint("10.0.0.1")
            .pod(&format!("shop/pod-{n}"))
            .object()
    });
    let pods = (0..1000).map(|n| {
        pod(&format!("shop/pod-{n}"))
            .label(&format!("n={n}"))
            .object()
    });
    let mut world = World::default();
    world.say(home().begins_with(services.chain(slices).chain(pods)));
    world.say([home().apply(server("shop/seven", "80").pods("n=7"))]);
    check(&world, "shop/svc-7", "10.0.0.1:80 pod-7", "shop/svc-7");
    world.say([home().apply(server("shop/seven", "80").pods("n=8"))]);
    check(
        &world,
        "shop/svc-7",
        "10.0.0.1:80 pod-7",
        "shop/svc-7 shop/svc-8",
    );
}

/// The Endpoints object of a Service, with subsets that say what these slices say.
fn endpoints(service: &str, subsets: impl IntoIterator<Item = SliceBuilder>) -> Object {
    let (namespace, name) = service.split_once('/').unwrap();
    let subsets = subsets.into_iter().map(|subset| {
        let Object::Slice(_, facts) = subset.of(service).object() else {
            panic!("a slice builder makes slices");
        };
        facts
    });
    Object::Endpoints(ServiceName::new(namespace, name), subsets.collect())
}

#[test]
fn the_subsets_of_an_endpoints_object_come_and_go_with_it() {
    let one = || slice("x").endpoint("10.0.0.1");
    let two = || slice("x").endpoint("10.0.0.2");
    let three = || slice("x").endpoint("10.0.0.3");
    let home = || home().of_endpoints();
    let mut world = World::default();
    world.say(home().begins_with([
        service("shop/web").object(),
        service("shop/api").object(),
        endpoints("shop/web", [one(), two(), three()]),
        endpoints("shop/api", [three()]),
    ]));
    let sizes = |world: &World| world.index.clusters()[0].endpoints;
    assert_eq!(
        describe(&world.view("shop/web", 80)),
        "10.0.0.1:80, 10.0.0.2:80, 10.0.0.3:80"
    );
    assert_eq!(sizes(&world), 4);
    world.say([home().apply(endpoints("shop/web", [two()]))]);
    check(&world, "shop/web", "10.0.0.2:80", "shop/web");
    assert_eq!(sizes(&world), 2);
    world.say([home().apply(endpoints("shop/web", [two()]))]);
    check(&world, "shop/web", "10.0.0.2:80", "");
    world.say([home().apply(endpoints("shop/web", []))]);
    check(&world, "shop/web", "-", "shop/web");
    world.say([home().apply(endpoints("shop/web", [one(), two()]))]);
    check(&world, "shop/web", "10.0.0.1:80, 10.0.0.2:80", "shop/web");
    world.say([home().delete(endpoints("shop/web", []))]);
    check(&world, "shop/web", "-", "shop/web");
    world.say([home().apply(endpoints("shop/web", [one(), two()]))]);
    world.say([home().resync(Kind::Endpoints, [endpoints("shop/api", [one()])])]);
    check(&world, "shop/web", "-", "shop/api shop/web");
    check(&world, "shop/api", "10.0.0.1:80", "shop/api shop/web");
    assert_eq!(sizes(&world), 1);
}

#[test]
fn a_cluster_of_endpoints_objects_waits_for_them_and_not_for_slices() {
    let home = home().of_endpoints();
    let mut world = World::default();
    world.say([home.opened()]);
    for kind in home.kinds() {
        assert_ne!(*kind, Kind::EndpointSlice);
        if *kind != Kind::Endpoints {
            world.say([home.resync(*kind, [])]);
        }
    }
    world.say([home.unreadable(Kind::Endpoints)]);
    assert_eq!(world.index.clusters()[0].pending, [Kind::Endpoints]);
    world.say([home.resync(Kind::Endpoints, [])]);
    assert_eq!(world.index.clusters()[0].pending, []);
}

#[test]
fn what_is_wrong_with_endpoints_is_counted_while_it_is() {
    let counts = |world: &World| world.index.clusters()[0].counts;
    let held = |world: &World| Held::ALL.map(|reason| counts(world).held(reason));
    let listed = slice("s")
        .endpoint("10.0.0.1")
        .pod("shop/p")
        .endpoint("10.0.0.2")
        .pod("shop/q");
    let mut world = world(listed);
    assert_eq!(held(&world), [2, 0, 0, 0]);
    world.say([home().apply(pod("shop/p").ip("10.0.0.1"))]);
    assert!(world.touched.sizes);
    assert_eq!(held(&world), [1, 0, 0, 0]);
    world.say([home().apply(pod("shop/q").ip("10.0.0.2").finished())]);
    assert_eq!(held(&world), [0, 1, 0, 0]);
    world.say([home().delete(pod("shop/p")), home().unreadable(Kind::Pod)]);
    assert_eq!(
        (held(&world), counts(&world).unreadable()),
        ([0, 1, 0, 0], 1)
    );
    world.say([home().resync(Kind::EndpointSlice, [])]);
    assert_eq!((held(&world), counts(&world).unreadable()), ([0; 4], 0));
}

#[test]
fn objects_are_counted_by_kind() {
    let mut world = World::default();
    let counts = |world: &World| {
        let counts = world.index.clusters()[0].counts;
        Kind::ALL.map(|kind| counts.objects(kind).unwrap_or(0))
    };
    world.say(home().begins_with([
        service("shop/web").object(),
        slice("s").object(),
        slice("t").object(),
        pod("shop/p").object(),
        pod("other/p").object(),
        node("n"),
        replica_set("shop/r", None),
        job("shop/j", Some(("CronJob", "c"))),
        job("shop/k", None),
    ]));
    assert_eq!(counts(&world), [1, 2, 0, 2, 1, 1, 2, 0, 0, 0]);
    // Said again, nothing is counted twice.
    world.say([
        home().apply(pod("shop/p").ip("10.0.0.1")),
        home().apply(job("shop/k", None)),
    ]);
    assert_eq!(counts(&world), [1, 2, 0, 2, 1, 1, 2, 0, 0, 0]);
    world.say([
        home().delete(pod("shop/p")),
        home().delete(pod("shop/p")),
        home().delete(job("shop/j", None)),
        home().resync(Kind::ReplicaSet, []),
    ]);
    assert_eq!(counts(&world), [1, 2, 0, 1, 1, 0, 1, 0, 0, 0]);
}
