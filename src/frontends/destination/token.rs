//! The context token: what a client says of itself.

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// What a client says of itself. All of it may be missing; none of it is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextToken {
    /// The namespace of the client's Pod.
    pub namespace: Option<String>,
    /// The node the client's Pod runs on.
    pub node: Option<String>,
    /// The client's Pod.
    pub pod: Option<String>,
}

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenFlaw {
    /// It is no JSON object with the texts `ns`, `nodeName` and `pod`, or not all of it could be read.
    Unreadable,
    /// It has the old form, which says nothing of a node.
    Legacy,
}

// === impl ContextToken ===

impl ContextToken {
    /// Reads a token: a JSON object, or the old form `ns:NAMESPACE`.
    ///
    /// A token that cannot be read never refuses a request: what could be read of it comes with the flaw.
    pub fn parse(text: &str) -> (Self, Option<TokenFlaw>) {
        if text.is_empty() {
            return (Self::default(), None);
        }
        match serde_json::from_str::<Option<Fields>>(text) {
            Ok(None) => (Self::default(), None),
            Ok(Some(fields)) => (
                fields.token,
                fields.ill_typed.then_some(TokenFlaw::Unreadable),
            ),
            Err(_) => match text.split_once(':') {
                Some(("ns", namespace)) if !namespace.contains(':') => {
                    let token = Self {
                        namespace: Some(namespace.to_owned()),
                        ..Self::default()
                    };
                    (token, Some(TokenFlaw::Legacy))
                }
                _ => (Self::default(), Some(TokenFlaw::Unreadable)),
            },
        }
    }
}

/// The fields of a JSON token, read the way clients' encoders and the reference's decoder do: keys in any case, the last
/// duplicate wins, null changes nothing, and a value of the wrong type costs only itself.
struct Fields {
    token: ContextToken,
    ill_typed: bool,
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields {
            token: ContextToken::default(),
            ill_typed: false,
        };
        while let Some(key) = map.next_key::<String>()? {
            let field = match key.to_lowercase().as_str() {
                "ns" => &mut fields.token.namespace,
                "nodename" => &mut fields.token.node,
                "pod" => &mut fields.token.pod,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            match map.next_value::<serde_json::Value>()? {
                serde_json::Value::Null => {}
                serde_json::Value::String(text) => *field = Some(text),
                _ => fields.ill_typed = true,
            }
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let (token, flaw) = ContextToken::parse(text);
        let part = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
        let mut got = format!(
            "{} {} {}",
            part(token.namespace),
            part(token.node),
            part(token.pod)
        );
        match flaw {
            Some(TokenFlaw::Unreadable) => got.push_str(" error"),
            Some(TokenFlaw::Legacy) => got.push_str(" legacy"),
            None => {}
        }
        assert_eq!(got, expected, "{text:?}");
    }

    #[test]
    fn json_tokens_are_read_leniently() {
        check("", "- - -");
        check(
            "{\"ns\":\"shop\",\"nodeName\":\"n0\",\"pod\":\"web\"}\n",
            "shop n0 web",
        );
        check("{\"NS\":\"a\",\"ns\":\"b\",\"nodename\":\"n\"}", "b n -");
        check("{\"ns\":\"a\",\"ns\":null,\"other\":[1]}", "a - -");
        check("null", "- - -");
        check("{\"ns\":5,\"nodeName\":\"n\"}", "- n - error");
    }

    #[test]
    fn the_old_form_names_a_namespace() {
        check("ns:shop", "shop - - legacy");
        check("ns:", " - - legacy");
        check("NS:shop", "- - - error");
        check("ns:a:b", "- - - error");
    }

    #[test]
    fn what_cannot_be_read_says_nothing() {
        check("{\"ns\":\"a\"} {}", "- - - error");
        check("\u{feff}{\"ns\":\"a\"}", "- - - error");
        check("[]", "- - - error");
        check("shop", "- - - error");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_token(text in "\\PC{0,60}") {
            let _ = ContextToken::parse(&text);
        }
    }
}
