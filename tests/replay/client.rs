//! A client that behaves as a proxy: it asks again when its stream is over, and keeps what it knew until it knows better.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tonic::Code;

use super::answer::Actual;
use super::asker::{Asker, Stream};
use super::case::Request;
use crate::support::subscription::Outcome;
use crate::support::tributary::Tributary;

/// One client, with one name to resolve.
pub struct Client {
    asker: Arc<dyn Asker>,
    request: Request,
    /// Between the end of a stream and the next try.
    retry_delay: Duration,
    stream: Box<dyn Stream>,
    opened: Instant,
    /// What is known from streams that are over.
    known: Actual,
    /// Since when `known` has been what it is.
    known_since: Instant,
    /// Whether a stream that is over ended with status OK.
    has_ended: bool,
    /// Rules that were broken on streams that are over.
    violations: Vec<String>,
}

// === impl Client ===

impl Client {
    /// Opens a stream.
    pub fn open(
        asker: &Arc<dyn Asker>,
        tributary: &Tributary,
        request: &Request,
        retry_delay: Duration,
    ) -> Self {
        Self {
            asker: Arc::clone(asker),
            stream: asker.ask(tributary, request),
            opened: Instant::now(),
            request: request.clone(),
            retry_delay,
            known: Actual::Silence,
            known_since: Instant::now(),
            has_ended: false,
            violations: Vec::new(),
        }
    }

    /// Begins anew if the stream is over.
    pub fn tend(&mut self, tributary: &Tributary) {
        let Some(outcome) = self.stream.outcome() else {
            return;
        };
        if self.stream.quiet_since().elapsed() < self.retry_delay {
            return;
        }
        let known = self.knows_after(&outcome);
        if known != self.known {
            self.known = known;
            self.known_since = self.stream.quiet_since();
        }
        self.has_ended |= outcome == Outcome::Ended;
        self.violations.append(&mut self.stream.violations());
        self.stream = self.asker.ask(tributary, &self.request);
        self.opened = Instant::now();
    }

    /// What it knows now. `patience` is how long a new stream may take to say something before it counts as silent.
    pub fn answer(&self, patience: Duration) -> Actual {
        match self.stream.outcome() {
            Some(outcome) => self.knows_after(&outcome),
            None => match (self.stream.said(), &self.known) {
                (Actual::Silence, Actual::Error(_)) if self.opened.elapsed() >= patience => {
                    Actual::Silence
                }
                (Actual::Silence, known) => known.clone(),
                (said, _) => said,
            },
        }
    }

    /// Since when nothing new has happened. Another try that ends like the one before is nothing new.
    pub fn quiet_since(&self) -> Instant {
        let is_news = match self.stream.outcome() {
            Some(outcome) => self.knows_after(&outcome) != self.known,
            None => self.stream.said() != Actual::Silence,
        };
        if is_news {
            self.stream.quiet_since()
        } else {
            self.known_since
        }
    }

    /// Whether a stream ended with status OK since the client was opened, or since [`Client::forget_ends`].
    pub fn has_ended(&self) -> bool {
        self.has_ended || self.stream.outcome() == Some(Outcome::Ended)
    }

    /// Lets ends of streams that are over count no more.
    pub fn forget_ends(&mut self) {
        self.has_ended = false;
    }

    /// The protocol's rules that the server has broken.
    pub fn violations(&self) -> Vec<String> {
        let mut violations = self.violations.clone();
        violations.append(&mut self.stream.violations());
        violations
    }

    fn knows_after(&self, outcome: &Outcome) -> Actual {
        let last = match (self.stream.said(), &self.known) {
            (Actual::Silence, Actual::Addresses(_) | Actual::Profile(_)) => self.known.clone(),
            (said, _) => said,
        };
        match (outcome, last) {
            (Outcome::Failed(code, _), _)
                if matches!(code, Code::InvalidArgument | Code::FailedPrecondition) =>
            {
                Actual::Error(*code)
            }
            (_, Actual::Addresses(last)) if !last.is_empty() => Actual::Addresses(last),
            (_, Actual::Profile(last)) => Actual::Profile(last),
            (Outcome::Failed(code, _), _) => Actual::Error(*code),
            (Outcome::Ended, last) => last,
        }
    }
}
