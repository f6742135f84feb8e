//! The bridge: one writer, many readers.
//!
//! Sources hand [`Change`](crate::index::Change)s to a [`ChangeSender`]; the [`Indexer`] applies them to the
//! index it alone owns and publishes the snapshots they touched; readers hold a [`Catalog`] and never wait for the
//! writer. No queue stands between the writer and a stream: a stream looks at what is true when it is able to send.

mod catalog;
mod changed;
mod channel;
mod clock;
mod history;
mod indexer;
mod metrics;
mod news;
mod overview;
mod published;
mod reader;
mod retention;
mod said;
mod sender;
mod status;
mod survey;
mod tables;

pub use catalog::Catalog;
pub use changed::ChangedServices;
pub use channel::{Subscription, ViewSubscription};
pub use clock::Clock;
pub use history::Replacement;
pub use indexer::{IndexMetrics, Indexer};
pub use metrics::{ClusterCollector, LinkerdCollector};
pub use overview::{ServiceOverview, ViewOverview};
pub use published::{Frames, ViewVersion};
pub use reader::{Look, Place, Reader};
pub use said::SaidOnce;
pub use sender::{ChangeReceiver, ChangeSender, IndexStopped, change_channel};
pub use status::{ClusterStatus, Connection, Drain, KindStatus, LinkInfo, Proof, StatusBoard};
pub use survey::{LinkObject, Reading, Survey};

#[cfg(test)]
mod tests;
