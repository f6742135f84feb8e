//! A client of the destination API, made from Linkerd's published protocol and from nothing of the product's.
//!
//! It folds messages into a state as Linkerd's proxy does, keeps every state there ever was, and holds the server to the
//! rules of the protocol while it reads.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use linkerd2_proxy_api::destination::{
    DestinationProfile, GetDestination, Update, WeightedAddr, protocol_hint, tls_identity, update,
};
use linkerd2_proxy_api::net::TcpAddress;
use prost::Message as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::Code;
use tonic::transport::{Channel, Endpoint as Server};

use super::DEADLINE;
use super::process::Process;

/// What a proxy accepts is 4 MiB; the product promises to stay well below.
const MESSAGE_BYTES_MAX: usize = 3_670_016;

/// One endpoint, as a proxy would use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// Labels of the set and of the address, of which the latter win.
    pub labels: BTreeMap<String, String>,
    /// The labels of the set alone.
    pub set_labels: BTreeMap<String, String>,
    /// Everything as it came, without address and labels.
    pub content: WeightedAddr,
}

/// All endpoints at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Folded {
    /// By address.
    pub endpoints: BTreeMap<SocketAddr, Endpoint>,
    /// Whether any message has come.
    pub answered: bool,
    /// What the last message said, if it said that there are no endpoints: whether the Service exists.
    pub no_endpoints: Option<bool>,
}

/// One message, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Endpoints that are new or different.
    Add(Vec<SocketAddr>),
    /// Endpoints that are gone.
    Remove(Vec<SocketAddr>),
    /// None are left.
    NoEndpoints,
}

/// How a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With status OK.
    Ended,
    /// With an error.
    Failed(Code, String),
}

/// All that has come on a stream.
#[derive(Clone, Debug)]
struct History {
    /// The state at first, and after every message.
    states: Vec<Arc<Folded>>,
    messages: Vec<Message>,
    outcome: Option<Outcome>,
    violations: Vec<String>,
    last_event: Instant,
}

/// An open stream.
pub struct Subscription {
    authority: String,
    history: watch::Receiver<History>,
    server: Option<Arc<Process>>,
    // Ends the stream with this value.
    _reader: JoinSet<()>,
}

/// A point in the history of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

// === impl Mark ===

impl Mark {
    /// The point after that many messages, which have come already.
    pub fn after(messages: usize) -> Self {
        Self(messages)
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// The mesh identity to expect, DNS-like or as a URI.
    pub fn identity(&self) -> Option<&str> {
        match self.content.tls_identity.as_ref()?.strategy.as_ref()? {
            tls_identity::Strategy::DnsLikeIdentity(identity) => Some(&identity.name),
            tls_identity::Strategy::UriLikeIdentity(identity) => Some(&identity.uri),
        }
    }

    /// The server name to present.
    pub fn server_name(&self) -> Option<&str> {
        let identity = self.content.tls_identity.as_ref()?;
        Some(&identity.server_name.as_ref()?.name)
    }

    /// The authority to put in place of the client's.
    pub fn authority_override(&self) -> Option<&str> {
        Some(&self.content.authority_override.as_ref()?.authority_override)
    }

    /// The protocol to speak between proxies: `h2`, `opaque`, or none.
    pub fn protocol(&self) -> Option<&'static str> {
        match self.content.protocol_hint.as_ref()?.protocol.as_ref()? {
            protocol_hint::Protocol::H2(_) => Some("h2"),
            protocol_hint::Protocol::Opaque(_) => Some("opaque"),
        }
    }

    /// The proxy's port for connections that carry a transport header.
    pub fn inbound_port(&self) -> Option<u32> {
        let hint = self.content.protocol_hint.as_ref()?;
        Some(hint.opaque_transport.as_ref()?.inbound_port)
    }

    /// One label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// The weight.
    pub fn weight(&self) -> u32 {
        self.content.weight
    }
}

// === impl Folded ===

