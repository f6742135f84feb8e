//! What documents say is shown by a test is shown by one that is there. Needs nothing.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics has failed, and says why"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Tables of these documents name tests in their last columns.
const DOCUMENTS: [&str; 3] = [
    "docs/compatibility.md",
    "docs/field-cases.md",
    "docs/operate.md",
];

/// Oddities of Linkerd's controller that `docs/compatibility.md` has a row for, by their numbers.
const ODDITIES: [(u32, u32); 4] = [(1, 29), (30, 49), (50, 67), (70, 75)];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The names of all functions in the sources and the tests.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders: Vec<PathBuf> = ["src", "tests"].map(|name| root().join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let declared = text.split("fn ").skip(1);
                let name = |rest: &str| {
                    let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                    rest[..end.unwrap_or(rest.len())].to_owned()
                };
                names.extend(declared.map(name));
            }
        }
    }
    names
}

/// What a document says is a test.
#[derive(Debug)]
struct Named<'a> {
    /// The word before it: `recording`, `golden`, or another.
    kind: &'a str,
    name: &'a str,
}

/// Marked words of the last column of each row of each table.
fn last_columns(document: &str) -> Vec<Named<'_>> {
    let rows = document.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.trim_end_matches(['|', ' ']).rsplit('|').next());
    let mut all = Vec::new();
    for cell in cells {
        let mut kind = "";
        let parts: Vec<&str> = cell.split('`').collect();
        for pair in parts.chunks_exact(2) {
            let (before, name) = (pair[0].trim_matches([',', ' ']), pair[1]);
            // "recordings `a/b`, `c/d`": what is said once goes for all that follow.
            if !before.is_empty() {
                kind = before.rsplit(' ').next().unwrap_or_default();
            } else if !name.contains('/') {
                kind = "";
            }
            all.push(Named { kind, name });
        }
    }
    all
}

impl Named<'_> {
    /// Whether it is there; `None` if it is no test, but a flag, a file or a command.
    fn is_there(&self, functions: &BTreeSet<String>) -> Option<bool> {
        let fixture = |folder: &str| root().join(folder).join(self.name).is_dir();
        match self.kind {
            "recording" | "recordings" => Some(fixture("tests/fixtures/observed")),
            "golden" => Some(fixture("tests/fixtures/golden")),
            _ if !self.name.contains('_') || self.name.contains(['/', '-', ' ', '.', '=']) => None,
            _ => Some(match self.name.strip_suffix('…') {
                Some(beginning) => functions
                    .range(beginning.to_owned()..)
                    .next()
                    .is_some_and(|name| name.starts_with(beginning)),
                None => functions.contains(self.name),
            }),
        }
    }
}

#[test]
fn tests_that_documents_name_are_there() {
    let functions = functions();
    let (mut found, mut missing) = (0, Vec::new());
    for file in DOCUMENTS {
        for named in last_columns(&read(file)) {
            match named.is_there(&functions) {
                Some(true) => found += 1,
                Some(false) => missing.push(format!("{file}: {named:?}")),
                None => {}
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(found > 200, "only {found} names were understood");
}

#[test]
fn every_oddity_of_the_controller_has_a_row() {
    let document = read("docs/compatibility.md");
    let rows: Vec<&str> = document
        .lines()
        .filter(|line| line.starts_with("| O-"))
        .collect();
    for number in ODDITIES.into_iter().flat_map(|(first, last)| first..=last) {
        let begin = format!("| O-{number:02} |");
        let of_number: Vec<_> = rows.iter().filter(|row| row.starts_with(&begin)).collect();
        let [row] = of_number[..] else {
            panic!("{} rows of O-{number:02}", of_number.len());
        };
        let columns: Vec<&str> = row.split(" | ").collect();
        assert_eq!(columns.len(), 4, "{row}");
        let verdicts = ["kept", "better", "cannot happen"];
        let has_verdict = verdicts
            .iter()
            .any(|verdict| columns[2].starts_with(verdict));
        assert!(has_verdict, "{row}");
        assert!(columns[3].contains('`'), "nothing shows it: {row}");
    }
}
