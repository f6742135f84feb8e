use http_body_util::{BodyExt as _, Full};
use prometheus_client::encoding::text;

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

impl Scene {
    fn new() -> Self {
        let mut registry = Registry::default();
        let calls = Calls::register(&mut registry, &[FILE_DESCRIPTOR_SET]).expect("descriptors");
        Self { registry, calls }
    }

    /// A call to `path` that has been read.
    async fn call(&self, path: &str) -> Option<Call> {
        let call = self.calls.begin(path);
        let asked = Asked::new(Full::new(Bytes::from_static(TWO_MESSAGES)), call.as_ref());
        asked.collect().await.expect("infallible");
        call
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
    let mut call = scene.call(GET).await.expect("it is served");
    scene.check(&[
        "grpc_server_started_total{GET} 1",
        "grpc_server_msg_received_total{GET} 2",
    ]);
    call.sends_fields(&HeaderMap::new());
    call.sends(&messages());
    call.sends(&status("0"));
    drop(call);
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
    let mut call = scene.call(GET).await.expect("it is served");
    call.sends(&messages());
    drop(call);
    scene.check(&[
        "grpc_server_started_total{GET} 1",
        "grpc_server_handled_total{GET,grpc_code=\"Canceled\"} 1",
        "grpc_server_msg_received_total{GET} 2",
        "grpc_server_msg_sent_total{GET} 2",
        "grpc_server_handling_seconds_count{GET} 1",
    ]);
}

#[test]
fn a_status_without_messages_is_counted() {
    let scene = Scene::new();
    let mut call = scene.calls.begin(GET).expect("it is served");
    let mut headers = HeaderMap::new();
    headers.insert(STATUS, http::HeaderValue::from_static("5"));
    call.sends_fields(&headers);
    drop(call);
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
        assert!(scene.call(path).await.is_none(), "{path}");
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