impl Folded {
    /// The addresses, in order.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.endpoints.keys().copied().collect()
    }

    /// Whether these are the addresses, and no others.
    pub fn is_exactly(&self, addresses: &[&str]) -> bool {
        let mut wanted = parse_all(addresses);
        wanted.sort_unstable();
        self.answered && self.addresses() == wanted
    }

    /// Whether an answer has come, and it was or became empty.
    pub fn is_empty(&self) -> bool {
        self.answered && self.endpoints.is_empty()
    }

    /// The endpoint at an address.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn at(&self, address: &str) -> &Endpoint {
        self.endpoints
            .get(&parse(address))
            .unwrap_or_else(|| panic!("{address} is not there:\n{self}"))
    }
}

impl fmt::Display for Folded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.endpoints.is_empty() {
            return match (self.answered, self.no_endpoints) {
                (false, _) => writeln!(f, "  (no message yet)"),
                (true, Some(exists)) => writeln!(f, "  (no endpoints, exists: {exists})"),
                (true, None) => writeln!(f, "  (empty)"),
            };
        }
        for (address, endpoint) in &self.endpoints {
            let identity = endpoint.identity().unwrap_or("-");
            writeln!(f, "  {address} identity {identity} {:?}", endpoint.labels)?;
        }
        Ok(())
    }
}

// === impl History ===

impl History {
    fn now(&self) -> &Arc<Folded> {
        self.states.last().expect("there is a state from the start")
    }

    /// Folds a message in, and notes what it should not have said.
    fn take(&mut self, update: &Update) {
        let mut state = Folded::clone(self.now());
        let size = update.encoded_len();
        if size > MESSAGE_BYTES_MAX {
            self.violations.push(format!("a message of {size} bytes"));
        }
        match &update.update {
            Some(update::Update::Add(set)) => {
                let mut addresses = Vec::new();
                for address in &set.addrs {
                    let socket = socket(address.addr.as_ref());
                    let endpoint = Endpoint::new(&set.metric_labels, address);
                    if state.endpoints.get(&socket) == Some(&endpoint) {
                        self.violations
                            .push(format!("an add that says nothing new of {socket}"));
                    }
                    state.endpoints.insert(socket, endpoint);
                    addresses.push(socket);
                }
                state.no_endpoints = None;
                if addresses.is_empty() {
                    self.violations.push("an add without addresses".to_owned());
                }
                self.messages.push(Message::Add(addresses));
            }
            Some(update::Update::Remove(set)) => {
                if !state.answered {
                    self.violations
                        .push("the first message was a remove".to_owned());
                }
                let addresses: Vec<_> = set.addrs.iter().map(|addr| socket(Some(addr))).collect();
                for address in &addresses {
                    if state.endpoints.remove(address).is_none() {
                        self.violations
                            .push(format!("a remove of {address}, which was not there"));
                    }
                }
                if addresses.is_empty() {
                    self.violations
                        .push("a remove without addresses".to_owned());
                }
                self.messages.push(Message::Remove(addresses));
            }
            Some(update::Update::NoEndpoints(none)) => {
                state.endpoints.clear();
                state.no_endpoints = Some(none.exists);
                self.messages.push(Message::NoEndpoints);
            }
            None => self.violations.push("a message without content".to_owned()),
        }
        state.answered = true;
        self.states.push(Arc::new(state));
        self.last_event = Instant::now();
    }

    fn end(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
        self.last_event = Instant::now();
    }
}

// === impl Subscription ===

impl Subscription {
    /// Opens a stream on a connection of its own. `server` is asked for its log when something is wrong.
    ///
    /// # Panics
    ///
    /// Never: an address makes a URL.
    pub fn open(
        address: SocketAddr,
        authority: &str,
        token: &str,
        server: Option<Arc<Process>>,
    ) -> Self {
        let connection = Server::from_shared(format!("http://{address}"))
            .expect("an address makes a URL")
            .connect_lazy();
        Self::open_on(connection, authority, token, server)
    }

