//! The text of a manifest file → the objects in it.
//!
//! Pure. A file holds any number of YAML documents, or JSON, which is YAML too. Each is decoded in one pass, whatever
//! the order of its keys. Kinds that nobody watches are skipped, Lists are opened, and an object without a namespace is
//! in `default`, as it would be if the file were applied to a cluster.

use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::Value;

use crate::index::Kind;
use crate::sources::k8s::convert::{self, Convert, Converted, convert};
use crate::sources::k8s::objects::{self, Metadata};

/// Namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// One thing that a manifest defines.
#[derive(Debug)]
pub(crate) enum Manifest {
    /// An object of a kind that is watched.
    Object(Box<Converted>),
    /// A Secret; some of them link clusters.
    Secret(Box<objects::Secret>),
    /// An object of a kind that is watched, but without a name.
    Nameless(Kind),
}

/// Why the text of a manifest file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub(crate) struct ManifestError {
    /// Line, from 1.
    pub(crate) line: u64,
    /// Column, from 1.
    pub(crate) column: u64,
    /// What is wrong there, on one line.
    pub(crate) message: String,
}

/// Reads every document of a file.
pub(crate) fn parse(text: &str) -> Result<Vec<Manifest>, ManifestError> {
    // The files are the operator's own, and may be generated: there is no limit on their length. Limits on depth and on
    // the use of aliases stay, for a mistake must not take the process down.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
            max_total_comment_bytes: usize::MAX,
        },
        with_snippet: false,
    };
    let documents: Vec<Document> = serde_saphyr::from_multiple_with_options(text, options)?;
    Ok(documents
        .into_iter()
        .flat_map(|document| document.0)
        .collect())
}

/// Reads a file of JSON values, many times faster than as YAML.
pub(crate) fn parse_json(text: &str) -> Result<Vec<Manifest>, ManifestError> {
    let mut manifests = Vec::new();
    for document in serde_json::Deserializer::from_str(text).into_iter() {
        let Document(mut some) = document?;
        manifests.append(&mut some);
    }
    Ok(manifests)
}

/// One document, or one item of a List: none or one manifest, or those of a List.
struct Document(Vec<Manifest>);

/// What `apiVersion` and `kind` say, as far as they have been read.
#[derive(Clone, Debug, Default)]
struct Head {
    api_version: Option<String>,
    kind: Option<String>,
}

/// What is done with an object.
enum Treatment {
    /// It is not known yet.
    Undecided,
    /// It is decoded.
    Object(Kind),
    /// It is decoded.
    Secret,
    /// Its items are.
    List,
    /// Nothing.
    Ignored,
}

/// Reads one object; items of a `PodList` and its like get their kind from there.
struct ObjectSeed(Head);

/// Reads `items` of a List.
struct ItemsSeed(Head);

/// The fields of an object: those that came before its kind was known, then the rest.
struct Fields<A> {
    early: std::vec::IntoIter<(String, Value)>,
    value: Option<Value>,
    rest: A,
}

// === impl ManifestError ===

impl From<serde_saphyr::Error> for ManifestError {
    fn from(error: serde_saphyr::Error) -> Self {
        let location = error.location();
        let line = location.map_or(1, |location| location.line());
        let column = location.map_or(1, |location| location.column());
        let message = error.without_snippet().to_string();
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        let place = format!(" at line {line}, column {column}");
        Self {
            line,
            column,
            message: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
        }
    }
}

impl From<serde_json::Error> for ManifestError {
    fn from(error: serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let message = error.to_string();
        let place = format!(" at line {line} column {column}");
        Self {
            line: line as u64,
            column: column as u64,
            message: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
        }
    }
}

// === impl Document ===

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ObjectSeed(Head::default())
            .deserialize(deserializer)
            .map(Self)
    }
}

// === impl Head ===

impl Head {
    fn treatment(&self) -> Treatment {
        let (Some(api_version), Some(kind)) = (self.api_version.as_deref(), self.kind.as_deref())
        else {
            return Treatment::Undecided;
        };
        match (api_version, kind) {
            ("v1", "Secret") => Treatment::Secret,
            (_, kind) if kind.ends_with("List") => Treatment::List,
            _ => convert::kind_of(api_version, kind).map_or(Treatment::Ignored, Treatment::Object),
        }
    }

    /// What the items of a List are, where they do not say it themselves.
    fn of_items(&self) -> Self {
        let kind = self
            .kind
            .as_deref()
            .and_then(|kind| kind.strip_suffix("List"));
        match kind {
            Some(kind) if !kind.is_empty() => Self {
                api_version: self.api_version.clone(),
                kind: Some(kind.to_owned()),
            },
            _ => Self::default(),
        }
    }
}

// === impl ObjectSeed ===

