//! Bytes of list and watch responses → objects.
//!
//! Pure. An object that does not have the shape the API gives it costs only itself, and bytes are never logged.

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::objects::Metadata;

/// Longest line of a watch: several times what etcd stores in one object.
const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Characters kept of a decoder's complaint: it may repeat what it found.
const COMPLAINT_MAX: usize = 160;

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    bytes: BytesMut,
    /// Bytes at the beginning that are known to have no line end.
    searched: usize,
}

/// A line is longer than any object.
#[derive(Debug, thiserror::Error)]
#[error("the API server sent a line longer than {LINE_BYTES_MAX} bytes")]
pub(super) struct LineTooLong;

/// What one line of a watch says.
#[derive(Debug)]
pub(super) enum Line<K> {
    /// An object was made or changed, or is listed.
    Applied(K),
    /// An object is gone.
    Deleted(K),
    /// Nothing happened up to this version.
    Bookmark {
        /// The version.
        version: String,
        /// Whether everything that existed has been listed now.
        ends_list: bool,
    },
    /// The watch failed.
    Failed(ApiStatus),
    /// An object cannot be decoded.
    Undecodable(Undecodable),
}

/// An object whose fields do not have the types they should have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Undecodable {
    /// `namespace/name`, as far as it can be told.
    pub(super) object: String,
    /// Its version, if it can be told.
    pub(super) version: String,
    /// What is wrong.
    pub(super) complaint: String,
}

/// The part of a `Status` that we use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiStatus {
    pub(super) code: u16,
    pub(super) message: String,
}

/// One page of a list.
#[derive(Debug)]
pub(super) struct Page<K> {
    /// Version of the list.
    pub(super) version: String,
    /// Asks for the next page; `None` if this is the last.
    pub(super) next: Option<String>,
    /// Its objects.
    pub(super) items: Vec<Result<K, Undecodable>>,
}

#[derive(Deserialize)]
#[serde(tag = "type", content = "object", rename_all = "UPPERCASE")]
enum RawLine<K> {
    Added(K),
    Modified(K),
    Deleted(K),
    Bookmark(RawBookmark),
    Error(ApiStatus),
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawBookmark {
    metadata: BookmarkMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BookmarkMetadata {
    resource_version: String,
    annotations: BookmarkAnnotations,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BookmarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    next: Option<String>,
}

#[derive(Deserialize)]
#[serde(bound = "K: DeserializeOwned")]
struct RawPage<K> {
    metadata: ListMetadata,
    items: Option<Vec<K>>,
}

/// What can be told of an object that cannot be decoded.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stub {
    metadata: Metadata,
}

// === impl LineBuffer ===

impl LineBuffer {
    /// Adds what has come in.
    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.bytes.extend_from_slice(chunk);
    }

