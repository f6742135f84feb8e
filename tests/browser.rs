//! The status page in a browser that people have. Needs `chromium` in the PATH: run by `scripts/test browser`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that panics has failed, and says why"
)]

mod support;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use support::manifests::Manifests;
use support::scratch_folder;
use support::services::{Backend, Condition, Local, federated, workload};
use support::tributary::Tributary;
use support::{note, run};

/// Three clusters, and a federated Service over them in two zones, with endpoints of every sort.
async fn scene() -> Result<(Manifests, Tributary)> {
    let manifests = Manifests::new()?;
    let clusters = ["west", "east"];
    let here = [
        Backend::ready("web-0", "10.1.0.1"),
        Backend::ready("web-1", "10.1.0.2").zone("zb"),
    ];
    let text = workload("shop", "web", &here) + &federated("shop", "web", Local::Member, &clusters);
    manifests.write("home/web.yaml", &text)?;
    for (number, cluster) in (2..).zip(clusters) {
        let ips = (1..=12).map(|last| format!("10.{number}.0.{last}"));
        let named: Vec<_> = ips
            .map(|ip| (format!("web-{}", ip.replace('.', "-")), ip))
            .collect();
        let pods: Vec<_> = named
            .iter()
            .enumerate()
            .map(|(at, (pod, ip))| {
                let backend = Backend::ready(pod, ip).zone(if at % 2 == 0 { "za" } else { "zb" });
                match at {
                    3 => backend.condition(Condition::Unready),
                    7 => backend.condition(Condition::Terminating),
                    _ => backend,
                }
            })
            .collect();
        manifests.write(
            &format!("{cluster}/web.yaml"),
            &workload("shop", "web", &pods),
        )?;
    }
    let tributary = manifests.serve().await?;
    let stream = tributary.get("web-federated.shop.svc.cluster.local:80");
    stream.begun().await;
    Ok((manifests, tributary))
}

/// Runs the browser on a path of the admin listener; what it writes to stdout.
fn browse(tributary: &Tributary, path: &str, arguments: &[&str]) -> Result<String> {
    let profile = scratch_folder("browser")?;
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--enable-logging=stderr",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("http://{}{path}", tributary.admin()))
        .output()
        .context("chromium is missing: install the package of that name")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{complaint}");
    // What the page's own policy forbids is reported as an error of the page.
    ensure!(
        !complaint.contains("Content Security Policy"),
        "{complaint}"
    );
    Ok(String::from_utf8(output.stdout)?)
}

const SERVICE: &str = "/?authority=web-federated.shop";

#[test]
#[ignore = "needs chromium: scripts/test browser"]
fn a_browser_understands_the_page_and_refuses_nothing_in_it() {
    run(async {
        let (_manifests, tributary) = scene().await?;
        let dom = browse(&tributary, SERVICE, &["--dump-dom"])?;
        assert_eq!(
            dom.matches("<circle").count(),
            1 + 2 + 20,
            "a mark for each and the legend's"
        );
        assert!(
            dom.contains("web-federated.shop.svc.cluster.local:80"),
            "{dom}"
        );
        Ok(())
    });
}

#[test]
#[ignore = "needs chromium: scripts/test browser"]
fn pictures_are_taken_of_the_page_for_people_to_look_at() {
    run(async {
        let (_manifests, tributary) = scene().await?;
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page");
        std::fs::create_dir_all(&folder)?;
        let dark = "--blink-settings=preferredColorScheme=0";
        let explained = format!("{SERVICE}&ip=10.2.0.4");
        for (name, path, size, more) in [
            ("clusters", "/", "1280,1000", None),
            ("service", SERVICE, "1280,1600", None),
            ("dark", SERVICE, "1280,1600", Some(dark)),
            ("explained", explained.as_str(), "1280,1800", None),
            ("narrow", SERVICE, "400,2400", None),
        ] {
            let file = folder.join(format!("{name}.png"));
            std::fs::remove_file(&file).ok();
            let screenshot = format!("--screenshot={}", file.display());
            let size = format!("--window-size={size}");
            let mut arguments = vec!["--timeout=4000", screenshot.as_str(), size.as_str()];
            arguments.extend(more);
            browse(&tributary, path, &arguments)?;
            let bytes = std::fs::metadata(&file)?.len();
            ensure!(bytes > 10_000, "{}: {bytes} bytes", file.display());
        }
        note(&format!("pictures are in {}", folder.display()));
        Ok(())
    });
}
