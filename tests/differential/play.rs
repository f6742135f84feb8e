//! Plays a history to the product and to the rules, and compares what clients are told.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tributary::frontends::destination::{Http2Params, Translation};
use tributary::index::{
    Change, Families, Kind, MeshPolicy, Object as Fact, ObjectName, SelectPolicy,
};
use tributary::model::PortSet;
use tributary::sources::k8s::convert::decode;
use tributary::testing::{Dice, InProcess, cluster};

use super::answer::{Answer, Told};
use super::history::{Asked, Event, History, Host, Method, Saying, Setting, Speaker, Step, edited};
use super::objects::Object;
use super::reader::Reader;
use super::rules::{Memory, Said, World};

/// Longer than any test: clients wait for ever.
const PATIENCE: Duration = Duration::from_hours(24);

/// Whether requests wait for what has not been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Endless,
    None,
}

/// How often something was seen, by what it was.
pub(crate) type Seen = BTreeMap<String, usize>;

/// How a history failed.
pub(crate) struct Failure {
    pub(crate) error: String,
    /// The steps up to there, with everything in them that was found when it happened.
    pub(crate) steps: Vec<Step>,
}

/// Plays a history. Fails if the product said something else than the rules, broke a rule of the protocol, or panicked.
pub(crate) fn play(history: &History, patience: Patience) -> Result<Seen, Failure> {
    let mut steps = Vec::new();
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut play = Play::new(history, patience);
        for (place, step) in history.steps.iter().enumerate() {
            steps.push(play.exactly(step));
            play.step(step)
                .map_err(|error| format!("step {place}: {error}"))?;
        }
        Ok(play.seen)
    }));
    let played = played.unwrap_or_else(|panic| Err(format!("it panicked: {}", text_of(&*panic))));
    played.map_err(|error| Failure { error, steps })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("?")
}

struct Play<'a> {
    history: &'a History,
    product: InProcess,
    world: World,
    /// The latest session with each cluster; numbers are not used again.
    sessions: BTreeMap<&'static str, u64>,
    clients: Vec<Client>,
    seen: Seen,
}

/// A stream of the product's, and what the rules know of it.
struct Client {
    reader: Reader,
    memory: Memory,
    told: Option<Answer>,
}

// === impl Play ===

impl<'a> Play<'a> {
    fn new(history: &'a History, patience: Patience) -> Self {
        let (policy, translation) = settings(history.setting);
        let grace = match patience {
            Patience::Endless => PATIENCE,
            Patience::None => Duration::ZERO,
        };
        Self {
            history,
            product: InProcess::new(policy, translation, grace),
            world: World::new(history.setting, patience == Patience::Endless),
            sessions: BTreeMap::new(),
            clients: history.readers.iter().map(Client::new).collect(),
            seen: Seen::new(),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        self.happen(&step.event)?;
        for place in &step.reads {
            self.compare(*place)
                .map_err(|error| format!("client {place}: {error}"))?;
        }
        Ok(())
    }

    fn happen(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Nothing => {}
            Event::Link(name) => {
                self.product.say([cluster(name).linked()]);
                self.world.link(name);
            }
            Event::Unlink(name) => {
                self.product.say([cluster(name).unlinked()]);
                self.world.unlink(name);
            }
            Event::LinksKnown => {
                self.product.say([Change::LinksKnown]);
                self.world.links_known();
            }
            Event::Open(name, trust_domain) => {
                let id = self.sessions.entry(name).or_default();
                *id += 1;
                let opened = cluster(name).trusting(trust_domain).session(*id).opened();
                self.product.say([opened]);
                self.world.open(name, trust_domain, *id);
            }
            Event::Say(name, speaker, saying) => {
                let id = self.session(name, *speaker);
                for said in self.meant(name, id, saying) {
                    let change = change(name, id, &said)?;
                    self.product.say([change]);
                    self.world.hear(name, id, &said);
                }
            }
        }
        Ok(())
    }

    /// The step as it is meant now.
    fn exactly(&self, step: &Step) -> Step {
        let mut step = step.clone();
        if let Event::Say(name, speaker, saying) = &mut step.event {
            let id = self.session(name, *speaker);
            **saying = Saying::Exactly(self.meant(name, id, saying));
        }
        step
    }

