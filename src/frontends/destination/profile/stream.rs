//! The life of one `GetProfile` stream.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::Subject;
use super::told::{Shared, Told};
use crate::answer::Piece;
use crate::frontends::destination::dispatch::Refusal;
use crate::frontends::destination::metrics::OpenStream;
use crate::frontends::destination::stream::{NotOpened, home_known};
use crate::frontends::destination::translate::Translation;
use crate::frontends::ending::Ending;
use crate::index::{AddressOwner, ClusterState, Conflict, Held, Holder, Joined};
use crate::model::{ClusterRole, Namespace, ProfileFacts, ProfileName, ServiceName, Text};
use crate::publish::{Catalog, Look, Reader};

/// What a client asked for, and from where.
#[derive(Clone, Debug)]
pub(in crate::frontends::destination) struct Request {
    pub(in crate::frontends::destination) asked: Asked,
    pub(in crate::frontends::destination) port: u16,
    /// The client's own namespace.
    pub(in crate::frontends::destination) namespace: Option<Namespace>,
}

/// Who a client asked for.
#[derive(Clone, Debug)]
pub(in crate::frontends::destination) enum Asked {
    /// A Service, and the name that the client has for it.
    Service(ServiceName, Text),
    /// One instance of a Service.
    Instance(ServiceName, Text),
    /// An address.
    Address(IpAddr),
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub(in crate::frontends::destination) enum NoProfile {
    #[error(transparent)]
    NotOpened(#[from] NotOpened),
    #[error("service {0} has no instance {1}")]
    NoSuchInstance(ServiceName, Text),
    #[error("the Pod behind instance {1} of service {0} is not known")]
    InstanceUnknown(ServiceName, Text),
    #[error("{1} claim {0}")]
    Conflict(SocketAddr, Conflict),
}

/// Makes profiles for streams. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::frontends::destination) struct Profiles {
    catalog: Catalog,
    translation: Arc<Translation>,
    cluster_domain: Text,
    shared: Arc<Shared>,
}

/// A stream that has something to say.
#[derive(Debug)]
pub(in crate::frontends::destination) struct Opened {
    question: Question,
    reader: Reader,
    first: Arc<Told>,
}

/// What is asked, in the terms of what is known, and what has been answered.
#[derive(Debug)]
struct Question {
    profiles: Profiles,
    target: Target,
    port: u16,
    namespace: Option<Namespace>,
    stage: Stage,
    /// Whether the last answer was that the port is not defined.
    undefined: bool,
}

#[derive(Debug)]
enum Target {
    Service {
        service: ServiceName,
        fqn: Text,
    },
    Address {
        ip: IpAddr,
        /// Who was said to have it.
        owner: AddressOwner,
    },
}

/// What is not there, or not clear, keeps a stream from beginning, but ends none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Open,
}

/// Sends one profile after another, each when it differs from the one before.
#[derive(Debug)]
struct Running {
    question: Question,
    reader: Reader,
    told: Arc<Told>,
    unsent: bool,
    /// When what it tells of was learnt; `None` if that is what it tells first.
    since: Option<Instant>,
    ending: Ending,
    open_stream: OpenStream,
}

// === impl Profiles ===

impl Profiles {
    /// Profiles of what a catalog knows.
    pub(in crate::frontends::destination) fn new(
        catalog: Catalog,
        translation: Arc<Translation>,
        cluster_domain: &str,
    ) -> Self {
        Self {
            catalog,
            translation,
            cluster_domain: cluster_domain.into(),
            shared: Arc::default(),
        }
    }

