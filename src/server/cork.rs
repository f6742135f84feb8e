//! Writes of one connection, collected until the connection has nothing more to say for now.
//!
//! HTTP/2 makes one system call for each DATA frame of more than a few bytes, and a call costs more than the frame. So what
//! is written is appended to a buffer, a flush does nothing, and whoever runs the connection drains the buffer at the end of
//! each turn. The buffer is there only while there is something in it. At its limit, writing waits for the socket.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Bytes that may wait for the socket before writing waits too.
const BUFFER_MAX: usize = 64 * 1024;
/// Writes of this size and more are not worth a copy.
const THROUGH_MIN: usize = 8 * 1024;

/// The two ends of a socket whose writes are collected: clones share it, one for the protocol and one for whoever drains.
#[derive(Debug)]
pub(super) struct Corked<T>(Arc<Mutex<Inner<T>>>);

#[derive(Debug)]
struct Inner<T> {
    socket: T,
    /// What has not been written to the socket, after what has.
    buffer: Vec<u8>,
    written: usize,
    /// Since when the socket has taken nothing, although there is something.
    blocked_since: Option<Instant>,
}

// === impl Corked ===

impl<T> Corked<T> {
    /// Collects what is written to `socket`.
    pub(super) fn new(socket: T) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            socket,
            buffer: Vec::new(),
            written: 0,
            blocked_since: None,
        })))
    }

    /// Since when the socket has taken nothing, although there is something to write.
    pub(super) fn blocked_since(&self) -> Option<Instant> {
        self.0.lock().blocked_since
    }
}

impl<T: AsyncWrite + Unpin> Corked<T> {
    /// Hands to the socket what was written, and has it sent. Pending if the socket is full, and woken when it takes more.
    pub(super) fn poll_drain(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().poll_drain(context)
    }
}

impl<T> Clone for Corked<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Corked<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().socket).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Corked<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_write(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_write(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: see [`Corked::poll_drain`].
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        ready!(inner.poll_drain(context))?;
        Pin::new(&mut inner.socket).poll_shutdown(context)
    }
}

// === impl Inner ===

impl<T: AsyncWrite + Unpin> Inner<T> {
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.waiting() + len > BUFFER_MAX || len >= THROUGH_MIN {
            match self.poll_drain(context) {
                Poll::Ready(result) => result?,
                Poll::Pending if self.waiting() >= BUFFER_MAX => return Poll::Pending,
                Poll::Pending => {}
            }
        }
        if len >= THROUGH_MIN && self.waiting() == 0 {
            let socket = Pin::new(&mut self.socket);
            match socket.poll_write_vectored(context, slices) {
                Poll::Ready(written) => return Poll::Ready(written),
                // The buffer has room for it.
                Poll::Pending => {}
            }
        }
        Poll::Ready(Ok(self.append(slices)))
    }

    /// Takes as much as there is room for, which is something.
    fn append(&mut self, slices: &[IoSlice<'_>]) -> usize {
        let before = self.waiting();
        for slice in slices {
            let room = BUFFER_MAX.saturating_sub(self.waiting());
            self.buffer
                .extend_from_slice(&slice[..room.min(slice.len())]);
        }
        self.waiting() - before
    }

    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.waiting() > 0 {
            let waiting = &self.buffer[self.written..];
            match Pin::new(&mut self.socket).poll_write(context, waiting) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(len)) => {
                    self.written += len;
                    self.blocked_since = None;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.blocked_since.get_or_insert_with(Instant::now);
                    self.compact();
                    return Poll::Pending;
                }
            }
        }
        self.buffer = Vec::new();
        self.written = 0;
        self.poll_send(context)
    }

    /// Has the socket send what it was given: TLS keeps records of its own.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.socket).poll_flush(context);
        if sent.is_pending() {
            self.blocked_since.get_or_insert_with(Instant::now);
        } else {
            self.blocked_since = None;
        }
        sent
    }

    fn waiting(&self) -> usize {
        self.buffer.len() - self.written
    }

    /// Gives up the room of what has been written.
    fn compact(&mut self) {
        if self.written >= self.buffer.len() / 2 {
            self.buffer.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests;
