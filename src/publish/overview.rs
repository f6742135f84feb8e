//! What is published, in short: for people who look at the whole.
//!
//! Asking costs as much as there is; nothing is kept for it, so whoever does not ask pays nothing.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::catalog::Catalog;
use super::channel::Channel;
use crate::index::{Address, ServiceSnapshot, ViewKey};
use crate::model::ServiceName;

/// A Service of the home cluster, and who follows it.
#[derive(Debug)]
pub struct ServiceOverview {
    /// What is known of it.
    pub snapshot: ServiceSnapshot,
    /// Readers that follow it now: streams, and one for each name of xDS.
    pub readers: usize,
}

/// A view that streams share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewOverview {
    /// The Service.
    pub service: ServiceName,
    /// What the view depends on.
    pub key: ViewKey,
    /// Endpoints in its latest state.
    pub endpoints: usize,
    /// Streams that have taken its latest state.
    pub streams: usize,
}

// === impl Catalog ===

impl Catalog {
    /// Services of the home cluster whose names are wanted, in name order.
    pub fn services(&self, wanted: impl Fn(&ServiceName) -> bool) -> Vec<ServiceOverview> {
        let channels: Vec<_> = {
            let services = self.shared().services.read();
            let channels = services.iter().filter(|(name, _)| wanted(name));
            channels.map(|(_, channel)| Arc::clone(channel)).collect()
        };
        let overview = |channel: &Arc<Channel>| {
            let snapshot = channel.latest().snapshot.clone();
            let readers = channel.followers();
            let is_there = snapshot.facts.is_some();
            is_there.then_some(ServiceOverview { snapshot, readers })
        };
        let mut services: Vec<_> = channels.iter().filter_map(overview).collect();
        services.sort_by(|one, two| one.snapshot.service.cmp(&two.snapshot.service));
        services
    }

    /// Addresses that something may be wrong with, and who has each, by address.
    pub fn addresses(&self, wanted: impl Fn(&Address) -> bool) -> Vec<(IpAddr, Arc<Address>)> {
        let mut found = self.shared().tables.addresses.find(wanted);
        found.sort_unstable_by_key(|(ip, _)| *ip);
        found
    }

    /// How long the last change took from being received to being published, and how long ago that was.
    pub fn last_lag(&self) -> Option<(Duration, Duration)> {
        let last = *self.shared().last_lag.lock();
        last.map(|(at, lag)| (lag, at.elapsed()))
    }

    /// Views that streams use now, by number of streams, most first; then by Service.
    pub fn views(&self) -> Vec<ViewOverview> {
        let channels: Vec<_> = {
            let services = self.shared().services.read();
            let in_use = services
                .iter()
                .filter(|(_, channel)| channel.views.len() > 0);
            in_use
                .map(|(name, channel)| (name.clone(), Arc::clone(channel)))
                .collect()
        };
        let mut views = Vec::new();
        for (service, channel) in channels {
            for (key, endpoints, streams) in channel.views.overview() {
                views.push(ViewOverview {
                    service: service.clone(),
                    key,
                    endpoints,
                    streams,
                });
            }
        }
        views.sort_by(|one, two| {
            let place = |view: &ViewOverview| {
                let ViewKey {
                    port,
                    instance,
                    zone,
                    node,
                } = view.key.clone();
                (view.service.clone(), port, instance, zone, node)
            };
            let order = two.streams.cmp(&one.streams);
            order.then_with(|| place(one).cmp(&place(two)))
        });
        views
    }
}
