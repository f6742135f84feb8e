//! One connection as one task: its streams, then the protocol, then what both have written.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tracing::debug;

use super::cork::Corked;
use super::streams::{Births, Streams};

/// Streams that run before the protocol does.
const STREAMS_PER_TURN: usize = 256;
/// Turns before other connections have theirs.
const TURNS_MAX: usize = 8;

/// The HTTP/2 side of a connection: hyper's, but for tests.
pub(super) trait Protocol: Future<Output = hyper::Result<()>> {
    /// Tells the client that it may open no more streams, and ends when those that are open have.
    fn leave(self: Pin<&mut Self>);
}

/// A connection; ends when it does.
pub(super) struct Connection<P, T> {
    protocol: Pin<Box<P>>,
    socket: Corked<T>,
    streams: Streams,
    /// Of the protocol.
    waker: Waker,
    shutdown: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    patience: Patience,
    metrics: Metrics,
}

/// What is counted of connections.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    /// Streams and connections that were cut because their clients did not read.
    pub(super) stalled: Counter,
    /// From learning of something to giving it to the kernel.
    pub(super) lag_seconds: Histogram,
}

/// How long clients may take to make room.
struct Patience {
    longest: Duration,
    /// There while somebody is waited for.
    alarm: Option<Pin<Box<Sleep>>>,
}

// === impl Connection ===

impl<P: Protocol, T: AsyncRead + AsyncWrite + Unpin> Connection<P, T> {
    /// The connection on a socket whose protocol `protocol` makes, given the other end and a way to begin streams.
    ///
    /// When `shutdown` is cancelled, it takes leave. Streams whose clients make no room for `patience` are cut, and so
    /// is the connection when the socket takes nothing for as long.
    pub(super) fn new(
        socket: T,
        protocol: impl FnOnce(TokioIo<Corked<T>>, Births) -> P,
        shutdown: CancellationToken,
        patience: Duration,
        metrics: Metrics,
    ) -> Self {
        let socket = Corked::new(socket);
        let births = Births::default();
        let streams = Streams::new(births.clone());
        let waker = streams.alarms().connection_waker();
        waker.wake_by_ref();
        Self {
            protocol: Box::pin(protocol(TokioIo::new(socket.clone()), births)),
            socket,
            streams,
            waker,
            shutdown: Some(Box::pin(shutdown.cancelled_owned())),
            patience: Patience {
                longest: patience,
                alarm: None,
            },
            metrics,
        }
    }

    /// Runs what is ready; whether there may be more.
    fn turn(&mut self) -> Poll<hyper::Result<()>> {
        self.streams.run_ready(STREAMS_PER_TURN);
        if !self.streams.alarms().take_connection() {
            return Poll::Pending;
        }
        let mut context = Context::from_waker(&self.waker);
        self.protocol.as_mut().poll(&mut context)
    }

    fn drain(&self) -> Poll<io::Result<()>> {
        // The protocol may wait for room in the buffer, and a socket remembers only who asked last.
        let mut context = Context::from_waker(&self.waker);
        self.socket.poll_drain(&mut context)
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) {
        let asked = self
            .shutdown
            .as_mut()
            .is_some_and(|shutdown| shutdown.as_mut().poll(context).is_ready());
        if asked {
            self.shutdown = None;
            self.protocol.as_mut().leave();
            self.waker.wake_by_ref();
        }
    }

    /// Cuts who has been waited for too long; ready if that is the connection.
    fn poll_patience(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let waiting = [self.streams.waiting_since(), self.socket.blocked_since()];
            let Some(since) = waiting.into_iter().flatten().min() else {
                self.patience.alarm = None;
                return Poll::Pending;
            };
            // Too long to be added means never.
            let Some(until) = since.checked_add(self.patience.longest) else {
                return Poll::Pending;
            };
            let alarm = self
                .patience
                .alarm
                .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            if alarm.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            // Set for somebody who may have made room since: nobody else has waited longer.
            let due = alarm.deadline() - self.patience.longest;
            self.patience.alarm = None;
            let cut = self.streams.cut_waiting(due);
            self.metrics.stalled.inc_by(cut);
            if self
                .socket
                .blocked_since()
                .is_some_and(|since| since <= due)
            {
                self.metrics.stalled.inc();
                debug!("gRPC connection cut, its client reads nothing");
                return Poll::Ready(());
            }
        }
    }
}

impl<P: Protocol, T: AsyncRead + AsyncWrite + Unpin> Future for Connection<P, T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.streams.alarms().task_runs();
        this.poll_shutdown(context);
        let mut turns = 0;
        loop {
            if let Poll::Ready(result) = this.turn() {
                if let Err(error) = result {
                    debug!(%error, "gRPC connection failed");
                }
                // Nobody is left to be told of what cannot be written.
                let _last_words = this.drain();
                return Poll::Ready(());
            }
            turns += 1;
            if turns == TURNS_MAX {
                context.waker().wake_by_ref();
                break;
            }
            if this.streams.task_sleeps(context.waker()) {
                break;
            }
        }
        match this.drain() {
            Poll::Ready(Err(error)) => {
                debug!(%error, "gRPC connection failed");
                return Poll::Ready(());
            }
            Poll::Ready(Ok(())) => this.streams.departures().leave(&this.metrics.lag_seconds),
            Poll::Pending => {}
        }
        this.poll_patience(context)
    }
}

#[cfg(test)]
mod tests;
