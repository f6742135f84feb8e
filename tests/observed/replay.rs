//! Replaying one case after another on a set of clusters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::time::Instant;

use crate::answer::Expected;
use crate::case::{Case, Step};
use crate::client::Client;
use crate::support::cluster::Cluster;
use crate::support::objects::parse;
use crate::support::tributary::Tributary;

/// Nothing more is expected to happen when nothing has happened for this long.
const QUIET: Duration = Duration::from_millis(1200);

/// How long an answer may differ from the expected one before it counts as different.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks.
const POLL: Duration = Duration::from_millis(50);

/// What the recorded server was started with, in every case.
const ARGUMENTS: [(&str, &str); 5] = [
    ("controller-namespace", "linkerd"),
    ("cluster-domain", "cluster.local"),
    ("identity-trust-domain", "cluster.local"),
    ("enable-ipv6", "false"),
    (
        "default-opaque-ports",
        "25,587,3306,4444,5432,6379,9300,11211",
    ),
];

/// Services of the home cluster have recorded addresses in `10.96.0.0/16` and `fd00:96::/112`.
const RECORDED_RANGE: u8 = 96;

/// An address that stands for a cluster which cannot be reached.
const UNREACHABLE: &str = "https://127.0.0.1:1";

/// The clusters of the recordings: `west` is home, `east` and `rogue` are linked by the cases themselves.
pub struct Stage {
    west: Arc<Cluster>,
    east: Arc<Cluster>,
    rogue: Arc<Cluster>,
    /// What stands in recorded credentials, and what it is here.
    substitutions: Vec<(String, String)>,
}

// === impl Stage ===

impl Stage {
    /// Starts the clusters.
    pub async fn start(lane: usize) -> Result<Self> {
        let start = async |name: &str, number: u8| {
            let name = format!("{name}-{lane}");
            Cluster::start_numbered(&name, number).await.map(Arc::new)
        };
        let (west, east, rogue) = futures::future::try_join3(
            start("west", RECORDED_RANGE),
            start("east", RECORDED_RANGE + 1),
            start("rogue", RECORDED_RANGE + 2),
        )
        .await?;
        let mut substitutions = vec![(
            "https://down.api.invalid:6443".to_owned(),
            UNREACHABLE.to_owned(),
        )];
        for (name, cluster) in [("east", &east), ("rogue", &rogue)] {
            let token = cluster.remote_token().await?;
            let address = cluster.address();
            substitutions.push((
                format!("https://{name}.api.invalid:6443"),
                format!("https://{address}"),
            ));
            substitutions.push((format!("fixture-token-{name}"), token));
        }
        for cluster in [&west, &east, &rogue] {
            cluster.define_linkerd_kinds().await?;
        }
        Ok(Self {
            west,
            east,
            rogue,
            substitutions,
        })
    }

    /// Replays a case; an error says where the answers differ.
    pub async fn replay(&self, case: &Case) -> Result<()> {
        for cluster in [&self.west, &self.east, &self.rogue] {
            cluster.reset().await?;
        }
        let arguments = arguments(&case.arguments);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mut steps = case.steps.iter();
        let first = steps.next().context("a case has steps")?;
        let tributary = if case.starts_late {
            self.perform(case, first).await?;
            Tributary::start(&self.west, &arguments).await?
        } else {
            let tributary = Tributary::start(&self.west, &arguments).await?;
            self.perform(case, first).await?;
            tributary
        };
        let mut clients: BTreeMap<_, _> = case
            .requests
            .iter()
            .map(|(name, request)| (name.as_str(), Client::open(&tributary, request)))
            .collect();
        compare(case, 1, first, &tributary, &mut clients).await?;
        for (number, step) in (2..).zip(steps) {
            self.perform(case, step).await?;
            if !step.reopen.is_empty() {
                // The recorded server knew of the step's changes when streams were opened anew.
                rest(&clients).await;
            }
            for name in &step.reopen {
                if let Some(request) = case.requests.get(name) {
                    clients.insert(name, Client::open(&tributary, request));
                }
            }
            compare(case, number, step, &tributary, &mut clients).await?;
        }
        Ok(())
    }