    /// Opens a stream on a connection that may have others.
    pub fn open_on(
        connection: Channel,
        authority: &str,
        token: &str,
        server: Option<Arc<Process>>,
    ) -> Self {
        let (sender, history) = watch::channel(History {
            states: vec![Arc::default()],
            messages: Vec::new(),
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
        reader.spawn(read(connection, request, sender));
        Self {
            authority: authority.to_owned(),
            history,
            server,
            _reader: reader,
        }
    }

    /// The state now.
    pub fn now(&self) -> Arc<Folded> {
        self.history.borrow().now().clone()
    }

    /// How the stream ended, if it has.
    pub fn outcome(&self) -> Option<Outcome> {
        self.history.borrow().outcome.clone()
    }

    /// Since when nothing has come.
    pub fn quiet_since(&self) -> Instant {
        self.history.borrow().last_event
    }

    /// The rules of the protocol that the server has broken so far.
    pub fn violations(&self) -> Vec<String> {
        self.history.borrow().violations.clone()
    }

    /// This point in the stream's history.
    pub fn mark(&self) -> Mark {
        Mark(self.history.borrow().messages.len())
    }

    /// What has come since a point.
    pub fn messages_since(&self, mark: Mark) -> Vec<Message> {
        self.history.borrow().messages[mark.0..].to_vec()
    }

    /// Every message.
    pub fn messages(&self) -> Vec<Message> {
        self.messages_since(Mark(0))
    }

    /// Waits until the first message has come, or the stream is over without one.
    ///
    /// # Panics
    ///
    /// If neither happens.
    pub async fn begun(&self) {
        let mut history = self.history.clone();
        let waiting =
            history.wait_for(|history| history.now().answered || history.outcome.is_some());
        let begun = matches!(tokio::time::timeout(DEADLINE, waiting).await, Ok(Ok(_)));
        assert!(begun, "the stream does not begin\n{}", self.report());
    }

    /// Waits until the state is as wanted.
    ///
    /// # Panics
    ///
    /// If it never is, if the stream ends before, or if the server breaks a rule of the protocol. The message has the
    /// state, the messages and the end of the server's log.
    pub async fn wait_for(&self, what: &str, wanted: impl Fn(&Folded) -> bool) -> Arc<Folded> {
        self.wait_within(DEADLINE, what, wanted).await
    }

    /// Waits until the state is as wanted, for so long.
    ///
    /// # Panics
    ///
    /// As [`Subscription::wait_for`] does.
    pub async fn wait_within(
        &self,
        deadline: Duration,
        what: &str,
        wanted: impl Fn(&Folded) -> bool,
    ) -> Arc<Folded> {
        let mut history = self.history.clone();
        let waiting = history.wait_for(|history| {
            wanted(history.now()) || history.outcome.is_some() || !history.violations.is_empty()
        });
        let reached = match tokio::time::timeout(deadline, waiting).await {
            Ok(Ok(history)) => wanted(history.now()) && history.violations.is_empty(),
            Ok(Err(_)) | Err(_) => false,
        };
        assert!(reached, "waited in vain for {what}\n{}", self.report());
        self.now()
    }

    /// Waits until exactly these addresses are there.
    ///
    /// # Panics
    ///
    /// As [`Subscription::wait_for`] does.
    pub async fn wait_for_exactly(&self, addresses: &[&str]) -> Arc<Folded> {
        self.wait_for(&format!("exactly {addresses:?}"), |state| {
            state.is_exactly(addresses)
        })
        .await
    }

    /// Waits for the first message, or the end: whether a message has come.
    pub async fn until_answered(&self) -> bool {
        let mut history = self.history.clone();
        let waiting =
            history.wait_for(|history| history.now().answered || history.outcome.is_some());
        matches!(
            tokio::time::timeout(DEADLINE, waiting).await,
            Ok(Ok(history)) if history.now().answered
        )
    }

    /// Waits until the stream is over.
    ///
    /// # Panics
    ///
    /// If it does not end.
    pub async fn wait_for_end(&self) -> Outcome {
        let mut history = self.history.clone();
        let waiting = history.wait_for(|history| history.outcome.is_some());
        let over = matches!(tokio::time::timeout(DEADLINE, waiting).await, Ok(Ok(_)));
        assert!(over, "the stream does not end\n{}", self.report());
        self.outcome().expect("it was there when we looked")
    }

    /// Checks that the first message held all that is there now, and that nothing else has come.
    ///
    /// # Panics
    ///
    /// If there were several messages, or none.
    pub fn assert_one_message(&self) {
        let messages = self.messages();
        assert_eq!(messages.len(), 1, "one message was due\n{}", self.report());
    }

    /// Checks that these addresses have been there in every state since a point.
    ///
    /// # Panics
    ///
    /// If one was missing.
    pub fn assert_kept_since(&self, mark: Mark, addresses: &[&str]) {
        let history = self.history.borrow();
        for state in &history.states[mark.0..] {
            for address in parse_all(addresses) {
                assert!(
                    state.endpoints.contains_key(&address),
                    "{address} was missing for a while\n{}",
                    report(&self.authority, &history, self.server.as_deref()),
                );
            }
        }
    }

    /// All there is to say about the stream, for people.
    pub fn report(&self) -> String {
        report(
            &self.authority,
            &self.history.borrow(),
            self.server.as_deref(),
        )
    }
}

// === impl Endpoint, construction ===

impl Endpoint {
    /// The endpoint that a profile is about, and its address; `None` if it is about a Service.
    pub fn of_profile(profile: &DestinationProfile) -> Option<(SocketAddr, Self)> {
        let endpoint = profile.endpoint.as_ref()?;
        let address = socket(endpoint.addr.as_ref());
        Some((address, Self::new(&HashMap::new(), endpoint)))
    }

    fn new(set_labels: &HashMap<String, String>, address: &WeightedAddr) -> Self {
        let collect = |labels: &HashMap<String, String>| {
            labels
                .iter()
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect::<BTreeMap<_, _>>()
        };
        let set_labels = collect(set_labels);
        let mut labels = set_labels.clone();
        labels.extend(collect(&address.metric_labels));
        let mut content = address.clone();
        content.addr = None;
        content.metric_labels.clear();
        Self {
            labels,
            set_labels,
            content,
        }
    }
}

async fn read(connection: Channel, request: GetDestination, history: watch::Sender<History>) {
    let mut client = DestinationClient::new(connection);
    let outcome = async {
        let mut updates = client.get(request).await?.into_inner();
        while let Some(update) = updates.message().await? {
            history.send_modify(|history| history.take(&update));
        }
        Ok::<_, tonic::Status>(())
    };
    let outcome = match outcome.await {
        Ok(()) => Outcome::Ended,
        Err(status) => Outcome::Failed(status.code(), status.message().to_owned()),
    };
    history.send_modify(|history| history.end(outcome));
    // Nobody who waits for another message may be told that the sender is gone before they have seen the outcome.
    history.closed().await;
}

fn report(authority: &str, history: &History, server: Option<&Process>) -> String {
    let log = server.map_or_else(String::new, |server| server.log_tail(40));
    format!(
        "stream {authority}\noutcome: {:?}\nbroken rules: {:?}\nmessages: {:?}\nstate:\n{}log:\n{log}",
        history.outcome,
        history.violations,
        history.messages,
        history.now(),
    )
}

fn socket(address: Option<&TcpAddress>) -> SocketAddr {
    let address = address.expect("every endpoint has an address");
    let ip: IpAddr = address
        .ip
        .expect("every address has an IP")
        .try_into()
        .expect("every IP is of a family");
    let port = u16::try_from(address.port).expect("a port has 16 bits");
    SocketAddr::new(ip, port)
}

fn parse(address: &str) -> SocketAddr {
    address
        .parse()
        .unwrap_or_else(|_| panic!("{address} is no address"))
}

fn parse_all(addresses: &[&str]) -> Vec<SocketAddr> {
    addresses.iter().map(|address| parse(address)).collect()
}
