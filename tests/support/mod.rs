//! The test bed: real API servers, faults between them and the product, the product as a process, and a client of its own.
//!
//! A test states what is in which cluster, opens streams as a proxy would, and waits for states. The pieces:
//!
//! - [`cluster::Cluster`]: one etcd and one kube-apiserver, with everything that can be done to them;
//! - [`bed::Bed`]: three linked clusters that tests share;
//! - [`rbac`], [`link`], [`services`]: what an operator and Linkerd's multicluster extension would put into clusters;
//! - [`fault_proxy::FaultProxy`]: a bad network in front of an API server;
//! - [`connect_proxy::ConnectProxy`]: a proxy that clients have to ask for a way to it;
//! - [`manifests::Manifests`]: files in place of clusters, for tests that need no API server;
//! - [`tributary::Tributary`]: the product's own binary;
//! - [`subscription::Subscription`] and [`profile::ProfileSubscription`]: clients made from Linkerd's published protocol,
//!   independent of the product's code.
//!
//! Nothing here sleeps for a fixed time and hopes; [`wait_for`] polls until a state is there or a generous deadline has passed.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test binary compiles all of the bed and uses a part of it"
)]

pub mod bed;
pub mod cluster;
pub mod command;
pub mod connect_proxy;
pub mod envoy;
pub mod fault_proxy;
pub mod http;
pub mod kubeconfig;
pub mod link;
pub mod manifests;
pub mod objects;
pub mod peers;
pub mod pki;
pub mod process;
pub mod profile;
pub mod rbac;
pub mod services;
pub mod subscription;
pub mod tributary;

use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Result, bail};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How long anything may take on a busy machine before a test gives up on it.
///
/// Never an assertion about speed: what takes longer than this has hung.
pub const DEADLINE: Duration = Duration::from_mins(1);

/// Between two looks at a state that has no notification of its own.
const POLL: Duration = Duration::from_millis(25);

/// Runs a test on the one runtime of this process.
///
/// Tests share clusters, and with them clients whose connections are driven by a runtime. It has to outlive every single
/// test, which a runtime per test would not.
///
/// # Panics
///
/// If the test returns an error, with the whole chain of causes.
pub fn run(test: impl Future<Output = Result<()>>) {
    if let Err(error) = runtime().block_on(test) {
        panic!("{error:?}");
    }
}

/// The runtime that everything in this process runs on.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("the runtime of the tests starts")
    })
}

/// Polls until `probe` has an answer, and fails with `what` if none comes before [`DEADLINE`].
pub async fn wait_for<T, F>(what: &str, mut probe: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Option<T>>,
{
    let polling = async {
        loop {
            if let Some(answer) = probe().await {
                return answer;
            }
            tokio::time::sleep(POLL).await;
        }
    };
    match tokio::time::timeout(DEADLINE, polling).await {
        Ok(answer) => Ok(answer),
        Err(_) => bail!("waited {DEADLINE:?} in vain for {what}"),
    }
}

/// Writes a line that is seen whether the test passes or fails: figures that people want to know, and no test depends on.
pub fn note(line: &str) {
    // Not `eprintln!`, which the harness takes in.
    writeln!(std::io::stderr(), "{line}").ok();
}

/// A new folder for the files of one cluster or process.
///
/// Clusters that tests share live in statics, which are never dropped. So the folders of one test process are together
/// in one that bears its number, and the next test process removes what earlier ones have left.
pub fn scratch_folder(name: &str) -> Result<TempDir> {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bed");
        remove_leftovers(&all);
        all.join(std::process::id().to_string())
    });
    std::fs::create_dir_all(folder)?;
    Ok(tempfile::Builder::new()
        .prefix(&format!("{name}-"))
        .tempdir_in(folder)?)
}

/// Removes every folder whose name is the number of a process that is no more.
fn remove_leftovers(all: &Path) {
    let Ok(folders) = std::fs::read_dir(all) else {
        return; // Nothing was ever left.
    };
    for folder in folders.flatten() {
        let alive = Command::new("kill")
            .arg("-0")
            .arg(folder.file_name())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !alive {
            // Another test process may be removing it at this moment.
            std::fs::remove_dir_all(folder.path()).ok();
        }
    }
}
