//! The whole command against servers in this process.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{Stream, StreamExt, stream};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use super::*;
use crate::config::OutputFormat;
use crate::proto::destination::destination_server::{Destination, DestinationServer};
use crate::proto::destination::{DestinationProfile, GetDestination, NoEndpoints, Update, update};
use crate::proto::tributary_v1 as v1;
use crate::proto::tributary_v1::introspection_server::{Introspection, IntrospectionServer};

type Items<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Answers call after call from a script; the last one is repeated.
struct Script {
    calls: AtomicUsize,
    answers: Vec<Result<Vec<v1::EndpointsSnapshot>, Status>>,
    stays: bool,
}

#[tonic::async_trait]
impl Introspection for Script {
    type WatchEndpointsStream = Items<v1::EndpointsSnapshot>;

    async fn list_clusters(
        &self,
        _: Request<v1::ListClustersRequest>,
    ) -> Result<Response<v1::ListClustersResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    type WatchClustersStream = Items<v1::ListClustersResponse>;

    async fn watch_clusters(
        &self,
        _: Request<v1::ListClustersRequest>,
    ) -> Result<Response<Self::WatchClustersStream>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_services(
        &self,
        _: Request<v1::ListServicesRequest>,
    ) -> Result<Response<v1::ListServicesResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_views(
        &self,
        _: Request<v1::ListViewsRequest>,
    ) -> Result<Response<v1::ListViewsResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn explain(
        &self,
        _: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::Explanation>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_changes(
        &self,
        _: Request<v1::ListChangesRequest>,
    ) -> Result<Response<v1::ListChangesResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn list_findings(
        &self,
        _: Request<v1::ListFindingsRequest>,
    ) -> Result<Response<v1::ListFindingsResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn watch_endpoints(
        &self,
        _: Request<v1::WatchEndpointsRequest>,
    ) -> Result<Response<Self::WatchEndpointsStream>, Status> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let items = self.answers[call.min(self.answers.len() - 1)].clone()?;
        let items = stream::iter(items.into_iter().map(Ok));
        Ok(Response::new(if self.stays {
            items.chain(stream::pending()).boxed()
        } else {
            items.boxed()
        }))
    }
}

/// A destination server and nothing else; silent if there is nothing to send, as Linkerd's is.
struct OnlyGet(Vec<Update>);

#[tonic::async_trait]
impl Destination for OnlyGet {
    type GetStream = Items<Update>;
    type GetProfileStream = Items<DestinationProfile>;

    async fn get(&self, _: Request<GetDestination>) -> Result<Response<Items<Update>>, Status> {
        if self.0.is_empty() {
            std::future::pending::<()>().await;
        }
        let items = stream::iter(self.0.clone().into_iter().map(Ok));
        Ok(Response::new(items.chain(stream::pending()).boxed()))
    }

    async fn get_profile(
        &self,
        _: Request<GetDestination>,
    ) -> Result<Response<Items<DestinationProfile>>, Status> {
        Err(Status::unimplemented(""))
    }
}

struct Outcome {
    verdict: Verdict,
    out: String,
    err: String,
}

async fn ask(routes: Routes, watch: Watch) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let mut tasks = JoinSet::new();
    tasks.spawn(
        tonic::transport::Server::builder()
            .add_routes(routes)
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );
    run(&server, watch).await
}

