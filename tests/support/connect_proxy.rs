//! A forward proxy, as companies have them: `CONNECT host:port`, then bytes both ways.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What a request's head may have at most.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// A running proxy. It ends with this value.
pub struct ConnectProxy {
    address: SocketAddr,
    tunnels: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

// === impl ConnectProxy ===

impl ConnectProxy {
    /// Starts a proxy that wants this `Proxy-Authorization`, if one is given.
    pub async fn start(authorization: Option<&'static str>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let tunnels = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, authorization, tunnels.clone()));
        Ok(Self {
            address,
            tunnels,
            _tasks: tasks,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections it has led on.
    pub fn tunnels(&self) -> usize {
        self.tunnels.load(Ordering::Relaxed)
    }
}

async fn accept(
    listener: TcpListener,
    authorization: Option<&'static str>,
    tunnels: Arc<AtomicUsize>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                let tunnels = tunnels.clone();
                // A client that goes away is its own business.
                connections.spawn(async move { serve(client, authorization, &tunnels).await.ok(); });
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(
    mut client: TcpStream,
    authorization: Option<&str>,
    tunnels: &AtomicUsize,
) -> Result<()> {
    let head = read_head(&mut client).await?;
    let target = head
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split_whitespace().next())
        .context("not a CONNECT")?;
    let is_allowed = authorization.is_none_or(|wanted| {
        head.lines().any(|line| {
            line.split_once(": ").is_some_and(|(name, value)| {
                name.eq_ignore_ascii_case("proxy-authorization") && value == wanted
            })
        })
    });
    if !is_allowed {
        let refusal = b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
        return Ok(client.write_all(refusal).await?);
    }
    let mut server = TcpStream::connect(target).await?;
    tunnels.fetch_add(1, Ordering::Relaxed);
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// Everything up to the empty line; a client says nothing more before it is answered.
async fn read_head(client: &mut TcpStream) -> Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < HEAD_BYTES_MAX, "a head without an end");
        let read = client.read_buf(&mut head).await?;
        ensure!(read > 0, "closed before it had asked");
    }
    Ok(String::from_utf8(head)?)
}
