//! Which service answers a request: the one that the path names, without anything in between.
//!
//! tonic's own router wraps every body twice more, which each message of a stream would have to pay for.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use futures::FutureExt as _;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::{Service, ServiceExt as _};

use crate::answer::Answer;

type Request = http::Request<Body>;
type Response = http::Response<Answer>;
pub(super) type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// gRPC services by their full names. Clones share them.
#[derive(Clone, Default)]
pub struct Routes(HashMap<&'static str, Arc<dyn Fn(Request) -> Answering + Send + Sync>>);

// === impl Routes ===

impl Routes {
    /// Serves this one too.
    #[must_use]
    pub fn serving<S, B>(mut self, service: S) -> Self
    where
        S: Service<Request, Response = http::Response<B>, Error = Infallible> + NamedService,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: Into<Answer>,
    {
        let answer = move |request| -> Answering {
            let response = service.clone().oneshot(request);
            Box::pin(response.map(|response| {
                let Ok(response) = response;
                response.map(Into::into)
            }))
        };
        self.0.insert(S::NAME, Arc::new(answer));
        self
    }

    /// Whether one of them is asked for by this path.
    pub(super) fn serve(&self, path: &str) -> bool {
        service_of(path).is_some_and(|service| self.0.contains_key(service))
    }

    /// What the one that the request's path names answers.
    pub(super) fn answer(&self, request: Request) -> Answering {
        let service = service_of(request.uri().path());
        match service.and_then(|service| self.0.get(service)) {
            Some(answer) => answer(request),
            None => Box::pin(async {
                let status = Status::unimplemented("there is no such service");
                status.into_http().map(Answer::Generated)
            }),
        }
    }
}

/// The service that a path names.
fn service_of(path: &str) -> Option<&str> {
    let (service, _method) = path.strip_prefix('/')?.split_once('/')?;
    Some(service)
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use super::*;

    /// Answers with its number, as the code of the status.
    #[derive(Clone)]
    struct Numbered<const NUMBER: i32>;

    impl NamedService for Numbered<5> {
        const NAME: &'static str = "shop.v1.Carts";
    }

    impl NamedService for Numbered<6> {
        const NAME: &'static str = "shop.v1.Cart";
    }

    impl<const NUMBER: i32> Service<Request> for Numbered<NUMBER> {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Self::Response, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Request) -> Self::Future {
            std::future::ready(Ok(Status::new(NUMBER.into(), "").into_http()))
        }
    }

    async fn check(path: &str, code: i32) {
        let routes = Routes::default()
            .serving(Numbered::<5>)
            .serving(Numbered::<6>);
        let request = http::Request::builder().uri(path).body(Body::empty());
        let response = routes.answer(request.unwrap()).await;
        let status = Status::from_header_map(response.headers()).unwrap();
        assert_eq!(status.code() as i32, code, "{path}");
    }

    #[tokio::test]
    async fn the_whole_name_of_a_service_counts() {
        check("/shop.v1.Carts/Get", 5).await;
        check("/shop.v1.Cart/Get", 6).await;
        for path in [
            "/shop.v1.Car/Get",
            "/shop.v1.Carts",
            "/Get",
            "/",
            "//",
            "/a/shop.v1.Cart/Get",
        ] {
            check(path, tonic::Code::Unimplemented as i32).await;
        }
    }
}
