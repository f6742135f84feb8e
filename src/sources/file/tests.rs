//! Files on disk in, published views out.

use std::fmt::Write as _;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio::task::JoinSet;

use super::*;
use crate::index::{ClientLocality, ClusterState, SelectPolicy};
use crate::model::ServiceName;
use crate::publish::{Catalog, Connection, IndexMetrics, Indexer, change_channel};
use crate::readiness::Readiness;

/// A manifests folder.
struct Files(TempDir);

/// A source that reads a folder, and an index that publishes what it says.
struct Bench {
    files: Files,
    catalog: Catalog,
    shutdown: CancellationToken,
    tasks: JoinSet<()>,
}

impl Files {
    /// A home cluster that has `web`, and a federated Service over `web` in it, west and east.
    fn new() -> Self {
        let files = Self(tempfile::tempdir().expect("folder"));
        files.write(
            "home/services.yaml",
            &format!("{}---\n{}", service("web", ""), federated()),
        );
        files.write("home/web.yaml", &backends(&[("web-1", "10.1.0.1")]));
        files
    }

    fn start(self) -> Bench {
        self.start_in("")
    }

    fn start_in(self, below: &str) -> Bench {
        let config = config(self.path(below));
        self.start_with(config)
    }

    fn start_with(self, config: FileConfig) -> Bench {
        let board = StatusBoard::default();
        let (indexer, catalog) = Indexer::new(
            "home".into(),
            SelectPolicy::default(),
            board.clone(),
            Readiness::default(),
            IndexMetrics::register(&mut Registry::default()),
        );
        let (sender, receiver) = change_channel();
        let source = FileSource::new(config);
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn_blocking(move || indexer.run(receiver));
        tasks.spawn(async move { source.run(sender, board, stop).await.expect("runs") });
        Bench {
            files: self,
            catalog,
            shutdown,
            tasks,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("parent")).expect("folder");
        fs::write(path, text).expect("write");
    }
}

impl Deref for Bench {
    type Target = Files;

    fn deref(&self) -> &Files {
        &self.files
    }
}

impl Bench {
    /// Waits until a Service of namespace `default` has these endpoints: `address@cluster`, in order.
    async fn expect(&self, service: &str, expected: &str) {
        self.home_synced().await;
        let service = ServiceName::new("default", service);
        let mut subscription = self.catalog.subscribe(&service).expect("service");
        let mut seen = String::new();
        let reached = tokio::time::timeout(LIMIT, async {
            loop {
                seen.clear();
                let version = subscription.view(80, None, &ClientLocality::default());
                for endpoint in &version.view().endpoints {
                    let cluster = &endpoint.cluster;
                    write!(seen, "{}@{}", endpoint.socket.ip(), cluster.name).expect("text");
                    if cluster.trust_domain.as_str() != "cluster.local" {
                        write!(seen, "/{}", cluster.trust_domain).expect("text");
                    }
                    seen.push(' ');
                }
                if !version.view().complete {
                    seen.push_str("incomplete");
                }
                if seen.trim() == expected {
                    return;
                }
                subscription.changed().await;
            }
        });
        let reached = reached.await.is_ok();
        assert!(reached, "{service} is {seen:?}, not {expected:?}");
    }

    async fn home_synced(&self) {
        let synced = |catalog: &Catalog| catalog.is_home_synced();
        let mut clusters = self.catalog.watch_clusters();
        let waiting = async {
            while !synced(&self.catalog) {
                clusters.changed().await.expect("clusters");
            }
        };
        tokio::time::timeout(LIMIT, waiting)
            .await
            .expect("home is synced");
    }

    /// Waits until exactly these linked clusters are known: `name`, or `name?` if it is not synced.
    async fn linked(&self, expected: &str) {
        let mut clusters = self.catalog.watch_clusters();
        let waiting = clusters.wait_for(|clusters| {
            let names: Vec<_> = clusters
                .iter()
                .filter(|cluster| cluster.name.as_str() != "home")
                .map(|cluster| match cluster.state {
                    ClusterState::Synced => cluster.name.to_string(),
                    ClusterState::Syncing => format!("{}?", cluster.name),
                })
                .collect();
            names.join(" ") == expected
        });
        if let Err(elapsed) = tokio::time::timeout(LIMIT, waiting).await {
            panic!("{elapsed}: {:?}, not {expected:?}", self.catalog.clusters());
        }
    }