impl<'de> DeserializeSeed<'de> for ObjectSeed {
    type Value = Vec<Manifest>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ObjectSeed {
    type Value = Vec<Manifest>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let of_list = self.0;
        let mut head = Head::default();
        let mut early = Vec::new();
        let mut items = Vec::new();
        loop {
            match head.treatment() {
                Treatment::Undecided => {}
                Treatment::Object(kind) => {
                    return Ok(vec![object(kind, Fields::deserializer(early, map))?]);
                }
                Treatment::Secret => {
                    let secret = objects::Secret::deserialize(Fields::deserializer(early, map))?;
                    return Ok(vec![Manifest::Secret(Box::new(secret))]);
                }
                Treatment::List => early.clear(),
                Treatment::Ignored => {
                    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                    return Ok(Vec::new());
                }
            }
            let Some(key) = map.next_key::<String>()? else {
                break;
            };
            match key.as_str() {
                "apiVersion" => head.api_version = map.next_value()?,
                "kind" => head.kind = map.next_value()?,
                // Lists are written with their items first: no kind but theirs has a field of that name.
                "items" => items = map.next_value_seed(ItemsSeed(head.of_items()))?,
                _ if matches!(head.treatment(), Treatment::List) => {
                    map.next_value::<IgnoredAny>()?;
                }
                _ => early.push((key, map.next_value()?)),
            }
        }
        if matches!(head.treatment(), Treatment::List) {
            return Ok(items);
        }
        // The item of a PodList, or no object at all.
        let head = Head {
            api_version: head.api_version.or(of_list.api_version),
            kind: head.kind.or(of_list.kind),
        };
        let fields = early.into_iter().collect::<serde_json::Map<_, _>>();
        match head.treatment() {
            Treatment::Undecided => Err(A::Error::custom(
                "not a Kubernetes object: apiVersion or kind is missing",
            )),
            Treatment::Object(kind) => {
                let object = object(kind, Value::Object(fields)).map_err(A::Error::custom)?;
                Ok(vec![object])
            }
            Treatment::Secret | Treatment::List | Treatment::Ignored => Ok(Vec::new()),
        }
    }
}

// === impl ItemsSeed ===

impl<'de> DeserializeSeed<'de> for ItemsSeed {
    type Value = Vec<Manifest>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed {
    type Value = Vec<Manifest>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of Kubernetes objects")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut all = Vec::new();
        while let Some(mut some) = seq.next_element_seed(ObjectSeed(self.0.clone()))? {
            all.append(&mut some);
        }
        Ok(all)
    }
}

// === impl Fields ===

