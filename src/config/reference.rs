//! The flags of Linkerd's destination controller, in its own syntax: one dash or two, booleans only with `=`.
//!
//! `tributary destination` with the arguments of Linkerd's chart is `tributary serve` with the same settings.

use super::{Notice, UsageError};

/// Flags of the controller that `serve` has under the same name and that take a value.
const WITH_VALUE: &[&str] = &[
    "addr",
    "metrics-addr",
    "kubeconfig",
    "controller-namespace",
    "outbound-transport-mode",
    "identity-trust-domain",
    "cluster-domain",
    "default-opaque-ports",
    "meshed-http2-client-params",
    "log-level",
    "log-format",
];
/// Flags of the controller that `serve` has under the same name and that are on or off.
const SWITCHES: &[&str] = &[
    "enable-endpoint-slices",
    "enable-h2-upgrade",
    "enable-ipv6",
    "ext-endpoint-zone-weights",
];
/// Flags of the controller that take a value and mean nothing here.
const IGNORED_WITH_VALUE: &[&str] = &["stream-queue-capacity", "trace-collector"];
/// Flags of the controller that are on or off and mean nothing here.
const IGNORED_SWITCHES: &[&str] = &["enable-pprof", "export-queue-metrics"];

/// Rewrites arguments of the controller to arguments of `serve`, and says which of them have no effect.
pub(super) fn serve_args(args: &[String]) -> Result<(Vec<String>, Vec<Notice>), UsageError> {
    let mut serve = Vec::new();
    let mut notices = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(flag) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
            return Err(UsageError::flag(
                "destination",
                format!("{arg:?} is not a flag; write -NAME=VALUE"),
            ));
        };
        let (name, value) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        if WITH_VALUE.contains(&name) || IGNORED_WITH_VALUE.contains(&name) {
            let value = value.or_else(|| args.next().cloned()).ok_or_else(|| {
                UsageError::flag(&format!("-{name}"), format!("needs a value: -{name}=VALUE"))
            })?;
            if WITH_VALUE.contains(&name) {
                set(&mut serve, name, &value);
            } else if !value.is_empty() {
                notices.push(Notice::NoEffect(name.to_owned()));
            }
        } else if SWITCHES.contains(&name) {
            let on = switch(name, value.as_deref())?;
            set(&mut serve, name, &on.to_string());
        } else if IGNORED_SWITCHES.contains(&name) {
            if switch(name, value.as_deref())? {
                notices.push(Notice::NoEffect(name.to_owned()));
            }
        } else {
            return Err(UsageError::flag(
                &format!("-{name}"),
                "is no flag of Linkerd's destination controller; see `tributary serve --help` for all there are",
            ));
        }
    }
    Ok((serve, notices))
}

/// Gives a flag a value. As in the controller, the last value of several counts: charts append arguments of their users.
fn set(serve: &mut Vec<String>, name: &str, value: &str) {
    let flag = format!("--{name}=");
    serve.retain(|earlier| !earlier.starts_with(&flag));
    serve.push(format!("{flag}{value}"));
}

/// Whether the controller would only print its version.
pub(super) fn asks_for_version(args: &[String]) -> bool {
    args.iter().any(|arg| {
        matches!(arg.trim_start_matches('-'), "version" | "version=true") && arg.starts_with('-')
    })
}

/// Whether the controller would only print its flags.
pub(super) fn asks_for_help(args: &[String]) -> bool {
    args.iter()
        .any(|arg| matches!(arg.as_str(), "-h" | "--h" | "-help" | "--help"))
}

