//! Requests of one connection on their way to the services, and answers on their way back.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tonic::service::Routes;
use tonic::transport::server::TcpConnectInfo;
use tower::Service;

use super::connection::Protocol;
use super::streams::{Births, Handed};

/// The services, as one connection has them.
pub(super) struct Services {
    routes: Routes,
    client: TcpConnectInfo,
    births: Births,
}

/// An answer that is on its way.
pub(super) struct Answering {
    answer: <Routes as Service<http::Request<Incoming>>>::Future,
    handed: Option<Arc<Handed>>,
}

/// The body of an answer, which shows whether its client makes room for it.
pub(super) struct Watched {
    body: tonic::body::Body,
    handed: Arc<Handed>,
}

// === impl Services ===

impl Services {
    pub(super) fn new(routes: Routes, client: TcpConnectInfo, births: Births) -> Self {
        Self {
            routes,
            client,
            births,
        }
    }
}

impl hyper::service::Service<http::Request<Incoming>> for Services {
    type Response = http::Response<Watched>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, mut request: http::Request<Incoming>) -> Answering {
        request.extensions_mut().insert(self.client.clone());
        // Routes are always ready.
        let answer = self.routes.clone().call(request);
        Answering {
            answer,
            handed: Some(self.births.announce()),
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
    type Output = Result<http::Response<Watched>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(Pin::new(&mut self.answer).poll(context))?;
        let handed = self.handed.take().unwrap_or_default();
        Poll::Ready(Ok(response.map(|body| Watched { body, handed })))
    }
}

// === impl Watched ===

impl Body for Watched {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        let this = self.get_mut();
        let frame = Pin::new(&mut this.body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(_))) => this.handed.give(),
            Poll::Ready(_) | Poll::Pending => this.handed.ask(),
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