    /// Finds who is asked for, and waits until there is an answer that may be given.
    ///
    /// Everything at home has to be known. An address that nobody has there may be one of a linked cluster, so that
    /// clusters that have not been read are waited for. No request waits longer than one grace time, and for no cluster
    /// longer than that since it was linked. Response headers are held back until then.
    pub(in crate::frontends::destination) async fn open(
        &self,
        request: Request,
        grace: Duration,
        shutdown: &CancellationToken,
    ) -> Result<Opened, NoProfile> {
        let patience = Instant::now() + grace;
        home_known(&self.catalog, patience, shutdown).await?;
        let mut question = self.question(request)?;
        let mut reader = self.catalog.reader();
        let mut clusters = self.catalog.watch_clusters();
        loop {
            clusters.mark_unchanged();
            let subject = question.subject(&mut reader)?;
            let until = self
                .may_be_known_until(&subject, grace)
                .map(|until| until.min(patience));
            match until {
                Some(until) if until > Instant::now() => tokio::select! {
                    () = shutdown.cancelled() => return Err(NotOpened::ShuttingDown.into()),
                    () = tokio::time::sleep_until(until) => {}
                    _ = clusters.changed() => {}
                    () = reader.changed() => {}
                },
                _ => {
                    question.stage = Stage::Open;
                    return Ok(Opened {
                        question,
                        reader,
                        first: self.shared.tell(subject, &self.translation),
                    });
                }
            }
        }
    }

    fn question(&self, request: Request) -> Result<Question, NoProfile> {
        let mut stage = Stage::Opening;
        let target = match request.asked {
            Asked::Service(service, fqn) => Target::Service { service, fqn },
            Asked::Address(ip) => Target::Address {
                ip,
                owner: AddressOwner::Nobody,
            },
            Asked::Instance(service, hostname) => {
                // The name says whose address it is, whoever else claims it.
                stage = Stage::Open;
                self.instance(service, hostname)?
            }
        };
        Ok(Question {
            profiles: self.clone(),
            target,
            port: request.port,
            namespace: request.namespace,
            stage,
            undefined: false,
        })
    }

    /// The address of an instance: that of its Pod, or of the endpoint where there is none. It stays what it is now.
    fn instance(&self, service: ServiceName, hostname: Text) -> Result<Target, NoProfile> {
        let chunks = self.catalog.instances(&service).unwrap_or_default();
        let instance = chunks
            .iter()
            .flat_map(|chunk| chunk.endpoints())
            .find(|(endpoint, _)| endpoint.hostname.as_ref() == Some(&hostname));
        let Some((endpoint, joined)) = instance else {
            return Err(NoProfile::NoSuchInstance(service, hostname));
        };
        let (ip, pod) = match joined {
            Joined::Pod(workload) => {
                let own = workload.facts.ips.first().copied();
                (own.unwrap_or(endpoint.address), Some(&workload.pod))
            }
            Joined::Held(Held::PodUnknown) => {
                return Err(NoProfile::InstanceUnknown(service, hostname));
            }
            Joined::Address
            | Joined::ExternalWorkload(_)
            | Joined::Unreadable
            | Joined::Held(_) => (endpoint.address, None),
        };
        let address = self.catalog.address(ip);
        let holder = address
            .pods
            .iter()
            .find(|holder| Some(&holder.workload.pod) == pod);
        Ok(Target::Address {
            ip,
            owner: holder.map_or(AddressOwner::Nobody, Holder::as_owner),
        })
    }

    /// Until when a linked cluster that has not been read may say whose an address is, if any may.
    fn may_be_known_until(&self, subject: &Subject, grace: Duration) -> Option<Instant> {
        let Subject::Endpoint {
            socket,
            tenant: None,
        } = subject
        else {
            return None;
        };
        if !self.catalog.address(socket.ip()).is_free_at_home() {
            return None;
        }
        let clusters = self.catalog.clusters();
        let unread = clusters.iter().filter(|known| {
            known.role == ClusterRole::Linked && known.state == ClusterState::Syncing
        });
        unread
            .map(|known| self.catalog.known_since(&known.name) + grace)
            .max()
    }

    fn full_name(&self, service: &ServiceName) -> Text {
        let ServiceName { namespace, name } = service;
        format!("{name}.{namespace}.svc.{}", self.cluster_domain).into()
    }
}

// === impl Question ===

impl Question {
    /// What the answer is about now, or why there is none.
    fn subject(&mut self, reader: &mut Reader) -> Result<Subject, NoProfile> {
        let subject = reader.look(|look| self.look(look))?;
        self.undefined = subject == Subject::UndefinedPort;
        Ok(subject)
    }

