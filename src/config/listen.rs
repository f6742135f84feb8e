//! Addresses to listen on.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

/// Where a listener is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// This port on every interface, by IPv6 and IPv4.
    EveryInterface(u16),
    /// This address only.
    Address(SocketAddr),
}

// === impl ListenAddr ===

impl ListenAddr {
    /// Reads `:PORT`, `IP:PORT`, `[IPV6]:PORT` or `localhost:PORT`; nothing at all means no listener.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let address = match text.rsplit_once(':') {
            Some(("", port)) => port.parse().ok().map(Self::EveryInterface),
            Some(("localhost", port)) => port
                .parse()
                .ok()
                .map(|port| Self::Address(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))),
            _ => text.parse().ok().map(Self::Address),
        };
        address.map(Some).ok_or_else(|| {
            "expected :PORT for every interface, or IP:PORT, such as :8086 or 127.0.0.1:8086"
                .to_owned()
        })
    }

    /// Opens the listener.
    ///
    /// Every interface means IPv4 only on a machine that has no IPv6.
    pub async fn bind(self) -> io::Result<TcpListener> {
        match self {
            Self::Address(address) => TcpListener::bind(address).await,
            Self::EveryInterface(port) => {
                match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
                    Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                        TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await
                    }
                    bound => bound,
                }
            }
        }
    }

    /// An address at which a client on this machine reaches the listener.
    pub fn local(self) -> SocketAddr {
        match self {
            Self::EveryInterface(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            Self::Address(address) if address.ip().is_unspecified() => {
                let loopback = match address.ip() {
                    IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                    IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
                };
                SocketAddr::new(loopback, address.port())
            }
            Self::Address(address) => address,
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EveryInterface(port) => write!(f, ":{port}"),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let got = match ListenAddr::parse(text) {
            Ok(None) => "off".to_owned(),
            Ok(Some(address)) => format!("{address} reached at {}", address.local()),
            Err(_) => "error".to_owned(),
        };
        assert_eq!(got, expected, "{text:?}");
    }

    #[test]
    fn a_port_alone_means_every_interface() {
        check(":8086", ":8086 reached at 127.0.0.1:8086");
        check(":0", ":0 reached at 127.0.0.1:0");
        check("10.0.0.1:8086", "10.0.0.1:8086 reached at 10.0.0.1:8086");
        check("0.0.0.0:8086", "0.0.0.0:8086 reached at 127.0.0.1:8086");
        check("[::]:8086", "[::]:8086 reached at [::1]:8086");
        check("localhost:8086", "127.0.0.1:8086 reached at 127.0.0.1:8086");
        check("", "off");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "8086", ":", ":http", ":65536", "::1:8086", "web:8086", "10.0.0.1",
        ] {
            check(text, "error");
        }
    }

    #[tokio::test]
    async fn every_interface_answers_on_ipv4() {
        let listener = ListenAddr::EveryInterface(0).bind().await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap();
    }
}
