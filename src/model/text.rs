//! Small immutable strings, cheap to clone and to share.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use arcstr::ArcStr;

/// An immutable, reference-counted string, one word wide. Cloning shares the bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(ArcStr);

// === impl Text ===

impl Text {
    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both share the same bytes in memory; says nothing when false.
    pub fn same(&self, other: &Self) -> bool {
        ArcStr::ptr_eq(&self.0, &other.0)
    }

    /// Whether nobody but this value holds the bytes.
    pub(crate) fn unshared(&self) -> bool {
        ArcStr::strong_count(&self.0) == Some(1)
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(ArcStr::from(text))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(ArcStr::from(text))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Declares identifiers that are text but must not be mistaken for one another.
macro_rules! identifier {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name($crate::model::Text);

        impl $name {
            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }

            /// The shared text itself.
            pub fn text(&self) -> &$crate::model::Text {
                &self.0
            }
        }

        impl<T: Into<$crate::model::Text>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.0.as_str()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(self.as_str(), f)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    )+};
}

pub(super) use identifier;
