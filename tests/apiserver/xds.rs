//! Clients of xDS while a linked cluster is out of reach: what was known stays, and what is not known is not made up.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use envoy_types::pb::envoy::config::core::v3::address::Address;
use envoy_types::pb::envoy::config::endpoint::v3::ClusterLoadAssignment;
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryResponse;
use envoy_types::pb::envoy::service::endpoint::v3::endpoint_discovery_service_client::EndpointDiscoveryServiceClient;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::support::peers::free_port;
use crate::support::services::authority;
use crate::support::tributary::Tributary;
use crate::support::{DEADLINE, run};
use crate::victim::{GOES, HOME, HOME_COMES, STAYS, Victim, log_line_with};

/// An endpoint stream that accepts whatever it is sent.
struct Endpoints {
    names: Vec<String>,
    requests: mpsc::Sender<DiscoveryRequest>,
    responses: Streaming<DiscoveryResponse>,
}

impl Endpoints {
    /// `version` is what the client has from an earlier stream; empty if nothing.
    async fn open(xds: &Channel, names: &[&str], version: &str) -> Result<Self> {
        let (requests, receiver) = mpsc::channel(8);
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let first = DiscoveryRequest {
            resource_names: names.clone(),
            version_info: version.to_owned(),
            ..Default::default()
        };
        requests.send(first).await?;
        let mut client = EndpointDiscoveryServiceClient::new(xds.clone());
        let responses = client.stream_endpoints(ReceiverStream::new(receiver));
        Ok(Self {
            names,
            requests,
            responses: responses.await?.into_inner(),
        })
    }

    /// The next response: the name and the addresses of each resource.
    async fn next(&mut self) -> Result<Vec<(String, BTreeSet<String>)>> {
        let response = tokio::time::timeout(DEADLINE, self.responses.message()).await??;
        let response = response.context("the stream has ended")?;
        let accept = DiscoveryRequest {
            resource_names: self.names.clone(),
            version_info: response.version_info.clone(),
            response_nonce: response.nonce.clone(),
            ..Default::default()
        };
        self.requests.send(accept).await?;
        let resources = response.resources.iter();
        let read = resources.map(|any| Ok(read(&ClusterLoadAssignment::decode(&*any.value)?)));
        read.collect()
    }

    /// Waits until a name has exactly these addresses; nothing that is kept was ever missing on the way.
    async fn until(&mut self, name: &str, wanted: &[&str], kept: &[&str]) -> Result<()> {
        let wanted: BTreeSet<_> = wanted.iter().map(|&address| address.to_owned()).collect();
        loop {
            for (of, addresses) in self.next().await? {
                let missing = kept.iter().find(|&&address| !addresses.contains(address));
                anyhow::ensure!(
                    of != name || missing.is_none(),
                    "{missing:?}: {addresses:?}"
                );
                if of == name && addresses == wanted {
                    return Ok(());
                }
            }
        }
    }
}

fn read(assignment: &ClusterLoadAssignment) -> (String, BTreeSet<String>) {
    let endpoints = assignment.endpoints.iter();
    let endpoints = endpoints.flat_map(|locality| &locality.lb_endpoints);
    let address = |identifier: &HostIdentifier| {
        let HostIdentifier::Endpoint(endpoint) = identifier else {
            panic!("no endpoint");
        };
        let Some(Address::SocketAddress(socket)) = &endpoint.address.as_ref().unwrap().address
        else {
            panic!("no address");
        };
        let Some(
            envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier::PortValue(
                port,
            ),
        ) = socket.port_specifier
        else {
            panic!("no port");
        };
        format!("{}:{port}", socket.address)
    };
    let addresses = endpoints.filter_map(|endpoint| endpoint.host_identifier.as_ref());
    (
        assignment.cluster_name.clone(),
        addresses.map(address).collect(),
    )
}

async fn serve(victim: &Victim) -> Result<(Tributary, Channel)> {
    let address = format!("127.0.0.1:{}", free_port()?);
    let arguments = ["--xds-addr", &address, "--drain-timeout", "0s"];
    let tributary = Tributary::start(victim.home, &arguments).await?;
    Ok((
        tributary,
        Channel::from_shared(format!("http://{address}"))?.connect_lazy(),
    ))
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_linked_cluster_out_of_reach_keeps_its_endpoints_and_is_waited_for_after_a_restart() {
    run(async {
        let victim = Victim::shared("xdslost").await?;
        let (tributary, xds) = serve(&victim).await?;
        let federated = authority(victim.name, "web-federated");
        let home = authority(victim.name, "web");
        let mut stream = Endpoints::open(&xds, &[&federated], "").await?;
        stream.until(&federated, &[HOME, STAYS, GOES], &[]).await?;

        victim.network.refuse().await;
        victim.network.cut();
        log_line_with(&tributary, &["cluster unreachable", "cluster=xdslost"]).await?;
        victim.change_home().await?;
        let known = [HOME, HOME_COMES, STAYS, GOES];
        stream
            .until(&federated, &known, &[HOME, STAYS, GOES])
            .await?;
        // So is a client that comes now.
        let mut late = Endpoints::open(&xds, &[&federated], "").await?;
        late.until(&federated, &known, &known).await?;

        // A restarted server knows nothing of the cluster, and says nothing that would take its endpoints away.
        tributary.terminate().await?;
        let (tributary, xds) = serve(&victim).await?;
        let mut back = Endpoints::open(&xds, &[&federated, &home], "what it has").await?;
        let first = back.next().await?;
        let names: Vec<_> = first.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [home.as_str()],
            "what is known is said, the other is waited for"
        );
        // A new client would start with nothing: after a while it gets what there is.
        let mut new = Endpoints::open(&xds, &[&federated], "").await?;
        new.until(&federated, &[HOME, HOME_COMES], &[]).await?;

        victim.network.heal().await;
        back.until(&federated, &known, &known).await?;
        new.until(&federated, &known, &[HOME, HOME_COMES]).await?;
        tributary.ensure_running()?;
        victim.leave().await
    });
}