    async fn perform(&self, case: &Case, step: &Step) -> Result<()> {
        for object in &step.delete {
            let parts: Vec<_> = object.split('/').collect();
            let [cluster, kind, namespace, name] = parts[..] else {
                bail!("{object} names no object");
            };
            self.cluster(cluster)?
                .delete_object(kind, namespace, name)
                .await?;
        }
        for file in &step.apply {
            let cluster = file.split('.').next().unwrap_or_default();
            let text = self.with_real_credentials(&case.text(file)?)?;
            self.cluster(cluster)?.apply(&text).await?;
        }
        Ok(())
    }

    fn cluster(&self, name: &str) -> Result<&Cluster> {
        Ok(match name {
            "west" => &self.west,
            "east" => &self.east,
            "rogue" => &self.rogue,
            _ => bail!("there is no cluster {name}"),
        })
    }

    /// The same objects, with credentials in Secrets that work here.
    fn with_real_credentials(&self, yaml: &str) -> Result<String> {
        let mut text = String::new();
        for mut object in parse(yaml)? {
            if object
                .types
                .as_ref()
                .is_some_and(|types| types.kind == "Secret")
                && let Some(data) = object.data["data"].as_object_mut()
            {
                for value in data.values_mut() {
                    let encoded = value.as_str().context("data of a Secret is text")?;
                    let mut decoded = String::from_utf8(BASE64.decode(encoded)?)?;
                    for (recorded, real) in &self.substitutions {
                        decoded = decoded.replace(recorded, real);
                    }
                    *value = BASE64.encode(decoded).into();
                }
            }
            text += &serde_json::to_string(&object)?;
            text += "\n---\n";
        }
        Ok(text)
    }
}

/// Waits until every answer is as expected and nothing more comes, or until that has taken too long.
async fn compare(
    case: &Case,
    number: usize,
    step: &Step,
    tributary: &Tributary,
    clients: &mut BTreeMap<&str, Client>,
) -> Result<()> {
    let begin = Instant::now();
    loop {
        tributary.ensure_running()?;
        for client in clients.values_mut() {
            client.tend(tributary);
        }
        let differences = differences(case, step, clients);
        if differences.is_empty() && quiet(begin, clients) >= QUIET {
            break;
        }
        if begin.elapsed() >= PATIENCE {
            ensure!(
                differences.is_empty(),
                "  after step {number}\n{}",
                differences.join("\n")
            );
            bail!("  after step {number}: as expected, but it does not come to rest");
        }
        tokio::time::sleep(POLL).await;
    }
    for (name, client) in clients {
        let violations = client.violations();
        ensure!(
            violations.is_empty(),
            "  after step {number}, {name}: {violations:?}"
        );
    }
    Ok(())
}

/// Waits until the streams have been quiet for a while.
async fn rest(clients: &BTreeMap<&str, Client>) {
    let begin = Instant::now();
    while quiet(begin, clients) < QUIET {
        tokio::time::sleep(POLL).await;
    }
}

/// How long no stream has had a message; not longer than since `begin`.
fn quiet(begin: Instant, clients: &BTreeMap<&str, Client>) -> Duration {
    clients
        .values()
        .map(Client::quiet_since)
        .fold(begin, Instant::max)
        .elapsed()
}

fn differences(case: &Case, step: &Step, clients: &BTreeMap<&str, Client>) -> Vec<String> {
    let difference = |(name, expected): (&String, &Expected)| {
        let actual = clients.get(name.as_str())?.answer(QUIET);
        let lines = expected.difference(&actual)?;
        let authority = &case.requests[name].authority;
        Some(format!("  {name} ({authority})\n{lines}"))
    };
    step.expected.iter().filter_map(difference).collect()
}

/// The recorded server's arguments in our syntax: those of every case, unless the case itself has others.
fn arguments(of_case: &[String]) -> Vec<String> {
    let of_case: Vec<_> = of_case
        .iter()
        .map(|argument| {
            let long = argument.starts_with('-') && !argument.starts_with("--");
            format!("{}{argument}", if long { "-" } else { "" })
        })
        .collect();
    let is_given = |name: &str| {
        let flag = format!("--{name}");
        of_case
            .iter()
            .any(|argument| argument.split('=').next() == Some(&flag))
    };
    ARGUMENTS
        .iter()
        .filter(|(name, _)| !is_given(name))
        .map(|(name, value)| format!("--{name}={value}"))
        .chain(of_case.iter().cloned())
        .collect()
}
