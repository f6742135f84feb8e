//! How one session is doing, as operators see it.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::failure::{Failure, FailureClass};
use crate::index::Kind;
use crate::model::{ClusterFacts, ClusterName};
use crate::publish::{Connection, KindStatus, StatusBoard};

/// The state of each watch of a session, and what of it goes onto the board.
///
/// While new credentials are tried, two sessions have one place on the board: the new one tells whether the cluster can
/// be used, the old one how fresh the objects are that answers are made of.
#[derive(Debug)]
pub(super) struct Health {
    cluster: ClusterName,
    board: StatusBoard,
    /// A leaf lock: held while the board is written, so that its lines come in the order of what happened.
    state: Mutex<Spoken>,
}

/// Which parts of the board a session writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Voice {
    pub(super) connection: bool,
    pub(super) kinds: bool,
}

#[derive(Debug)]
struct Spoken {
    voice: Voice,
    kinds: BTreeMap<Kind, (KindStatus, WatchState)>,
}

/// How one watch is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WatchState {
    Starting,
    /// It works, or it need not.
    Fine,
    Failing(Connection),
}

// === impl Health ===

impl Health {
    pub(super) fn new(facts: &ClusterFacts, board: StatusBoard, voice: Voice) -> Self {
        let kinds = Kind::watched_in(facts.role, facts.endpoint_kind)
            .iter()
            .map(|kind| (*kind, (KindStatus::Syncing, WatchState::Starting)))
            .collect();
        Self {
            cluster: facts.name.clone(),
            board,
            state: Mutex::new(Spoken { voice, kinds }),
        }
    }

    /// Changes which parts of the board the session writes, and writes what it has to say there.
    pub(super) fn speak(&self, voice: Voice) {
        let mut state = self.state.lock();
        state.voice = voice;
        if voice.kinds {
            for (kind, (status, _)) in &state.kinds {
                self.board.report_kind(&self.cluster, *kind, *status);
            }
        }
        self.report_connection(&state);
    }

    /// A kind has been listed completely.
    pub(super) fn listed(&self, kind: Kind) {
        self.set(kind, KindStatus::Watched, WatchState::Fine);
    }

    /// The watch of a kind that has been listed gave a sign of life.
    pub(super) fn heard(&self, kind: Kind) {
        let mut state = self.state.lock();
        if state.voice.kinds {
            self.board.heard(&self.cluster, kind);
        }
        if let Some((KindStatus::Watched, watch @ WatchState::Failing(_))) =
            state.kinds.get_mut(&kind)
        {
            *watch = WatchState::Fine;
            self.report_connection(&state);
        }
    }

    /// The watch of a kind failed; `origin` says what to look at, such as the Secret that has the credentials.
    pub(super) fn failed(&self, kind: Kind, failure: &Failure, origin: &str) {
        let reason = || format!("{} [{origin}]", failure.reason);
        let resource = kind.resource();
        let watch = match failure.class {
            FailureClass::Expired => return,
            FailureClass::Forbidden | FailureClass::Absent if kind.is_optional() => {
                WatchState::Fine
            }
            FailureClass::Forbidden => WatchState::Failing(Connection::Rejected(format!(
                "not allowed to list and watch {resource}, grant both cluster-wide: {} [{origin}]",
                failure.reason
            ))),
            FailureClass::Absent => WatchState::Failing(Connection::Rejected(format!(
                "it has no {resource}, is it a Kubernetes API server? {}",
                reason()
            ))),
            FailureClass::Unauthorized | FailureClass::Unusable => {
                WatchState::Failing(Connection::Rejected(reason()))
            }
            FailureClass::Unreachable
            | FailureClass::Untrusted
            | FailureClass::Overloaded
            | FailureClass::Unsupported
            | FailureClass::Garbled => WatchState::Failing(Connection::Unreachable(reason())),
        };
        match (failure.class, kind.is_optional()) {
            (FailureClass::Forbidden, true) => self.set(kind, KindStatus::Denied, watch),
            (FailureClass::Absent, true) => self.set(kind, KindStatus::Absent, watch),
            _ => {
                let mut state = self.state.lock();
                if let Some((_, current)) = state.kinds.get_mut(&kind) {
                    *current = watch;
                }
                self.report_connection(&state);
            }
        }
    }

    fn set(&self, kind: Kind, status: KindStatus, watch: WatchState) {
        let mut state = self.state.lock();
        state.kinds.insert(kind, (status, watch));
        if state.voice.kinds {
            self.board.report_kind(&self.cluster, kind, status);
        }
        self.report_connection(&state);
    }

