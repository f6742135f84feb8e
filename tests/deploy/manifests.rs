//! The plain manifests in `deploy/` are what the charts make.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::support::peers::Peer;
use crate::support::{run, scratch_folder};
use crate::tools::{files, root};

fn name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[test]
#[ignore = "needs helm: scripts/test deploy"]
fn manifests_are_rendered_from_the_charts() {
    run(async {
        let folder = scratch_folder("rendered")?;
        let status = Command::new(root().join("scripts/render"))
            .arg(folder.path())
            .env("HELM", Peer::Helm.program()?)
            .status()?;
        ensure!(status.success(), "scripts/render: {status}");
        let committed = files("deploy", ".yaml")?;
        for file in &committed {
            let rendered = std::fs::read_to_string(folder.path().join(name(file)));
            let rendered: Result<_> =
                rendered.map_err(|_| anyhow::anyhow!("{} is not rendered", file.display()));
            assert_eq!(
                std::fs::read_to_string(file)?,
                rendered?,
                "{}: run scripts/render",
                file.display()
            );
        }
        let rendered = std::fs::read_dir(folder.path())?.count();
        assert_eq!(rendered, committed.len(), "run scripts/render");
        Ok(())
    });
}
