//! Hostile input: whatever clients send and clusters hold, nothing may panic.
//!
//! A [`Target`] takes any bytes to the code that reads such input. Some are the input itself; others are choices from which
//! an object is made that has the right fields and the wrong contents, since noise gets no further than a decoder. Fuzzers
//! call the targets, and so do the tests of every day, with made-up bytes and with those that fuzzers found worth keeping.

mod objects;
mod shapes;

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use prost::Message as _;
use tower::Service as _;

use super::{Dice, InProcess};
use crate::answer::Answer;
use crate::config;
use crate::frontends::destination::{ContextToken, Destination, Translation};
use crate::index::{Families, MeshPolicy, SelectPolicy};
use crate::model::{Authority, Federation, Host, PortSet, SignedDuration};
use crate::proto::destination::{DestinationProfile, GetDestination, Update};
use crate::sources::k8s::untrusted;

/// Code that reads what somebody else wrote.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also that of its corpus.
    pub name: &'static str,
    /// Reads bytes, and panics if that breaks something.
    pub run: fn(&[u8]),
}

/// Everything that reads what somebody else wrote.
pub const TARGETS: &[Target] = &[
    Target {
        name: "authority",
        run: authority,
    },
    Target {
        name: "token",
        run: token,
    },
    Target {
        name: "request",
        run: request,
    },
    Target {
        name: "texts",
        run: texts,
    },
    Target {
        name: "settings",
        run: settings,
    },
    Target {
        name: "watch",
        run: watch,
    },
    Target {
        name: "secret",
        run: secret,
    },
    Target {
        name: "kubeconfig",
        run: kubeconfig,
    },
    Target {
        name: "objects",
        run: objects,
    },
    Target {
        name: "profile",
        run: profile,
    },
];

/// What a client asks for. What is understood can be written down and is understood again; only names that come without a
/// port may have brackets in them, and mean nothing.
fn authority(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for domain in ["cluster.local", "a", ""] {
        let Ok(authority) = Authority::parse(&text, domain) else {
            continue;
        };
        assert!(authority.port > 0, "{text:?}");
        if !text.contains(':') {
            continue;
        }
        let port = authority.port;
        let again = match &authority.host {
            Host::Ip(ip) => format!("[{ip}]:{port}"),
            Host::Service { service, instance } => {
                let instance = instance
                    .as_ref()
                    .map_or(String::new(), |it| format!("{it}."));
                let (name, namespace) = (&service.name, &service.namespace);
                format!("[{instance}{name}.{namespace}.svc.{domain}]:{port}")
            }
        };
        let understood = Authority::parse(&again, domain);
        assert_eq!(understood.as_ref(), Ok(&authority), "{text:?}");
    }
}

/// What a client says of itself.
fn token(bytes: &[u8]) {
    drop(ContextToken::parse(&String::from_utf8_lossy(bytes)));
}

/// A call as it comes over the wire: half of them well-formed messages with any texts in them, half any bytes.
fn request(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let method = if first & 1 == 0 { "Get" } else { "GetProfile" };
    let message = if first & 2 == 0 {
        rest.to_vec()
    } else {
        let text = String::from_utf8_lossy(rest);
        let (path, context_token) = text.split_once('\n').unwrap_or((&text, ""));
        let message = GetDestination {
            scheme: String::new(),
            path: path.to_owned(),
            context_token: context_token.to_owned(),
        };
        message.encode_to_vec()
    };
    with_world(|world| drop(call(&world.destination(), method, &message)));
}

/// Texts that people write into objects.
fn texts(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let named = |name: &str| (name == "http").then_some(8080);
    let (ports, bad) = PortSet::parse(&text, named);
    assert!(bad.len() <= text.len() + 1 && !(ports.contains(0) && text.is_empty()));
    if let Some((federation, bad)) = Federation::parse(Some(&text), Some(&text)) {
        let ordered = federation.remote.is_sorted_by(|one, two| one < two);
        assert!(ordered && federation.remote.len() + bad.len() <= text.len() + 1);
    }
    if let Some(duration) = SignedDuration::parse(&text) {
        let (seconds, nanos) = duration.parts();
        assert!(nanos.abs() < 1_000_000_000 && seconds.signum() * i64::from(nanos) >= 0);
    }
    untrusted::read_texts(&text);
}

/// Values of flags.
fn settings(bytes: &[u8]) {
    config::read_values(&String::from_utf8_lossy(bytes));
}

/// What an API server answers to a list or a watch.
fn watch(bytes: &[u8]) {
    if let Some((first, rest)) = bytes.split_first() {
        untrusted::read_answer(*first, rest);
    }
}

/// A Secret that links a cluster, with any contents.
fn secret(bytes: &[u8]) {
    let mut dice = Dice::reading(bytes);
    for secret in dice.list(1..4, objects::secret) {
        untrusted::read_secret(&secret);
    }
}