    async fn stop(mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("ends well");
        }
    }
}

/// Longer than anything takes; only failures wait for it.
const LIMIT: Duration = Duration::from_secs(20);

fn config(dir: PathBuf) -> FileConfig {
    FileConfig {
        dir,
        home: "home".into(),
        trust_domain: "cluster.local".into(),
        control_plane_namespace: "linkerd".into(),
        endpoint_kind: EndpointKind::EndpointSlice,
    }
}

fn service(name: &str, annotations: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  annotations: {{{annotations}}}\n\
         spec:\n  ports:\n  - {{name: http, port: 80}}\n"
    )
}

fn federated() -> String {
    service(
        "everywhere",
        "multicluster.linkerd.io/local-discovery: web, \
         multicluster.linkerd.io/remote-discovery: 'web@east,web@west'",
    )
}

/// Pods of Service `web` and the EndpointSlice that lists them.
fn backends(pods: &[(&str, &str)]) -> String {
    slice_of("web-1", pods)
}

fn slice_of(slice: &str, pods: &[(&str, &str)]) -> String {
    let mut text = String::new();
    let mut endpoints = String::new();
    for (name, ip) in pods {
        write!(
            text,
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default}}\n\
             status: {{podIP: {ip}, podIPs: [{{ip: {ip}}}]}}\n---\n"
        )
        .expect("text");
        write!(
            endpoints,
            "- addresses: [{ip}]\n  targetRef: {{kind: Pod, name: {name}, namespace: default}}\n"
        )
        .expect("text");
    }
    format!(
        "{text}apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: IPv4\n\
         metadata: {{name: {slice}, labels: {{kubernetes.io/service-name: web}}}}\n\
         ports: [{{name: http, port: 80}}]\nendpoints:\n{endpoints}"
    )
}

/// What a linked cluster's folder holds: `web` with one Pod.
fn remote(ip: &str) -> String {
    format!("{}---\n{}", service("web", ""), backends(&[("web-r", ip)]))
}

fn secret(cluster: &str, trust_domain: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\ntype: mirror.linkerd.io/remote-kubeconfig\nmetadata:\n  \
         name: cluster-credentials-{cluster}\n  namespace: linkerd\n  \
         labels: {{multicluster.linkerd.io/cluster-name: {cluster}}}\n  annotations:\n    \
         multicluster.linkerd.io/trust-domain: '{trust_domain}'\n    \
         multicluster.linkerd.io/cluster-domain: cluster.local\n"
    )
}

async fn fails(dir: &Path) -> String {
    let (sender, _receiver) = change_channel();
    let source = FileSource::new(config(dir.to_owned()));
    let result = source
        .run(sender, StatusBoard::default(), CancellationToken::new())
        .await;
    let error = result.expect_err("fails").to_string();
    error.replace(&dir.display().to_string(), "DIR")
}

#[tokio::test]
async fn a_missing_folder_is_a_clear_error() {
    let dir = tempfile::tempdir().expect("folder");
    assert_eq!(
        fails(&dir.path().join("x")).await,
        "there is no folder DIR; make it, with one folder of Kubernetes YAML per cluster, or name another with --manifests"
    );
    assert_eq!(
        fails(dir.path()).await,
        "there is no folder DIR/home, which would be the home cluster's; make it, or give the home cluster the name of its folder"
    );
    fs::write(dir.path().join("file"), "").expect("write");
    assert_eq!(
        fails(&dir.path().join("file")).await,
        "DIR is not a folder; --manifests takes one that holds a folder of Kubernetes YAML per cluster"
    );
}

