//! Who asks: implementations of gRPC that a case can be replayed with.

use std::sync::Arc;

use tokio::time::Instant;

use super::answer::{self, Actual};
use super::case::{Method, Request};
use super::profile;
use crate::support::profile::ProfileSubscription;
use crate::support::subscription::{Outcome, Subscription};
use crate::support::tributary::Tributary;

/// Opens streams. Every implementation is a client of its own make; what they are told has to be the same.
pub trait Asker: Send + Sync {
    /// What it is called in reports.
    fn name(&self) -> &'static str;

    /// Opens a stream on a connection of its own.
    fn ask(&self, server: &Tributary, request: &Request) -> Box<dyn Stream>;
}

/// One stream, folded as it comes.
pub trait Stream: Send {
    /// What it has said so far: silence, addresses or a profile. Only of a client that asks again by itself it may be an error.
    fn said(&self) -> Actual;

    /// How it ended, if it has. The streams of a client that asks again by itself never do.
    fn outcome(&self) -> Option<Outcome>;

    /// Since when nothing has come, the end included.
    fn quiet_since(&self) -> Instant;

    /// The protocol's rules that the server has broken on it.
    fn violations(&self) -> Vec<String>;
}

/// The client made from Linkerd's published protocol, with tonic.
pub struct TypedClient;

// === impl TypedClient ===

impl Asker for TypedClient {
    fn name(&self) -> &'static str {
        "the typed client"
    }

    fn ask(&self, server: &Tributary, request: &Request) -> Box<dyn Stream> {
        let Request {
            method,
            authority,
            token,
        } = request;
        match method {
            Method::Get => Box::new(server.get_with_token(authority, token)),
            Method::GetProfile => Box::new(server.get_profile(authority, token)),
        }
    }
}

// === impl Subscription ===

impl Stream for Subscription {
    fn said(&self) -> Actual {
        let state = self.now();
        if state.answered {
            Actual::Addresses(Arc::new(answer::addresses(&state)))
        } else {
            Actual::Silence
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        Self::outcome(self)
    }

    fn quiet_since(&self) -> Instant {
        Self::quiet_since(self)
    }

    fn violations(&self) -> Vec<String> {
        Self::violations(self)
    }
}

// === impl ProfileSubscription ===

impl Stream for ProfileSubscription {
    fn said(&self) -> Actual {
        match self.now() {
            Some(profile) => Actual::Profile(Arc::new(profile::to_json(&profile))),
            None => Actual::Silence,
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        Self::outcome(self)
    }

    fn quiet_since(&self) -> Instant {
        Self::quiet_since(self)
    }

    fn violations(&self) -> Vec<String> {
        Self::violations(self)
    }
}
