//! Clients as proxies are: each holds a stream over a connection of its own, and keeps the addresses it was told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Endpoint;

use crate::proto::destination::destination_client::DestinationClient;
use crate::proto::destination::{GetDestination, Update, WeightedAddrSet, update};
use crate::proto::net::{TcpAddress, ip_address};

/// Messages that may wait to be counted.
const HEARD_MAX: usize = 256;

/// What the clients ask for: a Service and port, and the node they are on.
const STREAMS: [(&str, &str); 3] = [
    ("web-federated.shop.svc.cluster.local:80", "home-a"),
    ("web-federated.shop.svc.cluster.local:80", "home-b"),
    ("web-west.shop.svc.cluster.local:80", "home-a"),
];

/// The streams, and what they have been sent.
#[derive(Debug)]
pub(super) struct Clients {
    streams: Vec<Stream>,
    heard: mpsc::Receiver<Heard>,
    tasks: JoinSet<()>,
}

/// One stream as its client sees it.
#[derive(Debug)]
pub(super) struct Stream {
    /// What it asks for.
    pub(super) authority: &'static str,
    /// The node its client is on.
    pub(super) node: &'static str,
    /// The addresses it was told to use, and the clusters they are in.
    pub(super) addresses: BTreeMap<SocketAddr, String>,
    /// Messages that it was sent.
    pub(super) messages: usize,
}

/// What reached the clients between two moments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Burst {
    /// Messages.
    pub(super) messages: usize,
    /// The streams that got any, in order.
    pub(super) streams: Vec<usize>,
    /// When the last of these streams got its first.
    pub(super) reached: Option<Instant>,
    /// How a stream ended, if one did.
    pub(super) ended: Option<End>,
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The server ended it in good order, as it does when it stops.
    Closed,
    /// It broke.
    Failed(String),
}

#[derive(Debug)]
struct Heard {
    stream: usize,
    at: Instant,
    said: Result<Update, End>,
}

// === impl Clients ===

impl Clients {
    /// Opens the streams.
    pub(super) fn open(addr: SocketAddr) -> anyhow::Result<Self> {
        let (sender, heard) = mpsc::channel(HEARD_MAX);
        let endpoint = Endpoint::from_shared(format!("http://{addr}"))
            .context("making an address of the listener's failed")?
            .tcp_nodelay(true);
        let mut tasks = JoinSet::new();
        let mut streams = Vec::new();
        for (stream, (authority, node)) in STREAMS.into_iter().enumerate() {
            let (endpoint, sender) = (endpoint.clone(), sender.clone());
            tasks.spawn(async move {
                let ended = follow(endpoint, authority, node, stream, &sender).await;
                let said = Err(match ended {
                    Ok(()) => End::Closed,
                    Err(error) => End::Failed(format!("{error:#}")),
                });
                let at = Instant::now();
                // Nobody is left to tell when the demonstration stops.
                sender.send(Heard { stream, at, said }).await.ok();
            });
            streams.push(Stream {
                authority,
                node,
                addresses: BTreeMap::new(),
                messages: 0,
            });
        }
        Ok(Self {
            streams,
            heard,
            tasks,
        })
    }

    /// The streams, in a fixed order.
    pub(super) fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Waits for the next message of any stream, or for the end of one.
    pub(super) async fn next(&mut self) -> Burst {
        let mut burst = Burst::default();
        match self.heard.recv().await {
            Some(heard) => self.take_in(heard, &mut burst),
            None => burst.ended = Some(End::Closed),
        }
        burst
    }

    /// Takes in what reaches the clients until nothing has for as long as `quiet`.
    pub(super) async fn settle(&mut self, quiet: Duration) -> Burst {
        let mut burst = Burst::default();
        while let Ok(Some(heard)) = tokio::time::timeout(quiet, self.heard.recv()).await {
            self.take_in(heard, &mut burst);
        }
        burst
    }

    /// Takes in what reaches the clients for some time, or until a stream ends.
    pub(super) async fn listen(&mut self, time: Duration) -> Burst {
        let until = Instant::now() + time;
        let mut burst = Burst::default();
        while burst.ended.is_none() {
            match tokio::time::timeout_at(until, self.heard.recv()).await {
                Ok(Some(heard)) => self.take_in(heard, &mut burst),
                Ok(None) => burst.ended = Some(End::Closed),
                Err(_) => break,
            }
        }
        burst
    }

    /// Closes the streams.
    pub(super) async fn close(mut self) {
        self.tasks.shutdown().await;
    }

    fn take_in(&mut self, heard: Heard, burst: &mut Burst) {
        let Heard { stream, at, said } = heard;
        match said {
            Ok(update) => {
                burst.messages += 1;
                if let Err(place) = burst.streams.binary_search(&stream) {
                    burst.streams.insert(place, stream);
                    burst.reached = burst.reached.max(Some(at));
                }
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.take_in(update);
                }
            }
            Err(end) => burst.ended = Some(end),
        }
    }
}

// === impl Stream ===

impl Stream {
    fn take_in(&mut self, update: Update) {
        self.messages += 1;
        match update.update {
            Some(update::Update::Add(set)) => self.add(set),
            Some(update::Update::Remove(set)) => {
                for addr in set.addrs.iter().filter_map(socket) {
                    self.addresses.remove(&addr);
                }
            }
            Some(update::Update::NoEndpoints(_)) => self.addresses.clear(),
            None => {}
        }
    }

    fn add(&mut self, set: WeightedAddrSet) {
        let of_set = set.metric_labels;
        for weighted in set.addrs {
            let cluster = |labels: &BTreeMap<String, String>| labels.get("target_cluster").cloned();
            let cluster = cluster(&weighted.metric_labels).or_else(|| cluster(&of_set));
            if let Some(addr) = weighted.addr.as_ref().and_then(socket) {
                self.addresses.insert(addr, cluster.unwrap_or_default());
            }
        }
    }
}

async fn follow(
    endpoint: Endpoint,
    authority: &str,
    node: &str,
    stream: usize,
    heard: &mpsc::Sender<Heard>,
) -> anyhow::Result<()> {
    let channel = endpoint.connect().await.context("connecting failed")?;
    let request = GetDestination {
        scheme: "k8s".to_owned(),
        path: authority.to_owned(),
        context_token: serde_json::json!({"ns": "shop", "nodeName": node}).to_string(),
    };
    let mut updates = DestinationClient::new(channel)
        .get(request)
        .await?
        .into_inner();
    while let Some(update) = updates.message().await? {
        let at = Instant::now();
        let said = Ok(update);
        if heard.send(Heard { stream, at, said }).await.is_err() {
            break;
        }
    }
    Ok(())
}

fn socket(addr: &TcpAddress) -> Option<SocketAddr> {
    let port = u16::try_from(addr.port).ok()?;
    let ip = match addr.ip.as_ref()?.ip.as_ref()? {
        ip_address::Ip::Ipv4(bits) => std::net::Ipv4Addr::from(*bits).into(),
        ip_address::Ip::Ipv6(halves) => {
            let bits = (u128::from(halves.first) << 64) | u128::from(halves.last);
            std::net::Ipv6Addr::from(bits).into()
        }
    };
    Some(SocketAddr::new(ip, port))
}
