use super::*;
use crate::index::Object;
use crate::testing::{PodBuilder, World, cluster, external_workload, home, pod, service};

const IP: &str = "10.0.0.1";

fn describe(owner: &Result<AddressOwner, Conflict>) -> String {
    match owner {
        Ok(AddressOwner::Nobody) => "-".to_owned(),
        Ok(AddressOwner::Service(service)) => format!("service {service}"),
        Ok(AddressOwner::Workload(Tenant::Pod(holder))) => {
            format!("{}@{}", holder.workload.pod, holder.cluster.name)
        }
        Ok(AddressOwner::Workload(Tenant::External(workload))) => {
            format!("external {}", workload.name)
        }
        Err(Conflict { between, count }) => format!("{count} {between:?}"),
    }
}

/// Who has port 80 of [`IP`], given these objects of the home cluster.
fn check(objects: impl IntoIterator<Item = Object>, expected: &str) {
    let mut world = World::default();
    world.say(home().begins_with(objects));
    check_world(&world, expected);
}

fn check_world(world: &World, expected: &str) {
    let ip = IP.parse().expect("an address");
    let owner = world.index.address(ip).owner(ip, 80);
    assert_eq!(describe(&owner), expected);
}

fn check_after(world: &World, before: &AddressOwner, expected: &str) -> AddressOwner {
    let ip = IP.parse().expect("an address");
    let owner = world.index.address(ip).owner_after(before, ip, 80);
    assert_eq!(describe(&Ok(owner.clone())), expected);
    owner
}

fn web() -> PodBuilder {
    pod("shop/web").ip(IP)
}

fn api() -> PodBuilder {
    pod("shop/api").ip(IP)
}

#[test]
fn a_pod_has_its_address_while_it_runs() {
    check([], "-");
    check([web().object()], "shop/web@home");
    check([web().starting().object()], "-");
    check([web().finished().object()], "-");
    check([web().terminating().object()], "-");
    check([pod("shop/web").ip("10.0.0.2").object()], "-");
}

#[test]
fn live_pods_with_one_address_are_in_conflict() {
    check([web().object(), api().object()], "2 Pods");
    check([web().object(), api().starting().object()], "2 Pods");
    check([web().object(), api().finished().object()], "shop/web@home");
    check(
        [web().object(), api().terminating().object()],
        "shop/web@home",
    );
}

#[test]
fn host_ports_lead_to_pods_and_come_second() {
    let hosted = || pod("shop/host").ip("10.1.0.1").host_port(IP, 80);
    check([hosted().object()], "shop/host@home");
    check([pod("shop/host").host_port(IP, 81).object()], "-");
    check(
        [
            hosted().object(),
            pod("shop/other").host_port(IP, 80).object(),
        ],
        "2 HostPorts",
    );
    check([hosted().object(), web().object()], "shop/web@home");
    check(
        [hosted().object(), web().terminating().object()],
        "shop/host@home",
    );
    // The address of a Pod in its Node's network is the Node's.
    check([web().in_host_network().object()], "-");
    check(
        [web().in_host_network().host_port(IP, 80).object()],
        "shop/web@home",
    );
}

#[test]
fn cluster_ips_come_first() {
    let named = |name: &str| service(name).cluster_ip(IP).object();
    check([named("shop/web"), web().object()], "service shop/web");
    check([named("shop/web"), named("shop/api")], "2 Services");
}

#[test]
fn external_workloads_have_the_ports_they_list() {
    let vm = |name: &str| external_workload(name).ip(IP).port(80, "http");
    check([vm("shop/vm").object()], "external shop/vm");
    check(
        [external_workload("shop/vm")
            .ip(IP)
            .port(81, "http")
            .object()],
        "-",
    );
    check(
        [vm("shop/vm").object(), vm("bank/vm").object()],
        "2 ExternalWorkloads",
    );
    check([vm("shop/vm").object(), web().object()], "shop/web@home");
    // It takes over when the Pod goes, and leaves when it does not list the port any more.
    let mut world = World::default();
    world.say(home().begins_with([vm("shop/vm").object(), web().object()]));
    let told = check_after(&world, &AddressOwner::Nobody, "shop/web@home");
    world.say([home().delete(web())]);
    let told = check_after(&world, &told, "external shop/vm");
    world.say([home().apply(vm("bank/vm"))]);
    check_after(&world, &told, "external shop/vm");
    world.say([
        home().delete(vm("bank/vm")),
        home().apply(external_workload("shop/vm").ip(IP)),
    ]);
    check_after(&world, &told, "-");
}

