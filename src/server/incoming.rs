//! Connections as they come in, and no more of them than there are file descriptors to spare.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, info, warn};

/// Pause after an error of the listener, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the gRPC listener counts.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    accept_errors: Counter,
}

/// Lets the process have as many open files as it may have; each connection is one.
pub fn raise_open_files() {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(open_files) => info!(open_files, "limit of open files raised as far as it goes"),
        Err(error) => info!(%error, "limit of open files left as it is"),
    }
}

/// The connections that `listener` accepts, for ever.
pub(super) fn incoming(
    listener: TcpListener,
    metrics: Metrics,
) -> impl Stream<Item = io::Result<TcpStream>> {
    let state = (Arc::new(listener), metrics);
    futures::stream::unfold(state, |(listener, metrics)| async move {
        let stream = accepted(|| listener.accept(), &metrics).await;
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "TCP_NODELAY not set");
        }
        Some((Ok(stream), (listener, metrics)))
    })
}

/// The next connection, however often it takes.
async fn accepted<F>(accept: impl Fn() -> F, metrics: &Metrics) -> TcpStream
where
    F: Future<Output = io::Result<(TcpStream, SocketAddr)>>,
{
    loop {
        match accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                metrics.accept_errors.inc();
                let client_left = matches!(
                    error.kind(),
                    ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
                );
                if client_left {
                    debug!(%error, "gRPC connection not accepted");
                } else {
                    warn!(%error, "gRPC connection not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

// === impl Metrics ===

impl Metrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "accept_errors",
            "Times that a gRPC connection could not be accepted",
            metrics.accept_errors.clone(),
        );
        metrics
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn errors_of_the_listener_are_counted_and_survived() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let metrics = Metrics::default();
        let asked = AtomicU32::new(0);
        let accept = || async {
            match asked.fetch_add(1, Ordering::Relaxed) {
                0 => Err(io::Error::other("too many open files")),
                1 => Err(ErrorKind::ConnectionAborted.into()),
                _ => listener.accept().await,
            }
        };
        let stream = accepted(accept, &metrics).await;
        assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
        assert_eq!(metrics.accept_errors.get(), 2);
    }
}
