//! Needs nothing but the source tree: checks which folder imports what, and that every file belongs to the crate.
#![allow(clippy::unwrap_used, reason = "a failed read is a failed test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What one folder of `src/` may name. The longest matching prefix of a file's path decides.
struct Rule {
    /// File (`src/` and `.rs` left off) or folder.
    place: &'static str,
    /// Our own modules it may import, as they follow `crate::`.
    ours: &'static [&'static str],
    /// Outside crates it may not name.
    never: &'static [&'static str],
}

const WIRE: &[&str] = &["tonic", "prost", "hyper", "tower"];
const KUBERNETES: &[&str] = &["kube", "k8s_openapi"];
const IO_AND_CLOCK: &[&str] = &[
    "tokio",
    "tonic",
    "prost",
    "hyper",
    "kube",
    "k8s_openapi",
    "serde",
    "serde_json",
    "tracing",
    "rand",
    "parking_lot",
];

/// The arrows, from the inside out.
const RULES: &[Rule] = &[
    Rule {
        place: "model",
        ours: &["model"],
        never: IO_AND_CLOCK,
    },
    Rule {
        place: "index",
        ours: &["model", "index"],
        never: IO_AND_CLOCK,
    },
    Rule {
        place: "readiness",
        ours: &[],
        never: &["kube", "tonic", "prost"],
    },
    Rule {
        place: "answer",
        ours: &[],
        never: KUBERNETES,
    },
    Rule {
        place: "publish",
        ours: &["model", "index", "publish", "readiness"],
        never: &["kube", "k8s_openapi", "tonic", "prost", "hyper"],
    },
    Rule {
        place: "sources",
        ours: &["model", "index", "publish", "readiness", "sources"],
        never: &["tonic", "prost"],
    },
    Rule {
        place: "frontends/destination",
        ours: &[
            "answer",
            "model",
            "index",
            "publish",
            "proto",
            "frontends::destination",
            "frontends::ending",
            "frontends::grpc",
        ],
        never: KUBERNETES,
    },
    Rule {
        place: "frontends/introspection",
        ours: &[
            "model",
            "index",
            "publish",
            "proto",
            "frontends::introspection",
        ],
        never: KUBERNETES,
    },
    Rule {
        place: "frontends/xds",
        ours: &[
            "answer",
            "model",
            "index",
            "publish",
            "proto",
            "frontends::ending",
            "frontends::grpc",
            "frontends::xds",
        ],
        never: KUBERNETES,
    },
    Rule {
        place: "frontends",
        ours: &["frontends"],
        never: KUBERNETES,
    },
    Rule {
        place: "proto",
        ours: &["proto"],
        never: KUBERNETES,
    },
    Rule {
        place: "page",
        ours: &["config", "page", "proto", "report"],
        never: KUBERNETES,
    },
    Rule {
        place: "report",
        ours: &["proto", "report"],
        never: KUBERNETES,
    },
    Rule {
        place: "server",
        ours: &["answer", "proto", "readiness"],
        never: KUBERNETES,
    },
    Rule {
        place: "admin",
        ours: &["admin", "publish", "readiness"],
        never: KUBERNETES,
    },
    Rule {
        place: "writer",
        ours: &["model", "index", "publish", "writer"],
        never: WIRE,
    },
    Rule {
        place: "config",
        ours: &["config", "model", "proto"],
        never: &["kube", "tonic", "prost"],
    },
    Rule {
        place: "telemetry",
        ours: &["config", "telemetry"],
        never: WIRE,
    },
    Rule {
        place: "cli",
        ours: &["cli", "config", "model", "proto", "report"],
        never: KUBERNETES,
    },
    Rule {
        place: "demo",
        ours: &[
            "app",
            "config",
            "demo",
            "index",
            "model",
            "proto",
            "publish",
            "sources",
            "readiness",
        ],
        never: KUBERNETES,
    },
];

/// Files that wire everything and may import everything.
const WIRING: &[&str] = &["app", "main", "lib", "testing"];

