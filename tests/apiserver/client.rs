//! The bed's own client, against a server that says what it is told to. Needs nothing.

use std::net::SocketAddr;
use std::pin::Pin;

use anyhow::Result;
use futures::Stream;
use linkerd2_proxy_api::destination::destination_server::{Destination, DestinationServer};
use linkerd2_proxy_api::destination::{
    AddrSet, DestinationProfile, GetDestination, NoEndpoints, Update, WeightedAddr,
    WeightedAddrSet, update,
};
use linkerd2_proxy_api::net::TcpAddress;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Request, Response, Status};

use crate::support::run;
use crate::support::subscription::{Mark, Message, Outcome, Subscription};

#[test]
fn messages_are_folded_as_a_proxy_does_it() {
    run(async {
        let (stream, _server) = subscribe(vec![
            add("east", &[("10.0.0.1:80", 1), ("10.0.0.2:80", 1)]),
            add("east", &[("10.0.0.1:80", 2)]),
            remove(&["10.0.0.2:80"]),
        ])
        .await?;
        assert_eq!(stream.wait_for_end().await, Outcome::Ended);
        let state = stream.wait_for_exactly(&["10.0.0.1:80"]).await;
        assert_eq!(state.at("10.0.0.1:80").weight(), 2);
        assert_eq!(state.at("10.0.0.1:80").label("cluster"), Some("east"));
        assert_eq!(stream.messages().len(), 3);
        assert_eq!(
            stream.messages()[2],
            Message::Remove(vec!["10.0.0.2:80".parse()?])
        );
        assert!(stream.violations().is_empty());
        Ok(())
    });
}

#[test]
fn broken_rules_are_noted() {
    run(async {
        for (updates, rule) in [
            (vec![remove(&["10.0.0.1:80"])], "first message was a remove"),
            (vec![add("east", &[])], "add without addresses"),
            (
                vec![
                    add("east", &[("10.0.0.1:80", 1)]),
                    add("east", &[("10.0.0.1:80", 1)]),
                ],
                "says nothing new",
            ),
            (
                vec![add("east", &[("10.0.0.1:80", 1)]), remove(&["10.0.0.2:80"])],
                "was not there",
            ),
        ] {
            let (stream, _server) = subscribe(updates).await?;
            stream.wait_for_end().await;
            let violations = stream.violations().join("; ");
            assert!(violations.contains(rule), "{rule}: {violations}");
        }
        Ok(())
    });
}

#[test]
fn nothing_is_not_the_same_as_no_endpoints() {
    run(async {
        let (stream, _server) = subscribe(vec![Update {
            update: Some(update::Update::NoEndpoints(NoEndpoints { exists: true })),
        }])
        .await?;
        stream.wait_for_end().await;
        assert!(stream.now().is_empty());
        assert_eq!(stream.now().no_endpoints, Some(true));

        let (stream, _server) = subscribe(Vec::new()).await?;
        let Outcome::Failed(code, _) = stream.wait_for_end().await else {
            panic!("a script without messages is an error");
        };
        assert_eq!(code, Code::NotFound);
        assert!(!stream.now().is_empty(), "it has not been answered");
        Ok(())
    });
}

#[test]
#[should_panic(expected = "10.0.0.2:80 was missing for a while")]
fn an_address_that_is_gone_for_one_message_is_noticed() {
    run(async {
        let (stream, _server) = subscribe(vec![
            add("east", &[("10.0.0.1:80", 1), ("10.0.0.2:80", 1)]),
            remove(&["10.0.0.2:80"]),
            add("east", &[("10.0.0.2:80", 1)]),
        ])
        .await?;
        stream.wait_for_end().await;
        let after_first = Mark::after(1);
        stream.assert_kept_since(after_first, &["10.0.0.1:80"]);
        stream.assert_kept_since(after_first, &["10.0.0.2:80"]);
        Ok(())
    });
}

/// Sends these updates and ends; with none, answers that there is no such name.
struct Script(Vec<Update>);

#[tonic::async_trait]
impl Destination for Script {
    type GetStream = Updates<Update>;
    type GetProfileStream = Updates<DestinationProfile>;

    async fn get(&self, _: Request<GetDestination>) -> Result<Response<Self::GetStream>, Status> {
        if self.0.is_empty() {
            return Err(Status::not_found("no such name"));
        }
        let updates: Vec<_> = self.0.iter().cloned().map(Ok).collect();
        Ok(Response::new(Box::pin(futures::stream::iter(updates))))
    }

    async fn get_profile(
        &self,
        _: Request<GetDestination>,
    ) -> Result<Response<Self::GetProfileStream>, Status> {
        Err(Status::unimplemented("profiles"))
    }
}

type Updates<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A stream from a server with a script, and the server, which ends with the second value.
async fn subscribe(updates: Vec<Update>) -> Result<(Subscription, JoinSet<()>)> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        tonic::transport::Server::builder()
            .add_service(DestinationServer::new(Script(updates)))
            .serve_with_incoming(TcpListenerStream::new(listener))
            .await
            .expect("a listener that is open can be served");
    });
    let stream = Subscription::open(address, "web.shop.svc.cluster.local:80", "", None);
    Ok((stream, tasks))
}

fn add(cluster: &str, addresses: &[(&str, u32)]) -> Update {
    let addrs = addresses.iter().map(|(address, weight)| WeightedAddr {
        addr: Some(tcp(address)),
        weight: *weight,
        ..WeightedAddr::default()
    });
    Update {
        update: Some(update::Update::Add(WeightedAddrSet {
            addrs: addrs.collect(),
            metric_labels: [("cluster".to_owned(), cluster.to_owned())].into(),
        })),
    }
}

fn remove(addresses: &[&str]) -> Update {
    Update {
        update: Some(update::Update::Remove(AddrSet {
            addrs: addresses.iter().map(|address| tcp(address)).collect(),
        })),
    }
}

fn tcp(address: &str) -> TcpAddress {
    let address: SocketAddr = address.parse().expect("tests name addresses");
    TcpAddress {
        ip: Some(address.ip().into()),
        port: address.port().into(),
    }
}
