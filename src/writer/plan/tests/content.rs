//! What is copied, and how.

use super::*;

#[test]
fn a_mirror_gets_one_copy_per_slice_under_its_own_port_names() {
    let slices = [
        one().zone("za").node("n0").pod("shop/web-0"),
        web("web-2")
            .endpoint("10.9.0.3")
            .endpoint("10.9.0.2")
            .not_ready(),
    ];
    let scene = check(
        Scene::mirror(slices),
        "shop/web-east",
        "+ web-1@east http=8080 | 10.9.0.1 zone:za
         + web-2@east http=8080 | 10.9.0.2 unready, 10.9.0.3",
    );
    for (name, copy) in &scene.copies {
        assert!(name.name.starts_with("web-east-east-"), "{name}");
        assert_eq!(copy.owners, [Uid::from("uid-1")]);
    }
}

#[test]
fn order_and_annotations_of_the_source_do_not_matter() {
    let mut scene = Scene::mirror([web("web-1").endpoint("10.9.0.1").endpoint("10.9.0.2")]);
    scene.settle("shop/web-east");
    let reordered = web("web-1")
        .endpoint("10.9.0.2")
        .endpoint("10.9.0.1")
        .object_of("other", 7);
    scene.say([cluster("east").apply(reordered)]);
    check(scene, "shop/web-east", "");
}

#[test]
fn ports_are_joined_by_number_and_renamed() {
    let mut scene = Scene::empty();
    let mirror = service("shop/web-east")
        .port(80, "http")
        .speaking("kubernetes.io/h2c")
        .port(81, "also-http")
        .port(53, "dns")
        .over(Transport::Udp)
        .port(9, "absent")
        .mirrors("web@east")
        .mirror("uid-1", |_| {});
    let member = service("shop/web")
        .port(80, "main")
        .port(81, "main")
        .speaking("http")
        .port(53, "main");
    scene.say(home().begins_with([mirror.into()]));
    scene.say([Change::LinksKnown, cluster("east").linked()]);
    let slice = slice("web-1")
        .of("shop/web")
        .port(8080, "main")
        .endpoint("10.9.0.1");
    scene.say(cluster("east").begins_with([member.into(), slice.into()]));
    // 53 is there over TCP only.
    check(
        scene,
        "shop/web-east",
        "+ web-1@east also-http=8080/http,http=8080/kubernetes.io/h2c | 10.9.0.1",
    );
}

#[test]
fn a_slice_without_any_of_the_ports_is_not_copied() {
    let scene = Scene::mirror([slice("web-1")
        .of("shop/web")
        .port(8080, "other")
        .endpoint("10.9.0.1")]);
    let plan = scene.plan("shop/web-east");
    assert!(plan.is_empty());
    assert!(
        reports(&plan).contains("PortNotExported(\"east\")"),
        "{}",
        reports(&plan)
    );
    let numberless = web("web-1").numberless().endpoint("10.9.0.1");
    check(Scene::mirror([numberless]), "shop/web-east", "");
}

#[test]
fn conditions_are_copied_and_always_explicit() {
    let slice = web("web-1")
        .endpoint("10.9.0.1")
        .conditions(false, true, true)
        .endpoint("10.9.0.2")
        .conditions(true, true, true)
        .endpoint("10.9.0.3")
        .conditions(false, false, false);
    check(
        Scene::mirror([slice]),
        "shop/web-east",
        "+ web-1@east http=8080 | 10.9.0.1 unready serving terminating, 10.9.0.2 terminating, 10.9.0.3 unready",
    );
}

#[test]
fn families_that_the_home_service_lacks_are_left_out() {
    let slices = || [one(), web("web-6").ipv6().endpoint("fd00::1")];
    check(
        Scene::mirror(slices()),
        "shop/web-east",
        "+ web-1@east http=8080 | 10.9.0.1",
    );
    let mut scene = Scene::mirror(slices());
    let only_v6 = |details: &mut ServiceDetails| {
        details.families = IpFamilies {
            v4: false,
            v6: true,
        }
    };
    scene.say([home().apply(web_east().mirror("uid-1", only_v6))]);
    check(scene, "shop/web-east", "+ web-6@east http=8080 | fd00::1");
}

#[test]
fn home_endpoints_keep_node_and_target_and_remote_ones_lose_them() {
    let endpoint =
        |slice: SliceBuilder, ip: &str| slice.endpoint(ip).node("n0").pod("shop/web-0").zone("za");
    let members: &[(&str, &[SliceBuilder])] = &[
        (HOME, &[endpoint(web("web-h"), "10.1.0.1")]),
        ("west", &[endpoint(web("web-w"), "10.9.0.1")]),
    ];
    check(
        Scene::federated(members),
        "shop/web-federated",
        "+ web-h@home http=8080 | 10.1.0.1 node:n0 zone:za pod:web-0
         + web-w@west http=8080 | 10.9.0.1 zone:za",
    );
    let mut scene = Scene::federated(members);
    scene.settings.node_names = NodeNames::Keep;
    scene.settings.home_members = HomeMembers::LeftOut;
    check(
        scene,
        "shop/web-federated",
        "+ web-w@west http=8080 | 10.9.0.1 node:n0 zone:za",
    );
}

