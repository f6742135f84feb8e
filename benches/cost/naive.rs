//! The shape to beat: a queue of 100 events per stream, and every event translated and encoded for each stream.

use std::collections::HashMap;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Result;
use futures::{Stream, StreamExt as _};
use linkerd2_proxy_api::destination::destination_server::{Destination, DestinationServer};
use linkerd2_proxy_api::destination::{
    DestinationProfile, GetDestination, ProtocolHint, TlsIdentity, Update, WeightedAddr,
    WeightedAddrSet, protocol_hint, tls_identity, update,
};
use linkerd2_proxy_api::net::{IpAddress, TcpAddress, ip_address};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::cluster::{NAMESPACE, service_name};
use crate::question::service_in;

const QUEUE: usize = 100;

type Updates = Pin<Box<dyn Stream<Item = Result<Update, Status>> + Send>>;

/// What a watcher would hand to each of its listeners.
struct Event {
    service: u32,
    endpoints: Vec<Endpoint>,
}

struct Endpoint {
    ip: u32,
    pod: String,
    zone: String,
}

/// Queues of streams, by Service.
type Queues = HashMap<u32, Vec<mpsc::Sender<Arc<Event>>>>;

#[derive(Clone)]
struct Naive {
    /// Endpoints of each Service.
    endpoints: u32,
    streams: Arc<Mutex<Queues>>,
}

/// Serves on a free port, which it prints, until stdin closes. A line on stdin is the number of a Service, of which so many endpoints
/// have changed.
pub fn serve(endpoints: u32, changed: u32) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let naive = Naive {
            endpoints,
            streams: Arc::default(),
        };
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
        let incoming =
            tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true));
        let serving = tonic::transport::Server::builder()
            .max_concurrent_streams(Some(100_000))
            .add_service(DestinationServer::new(naive.clone()))
            .serve_with_incoming(incoming);
        std::thread::spawn({
            let naive = naive.clone();
            move || {
                for line in std::io::stdin().lines().map_while(Result::ok) {
                    naive.change(line.parse().unwrap_or(0), changed);
                }
                std::process::exit(0);
            }
        });
        Ok(serving.await?)
    })
}

// === impl Naive ===

impl Naive {
    fn change(&self, service: u32, changed: u32) {
        let endpoints = (0..changed).map(|number| endpoint(service, number));
        let event = Arc::new(Event {
            service,
            endpoints: endpoints.collect(),
        });
        for stream in self.streams.lock().entry(service).or_default().iter() {
            stream.try_send(Arc::clone(&event)).ok();
        }
    }
}

fn endpoint(service: u32, number: u32) -> Endpoint {
    Endpoint {
        ip: 0x0a2a_0000 + service * 1024 + number,
        pod: format!("{}-5d9c8b7f6-{number:08}", service_name(service)),
        zone: format!("zone-{}", number % 3),
    }
}

fn translate(event: &Event) -> Update {
    let service = service_name(event.service);
    let addrs = event.endpoints.iter().map(|endpoint| {
        // As many, and as long, as the product sends.
        let labels = [
            ("pod", endpoint.pod.clone()),
            ("zone", endpoint.zone.clone()),
            ("zone_locality", "unknown".to_owned()),
            ("serviceaccount", service.clone()),
            ("replicaset", format!("{service}-5d9c8b7f6")),
            ("control_plane_ns", "linkerd".to_owned()),
            ("pod_template_hash", "5d9c8b7f6".to_owned()),
        ];
        WeightedAddr {
            addr: Some(TcpAddress {
                ip: Some(IpAddress {
                    ip: Some(ip_address::Ip::Ipv4(endpoint.ip)),
                }),
                port: 8080,
            }),
            weight: 10_000,
            metric_labels: labels
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            tls_identity: Some(TlsIdentity {
                strategy: Some(tls_identity::Strategy::DnsLikeIdentity(
                    tls_identity::DnsLikeIdentity {
                        name: format!(
                            "{service}.{NAMESPACE}.serviceaccount.identity.linkerd.cluster.local"
                        ),
                    },
                )),
                ..TlsIdentity::default()
            }),
            protocol_hint: Some(ProtocolHint {
                protocol: Some(protocol_hint::Protocol::H2(protocol_hint::H2 {})),
                ..ProtocolHint::default()
            }),
            ..WeightedAddr::default()
        }
    });
    let labels = [("namespace", NAMESPACE), ("service", &service)];
    Update {
        update: Some(update::Update::Add(WeightedAddrSet {
            addrs: addrs.collect(),
            metric_labels: labels
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        })),
    }
}

#[tonic::async_trait]
impl Destination for Naive {
    type GetStream = Updates;
    type GetProfileStream = Pin<Box<dyn Stream<Item = Result<DestinationProfile, Status>> + Send>>;

    async fn get(&self, question: Request<GetDestination>) -> Result<Response<Updates>, Status> {
        let service = service_in(question.get_ref().path.as_bytes())
            .ok_or_else(|| Status::not_found("no such Service"))?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let event = Event {
            service,
            endpoints: (0..self.endpoints)
                .map(|number| endpoint(service, number))
                .collect(),
        };
        sender.try_send(Arc::new(event)).ok();
        self.streams.lock().entry(service).or_default().push(sender);
        let updates = ReceiverStream::new(receiver).map(|event| Ok(translate(&event)));
        Ok(Response::new(Box::pin(updates)))
    }

    async fn get_profile(
        &self,
        _: Request<GetDestination>,
    ) -> Result<Response<Self::GetProfileStream>, Status> {
        Err(Status::unimplemented("not needed"))
    }
}
