//! Answers on stdout, in every form.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::changes::{Change, changes};
use super::table::{Detail, Look, table};
use crate::cli::text::time_of_day;
use crate::config::{Colour, OutputFormat, Watch};
use crate::report::endpoints::Report;

/// Prints a first answer whole, and then what changes.
pub(super) struct Printer<'a> {
    out: &'a mut dyn Write,
    format: OutputFormat,
    watch: Watch,
    look: Look,
    shown: Option<Report>,
}

/// The first line of a watch.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
enum Whole<'a> {
    Snapshot(&'a Report),
}

// === impl Printer ===

impl<'a> Printer<'a> {
    pub(super) fn new(
        out: &'a mut dyn Write,
        format: OutputFormat,
        watch: Watch,
        colour: Colour,
    ) -> Self {
        let detail = match format {
            OutputFormat::Wide => Detail::Wide,
            OutputFormat::Table | OutputFormat::Json | OutputFormat::Yaml => Detail::Narrow,
        };
        Self {
            out,
            format,
            watch,
            look: Look { detail, colour },
            shown: None,
        }
    }

    /// What was shown last.
    pub(super) fn shown(&self) -> Option<&Report> {
        self.shown.as_ref()
    }

    /// Prints an answer, or how it differs from the one before.
    pub(super) fn show(&mut self, report: Report) -> io::Result<()> {
        match self.shown.take() {
            None => self.whole(&report)?,
            Some(before) => {
                for change in changes(&before, &report) {
                    self.change(&change)?;
                }
            }
        }
        self.shown = Some(report);
        self.out.flush()
    }

    fn whole(&mut self, report: &Report) -> io::Result<()> {
        match (self.format, self.watch) {
            (OutputFormat::Table | OutputFormat::Wide, _) => {
                self.out.write_all(table(report, self.look).as_bytes())
            }
            (OutputFormat::Json, Watch::Once) => {
                serde_json::to_writer_pretty(&mut *self.out, report)?;
                writeln!(self.out)
            }
            (OutputFormat::Json, Watch::Changes) => self.json_line(&Whole::Snapshot(report)),
            (OutputFormat::Yaml, Watch::Once) => self.yaml(report),
            (OutputFormat::Yaml, Watch::Changes) => self.document(&Whole::Snapshot(report)),
        }
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        match self.format {
            OutputFormat::Table | OutputFormat::Wide => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH);
                let now = time_of_day(now.unwrap_or_default());
                writeln!(self.out, "{now} {}", change.line(self.look))
            }
            OutputFormat::Json => self.json_line(change),
            OutputFormat::Yaml => self.document(change),
        }
    }

    fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, value)?;
        writeln!(self.out)
    }

    fn document(&mut self, value: &impl Serialize) -> io::Result<()> {
        writeln!(self.out, "---")?;
        self.yaml(value)
    }

    fn yaml(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = serde_saphyr::to_string(value).map_err(io::Error::other)?;
        writeln!(self.out, "{}", text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::endpoints::samples::{endpoint, federated};

    fn print(format: OutputFormat, watch: Watch, reports: Vec<Report>) -> String {
        let mut out = Vec::new();
        let mut printer = Printer::new(&mut out, format, watch, Colour::Plain);
        for report in reports {
            printer.show(report).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    fn two() -> Vec<Report> {
        let mut later = federated();
        later.endpoints.push(endpoint("10.50.0.10:8080", "west"));
        vec![federated(), later]
    }

    #[test]
    fn a_watch_prints_the_whole_once() {
        let text = print(OutputFormat::Table, Watch::Changes, two());
        assert_eq!(text.matches("ADDRESS").count(), 1);
        let last = text.lines().last().unwrap();
        assert!(last.contains("Z + 10.50.0.10:8080"), "{last}");
    }

    #[test]
    fn a_watch_for_programs_is_a_line_per_change() {
        let text = print(OutputFormat::Json, Watch::Changes, two());
        let types: Vec<String> = text
            .lines()
            .map(|line| {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                value["type"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(types, ["snapshot", "added"]);
    }

    #[test]
    fn json_and_yaml_say_the_same() {
        let json = print(OutputFormat::Json, Watch::Once, vec![federated()]);
        let yaml = print(OutputFormat::Yaml, Watch::Once, vec![federated()]);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let yaml: serde_json::Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(json, yaml);
    }
}
