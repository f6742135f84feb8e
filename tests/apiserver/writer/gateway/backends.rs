//! Servers behind the endpoints: each answers with its own address.

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::peers::free_port;
use crate::support::runtime;

/// HTTP servers on addresses of the loopback interface, all at one port. They end with this value.
pub(super) struct Backends {
    /// The port.
    pub(super) port: u16,
    _servers: JoinSet<()>,
}

// === impl Backends ===

impl Backends {
    /// Starts a server at each address.
    pub(super) async fn start(addresses: &[&str]) -> Result<Self> {
        let port = free_port()?;
        let mut servers = JoinSet::new();
        for address in addresses {
            let listener = TcpListener::bind((*address, port)).await?;
            servers.spawn_on(serve(listener, (*address).to_owned()), runtime().handle());
        }
        Ok(Self {
            port,
            _servers: servers,
        })
    }
}

async fn serve(listener: TcpListener, name: String) {
    let mut connections = JoinSet::new();
    while let Ok((connection, _)) = listener.accept().await {
        connections.spawn(answer(connection, name.clone()));
    }
}

/// Answers one request after another until the client is gone.
async fn answer(mut connection: TcpStream, name: String) {
    let mut seen = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match connection.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => seen.extend_from_slice(&buffer[..count]),
        }
        while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            seen.drain(..end + 4);
            let length = name.len();
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{name}");
            if connection.write_all(text.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}
