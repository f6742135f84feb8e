//! What the files of one cluster define, and what changes when they do.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::{info, warn};

use super::edits::Edits;
use super::links::LinkSecret;
use super::listing::Listing;
use super::manifest::{self, Manifest, ManifestError};
use super::metrics::FileMetrics;
use crate::index::{Kind, Object, ObjectName};
use crate::model::ClusterName;
use crate::sources::k8s::convert::{Converted, Warning};

/// Warnings about the objects of one file that are logged one by one.
const WARNINGS_MAX: usize = 20;
/// Bytes of the largest file that is read: far more than any manifest has, and far less than memory.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Names of the objects that the files of one cluster define. What they say is with the index alone.
#[derive(Debug)]
pub(super) struct Contents {
    cluster: ClusterName,
    watched: &'static [Kind],
    folder: PathBuf,
    metrics: FileMetrics,
    files: BTreeMap<Arc<Path>, File>,
    /// Who defines an object, in order of path: the last one counts.
    definers: HashMap<ObjectName, Vec<Arc<Path>>>,
    unreadable: BTreeSet<PathBuf>,
}

/// A file as it was last looked at.
#[derive(Debug, Default)]
struct File {
    seen: Option<Seen>,
    /// Whether what it defines is from an earlier look, since the last one failed.
    broken: bool,
    names: Vec<ObjectName>,
    secrets: Vec<LinkSecret>,
    /// Warnings that it has given rise to, hashed: they are not repeated.
    warned: HashSet<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Content(u64),
    Failed(io::ErrorKind),
    Special,
    TooLarge,
}

/// What was found in a file that is not as it was.
struct Look {
    seen: Seen,
    result: Result<Parsed, Broken>,
}

/// What a file defines, each object once.
struct Parsed {
    objects: Vec<(ObjectName, Object)>,
    secrets: Vec<LinkSecret>,
    warnings: Vec<Remark>,
}