impl<'de, A: MapAccess<'de>> Fields<A> {
    fn deserializer(early: Vec<(String, Value)>, rest: A) -> MapAccessDeserializer<Self> {
        MapAccessDeserializer::new(Self {
            early: early.into_iter(),
            value: None,
            rest,
        })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        match self.early.next() {
            Some((key, value)) => {
                self.value = Some(value);
                seed.deserialize(key.into_deserializer()).map(Some)
            }
            None => self.rest.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.value.take() {
            Some(value) => seed.deserialize(value).map_err(A::Error::custom),
            None => self.rest.next_value_seed(seed),
        }
    }
}

fn object<'de, D: Deserializer<'de>>(kind: Kind, fields: D) -> Result<Manifest, D::Error> {
    use objects::{
        EndpointSlice, Endpoints, ExternalWorkload, Job, Node, Pod, ReplicaSet, Server, Service,
        ServiceProfile,
    };

    let converted = match kind {
        Kind::Service => in_namespace(Service::deserialize(fields)?, |it| &mut it.metadata),
        Kind::EndpointSlice => {
            in_namespace(EndpointSlice::deserialize(fields)?, |it| &mut it.metadata)
        }
        Kind::Endpoints => in_namespace(Endpoints::deserialize(fields)?, |it| &mut it.metadata),
        Kind::Pod => in_namespace(Pod::deserialize(fields)?, |it| &mut it.metadata),
        Kind::ReplicaSet => in_namespace(ReplicaSet::deserialize(fields)?, |it| &mut it.metadata),
        Kind::Job => in_namespace(Job::deserialize(fields)?, |it| &mut it.metadata),
        Kind::ExternalWorkload => in_namespace(ExternalWorkload::deserialize(fields)?, |it| {
            &mut it.metadata
        }),
        Kind::Server => in_namespace(Server::deserialize(fields)?, |it| &mut it.metadata),
        Kind::ServiceProfile => {
            in_namespace(ServiceProfile::deserialize(fields)?, |it| &mut it.metadata)
        }
        Kind::Node => convert(&Node::deserialize(fields)?),
    };
    Ok(converted.map_or(Manifest::Nameless(kind), |converted| {
        Manifest::Object(Box::new(converted))
    }))
}

fn in_namespace<K: Convert>(
    mut object: K,
    metadata: impl FnOnce(&mut K) -> &mut Metadata,
) -> Option<Converted> {
    let namespace = &mut metadata(&mut object).namespace;
    if namespace.is_empty() {
        DEFAULT_NAMESPACE.clone_into(namespace);
    }
    convert(&object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::ObjectName;

    /// Text in, what it defines out: names in order, or the error.
    fn check(text: &str, expected: &str) {
        let got = match parse(text) {
            Err(error) => error.to_string(),
            Ok(manifests) => {
                let names: Vec<_> = manifests.iter().map(describe).collect();
                names.join(", ")
            }
        };
        assert_eq!(got, expected, "{text}");
    }

    fn describe(manifest: &Manifest) -> String {
        match manifest {
            Manifest::Object(converted) => match &converted.name {
                ObjectName::Service(name) => format!("service {name}"),
                ObjectName::Slice(name) => format!("slice {name}"),
                ObjectName::Endpoints(name) => format!("endpoints {name}"),
                ObjectName::Pod(name) => format!("pod {name}"),
                ObjectName::Node(name) => format!("node {name}"),
                ObjectName::Owner(name) => format!("owner {}/{}", name.namespace, name.name),
                ObjectName::ExternalWorkload(name) => format!("workload {name}"),
                ObjectName::Server(name) => format!("server {name}"),
                ObjectName::Profile(name) => format!("profile {name}"),
            },
            Manifest::Secret(secret) => format!("secret {}", secret.metadata.name),
            Manifest::Nameless(kind) => format!("nameless {}", kind.resource()),
        }
    }

    #[test]
    fn every_document_counts_and_other_kinds_are_skipped() {
        check("", "");
        check("# only a comment\n---\n---\n", "");
        check(
            "---\napiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\n\
             ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {items: '1'}\n\
             ---\n# nothing\n---\napiVersion: apps/v1\nkind: Deployment\nspec: {a: [b, {c: 1}]}\n\
             ---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ntype: Opaque\n\
             ---\napiVersion: v1\nkind: Pod\nmetadata: {}\n",
            "service shop/web, secret s, nameless pods",
        );
    }

    #[test]
    fn keys_may_come_in_any_order() {
        let yaml = "addressType: IPv4\napiVersion: discovery.k8s.io/v1\nendpoints:\n\
                    - addresses: [10.0.0.1]\nkind: EndpointSlice\nmetadata:\n  name: s\n  \
                    labels: {kubernetes.io/service-name: web}\nports: [{port: 80}]\n";
        check(yaml, "slice default/s");
        let manifests = parse(yaml).expect("parses");
        let [Manifest::Object(converted)] = &manifests[..] else {
            panic!("{manifests:?}");
        };
        let Some(crate::index::Object::Slice(_, facts)) = &converted.object else {
            panic!("{converted:?}");
        };
        assert_eq!((facts.endpoints.len(), facts.ports.len()), (1, 1));
    }

    #[test]
    fn kinds_that_linkerd_brings_are_known_in_the_version_that_is_watched() {
        check(
            "{apiVersion: policy.linkerd.io/v1beta3, kind: Server, metadata: {name: s}, spec: {port: 80, podSelector: {}}}\n\
             ---\n{kind: Server, spec: {port: http}, metadata: {name: t}, apiVersion: policy.linkerd.io/v1beta3}\n\
             ---\n{apiVersion: policy.linkerd.io/v1beta1, kind: Server, metadata: {name: old}}\n\
             ---\n{apiVersion: workload.linkerd.io/v1beta1, kind: ExternalWorkload, metadata: {name: vm, namespace: shop}}\n",
            "server default/s, server default/t, workload shop/vm",
        );
    }

    #[test]
    fn what_names_no_namespace_is_in_default() {
        check(
            "{apiVersion: v1, kind: Service, metadata: {name: web}}",
            "service default/web",
        );
        check(
            "{apiVersion: v1, kind: Node, metadata: {name: n0}}",
            "node n0",
        );
    }

    #[test]
    fn lists_are_opened() {
        check(
            "apiVersion: v1\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: n0}}\n\
             - {apiVersion: v1, kind: Event}\nkind: List\nmetadata: {resourceVersion: ''}\n",
            "node n0",
        );
        check(
            r#"{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"n0"}}]}"#,
            "node n0",
        );
        check("apiVersion: v1\nkind: List\nitems: null\n", "");
    }

    #[test]
    fn json_files_are_read_as_such() {
        let text = r#"{"apiVersion": "v1", "items": [{"apiVersion": "v1", "kind": "Node", "metadata":
            {"name": "n0", "labels": {"any": "1"}}}], "kind": "List"} {"apiVersion": "v1", "kind": "Event"}"#;
        let manifests = parse_json(text).expect("parses");
        assert_eq!(
            manifests.iter().map(describe).collect::<String>(),
            "node n0"
        );
        let error = parse_json("{\n\"kind\": }").expect_err("fails");
        assert_eq!(error.to_string(), "line 2, column 9: expected value");
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        check(
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: [\n",
            "line 4, column 9: expected string scalar",
        );
        check(
            "a: 1\n",
            "line 1, column 1: not a Kubernetes object: apiVersion or kind is missing",
        );
        check(
            "text\n",
            "line 1, column 1: invalid type: string \"text\", expected a Kubernetes object",
        );
    }

    #[test]
    fn wrong_types_are_named_with_their_place() {
        check(
            "---\n---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  ports:\n  - port: http\n",
            "line 8, column 11: invalid i64",
        );
    }
}
