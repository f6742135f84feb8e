//! Colours, which say again what the words say.

use crate::config::Colour;

/// What a piece of text is; a colour on terminals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Tone {
    /// Nothing special.
    Normal,
    /// A heading.
    Heading,
    /// Something that is there or came.
    Good,
    /// Something that is odd or changed.
    Odd,
    /// Something that is missing or went.
    Bad,
}

/// The text in the colour of its tone.
pub(in crate::cli) fn paint(text: &str, tone: Tone, colour: Colour) -> String {
    let code = match (colour, tone) {
        (Colour::Plain, _) | (_, Tone::Normal) => return text.to_owned(),
        (Colour::Ansi, Tone::Heading) => 1,
        (Colour::Ansi, Tone::Good) => 32,
        (Colour::Ansi, Tone::Odd) => 33,
        (Colour::Ansi, Tone::Bad) => 31,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}