/// Something worth telling of a file's objects.
#[derive(Hash)]
struct Remark {
    class: &'static str,
    object: Option<ObjectName>,
    message: String,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Read(#[from] Unread),
    #[error("it is not UTF-8 text")]
    Encoding(#[from] std::string::FromUtf8Error),
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// Why nothing is read from a file.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error("reading it failed: {0}")]
    Failed(#[from] io::Error),
    #[error("it is a pipe, a device or the like, not a regular file")]
    Special,
    #[error("it has more than {FILE_BYTES_MAX} bytes; split it")]
    TooLarge,
}

// === impl Contents ===

impl Contents {
    /// Nothing yet.
    pub(super) fn new(
        cluster: ClusterName,
        watched: &'static [Kind],
        folder: PathBuf,
        metrics: FileMetrics,
    ) -> Self {
        Self {
            cluster,
            watched,
            folder,
            metrics,
            files: BTreeMap::new(),
            definers: HashMap::new(),
            unreadable: BTreeSet::new(),
        }
    }

    /// Whether some file cannot be used at the moment.
    pub(super) fn is_broken(&self) -> bool {
        self.files.values().any(|file| file.broken)
    }

    /// Link Secrets that the files define; of those with one name the last.
    pub(super) fn link_secrets(&self) -> Vec<&LinkSecret> {
        let mut secrets: Vec<&LinkSecret> = Vec::new();
        for secret in self.files.values().flat_map(|file| &file.secrets) {
            secrets.retain(|earlier| !earlier.same_object(secret));
            secrets.push(secret);
        }
        secrets
    }

    /// Looks at the files and says what is different now.
    pub(super) fn update(&mut self, listing: &Listing) -> Edits {
        let mut edits = Edits::default();
        let mut uncovered = BTreeMap::new();
        self.note_unreadable(listing);
        let gone: Vec<_> = self
            .files
            .keys()
            .filter(|path| !listing.files.contains(&***path) && !listing.may_hold(path))
            .cloned()
            .collect();
        for path in gone {
            if let Some(file) = self.files.remove(&path) {
                self.withdraw(&path, file.names, &mut edits, &mut uncovered);
                info!(cluster = %self.cluster, file = %self.shown(&path), "manifest file gone");
            }
        }
        // Parsing is most of the work of a start.
        let paths: Vec<_> = listing.files.iter().collect();
        let looks = in_parallel(&paths, |path| self.look_at(path));
        for (path, look) in paths.into_iter().zip(looks) {
            if let Some(look) = look {
                self.note(path, look, &mut edits, &mut uncovered);
            }
        }
        for (path, names) in uncovered {
            self.uncover(&path, names, &mut edits);
        }
        let broken = self.files.values().filter(|file| file.broken).count();
        self.metrics.broken(&self.cluster, broken);
        edits
    }

    /// Reads a file, and parses it if it is not as it was.
    fn look_at(&self, path: &Path) -> Option<Look> {
        let bytes = read(&self.folder.join(path));
        let seen = match &bytes {
            Ok(bytes) => Seen::Content(hash(bytes)),
            Err(error) => error.seen(),
        };
        if self
            .files
            .get(path)
            .is_some_and(|file| file.seen == Some(seen))
        {
            return None;
        }
        let result = bytes
            .map_err(Broken::from)
            .and_then(|bytes| self.parse(path, bytes));
        Some(Look { seen, result })
    }

    fn note(
        &mut self,
        path: &Path,
        look: Look,
        edits: &mut Edits,
        uncovered: &mut BTreeMap<Arc<Path>, Vec<ObjectName>>,
    ) {
        let Look { seen, result } = look;
        let path: Arc<Path> = path.into();
        let mut file = self.files.remove(&path).unwrap_or_default();
        file.seen = Some(seen);
        match result {
            Ok(parsed) => {
                if file.broken {
                    info!(cluster = %self.cluster, file = %self.shown(&path), "manifest file can be used again");
                }
                file.broken = false;
                self.take_in(&path, &mut file, parsed, edits, uncovered);
            }
            Err(error) => {
                file.broken = true;
                self.metrics.failed();
                let kept = file.names.len();
                warn!(
                    cluster = %self.cluster,
                    file = %self.shown(&path),
                    %error,
                    kept,
                    "manifest file cannot be used, keeping what it defined before"
                );
            }
        }
        self.files.insert(path, file);
    }

    fn parse(&self, path: &Path, bytes: Vec<u8>) -> Result<Parsed, Broken> {
        let text = String::from_utf8(bytes)?;
        let mut parsed = Parsed {
            objects: Vec::new(),
            secrets: Vec::new(),
            warnings: Vec::new(),
        };
        let mut places = HashMap::new();
        let manifests = if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            manifest::parse_json(&text)?
        } else {
            manifest::parse(&text)?
        };
        for manifest in manifests {
            match manifest {
                Manifest::Object(converted) if self.watched.contains(&converted.name.kind()) => {
                    parsed.add(*converted, &mut places);
                }
                Manifest::Object(_) => {}
                Manifest::Secret(secret) => {
                    if let Some(secret) = LinkSecret::of(*secret) {
                        parsed
                            .secrets
                            .retain(|earlier| !earlier.same_object(&secret));
                        parsed.secrets.push(secret);
                    }
                }
                Manifest::Nameless(kind) => parsed.warnings.push(Remark {
                    class: "nameless",
                    object: None,
                    message: format!(
                        "one of its {} has no name, so it is left out",
                        kind.resource()
                    ),
                }),
            }
        }
        Ok(parsed)
    }

    /// Makes a new version of a file count.
    fn take_in(
        &mut self,
        path: &Arc<Path>,
        file: &mut File,
        parsed: Parsed,
        edits: &mut Edits,
        uncovered: &mut BTreeMap<Arc<Path>, Vec<ObjectName>>,
    ) {
        self.remark(path, &mut file.warned, &parsed.warnings);
        let mut dropped: HashSet<_> = file.names.drain(..).collect();
        let mut shared = Vec::new();
        for (name, object) in parsed.objects {
            dropped.remove(&name);
            let definers = self.definers.entry(name.clone()).or_default();
            if let Err(place) = definers.binary_search(path) {
                definers.insert(place, Arc::clone(path));
                if let [.., other, last] = &definers[..] {
                    let other = if last == path { other } else { last };
                    shared.push((name.clone(), Arc::clone(other)));
                }
            }
            if definers.last() == Some(path) {
                edits.apply(name.clone(), object);
            }
            file.names.push(name);
        }
        if let Some((object, other)) = shared.first() {
            warn!(
                cluster = %self.cluster,
                object = %shown_name(object),
                file = %self.shown(path),
                other = %self.shown(other),
                more = shared.len() - 1,
                "object defined in two manifest files, the last by path counts"
            );
        }
        file.secrets = parsed.secrets;
        self.withdraw(path, dropped, edits, uncovered);
    }

    /// Takes back what a file defined; what another file defines too will count instead.
    fn withdraw(
        &mut self,
        path: &Arc<Path>,
        names: impl IntoIterator<Item = ObjectName>,
        edits: &mut Edits,
        uncovered: &mut BTreeMap<Arc<Path>, Vec<ObjectName>>,
    ) {
        for name in names {
            let Some(definers) = self.definers.get_mut(&name) else {
                continue;
            };
            let counted = definers.last() == Some(path);
            definers.retain(|definer| definer != path);
            match definers.last() {
                None => {
                    self.definers.remove(&name);
                    edits.delete(name);
                }
                Some(next) if counted => {
                    uncovered.entry(Arc::clone(next)).or_default().push(name);
                }
                Some(_) => {}
            }
        }
    }

    /// Reads a file again for definitions that another file hid until now.
    fn uncover(&mut self, path: &Arc<Path>, names: Vec<ObjectName>, edits: &mut Edits) {
        let parsed = read(&self.folder.join(path))
            .map_err(Broken::from)
            .and_then(|bytes| self.parse(path, bytes));
        let mut objects: HashMap<_, _> = match parsed {
            Ok(parsed) => parsed.objects.into_iter().collect(),
            // It is broken at the moment, which has been said.
            Err(_) => HashMap::new(),
        };
        for name in names {
            let counts = |definers: &Vec<Arc<Path>>| definers.last() == Some(path);
            if !self.definers.get(&name).is_some_and(counts) {
                continue;
            }
            match objects.remove(&name) {
                Some(object) => edits.apply(name, object),
                None => edits.delete(name),
            }
        }
    }

    fn remark(&self, path: &Path, warned: &mut HashSet<u64>, remarks: &[Remark]) {
        let hashes: HashSet<_> = remarks.iter().map(hash).collect();
        let news = || {
            remarks
                .iter()
                .filter(|remark| !warned.contains(&hash(*remark)))
        };
        for remark in news() {
            self.metrics.warned(remark.class);
        }
        let file = self.shown(path);
        for Remark {
            object, message, ..
        } in news().take(WARNINGS_MAX)
        {
            let object = object.as_ref().map(shown_name);
            warn!(cluster = %self.cluster, %file, object, reason = %message, "part of a manifest left out");
        }
        let more = news().count().saturating_sub(WARNINGS_MAX);
        if more > 0 {
            warn!(cluster = %self.cluster, %file, more, "more parts of the manifest left out");
        }
        *warned = hashes;
    }

    fn note_unreadable(&mut self, listing: &Listing) {
        let mut unreadable = BTreeSet::new();
        for (below, error) in &listing.unreadable {
            if !self.unreadable.contains(below) {
                let folder = self.folder.join(below);
                let folder = folder.display();
                warn!(cluster = %self.cluster, %folder, %error, "folder cannot be read, keeping what its files defined before");
            }
            unreadable.insert(below.clone());
        }
        self.unreadable = unreadable;
    }

    fn shown(&self, path: &Path) -> String {
        self.folder.join(path).display().to_string()
    }
}

// === impl Parsed ===

impl Parsed {
    /// Adds an object; one of the same name that came before it is replaced.
    fn add(&mut self, converted: Converted, places: &mut HashMap<ObjectName, usize>) {
        let Converted {
            name,
            object,
            warnings,
        } = converted;
        self.warnings.extend(warnings.iter().map(|warning| Remark {
            class: Warning::class(warning),
            object: Some(name.clone()),
            message: warning.to_string(),
        }));
        let Some(object) = object else {
            return;
        };
        if let Some(place) = places.get(&name) {
            self.warnings.push(Remark {
                class: "repeated",
                object: Some(name.clone()),
                message: "the file defines it again further down, so this is left out".to_owned(),
            });
            self.objects[*place] = (name, object);
        } else {
            places.insert(name.clone(), self.objects.len());
            self.objects.push((name, object));
        }
    }
}

// === impl Unread ===

impl Unread {
    fn seen(&self) -> Seen {
        match self {
            Self::Failed(error) => Seen::Failed(error.kind()),
            Self::Special => Seen::Special,
            Self::TooLarge => Seen::TooLarge,
        }
    }
}

/// Reads a file, unless that might never end: opening a pipe waits for a writer, and a device may have no end.
fn read(path: &Path) -> Result<Vec<u8>, Unread> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(Unread::Special);
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(Unread::TooLarge);
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    let read = std::fs::File::open(path)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(Unread::TooLarge);
    }
    Ok(bytes)
}

fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The results of some work on every item, in order.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = processors.min(items.len());
    if workers < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let take = || {
            let place = next.fetch_add(1, Ordering::Relaxed);
            items.get(place).map(|item| (place, work(item)))
        };
        let workers: Vec<_> = (0..workers)
            .map(|_| scope.spawn(move || std::iter::from_fn(take).collect::<Vec<_>>()))
            .collect();
        let results = workers.into_iter().map(std::thread::ScopedJoinHandle::join);
        results
            .flat_map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Kind, namespace and name, as one writes it to `kubectl`.
fn shown_name(name: &ObjectName) -> String {
    let resource = name.kind().resource();
    match name {
        ObjectName::Service(name) | ObjectName::Endpoints(name) => format!("{resource} {name}"),
        ObjectName::Slice(name) => format!("{resource} {name}"),
        ObjectName::Pod(name) => format!("{resource} {name}"),
        ObjectName::Node(name) => format!("{resource} {name}"),
        ObjectName::Owner(name) => format!("{resource} {}/{}", name.namespace, name.name),
        ObjectName::ExternalWorkload(name) => format!("{resource} {name}"),
        ObjectName::Server(name) => format!("{resource} {name}"),
        ObjectName::Profile(name) => format!("{resource} {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_some_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.yaml");
        let outcome = || {
            read(&path)
                .map(|bytes| bytes.len())
                .map_err(|error| error.seen())
        };
        assert_eq!(outcome(), Err(Seen::Failed(io::ErrorKind::NotFound)));
        std::fs::write(&path, "text").unwrap();
        assert_eq!(outcome(), Ok(4));
        std::fs::File::create(&path)
            .unwrap()
            .set_len(FILE_BYTES_MAX + 1)
            .unwrap();
        assert_eq!(outcome(), Err(Seen::TooLarge));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(outcome(), Err(Seen::Special));
    }
}