    /// The next complete line without its end.
    pub(super) fn next_line(&mut self) -> Result<Option<Bytes>, LineTooLong> {
        match self.bytes[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n')
        {
            Some(offset) => {
                let line = self.bytes.split_to(self.searched + offset + 1).freeze();
                self.searched = 0;
                Ok(Some(line.slice(..line.len() - 1)))
            }
            None if self.bytes.len() > LINE_BYTES_MAX => Err(LineTooLong),
            None => {
                self.searched = self.bytes.len();
                Ok(None)
            }
        }
    }
}

/// Decodes one line of a watch; fails if it is no line of a watch at all.
pub(super) fn decode_line<K: DeserializeOwned>(line: &[u8]) -> Result<Line<K>, serde_json::Error> {
    let error = match serde_json::from_slice::<RawLine<K>>(line) {
        Ok(RawLine::Added(object) | RawLine::Modified(object)) => return Ok(Line::Applied(object)),
        Ok(RawLine::Deleted(object)) => return Ok(Line::Deleted(object)),
        Ok(RawLine::Bookmark(bookmark)) => {
            return Ok(Line::Bookmark {
                version: bookmark.metadata.resource_version,
                ends_list: bookmark.metadata.annotations.initial_events_end.is_some(),
            });
        }
        Ok(RawLine::Error(status)) => return Ok(Line::Failed(status)),
        Err(error) => error,
    };
    match serde_json::from_slice::<RawLine<Stub>>(line) {
        Ok(RawLine::Added(stub) | RawLine::Modified(stub) | RawLine::Deleted(stub)) => {
            Ok(Line::Undecodable(Undecodable::new(stub.metadata, &error)))
        }
        _ => Err(error),
    }
}

/// Decodes one page of a list; fails if it is no list at all.
pub(super) fn decode_page<K: DeserializeOwned>(body: &[u8]) -> Result<Page<K>, serde_json::Error> {
    let (metadata, items) = if let Ok(page) = serde_json::from_slice::<RawPage<K>>(body) {
        let items = page.items.unwrap_or_default();
        (page.metadata, items.into_iter().map(Ok).collect())
    } else {
        // Once more, object by object: slow, but it happens only to lists that no API server should send.
        let page: RawPage<serde_json::Value> = serde_json::from_slice(body)?;
        let items = page.items.unwrap_or_default();
        let items = items.into_iter().map(|item| {
            K::deserialize(&item).map_err(|error| {
                let stub = Stub::deserialize(&item).unwrap_or_default();
                Undecodable::new(stub.metadata, &error)
            })
        });
        (page.metadata, items.collect())
    };
    Ok(Page {
        version: metadata.resource_version.unwrap_or_default(),
        next: metadata.next.filter(|token| !token.is_empty()),
        items,
    })
}

// === impl Undecodable ===

impl Undecodable {
    fn new(metadata: Metadata, error: &serde_json::Error) -> Self {
        Self {
            object: format!("{}/{}", metadata.namespace, metadata.name),
            version: metadata.resource_version,
            complaint: error.to_string().chars().take(COMPLAINT_MAX).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::k8s::objects::Service;

    fn check(line: &str, expected: &str) {
        let got = match decode_line::<Service>(line.as_bytes()) {
            Ok(Line::Applied(object)) => format!("applied {}", object.metadata.name),
            Ok(Line::Deleted(object)) => format!("deleted {}", object.metadata.name),
            Ok(Line::Bookmark { version, ends_list }) => format!("bookmark {version} {ends_list}"),
            Ok(Line::Failed(status)) => format!("failed {} {}", status.code, status.message),
            Ok(Line::Undecodable(bad)) => format!("undecodable {} {}", bad.object, bad.version),
            Err(_) => "garbage".to_owned(),
        };
        assert_eq!(got, expected, "{line}");
    }

    #[test]
    fn lines_of_a_watch() {
        check(
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
            "applied a",
        );
        check(
            r#"{"type":"MODIFIED","object":{"metadata":{"name":"a"}}}"#,
            "applied a",
        );
        check(
            r#"{"object":{"metadata":{"name":"a"}},"type":"DELETED"}"#,
            "deleted a",
        );
        check(
            r#"{"type":"BOOKMARK","object":{"kind":"Service","metadata":{"resourceVersion":"7","creationTimestamp":null}}}"#,
            "bookmark 7 false",
        );
        check(
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
            "bookmark 7 true",
        );
        check(
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old","reason":"Expired"}}"#,
            "failed 410 too old",
        );
        for garbage in [
            "",
            "{}",
            "<html>",
            r#"{"type":"ADDED"}"#,
            r#"{"type":"OTHER","object":{}}"#,
        ] {
            check(garbage, "garbage");
        }
    }

    #[test]
    fn an_undecodable_object_is_named() {
        check(
            r#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"3"},"spec":{"ports":7}}}"#,
            "undecodable n/a 3",
        );
    }

    #[test]
    fn an_undecodable_object_costs_only_itself_in_a_list() {
        let page: Page<Service> = decode_page(
            br#"{"metadata":{"resourceVersion":"9","continue":"more"},"items":[
                {"metadata":{"name":"a"}},{"metadata":{"name":"b","namespace":"n"},"spec":1},{"metadata":{"name":"c"}}]}"#,
        )
        .expect("a list");
        let names: Vec<_> = page
            .items
            .iter()
            .map(|item| match item {
                Ok(service) => service.metadata.name.clone(),
                Err(bad) => format!("bad {}", bad.object),
            })
            .collect();
        assert_eq!(
            (page.version.as_str(), page.next.as_deref()),
            ("9", Some("more"))
        );
        assert_eq!(names, ["a", "bad n/b", "c"]);
        let empty: Page<Service> =
            decode_page(br#"{"metadata":{"resourceVersion":"9","continue":""},"items":null}"#)
                .expect("a list");
        assert!(empty.items.is_empty() && empty.next.is_none());
        assert!(decode_page::<Service>(b"<html>").is_err());
    }

    #[test]
    fn lines_may_be_cut_anywhere() {
        let text = b"one\n\ntwo\nthr";
        for size in 1..text.len() {
            let mut buffer = LineBuffer::default();
            let mut lines = Vec::new();
            for chunk in text.chunks(size) {
                buffer.push(chunk);
                while let Some(line) = buffer.next_line().expect("short") {
                    lines.push(String::from_utf8(line.to_vec()).expect("text"));
                }
            }
            assert_eq!(lines, ["one", "", "two"], "chunks of {size}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut buffer = LineBuffer::default();
        buffer.push(&vec![b'x'; LINE_BYTES_MAX + 1]);
        assert!(buffer.next_line().is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_answer_or_an_error(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            drop(decode_line::<Service>(&bytes));
            drop(decode_page::<Service>(&bytes));
        }
    }
}