/// The kubeconfig in such a Secret.
fn kubeconfig(bytes: &[u8]) {
    untrusted::read_kubeconfig(bytes);
}

/// Objects come and go in two clusters, and clients ask for them.
fn objects(bytes: &[u8]) {
    let mut dice = Dice::reading(bytes);
    play(&mut dice, objects::object);
}

/// The same with nothing but Services and their ServiceProfiles.
fn profile(bytes: &[u8]) {
    let mut dice = Dice::reading(bytes);
    play(&mut dice, objects::service_profile);
}

thread_local! {
    static WORLD: RefCell<Option<InProcess>> = const { RefCell::new(None) };
}

/// Uses a process in which clusters are read and empty. Whoever changes it cleans up; after a panic there is another one.
fn with_world(used: impl FnOnce(&mut InProcess)) {
    let mut world = WORLD.take().unwrap_or_else(read_and_empty);
    used(&mut world);
    WORLD.set(Some(world));
}

fn read_and_empty() -> InProcess {
    let mesh = MeshPolicy {
        controller_namespace: "linkerd".into(),
        default_opaque_ports: PortSet::parse("25,3306", |_| None).0,
        h2_upgrade: true,
        transport_header: false,
    };
    let policy = SelectPolicy {
        families: Families::Ipv6First,
        mesh: mesh.clone(),
    };
    let translation = Translation {
        mesh,
        zone_weights: true,
        http2: None,
    };
    let mut world = InProcess::new(policy, translation, Duration::ZERO);
    let east = super::cluster("east");
    world.say(super::home().begins_with([]));
    world.say([east.linked()]);
    world.say(east.begins_with([]));
    world
}

/// Says some objects one by one, while clients hold streams open, and takes them back.
fn play(dice: &mut Dice<'_>, make: fn(&mut Dice<'_>) -> objects::Said) {
    with_world(|world| {
        let destination = world.destination();
        let mut names = Vec::new();
        let mut streams = Vec::new();
        for said in dice.list(1..6, make) {
            let Some((name, change)) = said.change() else {
                continue;
            };
            names.push((said.cluster, name));
            world.say([change]);
            for (method, path) in said.questions() {
                let message = GetDestination {
                    scheme: String::new(),
                    path,
                    context_token: r#"{"ns":"a","nodeName":"n0"}"#.to_owned(),
                };
                streams.extend(call(&destination, method, &message.encode_to_vec()));
            }
            streams.iter_mut().for_each(Stream::read);
        }
        for (cluster, name) in names {
            world.say([super::cluster(cluster).delete_named(name)]);
            streams.iter_mut().for_each(Stream::read);
        }
        drop(streams);
        assert_eq!(world.catalog().service_count(), 0, "something stayed");
    });
}

/// An open stream.
struct Stream {
    method: &'static str,
    body: Answer,
    /// Bytes that are no whole message yet.
    rest: Vec<u8>,
}

/// Calls a method; `None` if it is refused, or has nothing to say yet.
fn call(destination: &Destination, method: &'static str, message: &[u8]) -> Option<Stream> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).ok()?.to_be_bytes());
    framed.extend(message);
    let body = tonic::body::Body::new(http_body_util::Full::new(Bytes::from(framed)));
    let request = http::Request::post(format!(
        "/io.linkerd.proxy.destination.Destination/{method}"
    ))
    .header("content-type", "application/grpc")
    .body(body)
    .ok()?;
    let response = pin!(destination.clone().call(request));
    match response.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Pending => None,
        Poll::Ready(Ok(response)) if response.headers().contains_key("grpc-status") => None,
        Poll::Ready(Ok(response)) => Some(Stream {
            method,
            body: response.into_body(),
            rest: Vec::new(),
        }),
    }
}

// === impl Stream ===

impl Stream {
    /// Reads what there is. All of it has to be messages.
    fn read(&mut self) {
        let mut frames = (&mut self.body).into_data_stream();
        while let Poll::Ready(Some(Ok(data))) =
            frames.poll_next_unpin(&mut Context::from_waker(Waker::noop()))
        {
            self.rest.extend_from_slice(&data);
        }
        let mut rest = &self.rest[..];
        while let Some((length, after)) = rest
            .get(1..)
            .and_then(|prefix| prefix.split_first_chunk::<4>())
        {
            let length = u32::from_be_bytes(*length) as usize;
            let Some((message, after)) = after.split_at_checked(length) else {
                break;
            };
            let decoded = match self.method {
                "Get" => Update::decode(message).map(drop),
                _ => DestinationProfile::decode(message).map(drop),
            };
            assert!(decoded.is_ok(), "{decoded:?}");
            rest = after;
        }
        self.rest = rest.to_vec();
    }
}
