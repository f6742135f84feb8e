//! Input that nobody in their right mind would send. Every piece of it gets a clear status, and nobody else notices.

use anyhow::{Result, bail};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Code;

use super::raw::{Answer, GET, Raw, frame, question};
use crate::support::manifests::{WEB, shop};
use crate::support::services::authority;
use crate::support::tributary::Tributary;
use crate::support::{DEADLINE, run, runtime};

/// Sends every body to a path over one connection and wants a refusal each time; then the server serves as before.
fn all_are_refused<T: std::fmt::Debug>(
    cases: u32,
    strategy: &impl Strategy<Value = T>,
    request: impl Fn(&T) -> (String, Vec<u8>),
    expected: impl Fn(&T, Code) -> bool,
) {
    let start = async {
        let (manifests, tributary) = shop().await?;
        let stream = tributary.get(&authority("shop", "web"));
        stream.wait_for_exactly(&WEB).await;
        let raw = Raw::connect(tributary.address()).await?;
        Ok::<_, anyhow::Error>((manifests, tributary, stream, raw))
    };
    let (_manifests, tributary, stream, raw) = runtime().block_on(start).unwrap();
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(strategy, |case| {
        let (path, body) = request(&case);
        let refusal = async {
            match raw.ask(&path, body).await? {
                Answer::Refused(refusal) => Ok(refusal),
                Answer::Began(bytes) => bail!("answered with {bytes:?}"),
            }
        };
        match runtime().block_on(refusal) {
            Ok(refusal) if refusal.trailers_only && expected(&case, refusal.code) => Ok(()),
            other => Err(TestCaseError::fail(format!("{other:?}"))),
        }
    });
    if let Err(failed) = outcome {
        panic!("{failed}\n{}", tributary.log_tail(20));
    }
    assert_eq!(stream.outcome(), None, "{}", stream.report());
    run(still_serves(&tributary, &raw));
}

/// On the connection that has seen it all, and on a new one.
async fn still_serves(tributary: &Tributary, raw: &Raw) -> Result<()> {
    tributary.ensure_running()?;
    let name = authority("shop", "web");
    let answer = raw.ask(GET, question(&name, "")).await?;
    assert!(matches!(answer, Answer::Began(_)), "{answer:?}");
    tributary.get(&name).wait_for_exactly(&WEB).await;
    Ok(())
}

/// What is at fault with a request body.
#[derive(Clone, Debug)]
enum Body {
    Bytes(Vec<u8>),
    Message(Vec<u8>),
    Flag(u8, Vec<u8>),
    Truncated(u32, Vec<u8>),
    Huge(u32),
}

fn bodies() -> impl Strategy<Value = Body> {
    let bytes = || vec(any::<u8>(), 0..100);
    prop_oneof![
        bytes().prop_map(Body::Bytes),
        bytes().prop_map(Body::Message),
        (1_u8.., bytes()).prop_map(|(flag, message)| Body::Flag(flag, message)),
        (1_u32..1000, bytes()).prop_map(|(missing, message)| Body::Truncated(missing, message)),
        (4_194_305_u32..).prop_map(Body::Huge),
    ]
}

impl Body {
    fn encode(&self) -> Vec<u8> {
        let length = |message: &Vec<u8>| u32::try_from(message.len()).expect("it is short");
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Message(message) => frame(0, length(message), message),
            Self::Flag(flag, message) => frame(*flag, length(message), message),
            Self::Truncated(missing, message) => frame(0, length(message) + missing, message),
            Self::Huge(length) => frame(0, *length, b"short"),
        }
    }
}

#[test]
fn bodies_that_are_no_question_are_refused() {
    let request = |body: &Body| (GET.to_owned(), body.encode());
    all_are_refused(2000, &bodies(), request, |_, code| {
        // Neither a crash of ours nor something that a client would try again at once.
        !matches!(
            code,
            Code::Ok | Code::Unavailable | Code::Aborted | Code::DataLoss
        )
    });
}

#[test]
fn names_and_tokens_that_mean_nothing_are_refused() {
    let name = prop_oneof![
        "\\PC{0,80}",
        "[a-z0-9.:\\[\\]%-]{0,60}",
        "[a-zA-Z.]{0,20}\\.svc\\.cluster\\.local:[0-9]{0,6}",
        any::<String>(),
    ];
    let token = prop_oneof![
        "",
        any::<String>(),
        "\\{\"(ns|nodeName|pod)\":\"\\PC{0,20}\"",
        "ns:\\PC{0,20}",
    ];
    let request = |(name, token): &(String, String)| (GET.to_owned(), question(name, token));
    all_are_refused(2000, &(name, token), request, |_, code| {
        matches!(code, Code::InvalidArgument | Code::NotFound)
    });
}

#[test]
fn methods_that_nobody_has_are_unimplemented() {
    let path = prop_oneof![
        "/[a-zA-Z0-9._~!$&'()*+,;=:@-]{0,40}(/[a-zA-Z0-9._-]{0,20}){0,3}",
        "/io\\.linkerd\\.proxy\\.destination\\.Destination/[a-zA-Z]{0,12}[0-9]",
    ];
    let name = authority("shop", "web");
    let request = |path: &String| (path.clone(), question(&name, ""));
    all_are_refused(500, &path, request, |_, code| code == Code::Unimplemented);
}

#[test]
fn bytes_that_are_no_http_end_their_connection_only() {
    let (_manifests, tributary) = runtime().block_on(shop()).unwrap();
    let config = Config {
        cases: 300,
        failure_persistence: None,
        ..Config::default()
    };
    // Some begin as HTTP/2 does, or as the other protocols that may come to a wrong port.
    let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let beginning = select(vec!["", preface, "GET / HTTP/1.1\r\n", "\x16\x03\x01\x02"]);
    let strategy = (beginning, vec(any::<u8>(), 0..200), any::<bool>());
    let outcome = TestRunner::new(config).run(&strategy, |(beginning, bytes, admin)| {
        let server = if admin {
            tributary.admin()
        } else {
            tributary.address()
        };
        let exchange = async {
            let mut connection = TcpStream::connect(server).await?;
            connection.write_all(beginning.as_bytes()).await?;
            connection.write_all(&bytes).await?;
            connection.shutdown().await?;
            // Until the server closes it, one way or another.
            let mut answer = Vec::new();
            connection.read_to_end(&mut answer).await
        };
        let exchange = async { tokio::time::timeout(DEADLINE, exchange).await };
        match runtime().block_on(exchange) {
            Ok(_) => Ok(()),
            Err(_) => Err(TestCaseError::fail("the connection stays open")),
        }
    });
    if let Err(failed) = outcome {
        panic!("{failed}\n{}", tributary.log_tail(20));
    }
    run(async {
        let raw = Raw::connect(tributary.address()).await?;
        tributary.until_ready().await?;
        still_serves(&tributary, &raw).await
    });
}

#[test]
fn many_clients_of_one_connection_may_leave_at_once() {
    run(async {
        let (_manifests, tributary) = shop().await?;
        let raw = Raw::connect(tributary.address()).await?;
        let name = authority("shop", "web");
        for _ in 0..20 {
            for _ in 0..500 {
                raw.ask_and_leave(GET, question(&name, "")).await?;
            }
            let patient = raw.ask(GET, question(&name, "")).await?;
            assert!(matches!(patient, Answer::Began(_)), "{patient:?}");
        }
        let open = "tributary_destination_get_streams_open";
        tributary.until_metric(open, 0.0).await?;
        still_serves(&tributary, &raw).await
    });
}
