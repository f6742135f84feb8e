//! `tributary demo`: three made-up clusters whose Pods come and go, served like real ones.
//!
//! The server is the one that serves real clusters; only the source is made up. Three clients in the process hold streams
//! over TCP, and every figure that is printed is what reached them.

mod clients;
mod story;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::app::{self, App, SourceContext};
use crate::config::{
    Config, DemoConfig, ListenAddr, Source, TransportMode, WriterConfig, XdsConfig,
};
use crate::index::Change;
use crate::model::{EndpointKind, PortSet};
use crate::publish::ChangeSender;
use clients::{Burst, Clients, End, Stream};
use story::{STEPS, Step};
use world::World;

/// How fast the story is told.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// From one step to the next.
    step: Duration,
    /// What a step does has reached everybody when nothing has come for this long.
    quiet: Duration,
}

/// A pace at which one can read along.
const PACE: Pace = Pace {
    step: Duration::from_secs(3),
    quiet: Duration::from_millis(200),
};

/// Streams end at once when the demonstration stops.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);

/// Serves the demonstration and tells its story on stdout until the process is asked to end.
pub async fn run(config: DemoConfig) -> anyhow::Result<()> {
    let program = std::env::args_os().next().map(PathBuf::from);
    let program = program.map_or_else(|| "tributary".to_owned(), |path| path.display().to_string());
    tell(
        config,
        &program,
        PACE,
        std::io::stdout(),
        app::termination(),
    )
    .await
}

async fn tell(
    config: DemoConfig,
    program: &str,
    pace: Pace,
    out: impl Write + Send + 'static,
    stop: impl Future<Output = &'static str>,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        config.addr.is_some(),
        "the demonstration needs its gRPC listener; give --addr an address, such as 127.0.0.1:0"
    );
    let (listening, addrs) = oneshot::channel();
    let (failing, failed) = oneshot::channel();
    let app = App::start(&settings(&config), |context, _| {
        Box::pin(async move {
            let mut narrator = Narrator { out, pace };
            if let Err(error) = narrator.narrate(&context, addrs).await {
                // Nobody listens when the process is about to end for another reason.
                failing.send(error).ok();
            }
            // Stays until it is told to go, as a source should.
            context.shutdown.cancelled().await;
            Ok(())
        })
    })
    .await
    .context(
        "cannot start; to take free ports: --addr 127.0.0.1:0 --metrics-addr 127.0.0.1:0 --xds-addr 127.0.0.1:0",
    )?;
    let addrs = Addrs {
        program: program.to_owned(),
        grpc: app
            .grpc
            .map(reachable)
            .context("the gRPC listener is off")?,
        xds: app.xds.map(reachable),
        admin: app.admin.map(reachable),
    };
    let readiness = app.readiness.clone();
    let begin = async move {
        readiness.ready().await;
        // Fails only if the narrator has failed.
        listening.send(addrs).ok();
        std::future::pending().await
    };
    let mut failure = None;
    let stopped = app
        .run_until(async {
            tokio::select! {
                reason = stop => reason,
                Ok(error) = failed => {
                    failure = Some(error);
                    "the story cannot go on"
                }
                never = begin => never,
            }
        })
        .await;
    match failure {
        Some(error) => Err(error),
        None => stopped,
    }
}

/// What there is to try, and where.
#[derive(Debug)]
struct Addrs {
    program: String,
    grpc: SocketAddr,
    xds: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

struct Narrator<W> {
    out: W,
    pace: Pace,
}

// === impl Narrator ===

impl<W: Write> Narrator<W> {
    async fn narrate(
        &mut self,
        context: &SourceContext,
        addrs: oneshot::Receiver<Addrs>,
    ) -> anyhow::Result<()> {
        let SourceContext {
            changes,
            board,
            shutdown,
        } = context;
        let mut world = World::new(board.clone())?;
        send(changes, world.open()?).await;
        let Ok(addrs) = addrs.await else {
            return Ok(());
        };
        self.say(&introduction(&addrs))?;
        let mut clients = Clients::open(addrs.grpc)?;
        tokio::select! {
            told = self.follow(&mut world, changes, &mut clients) => {
                if let End::Failed(reason) = told? {
                    self.line("demo", &format!("a stream broke, so the story ends: {reason}"))?;
                }
                shutdown.cancelled().await;
            }
            () = shutdown.cancelled() => {}
        }
        let sent: usize = clients.streams().iter().map(|stream| stream.messages).sum();
        let streams = count(clients.streams().len(), "stream");
        clients.close().await;
        let messages = count(sent, "message");
        self.line("demo", &format!("stopped; {streams} got {messages} in all"))
    }

