//! The copies that are there, as far as the watch and our own requests have told.
//!
//! Pure. Answers to our requests arrive before the watch tells the same; what the watch tells later of an earlier version is
//! passed over.

use std::collections::{BTreeMap, BTreeSet};

use super::copy::Existing;
use crate::model::{ClusterName, ServiceName, SliceName, Text};

/// Copies by name, and by the home Service they belong to.
#[derive(Debug, Default)]
pub(super) struct Store {
    by_service: BTreeMap<ServiceName, BTreeMap<SliceName, Existing>>,
    services: BTreeMap<SliceName, ServiceName>,
    /// Versions at which we deleted; the watch may still tell of earlier ones.
    deleted: BTreeMap<SliceName, Text>,
    staged: Option<BTreeMap<SliceName, Existing>>,
}

// === impl Store ===

impl Store {
    /// The copies of a Service, by name.
    pub(super) fn of(&self, service: &ServiceName) -> Option<&BTreeMap<SliceName, Existing>> {
        self.by_service.get(service)
    }

    /// Services that have copies, in order.
    pub(super) fn services(&self) -> impl Iterator<Item = &ServiceName> {
        self.by_service.keys()
    }

    /// Services that have copies of a cluster's slices, in order.
    pub(super) fn services_with<'a>(
        &'a self,
        cluster: &'a ClusterName,
    ) -> impl Iterator<Item = &'a ServiceName> {
        self.by_service
            .iter()
            .filter(move |(_, copies)| copies.values().any(|copy| copy.cluster == *cluster))
            .map(|(service, _)| service)
    }

    /// Every copy.
    #[cfg(test)]
    fn all(&self) -> impl Iterator<Item = &Existing> {
        self.by_service.values().flat_map(BTreeMap::values)
    }

    /// One copy.
    pub(super) fn get(&self, name: &SliceName) -> Option<&Existing> {
        self.by_service.get(self.services.get(name)?)?.get(name)
    }

    /// Number of copies.
    pub(super) fn len(&self) -> usize {
        self.services.len()
    }

    /// A copy is there, as the watch or an answer tells. Returns the Services concerned.
    pub(super) fn set(&mut self, copy: Existing) -> BTreeSet<ServiceName> {
        if let Some(staged) = &mut self.staged {
            staged.insert(copy.name.clone(), copy.clone());
        }
        let is_late = |known: &Text| is_before(&copy.resource_version, known);
        if self.deleted.get(&copy.name).is_some_and(is_late) {
            return BTreeSet::new();
        }
        self.deleted.remove(&copy.name);
        if let Some(known) = self.get(&copy.name)
            && (*known == copy || is_late(&known.resource_version))
        {
            return BTreeSet::new();
        }
        let mut touched = self.take(&copy.name);
        touched.insert(copy.service.clone());
        self.services
            .insert(copy.name.clone(), copy.service.clone());
        let copies = self.by_service.entry(copy.service.clone()).or_default();
        copies.insert(copy.name.clone(), copy);
        touched
    }

    /// A copy is gone, as the watch tells: at this version. Returns the Service concerned.
    pub(super) fn remove(&mut self, gone: &Existing) -> BTreeSet<ServiceName> {
        if let Some(staged) = &mut self.staged {
            staged.remove(&gone.name);
        }
        self.deleted.remove(&gone.name);
        match self.get(&gone.name) {
            Some(known) if is_before(&gone.resource_version, &known.resource_version) => {
                BTreeSet::new()
            }
            _ => self.take(&gone.name),
        }
    }

    /// We have deleted a copy. What the watch tells of it up to this version is the past.
    pub(super) fn deleted(&mut self, name: &SliceName, at: &Text) -> BTreeSet<ServiceName> {
        self.deleted.insert(name.clone(), at.clone());
        self.take(name)
    }

    /// A list begins; what it does not name is gone when it ends.
    pub(super) fn list_started(&mut self) {
        self.staged = Some(BTreeMap::new());
    }

    /// A copy of the list.
    pub(super) fn listed(&mut self, copy: Existing) {
        self.staged
            .get_or_insert_default()
            .insert(copy.name.clone(), copy);
    }

    /// The list is complete. Returns the Services concerned.
    pub(super) fn list_ended(&mut self) -> BTreeSet<ServiceName> {
        let staged = self.staged.take().unwrap_or_default();
        let gone: Vec<_> = self
            .services
            .keys()
            .filter(|name| !staged.contains_key(*name))
            .cloned()
            .collect();
        let mut touched: BTreeSet<_> = gone.iter().flat_map(|name| self.take(name)).collect();
        for copy in staged.into_values() {
            touched.append(&mut self.set(copy));
        }
        self.deleted.clear();
        touched
    }

    /// This is everything there is, as an answer tells; the watch may be in the middle of a list of its own.
    pub(super) fn replace(&mut self, all: Vec<Existing>) -> BTreeSet<ServiceName> {
        let staged = self.staged.take();
        self.list_started();
        for copy in all {
            self.listed(copy);
        }
        let touched = self.list_ended();
        self.staged = staged;
        touched
    }

    fn take(&mut self, name: &SliceName) -> BTreeSet<ServiceName> {
        let Some(service) = self.services.remove(name) else {
            return BTreeSet::new();
        };
        if let Some(copies) = self.by_service.get_mut(&service) {
            copies.remove(name);
            if copies.is_empty() {
                self.by_service.remove(&service);
            }
        }
        BTreeSet::from([service])
    }
}

