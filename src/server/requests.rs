//! How many requests are under way, up to the end of their answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;
use tower::{Layer, Service};

/// Counts the requests of the services that it is laid around. Clones count together.
#[derive(Clone, Debug)]
pub(super) struct Requests(Arc<watch::Sender<usize>>);

/// A service whose requests are counted.
#[derive(Clone, Debug)]
pub(super) struct Counted<S> {
    service: S,
    requests: Requests,
}

/// The body of an answer, under way for as long as there is any of it.
#[derive(Debug)]
pub(super) struct Answer<B> {
    body: B,
    _under_way: UnderWay,
}

#[derive(Debug)]
struct UnderWay(Requests);

// === impl Requests ===

impl Default for Requests {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }
}

impl Requests {
    /// Resolves when no request is under way.
    pub(super) async fn none(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        drop(self.0.subscribe().wait_for(|count| *count == 0).await);
    }

    fn begin(&self) -> UnderWay {
        self.0.send_modify(|count| *count += 1);
        UnderWay(self.clone())
    }
}

impl<S> Layer<S> for Requests {
    type Service = Counted<S>;

    fn layer(&self, service: S) -> Counted<S> {
        Counted {
            service,
            requests: self.clone(),
        }
    }
}

// === impl Counted ===

impl<S, A, B> Service<http::Request<A>> for Counted<S>
where
    S: Service<http::Request<A>, Response = http::Response<B>>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Answer<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<A>) -> Self::Future {
        let under_way = self.requests.begin();
        let response = self.service.call(request);
        Box::pin(async move {
            let response = response.await?;
            Ok(response.map(|body| Answer {
                body,
                _under_way: under_way,
            }))
        })
    }
}

// === impl Answer ===

impl<B: Body + Unpin> Body for Answer<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// === impl UnderWay ===

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}