#[tokio::test]
async fn edits_are_followed() {
    let files = Files::new();
    let bench = files.start();
    bench.expect("web", "10.1.0.1@home").await;

    bench.write(
        "home/web.yaml",
        &backends(&[("web-1", "10.1.0.1"), ("web-2", "10.1.0.2")]),
    );
    bench.expect("web", "10.1.0.1@home 10.1.0.2@home").await;

    // As editors do it.
    bench.write("home/.web.yaml.swp", &backends(&[("web-2", "10.1.0.2")]));
    fs::rename(
        bench.path("home/.web.yaml.swp"),
        bench.path("home/web.yaml"),
    )
    .expect("rename");
    bench.expect("web", "10.1.0.2@home").await;

    bench.write(
        "home/deeper/still/more.yml",
        &slice_of("web-2", &[("web-3", "10.1.0.3")]),
    );
    bench.expect("web", "10.1.0.2@home 10.1.0.3@home").await;
    bench.write(
        "home/deeper/still/more.yml",
        &slice_of("web-2", &[("web-3", "10.1.0.4")]),
    );
    bench.expect("web", "10.1.0.2@home 10.1.0.4@home").await;

    fs::remove_file(bench.path("home/web.yaml")).expect("remove");
    bench.expect("web", "10.1.0.4@home").await;
    fs::remove_dir_all(bench.path("home/deeper")).expect("remove");
    bench.expect("web", "").await;
    bench.stop().await;
}

#[tokio::test]
async fn a_broken_file_costs_its_new_version_only() {
    let files = Files::new();
    files.write(
        "home/other.yaml",
        &slice_of("web-2", &[("other", "10.1.0.9")]),
    );
    let bench = files.start();
    bench.expect("web", "10.1.0.1@home 10.1.0.9@home").await;

    let good = backends(&[("web-2", "10.1.0.2")]);
    bench.write("home/web.yaml", &format!("{good}---\nkind: [\n"));
    bench.write(
        "home/other.yaml",
        &slice_of("web-2", &[("other", "10.1.0.8")]),
    );
    bench.expect("web", "10.1.0.1@home 10.1.0.8@home").await;

    bench.write("home/web.yaml", &good);
    bench.expect("web", "10.1.0.2@home 10.1.0.8@home").await;

    bench.write("home/web.yaml", "kind: [\n");
    fs::remove_file(bench.path("home/other.yaml")).expect("remove");
    bench.expect("web", "10.1.0.2@home").await;
    fs::remove_file(bench.path("home/web.yaml")).expect("remove");
    bench.expect("web", "").await;
    bench.stop().await;
}

#[tokio::test]
async fn a_pipe_named_like_a_manifest_holds_nothing_up() {
    let files = Files::new();
    for pipe in ["home/first.yaml", "home/.later"] {
        let made = std::process::Command::new("mkfifo")
            .arg(files.path(pipe))
            .status();
        assert!(made.expect("mkfifo").success());
    }
    let bench = files.start();
    bench.expect("web", "10.1.0.1@home").await;
    fs::rename(bench.path("home/.later"), bench.path("home/web.yaml")).expect("rename");
    bench.write(
        "home/other.yaml",
        &slice_of("web-2", &[("other", "10.1.0.9")]),
    );
    bench.expect("web", "10.1.0.1@home 10.1.0.9@home").await;

    fs::remove_file(bench.path("home/web.yaml")).expect("remove");
    bench.expect("web", "10.1.0.9@home").await;
    bench.stop().await;
}

#[tokio::test]
async fn of_two_definitions_the_last_by_path_counts() {
    let files = Files::new();
    files.write("home/zz.yaml", &backends(&[("web-2", "10.1.0.2")]));
    let bench = files.start();
    bench.expect("web", "10.1.0.2@home").await;

    bench.write(
        "home/web.yaml",
        &backends(&[("web-1", "10.1.0.1"), ("web-3", "10.1.0.3")]),
    );
    bench.write("home/zz.yaml", &backends(&[("web-2", "10.1.0.4")]));
    bench.expect("web", "10.1.0.4@home").await;

    fs::remove_file(bench.path("home/zz.yaml")).expect("remove");
    bench.expect("web", "10.1.0.1@home 10.1.0.3@home").await;
    bench.stop().await;
}