/// Whether one version is known to be earlier than another. Source: API servers hand out growing numbers (KEP-5504).
fn is_before(one: &str, other: &str) -> bool {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::copy::Provenance;

    fn copy(name: &str, service: &str, version: &str) -> Existing {
        Existing {
            name: SliceName::new("shop", name),
            uid: "u".into(),
            resource_version: version.into(),
            is_going: false,
            service: ServiceName::new("shop", service),
            cluster: "east".into(),
            content: None,
            owners: Vec::new(),
            source: Provenance::default(),
            addresses: 0,
        }
    }

    fn names(touched: &BTreeSet<ServiceName>) -> String {
        touched
            .iter()
            .map(|service| service.name.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn state(store: &Store) -> String {
        let copies = store
            .all()
            .map(|copy| format!("{}:{}", copy.name.name, copy.resource_version));
        copies.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_told_late_of_an_earlier_version_is_passed_over() {
        let mut store = Store::default();
        assert_eq!(names(&store.set(copy("a", "web", "9"))), "web");
        assert_eq!(names(&store.set(copy("a", "web", "8"))), "");
        assert_eq!(names(&store.set(copy("a", "web", "9"))), "");
        assert_eq!(names(&store.set(copy("a", "web", "10"))), "web");
        assert_eq!(names(&store.remove(&copy("a", "web", "9"))), "");
        assert_eq!(state(&store), "a:10");
        assert_eq!(
            names(&store.deleted(&SliceName::new("shop", "a"), &"10".into())),
            "web"
        );
        assert_eq!(names(&store.set(copy("a", "web", "9"))), "");
        assert_eq!(names(&store.remove(&copy("a", "web", "11"))), "");
        assert_eq!(names(&store.set(copy("a", "web", "12"))), "web");
        assert_eq!(state(&store), "a:12");
    }

    #[test]
    fn a_list_removes_what_it_does_not_name() {
        let mut store = Store::default();
        store.set(copy("a", "web", "1"));
        store.set(copy("b", "api", "2"));
        store.list_started();
        store.listed(copy("b", "api", "2"));
        store.listed(copy("c", "new", "3"));
        assert_eq!(names(&store.list_ended()), "new web");
        assert_eq!(state(&store), "b:2 c:3");
        assert_eq!(names(&store.services().cloned().collect()), "api new");
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn what_changes_its_service_concerns_both() {
        let mut store = Store::default();
        store.set(copy("a", "web", "1"));
        assert_eq!(names(&store.set(copy("a", "api", "2"))), "api web");
        assert!(store.of(&ServiceName::new("shop", "web")).is_none());
        assert_eq!(store.services_with(&"east".into()).count(), 1);
    }
}
