//! Ways to what reads the words of others, for tests of what it does with hostile ones.

use super::convert::{self, Convert};
use super::credentials::Credentials;
use super::links::Links;
use super::objects;
use super::wire::{Line, LineBuffer, decode_line, decode_page};

/// Reads a text in the ways in which texts within objects are read.
pub(crate) fn read_texts(text: &str) {
    convert::read_texts(text);
}

/// Reads bytes as a line of a watch and as a page of a list, of a kind that a number chooses.
pub(crate) fn read_answer(kind: u8, bytes: &[u8]) {
    fn read<K: Convert>(bytes: &[u8]) {
        let mut lines = LineBuffer::default();
        lines.push(bytes);
        while let Ok(Some(line)) = lines.next_line() {
            if let Ok(Line::Applied(object) | Line::Deleted(object)) = decode_line::<K>(&line) {
                drop(convert::convert(&object));
            }
        }
        if let Ok(page) = decode_page::<K>(bytes) {
            for object in page.items.iter().flatten() {
                drop(convert::convert(object));
            }
        }
    }
    match kind % 9 {
        0 => read::<objects::Service>(bytes),
        1 => read::<objects::EndpointSlice>(bytes),
        2 => read::<objects::Pod>(bytes),
        3 => read::<objects::Node>(bytes),
        4 => read::<objects::ReplicaSet>(bytes),
        5 => read::<objects::Job>(bytes),
        6 => read::<objects::ExternalWorkload>(bytes),
        7 => read::<objects::Server>(bytes),
        _ => read::<objects::ServiceProfile>(bytes),
    }
}

/// Reads a Secret, as JSON, as one that links a cluster, and lets it go.
pub(crate) fn read_secret(json: &[u8]) {
    let Ok(secret) = serde_json::from_slice::<objects::Secret>(json) else {
        return;
    };
    let mut links = Links::default();
    for cluster in links.applied(&secret) {
        drop(format!("{:?}", links.winner(&cluster)));
    }
    drop(links.complaints(&"home".into()));
    links.deleted(&secret);
    assert!(links.complaints(&"home".into()).is_empty());
}

/// Reads a kubeconfig as one of a Secret.
pub(crate) fn read_kubeconfig(bytes: &[u8]) {
    if let Err(error) = Credentials::parse(bytes) {
        drop(error.to_string());
    }
}
