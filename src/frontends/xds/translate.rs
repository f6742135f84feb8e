//! Resources from views: what each kind says. Everything is in order, so that equal facts make equal resources.

mod assignment;

use std::sync::Arc;

use prost::{Message, Name};

pub(super) use assignment::{Assignment, Member};

use super::resource::{Fingerprint, Kind, Resource};
use crate::proto::xds::cluster::{Cluster, cluster};
use crate::proto::xds::core::{
    AggregatedConfigSource, ApiVersion, ConfigSource, config_source::ConfigSourceSpecifier,
};
use crate::proto::xds::http_connection_manager::{
    HttpConnectionManager, HttpFilter, http_connection_manager, http_filter,
};
use crate::proto::xds::listener::{ApiListener, Listener};
use crate::proto::xds::protobuf::{Any, Duration};
use crate::proto::xds::route::{
    Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, route, route_action,
    route_match,
};
use crate::proto::xds::router::Router;

/// Part of every version: clients are sent everything anew when what we make of the same facts is something else.
const EDITION: u64 = 1;

/// How long a client waits for a connection to an endpoint.
const CONNECT_TIMEOUT: Duration = Duration {
    seconds: 5,
    nanos: 0,
};

/// The resource of a kind that says nothing but that a name is there, and which cluster belongs to it.
pub(super) fn named(kind: Kind, name: &str, cluster_name: &str) -> Arc<Resource> {
    let message = match kind {
        Kind::Cluster => cluster(name).encode_to_vec(),
        Kind::Listener => listener(name, cluster_name).encode_to_vec(),
        Kind::Route => route_configuration(name, cluster_name).encode_to_vec(),
        Kind::Assignment => return Assignment::default().resource(name),
    };
    let mut print = Fingerprint::default();
    print
        .number(EDITION)
        .number(kind.index() as u64)
        .text(name)
        .text(cluster_name);
    Arc::new(Resource::new(kind, name, print.version(), &message))
}

/// A cluster with the endpoints that are known by the same name.
fn cluster(name: &str) -> Cluster {
    Cluster {
        name: name.to_owned(),
        // Statistics would have an underscore for each colon anyway; said here so that it is the same everywhere.
        alt_stat_name: name.replace(':', "_"),
        cluster_discovery_type: Some(cluster::ClusterDiscoveryType::Type(
            cluster::DiscoveryType::Eds.into(),
        )),
        eds_cluster_config: Some(cluster::EdsClusterConfig {
            eds_config: Some(over_this_stream()),
            service_name: name.to_owned(),
        }),
        connect_timeout: Some(CONNECT_TIMEOUT),
        lb_policy: cluster::LbPolicy::RoundRobin.into(),
        common_lb_config: Some(cluster::CommonLbConfig {
            locality_config_specifier: Some(
                cluster::common_lb_config::LocalityConfigSpecifier::LocalityWeightedLbConfig(
                    cluster::common_lb_config::LocalityWeightedLbConfig {},
                ),
            ),
            ..Default::default()
        }),
        ignore_health_on_host_removal: true,
        ..Default::default()
    }
}

/// A listener that sends everything to one cluster. For clients of gRPC only.
fn listener(name: &str, cluster_name: &str) -> Listener {
    let manager = HttpConnectionManager {
        route_specifier: Some(http_connection_manager::RouteSpecifier::RouteConfig(
            route_configuration(name, cluster_name),
        )),
        http_filters: vec![HttpFilter {
            name: "router".to_owned(),
            config_type: Some(http_filter::ConfigType::TypedConfig(
                any(&Router::default()),
            )),
            ..Default::default()
        }],
        ..Default::default()
    };
    Listener {
        name: name.to_owned(),
        api_listener: Some(ApiListener {
            api_listener: Some(any(&manager)),
        }),
        ..Default::default()
    }
}

/// Routes that send everything to one cluster, whatever host is asked for.
fn route_configuration(name: &str, cluster_name: &str) -> RouteConfiguration {
    RouteConfiguration {
        name: name.to_owned(),
        virtual_hosts: vec![VirtualHost {
            name: name.to_owned(),
            domains: vec!["*".to_owned()],
            routes: vec![Route {
                r#match: Some(RouteMatch {
                    path_specifier: Some(route_match::PathSpecifier::Prefix(String::new())),
                    ..Default::default()
                }),
                action: Some(route::Action::Route(RouteAction {
                    cluster_specifier: Some(route_action::ClusterSpecifier::Cluster(
                        cluster_name.to_owned(),
                    )),
                    ..Default::default()
                })),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn over_this_stream() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..Default::default()
    }
}

fn any<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: format!("type.googleapis.com/{}", M::full_name()),
        value: message.encode_to_vec(),
    }
}

#[cfg(test)]
mod tests;
