//! The life of the process: starts that fail, ends that are in order, and what is left of clients.

use std::process::{Command, Output};

use anyhow::Result;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use linkerd2_proxy_api::destination::GetDestination;
use linkerd2_proxy_api::destination::destination_client::DestinationClient;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::Endpoint;

use super::raw::{Answer, GET, Raw, question};
use crate::support::manifests::{Manifests, WEB, shop};
use crate::support::run;
use crate::support::services::authority;
use crate::support::subscription::Outcome;
use crate::support::tributary::Tributary;

fn serve(arguments: &[&str]) -> Result<Output> {
    let binary = env!("CARGO_BIN_EXE_tributary");
    Ok(Command::new(binary).arg("serve").args(arguments).output()?)
}

/// Checks that the binary gives up with a code, and says why in the one line that begins with its name.
fn gives_up(arguments: &[&str], code: i32, reason: &str) -> Result<()> {
    let output = serve(arguments)?;
    let said = String::from_utf8(output.stderr)?;
    let own: Vec<_> = said
        .lines()
        .filter(|line| line.starts_with("tributary: "))
        .collect();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert_eq!(own.len(), 1, "{arguments:?}: {said}");
    assert!(own[0].contains(reason), "{arguments:?}: {said}");
    Ok(())
}

#[test]
fn the_second_server_on_a_port_says_so_and_ends() {
    run(async {
        let (manifests, first) = shop().await?;
        let folder = manifests.path().display().to_string();
        let taken = first.address().to_string();
        let elsewhere = ["--manifests", &folder, "--metrics-addr", ""];
        let arguments = [&elsewhere[..], &["--addr", &taken]].concat();
        gives_up(&arguments, 1, &format!("cannot listen on {taken}"))?;
        let taken = first.admin().to_string();
        let arguments = [
            "--manifests",
            &folder,
            "--addr",
            "",
            "--metrics-addr",
            &taken,
        ];
        gives_up(&arguments, 1, "choose another address with --metrics-addr")?;
        first
            .get(&authority("shop", "web"))
            .wait_for_exactly(&WEB)
            .await;
        Ok(())
    });
}

#[test]
fn what_cannot_be_started_is_one_line() {
    run(async {
        let manifests = Manifests::new()?;
        let folder = manifests.path().display().to_string();
        gives_up(&["--manifests", "/no/such/folder"], 64, "/no/such/folder")?;
        gives_up(&["--manifests", &folder, "--addr", "nowhere"], 64, "--addr")?;
        gives_up(
            &["--manifests", &folder, "--max-streams", "0"],
            64,
            "--max-streams",
        )?;
        gives_up(
            &["--manifests", &folder, "--drain-timeout", "soon"],
            64,
            "--drain-timeout",
        )?;
        gives_up(&["--manifests", &folder, "more"], 64, "more")?;
        Ok(())
    });
}

#[test]
fn on_sigterm_streams_end_with_ok_and_the_exit_status_is_0() {
    run(async {
        let (manifests, other) = shop().await?;
        drop(other);
        let arguments = ["--drain-timeout", "1s"];
        let tributary = Tributary::serve_manifests(manifests.path(), &arguments).await?;
        let connection = tributary.connect_lazy();
        let name = authority("shop", "web");
        let streams: Vec<_> = (0..20)
            .map(|_| tributary.get_on(connection.clone(), &name, ""))
            .collect();
        for stream in &streams {
            stream.wait_for_exactly(&WEB).await;
        }
        tributary.ask_to_end()?;
        for stream in &streams {
            assert_eq!(stream.wait_for_end().await, Outcome::Ended);
            assert!(stream.now().is_exactly(&WEB), "{}", stream.report());
        }
        assert!(
            tributary.ended().await?.success(),
            "{}",
            tributary.log_tail(20)
        );
        Ok(())
    });
}

#[test]
fn names_that_nobody_has_leave_nothing_behind() {
    run(async {
        let (_manifests, tributary) = shop().await?;
        let names = [
            "tributary_views",
            "tributary_services",
            "tributary_destination_get_streams_open",
        ];
        let mut before = Vec::new();
        for name in names {
            before.push(tributary.metric(name).await?);
        }
        let raw = Raw::connect(tributary.address()).await?;
        stream::iter(0..10_000)
            .map(|index| {
                let name = authority("shop", &format!("nobody-{index}"));
                let token = format!(r#"{{"ns":"a-{index}","nodeName":"n-{index}"}}"#);
                let raw = &raw;
                async move {
                    let answer = raw.ask(GET, question(&name, &token)).await?;
                    match answer {
                        Answer::Refused(refusal) if refusal.code == Code::NotFound => Ok(()),
                        other => anyhow::bail!("{name}: {other:?}"),
                    }
                }
            })
            .buffer_unordered(50)
            .try_collect::<()>()
            .await?;
        for (name, before) in names.into_iter().zip(before) {
            tributary.until_metric(name, before).await?;
        }
        Ok(())
    });
}

#[test]
fn a_client_that_reads_nothing_does_not_hold_up_the_end() {
    run(async {
        let (manifests, other) = shop().await?;
        drop(other);
        let arguments = ["--drain-timeout", "0"];
        let tributary = Tributary::serve_manifests(manifests.path(), &arguments).await?;
        let connection = Endpoint::from_shared(format!("http://{}", tributary.address()))?
            .initial_stream_window_size(16)
            .connect()
            .await?;
        let request = GetDestination {
            path: authority("shop", "web"),
            ..GetDestination::default()
        };
        let _unread = DestinationClient::new(connection).get(request).await?;
        assert!(
            tributary.terminate().await?.success(),
            "{}",
            tributary.log_tail(20)
        );
        Ok(())
    });
}

#[test]
fn connections_without_streams_are_not_waited_for() {
    run(async {
        let (manifests, other) = shop().await?;
        drop(other);
        // Longer than a test may take.
        let arguments = ["--drain-timeout", "1h"];
        let tributary = Tributary::serve_manifests(manifests.path(), &arguments).await?;
        // Speaks HTTP/2, with no settings, and then answers nothing.
        let mut silent = TcpStream::connect(tributary.address()).await?;
        silent
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await?;
        silent.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
        let raw = Raw::connect(tributary.address()).await?;
        let name = authority("shop", "nobody");
        let answer = raw.ask(GET, question(&name, "")).await?;
        assert!(matches!(answer, Answer::Refused(_)), "{answer:?}");
        assert!(
            tributary.terminate().await?.success(),
            "{}",
            tributary.log_tail(20)
        );
        drop((silent, raw));
        Ok(())
    });
}

#[test]
fn who_asks_twice_is_not_kept_waiting() {
    run(async {
        let (manifests, other) = shop().await?;
        drop(other);
        let arguments = ["--drain-timeout", "1h"];
        let tributary = Tributary::serve_manifests(manifests.path(), &arguments).await?;
        let streams: Vec<_> = (0..20)
            .map(|_| tributary.get(&authority("shop", "web")))
            .collect();
        for stream in &streams {
            stream.wait_for_exactly(&WEB).await;
        }
        tributary.ask_to_end()?;
        tributary.log_line("shutting down").await?;
        let status = tributary.terminate().await?;
        assert_eq!(status.code(), Some(1), "{}", tributary.log_tail(20));
        tributary.log_line("asked to end again, by SIGTERM").await?;
        Ok(())
    });
}