#[tokio::test]
async fn without_secrets_every_folder_is_a_linked_cluster() {
    let files = Files::new();
    files.write("west/web.yaml", &remote("10.2.0.1"));
    let bench = files.start();
    bench.linked("west").await;
    bench
        .expect("everywhere", "10.1.0.1@home 10.2.0.1@west")
        .await;

    bench.write("east/web.yaml", &remote("10.3.0.1"));
    bench.linked("east west").await;
    bench
        .expect("everywhere", "10.1.0.1@home 10.2.0.1@west 10.3.0.1@east")
        .await;

    fs::rename(bench.path("west"), bench.path(".west")).expect("rename");
    bench.linked("east").await;
    bench
        .expect("everywhere", "10.1.0.1@home 10.3.0.1@east")
        .await;

    fs::rename(bench.path(".west"), bench.path("west")).expect("rename");
    bench.linked("east west").await;
    bench.write("west/web.yaml", &remote("10.2.0.2"));
    bench
        .expect("everywhere", "10.1.0.1@home 10.2.0.2@west 10.3.0.1@east")
        .await;
    bench.stop().await;
}

#[tokio::test]
async fn secrets_decide_which_clusters_are_linked() {
    let files = Files::new();
    files.write(
        "home/links.yaml",
        &format!("{}---\n{}", secret("west", "w"), secret("north", "n")),
    );
    files.write("west/web.yaml", &remote("10.2.0.1"));
    files.write("east/web.yaml", &remote("10.3.0.1"));
    let bench = files.start();
    bench.linked("north? west").await;
    bench
        .expect("everywhere", "10.1.0.1@home 10.2.0.1@west/w")
        .await;
    let status = bench
        .catalog
        .board()
        .status(&"north".into())
        .expect("on the board");
    assert!(
        matches!(status.connection, Connection::Unreachable(_)),
        "{status:?}"
    );

    bench.write("home/east.yaml", &secret("east", ""));
    bench.linked("east north? west").await;
    bench
        .expect("everywhere", "10.1.0.1@home 10.2.0.1@west/w 10.3.0.1@east/")
        .await;

    // Another trust domain is another session, which waits until all of the cluster can be read.
    bench.write("west/web.yaml", "kind: [\n");
    bench.write("home/links.yaml", &secret("west", "new"));
    bench.linked("east west").await;
    bench
        .expect("everywhere", "10.1.0.1@home 10.2.0.1@west/w 10.3.0.1@east/")
        .await;
    bench.write("west/web.yaml", &remote("10.2.0.2"));
    bench
        .expect(
            "everywhere",
            "10.1.0.1@home 10.2.0.2@west/new 10.3.0.1@east/",
        )
        .await;

    // The last Secret unlinks the last cluster.
    fs::remove_file(bench.path("home/links.yaml")).expect("remove");
    bench.linked("east").await;
    fs::remove_file(bench.path("home/east.yaml")).expect("remove");
    bench.linked("").await;
    bench.expect("everywhere", "10.1.0.1@home").await;
    bench.stop().await;
}

#[tokio::test]
async fn a_linked_cluster_without_its_folder_is_served_as_last_known() {
    let files = Files::new();
    files.write("home/links.yaml", &secret("west", "cluster.local"));
    files.write("west/web.yaml", &remote("10.2.0.1"));
    let bench = files.start();
    bench
        .expect("everywhere", "10.1.0.1@home 10.2.0.1@west")
        .await;

    fs::rename(bench.path("west"), bench.path(".west")).expect("rename");
    bench.write("home/web.yaml", &backends(&[("web-1", "10.1.0.2")]));
    bench
        .expect("everywhere", "10.1.0.2@home 10.2.0.1@west")
        .await;

    bench.write("west/web.yaml", &remote("10.2.0.2"));
    bench
        .expect("everywhere", "10.1.0.2@home 10.2.0.2@west")
        .await;
    bench.stop().await;
}