async fn run(server: &str, watch: Watch) -> Outcome {
    let query = EndpointsQuery {
        server: server.to_owned(),
        authority: "web.shop.svc.cluster.local:80".to_owned(),
        context_token: String::new(),
        zone: None,
        watch,
        output: OutputFormat::Table,
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let verdict = endpoints(&query, Colour::Plain, &mut out, &mut err)
        .await
        .unwrap();
    Outcome {
        verdict,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

fn introspection(answers: Vec<Result<Vec<v1::EndpointsSnapshot>, Status>>) -> Routes {
    Routes::new(IntrospectionServer::from_arc(Arc::new(Script {
        calls: AtomicUsize::new(0),
        stays: answers.len() == 1,
        answers,
    })))
}

fn snapshot(addresses: &[&str]) -> v1::EndpointsSnapshot {
    v1::EndpointsSnapshot {
        authority: "web.shop.svc.cluster.local:80".to_owned(),
        resolution: v1::Resolution::Local.into(),
        members: vec![v1::Member {
            cluster: "home".to_owned(),
            service: "web".to_owned(),
            namespace: "shop".to_owned(),
            state: v1::MemberState::Synced.into(),
            age: None,
            ..v1::Member::default()
        }],
        endpoints: addresses
            .iter()
            .map(|address| v1::Endpoint {
                address: (*address).to_owned(),
                cluster: "home".to_owned(),
                served: true,
                weight: 10_000,
                ..v1::Endpoint::default()
            })
            .collect(),
    }
}

#[tokio::test]
async fn one_look_prints_one_answer() {
    let routes = introspection(vec![Ok(vec![snapshot(&["10.0.0.1:8080"])])]);
    let outcome = ask(routes, Watch::Once).await;
    assert_eq!(outcome.verdict, Verdict::Fine);
    assert!(outcome.out.contains("10.0.0.1:8080"), "{}", outcome.out);
    assert_eq!(outcome.err, "");
}

#[tokio::test]
async fn refusals_are_one_line_and_an_exit_code() {
    for (status, verdict, expected) in [
        (
            Status::not_found("no Service\nweb"),
            Verdict::Findings,
            "no Service web; `kubectl",
        ),
        (
            Status::invalid_argument("bad name"),
            Verdict::Usage,
            "--cluster-domain",
        ),
        (
            Status::unavailable("draining"),
            Verdict::CouldNotAsk,
            "draining; its /ready page",
        ),
        (
            Status::internal("oops"),
            Verdict::CouldNotAsk,
            "failed (Internal): oops",
        ),
    ] {
        let outcome = ask(introspection(vec![Err(status)]), Watch::Changes).await;
        assert_eq!(outcome.verdict, verdict);
        assert!(outcome.err.contains(expected), "{}", outcome.err);
        assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
    }
}

#[tokio::test]
async fn no_server_is_one_line_too() {
    let outcome = run("127.0.0.1:1", Watch::Once).await;
    assert_eq!(outcome.verdict, Verdict::CouldNotAsk);
    assert!(
        outcome.err.contains("cannot connect to 127.0.0.1:1: "),
        "{}",
        outcome.err
    );
    assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
}

#[tokio::test]
async fn a_watch_asks_again_and_prints_only_what_changed() {
    let routes = introspection(vec![
        Ok(vec![snapshot(&["10.0.0.1:8080"])]),
        Ok(vec![snapshot(&["10.0.0.1:8080", "10.0.0.2:8080"])]),
        Err(Status::invalid_argument("enough")),
    ]);
    let outcome = ask(routes, Watch::Changes).await;
    assert_eq!(outcome.verdict, Verdict::Usage);
    assert_eq!(
        outcome.out.matches("10.0.0.1:8080").count(),
        1,
        "{}",
        outcome.out
    );
    assert!(outcome.out.contains("+ 10.0.0.2:8080"), "{}", outcome.out);
    assert!(
        outcome.err.contains("ended the stream; asking again in 1s"),
        "{}",
        outcome.err
    );
    assert!(outcome.err.contains("answers again"), "{}", outcome.err);
}

#[tokio::test]
async fn a_server_of_linkerd_s_api_alone_is_asked_by_it() {
    let empty = Update {
        update: Some(update::Update::NoEndpoints(NoEndpoints { exists: true })),
    };
    let routes = Routes::new(DestinationServer::new(OnlyGet(vec![empty])));
    let outcome = ask(routes, Watch::Once).await;
    assert_eq!(outcome.verdict, Verdict::Findings);
    assert!(
        outcome.err.contains("has no tributary.v1 API"),
        "{}",
        outcome.err
    );
    assert_eq!(
        outcome.out,
        "web.shop.svc.cluster.local:80   as served   no endpoints\n"
    );
}

#[tokio::test]
async fn silence_of_such_a_server_is_an_empty_answer() {
    let routes = Routes::new(DestinationServer::new(OnlyGet(Vec::new())));
    let outcome = ask(routes, Watch::Once).await;
    assert_eq!(outcome.verdict, Verdict::Findings);
    assert!(outcome.out.contains("no endpoints"), "{}", outcome.out);
}