    fn look(&mut self, look: &mut Look<'_>) -> Result<Subject, NoProfile> {
        let port = self.port;
        let (service, fqn) = match &mut self.target {
            Target::Service { service, fqn } => (service.clone(), fqn.clone()),
            Target::Address { ip, owner } => {
                let socket = SocketAddr::new(*ip, port);
                let address = look.address(*ip);
                *owner = match self.stage {
                    Stage::Opening => address
                        .owner(*ip, port)
                        .map_err(|conflict| NoProfile::Conflict(socket, conflict))?,
                    Stage::Open => address.owner_after(owner, *ip, port),
                };
                let tenant = match owner {
                    AddressOwner::Service(service) => {
                        let service = service.clone();
                        let fqn = self.profiles.full_name(&service);
                        return self.service(look, service, fqn);
                    }
                    AddressOwner::Workload(tenant) => Some(tenant.clone()),
                    AddressOwner::Nobody => None,
                };
                return Ok(Subject::Endpoint { socket, tenant });
            }
        };
        self.service(look, service, fqn)
    }

    /// What is said of a port of a Service. One that is gone is answered as one that says nothing of itself.
    fn service(
        &self,
        look: &mut Look<'_>,
        service: ServiceName,
        fqn: Text,
    ) -> Result<Subject, NoProfile> {
        let facts = look.service(&service);
        match &facts {
            None if self.stage == Stage::Opening => {
                return Err(NotOpened::from(Refusal::ServiceNotFound(service)).into());
            }
            None if self.undefined => return Ok(Subject::UndefinedPort),
            Some(facts) if !facts.defines(self.port) => return Ok(Subject::UndefinedPort),
            Some(facts) if facts.external_name => {
                return Err(NotOpened::from(Refusal::ExternalName(service)).into());
            }
            None | Some(_) => {}
        }
        let opaque_ports = facts
            .as_ref()
            .and_then(|facts| facts.opaque_ports.as_ref())
            .unwrap_or(&self.profiles.translation.mesh.default_opaque_ports);
        Ok(Subject::Service {
            opaque: opaque_ports.contains(self.port),
            profile: self.profile(look, &service),
            service,
            fqn,
            port: self.port,
        })
    }

    /// The ServiceProfile that applies: the one in the client's own namespace, else the one in the Service's.
    fn profile(
        &self,
        look: &mut Look<'_>,
        service: &ServiceName,
    ) -> Option<(ProfileName, Arc<ProfileFacts>)> {
        let full_name = self.profiles.full_name(service);
        [self.namespace.as_ref(), Some(&service.namespace)]
            .into_iter()
            .flatten()
            .find_map(|namespace| {
                let name = ProfileName::new(namespace.clone(), full_name.clone());
                let facts = look.profile(&name)?;
                Some((name, facts))
            })
    }
}

// === impl Opened ===

impl Opened {
    /// The messages of the stream, framed, until the client leaves, the process shuts down, or the Service turns into
    /// something that has no profiles. What it remembers of the past is the profile that it sent last.
    pub(in crate::frontends::destination) fn run(
        self,
        ending: Ending,
        open_stream: OpenStream,
    ) -> impl Stream<Item = Piece> + Send {
        Running {
            question: self.question,
            reader: self.reader,
            told: self.first,
            unsent: true,
            since: None,
            ending,
            open_stream,
        }
    }
}

// === impl Running ===

impl Stream for Running {
    type Item = Piece;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Piece>> {
        let this = &mut *self;
        loop {
            if std::mem::take(&mut this.unsent) {
                let (bytes, since) = (this.told.frame.clone(), this.since);
                this.open_stream.sent(bytes.len());
                return Poll::Ready(Some(Piece { bytes, since }));
            }
            if this.ending.poll_ended(context).is_ready() {
                return Poll::Ready(None);
            }
            this.since = Some(ready!(this.reader.poll_changed(context)));
            let subject = match this.question.subject(&mut this.reader) {
                Ok(subject) if subject == this.told.subject => continue,
                Ok(subject) => subject,
                Err(reason) => {
                    debug!(%reason, "there is no profile any more, stream ends");
                    return Poll::Ready(None);
                }
            };
            let Profiles {
                shared,
                translation,
                ..
            } = &this.question.profiles;
            let told = shared.tell(subject, translation);
            this.unsent = told.frame != this.told.frame;
            this.told = told;
        }
    }
}

#[cfg(test)]
mod tests;
