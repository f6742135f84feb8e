//! A real client, of the same make as most, on the other end of a pipe.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use h2::RecvStream;
use h2::client::SendRequest;
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::wrappers::WatchStream;
use tonic::server::NamedService;
use tonic::transport::server::TcpConnectInfo;

use super::*;
use crate::server::calls::Calls;
use crate::server::requests::Requests;
use crate::server::routes::Routes;
use crate::server::services::{Offer, Services};

/// Of servers that are to run out of it.
const SHORT: Duration = Duration::from_millis(100);
/// Longer than a test may take.
const LONG: Duration = Duration::from_hours(1);
const SMALL: Bytes = Bytes::from_static(b"hello");

/// Answers every request with what is published, and with what is published then, for ever.
#[derive(Clone)]
struct News(watch::Sender<Bytes>);

struct Bed {
    news: watch::Sender<Bytes>,
    client: SendRequest<Bytes>,
    shutdown: CancellationToken,
    metrics: Metrics,
    /// The connection, and what drives the client.
    server: JoinSet<()>,
    driver: JoinSet<()>,
}

impl NamedService for News {
    const NAME: &'static str = "news";
}

impl tower::Service<http::Request<tonic::body::Body>> for News {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<tonic::body::Body>) -> Self::Future {
        let news = WatchStream::new(self.0.subscribe());
        let body = StreamBody::new(news.map(|bytes| Ok::<_, tonic::Status>(Frame::data(bytes))));
        std::future::ready(Ok(http::Response::new(tonic::body::Body::new(body))))
    }
}

// === impl Bed ===

impl Bed {
    /// `pipe` bytes fit between server and client, and `window` bytes on each stream of the client.
    async fn new(pipe: usize, window: u32, patience: Duration) -> Self {
        let (socket, end) = tokio::io::duplex(pipe);
        let (news, shutdown) = (watch::Sender::new(SMALL), CancellationToken::new());
        let metrics = metrics();
        let mut server = JoinSet::new();
        server.spawn(connection(socket, &news, &shutdown, patience, &metrics));
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(window);
        builder.initial_connection_window_size(1 << 20);
        let (client, protocol) = builder.handshake(end).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // How it ends shows in the requests.
            protocol.await.ok();
        });
        Self {
            news,
            client,
            shutdown,
            metrics,
            server,
            driver,
        }
    }

    async fn begin(&self) -> RecvStream {
        let mut client = self.client.clone().ready().await.unwrap();
        let request = http::Request::post("http://tributary/news/latest")
            .body(())
            .unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        response.await.unwrap().into_body()
    }

    fn cut(&self) -> u64 {
        self.metrics.stalled.get()
    }

    /// Waits until as many streams are open.
    async fn until_open(&self, streams: usize) {
        while self.news.receiver_count() != streams {
            tokio::task::yield_now().await;
        }
    }
}

fn metrics() -> Metrics {
    Metrics {
        stalled: Counter::default(),
        lag_seconds: Histogram::new([1.0]),
    }
}

fn connection(
    socket: DuplexStream,
    news: &watch::Sender<Bytes>,
    shutdown: &CancellationToken,
    patience: Duration,
    metrics: &Metrics,
) -> impl Future<Output = ()> + use<> {
    let offer = Arc::new(Offer {
        routes: Routes::default().serving(News(news.clone())),
        beside: Routes::default(),
        calls: Calls::default(),
        requests: Requests::default(),
    });
    Connection::new(
        socket,
        |io, births| {
            let client = TcpConnectInfo {
                local_addr: None,
                remote_addr: None,
            };
            let services = Services::new(offer, client, births.clone(), CancellationToken::new());
            crate::server::http2(births).serve_connection(io, services)
        },
        shutdown.clone(),
        patience,
        metrics.clone(),
    )
}

/// Reads this many bytes, and makes room for more each time.
async fn read(stream: &mut RecvStream, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        let bytes = stream.data().await.unwrap().unwrap();
        stream.flow_control().release_capacity(bytes.len()).unwrap();
        all.extend_from_slice(&bytes);
    }
    all
}

#[tokio::test]
async fn every_stream_is_told_the_news() {
    let bed = Bed::new(4096, 65_535, LONG).await;
    let mut streams = Vec::new();
    for _ in 0..1000 {
        streams.push(bed.begin().await);
    }
    for stream in &mut streams {
        assert_eq!(read(stream, SMALL.len()).await, SMALL);
    }
    let news = Bytes::from(vec![b'n'; 300]);
    bed.news.send_replace(news.clone());
    for stream in &mut streams {
        assert_eq!(read(stream, news.len()).await, news);
    }
}

