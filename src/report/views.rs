//! What open streams are told.

use std::time::Duration;

use serde::Serialize;

use super::endpoints::known;
use crate::proto::tributary_v1::{ListViewsResponse, SharedView};

/// What is shown. The serialized form is an interface.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Top {
    /// Those with the most streams first.
    pub views: Vec<View>,
    /// Whether there are more views than are listed.
    pub more: bool,
    /// How long the last change took from being received to being published.
    pub publish_lag_micros: Option<u64>,
    /// How long ago that was.
    pub publish_age_seconds: Option<u64>,
}

/// One view: what all clients are told that are told the same.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// The Service.
    pub service: String,
    /// Its namespace.
    pub namespace: String,
    /// The port that was asked for.
    pub port: u32,
    /// The instance that was asked for.
    pub instance: Option<String>,
    /// The zone that is looked from.
    pub zone: Option<String>,
    /// The node that is looked from, where that matters.
    pub node: Option<String>,
    /// Endpoints in it.
    pub endpoints: u32,
    /// Streams that have sent its latest state.
    pub streams: u32,
}

// === impl Top ===

impl From<ListViewsResponse> for Top {
    fn from(response: ListViewsResponse) -> Self {
        let length = |length: prost_types::Duration| Duration::try_from(length).ok();
        let lag = response.publish_lag.and_then(length);
        Self {
            views: response.views.into_iter().map(View::from).collect(),
            more: response.more,
            publish_lag_micros: lag.and_then(|lag| u64::try_from(lag.as_micros()).ok()),
            publish_age_seconds: response
                .publish_age
                .and_then(length)
                .map(|age| age.as_secs()),
        }
    }
}

// === impl View ===

impl From<SharedView> for View {
    fn from(view: SharedView) -> Self {
        Self {
            service: view.service,
            namespace: view.namespace,
            port: view.port,
            instance: known(view.instance),
            zone: known(view.zone),
            node: known(view.node),
            endpoints: view.endpoints,
            streams: view.streams,
        }
    }
}
