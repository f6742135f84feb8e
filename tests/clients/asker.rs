//! The client in Python as one that cases are replayed with.

use std::sync::Arc;

use tokio::time::Instant;

use crate::python::{Answer, Python, Reading};
use crate::replay::answer::Actual;
use crate::replay::asker::{Asker, Stream};
use crate::replay::case::{Method, Request};
use crate::replay::profile;
use crate::support::subscription::Outcome;
use crate::support::tributary::Tributary;

impl Asker for Python {
    fn name(&self) -> &'static str {
        "the client in Python"
    }

    fn ask(&self, server: &Tributary, request: &Request) -> Box<dyn Stream> {
        let method = match request.method {
            Method::Get => "Get",
            Method::GetProfile => "GetProfile",
        };
        let address = server.address();
        Box::new(self.open(address, method, &request.authority, &request.token))
    }
}

impl Stream for Reading {
    fn said(&self) -> Actual {
        match self.heard().answer {
            Answer::Silence => Actual::Silence,
            Answer::Addresses(addresses) => Actual::Addresses(addresses),
            Answer::Profile(profile) => Actual::Profile(Arc::new(profile::normal(&profile))),
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        self.heard().outcome
    }

    fn quiet_since(&self) -> Instant {
        self.heard().quiet_since
    }

    fn violations(&self) -> Vec<String> {
        self.heard().breaches
    }
}
