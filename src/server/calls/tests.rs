use std::convert::Infallible;

use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use prometheus_client::encoding::text;
use tower::service_fn;

use super::*;
use crate::proto::FILE_DESCRIPTOR_SET;

const GET: &str = "/io.linkerd.proxy.destination.Destination/Get";
const LABELS: &str = "grpc_type=\"server_stream\",grpc_service=\"io.linkerd.proxy.destination.Destination\",grpc_method=\"Get\"";

/// Two messages, of one byte and of none.
const TWO_MESSAGES: &[u8] = &[0, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0];

/// Counters, and what a scraper sees of them.
struct Scene {
    registry: Registry,
    calls: Calls,
}

type Bodies =
    StreamBody<futures::stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;

impl Scene {
    fn new() -> Self {
        let mut registry = Registry::default();
        let calls = Calls::register(&mut registry, &[FILE_DESCRIPTOR_SET]).expect("descriptors");
        Self { registry, calls }
    }

    /// Answers a call to `path` with these frames.
    async fn call(
        &self,
        path: &str,
        frames: Vec<Frame<Bytes>>,
    ) -> http::Response<Answered<Bodies>> {
        let answer = service_fn(move |request: http::Request<Asked<Full<Bytes>>>| {
            let frames: Vec<_> = frames_again(&frames).map(Ok).collect();
            async move {
                // Reads what it is asked.
                request.into_body().collect().await?;
                let frames = StreamBody::new(futures::stream::iter(frames));
                Ok::<_, Infallible>(http::Response::new(frames))
            }
        });
        let mut service = self.calls.layer(answer);
        let asked = Full::new(Bytes::from_static(TWO_MESSAGES));
        let request = http::Request::post(path).body(asked).expect("a request");
        service.call(request).await.expect("infallible")
    }

    /// What the lines of a metric that are not nought end in.
    fn check(&self, expected: &[&str]) {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("text");
        let got: Vec<_> = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.ends_with(" 0"))
            .filter(|line| !line.contains("handling_seconds_sum") && !line.contains("bucket"))
            .map(|line| line.replace(LABELS, "GET"))
            .collect();
        assert_eq!(got, expected, "{text}");
    }
}

fn frames_again(frames: &[Frame<Bytes>]) -> impl Iterator<Item = Frame<Bytes>> {
    frames.iter().map(|frame| match frame.data_ref() {
        Some(data) => Frame::data(data.clone()),
        None => Frame::trailers(frame.trailers_ref().cloned().unwrap_or_default()),
    })
}

fn messages() -> Frame<Bytes> {
    Frame::data(Bytes::from_static(TWO_MESSAGES))
}

fn status(code: &'static str) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    trailers.insert(STATUS, http::HeaderValue::from_static(code));
    Frame::trailers(trailers)
}

#[tokio::test]
async fn a_call_is_counted_when_it_starts_and_when_it_is_over() {
    let scene = Scene::new();
    let response = scene.call(GET, vec![messages(), status("0")]).await;
    scene.check(&[
        "grpc_server_started_total{GET} 1",
        "grpc_server_msg_received_total{GET} 2",
    ]);
    response.into_body().collect().await.expect("infallible");
    scene.check(&[
        "grpc_server_started_total{GET} 1",
        "grpc_server_handled_total{GET,grpc_code=\"OK\"} 1",
        "grpc_server_msg_received_total{GET} 2",
        "grpc_server_msg_sent_total{GET} 2",
        "grpc_server_handling_seconds_count{GET} 1",
    ]);
}

#[tokio::test]
async fn a_client_that_leaves_is_counted_as_canceled() {
    let scene = Scene::new();
    let mut body = scene
        .call(GET, vec![messages(), messages(), status("0")])
        .await
        .into_body();
    body.frame().await.expect("a frame").expect("infallible");
    drop(body);
    scene.check(&[
        "grpc_server_started_total{GET} 1",
        "grpc_server_handled_total{GET,grpc_code=\"Canceled\"} 1",
        "grpc_server_msg_received_total{GET} 2",
        "grpc_server_msg_sent_total{GET} 2",
        "grpc_server_handling_seconds_count{GET} 1",
    ]);
}

#[tokio::test]
async fn a_client_that_leaves_before_there_is_an_answer_is_counted_too() {
    let scene = Scene::new();
    let never = service_fn(|_: http::Request<Asked<Empty<Bytes>>>| {
        std::future::pending::<Result<http::Response<Empty<Bytes>>, Infallible>>()
    });
    let mut service = scene.calls.layer(never);
    let request = http::Request::post(GET)
        .body(Empty::new())
        .expect("a request");
    drop(service.call(request));
    scene.check(&[
        "grpc_server_started_total{GET} 1",
        "grpc_server_handled_total{GET,grpc_code=\"Canceled\"} 1",
        "grpc_server_handling_seconds_count{GET} 1",
    ]);
}

#[tokio::test]
async fn a_status_without_messages_is_counted() {
    let scene = Scene::new();
    let refuse = service_fn(|_: http::Request<Asked<Empty<Bytes>>>| async {
        let response = http::Response::builder().header(STATUS, "5");
        Ok::<_, Infallible>(response.body(Empty::<Bytes>::new()).expect("a response"))
    });
    let mut service = scene.calls.layer(refuse);
    let request = http::Request::post(GET)
        .body(Empty::new())
        .expect("a request");
    drop(service.call(request).await);
    scene.check(&[
        "grpc_server_started_total{GET} 1",
        "grpc_server_handled_total{GET,grpc_code=\"NotFound\"} 1",
        "grpc_server_handling_seconds_count{GET} 1",
    ]);
}

#[tokio::test]
async fn methods_that_nobody_serves_make_no_series() {
    let scene = Scene::new();
    for path in [
        "/",
        "/a.B/C",
        "/io.linkerd.proxy.destination.Destination/Other",
    ] {
        drop(scene.call(path, vec![messages(), status("12")]).await);
    }
    scene.check(&[]);
}

#[test]
fn codes_are_in_the_order_of_their_numbers() {
    for (number, name) in CODES.iter().enumerate() {
        let number = i32::try_from(number).expect("small");
        assert_eq!(Code::from(number) as i32, number, "{name}");
    }
    assert_eq!(CODES[Code::Cancelled as usize], "Canceled");
    assert_eq!(CODES[Code::NotFound as usize], "NotFound");
    assert_eq!(CODES[Code::Unavailable as usize], "Unavailable");
    assert_eq!(CODES[Code::Unauthenticated as usize], "Unauthenticated");
}