#[test]
fn zones_are_kept_or_changed_as_chosen() {
    let zones = |zones: Zones, expected: &str| {
        let mut scene = Scene::mirror([
            one().zone("za"),
            web("web-2").endpoint("10.9.0.2").zone("not/a label"),
            web("web-3").endpoint("10.9.0.3").zone(""),
        ]);
        scene.settings.zones.insert("east".into(), zones);
        scene.settle("shop/web-east");
        let said: Vec<_> = scene
            .copies
            .values()
            .flat_map(|copy| copy.content.iter().flat_map(|content| &content.endpoints))
            .map(say_endpoint)
            .collect();
        let mut said: Vec<_> = said
            .iter()
            .map(|text| text.replace("10.9.0.", ""))
            .collect();
        said.sort();
        assert_eq!(said.join(", "), expected);
    };
    zones(Zones::Keep, "1 zone:za, 2, 3");
    zones(Zones::Prefix, "1 zone:east.za, 2, 3");
    zones(Zones::Cluster, "1 zone:east, 2 zone:east, 3 zone:east");
    zones(Zones::Drop, "1, 2, 3");
    zones(
        Zones::Map(BTreeMap::from([("za".into(), "eu-1a".into())])),
        "1 zone:eu-1a, 2, 3",
    );
}

#[test]
fn hostnames_follow_the_policy() {
    let hostnames = |mode: Hostnames, stock: bool, expected: &str| {
        let mut scene = Scene::federated(&[
            (
                HOME,
                &[web("web-h")
                    .endpoint("10.1.0.1")
                    .hostname("web-0")
                    .pod("shop/web-0")
                    .endpoint("10.1.0.2")
                    .hostname("vm")],
            ),
            (
                "west",
                &[web("web-w")
                    .endpoint("10.9.0.1")
                    .hostname("web-0")
                    .pod("shop/web-0")
                    .endpoint("10.9.0.2")
                    .hostname("Bad_Name")],
            ),
        ]);
        scene.settings.hostnames = mode;
        scene.moment.stock_destination = stock;
        scene.settle("shop/web-federated");
        let endpoints = scene
            .copies
            .values()
            .flat_map(|copy| copy.content.iter().flat_map(|content| &content.endpoints));
        let mut said: Vec<_> = endpoints
            .map(|endpoint| {
                format!(
                    "{} {}",
                    endpoint.address,
                    endpoint.hostname.clone().unwrap_or_default()
                )
            })
            .collect();
        said.sort();
        assert_eq!(said.join(", "), expected, "{mode:?}");
    };
    hostnames(
        Hostnames::Auto,
        false,
        "10.1.0.1 web-0, 10.1.0.2 vm, 10.9.0.1 web-0, 10.9.0.2 ",
    );
    hostnames(
        Hostnames::Auto,
        true,
        "10.1.0.1 web-0, 10.1.0.2 , 10.9.0.1 , 10.9.0.2 ",
    );
    hostnames(
        Hostnames::Keep,
        true,
        "10.1.0.1 web-0, 10.1.0.2 vm, 10.9.0.1 web-0, 10.9.0.2 ",
    );
    hostnames(
        Hostnames::Drop,
        false,
        "10.1.0.1 , 10.1.0.2 , 10.9.0.1 , 10.9.0.2 ",
    );
    hostnames(
        Hostnames::Suffix,
        false,
        "10.1.0.1 web-0-home, 10.1.0.2 vm-home, 10.9.0.1 web-0-west, 10.9.0.2 ",
    );
}

#[test]
fn a_suffixed_hostname_that_is_too_long_is_left_out() {
    let mut scene = Scene::mirror([web("web-1").endpoint("10.9.0.1").hostname(&"h".repeat(59))]);
    scene.settings.hostnames = Hostnames::Suffix;
    check(scene, "shop/web-east", "+ web-1@east http=8080 | 10.9.0.1");
}

#[test]
fn empty_slices_are_copied_empty() {
    check(
        Scene::mirror([web("web-1")]),
        "shop/web-east",
        "+ web-1@east http=8080 |",
    );
}

#[test]
fn a_thousand_endpoints_fit_and_more_do_not() {
    let mut slice = web("web-1");
    for number in 0..1003_u32 {
        slice = slice.endpoint(&format!("10.9.{}.{}", number / 250, number % 250 + 1));
    }
    let scene = Scene::mirror([slice]);
    let plan = scene.plan("shop/web-east");
    let [Action::Apply { copy, .. }] = &plan.units[&ClusterName::from("east")][..] else {
        panic!("{plan:?}");
    };
    assert_eq!(copy.content.endpoints.len(), 1000);
    assert!(reports(&plan).contains("TooMany, 3"), "{}", reports(&plan));
}
