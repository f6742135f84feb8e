//! The xDS listener and what belongs to it.

use anyhow::Context;
use tokio::net::TcpListener;
use tracing::warn;

use super::{App, XDS_LISTENER};
use crate::admin::Registries;
use crate::config::{Config, XdsTls};
use crate::frontends::xds::{Metrics, Settings, Xds, XdsIntrospection};
use crate::server::{self, Routes, Tls, TlsFiles};

/// Names under which `grpc.health.v1` answers, besides the empty one.
const HEALTH_OF: &[&str] = &[
    "envoy.service.discovery.v3.AggregatedDiscoveryService",
    "envoy.service.endpoint.v3.EndpointDiscoveryService",
];

// === impl App ===

impl App {
    /// Serves xDS, and returns what shows people who is connected.
    pub(super) async fn serve_xds(
        &mut self,
        listener: TcpListener,
        config: &Config,
        metrics: server::Metrics,
        registries: &mut Registries,
    ) -> anyhow::Result<XdsIntrospection> {
        let tls = self.secure_xds(&listener, config, &metrics).await?;
        let streams = self.shutdown.streams.clone();
        let (xds, task) = Xds::new(
            self.catalog.clone(),
            &Settings {
                cluster_domain: config.cluster_domain.to_string(),
                identifier: config.replica_name.clone(),
                streams_max: config.max_streams,
                peer_streams_max: config.xds.peer_streams_max,
                peer_names_max: config.xds.peer_names_max,
                drain: config.drain_timeout,
            },
            Metrics::register(registries.ours.sub_registry_with_prefix("xds")),
            streams.clone(),
        );
        // Names are followed for as long as streams end.
        let rest = self.shutdown.rest.clone();
        self.tasks.spawn(async move {
            task.run(rest).await;
            ("xDS names", Ok(()))
        });
        let routes = Routes::default()
            .serving(xds.aggregated())
            .serving(xds.endpoints());
        let introspection = xds.introspection();
        let readiness = self.readiness.clone();
        let settings = server::Settings {
            tls,
            age_max: config.xds.connection_age_max,
            drain: config.drain_timeout,
            stall_timeout: config.stream_stall_timeout,
        };
        self.tasks.spawn(async move {
            let served = server::serve(
                listener, routes, HEALTH_OF, readiness, metrics, settings, streams,
            )
            .await;
            (XDS_LISTENER, served.context("serving xDS failed"))
        });
        Ok(introspection)
    }

    /// Reads the files of TLS and follows them, if there are any.
    async fn secure_xds(
        &mut self,
        listener: &TcpListener,
        config: &Config,
        metrics: &server::Metrics,
    ) -> anyhow::Result<Option<Tls>> {
        let Some(files) = &config.xds.tls else {
            let addr = listener.local_addr()?;
            if !addr.ip().is_loopback() {
                warn!(
                    %addr,
                    "xDS is served without TLS: whoever can connect can read every endpoint, and whoever is between can change it"
                );
            }
            return Ok(None);
        };
        let (tls, reload) = Tls::load(files_of(files), metrics)
            .await
            .context("TLS of the xDS listener cannot be used; see --xds-tls-cert, --xds-tls-key and --xds-tls-client-ca")?;
        let rest = self.shutdown.rest.clone();
        self.tasks.spawn(async move {
            reload.run(rest).await;
            ("certificate of xDS", Ok(()))
        });
        Ok(Some(tls))
    }
}

fn files_of(tls: &XdsTls) -> TlsFiles {
    TlsFiles {
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
        client_ca: tls.client_ca.clone(),
    }
}
