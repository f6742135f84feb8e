//! A client that behaves as a proxy: it asks again when its stream is over, and keeps what it knew until it knows better.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tonic::Code;

use crate::answer::Actual;
use crate::case::Request;
use crate::support::subscription::{Folded, Outcome, Subscription};
use crate::support::tributary::Tributary;

/// Between the end of a stream and the next try.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// One client, with one name to resolve.
pub struct Client {
    request: Request,
    stream: Subscription,
    opened: Instant,
    known: Known,
    /// Since when `known` has been what it is.
    known_since: Instant,
    /// Rules that were broken on streams that are over.
    violations: Vec<String>,
}

/// What is known from streams that are over.
#[derive(PartialEq)]
enum Known {
    Nothing,
    State(Arc<Folded>),
    Error(Code),
}

// === impl Client ===

impl Client {
    /// Opens a stream.
    pub fn open(tributary: &Tributary, request: &Request) -> Self {
        Self {
            stream: tributary.get_with_token(&request.authority, &request.token),
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
        self.stream = tributary.get_with_token(&self.request.authority, &self.request.token);
        self.opened = Instant::now();
    }

    /// What it knows now. `patience` is how long a new stream may take to say something before it counts as silent.
    pub fn answer(&self, patience: Duration) -> Actual {
        if let Some(outcome) = self.stream.outcome() {
            return match self.knows_after(&outcome) {
                Known::Nothing => Actual::Silence,
                Known::State(state) => Actual::State(state),
                Known::Error(code) => Actual::Error(code),
            };
        }
        let state = self.stream.now();
        if state.answered {
            return Actual::State(state);
        }
        match &self.known {
            Known::State(known) => Actual::State(known.clone()),
            Known::Error(code) if self.opened.elapsed() < patience => Actual::Error(*code),
            Known::Error(_) | Known::Nothing => Actual::Silence,
        }
    }

    /// Since when nothing new has happened. Another try that ends like the one before is nothing new.
    pub fn quiet_since(&self) -> Instant {
        let is_news = match self.stream.outcome() {
            Some(outcome) => self.knows_after(&outcome) != self.known,
            None => self.stream.now().answered,
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
        let state = self.stream.now();
        let last = if state.answered {
            Some(state)
        } else if let Known::State(known) = &self.known {
            Some(known.clone())
        } else {
            None
        };
        match (outcome, last) {
            (Outcome::Failed(code, _), _)
                if matches!(code, Code::InvalidArgument | Code::FailedPrecondition) =>
            {
                Known::Error(*code)
            }
            (_, Some(last)) if !last.endpoints.is_empty() => Known::State(last),
            (Outcome::Failed(code, _), _) => Known::Error(*code),
            (Outcome::Ended, Some(last)) => Known::State(last),
            (Outcome::Ended, None) => Known::Nothing,
        }
    }
}
