//! The smallest HTTP client: one request to a server on this machine, the whole answer as text.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A server's answer.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// What follows the headers.
    pub body: String,
}

/// Asks for `path`.
pub async fn get(server: SocketAddr, path: &str) -> Result<Response> {
    exchange(
        server,
        &format!("GET {path} HTTP/1.0\r\nHost: {server}\r\n\r\n"),
    )
    .await
}

/// Posts a JSON text to `path`.
pub async fn post(server: SocketAddr, path: &str, json: &str) -> Result<Response> {
    let length = json.len();
    exchange(
        server,
        &format!(
            "POST {path} HTTP/1.0\r\nHost: {server}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{json}"
        ),
    )
    .await
}

/// HTTP/1.0: the server ends its answer by closing the connection, so there is nothing to parse.
async fn exchange(server: SocketAddr, request: &str) -> Result<Response> {
    let mut connection = TcpStream::connect(server).await?;
    connection.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).await?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .with_context(|| format!("{server} did not answer in HTTP: {text:?}"))?;
    let status = head
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok())
        .with_context(|| format!("{server} sent no status: {head:?}"))?;
    Ok(Response {
        status,
        body: body.to_owned(),
    })
}