#[cfg(unix)]
#[tokio::test]
async fn swapped_links_are_followed() {
    use std::os::unix::fs::symlink;

    let swap = |target: &Path, link: &Path| {
        let aside = link.with_file_name("..aside");
        symlink(target, &aside).expect("link");
        fs::rename(aside, link).expect("swap");
    };
    // As a ConfigMap is mounted: the files are links through one link that is swapped.
    let files = Files::new();
    fs::remove_file(files.path("home/web.yaml")).expect("remove");
    files.write("home/..1/web.yaml", &backends(&[("web-1", "10.1.0.1")]));
    files.write("home/..2/web.yaml", &backends(&[("web-1", "10.1.0.2")]));
    swap(Path::new("..1"), &files.path("home/..data"));
    symlink("..data/web.yaml", files.path("home/web.yaml")).expect("link");
    let bench = files.start();
    bench.expect("web", "10.1.0.1@home").await;
    swap(Path::new("..2"), &bench.path("home/..data"));
    fs::remove_dir_all(bench.path("home/..1")).expect("remove");
    bench.expect("web", "10.1.0.2@home").await;
    // In place, behind the link.
    bench.write("home/..2/web.yaml", &backends(&[("web-1", "10.1.0.3")]));
    bench.expect("web", "10.1.0.3@home").await;
    bench.stop().await;

    // The whole folder is a link.
    let files = Files::new();
    fs::create_dir(files.path(".one")).expect("folder");
    fs::rename(files.path("home"), files.path(".one/home")).expect("rename");
    let services = fs::read_to_string(files.path(".one/home/services.yaml")).expect("read");
    files.write(
        ".two/home/all.yaml",
        &format!("{services}---\n{}", backends(&[("w", "10.1.0.5")])),
    );
    swap(Path::new(".one"), &files.path("current"));
    let bench = files.start_in("current");
    bench.expect("web", "10.1.0.1@home").await;
    swap(Path::new(".two"), &bench.path("current"));
    bench.expect("web", "10.1.0.5@home").await;
    bench.write(
        ".two/home/all.yaml",
        &format!("{services}---\n{}", backends(&[("w", "10.1.0.6")])),
    );
    bench.expect("web", "10.1.0.6@home").await;
    bench.stop().await;
}

#[tokio::test]
async fn endpoints_objects_count_where_they_are_asked_for_and_slices_do_not() {
    let endpoints = |addresses: &str| {
        format!(
            "apiVersion: v1\nkind: Endpoints\nmetadata: {{name: web}}\nsubsets:\n\
             - addresses: [{addresses}]\n  ports: [{{name: http, port: 80}}]\n\
             - addresses: [{{ip: 10.9.0.1}}]\n  notReadyAddresses: [{{ip: 10.9.0.2}}]\n  ports: [{{name: http, port: 81}}]\n"
        )
    };
    let files = Files::new();
    files.write(
        "home/endpoints.yaml",
        &endpoints("{ip: 10.8.0.1}, {ip: 10.8.0.2}"),
    );
    files.write(
        "west/web.yaml",
        &format!("{}---\n{}", service("web", ""), endpoints("{ip: 10.7.0.1}")),
    );
    files.write("east/web.yaml", &remote("10.3.0.1"));
    let config = FileConfig {
        endpoint_kind: EndpointKind::Endpoints,
        ..config(files.path(""))
    };
    let bench = files.start_with(config);
    bench
        .expect("web", "10.8.0.1@home 10.8.0.2@home 10.9.0.1@home")
        .await;
    bench
        .expect(
            "everywhere",
            "10.7.0.1@west 10.8.0.1@home 10.8.0.2@home 10.9.0.1@home",
        )
        .await;
    bench.write("home/endpoints.yaml", &endpoints(""));
    bench.expect("web", "10.9.0.1@home").await;
    fs::remove_file(bench.path("home/endpoints.yaml")).expect("remove");
    bench.expect("web", "").await;
    bench
        .expect("everywhere", "10.7.0.1@west 10.9.0.1@west")
        .await;
    bench.stop().await;
}