#[test]
fn pods_of_linked_clusters_come_last() {
    let mut world = World::default();
    world.say(home().begins_with([]));
    world.say(cluster("east").begins_with([web().object()]));
    check_world(&world, "shop/web@east");
    world.say(cluster("west").begins_with([web().object()]));
    check_world(&world, "-");
    world.say([cluster("west").unlinked()]);
    check_world(&world, "shop/web@east");
    // Whatever has the address at home, it is at home.
    for local in [api().starting(), pod("shop/host").host_port(IP, 9)] {
        world.say([home().apply(local.clone())]);
        check_world(&world, "-");
        world.say([home().delete(local)]);
    }
    check_world(&world, "shop/web@east");
}

#[test]
fn who_was_told_of_stays_while_nobody_takes_over() {
    let mut world = World::default();
    world.say(home().begins_with([web().object()]));
    let nobody = AddressOwner::Nobody;
    let told = check_after(&world, &nobody, "shop/web@home");
    world.say([home().apply(api())]);
    check_after(&world, &nobody, "-");
    check_after(&world, &told, "shop/web@home");
    world.say([home().delete(web()), home().apply(pod("shop/db").ip(IP))]);
    check_after(&world, &told, "-");
    world.say([home().delete(api())]);
    let told = check_after(&world, &told, "shop/db@home");

    world.say([home().apply(pod("shop/db").ip(IP).terminating())]);
    let told = check_after(&world, &told, "shop/db@home");
    check_after(&world, &nobody, "-");
    world.say([home().apply(api())]);
    check_after(&world, &told, "shop/api@home");
    world.say([home().delete(api()), home().delete(pod("shop/db"))]);
    check_after(&world, &told, "-");

    let one = AddressOwner::Service(service("shop/one").name());
    let named = |name: &str| service(name).cluster_ip(IP);
    world.say([
        home().apply(named("shop/one")),
        home().apply(named("shop/two")),
    ]);
    check_after(&world, &one, "service shop/one");
    check_after(&world, &nobody, "-");
}

/// What clashes at [`IP`], given these objects of the home cluster, and who takes part.
fn check_clashes(objects: impl IntoIterator<Item = Object>, expected: &[&str]) {
    let mut world = World::default();
    world.say(home().begins_with(objects));
    let address = world.index.address(IP.parse().expect("an address"));
    let described = |clash: Clash| {
        let claimants = address.claimants(clash).join(", ");
        format!("{}: {claimants}", clash.as_str())
    };
    let got: Vec<_> = address.clashes().into_iter().map(described).collect();
    assert_eq!(got, expected);
}

#[test]
fn an_external_workload_on_the_ip_of_a_pod_clashes_with_it() {
    let workload = || {
        external_workload("shop/vm")
            .ip(IP)
            .port(80, "http")
            .object()
    };
    check_clashes([workload()], &[]);
    check_clashes(
        [pod("shop/web").ip(IP).object(), workload()],
        &["pod_and_external_workload: Pod shop/web, ExternalWorkload shop/vm"],
    );
    // It does not have to list a port that the Pod has.
    let other_port = external_workload("shop/vm")
        .ip(IP)
        .port(81, "http")
        .object();
    check(
        [pod("shop/web").ip(IP).object(), other_port],
        "shop/web@home",
    );
}

#[test]
fn a_pod_that_is_about_to_go_clashes_with_nobody() {
    let going = pod("shop/old").ip(IP).terminating().object();
    check_clashes([going, pod("shop/new").ip(IP).object()], &[]);
}

#[test]
fn several_of_one_sort_clash() {
    check_clashes(
        [
            service("shop/a").cluster_ip(IP).object(),
            service("shop/b").cluster_ip(IP).object(),
            pod("shop/p").ip(IP).object(),
            pod("shop/q").ip(IP).object(),
        ],
        &[
            "services: Service shop/a, Service shop/b",
            "pods: Pod shop/p, Pod shop/q",
        ],
    );
    let workload = |name, port| external_workload(name).ip(IP).port(port, "http").object();
    check_clashes([workload("shop/a", 80), workload("shop/b", 81)], &[]);
    check_clashes(
        [workload("shop/a", 80), workload("shop/b", 80)],
        &["external_workloads: ExternalWorkload shop/a, ExternalWorkload shop/b"],
    );
}
