//! Secrets that people get wrong: each is named in the log with what is wrong, and nothing else suffers.

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::kubeconfig::Credentials;
use crate::support::link::{Link, unlink};
use crate::support::services::{Local, authority, federated};
use crate::support::tributary::Tributary;
use crate::support::{note, run};
use crate::victim::{COMES, GOES, HOME, STAYS, Victim, log_line_with};

/// A way to get a Secret wrong.
struct Mistake {
    /// The Secret's name is made from it, and so is the cluster's.
    name: &'static str,
    /// What the log says of it.
    told: &'static str,
    make: fn(&Link) -> Value,
}

const MISTAKES: [Mistake; 19] = [
    Mistake {
        name: "no-label",
        told: "label multicluster.linkerd.io/cluster-name is missing",
        make: |link| {
            without(
                link,
                "/metadata/labels",
                "multicluster.linkerd.io/cluster-name",
            )
        },
    },
    Mistake {
        name: "no-trust-domain",
        told: "annotation multicluster.linkerd.io/trust-domain is missing",
        make: |link| {
            without(
                link,
                "/metadata/annotations",
                "multicluster.linkerd.io/trust-domain",
            )
        },
    },
    Mistake {
        name: "no-cluster-domain",
        told: "annotation multicluster.linkerd.io/cluster-domain is missing",
        make: |link| {
            without(
                link,
                "/metadata/annotations",
                "multicluster.linkerd.io/cluster-domain",
            )
        },
    },
    Mistake {
        name: "no-kubeconfig",
        told: "key kubeconfig is missing",
        make: |link| without(link, "/data", "kubeconfig"),
    },
    Mistake {
        name: "wrong-type",
        told: "its type is",
        make: |link| {
            let mut secret = link.to_json();
            secret["type"] = json!("Opaque");
            secret
        },
    },
    Mistake {
        name: "not-yaml",
        told: "it is not YAML with the structure of a kubeconfig",
        make: |link| link.with_kubeconfig("clusters: [{"),
    },
    Mistake {
        name: "not-text",
        told: "it is not text in UTF-8",
        make: |link| {
            let mut secret = link.to_json();
            secret["data"]["kubeconfig"] = json!("/////w==");
            secret
        },
    },
    Mistake {
        name: "no-context",
        told: "it has no current-context",
        make: |link| edited(link, "/current-context", json!("")),
    },
    Mistake {
        name: "other-context",
        told: "which it does not have",
        make: |link| edited(link, "/current-context", json!("elsewhere")),
    },
    Mistake {
        name: "exec",
        told: "uses exec",
        make: |link| {
            user(
                link,
                json!({"exec": {"command": "touch", "args": ["/tmp/never"]}}),
            )
        },
    },
    Mistake {
        name: "auth-provider",
        told: "uses auth-provider",
        make: |link| user(link, json!({"auth-provider": {"name": "oidc"}})),
    },
    Mistake {
        name: "token-file",
        told: "uses tokenFile",
        make: |link| user(link, json!({"tokenFile": "/etc/passwd"})),
    },
    Mistake {
        name: "certificate-file",
        told: "client-certificate of user",
        make: |link| {
            let files = json!({"client-certificate": "/etc/a", "client-key": "/etc/b"});
            user(link, files)
        },
    },
    Mistake {
        name: "authority-file",
        told: "certificate-authority of cluster",
        make: |link| {
            edited(
                link,
                "/clusters/0/cluster/certificate-authority",
                json!("/etc/ca"),
            )
        },
    },
    Mistake {
        name: "bad-authority",
        told: "certificate-authority-data of cluster",
        make: |link| {
            edited(
                link,
                "/clusters/0/cluster/certificate-authority-data",
                json!("%%%"),
            )
        },
    },
    Mistake {
        name: "bad-certificate",
        told: "missing or not in base64",
        make: |link| {
            let data = json!({"client-certificate-data": "%%%", "client-key-data": "%%%"});
            user(link, data)
        },
    },
    Mistake {
        name: "bad-server",
        told: "is not an http or https URL",
        make: |link| {
            edited(
                link,
                "/clusters/0/cluster/server",
                json!("http://[not a server"),
            )
        },
    },
    Mistake {
        name: "huge",
        told: "it is longer than",
        make: |link| link.with_kubeconfig(&"#".repeat(600_000)),
    },
    Mistake {
        name: "nobody-there",
        told: "connection refused",
        make: |link| {
            edited(
                link,
                "/clusters/0/cluster/server",
                json!("http://127.0.0.1:1/x?y"),
            )
        },
    },
];

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn every_malformed_secret_is_named_and_links_when_it_is_corrected() {
    run(async {
        let victim = Victim::shared("wellformed").await?;
        let tributary = Tributary::start(victim.home, &[]).await?;
        let streams = victim.streams(&tributary).await;

        for mistake in &MISTAKES {
            let secret = (mistake.make)(&mistake.link(&victim));
            victim.home.apply(&secret.to_string()).await?;
        }
        // One more: a second Secret for a cluster that is linked already.
        let mut second = victim.link.clone();
        second.secret = "cluster-credentials-second".to_owned();
        second.store(victim.home).await?;
        for mistake in &MISTAKES {
            let secret = mistake.link(&victim).secret;
            log_line_with(&tributary, &[&secret, mistake.told]).await?;
        }
        let doubled = [
            "cluster-credentials-second",
            "cluster wellformed is linked by Secret",
        ];
        log_line_with(&tributary, &doubled).await?;
        let token = match &victim.link.access.credentials {
            Credentials::Token(token) => token,
            other => panic!("{other:?}"),
        };
        assert!(
            tributary.logs_containing(token).is_empty(),
            "a token in the log"
        );

        // Everything else is served as ever.
        let changed = Instant::now();
        victim.change().await?;
        streams
            .heal("change beside twenty malformed Secrets", changed)
            .await;

        let started = Instant::now();
        for mistake in &MISTAKES {
            let name = mistake.name;
            let service = federated(victim.name, "web", Local::Member, &[name]);
            let service = service.replace("web-federated", name);
            victim.home.apply(&service).await?;
            mistake.link(&victim).store(victim.home).await?;
        }
        for mistake in &MISTAKES {
            let stream = tributary.get(&authority(victim.name, mistake.name));
            stream
                .wait_for("a corrected link", |state| {
                    state.endpoints.len() == 3 && !state.addresses().contains(&address(GOES))
                })
                .await;
            assert!(stream.now().is_exactly(&[HOME, STAYS, COMES]));
        }
        note(&format!(
            "{} Secrets corrected, one after the other: all linked after {:.1} s",
            MISTAKES.len(),
            started.elapsed().as_secs_f64()
        ));
        streams.assert_kept();
        cleaned_up(&victim).await?;
        victim.leave().await
    });
}

