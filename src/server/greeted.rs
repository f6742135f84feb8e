//! A connection whose client has to speak HTTP/2 soon, or is not listened to any more.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// What every HTTP/2 client begins with, `PRI * HTTP/2.0` and so on, has this many bytes.
const GREETING_LEN: usize = 24;

/// Reads fail once the client's greeting is overdue. After it, keep-alive tells whether anybody is there.
#[derive(Debug)]
pub(super) struct Greeted<S, P> {
    stream: S,
    waiting: Option<Waiting>,
    /// Let go of with the connection.
    _permit: P,
}

#[derive(Debug)]
struct Waiting {
    bytes: usize,
    deadline: Pin<Box<Sleep>>,
}

// === impl Greeted ===

impl<S, P> Greeted<S, P> {
    /// The client has this long for its greeting.
    pub(super) fn new(stream: S, patience: Duration, permit: P) -> Self {
        Self {
            stream,
            waiting: Some(Waiting {
                bytes: GREETING_LEN,
                deadline: Box::pin(tokio::time::sleep(patience)),
            }),
            _permit: permit,
        }
    }
}

impl<S: AsyncRead + Unpin, P: Unpin> AsyncRead for Greeted<S, P> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(context, buffer);
        let Some(waiting) = &mut this.waiting else {
            return read;
        };
        if read.is_pending() {
            ready!(waiting.deadline.as_mut().poll(context));
            return Poll::Ready(Err(ErrorKind::TimedOut.into()));
        }
        waiting.bytes = waiting.bytes.saturating_sub(buffer.filled().len() - before);
        if waiting.bytes == 0 {
            this.waiting = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin, P: Unpin> AsyncWrite for Greeted<S, P> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn pair(patience: Duration) -> (Greeted<TcpStream, ()>, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        (Greeted::new(stream, patience, ()), client)
    }

    #[tokio::test]
    async fn who_says_nothing_or_too_little_is_given_up() {
        for said in [&b""[..], b"PRI * HTTP/2.0"] {
            let (mut server, mut client) = pair(Duration::from_millis(50)).await;
            client.write_all(said).await.unwrap();
            let mut heard = Vec::new();
            let error = server.read_to_end(&mut heard).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert_eq!(heard, said);
        }
    }

    #[tokio::test]
    async fn who_has_greeted_may_be_silent() {
        let patience = Duration::from_millis(50);
        let (mut server, mut client) = pair(patience).await;
        // What is there is read, even if the deadline has passed.
        client.write_all(&[b'x'; GREETING_LEN]).await.unwrap();
        server.stream.readable().await.unwrap();
        let mut greeting = [0; GREETING_LEN];
        server.read_exact(&mut greeting).await.unwrap();
        let silence = tokio::time::timeout(2 * patience, server.read(&mut [0])).await;
        assert!(silence.is_err(), "{silence:?}");
    }
}
