//! A watch against a server that answers from a script.

use std::collections::VecDeque;
use std::convert::Infallible;

use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::super::connect::Origin;
use super::super::objects::Service;
use super::*;
use crate::publish::Clock;
use crate::sources::metrics::RequestMetrics;

/// A part of the query that is expected, and the answer: status and body.
type Exchange = (&'static str, u16, &'static str);

const END_OF_LIST: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}
"#;

/// Plays a script and returns what the watch reports, up to the `last` word.
///
/// Words: `[` list begins, `+a` listed, `]` list ends, `a` applied, `-a` deleted, `alive`, `bad` undecodable, `!class`.
async fn play(script: &[Exchange], last: &str) -> String {
    let script: Arc<Mutex<VecDeque<Exchange>>> =
        Arc::new(Mutex::new(script.iter().copied().collect()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            let script = Arc::clone(&script);
            let answer = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let exchange = script.lock().pop_front();
                async move {
                    let Some((expected, status, body)) = exchange else {
                        return std::future::pending().await;
                    };
                    let query = request.uri().query().unwrap_or_default();
                    let (status, body) = if query.split('&').any(|pair| pair == expected) {
                        (status, body.to_owned())
                    } else {
                        (
                            418,
                            format!(r#"{{"message":"expected {expected} in {query}"}}"#),
                        )
                    };
                    let response = http::Response::builder().status(status);
                    Ok::<_, Infallible>(
                        response
                            .body(Full::new(Bytes::from(body)))
                            .expect("a response"),
                    )
                }
            });
            connections.spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer),
            );
        }
    });
    let config = kube::Config::new(format!("http://{address}").parse().expect("a URL"));
    let access = Arc::new(Access::new(
        Origin::Fixed(Box::new(config)),
        RequestMetrics::default(),
        Clock::default(),
    ));
    let mut watch = Watch::<Service>::new(
        access,
        Resource::of(Kind::Service),
        Arc::new(AtomicBool::new(true)),
    );
    let mut words = Vec::new();
    while words.last().is_none_or(|word| word != last) {
        let name = |object: &Service| object.metadata.name.clone();
        words.push(match watch.next().await {
            Ok(Event::ListStarted) => "[".to_owned(),
            Ok(Event::Listed(object)) => format!("+{}", name(&object)),
            Ok(Event::ListEnded) => "]".to_owned(),
            Ok(Event::Applied(object)) => name(&object),
            Ok(Event::Deleted(object)) => format!("-{}", name(&object)),
            Ok(Event::Alive) => "alive".to_owned(),
            Ok(Event::Undecodable(_)) => "bad".to_owned(),
            Err(failure) if failure.reason.contains("expected") => panic!("{}", failure.reason),
            Err(failure) => format!("!{}", failure.class.word()),
        });
    }
    words.join(" ")
}

fn object(kind: &str, name: &str, version: u32) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"metadata":{{"name":"{name}","resourceVersion":"{version}"}}}}}}"#
    ) + "\n"
}

/// Lines that last as long as the test program.
fn lines(parts: &[String]) -> &'static str {
    parts.concat().leak()
}

#[tokio::test]
async fn a_streamed_list_is_followed_from_where_it_ended() {
    let list = lines(&[
        object("ADDED", "a", 3),
        object("ADDED", "b", 4),
        END_OF_LIST.to_owned(),
    ]);
    let changes = lines(&[object("MODIFIED", "a", 6), object("DELETED", "b", 7)]);
    let script = [
        ("sendInitialEvents=true", 200, list),
        ("resourceVersion=5", 200, changes),
        ("resourceVersion=7", 200, lines(&[object("ADDED", "z", 8)])),
    ];
    assert_eq!(play(&script, "z").await, "[ +a +b ] alive a -b alive z");
}

#[tokio::test]
async fn a_server_that_cannot_stream_lists_is_asked_for_pages() {
    let first = r#"{"metadata":{"resourceVersion":"5","continue":"more"},"items":[{"metadata":{"name":"a"}}]}"#;
    let second = r#"{"metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"b"}},{"metadata":{"name":"c"},"spec":7}]}"#;
    let script = [
        (
            "sendInitialEvents=true",
            422,
            r#"{"code":422,"message":"sendInitialEvents is forbidden"}"#,
        ),
        ("limit=500", 200, first),
        ("continue=more", 200, second),
        ("resourceVersion=5", 200, lines(&[object("ADDED", "z", 6)])),
    ];
    assert_eq!(play(&script, "z").await, "[ +a +b bad ] alive z");
}

#[tokio::test]
async fn a_version_that_is_gone_means_another_list() {
    let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}
"#;
    let script = [
        ("sendInitialEvents=true", 200, END_OF_LIST),
        ("resourceVersion=5", 200, gone),
        ("sendInitialEvents=true", 200, END_OF_LIST),
        ("resourceVersion=5", 410, "{}"),
        (
            "sendInitialEvents=true",
            200,
            lines(&[object("ADDED", "z", 3)]),
        ),
    ];
    assert_eq!(
        play(&script, "+z").await,
        "[ ] alive !expired [ ] !expired [ +z"
    );
}

#[tokio::test]
async fn a_list_that_breaks_off_begins_again() {
    let script = [
        (
            "sendInitialEvents=true",
            200,
            lines(&[object("ADDED", "a", 3)]),
        ),
        (
            "limit=500",
            200,
            r#"{"metadata":{"resourceVersion":"5","continue":"more"},"items":[{"metadata":{"name":"a"}}]}"#,
        ),
        ("continue=more", 503, "<html>"),
        (
            "limit=500",
            200,
            r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#,
        ),
    ];
    assert_eq!(
        play(&script, "]").await,
        "[ +a !unreachable [ +a !overloaded [ ]"
    );
}

#[tokio::test]
async fn a_refusal_does_not_lose_the_place() {
    let script = [
        ("sendInitialEvents=true", 200, END_OF_LIST),
        ("resourceVersion=5", 401, r#"{"message":"Unauthorized"}"#),
        ("resourceVersion=5", 403, "no"),
        ("resourceVersion=5", 429, ""),
        ("resourceVersion=5", 200, lines(&[object("ADDED", "z", 6)])),
    ];
    assert_eq!(
        play(&script, "z").await,
        "[ ] !unauthorized !forbidden !overloaded alive z"
    );
}

#[tokio::test]
async fn an_answer_of_something_else_is_asked_for_again() {
    let script = [
        ("sendInitialEvents=true", 200, "<html>\n"),
        ("sendInitialEvents=true", 200, END_OF_LIST),
    ];
    assert_eq!(play(&script, "]").await, "[ !garbled [ ]");
}

#[test]
fn waits_grow_to_two_seconds_and_never_further() {
    for _ in 0..100 {
        assert!((50..=100).contains(&backoff(1, FailureClass::Unreachable).as_millis()));
        assert!((100..=200).contains(&backoff(2, FailureClass::Forbidden).as_millis()));
        for failures in [6, 100, u32::MAX] {
            let wait = backoff(failures, FailureClass::Unreachable);
            assert!((1000..=2000).contains(&wait.as_millis()));
        }
    }
}

#[test]
fn lists_are_consistent_reads() {
    let request = Resource::of(Kind::Pod).watch(None, 9).expect("a request");
    let query = request.uri().query().unwrap_or_default();
    assert!(query.contains("sendInitialEvents=true"), "{query}");
    assert!(query.ends_with("resourceVersion="), "{query}");
    let request = Resource::of(Kind::Pod).list(None).expect("a request");
    assert_eq!(request.uri(), "/api/v1/pods?&limit=250");
}
