//! Wiring: builds every task, owns them all, and orders start-up and shutdown.

pub mod slices;
mod xds;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;
use futures::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::admin::{MorePages, ProcessCollector, Registries};
use crate::config::{Config, ListenAddr, Source, TransportMode, WriterMode};
use crate::frontends::destination::{self, Destination, Translation};
use crate::frontends::introspection::Introspection;
use crate::frontends::xds::XdsIntrospection;
use crate::index::{Families, MeshPolicy, SelectPolicy};
use crate::model::EndpointKind;
use crate::page::{self, Page};
use crate::proto::tributary_v1::introspection_server::IntrospectionServer;
use crate::proto::tributary_v1::xds_introspection_server::XdsIntrospectionServer;
use crate::publish::{
    Catalog, ChangeSender, ClusterCollector, IndexMetrics, Indexer, LinkerdCollector, StatusBoard,
    change_channel,
};
use crate::readiness::Readiness;
use crate::server::Routes;
use crate::sources::file::{FileConfig, FileMetrics, FileSource};
use crate::sources::k8s::{HomeAccess, KubernetesConfig, KubernetesSource};
use crate::sources::metrics::SourceMetrics;
use crate::sources::standing::keep_standing;
use crate::writer::{self, Writer};

use crate::{admin, server};

/// Names under which `grpc.health.v1` answers, besides the empty one.
const HEALTH_OF: &[&str] = &[
    "io.linkerd.proxy.destination.Destination",
    "tributary.v1.Introspection",
];
/// The tasks whose end, all of them, lets the rest stop.
const GRPC_LISTENER: &str = "gRPC listener";
/// See [`GRPC_LISTENER`].
const XDS_LISTENER: &str = "xDS listener";
/// The task that writes EndpointSlices.
const WRITER: &str = "EndpointSlice writer";

/// What a source works with.
#[derive(Debug)]
pub struct SourceContext {
    /// The way into the index.
    pub changes: ChangeSender,
    /// What operators are told about each cluster.
    pub board: StatusBoard,
    /// Cancelled when the source has to stop.
    pub shutdown: CancellationToken,
}

/// A running source; it ends only when told to, or with an error.
pub type SourceTask = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

