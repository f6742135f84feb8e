use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::model::EndpointKind;
use crate::publish::{Clock, StatusBoard, change_channel};
use crate::sources::metrics::{RequestMetrics, SourceMetrics};

/// A Secret that links `west`, where nobody listens, with a kubeconfig of one user.
fn secret(user: &str) -> Secret {
    let kubeconfig = format!(
        "{{current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
         clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'}}}}], users: [{{name: u, user: {user}}}]}}"
    );
    let yaml = format!(
        "{{type: mirror.linkerd.io/remote-kubeconfig, metadata: {{name: s, namespace: linkerd, \
         labels: {{multicluster.linkerd.io/cluster-name: west}}, \
         annotations: {{multicluster.linkerd.io/trust-domain: w, multicluster.linkerd.io/cluster-domain: w}}}}, \
         data: {{kubeconfig: {}}}}}",
        STANDARD.encode(kubeconfig)
    );
    serde_saphyr::from_str(&yaml).expect("YAML")
}

#[tokio::test]
async fn a_session_that_has_read_everything_is_kept_though_nobody_has_said_so_yet() {
    let (changes, _index) = change_channel();
    let shared = Shared {
        changes,
        board: StatusBoard::default(),
        metrics: SourceMetrics::default(),
        sessions: Arc::default(),
    };
    let config = KubernetesConfig {
        home: "home".into(),
        trust_domain: "cluster.local".into(),
        control_plane_namespace: "linkerd".into(),
        kubeconfig: None,
        endpoint_kind: EndpointKind::EndpointSlice,
    };
    let home = Arc::new(Access::new(
        Origin::InCluster,
        RequestMetrics::default(),
        Clock::default(),
    ));
    let mut store = ClusterStore::new(shared, Arc::new(config), home);
    let west = ClusterName::from("west");

    let apply = async |store: &mut ClusterStore, user: &str| {
        let event = Event::Applied(secret(user));
        store.on_secret(event).await.expect("the index is there");
    };
    apply(&mut store, "{token: one}").await;
    let first = store.running[&west].live.as_ref().expect("a session").id;
    store.on_synced(&west, first);
    apply(&mut store, "{token: two}").await;
    let next = store
        .running
        .get_mut(&west)
        .and_then(|running| running.next.as_mut());
    let next = next.expect("new credentials are tried");
    let second = next.id;
    next.pending = watch::channel(BTreeSet::new()).1;

    // The index has taken it over already: were it dropped now, nobody would tell the index anything any more.
    apply(&mut store, "{}").await;
    let running = &store.running[&west];
    assert_eq!(running.live.as_ref().map(|live| live.id), Some(second));
    assert!(running.next.is_none());
}
