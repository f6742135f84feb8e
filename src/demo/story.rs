//! What happens in the demonstration, in order. Pure, and endless: the end leaves everything as the beginning wants it.

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The cluster that it happens in.
    pub(super) cluster: &'static str,
    /// What it is called, for people.
    pub(super) says: &'static str,
    /// What it does.
    pub(super) act: Act,
}

/// What may happen in a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// A Pod starts, and is listed as not ready.
    Start(NewPod),
    /// A Pod begins or ceases to be ready.
    Ready(Pod, bool),
    /// A Pod is asked to end: it still serves what it has.
    Terminate(Pod),
    /// A Pod is gone.
    Delete(Pod),
    /// Manifests are applied.
    Apply(&'static str),
    /// What manifests define is deleted.
    Withdraw(&'static str),
    /// The Secret that links the cluster is deleted.
    Unlink,
    /// The Secret that links the cluster is made again.
    Link,
}

/// A Pod by name, and the Service that lists it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pod {
    pub(super) service: &'static str,
    pub(super) name: &'static str,
}

/// A Pod that is made as another one was.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewPod {
    pub(super) pod: Pod,
    pub(super) like: &'static str,
    pub(super) ip: &'static str,
}

/// A Service that comes and goes.
pub(super) const CART: &str = include_str!("manifests/cart.yaml");

const WEB_0: Pod = web("web-0");
const WEB_1: Pod = web("web-1");
const WEB_2: Pod = web("web-2");

/// The story.
pub(super) const STEPS: &[Step] = &[
    step(
        "west",
        "web-2 started, not ready yet",
        start(WEB_2, "10.50.0.14"),
    ),
    step("west", "web-2 became ready", Act::Ready(WEB_2, true)),
    step(
        "home",
        "new Service cart, try: endpoints cart.shop",
        Act::Apply(CART),
    ),
    step("home", "web-1 is not ready", Act::Ready(WEB_1, false)),
    step("home", "web-1 is ready again", Act::Ready(WEB_1, true)),
    step("west", "web-0 is terminating", Act::Terminate(WEB_0)),
    step("west", "web-0 ended", Act::Delete(WEB_0)),
    step(
        "west",
        "web-0 started anew at another address",
        start(WEB_0, "10.50.0.17"),
    ),
    step("west", "web-0 became ready", Act::Ready(WEB_0, true)),
    step("east", "was unlinked", Act::Unlink),
    step("east", "was linked again", Act::Link),
    step("west", "web-2 is terminating", Act::Terminate(WEB_2)),
    step("west", "web-2 ended", Act::Delete(WEB_2)),
    step("home", "Service cart was deleted", Act::Withdraw(CART)),
];

const fn start(pod: Pod, ip: &'static str) -> Act {
    Act::Start(NewPod {
        pod,
        like: "web-1",
        ip,
    })
}

const fn step(cluster: &'static str, says: &'static str, act: Act) -> Step {
    Step { cluster, says, act }
}

const fn web(name: &'static str) -> Pod {
    Pod {
        service: "web",
        name,
    }
}

// === impl Act ===

impl Act {
    /// What it does to the objects, as a cause.
    pub(super) fn cause(self) -> &'static str {
        match self {
            Self::Start(_) | Self::Ready(..) | Self::Terminate(_) | Self::Delete(_) => {
                "the slice changed"
            }
            Self::Apply(_) => "it was applied",
            Self::Withdraw(_) => "it was deleted",
            Self::Unlink => "the link was gone",
            Self::Link => "the link was back",
        }
    }
}