    /// Tells the story for ever, or until a stream ends; returns how it did.
    async fn follow(
        &mut self,
        world: &mut World,
        changes: &ChangeSender,
        clients: &mut Clients,
    ) -> anyhow::Result<End> {
        let opened = Instant::now();
        while clients.streams().iter().any(|stream| stream.messages == 0) {
            let burst = clients.next().await;
            if let Some(end) = burst.ended {
                return Ok(end);
            }
            for stream in burst.streams {
                let stream = &clients.streams()[stream];
                if stream.messages == 1 {
                    let after = burst.reached.map_or(Duration::ZERO, |at| at - opened);
                    self.line("demo", &first_answer(stream, after))?;
                }
            }
        }
        for step in STEPS.iter().cycle() {
            let late = clients.listen(self.pace.step).await;
            if late.messages > 0 {
                let updates = count(late.messages, "update");
                let line = format!(
                    "{updates} took longer than {}",
                    milliseconds(self.pace.quiet)
                );
                self.line("demo", &line)?;
            }
            if let Some(end) = late.ended {
                return Ok(end);
            }
            world.note_alive();
            let told = world.act(step)?;
            let since = Instant::now();
            send(changes, told).await;
            let burst = clients.settle(self.pace.quiet).await;
            self.line(
                step.cluster,
                &outcome(step, &burst, since, clients.streams()),
            )?;
            if let Some(end) = burst.ended {
                return Ok(end);
            }
        }
        Ok(End::Closed)
    }