    fn report_connection(&self, state: &Spoken) {
        if state.voice.connection {
            self.board.report(&self.cluster, state.connection());
        }
    }
}

// === impl Spoken ===

impl Spoken {
    /// The worst of its watches; the first in order speaks for those that fail alike.
    fn connection(&self) -> Connection {
        let failing = || {
            self.kinds.values().filter_map(|(_, watch)| match watch {
                WatchState::Failing(connection) => Some(connection),
                WatchState::Starting | WatchState::Fine => None,
            })
        };
        failing()
            .find(|connection| matches!(connection, Connection::Rejected(_)))
            .or_else(|| failing().next())
            .cloned()
            .unwrap_or_else(|| {
                if self
                    .kinds
                    .values()
                    .any(|(_, watch)| *watch == WatchState::Starting)
                {
                    Connection::Connecting
                } else {
                    Connection::Connected
                }
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClusterRole, EndpointKind};

    const ALL: Voice = Voice {
        connection: true,
        kinds: true,
    };

    fn health() -> (Health, StatusBoard) {
        health_of(EndpointKind::EndpointSlice)
    }

    fn health_of(endpoint_kind: EndpointKind) -> (Health, StatusBoard) {
        let board = StatusBoard::default();
        let facts = ClusterFacts {
            name: "west".into(),
            role: ClusterRole::Linked,
            trust_domain: "west.example".into(),
            endpoint_kind,
        };
        board.add(&facts.name, facts.role, facts.endpoint_kind);
        let health = Health::new(&facts, board.clone(), ALL);
        (health, board)
    }

    fn connection(board: &StatusBoard) -> String {
        let status = board
            .status(&ClusterName::from("west"))
            .expect("on the board");
        match status.connection {
            Connection::Connecting => "connecting".to_owned(),
            Connection::Connected => "connected".to_owned(),
            Connection::Unreachable(reason) => format!("unreachable: {reason}"),
            Connection::Rejected(reason) => format!("rejected: {reason}"),
        }
    }

    fn list_all(health: &Health) {
        for kind in Kind::watched_in(ClusterRole::Linked, EndpointKind::EndpointSlice) {
            health.listed(*kind);
        }
    }

    #[test]
    fn connected_means_that_every_watch_works() {
        let (health, board) = health();
        health.listed(Kind::Service);
        assert_eq!(connection(&board), "connecting");
        list_all(&health);
        assert_eq!(connection(&board), "connected");
        health.failed(
            Kind::Pod,
            &Failure::new(FailureClass::Unreachable, "connection refused"),
            "x",
        );
        assert_eq!(connection(&board), "unreachable: connection refused [x]");
        health.heard(Kind::Service);
        assert_eq!(connection(&board), "unreachable: connection refused [x]");
        health.heard(Kind::Pod);
        assert_eq!(connection(&board), "connected");
    }

    #[test]
    fn what_is_optional_does_not_disconnect() {
        let (health, board) = health();
        list_all(&health);
        let forbidden = Failure::new(FailureClass::Forbidden, "not allowed (403): no");
        health.failed(Kind::Pod, &forbidden, "x");
        assert_eq!(connection(&board), "connected");
        health.failed(Kind::EndpointSlice, &forbidden, "x");
        assert!(
            connection(&board)
                .starts_with("rejected: not allowed to list and watch endpointslices")
        );
    }

    #[test]
    fn without_the_right_to_its_endpoints_a_cluster_is_rejected_and_the_kind_named() {
        let (health, board) = health_of(EndpointKind::Endpoints);
        let forbidden = Failure::new(FailureClass::Forbidden, "not allowed (403): no");
        health.failed(Kind::Endpoints, &forbidden, "x");
        assert_eq!(
            connection(&board),
            "rejected: not allowed to list and watch endpoints, grant both cluster-wide: not allowed (403): no [x]"
        );
    }

    #[test]
    fn an_outdated_version_is_no_trouble() {
        let (health, board) = health();
        list_all(&health);
        health.failed(
            Kind::Pod,
            &Failure::new(FailureClass::Expired, "too old"),
            "x",
        );
        assert_eq!(connection(&board), "connected");
    }

    #[test]
    fn a_muted_session_speaks_up_when_asked() {
        let (health, board) = health();
        list_all(&health);
        health.speak(Voice {
            connection: false,
            kinds: true,
        });
        health.failed(
            Kind::Pod,
            &Failure::new(FailureClass::Unreachable, "gone"),
            "x",
        );
        assert_eq!(connection(&board), "connected");
        health.speak(ALL);
        assert_eq!(connection(&board), "unreachable: gone [x]");
    }
}
