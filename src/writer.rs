//! The optional writer of EndpointSlices: for mirror and federated Services, and for Services that select ExternalWorkloads.
//!
//! Flat mirrors and federated Services have no EndpointSlices: only meshed clients reach what is behind them. The writer puts
//! copies of the member clusters' slices beside them, for gateways and load balancers that read slices. It reads the same
//! catalog as every front-end, writes to the home cluster only, and touches nothing that does not bear its label.
//!
//! [`plan`](plan::plan) decides, and is pure; everything else carries out. `workloads` does for ExternalWorkloads what Linkerd's
//! destination controller does beside answering, by the same means.

mod copy;
mod encode;
mod events;
mod lease;
mod ledger;
mod limiter;
mod metrics;
mod name;
mod once;
pub mod plan;
mod reconciler;
mod requests;
mod schedule;
pub mod show;
mod standings;
mod store;
mod turn;
mod watches;
mod workloads;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

pub use copy::{
    Content, Copy, CopyEndpoint, CopyPort, Existing, Origin, Provenance, Target, TargetKind,
};
pub use lease::Leadership;
pub use metrics::Metrics;
pub use once::{Outlook, Planned, delete_all, inventory, look_ahead};
pub use requests::{Access, Effect, FIELD_MANAGER, Reason, Refusal, Requests};

use crate::model::copying::{Pace, Settings};
use crate::model::{Namespace, OUR_MANAGED_BY};
use crate::publish::Catalog;
use events::Announcer;
use lease::Candidate;
use limiter::Limiter;
use reconciler::Reconciler;
use turn::Tools;
use watches::StockDestination;

/// The Lease of whoever writes copies. Must never change.
const LEASE: &str = FIELD_MANAGER;
/// Between looks at what changes by itself with time.
const HOUSEKEEPING: Duration = Duration::from_secs(1);
/// Events of the watch of copies that may wait.
const COPY_EVENTS_MAX: usize = 256;

/// What the writer does about mirrors and federated Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    Off,
    /// It keeps copies.
    On,
    /// It says what it would do.
    DryRun,
    /// It removes every copy.
    Remove,
}

/// What the writer does about Services that select ExternalWorkloads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workloads {
    /// Nothing: Linkerd's own controller does it, or nobody.
    #[default]
    Left,
    /// It keeps their slices.
    Written,
    /// It says what it would do.
    DryRun,
}

/// How the writer works.
#[derive(Clone, Debug)]
pub struct Options {
    /// What it does about mirrors and federated Services.
    pub mode: Mode,
    /// What it does about Services that select ExternalWorkloads.
    pub workloads: Workloads,
    /// What copies look like and which Services get any.
    pub settings: Settings,
    /// How fast.
    pub pace: Pace,
    /// Namespace of the control plane: the Lease is there, and Linkerd's destination controller is looked for there.
    pub namespace: Namespace,
    /// What this process is called, such as its Pod's name.
    pub instance: String,
}

/// The writer, which has not begun.
#[derive(Debug)]
pub struct Writer {
    catalog: Catalog,
    options: Options,
    requests: Requests,
    metrics: Metrics,
}

// === impl Writer ===

impl Writer {
    /// A writer that reads `catalog` and reaches the home cluster's API server by way of `access`.
    pub fn new(
        catalog: Catalog,
        options: Options,
        access: Arc<dyn Access>,
        metrics: Metrics,
    ) -> Self {
        Self {
            catalog,
            options,
            requests: Requests::new(access),
            metrics,
        }
    }

    /// Works until told to stop, and gives up its Leases then. Only the holder of a Lease writes; where nothing is to be written
    /// there is no Lease.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self {
            catalog,
            options,
            requests,
            metrics,
        } = self;
        let pace = options.pace;
        let limiter = Limiter::new(pace.requests_per_second, pace.burst, Instant::now());
        let tools = Tools {
            requests,
            limiter: Arc::new(limiter),
            leadership: watch::Sender::new(Leadership::Following).subscribe(),
            metrics,
        };
        let workloads = async {
            if options.workloads != Workloads::Left {
                workloads::run(options.clone(), tools.clone(), shutdown.clone()).await;
            }
        };
        let copies = async {
            if options.mode != Mode::Off {
                write_copies(catalog, options.clone(), tools.clone(), shutdown.clone()).await;
            }
        };
        tokio::join!(Box::pin(copies), Box::pin(workloads));
    }
}

/// Keeps copies of the slices of member clusters.
async fn write_copies(
    catalog: Catalog,
    options: Options,
    tools: Tools,
    shutdown: CancellationToken,
) {
    let namespace = options.namespace.to_string();
    let instance = options.instance.clone();
    let requests = tools.requests.clone();
    let mut tasks = JoinSet::new();
    let candidacy = CancellationToken::new();
    let leadership = if options.mode == Mode::DryRun {
        info!("EndpointSlices are planned and not written (dry run)");
        tools.leadership.clone()
    } else {
        let (candidate, leadership) =
            Candidate::new(requests.clone(), LEASE, namespace.clone(), &instance);
        let until = candidacy.clone();
        tasks.spawn(async move { candidate.run(until).await });
        leadership
    };
    let (copy_events, copies) = mpsc::channel(COPY_EVENTS_MAX);
    let watching = watches::slices(requests.clone(), OUR_MANAGED_BY, copy_events);
    let (stock_sender, stock) = watch::channel(StockDestination::Unknown);
    let looking = watches::stock_destination(requests.clone(), namespace, stock_sender);
    let (announcer, notices) = Announcer::new();
    let announcing = events::send(requests, instance, notices);
    let mut background = JoinSet::new();
    background.spawn(watching);
    background.spawn(looking);
    background.spawn(announcing);
    let tools = Tools {
        leadership,
        ..tools
    };
    let reconciler = Reconciler::new(catalog, options, tools, announcer, stock);
    tokio::select! {
        () = reconciler.run(copies, shutdown) => {}
        Some(Err(error)) = background.join_next() => {
            if error.is_panic() {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }
    background.shutdown().await;
    // Nothing is under way any more: the next one may begin.
    candidacy.cancel();
    while tasks.join_next().await.is_some() {}
}

async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Says how many copies are there though the writer is off. They are not touched.
pub async fn report_leftovers(access: Arc<dyn Access>, metrics: Metrics) {
    match Requests::new(access).list().await {
        Ok(copies) if copies.is_empty() => {}
        Ok(copies) => {
            metrics.leftover(copies.len());
            warn!(
                slices = copies.len(),
                "EndpointSlices that this writer made are still there and nobody keeps them; remove them with --endpoint-slices=remove \
                 or tributary writer cleanup"
            );
        }
        Err(error) => {
            info!(%error, "EndpointSlices left over from the writer could not be counted");
        }
    }
}