    fn session(&self, name: &str, speaker: Speaker) -> u64 {
        let latest = self.sessions.get(name).copied().unwrap_or_default();
        match speaker {
            Speaker::Latest => latest,
            Speaker::Previous => latest.saturating_sub(1),
        }
    }

    /// What is said, given what has been said before; nothing if it makes no sense now.
    fn meant(&self, name: &str, id: u64, saying: &Saying) -> Vec<Said> {
        let Some(session) = self.world.session(name, id) else {
            // It is over: nothing that is said in it counts.
            return match saying {
                Saying::Apply(object) => vec![Said::Apply(Object::clone(object))],
                Saying::Exactly(said) => said.clone(),
                _ => Vec::new(),
            };
        };
        let one = |seed: u64| {
            let mut dice = Dice::seeded(seed);
            let place = dice.below(session.objects.len().max(1));
            session.objects.get(place)
        };
        let of_kind = |kind: Kind| {
            session
                .objects
                .iter()
                .filter(move |it| it.kind() == kind)
                .cloned()
        };
        match saying {
            Saying::Apply(object) if !session.watches(object.kind()) => Vec::new(),
            Saying::Apply(object) => vec![Said::Apply(Object::clone(object))],
            Saying::Edit(seed) => {
                let edit = |object: &Object| Said::Apply(edited(object, *seed));
                one(*seed).map(edit).into_iter().collect()
            }
            Saying::Delete(seed) => one(*seed).cloned().map(Said::Delete).into_iter().collect(),
            Saying::List(kind, ..) | Saying::Deny(kind) if !session.watches(*kind) => Vec::new(),
            Saying::List(kind, kept, more) => {
                let kept = of_kind(*kind)
                    .enumerate()
                    .filter(|(place, _)| kept & (1 << (place % 16)) != 0)
                    .map(|(_, object)| object);
                vec![Said::List(
                    *kind,
                    distinct(kept.chain(more.iter().cloned())),
                )]
            }
            Saying::ListRest => {
                let unread = session.unread().into_iter();
                let known = self.world.known(name).iter();
                let all = distinct(known.chain(&session.objects).cloned());
                let of_kind = |kind| all.iter().filter(move |it| it.kind() == kind).cloned();
                unread
                    .map(|kind| Said::List(kind, of_kind(kind).collect()))
                    .collect()
            }
            Saying::Deny(kind) => vec![Said::Deny(*kind)],
            Saying::Exactly(said) => said.clone(),
        }
    }

    /// Lets one client read, and another one ask the same anew.
    fn compare(&mut self, place: usize) -> Result<(), String> {
        let asked = &self.history.readers[place];
        let destination = self.product.destination();
        let exists = match asked.host {
            Host::Service(name, namespace) | Host::Instance(_, name, namespace) => {
                self.world.has_service(namespace, name)
            }
            Host::Address(_) => false,
        };
        let client = &mut self.clients[place];
        let was_told = client.told.take();
        let read = client
            .reader
            .read(&destination, exists)
            .map_err(|error| format!("{}: {error}", asked.path()))?;
        let ruled = self.world.answer(asked, &mut client.memory);
        agree(asked, "the open stream", &read, &ruled)?;
        let fresh = Reader::new(asked.clone())
            .read(&destination, exists)
            .map_err(|error| format!("{} anew: {error}", asked.path()))?;
        let ruled = self.world.answer(asked, &mut Memory::default());
        agree(asked, "a new stream", &fresh, &ruled)?;
        if asked.method == Method::Get
            && let (Answer::Endpoints(_), Answer::Endpoints(_)) = (&read, &fresh)
        {
            agree(asked, "the open stream beside a new one", &read, &fresh)?;
        }
        let is_news = was_told.as_ref() != Some(&read);
        self.note(asked, &read, is_news && was_told.is_some());
        self.note(asked, &fresh, false);
        self.clients[place].told = Some(read);
        Ok(())
    }

