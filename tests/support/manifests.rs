//! Folders of manifests, which the product can read in place of API servers.

use std::path::{Path, PathBuf};

use anyhow::Result;
use tempfile::TempDir;

use super::scratch_folder;
use super::services::{Backend, workload};
use super::tributary::Tributary;

/// A folder with one folder of manifests per cluster. It goes with this value.
pub struct Manifests(TempDir);

// === impl Manifests ===

impl Manifests {
    /// A home cluster with nothing in it.
    pub fn new() -> Result<Self> {
        let manifests = Self(scratch_folder("manifests")?);
        std::fs::create_dir(manifests.path().join("home"))?;
        Ok(manifests)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Replaces a file in one step, as editors and deployments do.
    pub fn write(&self, file: &str, text: &str) -> Result<()> {
        let target = self.path().join(file);
        let folder = target.parent().map(PathBuf::from).unwrap_or_default();
        std::fs::create_dir_all(&folder)?;
        let staged = folder.join(".staged");
        std::fs::write(&staged, text)?;
        std::fs::rename(staged, target)?;
        Ok(())
    }

    /// Starts the product with them, and waits until it is ready.
    pub async fn serve(&self) -> Result<Tributary> {
        Tributary::serve_manifests(self.path(), &["--log-level", "debug"]).await
    }
}

/// A home cluster with Service `web` of namespace `shop`, and its product.
pub async fn shop() -> Result<(Manifests, Tributary)> {
    let manifests = Manifests::new()?;
    let backends = [
        Backend::ready("web-0", "10.1.0.1"),
        Backend::ready("web-1", "10.1.0.2"),
    ];
    manifests.write("home/web.yaml", &workload("shop", "web", &backends))?;
    manifests.write("home/idle.yaml", &workload("shop", "idle", &[]))?;
    let tributary = manifests.serve().await?;
    Ok((manifests, tributary))
}

/// Where [`shop`] has `web`.
pub const WEB: [&str; 2] = ["10.1.0.1:8080", "10.1.0.2:8080"];
