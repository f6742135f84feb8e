//! The programs that people install with, as commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::support::peers::Peer;
use crate::support::scratch_folder;

/// The chart of what runs in the home cluster.
pub(crate) const CHART: &str = "deploy/chart/tributary";

/// The chart of what a linked cluster grants.
pub(crate) const LINKED_CHART: &str = "deploy/chart/tributary-linked";

/// The top of the checkout, where every command is run.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A file of the checkout.
pub(crate) fn read(file: &str) -> Result<String> {
    let path = root().join(file);
    std::fs::read_to_string(&path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

/// Every file of a folder of the checkout whose name ends so, by name.
pub(crate) fn files(folder: &str, ending: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root().join(folder))? {
        let path = entry?.path();
        if path.is_file() && path.to_string_lossy().ends_with(ending) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Runs a peer at the top of the checkout.
pub(crate) fn output(peer: Peer, arguments: &[&str], input: Option<&Path>) -> Result<Output> {
    // helm keeps caches and settings: nobody's own ones count here.
    let folder = scratch_folder("tool")?;
    let stdin = match input {
        Some(file) => Stdio::from(std::fs::File::open(file)?),
        None => Stdio::null(),
    };
    Ok(Command::new(peer.program()?)
        .args(arguments)
        .current_dir(root())
        .env("HELM_CACHE_HOME", folder.path())
        .env("HELM_CONFIG_HOME", folder.path())
        .env("HELM_DATA_HOME", folder.path())
        .env("KUBECACHEDIR", folder.path())
        .env_remove("KUBECONFIG")
        .stdin(stdin)
        .output()?)
}

/// What a peer prints; fails, with what it says, if it does.
pub(crate) fn succeed(peer: Peer, arguments: &[&str]) -> Result<String> {
    let output = output(peer, arguments, None)?;
    let said = String::from_utf8(output.stdout)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{peer:?} {arguments:?}: {said}{complaint}"
    );
    Ok(said)
}

/// What a peer says when it fails; fails if it does not.
pub(crate) fn fail(peer: Peer, arguments: &[&str]) -> Result<String> {
    let output = output(peer, arguments, None)?;
    ensure!(
        !output.status.success(),
        "{peer:?} {arguments:?} did not fail"
    );
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// A chart as manifests, for a release in a namespace.
pub(crate) fn template(chart: &str, namespace: &str, values: &[&str]) -> Result<String> {
    let name = Path::new(chart).file_name().expect("a folder has a name");
    let release = name.to_string_lossy();
    let mut arguments = vec!["template", &release, chart, "--namespace", namespace];
    arguments.extend(values);
    succeed(Peer::Helm, &arguments)
}

/// A file with a text, in a folder that goes with the value.
pub(crate) fn file_with(name: &str, text: &str) -> Result<(TempDir, PathBuf)> {
    let folder = scratch_folder("file")?;
    let file = folder.path().join(name);
    std::fs::write(&file, text)?;
    Ok((folder, file))
}
