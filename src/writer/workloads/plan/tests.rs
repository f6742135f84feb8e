use serde_json::{Value, json};

use super::*;
use crate::model::Uid;

/// A Service, workloads, and the slices that are there.
struct Scene {
    service: Value,
    workloads: BTreeMap<String, Value>,
    slices: BTreeMap<SliceName, Existing>,
    taken: BTreeSet<SliceName>,
    versions: u64,
}

impl Scene {
    /// `shop/vm` selects `app: vm`, and leads to the port named `web` and to 5432.
    fn new() -> Self {
        let service = json!({
            "metadata": {"namespace": "shop", "name": "vm", "uid": "service-1", "labels": {"team": "shop"}},
            "spec": {
                "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "vm"},
                "ports": [
                    {"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"},
                    {"name": "pg", "port": 5432, "targetPort": 5432, "protocol": "TCP"},
                ],
            },
        });
        Self {
            service,
            workloads: BTreeMap::new(),
            slices: BTreeMap::new(),
            taken: BTreeSet::new(),
            versions: 0,
        }
    }

    /// A ready workload that has both ports.
    fn add(&mut self, name: &str, ip: &str) -> &mut Value {
        let workload = json!({
            "apiVersion": "workload.linkerd.io/v1beta1", "kind": "ExternalWorkload",
            "metadata": {"namespace": "shop", "name": name, "uid": format!("uid-{name}"), "labels": {"app": "vm"}},
            "spec": {
                "workloadIPs": [{"ip": ip}],
                "ports": [{"name": "web", "port": 8080}, {"name": "pg", "port": 5432, "protocol": "TCP"}],
            },
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        self.workloads.insert(name.to_owned(), workload);
        self.workloads.get_mut(name).unwrap()
    }

    fn plan(&self) -> Plan {
        let service = serde_json::from_value(self.service.clone()).unwrap();
        let service = Selecting::of(&service).expect("a Service that selects");
        let workloads = self.workloads.values().cloned();
        let workloads: Vec<_> = workloads
            .filter_map(|object| Workload::of(&serde_json::from_value(object).unwrap()))
            .collect();
        plan(&service, workloads.iter(), &self.slices, &self.taken)
    }

    /// Plans and carries out until there is nothing to do; says what was done.
    fn settle(&mut self) -> String {
        let planned = self.plan();
        for action in &planned.actions {
            self.versions += 1;
            match action {
                Action::Apply { copy, over, .. } => {
                    let uid = over.clone();
                    let made = || Uid::from(format!("slice-{}", self.versions).as_str());
                    let there = Existing {
                        name: copy.name.clone(),
                        uid: uid.unwrap_or_else(made),
                        resource_version: self.versions.to_string().into(),
                        is_going: false,
                        service: copy.content.service.clone(),
                        cluster: "".into(),
                        addresses: copy.content.endpoints.len(),
                        content: Some(copy.content.clone()),
                        owners: vec![copy.owner.clone()],
                        source: Provenance::default(),
                    };
                    self.slices.insert(copy.name.clone(), there);
                }
                Action::Delete { name, .. } => {
                    self.slices.remove(name).expect("a slice to delete");
                }
            }
        }
        let again = self.plan();
        assert_eq!(again.actions, [], "a second plan finds more to do");
        Self::describe(&planned.actions)
    }

    fn describe(actions: &[Action]) -> String {
        let lines = actions.iter().map(|action| match action {
            Action::Apply { copy, over, .. } => {
                let sign = if over.is_some() { '~' } else { '+' };
                format!("{sign} {}", content(&copy.content))
            }
            Action::Delete { name, .. } => format!("- {}", name.name),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Gives the only slice a name as Linkerd's controller does.
    fn rename(&mut self, name: &str) {
        let (_, mut slice) = self.slices.pop_first().unwrap();
        slice.name = SliceName::new("shop", name);
        self.slices.insert(slice.name.clone(), slice);
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<_> = self.slices.values().map(|slice| slice.addresses).collect();
        sizes.sort_unstable();
        sizes
    }
}

fn content(content: &Content) -> String {
    let ports = content
        .ports
        .iter()
        .map(|port| format!("{}={}", port.name, port.port));
    let endpoints = content.endpoints.iter().map(|endpoint| {
        let mut text = endpoint.address.to_string();
        let conditions = endpoint.conditions;
        assert_eq!(conditions.ready, conditions.serving);
        assert!(!conditions.terminating);
        if !conditions.ready {
            text += " unready";
        }
        for (word, value) in [
            (" zone:", endpoint.zone.as_ref().map(ToString::to_string)),
            (
                " host:",
                endpoint.hostname.as_ref().map(ToString::to_string),
            ),
        ] {
            if let Some(value) = value {
                text += word;
                text += &value;
            }
        }
        text
    });
    let (ports, endpoints): (Vec<_>, Vec<_>) = (ports.collect(), endpoints.collect());
    format!("{} | {}", ports.join(","), endpoints.join(", "))
}

#[test]
fn workloads_of_the_namespace_that_are_selected_are_listed_as_they_are() {
    let mut scene = Scene::new();
    scene.add("vm-0", "10.50.0.1")["metadata"]["labels"]["topology.kubernetes.io/zone"] =
        json!("za");
    scene.add("vm-1", "10.50.0.2")["status"] =
        json!({"conditions": [{"type": "Ready", "status": "Unknown"}]});
    scene.add("other", "10.50.0.3")["metadata"]["labels"]["app"] = json!("other");
    scene.add("elsewhere", "10.50.0.4")["metadata"]["namespace"] = json!("bank");
    scene.add("no-address", "10.50.0.5")["spec"]["workloadIPs"] = json!([]);
    scene.add("odd-address", "127.0.0.1");
    scene.add("other-family", "fd00::1");
    assert_eq!(
        scene.settle(),
        "+ http=8080,pg=5432 | 10.50.0.1 zone:za, 10.50.0.2 unready"
    );
    let slice = scene.slices.values().next().unwrap();
    assert!(
        slice.name.name.starts_with("linkerd-external-vm-"),
        "{}",
        slice.name
    );
    let content = slice.content.as_ref().unwrap();
    let target = content.endpoints[0].target.as_ref().unwrap();
    assert_eq!((&*target.name, &target.uid), ("vm-0", &"uid-vm-0".into()));
    let labels = [("team".into(), "shop".into())].into_iter().collect();
    assert_eq!(content.origin, Origin::Workloads { labels });
}

#[test]
fn ports_are_found_by_number_or_name_and_protocol_and_lacking_ones_are_told() {
    let mut scene = Scene::new();
    scene.add("both", "10.50.0.1");
    scene.add("other-number", "10.50.0.2")["spec"]["ports"][0]["port"] = json!(9090);
    scene.add("udp", "10.50.0.3")["spec"]["ports"][1]["protocol"] = json!("UDP");
    scene.add("none", "10.50.0.4")["spec"]["ports"] = json!([]);
    let lacking: BTreeMap<Text, Vec<i32>> = scene.plan().without_port;
    assert_eq!(
        lacking,
        BTreeMap::from([("none".into(), vec![80, 5432]), ("udp".into(), vec![5432])])
    );
    assert_eq!(
        scene.settle(),
        "+ http=8080 | 10.50.0.3\n\
         + http=8080,pg=5432 | 10.50.0.1\n\
         + http=9090,pg=5432 | 10.50.0.2"
    );
}

#[test]
fn headless_services_have_hostnames_and_services_without_families_both() {
    let mut scene = Scene::new();
    scene.service["spec"]["clusterIP"] = json!("None");
    scene.service["spec"]["ipFamilies"] = json!([]);
    scene.add("vm-0", "10.50.0.1")["spec"]["workloadIPs"] =
        json!([{"ip": "10.50.0.1"}, {"ip": "fd00::1"}]);
    scene.add("not.a.label", "10.50.0.2");
    assert_eq!(
        scene.settle(),
        "+ http=8080,pg=5432 | 10.50.0.1 host:vm-0, 10.50.0.2\n\
         + http=8080,pg=5432 | fd00::1 host:vm-0"
    );
}

#[test]
fn what_another_controller_has_made_is_gone_on_with() {
    let mut scene = Scene::new();
    scene.add("vm-0", "10.50.0.1");
    scene.settle();
    scene.rename("linkerd-external-vm-x7k2p");
    assert_eq!(scene.settle(), "", "all is well as it is");
    scene.add("vm-1", "10.50.0.2");
    assert_eq!(scene.settle(), "~ http=8080,pg=5432 | 10.50.0.1, 10.50.0.2");
    // Even where every endpoint has other ports: no slice is deleted for that.
    scene.service["spec"]["ports"].as_array_mut().unwrap().pop();
    assert_eq!(scene.settle(), "~ http=8080 | 10.50.0.1, 10.50.0.2");
    let names: Vec<_> = scene
        .slices
        .keys()
        .map(|name| name.name.to_string())
        .collect();
    assert_eq!(names, ["linkerd-external-vm-x7k2p"]);
}

#[test]
fn slices_of_a_service_that_was_there_before_go_and_those_of_none_left_too() {
    let mut scene = Scene::new();
    scene.add("vm-0", "10.50.0.1");
    scene.settle();
    scene.rename("before");
    scene.service["metadata"]["uid"] = json!("service-2");
    assert_eq!(scene.settle(), "+ http=8080,pg=5432 | 10.50.0.1\n- before");
    scene.rename("last");
    scene.workloads.clear();
    assert!(scene.plan().is_urgent);
    assert_eq!(scene.settle(), "- last");
}

#[test]
fn a_name_that_a_stranger_has_is_passed_over() {
    let mut scene = Scene::new();
    scene.add("vm-0", "10.50.0.1");
    let Action::Apply { copy, .. } = &scene.plan().actions[0] else {
        panic!("{:?}", scene.plan());
    };
    let first = copy.name.clone();
    scene.taken.insert(first.clone());
    scene.settle();
    assert!(!scene.slices.contains_key(&first));
}

#[test]
fn endpoints_stay_where_they_are_and_slices_hold_a_hundred() {
    let mut scene = Scene::new();
    let ip = |number: u32| format!("10.50.{}.{}", number / 200, number % 200 + 1);
    for number in 0..250 {
        scene.add(&format!("vm-{number:03}"), &ip(number));
    }
    scene.settle();
    assert_eq!(scene.sizes(), [50, 100, 100]);
    // One more goes where there is room.
    scene.add("vm-250", &ip(250));
    assert_eq!(scene.plan().actions.len(), 1);
    assert!(!scene.plan().is_urgent);
    scene.settle();
    assert_eq!(scene.sizes(), [51, 100, 100]);
    // Others in place of some: in the slice that is written anyway.
    let full = scene
        .slices
        .values()
        .find(|slice| slice.addresses == 100)
        .unwrap();
    let target = full.content.as_ref().unwrap().endpoints[7]
        .target
        .clone()
        .unwrap();
    scene.workloads.remove(&*target.name);
    scene.add("vm-251", &ip(251));
    assert_eq!(scene.plan().actions.len(), 1);
    scene.settle();
    assert_eq!(scene.sizes(), [51, 100, 100]);
    // Ready or not, each stays.
    for number in [3, 103, 203] {
        scene.workloads.get_mut(&format!("vm-{number:03}")).unwrap()["status"] = json!({});
    }
    let plan = scene.plan();
    assert!(
        plan.is_urgent && plan.actions.len() <= 3,
        "{}",
        plan.actions.len()
    );
    scene.settle();
    assert_eq!(scene.sizes(), [51, 100, 100]);
}

#[test]
fn what_is_no_business_of_ours_selects_nothing() {
    let scene = Scene::new();
    for (path, value) in [
        ("/spec/selector", json!({})),
        ("/spec/type", json!("ExternalName")),
        ("/metadata/namespace", json!("kube-system")),
        ("/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
    ] {
        let mut service = scene.service.clone();
        let (parent, key) = path.rsplit_once('/').unwrap();
        service.pointer_mut(parent).unwrap()[key] = value;
        let service = serde_json::from_value(service).unwrap();
        assert_eq!(Selecting::of(&service), None, "{path}");
    }
}

#[test]
fn an_object_that_is_not_what_its_definition_says_costs_itself_only() {
    for spec in [
        json!({"workloadIPs": 7}),
        json!([]),
        json!({"ports": [{"port": "web"}]}),
    ] {
        let mut scene = Scene::new();
        scene.add("vm-0", "10.50.0.1");
        scene.add("odd", "10.50.0.2")["spec"] = spec;
        assert_eq!(scene.settle(), "+ http=8080,pg=5432 | 10.50.0.1");
    }
}