/// The flags, in the controller's syntax, with what `serve` says of them.
pub(super) fn help() -> String {
    let command = super::command();
    let about = command
        .find_subcommand("destination")
        .and_then(|destination| destination.get_long_about().map(ToString::to_string))
        .unwrap_or_default()
        .replace(". ", ".\n");
    let flags = command
        .find_subcommand("serve")
        .into_iter()
        .flat_map(clap::Command::get_arguments);
    let mut lines = Vec::new();
    for flag in flags {
        let name = flag.get_long().unwrap_or_default();
        if WITH_VALUE.contains(&name) || SWITCHES.contains(&name) {
            let value = flag.get_value_names().and_then(<[_]>::first);
            let value = value.map_or("VALUE", |value| value.as_str());
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            lines.push((format!("-{name}={value}"), help));
        }
    }
    let width = lines.iter().map(|(flag, _)| flag.len()).max().unwrap_or(0);
    let flags: Vec<_> = lines
        .into_iter()
        .map(|(flag, help)| format!("  {flag:width$}  {help}"))
        .collect();
    let ignored = [IGNORED_WITH_VALUE, IGNORED_SWITCHES].concat();
    format!(
        "{about}\n\nUsage: tributary destination [-FLAG=VALUE]...\n\nFlags:\n{}\n\nAccepted, without effect: -{}\n",
        flags.join("\n"),
        ignored.join(", -"),
    )
}

/// Reads a boolean as Go's flags do.
fn switch(name: &str, value: Option<&str>) -> Result<bool, UsageError> {
    match value {
        None | Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
        Some(other) => Err(UsageError::flag(
            &format!("-{name}"),
            format!("expected true or false, not {other:?}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(args: &[&str], expected: &str) {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        let got = match serve_args(&args) {
            Ok((serve, notices)) => {
                format!("{} ({} without effect)", serve.join(" "), notices.len())
            }
            Err(error) => format!("error: {error}"),
        };
        assert!(got.starts_with(expected), "{args:?}: {got}");
    }

    #[test]
    fn what_the_chart_passes_starts_us() {
        check(
            &[
                "-addr=:8086",
                "-controller-namespace=linkerd",
                "-outbound-transport-mode=transport-header",
                "-enable-h2-upgrade=true",
                "-log-level=info",
                "-log-format=plain",
                "-enable-endpoint-slices=true",
                "-cluster-domain=cluster.local",
                "-identity-trust-domain=cluster.local",
                "-default-opaque-ports=25,587",
                "-enable-ipv6=false",
                "-enable-pprof=false",
                "--meshed-http2-client-params={\"keep_alive\":{}}",
            ],
            "--addr=:8086 --controller-namespace=linkerd --outbound-transport-mode=transport-header \
             --enable-h2-upgrade=true --log-level=info --log-format=plain --enable-endpoint-slices=true \
             --cluster-domain=cluster.local --identity-trust-domain=cluster.local --default-opaque-ports=25,587 --enable-ipv6=false \
             --meshed-http2-client-params={\"keep_alive\":{}} (0 without effect)",
        );
    }

    #[test]
    fn values_may_follow_but_switches_need_an_equals_sign() {
        check(
            &["-addr", ":1", "--log-level", "debug"],
            "--addr=:1 --log-level=debug (0",
        );
        check(
            &["-enable-ipv6", "false"],
            "error: destination: \"false\" is not a flag",
        );
        check(&["-enable-ipv6=T"], "--enable-ipv6=true (0");
        check(
            &["-enable-ipv6=maybe"],
            "error: -enable-ipv6: expected true or false",
        );
        check(&["-addr"], "error: -addr: needs a value");
    }

    #[test]
    fn the_last_of_several_values_counts() {
        check(
            &[
                "-log-level=info",
                "-enable-ipv6=false",
                "--log-level",
                "debug",
                "-enable-ipv6",
            ],
            "--log-level=debug --enable-ipv6=true (0",
        );
    }

    #[test]
    fn flags_without_effect_are_taken_and_told() {
        check(
            &["-stream-queue-capacity=10", "-enable-pprof=true"],
            " (2 without effect)",
        );
        check(
            &["-trace-collector=", "-export-queue-metrics=false"],
            " (0 without effect)",
        );
        check(
            &["-nonsense=1"],
            "error: -nonsense: is no flag of Linkerd's",
        );
    }
}
