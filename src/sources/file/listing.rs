//! Which manifest files a cluster's folder holds.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::watch::Watches;

/// Files of a folder and of those in it.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The files, by path from the folder.
    pub(super) files: BTreeSet<PathBuf>,
    /// Folders that could not be read, by path from the folder, and why.
    pub(super) unreadable: Vec<(PathBuf, io::Error)>,
}

// === impl Listing ===

impl Listing {
    /// Lists a folder and watches what it finds; `None` if there is no such folder.
    ///
    /// Names that begin with a dot are left out: editors and mounts keep their own things under such names. Symbolic links
    /// are followed; a folder that is reached twice is listed once.
    pub(super) fn of(folder: &Path, watches: &mut Watches) -> io::Result<Option<Self>> {
        match std::fs::metadata(folder) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut listing = Self::default();
        let mut visited = BTreeSet::new();
        let mut pending = vec![PathBuf::new()];
        while let Some(below) = pending.pop() {
            let path = folder.join(&below);
            let read = path.canonicalize().and_then(|resolved| {
                if visited.insert(resolved) {
                    listing.read(folder, &below, watches)
                } else {
                    Ok(Vec::new())
                }
            });
            match read {
                Ok(folders) => pending.extend(folders),
                // It went away meanwhile; the watch on its parent will tell.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => listing.unreadable.push((below, error)),
            }
        }
        Ok(Some(listing))
    }

    /// Whether a file may be there, but cannot be seen.
    pub(super) fn may_hold(&self, file: &Path) -> bool {
        self.unreadable
            .iter()
            .any(|(below, _)| file.starts_with(below))
    }

    /// Lists one folder; returns the folders in it, last first.
    fn read(
        &mut self,
        folder: &Path,
        below: &Path,
        watches: &mut Watches,
    ) -> io::Result<Vec<PathBuf>> {
        let path = folder.join(below);
        watches.try_watch(&path);
        let mut folders = BTreeSet::new();
        for entry in std::fs::read_dir(&path)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_hidden(&name) {
                continue;
            }
            let below = below.join(&name);
            let kind = entry.file_type()?;
            let is_dir = if kind.is_symlink() {
                // A dangling link is listed if it is named like a manifest, so that reading it says what is wrong.
                std::fs::metadata(entry.path()).is_ok_and(|target| target.is_dir())
            } else {
                kind.is_dir()
            };
            if is_dir {
                folders.insert(below);
            } else if is_manifest(&below) {
                if kind.is_symlink() {
                    watch_target(&entry.path(), watches);
                }
                self.files.insert(below);
            }
        }
        Ok(folders.into_iter().rev().collect())
    }
}

/// A file behind a link may change in place.
fn watch_target(link: &Path, watches: &mut Watches) {
    if let Some(parent) = link.canonicalize().ok().as_deref().and_then(Path::parent) {
        watches.try_watch(parent);
    }
}

/// Whether the name is one that people do not mean.
pub(super) fn is_hidden(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

pub(super) fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| {
        ["yaml", "yml", "json"]
            .iter()
            .any(|known| extension == *known)
    })
}
