//! Answers for programs.

use std::io::{self, Write};

use serde::Serialize;

/// One of the formats for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Yaml,
}

/// Writes one value, as a document of its own.
pub(super) fn write(out: &mut dyn Write, format: Format, value: &impl Serialize) -> io::Result<()> {
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, value)?;
            writeln!(out)?;
        }
        Format::Yaml => yaml(out, value)?,
    }
    out.flush()
}

/// Writes one of several values: a line of JSON, or a document of YAML.
pub(super) fn write_next(
    out: &mut dyn Write,
    format: Format,
    value: &impl Serialize,
) -> io::Result<()> {
    match format {
        Format::Json => {
            serde_json::to_writer(&mut *out, value)?;
            writeln!(out)?;
        }
        Format::Yaml => {
            writeln!(out, "---")?;
            yaml(out, value)?;
        }
    }
    out.flush()
}

fn yaml(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let text = serde_saphyr::to_string(value).map_err(io::Error::other)?;
    writeln!(out, "{}", text.trim_end())
}
