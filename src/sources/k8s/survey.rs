//! Objects that links are made by and that take no part in answers: `Link`s, which Linkerd's service mirror follows, and
//! Pods of Linkerd's own destination controller.
//!
//! They are read so that people can be told what does not fit together. Nothing else depends on it: where they may not
//! be read, the survey says so, and that is all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::de::DeserializeOwned;
use tracing::debug;

use super::connect::Access;
use super::failure::FailureClass;
use super::objects::{HasMetadata, Link, PodObject};
use super::watch::{Event, Resource, Watch};
use crate::publish::{IndexStopped, LinkObject, Reading, StatusBoard, Survey};

/// Label of the Pods of a destination controller, Linkerd's or ours in its place.
const DESTINATION_PODS: &str = "linkerd.io/control-plane-component=destination";

/// Keeps the survey's Links, for ever.
pub(super) async fn watch_links(
    access: Arc<Access>,
    board: StatusBoard,
) -> Result<(), IndexStopped> {
    let keep = |survey: &mut Survey, links: Reading<&BTreeMap<String, Link>>| {
        survey.links = match links {
            Reading::Pending => Reading::Pending,
            Reading::Denied => Reading::Denied,
            Reading::Absent => Reading::Absent,
            Reading::Known(links) => Reading::Known(
                links
                    .iter()
                    .map(|(name, link)| (name.clone(), describe(link)))
                    .collect(),
            ),
        };
    };
    follow(access, Resource::links(), board, keep).await
}

/// Keeps the survey's controllers, for ever.
pub(super) async fn watch_controllers(
    access: Arc<Access>,
    namespace: String,
    board: StatusBoard,
) -> Result<(), IndexStopped> {
    let keep = |survey: &mut Survey, pods: Reading<&BTreeMap<String, PodObject>>| {
        if let Reading::Known(pods) = pods {
            survey.stock_controllers = pods
                .iter()
                .filter(|(_, pod)| pod.metadata.annotations.ours.is_none())
                .map(|(name, pod)| {
                    let made_by = pod.metadata.annotations.created_by.clone();
                    (name.clone(), made_by.unwrap_or_default())
                })
                .collect();
        }
    };
    let pods = Resource::pods(&namespace, DESTINATION_PODS);
    follow(access, pods, board, keep).await
}

fn describe(link: &Link) -> LinkObject {
    let named = link.spec.target_cluster_name.as_deref();
    let named = named.filter(|name| !name.is_empty());
    LinkObject {
        cluster: named.unwrap_or(&link.metadata.name).into(),
        control_plane_namespace: link
            .spec
            .target_cluster_linkerd_namespace
            .clone()
            .unwrap_or_default(),
    }
}

async fn follow<K: HasMetadata + DeserializeOwned>(
    access: Arc<Access>,
    resource: Resource,
    board: StatusBoard,
    keep: impl Fn(&mut Survey, Reading<&BTreeMap<String, K>>),
) -> Result<(), IndexStopped> {
    let mut watch = Watch::<K>::new(access, resource, Arc::new(AtomicBool::new(true)));
    let (mut known, mut listed) = (BTreeMap::new(), BTreeMap::new());
    let named = |object: &K| {
        let metadata = object.metadata();
        format!("{}/{}", metadata.namespace, metadata.name)
    };
    loop {
        match watch.next().await {
            Ok(Event::ListStarted) => {
                listed.clear();
                continue;
            }
            Ok(Event::Listed(object)) => {
                listed.insert(named(&object), object);
                continue;
            }
            Ok(Event::ListEnded) => known = std::mem::take(&mut listed),
            Ok(Event::Applied(object)) => {
                known.insert(named(&object), object);
            }
            Ok(Event::Deleted(object)) => {
                known.remove(&named(&object));
            }
            Ok(Event::Alive | Event::Undecodable(_)) => continue,
            Err(failure) => {
                debug!(reason = %failure.reason, "watch for the survey failed");
                match failure.class {
                    FailureClass::Forbidden => board.survey(|survey| keep(survey, Reading::Denied)),
                    FailureClass::Absent => board.survey(|survey| keep(survey, Reading::Absent)),
                    _ => {}
                }
                continue;
            }
        }
        board.survey(|survey| keep(survey, Reading::Known(&known)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_for_the_cluster_it_names_or_else_for_its_own_name() {
        let cluster = |spec: &str| {
            let text = format!("{{metadata: {{name: west, namespace: m}}, spec: {spec}}}");
            let link: Link = serde_saphyr::from_str(&text).expect("a Link");
            describe(&link).cluster.to_string()
        };
        assert_eq!(cluster("{targetClusterName: east}"), "east");
        assert_eq!(cluster("{targetClusterName: ''}"), "west");
        assert_eq!(cluster("null"), "west");
    }
}
