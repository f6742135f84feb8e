//! A client of `GetProfile`, made from Linkerd's published protocol and from nothing of the product's.

use std::net::SocketAddr;
use std::sync::Arc;

use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::destination::{DestinationProfile, GetDestination};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Endpoint as Server;

use super::DEADLINE;
use super::process::Process;
use super::subscription::Outcome;

/// An open stream of profiles, each of which replaces the one before.
pub struct ProfileSubscription {
    authority: String,
    history: watch::Receiver<History>,
    server: Option<Arc<Process>>,
    // Ends the stream with this value.
    _reader: JoinSet<()>,
}

/// All that has come on a stream.
#[derive(Clone, Debug)]
struct History {
    profiles: Vec<Arc<DestinationProfile>>,
    outcome: Option<Outcome>,
    violations: Vec<String>,
    last_event: Instant,
}

// === impl ProfileSubscription ===

impl ProfileSubscription {
    /// Opens a stream. `server` is asked for its log when something is wrong.
    pub fn open(
        address: SocketAddr,
        authority: &str,
        token: &str,
        server: Option<Arc<Process>>,
    ) -> Self {
        let (sender, history) = watch::channel(History {
            profiles: Vec::new(),
            outcome: None,
            violations: Vec::new(),
            last_event: Instant::now(),
        });
        let request = GetDestination {
            scheme: String::new(),
            path: authority.to_owned(),
            context_token: token.to_owned(),
        };
        let mut reader = JoinSet::new();
        reader.spawn(read(address, request, sender));
        Self {
            authority: authority.to_owned(),
            history,
            server,
            _reader: reader,
        }
    }

    /// The latest profile, if one has come.
    pub fn now(&self) -> Option<Arc<DestinationProfile>> {
        self.history.borrow().profiles.last().cloned()
    }

    /// How many profiles have come.
    pub fn count(&self) -> usize {
        self.history.borrow().profiles.len()
    }

    /// How the stream ended, if it has.
    pub fn outcome(&self) -> Option<Outcome> {
        self.history.borrow().outcome.clone()
    }

    /// Since when nothing has come.
    pub fn quiet_since(&self) -> Instant {
        self.history.borrow().last_event
    }

    /// The rules that the server has broken so far.
    pub fn violations(&self) -> Vec<String> {
        self.history.borrow().violations.clone()
    }

    /// Waits until the latest profile is as wanted.
    ///
    /// # Panics
    ///
    /// If it never is, or if the stream ends before.
    pub async fn wait_for(
        &self,
        what: &str,
        wanted: impl Fn(&DestinationProfile) -> bool,
    ) -> Arc<DestinationProfile> {
        let is_there = |history: &History| {
            let latest = history.profiles.last();
            latest.is_some_and(|profile| wanted(profile))
        };
        let mut history = self.history.clone();
        let waiting = history.wait_for(|history| is_there(history) || history.outcome.is_some());
        let reached = match tokio::time::timeout(DEADLINE, waiting).await {
            Ok(Ok(history)) => is_there(&history),
            Ok(Err(_)) | Err(_) => false,
        };
        assert!(reached, "waited in vain for {what}\n{}", self.report());
        self.now().expect("it was there when we looked")
    }

    fn report(&self) -> String {
        let log = self.server.as_ref();
        let log = log.map_or_else(String::new, |server| server.log_tail(40));
        let history = self.history.borrow();
        format!("profiles of {}\n{history:#?}\nlog:\n{log}", self.authority)
    }
}

// === impl History ===

impl History {
    fn take(&mut self, profile: DestinationProfile) {
        if self.profiles.last().is_some_and(|last| **last == profile) {
            self.violations
                .push("a profile that says nothing new".to_owned());
        }
        self.profiles.push(Arc::new(profile));
        self.last_event = Instant::now();
    }
}

async fn read(address: SocketAddr, request: GetDestination, history: watch::Sender<History>) {
    let server = Server::from_shared(format!("http://{address}"))
        .expect("an address makes a URL")
        .connect_lazy();
    let mut client = DestinationClient::new(server);
    let outcome = async {
        let mut profiles = client.get_profile(request).await?.into_inner();
        while let Some(profile) = profiles.message().await? {
            history.send_modify(|history| history.take(profile));
        }
        Ok::<_, tonic::Status>(())
    };
    let outcome = match outcome.await {
        Ok(()) => Outcome::Ended,
        Err(status) => Outcome::Failed(status.code(), status.message().to_owned()),
    };
    history.send_modify(|history| {
        history.outcome = Some(outcome);
        history.last_event = Instant::now();
    });
    // Nobody who waits for another profile may be told that the sender is gone before they have seen the outcome.
    history.closed().await;
}
