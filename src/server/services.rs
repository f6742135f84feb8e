//! Requests of one connection on their way to the services, and answers on their way back.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use hyper::body::Incoming;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpConnectInfo;

use super::calls::{Asked, Call, Calls};
use super::connection::Protocol;
use super::requests::{Requests, UnderWay};
use super::routes::{self, Routes};
use super::streams::{Births, Handed};
use crate::answer::Answer;

/// Everything that a listener serves, and what is counted of it. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    /// Requests to these are waited for in the end.
    pub(super) routes: Routes,
    /// Requests to these are not.
    pub(super) beside: Routes,
    pub(super) calls: Calls,
    pub(super) requests: Requests,
}

/// The services, as one connection has them.
pub(super) struct Services {
    offer: Arc<Offer>,
    client: TcpConnectInfo,
    births: Births,
    leaving: CancellationToken,
}

/// An answer that is on its way.
pub(super) struct Answering {
    answer: routes::Answering,
    /// There until it comes.
    marks: Option<Marks>,
}

/// The body of an answer, which shows how far it has got.
pub(super) struct Sending {
    answer: Answer,
    marks: Marks,
    /// Of the part that was handed over last, until there is room for it.
    since: Option<Instant>,
}

/// By what it shows that.
struct Marks {
    call: Option<Call>,
    handed: Arc<Handed>,
    _under_way: Option<UnderWay>,
}

// === impl Services ===

impl Services {
    /// `leaving` is cancelled when requests of the connection should end.
    pub(super) fn new(
        offer: Arc<Offer>,
        client: TcpConnectInfo,
        births: Births,
        leaving: CancellationToken,
    ) -> Self {
        Self {
            offer,
            client,
            births,
            leaving,
        }
    }
}

impl hyper::service::Service<http::Request<Incoming>> for Services {
    type Response = http::Response<Sending>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: http::Request<Incoming>) -> Answering {
        let Offer {
            routes,
            beside,
            calls,
            requests,
        } = &*self.offer;
        let path = request.uri().path();
        let call = calls.begin(path);
        let (routes, under_way) = if beside.serve(path) {
            (beside, None)
        } else {
            (routes, Some(requests.begin()))
        };
        let extensions = request.extensions_mut();
        extensions.insert(self.client.clone());
        extensions.insert(self.leaving.clone());
        let request = request.map(|body| tonic::body::Body::new(Asked::new(body, call.as_ref())));
        Answering {
            answer: routes.answer(request),
            marks: Some(Marks {
                call,
                handed: self.births.announce(),
                _under_way: under_way,
            }),
        }
    }
}

impl<T> Protocol for hyper::server::conn::http2::Connection<T, Services, Births>
where
    T: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    fn leave(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

// === impl Answering ===

impl Future for Answering {
    type Output = Result<http::Response<Sending>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(self.answer.as_mut().poll(context));
        let Some(mut marks) = self.marks.take() else {
            // It has come already, and nobody asks for it again.
            return Poll::Pending;
        };
        if let Some(call) = &mut marks.call {
            call.sends_fields(response.headers());
        }
        Poll::Ready(Ok(response.map(|answer| Sending {
            answer,
            marks,
            since: None,
        })))
    }
}

// === impl Sending ===

impl Body for Sending {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let this = self.get_mut();
        let Marks { call, handed, .. } = &mut this.marks;
        // Whoever asks for the next part has had room for the last.
        if let Some(since) = this.since.take() {
            handed.leaves(since);
        }
        let part = this.answer.poll_part(context);
        let Poll::Ready(Some(Ok(part))) = part else {
            handed.ask();
            return part.map(|end| end.map(|end| end.map(|part| part.frame)));
        };
        handed.give();
        if let Some(call) = call {
            call.sends(&part.frame);
        }
        this.since = part.since;
        Poll::Ready(Some(Ok(part.frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }
}
