//! A bad network: a TCP proxy between the product and an API server, with faults on demand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::peers::free_port;

/// What [`FaultProxy::slow_down`] adds to every chunk.
const DELAY: Duration = Duration::from_millis(500);

/// A proxy in front of one address. It works until told otherwise.
pub struct FaultProxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    listening: watch::Receiver<bool>,
    // Ends the proxy with this value.
    _tasks: JoinSet<()>,
}

/// What the proxy does to connections, at one moment.
#[derive(Clone, Debug)]
struct Weather {
    target: SocketAddr,
    fault: Fault,
    /// Connections of an earlier epoch are cut.
    epoch: u64,
    /// Connections from before the last of so many strandings carry nothing.
    strandings: u64,
}

#[derive(Clone, Debug)]
enum Fault {
    None,
    Refuse,
    Silence,
    Slowness,
    CutAfter { bytes: usize, times: Arc<AtomicU32> },
}

/// Which way bytes go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Request,
    Response,
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Cut,
}

// === impl FaultProxy ===

impl FaultProxy {
    /// Starts a proxy in front of `target`.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let (weather, forecast) = watch::channel(Weather {
            target,
            fault: Fault::None,
            epoch: 0,
            strandings: 0,
        });
        let (listens, listening) = watch::channel(false);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(address, forecast, listens));
        let proxy = Self {
            address,
            weather,
            listening,
            _tasks: tasks,
        };
        proxy.until_listening(true).await;
        Ok(proxy)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads new connections to another address, as after a move of the API server.
    pub fn redirect(&self, target: SocketAddr) {
        self.weather.send_modify(|weather| weather.target = target);
    }

    /// Resets every connection that is open. New ones are served.
    pub fn cut(&self) {
        self.weather.send_modify(|weather| weather.epoch += 1);
    }

    /// Forgets every connection that is open: it carries nothing ever again, and nobody is told. New ones are served.
    ///
    /// This is what a firewall does that has lost its table.
    pub fn strand(&self) {
        self.weather.send_modify(|weather| weather.strandings += 1);
    }

    /// Refuses new connections; those that are open go on, unless they are [`FaultProxy::cut`].
    pub async fn refuse(&self) {
        self.set(Fault::Refuse);
        self.until_listening(false).await;
    }

    /// Forwards nothing any more, on old and new connections alike, and closes none.
    pub fn silence(&self) {
        self.set(Fault::Silence);
    }

    /// Holds every chunk up by half a second.
    pub fn slow_down(&self) {
        self.set(Fault::Slowness);
    }

    /// Resets a connection when it has carried `bytes` of responses from now on, `times` in all; then all is well.
    pub fn cut_after(&self, bytes: usize, times: u32) {
        let times = Arc::new(AtomicU32::new(times));
        self.set(Fault::CutAfter { bytes, times });
    }

    /// Ends whatever fault there is. What a silence has held back is delivered.
    pub async fn heal(&self) {
        self.set(Fault::None);
        self.until_listening(true).await;
    }

    fn set(&self, fault: Fault) {
        self.weather.send_modify(|weather| weather.fault = fault);
    }

    async fn until_listening(&self, wanted: bool) {
        let mut listening = self.listening.clone();
        listening
            .wait_for(|listens| *listens == wanted)
            .await
            .expect("the proxy runs as long as its handle");
    }
}

async fn accept(
    address: SocketAddr,
    mut weather: watch::Receiver<Weather>,
    listens: watch::Sender<bool>,
) {
    let mut connections = JoinSet::new();
    let for_connections = weather.clone();
    loop {
        let refusing = |weather: &Weather| matches!(weather.fault, Fault::Refuse);
        if weather.wait_for(|now| !refusing(now)).await.is_err() {
            return;
        }
        let listener = TcpListener::bind(address)
            .await
            .expect("a port that was ours can be had again");
        listens.send_replace(true);
        loop {
            tokio::select! {
                accepted = listener.accept() => if let Ok((client, _)) = accepted {
                    connections.spawn(serve(client, for_connections.clone()));
                },
                changed = weather.wait_for(refusing) => match changed {
                    Ok(_) => break,
                    Err(_) => return,
                },
                Some(_) = connections.join_next() => {}
            }
        }
        drop(listener);
        listens.send_replace(false);
    }
}

async fn serve(mut client: TcpStream, mut weather: watch::Receiver<Weather>) {
    let Weather {
        target,
        epoch,
        strandings,
        ..
    } = weather.borrow().clone();
    // A target that is not there looks to the client like a connection that breaks at once.
    let Ok(mut server) = TcpStream::connect(target).await else {
        client.set_zero_linger().ok();
        return;
    };
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let end = {
        let (client_read, client_write) = client.split();
        let (server_read, server_write) = server.split();
        let pump = |from, to, way| pump(from, to, way, strandings, weather.clone());
        let requests = pump(client_read, server_write, Way::Request);
        let responses = pump(server_read, client_write, Way::Response);
        tokio::select! {
            end = both(requests, responses) => end,
            _ = weather.wait_for(|now| now.epoch != epoch) => End::Cut,
        }
    };
    if end == End::Cut {
        // With no time to linger, closing a socket resets its connection.
        client.set_zero_linger().ok();
        server.set_zero_linger().ok();
    }
}

/// Until both directions are closed, or one is cut.
async fn both(one: impl Future<Output = End>, other: impl Future<Output = End>) -> End {
    tokio::pin!(one, other);
    let first = tokio::select! {
        end = &mut one => (end, true),
        end = &mut other => (end, false),
    };
    match first {
        (End::Cut, _) => End::Cut,
        (End::Closed, true) => other.await,
        (End::Closed, false) => one.await,
    }
}

async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    way: Way,
    strandings: u64,
    mut weather: watch::Receiver<Weather>,
) -> End {
    let mut chunk = vec![0; 16 * 1024];
    let mut carried = 0;
    loop {
        let length = match from.read(&mut chunk).await {
            Ok(0) => {
                to.shutdown().await.ok();
                return End::Closed;
            }
            Ok(length) => length,
            Err(_) => return End::Cut,
        };
        let silent =
            |now: &Weather| matches!(now.fault, Fault::Silence) || now.strandings != strandings;
        let Ok(fault) = weather
            .wait_for(|now| !silent(now))
            .await
            .map(|now| now.fault.clone())
        else {
            return End::Cut;
        };
        match fault {
            Fault::Slowness => tokio::time::sleep(DELAY).await,
            Fault::CutAfter { bytes, times } if way == Way::Response => {
                carried += length;
                if carried > bytes && use_one(&times) {
                    return End::Cut;
                }
            }
            _ => carried = 0,
        }
        if to.write_all(&chunk[..length]).await.is_err() {
            return End::Cut;
        }
    }
}

/// Takes one of what is left, if anything is.
fn use_one(times: &AtomicU32) -> bool {
    times
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        })
        .is_ok()
}
