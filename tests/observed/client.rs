//! A client that behaves as a proxy: it asks again when its stream is over, and keeps what it knew until it knows better.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tonic::Code;

use crate::answer::Actual;
use crate::case::{Method, Request};
use crate::profile::to_json;
use crate::support::profile::ProfileSubscription;
use crate::support::subscription::{Folded, Outcome, Subscription};
use crate::support::tributary::Tributary;

/// Between the end of a stream and the next try.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// One client, with one name to resolve.
pub struct Client {
    request: Request,
    stream: Stream,
    opened: Instant,
    known: Known,
    /// Since when `known` has been what it is.
    known_since: Instant,
    /// Rules that were broken on streams that are over.
    violations: Vec<String>,
}

enum Stream {
    Endpoints(Subscription),
    Profiles(ProfileSubscription),
}

/// What is known, from streams that are over or from one that is open.
#[derive(Clone, PartialEq)]
enum Known {
    Nothing,
    State(Arc<Folded>),
    Profile(Arc<Value>),
    Error(Code),
}

// === impl Client ===

impl Client {
    /// Opens a stream.
    pub fn open(tributary: &Tributary, request: &Request) -> Self {
        Self {
            stream: Stream::open(tributary, request),
            opened: Instant::now(),
            request: request.clone(),
            known: Known::Nothing,
            known_since: Instant::now(),
            violations: Vec::new(),
        }
    }

    /// Begins anew if the stream is over.
    pub fn tend(&mut self, tributary: &Tributary) {
        let Some(outcome) = self.stream.outcome() else {
            return;
        };
        if self.stream.quiet_since().elapsed() < RETRY_DELAY {
            return;
        }
        let known = self.knows_after(&outcome);
        if known != self.known {
            self.known = known;
            self.known_since = self.stream.quiet_since();
        }
        self.violations.append(&mut self.stream.violations());
        self.stream = Stream::open(tributary, &self.request);
        self.opened = Instant::now();
    }

    /// What it knows now. `patience` is how long a new stream may take to say something before it counts as silent.
    pub fn answer(&self, patience: Duration) -> Actual {
        let known = match self.stream.outcome() {
            Some(outcome) => self.knows_after(&outcome),
            None => match (self.stream.said(), &self.known) {
                (Known::Nothing, Known::Error(_)) if self.opened.elapsed() >= patience => {
                    Known::Nothing
                }
                (Known::Nothing, known) => known.clone(),
                (said, _) => said,
            },
        };
        match known {
            Known::Nothing => Actual::Silence,
            Known::State(state) => Actual::State(state),
            Known::Profile(profile) => Actual::Profile(profile),
            Known::Error(code) => Actual::Error(code),
        }
    }

    /// Since when nothing new has happened. Another try that ends like the one before is nothing new.
    pub fn quiet_since(&self) -> Instant {
        let is_news = match self.stream.outcome() {
            Some(outcome) => self.knows_after(&outcome) != self.known,
            None => self.stream.said() != Known::Nothing,
        };
        if is_news {
            self.stream.quiet_since()
        } else {
            self.known_since
        }
    }

    /// The protocol's rules that the server has broken.
    pub fn violations(&self) -> Vec<String> {
        let mut violations = self.violations.clone();
        violations.append(&mut self.stream.violations());
        violations
    }

    fn knows_after(&self, outcome: &Outcome) -> Known {
        let last = match (self.stream.said(), &self.known) {
            (Known::Nothing, Known::State(_) | Known::Profile(_)) => self.known.clone(),
            (said, _) => said,
        };
        match (outcome, last) {
            (Outcome::Failed(code, _), _)
                if matches!(code, Code::InvalidArgument | Code::FailedPrecondition) =>
            {
                Known::Error(*code)
            }
            (_, Known::State(last)) if !last.endpoints.is_empty() => Known::State(last),
            (_, Known::Profile(last)) => Known::Profile(last),
            (Outcome::Failed(code, _), _) => Known::Error(*code),
            (Outcome::Ended, last) => last,
        }
    }
}

// === impl Stream ===

impl Stream {
    fn open(tributary: &Tributary, request: &Request) -> Self {
        let Request {
            method,
            authority,
            token,
        } = request;
        match method {
            Method::Get => Self::Endpoints(tributary.get_with_token(authority, token)),
            Method::GetProfile => Self::Profiles(tributary.get_profile(authority, token)),
        }
    }

    /// What it has said, which is never an error.
    fn said(&self) -> Known {
        match self {
            Self::Endpoints(stream) => {
                let state = stream.now();
                if state.answered {
                    Known::State(state)
                } else {
                    Known::Nothing
                }
            }
            Self::Profiles(stream) => match stream.now() {
                Some(profile) => Known::Profile(Arc::new(to_json(&profile))),
                None => Known::Nothing,
            },
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Endpoints(stream) => stream.outcome(),
            Self::Profiles(stream) => stream.outcome(),
        }
    }

    fn quiet_since(&self) -> Instant {
        match self {
            Self::Endpoints(stream) => stream.quiet_since(),
            Self::Profiles(stream) => stream.quiet_since(),
        }
    }

    fn violations(&self) -> Vec<String> {
        match self {
            Self::Endpoints(stream) => stream.violations(),
            Self::Profiles(stream) => stream.violations(),
        }
    }
}
