//! Labels of objects, and selectors over them.

use super::Text;

/// The labels of one object, in order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(Box<[(Text, Text)]>);

/// What an object's labels have to say for it to be selected: every requirement holds. Without any, all are selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Box<[Requirement]>);

/// One condition on the label of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Key of the label.
    pub key: Text,
    /// What is required of it.
    pub condition: Condition,
}

/// What a [`Requirement`] asks of a label. Source: label selectors of the Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It is there and has one of these values.
    In(Box<[Text]>),
    /// It is absent, or has none of these values.
    NotIn(Box<[Text]>),
    /// It is there.
    Exists,
    /// It is absent.
    DoesNotExist,
}

// === impl Labels ===

impl Labels {
    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&Text> {
        let place = self
            .0
            .binary_search_by(|(known, _)| known.as_str().cmp(key));
        place.ok().map(|place| &self.0[place].1)
    }

    /// Every label, in order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = &(Text, Text)> {
        self.0.iter()
    }
}

impl FromIterator<(Text, Text)> for Labels {
    /// Of several labels with one key the first stays.
    fn from_iter<I: IntoIterator<Item = (Text, Text)>>(labels: I) -> Self {
        let mut labels: Vec<_> = labels.into_iter().collect();
        labels.sort_by(|(one, _), (two, _)| one.cmp(two));
        labels.dedup_by(|(later, _), (earlier, _)| later == earlier);
        Self(labels.into())
    }
}

// === impl Selector ===

impl Selector {
    /// What has to hold, in no particular order.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| requirement.holds(labels))
    }
}

impl FromIterator<Requirement> for Selector {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        Self(requirements.into_iter().collect())
    }
}

// === impl Requirement ===

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        match &self.condition {
            Condition::In(values) => value.is_some_and(|value| values.contains(value)),
            Condition::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Condition::Exists => value.is_some(),
            Condition::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Labels {
        let pairs = text.split_whitespace().map(|pair| {
            let (key, value) = pair.split_once('=').expect("key=value");
            (key.into(), value.into())
        });
        pairs.collect()
    }

    /// Conditions on label `tier`, and which of five objects they select.
    fn check(conditions: &[Condition], expected: &str) {
        let selector: Selector = conditions
            .iter()
            .map(|condition| Requirement {
                key: "tier".into(),
                condition: condition.clone(),
            })
            .collect();
        let selected: Vec<_> = ["tier=a", "tier=b x=y", "tier=", "x=tier", ""]
            .into_iter()
            .filter(|text| selector.matches(&labels(text)))
            .collect();
        assert_eq!(selected.join("|"), expected, "{conditions:?}");
    }

    fn values(values: &[&str]) -> Box<[Text]> {
        values.iter().copied().map(Text::from).collect()
    }

    #[test]
    fn every_requirement_has_to_hold() {
        let all = "tier=a|tier=b x=y|tier=|x=tier|";
        check(&[], all);
        check(&[Condition::Exists], "tier=a|tier=b x=y|tier=");
        check(&[Condition::DoesNotExist], "x=tier|");
        check(&[Condition::In(values(&["a", ""]))], "tier=a|tier=");
        let not_a = Condition::NotIn(values(&["a"]));
        check(std::slice::from_ref(&not_a), "tier=b x=y|tier=|x=tier|");
        check(&[Condition::Exists, not_a], "tier=b x=y|tier=");
        check(&[Condition::Exists, Condition::DoesNotExist], "");
    }

    #[test]
    fn labels_are_found_whatever_order_they_came_in() {
        let labels = labels("z=1 a=2 m=3 a=4");
        let all: Vec<_> = labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(all.join(" "), "a=2 m=3 z=1");
        assert_eq!(labels.get("z").map(Text::as_str), Some("1"));
        assert_eq!(labels.get("b"), None);
    }
}
