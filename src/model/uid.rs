//! Unique identifiers of objects.

use std::fmt;

use super::Text;

/// `metadata.uid` of an object: another object of the same name has another one. Empty where it is not known.
///
/// API servers give out UUIDs, which take no allocation here; the API allows any text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Form {
    /// A UUID in the form that API servers write: lower case, with four hyphens.
    Uuid([u8; 16]),
    /// Anything else.
    Other(Text),
}

/// Places of the hyphens of a UUID.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
/// Characters of a UUID.
const UUID_LENGTH: usize = 36;

// === impl Uid ===

impl Uid {
    /// Whether it is not known.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Other(text) if text.is_empty())
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(uuid(text).map_or_else(|| Form::Other(text.into()), Form::Uuid))
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self(Form::Other(Text::default()))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Other(text) => f.write_str(text),
            Form::Uuid(bytes) => {
                for (place, byte) in bytes.iter().enumerate() {
                    if matches!(place, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    if bytes.len() != UUID_LENGTH || HYPHENS.iter().any(|place| bytes[*place] != b'-') {
        return None;
    }
    let mut digits = bytes
        .iter()
        .filter(|byte| **byte != b'-')
        .map(|byte| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        });
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    Some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_as_it_was() {
        for (text, is_uuid) in [
            ("6f0c2a3e-1b4d-4c8f-9a7e-0123456789ab", true),
            ("6F0C2A3E-1b4d-4c8f-9a7e-0123456789ab", false),
            ("6f0c2a3e-1b4d-4c8f-9a7e-0123456789a-", false),
            ("6f0c2a3e-1b4d-4c8f-9a7e-0123456789abc", false),
            ("östlich-von-hier-ist-es-36-bytes-lang", false),
            ("", false),
        ] {
            let uid = Uid::from(text);
            assert_eq!(uid.to_string(), text);
            assert_eq!(matches!(uid.0, Form::Uuid(_)), is_uuid, "{text}");
        }
        assert!(Uid::default().is_empty());
        assert!(!Uid::from("x").is_empty());
    }
}
