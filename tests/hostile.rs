//! Hostile input, made up anew and as fuzzers found it. Needs nothing.
//!
//! Each target of `tributary::testing::hostile` is given everything in its corpus, `fuzz/corpus/NAME`, and then many cases
//! that are made of it: cut, spliced and altered, or made up from nothing. Input that makes a target panic is printed as short
//! as it can be made, with what to do with it. `TRIBUTARY_HOSTILE_CASES` is how many cases there are in all,
//! `TRIBUTARY_HOSTILE_SEED` where they begin.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that panics has failed, and says why"
)]

use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use tributary::testing::Dice;
use tributary::testing::hostile::{TARGETS, Target};

/// Cases in all, unless somebody asks for more.
const CASES: usize = 1_000_000;
/// Longest input that is made up: most is found with little.
const BYTES_MAX: usize = 400;

/// Cases in a thousand that are a target's: those that do more work have fewer.
const SHARES: &[(&str, usize)] = &[
    ("authority", 225),
    ("token", 150),
    ("request", 30),
    ("texts", 250),
    ("settings", 150),
    ("watch", 130),
    ("secret", 10),
    ("kubeconfig", 25),
    ("objects", 15),
    ("profile", 15),
];

/// Pieces of texts that mean something to some target.
const WORDS: &[&[u8]] = &[
    b".svc.cluster.local",
    b":80",
    b":",
    b"[",
    b"]",
    b"::1",
    b"10.0.0.1",
    b"web.a",
    b"\n",
    b"{\"ns\":\"a\"}",
    b"\"nodeName\":",
    b"null",
    b"{",
    b"}",
    b",",
    b"\"",
    b"@east",
    b"1-65535",
    b"http",
    b"10s",
    b"1.5h",
    b"-",
    b"500m",
    b"1e9",
    b"Ki",
    b"{\"type\":\"ADDED\",\"object\":{",
    b"\"metadata\":{\"name\":\"a\"}",
    b"\"spec\":{",
    b"\"items\":[",
    b"keep_alive",
    b"seconds",
    b"current-context: c\n",
    b"clusters:\n- name: c\n",
    b"  cluster: {server: https://a}\n",
    b"&a [*a]",
    b"!!binary ",
    "\u{212a}".as_bytes(),
    b"\xff",
    b"\0",
];

#[test]
fn no_input_of_texts_and_messages_panics() {
    run(|name| !is_deep(name));
}

#[test]
fn no_object_panics() {
    run(is_deep);
}

/// Whether a target makes objects of its input, which is most of the work.
fn is_deep(name: &str) -> bool {
    matches!(name, "objects" | "profile" | "secret" | "request")
}

#[test]
fn every_target_has_a_share_and_a_corpus() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let shares: Vec<&str> = SHARES.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, shares);
    assert_eq!(SHARES.iter().map(|(_, share)| share).sum::<usize>(), 1000);
    for name in names {
        assert!(!corpus(name).is_empty(), "{name} has no corpus");
    }
}

#[test]
fn an_input_that_panics_is_made_short() {
    let target = Target {
        name: "zero",
        run: |bytes| assert!(!bytes.contains(&0), "a zero"),
    };
    let mut bytes = vec![7; 100];
    bytes[50] = 0;
    let (shortest, complaint) = failure(&target, bytes).unwrap();
    assert_eq!((shortest, complaint.as_str()), (vec![0], "a zero"));
    assert!(failure(&target, vec![7; 100]).is_none());
}

fn run(wanted: fn(&str) -> bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let cases = number("TRIBUTARY_HOSTILE_CASES").unwrap_or(CASES);
    let seed = number("TRIBUTARY_HOSTILE_SEED").unwrap_or_default() as u64;
    for (target, (_, share)) in TARGETS.iter().zip(SHARES) {
        if !wanted(target.name) {
            continue;
        }
        let corpus = corpus(target.name);
        for bytes in &corpus {
            check(target, bytes.clone());
        }
        let cases = (cases * share).div_ceil(1000);
        for case in 0..cases as u64 {
            check(target, made_up(&mut Dice::seeded(seed + case), &corpus));
        }
        let report = format!(
            "hostile {}: {} inputs of the corpus, {cases} cases\n",
            target.name,
            corpus.len()
        );
        // Shown even while the output of tests that pass is kept back.
        std::io::stderr().write_all(report.as_bytes()).unwrap();
    }
}

fn check(target: &Target, bytes: Vec<u8>) {
    if let Some((shortest, complaint)) = failure(target, bytes) {
        let escaped = shortest.escape_ascii();
        panic!(
            "{} panics: {complaint}\nKeep the input: printf '%b' '{escaped}' > fuzz/corpus/{}/NAME",
            target.name, target.name
        );
    }
}

/// The shortest part of an input that still makes a target panic, and how it complains; `None` if it does not.
fn failure(target: &Target, bytes: Vec<u8>) -> Option<(Vec<u8>, String)> {
    let run = |bytes: &[u8]| catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).err();
    let mut complaint = run(&bytes)?;
    let (mut shortest, mut length) = (bytes, 64);
    while length > 0 {
        let mut start = 0;
        while start < shortest.len() {
            let mut shorter = shortest.clone();
            shorter.drain(start..(start + length).min(shortest.len()));
            match run(&shorter) {
                Some(again) => (shortest, complaint) = (shorter, again),
                None => start += length,
            }
        }
        length /= 2;
    }
    let owned = complaint.downcast_ref::<String>().cloned();
    let text = owned.or_else(|| complaint.downcast_ref::<&str>().map(ToString::to_string));
    Some((shortest, text.unwrap_or_default()))
}

fn made_up(dice: &mut Dice<'_>, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = match dice.below(4) {
        0 => dice.list(0..BYTES_MAX, byte),
        1 => dice.list(0..8, |dice| dice.one(WORDS)).concat(),
        _ if corpus.is_empty() => Vec::new(),
        _ => corpus[dice.below(corpus.len())].clone(),
    };
    for _ in 0..dice.below(5) {
        let at = dice.below(bytes.len() + 1);
        let end = (at + dice.within(1..9)).min(bytes.len());
        match dice.below(5) {
            0 => bytes.insert(at, byte(dice)),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, dice.one(WORDS).iter().copied())),
            3 => {
                let again = bytes[..at].to_vec();
                bytes.splice(at..end, again);
            }
            _ => bytes[at..end]
                .iter_mut()
                .for_each(|changed| *changed = byte(dice)),
        }
    }
    bytes.truncate(4 * BYTES_MAX);
    bytes
}

fn byte(dice: &mut Dice<'_>) -> u8 {
    u8::try_from(dice.below(256)).unwrap()
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(name);
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "settings of tests are not those of the product"
)]
fn number(variable: &str) -> Option<usize> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap())
}
