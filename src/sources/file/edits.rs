//! Differences between two states of a cluster's objects, in the order they are best told. Pure.

use std::collections::HashMap;

use crate::index::{Kind, Object, ObjectChange, ObjectName};

/// What has to be told, each object once.
#[derive(Debug, Default)]
pub(crate) struct Edits {
    by_name: HashMap<ObjectName, usize>,
    list: Vec<(ObjectName, Option<Object>)>,
}

// === impl Edits ===

impl Edits {
    /// The object exists and says this.
    pub(crate) fn apply(&mut self, name: ObjectName, object: Object) {
        self.put(name, Some(object));
    }

    /// The object does not exist.
    pub(crate) fn delete(&mut self, name: ObjectName) {
        self.put(name, None);
    }

    fn put(&mut self, name: ObjectName, object: Option<Object>) {
        if let Some(place) = self.by_name.get(&name) {
            self.list[*place].1 = object;
        } else {
            self.by_name.insert(name.clone(), self.list.len());
            self.list.push((name, object));
        }
    }

    /// One change for each object: what others refer to comes before them and goes after them, so that no state in
    /// between lacks an endpoint that both ends have.
    pub(crate) fn into_changes(self) -> Vec<ObjectChange> {
        let mut list = self.list;
        list.sort_by_key(|(name, object)| match object {
            Some(_) => rank(name.kind()),
            None => RANK_MAX + (RANK_MAX - rank(name.kind())),
        });
        list.into_iter()
            .map(|(name, object)| match object {
                Some(object) => ObjectChange::Apply(object),
                None => ObjectChange::Delete(name),
            })
            .collect()
    }

    /// The whole of a cluster: one change for each kind that is watched there.
    pub(crate) fn into_resyncs(self, watched: &[Kind]) -> Vec<ObjectChange> {
        let mut by_kind: HashMap<Kind, Vec<Object>> = HashMap::new();
        for (name, object) in self.list {
            by_kind.entry(name.kind()).or_default().extend(object);
        }
        watched
            .iter()
            .map(|kind| ObjectChange::Resync(*kind, by_kind.remove(kind).unwrap_or_default()))
            .collect()
    }
}

const RANK_MAX: usize = 6;

fn rank(kind: Kind) -> usize {
    match kind {
        Kind::Node => 0,
        Kind::ReplicaSet | Kind::Job => 1,
        // So that no port is taken for another protocol's in between.
        Kind::Server | Kind::ServiceProfile => 2,
        Kind::Pod | Kind::ExternalWorkload => 3,
        Kind::EndpointSlice | Kind::Endpoints => 4,
        Kind::Service => 5,
    }
}
