//! Linkerd's destination API, as stock proxies speak it.
//!
//! `token` reads what a client says of itself, `dispatch` decides whether and how a Service is answered, `translate` turns
//! views into messages, `stream` is the life of one `Get` stream, `profile` does both for `GetProfile`, and `service` puts them
//! on the wire.

mod client;
mod dispatch;
mod metrics;
mod profile;
mod service;
mod stream;
mod token;
mod translate;

pub use metrics::Metrics;
pub use service::{Destination, Settings};
pub use token::ContextToken;
pub use translate::{Http2Params, Translation};