    fn line(&mut self, cluster: &str, text: &str) -> anyhow::Result<()> {
        self.say(&format!("{}  {cluster:<4}  {text}\n", time_of_day()))
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
    }
}

/// Hands changes to the index; where it has stopped, so will we.
async fn send(changes: &ChangeSender, told: Vec<Change>) {
    for change in told {
        if changes.send(change).await.is_err() {
            return;
        }
    }
}

fn introduction(addrs: &Addrs) -> String {
    let Addrs {
        program,
        grpc,
        xds,
        admin,
    } = addrs;
    let server = if grpc.to_string() == "127.0.0.1:8086" {
        String::new()
    } else {
        format!(" --addr {grpc}")
    };
    let mut text = format!(
        "Three clusters, home, west and east, all of them made up and inside this process.\n\n  \
         {grpc:<21}  gRPC: Linkerd's destination API, tributary.v1, health, reflection\n"
    );
    if let Some(xds) = xds {
        let xds = xds.to_string();
        writeln!(text, "  {xds:<21}  gRPC: xDS v3, health, reflection").ok();
    }
    if let Some(admin) = admin {
        writeln!(
            text,
            "  {:<21}  HTTP: the status page at /, /live, /ready, /metrics",
            admin.to_string()
        )
        .ok();
    }
    write!(
        text,
        "\nTry, in another terminal:\n  \
         {program} endpoints web-federated.shop{server}\n  \
         {program} endpoints web-federated.shop{server} --watch\n  \
         {program} explain web-federated.shop{server} --ip 10.60.0.4\n  \
         grpcurl -plaintext {grpc} list\n  \
         grpcurl -plaintext -d '{{\"scheme\":\"k8s\",\"path\":\"web-federated.shop.svc.cluster.local:80\"}}' \\\n    \
         {grpc} io.linkerd.proxy.destination.Destination/Get\n"
    )
    .ok();
    if let Some(admin) = admin {
        writeln!(text, "  curl http://{admin}/ready").ok();
    }
    if let Some(xds) = xds {
        write!(
            text,
            "\nA client of gRPC with this in its environment finds the endpoints of \
             xds:///web-federated.shop.svc.cluster.local:80, which are made up too:\n  \
             export GRPC_XDS_BOOTSTRAP_CONFIG='{}'\n",
            bootstrap(*xds)
        )
        .ok();
    }
    text.push_str(
        "\nThree clients hold a stream each, as proxies do. Below: what happens (times in UTC), what reached them, and how\n\
         long it took until the last of them had it. Ctrl-C stops.\n\n",
    );
    text
}

/// What a client of gRPC wants to know of an xDS server.
fn bootstrap(xds: SocketAddr) -> String {
    let server = format!(
        r#"{{"server_uri":"{xds}","channel_creds":[{{"type":"insecure"}}],"server_features":["xds_v3"]}}"#
    );
    format!(r#"{{"xds_servers":[{server}],"node":{{"id":"demo","locality":{{}}}}}}"#)
}

/// `first answer to node home-a: web-federated has 6 endpoints (east 2, home 2, west 2), after 1.2 ms`
fn first_answer(stream: &Stream, after: Duration) -> String {
    let mut by_cluster: BTreeMap<&str, usize> = BTreeMap::new();
    for cluster in stream.addresses.values() {
        *by_cluster.entry(cluster).or_default() += 1;
    }
    let clusters: Vec<_> = by_cluster
        .into_iter()
        .map(|(cluster, addresses)| format!("{cluster} {addresses}"))
        .collect();
    format!(
        "first answer to node {}: {} has {} ({}), after {}",
        stream.node,
        short(stream.authority),
        count(stream.addresses.len(), "endpoint"),
        clusters.join(", "),
        milliseconds(after),
    )
}

/// `web-2 became ready → 1 update to 3 streams, 0.4 ms after the slice changed; web-federated: 7 endpoints`
fn outcome(step: &Step, burst: &Burst, since: Instant, streams: &[Stream]) -> String {
    let mut text = format!("{} → ", step.says);
    let Some(reached) = burst.reached else {
        write!(
            text,
            "nothing new for the {}",
            count(streams.len(), "stream")
        )
        .ok();
        return text;
    };
    let updates = if burst.messages == burst.streams.len() {
        count(1, "update")
    } else {
        count(burst.messages, "update")
    };
    write!(
        text,
        "{updates} to {}, {} after {}",
        count(burst.streams.len(), "stream"),
        milliseconds(reached - since),
        step.act.cause()
    )
    .ok();
    if let Some(stream) = burst.streams.first().and_then(|first| streams.get(*first)) {
        let endpoints = count(stream.addresses.len(), "endpoint");
        write!(text, "; {}: {endpoints}", short(stream.authority)).ok();
    }
    text
}

/// The Service's name alone: all of them are in one namespace.
fn short(authority: &str) -> &str {
    authority.split('.').next().unwrap_or(authority)
}

fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

fn time_of_day() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs() % 86_400);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", seconds % 60)
}

/// Where a client on this machine reaches a listener.
fn reachable(addr: SocketAddr) -> SocketAddr {
    ListenAddr::Address(addr).local()
}

/// The server as it would be for real clusters, but for where facts come from.
fn settings(config: &DemoConfig) -> Config {
    Config {
        addr: config.addr,
        metrics_addr: config.metrics_addr,
        xds: XdsConfig::plain(config.xds_addr),
        replica_name: "demo".to_owned(),
        // Not looked at: the source is given.
        source: Source::Manifests(PathBuf::new()),
        cluster_name: world::HOME.into(),
        controller_namespace: world::CONTROL_PLANE_NAMESPACE.into(),
        cluster_domain: "cluster.local".into(),
        identity_trust_domain: world::TRUST_DOMAIN.into(),
        default_opaque_ports: PortSet::default(),
        enable_h2_upgrade: true,
        endpoint_kind: EndpointKind::EndpointSlice,
        enable_ipv6: true,
        outbound_transport_mode: TransportMode::Transparent,
        ext_endpoint_zone_weights: false,
        meshed_http2_client_params: None,
        startup_grace: Duration::from_secs(2),
        remote_staleness_ttl: None,
        max_streams: 1000,
        drain_timeout: DRAIN_TIMEOUT,
        stream_stall_timeout: Duration::from_mins(5),
        publish_interval: Duration::ZERO,
        writer: WriterConfig::off(world::HOME.into()),
        log: config.log,
        notices: Vec::new(),
    }
}

#[cfg(test)]
mod tests;
