//! Events of a watch → changes; a list becomes one change, when it is complete.
//!
//! Pure. A list that breaks off is forgotten: until its end it says nothing, since what it lacks so far may follow.

use super::convert::Converted;
use crate::index::{Kind, Object, ObjectChange, ObjectName};

/// What a watch of one kind reports.
#[derive(Debug)]
pub(super) enum Event {
    /// A list of everything begins, perhaps once more.
    ListStarted,
    /// The list has this object.
    Listed(Converted),
    /// The list is complete.
    ListEnded,
    /// An object was made or changed.
    Applied(Converted),
    /// An object is gone.
    Deleted(ObjectName),
}

/// The list that is under way, if one is.
#[derive(Debug)]
pub(super) struct ResyncBuffer {
    kind: Kind,
    staged: Option<Vec<Object>>,
}

// === impl ResyncBuffer ===

impl ResyncBuffer {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, staged: None }
    }

    /// What an event means to the index, if anything yet.
    pub(super) fn on_event(&mut self, event: Event) -> Option<ObjectChange> {
        match (event, &mut self.staged) {
            (Event::ListStarted, staged) => {
                *staged = Some(Vec::new());
                None
            }
            (Event::Listed(converted), staged) => {
                staged.get_or_insert_default().extend(converted.object);
                None
            }
            (Event::ListEnded, staged) => staged
                .take()
                .map(|objects| ObjectChange::Resync(self.kind, objects)),
            // Changes that a server sends before the end of its list belong to the list.
            (Event::Applied(converted), Some(staged)) => {
                staged.retain(|object| object.name() != converted.name);
                staged.extend(converted.object);
                None
            }
            (Event::Deleted(name), Some(staged)) => {
                staged.retain(|object| object.name() != name);
                None
            }
            (Event::Applied(converted), None) => Some(match converted.object {
                Some(object) => ObjectChange::Apply(object),
                None => ObjectChange::Delete(converted.name),
            }),
            (Event::Deleted(name), None) => Some(ObjectChange::Delete(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NodeFacts, NodeName};

    fn node(name: &str) -> Converted {
        let name = NodeName::from(name);
        Converted {
            object: Some(Object::Node(name.clone(), NodeFacts::default())),
            name: ObjectName::Node(name),
            warnings: Vec::new(),
        }
    }

    fn ineligible(name: &str) -> Converted {
        Converted {
            object: None,
            ..node(name)
        }
    }

    /// Events as words (`[` start, `]` end, `+a` listed, `a` applied, `-a` deleted, `?a` applied but ineligible, `?+a`
    /// listed but ineligible) in, changes out.
    fn check(events: &str, expected: &str) {
        let mut buffer = ResyncBuffer::new(Kind::Node);
        let mut changes = Vec::new();
        for word in events.split_whitespace() {
            let event = match word.split_at(1) {
                ("[", _) => Event::ListStarted,
                ("]", _) => Event::ListEnded,
                ("+", name) => Event::Listed(node(name)),
                ("-", name) => Event::Deleted(node(name).name),
                ("?", name) => match name.strip_prefix('+') {
                    Some(name) => Event::Listed(ineligible(name)),
                    None => Event::Applied(ineligible(name)),
                },
                _ => Event::Applied(node(word)),
            };
            let text = |object: &Object| match object {
                Object::Node(name, _) => name.to_string(),
                other => format!("{other:?}"),
            };
            changes.extend(buffer.on_event(event).map(|change| match change {
                ObjectChange::Apply(object) => text(&object),
                ObjectChange::Delete(ObjectName::Node(name)) => format!("-{name}"),
                ObjectChange::Resync(Kind::Node, objects) => {
                    let names: Vec<_> = objects.iter().map(text).collect();
                    format!("[{}]", names.join(" "))
                }
                other => format!("{other:?}"),
            }));
        }
        assert_eq!(changes.join(", "), expected, "{events}");
    }

    #[test]
    fn a_list_is_one_change_at_its_end() {
        check("[ +a +b", "");
        check("[ +a +b ]", "[a b]");
        check("[ ]", "[]");
        check("[ +a ] b -a", "[a], b, -a");
    }

    #[test]
    fn a_list_cut_short_leaves_no_trace() {
        check("[ +a [ +b [ +c [ +d ]", "[d]");
        check("[ +a ] b [ +b [ +a +b ] -a", "[a], b, [a b], -a");
        check("[ +a [ ]", "[]");
    }

    #[test]
    fn a_list_may_begin_with_its_first_object() {
        check("+a ]", "[a]");
    }

    #[test]
    fn an_end_without_a_list_says_nothing() {
        check("]", "");
        check("[ +a ] ]", "[a]");
    }

    #[test]
    fn changes_during_a_list_belong_to_it() {
        check("[ +a +b a -b ?a c ]", "[c]");
    }

    #[test]
    fn an_object_that_takes_no_part_is_gone() {
        check("?a", "-a");
        check("[ +a ?+b ]", "[a]");
    }
}
