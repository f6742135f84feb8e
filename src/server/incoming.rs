//! Connections as they come in, and no more of them than there are file descriptors to spare.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use prometheus_client::metrics::counter::Counter;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, info, warn};

/// Pause after an error of the listener, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes that the kernel keeps for a client before any of them can be sent; what is there cannot be taken back.
#[cfg(target_os = "linux")]
const UNSENT_MAX: u32 = 32 * 1024;

/// Lets the process have as many open files as it may have; each connection is one.
pub fn raise_open_files() {
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(open_files) => info!(open_files, "limit of open files raised as far as it goes"),
        Err(error) => info!(%error, "limit of open files left as it is"),
    }
}

/// The connections that `listener` accepts, for ever; each keeps its permit for as long as it is open.
pub(super) fn incoming(
    listener: TcpListener,
    accept_errors: Counter,
) -> impl Stream<Item = (TcpStream, OwnedSemaphorePermit)> {
    let max = connections_max();
    let incoming = Incoming {
        listener,
        accept_errors,
        max,
        permits: Arc::new(Semaphore::new(max)),
        full: false,
    };
    futures::stream::unfold(incoming, |mut incoming| async {
        let permit = incoming.permit().await?;
        let stream = accepted(|| incoming.listener.accept(), &incoming.accept_errors).await;
        if let Err(error) = prepare(&stream) {
            debug!(%error, "options of a gRPC connection not set");
        }
        Some(((stream, permit), incoming))
    })
}

struct Incoming {
    listener: TcpListener,
    accept_errors: Counter,
    max: usize,
    permits: Arc<Semaphore>,
    /// Whether it has been said that there are as many connections as there may be.
    full: bool,
}

/// Sends what is written at once, and keeps what cannot be sent yet where it can still be replaced by something newer.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_MAX)?;
    Ok(())
}

/// How many connections leave a quarter of the files to everything else: sources, and the admin listener.
fn connections_max() -> usize {
    let files = rlimit::Resource::NOFILE.get_soft().unwrap_or(u64::MAX);
    usize::try_from(files - files / 4)
        .unwrap_or(usize::MAX)
        .min(Semaphore::MAX_PERMITS)
}

/// The next connection, however often it takes.
async fn accepted<F>(accept: impl Fn() -> F, errors: &Counter) -> TcpStream
where
    F: Future<Output = io::Result<(TcpStream, SocketAddr)>>,
{
    loop {
        match accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                errors.inc();
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

// === impl Incoming ===

impl Incoming {
    /// Waits until there may be one more connection.
    async fn permit(&mut self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            // Not for every connection that comes and goes at the limit.
            if self.permits.available_permits() > self.max / 10 {
                self.full = false;
            }
            return Some(permit);
        }
        if !std::mem::replace(&mut self.full, true) {
            warn!("as many gRPC connections as the limit of open files allows, others wait");
        }
        // Nobody closes the semaphore.
        Arc::clone(&self.permits).acquire_owned().await.ok()
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
        let errors = Counter::default();
        let asked = AtomicU32::new(0);
        let accept = || async {
            match asked.fetch_add(1, Ordering::Relaxed) {
                0 => Err(io::Error::other("too many open files")),
                1 => Err(ErrorKind::ConnectionAborted.into()),
                _ => listener.accept().await,
            }
        };
        let stream = accepted(accept, &errors).await;
        assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
        assert_eq!(errors.get(), 2);
    }
}