async fn cleaned_up(victim: &Victim) -> Result<()> {
    for mistake in &MISTAKES {
        unlink(victim.home, mistake.name).await?;
    }
    unlink(victim.home, "second").await
}

// === impl Mistake ===

impl Mistake {
    /// The link as it should be.
    fn link(&self, victim: &Victim) -> Link {
        Link {
            cluster: self.name.to_owned(),
            secret: format!("cluster-credentials-{}", self.name),
            ..victim.link.clone()
        }
    }
}

/// The Secret without a field.
fn without(link: &Link, within: &str, key: &str) -> Value {
    let mut secret = link.to_json();
    let fields = secret.pointer_mut(within).and_then(Value::as_object_mut);
    fields.expect("an object").remove(key).expect("a field");
    secret
}

/// The Secret with another value somewhere in its kubeconfig.
fn edited(link: &Link, pointer: &str, value: Value) -> Value {
    let mut kubeconfig: Value =
        serde_saphyr::from_str(&link.access.to_yaml()).expect("a kubeconfig is YAML");
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = kubeconfig.pointer_mut(parent).expect("it is there");
    parent[key] = value;
    link.with_kubeconfig(&kubeconfig.to_string())
}

/// The Secret with another user.
fn user(link: &Link, user: Value) -> Value {
    edited(link, "/users/0/user", user)
}

fn address(text: &str) -> std::net::SocketAddr {
    text.parse().expect("an address")
}