    fn note(&mut self, asked: &Asked, answer: &Answer, is_update: bool) {
        let method = match asked.method {
            Method::Get => "Get",
            Method::GetProfile => "GetProfile",
        };
        let mut see = |what: &str| {
            *self.seen.entry(format!("{method}: {what}")).or_default() += 1;
        };
        if is_update {
            see("something else than before");
        }
        match answer {
            Answer::Waiting => see("waiting"),
            Answer::Ended => see("ended"),
            Answer::Refused(code) => see(&format!("refused, {code:?}")),
            Answer::Endpoints(endpoints) if endpoints.is_empty() => see("no endpoints"),
            Answer::Endpoints(endpoints) => {
                see("endpoints");
                for told in endpoints.values() {
                    note_endpoint(told, &mut see);
                }
            }
            Answer::Profile(profile) => {
                see(match (&profile.service, &profile.endpoint) {
                    (Some(_), _) => "of a Service",
                    (_, Some(_)) => "of an address",
                    _ => "empty",
                });
                if profile.from.is_some() {
                    see("with a ServiceProfile");
                }
                if !profile.routes.is_empty() {
                    see("with routes");
                }
                if let Some((_, told)) = &profile.endpoint {
                    note_endpoint(told, &mut see);
                }
            }
        }
    }
}

fn note_endpoint(told: &Told, see: &mut impl FnMut(&str)) {
    for (label, what) in [
        ("pod", "a Pod"),
        ("external_workload", "an ExternalWorkload"),
        ("target_service", "a gateway"),
        ("target_cluster", "a linked cluster"),
    ] {
        if told.labels.contains_key(label) {
            see(what);
        }
    }
    match told.hint {
        Some("h2") => see("hint of HTTP/2"),
        Some("opaque") => see("hint of opacity"),
        _ => {}
    }
    if told.identity.is_some() {
        see("an identity");
    }
    if told.inbound_port.is_some() {
        see("a port of a proxy");
    }
}

/// The last one of each name.
fn distinct(objects: impl Iterator<Item = Object>) -> Vec<Object> {
    let mut distinct: Vec<Object> = Vec::new();
    for object in objects {
        distinct.retain(|known| known.key() != object.key());
        distinct.push(object);
    }
    distinct
}

fn agree(asked: &Asked, who: &str, said: &Answer, expected: &Answer) -> Result<(), String> {
    if said == expected {
        return Ok(());
    }
    Err(format!(
        "{who} differs for {:?} {}\n asked: {asked:?}\n  said: {said:#?}\nshould: {expected:#?}",
        asked.method,
        asked.path(),
    ))
}

/// What the source of a cluster makes of it.
fn change(name: &str, id: u64, said: &Said) -> Result<Change, String> {
    let says = cluster(name).session(id);
    Ok(match said {
        Said::Apply(object) => match fact(object)? {
            (_, Some(fact)) => says.apply(fact),
            (name, None) => says.delete_named(name),
        },
        Said::Delete(object) => says.delete_named(fact(object)?.0),
        Said::List(kind, objects) => {
            let facts: Vec<_> = objects.iter().map(fact).collect::<Result<_, _>>()?;
            says.resync(*kind, facts.into_iter().filter_map(|(_, fact)| fact))
        }
        Said::Deny(kind) => says.unreadable(*kind),
    })
}

fn fact(object: &Object) -> Result<(ObjectName, Option<Fact>), String> {
    let decoded = decode(object.kind(), object.to_json()).map_err(|error| error.to_string())?;
    let converted = decoded.ok_or("an object without a name")?;
    Ok((converted.name, converted.object))
}

fn settings(setting: Setting) -> (SelectPolicy, Translation) {
    let default_opaque_ports = if setting.opaque_by_default {
        "8081"
    } else {
        ""
    };
    let mesh = MeshPolicy {
        controller_namespace: "linkerd".into(),
        default_opaque_ports: PortSet::parse(default_opaque_ports, |_| None).0,
        h2_upgrade: setting.h2_upgrade,
        transport_header: setting.transport_header,
    };
    let policy = SelectPolicy {
        families: if setting.ipv6 {
            Families::Ipv6First
        } else {
            Families::Ipv4
        },
        mesh: mesh.clone(),
    };
    let translation = Translation {
        mesh,
        zone_weights: setting.zone_weights,
        http2: Some(Http2Params::default()),
    };
    (policy, translation)
}

// === impl Client ===

impl Client {
    fn new(asked: &Asked) -> Self {
        Self {
            reader: Reader::new(asked.clone()),
            memory: Memory::default(),
            told: None,
        }
    }
}