/// Serves what `config` names until the process is asked to end. When it is asked again, it does not wait any more.
pub async fn run(config: Config) -> anyhow::Result<()> {
    server::raise_open_files();
    let app = App::start(&config, |context, metrics| {
        source(&config, context, metrics)
    })
    .await?;
    let mut signals = Signals::new().context("listening for signals failed")?;
    let (asked, asked_once) = oneshot::channel();
    let stop = async {
        let reason = signals.next().await;
        // Nobody listens when everything has stopped.
        asked.send(signals).ok();
        reason
    };
    let again = async {
        match asked_once.await {
            Ok(mut signals) => signals.next().await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        outcome = app.run_until(stop) => outcome,
        reason = again => anyhow::bail!("asked to end again, by {reason}: not waiting for what was still open"),
    }
}

/// The source that `config` names.
fn source(config: &Config, context: SourceContext, registries: &mut Registries) -> SourceTask {
    let SourceContext {
        changes,
        board,
        shutdown,
    } = context;
    match &config.source {
        Source::Kubernetes { kubeconfig } => {
            let config = KubernetesConfig {
                home: config.cluster_name.clone(),
                trust_domain: config.identity_trust_domain.clone(),
                control_plane_namespace: config.controller_namespace.clone(),
                kubeconfig: kubeconfig.clone(),
                endpoint_kind: config.endpoint_kind,
            };
            let metrics = SourceMetrics::default();
            metrics.register(&mut registries.ours, &mut registries.linkerd);
            let source = KubernetesSource::new(config, changes, board, metrics);
            Box::pin(async move { Ok(source.run(shutdown).await?) })
        }
        Source::Manifests(dir) => {
            let source = FileSource::new(FileConfig {
                dir: dir.clone(),
                home: config.cluster_name.clone(),
                trust_domain: config.identity_trust_domain.clone(),
                control_plane_namespace: config.controller_namespace.text().clone(),
                endpoint_kind: config.endpoint_kind,
            })
            .with_metrics(FileMetrics::register(&mut registries.ours));
            Box::pin(async move { Ok(source.run(changes, board, shutdown).await?) })
        }
    }
}

/// Everything that runs, from the sources to the listeners.
#[derive(Debug)]
pub struct App {
    /// Where proxies and operators are answered, if anywhere.
    pub grpc: Option<SocketAddr>,
    /// Where clients of xDS are answered, if anywhere.
    pub xds: Option<SocketAddr>,
    /// Where probes and scrapers are answered, if anywhere.
    pub admin: Option<SocketAddr>,
    /// What is answered from.
    pub catalog: Catalog,
    /// Whether it is ready.
    pub readiness: Readiness,
    shutdown: Shutdown,
    tasks: JoinSet<(&'static str, anyhow::Result<()>)>,
}

/// The order in which things stop.
#[derive(Clone, Debug, Default)]
struct Shutdown {
    /// Streams end and no more begin.
    streams: CancellationToken,
    /// Sources and the admin listener stop.
    rest: CancellationToken,
}

// === impl App ===

impl App {
    /// Opens the listeners and starts every task.
    ///
    /// `source` is given the way into the index; `metrics` may register what it counts.
    pub async fn start(
        config: &Config,
        source: impl FnOnce(SourceContext, &mut Registries) -> SourceTask,
    ) -> anyhow::Result<Self> {
        info!(ports = %config.default_opaque_ports, "default opaque ports in force");
        let grpc = bind("--addr", config.addr).await?;
        let xds = bind("--xds-addr", config.xds.addr).await?;
        let admin = bind("--metrics-addr", config.metrics_addr).await?;

        let mut registries = Registries::default();
        registries
            .linkerd
            .register_collector(Box::new(ProcessCollector));
        let readiness = Readiness::default();
        let board = StatusBoard::default();
        let shutdown = Shutdown::default();
        let policy = select_policy(config);
        let (changes, receiver) = change_channel();
        let (indexer, catalog) = Indexer::new(
            config.cluster_name.clone(),
            policy.clone(),
            board.clone(),
            readiness.clone(),
            IndexMetrics::register(registries.ours.sub_registry_with_prefix("index")),
        );
        registries
            .ours
            .register_collector(Box::new(ClusterCollector::new(catalog.clone())));
        registries
            .linkerd
            .register_collector(Box::new(LinkerdCollector::new(catalog.clone())));

        let indexer = indexer.at_most_every(config.publish_interval);

        let mut tasks = JoinSet::new();
        let unused = catalog.clone().let_go_of_unused(shutdown.rest.clone());
        tasks.spawn(async move {
            unused.await;
            ("views", Ok(()))
        });
        tasks.spawn_blocking(move || {
            indexer.run(receiver);
            ("indexer", Ok(()))
        });
        let standing = keep_standing(
            board.clone(),
            changes.clone(),
            config.remote_staleness_ttl,
            shutdown.rest.clone(),
        );
        tasks.spawn(async move {
            standing.await;
            ("standing of clusters", Ok(()))
        });
        let context = SourceContext {
            changes,
            board,
            shutdown: shutdown.rest.clone(),
        };
        let source = source(context, &mut registries);
        tasks.spawn(async move { ("source", source.await) });

        let mut app = Self {
            grpc: local_addr(grpc.as_ref())?,
            xds: local_addr(xds.as_ref())?,
            admin: local_addr(admin.as_ref())?,
            catalog,
            readiness,
            shutdown,
            tasks,
        };
        app.write_slices(config, &mut registries.ours);
        let listeners = server::Metrics::register(&mut registries.ours, &mut registries.linkerd)
            .context("reading the descriptors of our own gRPC services failed")?;
        let clients = match xds {
            Some(listener) => {
                let served = app.serve_xds(listener, config, listeners.clone(), &mut registries);
                Some(served.await?)
            }
            None => None,
        };
        if let Some(listener) = grpc {
            app.serve_grpc(
                listener,
                config,
                policy,
                clients,
                listeners,
                &mut registries,
            );
        }
        if let Some(listener) = admin {
            let (readiness, rest) = (app.readiness.clone(), app.shutdown.rest.clone());
            let page = app.page(config);
            app.tasks.spawn(async move {
                let served = admin::serve(listener, readiness, registries, page, rest).await;
                (
                    "admin listener",
                    served.context("serving admin pages failed"),
                )
            });
        }
        Ok(app)
    }

    /// The status page, which shows what the introspection API says.
    fn page(&self, config: &Config) -> MorePages {
        let rest = self.shutdown.rest.clone();
        let api = Introspection::new(self.catalog.clone(), &config.cluster_domain, rest.clone());
        let settings = page::Settings {
            cluster_domain: config.cluster_domain.to_string(),
            staleness_ttl: config.remote_staleness_ttl,
        };
        let page = Page::new(api, settings, rest);
        Arc::new(move |path, query| {
            let page = page.clone();
            Box::pin(async move { page.answer(&path, query.as_deref()).await })
        })
    }

    /// Starts the writer of EndpointSlices, if it is asked for.
    fn write_slices(&mut self, config: &Config, registry: &mut Registry) {
        let Source::Kubernetes { kubeconfig } = &config.source else {
            return;
        };
        if config.addr.is_none() && config.xds.addr.is_none() && config.metrics_addr.is_none() {
            // Only looking: nothing is served, and nothing is written.
            return;
        }
        let metrics = writer::Metrics::register(registry.sub_registry_with_prefix("writer"));
        let access: Arc<dyn writer::Access> =
            Arc::new(WriterAccess(HomeAccess::new(kubeconfig.clone())));
        let stopped = self.shutdown.streams.clone();
        if config.writer.mode == WriterMode::Off {
            let (access, metrics, stopped) =
                (Arc::clone(&access), metrics.clone(), stopped.clone());
            self.tasks.spawn(async move {
                let counting = writer::report_leftovers(access, metrics);
                stopped.run_until_cancelled(counting).await;
                stopped.cancelled().await;
                ("count of left-over EndpointSlices", Ok(()))
            });
        }
        if let Some(options) = writer_options(config) {
            let writer = Writer::new(self.catalog.clone(), options, access, metrics);
            self.tasks.spawn(async move {
                writer.run(stopped).await;
                (WRITER, Ok(()))
            });
        }
    }

    fn serve_grpc(
        &mut self,
        listener: TcpListener,
        config: &Config,
        policy: SelectPolicy,
        clients: Option<XdsIntrospection>,
        metrics: server::Metrics,
        registries: &mut Registries,
    ) {
        let streams = self.shutdown.streams.clone();
        let destination = Destination::new(
            self.catalog.clone(),
            destination::Settings {
                cluster_domain: config.cluster_domain.to_string(),
                startup_grace: config.startup_grace,
                streams_max: config.max_streams,
                drain: config.drain_timeout,
                translation: Translation {
                    mesh: policy.mesh,
                    zone_weights: config.ext_endpoint_zone_weights,
                    http2: config.meshed_http2_client_params,
                },
            },
            destination::Metrics::register(
                registries.ours.sub_registry_with_prefix("destination"),
                &mut registries.linkerd,
            ),
            streams.clone(),
        );
        let introspection = Introspection::new(
            self.catalog.clone(),
            &config.cluster_domain,
            streams.clone(),
        );
        let mut routes = Routes::default()
            .serving(destination)
            .serving(IntrospectionServer::new(introspection));
        if let Some(clients) = clients {
            routes = routes.serving(XdsIntrospectionServer::new(clients));
        }
        let readiness = self.readiness.clone();
        let settings = server::Settings {
            tls: None,
            age_max: None,
            drain: config.drain_timeout,
            stall_timeout: config.stream_stall_timeout,
        };
        self.tasks.spawn(async move {
            let served = server::serve(
                listener, routes, HEALTH_OF, readiness, metrics, settings, streams,
            )
            .await;
            (GRPC_LISTENER, served.context("serving gRPC failed"))
        });
    }

    /// Works until `stop` resolves or a task ends unexpectedly, then shuts down in order: not ready, streams end, sources
    /// stop, the admin listener closes.
    pub async fn run_until(
        mut self,
        stop: impl Future<Output = &'static str>,
    ) -> anyhow::Result<()> {
        let mut cause = Cause::default();
        tokio::select! {
            reason = stop => info!(reason, "shutting down"),
            Some(ended) = self.tasks.join_next() => {
                self.shutdown.rest.cancel();
                cause.add_end(ended);
            }
        }
        self.readiness.close("shutting down");
        self.shutdown.streams.cancel();
        let mut listeners = usize::from(self.grpc.is_some()) + usize::from(self.xds.is_some());
        if listeners == 0 {
            self.shutdown.rest.cancel();
        }
        while let Some(ended) = self.tasks.join_next().await {
            match ended {
                Ok((task, Ok(()))) => {
                    if matches!(task, GRPC_LISTENER | XDS_LISTENER) {
                        listeners = listeners.saturating_sub(1);
                        if listeners == 0 {
                            self.shutdown.rest.cancel();
                        }
                    }
                }
                failed => {
                    self.shutdown.rest.cancel();
                    cause.add_end(failed);
                }
            }
        }
        cause.outcome()
    }
}

/// Why everything stops, if not because it was asked to: the first error, or else the first task that ended.
#[derive(Debug, Default)]
struct Cause {
    error: Option<anyhow::Error>,
    ended: Option<&'static str>,
}

// === impl Cause ===

impl Cause {
    /// Adds a task that should not have ended, or not so.
    ///
    /// One that failed takes others with it, and these may be seen to end before it does.
    fn add_end(&mut self, ended: Result<(&'static str, anyhow::Result<()>), JoinError>) {
        let error = match ended {
            Ok((task, Ok(()))) => {
                info!(task, "ended, stopping");
                self.ended.get_or_insert(task);
                return;
            }
            Ok((task, Err(error))) => error.context(format!("{task} failed")),
            Err(error) => anyhow::Error::new(error).context("a task panicked"),
        };
        error!(error = format!("{error:#}"), "stopping");
        self.error.get_or_insert(error);
    }

    fn outcome(self) -> anyhow::Result<()> {
        match (self.error, self.ended) {
            (Some(error), _) => Err(error),
            (None, Some(task)) => {
                let error = anyhow::anyhow!("{task} ended unexpectedly");
                error!(error = format!("{error:#}"), "stopped");
                Err(error)
            }
            (None, None) => Ok(()),
        }
    }
}

/// The writer's way to the home cluster.
#[derive(Debug)]
struct WriterAccess(HomeAccess);

impl writer::Access for WriterAccess {
    fn client(&self) -> BoxFuture<'_, Result<kube::Client, String>> {
        Box::pin(self.0.client())
    }

    fn refresh(&self) {
        self.0.refresh();
    }
}

/// How the writer works; `None` if it is off.
fn writer_options(config: &Config) -> Option<writer::Options> {
    let mode = match config.writer.mode {
        WriterMode::Off if !config.writer.writes_external_workloads() => return None,
        WriterMode::Off => writer::Mode::Off,
        WriterMode::On => writer::Mode::On,
        WriterMode::DryRun => writer::Mode::DryRun,
        WriterMode::Remove => writer::Mode::Remove,
    };
    Some(options_of(config, mode))
}

fn options_of(config: &Config, mode: writer::Mode) -> writer::Options {
    writer::Options {
        mode,
        workloads: match (
            config.writer.writes_external_workloads(),
            config.writer.is_dry_run,
        ) {
            (false, _) => writer::Workloads::Left,
            (true, false) => writer::Workloads::Written,
            (true, true) => writer::Workloads::DryRun,
        },
        settings: config.writer.settings.clone(),
        pace: config.writer.pace,
        namespace: config.controller_namespace.clone(),
        instance: config.replica_name.clone(),
    }
}

/// Resolves when the process is asked to end.
pub async fn termination() -> &'static str {
    match Signals::new() {
        Ok(mut signals) => signals.next().await,
        Err(_) => std::future::pending().await,
    }
}

/// The signals that ask the process to end.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

// === impl Signals ===

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// The next of them, by name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

fn select_policy(config: &Config) -> SelectPolicy {
    SelectPolicy {
        families: match (config.endpoint_kind, config.enable_ipv6) {
            // They have one address for each Pod, of the family that the Service comes with.
            (EndpointKind::Endpoints, _) => Families::Any,
            (EndpointKind::EndpointSlice, true) => Families::Ipv6First,
            (EndpointKind::EndpointSlice, false) => Families::Ipv4,
        },
        mesh: MeshPolicy {
            controller_namespace: config.controller_namespace.text().clone(),
            default_opaque_ports: config.default_opaque_ports.clone(),
            h2_upgrade: config.enable_h2_upgrade,
            transport_header: config.outbound_transport_mode == TransportMode::TransportHeader,
        },
    }
}

async fn bind(flag: &str, addr: Option<ListenAddr>) -> anyhow::Result<Option<TcpListener>> {
    let Some(addr) = addr else {
        return Ok(None);
    };
    let listener = addr
        .bind()
        .await
        .with_context(|| format!("cannot listen on {addr}; choose another address with {flag}"))?;
    Ok(Some(listener))
}

fn local_addr(listener: Option<&TcpListener>) -> anyhow::Result<Option<SocketAddr>> {
    let addr = listener.map(TcpListener::local_addr).transpose();
    addr.context("reading the address of a listener failed")
}

#[cfg(test)]
mod tests;