#[tokio::test]
async fn a_pipe_of_one_byte_is_enough() {
    let bed = Bed::new(1, 65_535, LONG).await;
    let mut streams = [bed.begin().await, bed.begin().await];
    let news = Bytes::from(vec![b'n'; 20_000]);
    for stream in &mut streams {
        assert_eq!(read(stream, SMALL.len()).await, SMALL);
    }
    bed.news.send_replace(news.clone());
    for stream in &mut streams {
        assert_eq!(read(stream, news.len()).await, news);
    }
}

#[tokio::test]
async fn what_is_larger_than_any_window_arrives() {
    let bed = Bed::new(1000, 10, LONG).await;
    let news = Bytes::from(vec![b'n'; 200_000]);
    bed.news.send_replace(news.clone());
    let mut streams = [bed.begin().await, bed.begin().await];
    let [one, two] = &mut streams;
    let (one, two) = tokio::join!(read(one, news.len()), read(two, news.len()));
    assert!(one == news && two == news);
}

#[tokio::test]
async fn a_stream_that_is_reset_is_let_go_of_and_its_neighbours_are_not() {
    let bed = Bed::new(4096, 65_535, LONG).await;
    let (mut stays, leaves) = (bed.begin().await, bed.begin().await);
    bed.until_open(2).await;
    drop(leaves);
    bed.until_open(1).await;
    assert_eq!(read(&mut stays, SMALL.len()).await, SMALL);
    bed.news.send_replace(SMALL);
    assert_eq!(read(&mut stays, SMALL.len()).await, SMALL);
}

#[tokio::test]
async fn a_client_that_vanishes_ends_the_connection_and_its_streams() {
    let mut bed = Bed::new(4096, 65_535, LONG).await;
    let _stream = bed.begin().await;
    bed.driver.abort_all();
    bed.server.join_next().await.unwrap().unwrap();
    assert_eq!(bed.news.receiver_count(), 0);
}

#[tokio::test]
async fn on_leave_streams_end_first_and_no_more_begin() {
    let mut bed = Bed::new(4096, 65_535, LONG).await;
    let mut stream = bed.begin().await;
    assert_eq!(read(&mut stream, SMALL.len()).await, SMALL);
    bed.shutdown.cancel();
    // The client has been told when it does not want to send any more.
    while bed.client.clone().ready().await.is_ok() {
        tokio::task::yield_now().await;
    }
    bed.news.send_replace(SMALL);
    assert_eq!(read(&mut stream, SMALL.len()).await, SMALL);
    drop(stream);
    bed.server.join_next().await.unwrap().unwrap();
    assert_eq!(bed.cut(), 0);
}

#[tokio::test]
async fn a_stream_without_room_is_cut_and_its_neighbours_are_not() {
    let bed = Bed::new(4096, 3, SHORT).await;
    let (mut reads, mut stuck) = (bed.begin().await, bed.begin().await);
    assert_eq!(read(&mut reads, SMALL.len()).await, SMALL);
    // The first message is on its way for good. The second one waits for room.
    bed.news.send_replace(SMALL);
    assert_eq!(read(&mut reads, SMALL.len()).await, SMALL);
    bed.until_open(1).await;
    assert_eq!(bed.cut(), 1);
    let error = loop {
        match stuck.data().await.unwrap() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.reason(), Some(h2::Reason::CANCEL));
    bed.news.send_replace(SMALL);
    assert_eq!(read(&mut reads, SMALL.len()).await, SMALL);
}

#[tokio::test]
async fn a_connection_that_nobody_reads_is_cut() {
    let (socket, mut end) = tokio::io::duplex(64);
    let (news, shutdown) = (watch::Sender::new(SMALL), CancellationToken::new());
    let metrics = metrics();
    let connection = connection(socket, &news, &shutdown, SHORT, &metrics);
    // Wants answers, and never looks at them.
    let client = async {
        let settings = b"\0\0\0\x04\0\0\0\0\0";
        let ping = b"\0\0\x08\x06\0\0\0\0\0pingpong";
        end.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
        end.write_all(settings).await?;
        loop {
            end.write_all(ping).await?;
        }
    };
    let client: std::io::Result<()> = tokio::select! {
        () = connection => Ok(()),
        client = client => client,
    };
    assert!(client.is_ok(), "{client:?}");
    assert_eq!(metrics.stalled.get(), 1);
}