#[test]
fn imports_follow_the_arrows() {
    let mut wrong = Vec::new();
    for file in sources() {
        let place = place_of(&file);
        // Unit tests may build what they need around the code that they test.
        let is_test = place.split('/').any(|part| part == "tests");
        if is_test || WIRING.iter().any(|wiring| within(&place, wiring)) {
            continue;
        }
        let rule = RULES
            .iter()
            .filter(|rule| within(&place, rule.place))
            .max_by_key(|rule| rule.place.len());
        let Some(rule) = rule else {
            wrong.push(format!("src/{place}.rs: no rule says what it may import"));
            continue;
        };
        let code = code_of(&file);
        for import in imports(&code) {
            let allowed = rule
                .ours
                .iter()
                .any(|ours| import == *ours || import.starts_with(&format!("{ours}::")));
            if !allowed && !import.starts_with("testing") {
                wrong.push(format!("src/{place}.rs: imports crate::{import}"));
            }
        }
        for outside in rule.never {
            if names_crate(&code, outside) {
                wrong.push(format!("src/{place}.rs: names {outside}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "arrows that point the wrong way:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_file_belongs_to_the_crate() {
    let declared: BTreeSet<PathBuf> = sources()
        .iter()
        .flat_map(|file| {
            let folder = if matches!(place_of(file).as_str(), "lib" | "main") {
                root()
            } else {
                file.with_extension("")
            };
            modules(&code_of(file))
                .into_iter()
                .map(move |module| folder.join(format!("{module}.rs")))
        })
        .collect();
    let orphans: Vec<_> = sources()
        .into_iter()
        .filter(|file| !matches!(place_of(file).as_str(), "lib" | "main"))
        .filter(|file| !declared.contains(file))
        .collect();
    assert!(
        orphans.is_empty(),
        "files that no module declares: {orphans:?}"
    );
}

#[test]
fn the_arrows_would_catch_a_wrong_import() {
    let code = "use crate::{model::Text, frontends};\nlet x = crate::sources::k8s::run();";
    let found = imports(code);
    assert_eq!(
        found,
        BTreeSet::from([
            "model::Text".to_owned(),
            "frontends".to_owned(),
            "sources::k8s".to_owned()
        ])
    );
    assert!(names_crate("let a = kube::Client::new();", "kube"));
    assert!(!names_crate("let a = my_kube::Client::new();", "kube"));
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn sources() -> Vec<PathBuf> {
    let mut folders = vec![root()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// `src/index/join.rs` is `index/join`.
fn place_of(file: &Path) -> String {
    let place = file.strip_prefix(root()).unwrap().with_extension("");
    place.to_str().unwrap().to_owned()
}

fn within(place: &str, folder: &str) -> bool {
    place == folder || place.starts_with(&format!("{folder}/"))
}

/// A file without its comments.
fn code_of(file: &Path) -> String {
    fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|line| match line.find("//") {
            Some(comment) if !line[..comment].contains('"') => &line[..comment],
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

/// The first two segments of everything that follows `crate::`.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (start, _) in code.match_indices("crate::") {
        let before = code[..start].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[start + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let group = &group[..group.find('}').unwrap_or(group.len())];
            found.extend(group.split(',').map(|item| two_segments(item.trim())));
        } else {
            found.insert(two_segments(rest));
        }
    }
    found.remove("");
    found
}

fn two_segments(path: &str) -> String {
    let end = path
        .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
        .unwrap_or(path.len());
    let segments: Vec<_> = path[..end]
        .split("::")
        .filter(|segment| !segment.is_empty())
        .collect();
    segments[..segments.len().min(2)].join("::")
}

fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(start, _)| {
        let before = code[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

/// Modules that a file declares.
fn modules(code: &str) -> Vec<String> {
    code.lines()
        .filter_map(|line| {
            let line = line
                .trim()
                .trim_start_matches("pub(super) ")
                .trim_start_matches("pub(crate) ");
            let line = line.strip_prefix("pub ").unwrap_or(line);
            Some(line.strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
        })
        .collect()
}
