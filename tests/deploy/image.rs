//! The Dockerfile.

use crate::support::peers::Peer;
use crate::support::run;
use crate::tools::{read, succeed};

#[test]
#[ignore = "needs hadolint: scripts/test deploy"]
fn the_dockerfile_is_clean() {
    run(async {
        // Its settings, .hadolint.yaml, ask for every label.
        succeed(Peer::Hadolint, &["Dockerfile"])?;
        Ok(())
    });
}

#[test]
fn images_are_pinned_and_the_toolchain_is_the_projects() {
    run(async {
        let dockerfile = read("Dockerfile")?;
        let argument = |name: &str| {
            let begin = format!("ARG {name}=");
            let line = dockerfile
                .lines()
                .find_map(|line| line.strip_prefix(&begin));
            line.unwrap_or_else(|| panic!("no {begin}")).to_owned()
        };
        for image in ["BUILD_IMAGE", "RUNTIME_IMAGE"] {
            let image = argument(image);
            let digest = image.split_once("@sha256:").map(|(_, digest)| digest);
            assert_eq!(digest.map(str::len), Some(64), "{image}");
        }
        let toolchain = read("rust-toolchain.toml")?;
        let channel = toolchain
            .lines()
            .find_map(|line| line.strip_prefix("channel = "))
            .map(|channel| channel.trim_matches('"'))
            .expect("a channel");
        assert!(argument("BUILD_IMAGE").contains(&format!("rust:{channel}-")));
        assert!(dockerfile.contains(&format!("RUSTUP_TOOLCHAIN={channel}\n")));
        let froms = dockerfile.lines().filter(|line| line.starts_with("FROM "));
        for from in froms {
            assert!(from.starts_with("FROM ${"), "{from}");
        }
        let version = concat!("ARG VERSION=", env!("CARGO_PKG_VERSION"), "\n");
        assert!(dockerfile.contains(version));
        Ok(())
    });
}
