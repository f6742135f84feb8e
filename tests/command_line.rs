//! The binary as a shell sees it: exit codes, and what goes to which stream. Needs nothing.

#![allow(clippy::unwrap_used, reason = "a test says what it expects by failing")]

use std::process::{Command, Output};

fn tributary(args: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tributary"))
        .args(args)
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn check(args: &[&str], environment: &[(&str, &str)], code: i32, expected: &str) {
    let output = tributary(args, environment);
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {err}");
    assert!(err.contains(expected), "{args:?}: {err}");
    assert_eq!(err.lines().count(), 1, "{args:?}: {err}");
    assert_eq!(output.stdout, b"", "{args:?}");
}

#[test]
fn a_bad_flag_is_one_line_and_64() {
    check(
        &["serve", "--adr=:1"],
        &[],
        64,
        "tributary: unexpected argument '--adr'",
    );
    check(
        &["serve", "--startup-grace=3s"],
        &[],
        64,
        "tributary: --startup-grace: must be below 3s",
    );
    check(&["endpoints"], &[], 64, "<AUTHORITY>");
}

#[test]
fn a_bad_variable_is_named() {
    let bad = [("TRIBUTARY_MAX_STREAMS", "many")];
    check(
        &["serve"],
        &bad,
        64,
        "tributary: TRIBUTARY_MAX_STREAMS (environment): invalid value 'many'",
    );
    let bad = [("TRIBUTARY_LOG_LEVEL", "loud")];
    check(&["serve"], &bad, 64, "TRIBUTARY_LOG_LEVEL");
}

#[test]
fn a_flag_wins_over_its_variable() {
    let bad = [
        ("TRIBUTARY_MAX_STREAMS", "7"),
        ("TRIBUTARY_STARTUP_GRACE", "1s"),
    ];
    check(
        &["serve", "--max-streams=many"],
        &bad,
        64,
        "tributary: invalid value 'many'",
    );
}

#[test]
fn manifests_without_a_home_cluster_are_64() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("west")).unwrap();
    let manifests = folder.path().to_str().unwrap();
    let missing = folder.path().join("home").display().to_string();
    check(
        &["serve", "--manifests", manifests],
        &[],
        64,
        &format!("tributary: --manifests: there is no folder {missing}"),
    );
}

#[test]
fn nobody_to_ask_is_2() {
    check(
        &["endpoints", "web.shop", "--addr", "127.0.0.1:1"],
        &[],
        2,
        "cannot connect to 127.0.0.1:1",
    );
}

#[test]
fn help_version_and_completions_go_to_stdout() {
    for args in [
        &["--help"][..],
        &["serve", "--help"],
        &["--version"],
        &["completions", "bash"],
        &["completions", "zsh"],
    ] {
        let output = tributary(args, &[]);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(
            String::from_utf8(output.stdout)
                .unwrap()
                .contains("tributary"),
            "{args:?}"
        );
        assert_eq!(output.stderr, b"", "{args:?}");
    }
}
