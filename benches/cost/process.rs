//! Processes on a core of their own, and what they use.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Where what is measured runs.
const SERVER_CORE: usize = 0;
/// Where the client runs, and everything else of the bench.
const CLIENT_CORE: usize = 1;

/// A process that ends with this value.
pub struct Process {
    child: Child,
    /// Processor time of each thread when it was last looked at, in nanoseconds: threads end.
    threads: RefCell<HashMap<OsString, u64>>,
}

// === impl Process ===

impl Process {
    pub fn start(command: &mut Command) -> Result<Self> {
        // Children run where the thread that starts them runs.
        pin(SERVER_CORE)?;
        let child = command.spawn();
        pin_client()?;
        Ok(Self {
            child: child?,
            threads: RefCell::default(),
        })
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Fails if it has ended by itself.
    pub fn ensure_running(&mut self) -> Result<()> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the server has ended: {ended:?}");
        Ok(())
    }

    /// Processor time of all its threads, also of those that have ended.
    pub fn cpu(&self) -> Result<Duration> {
        let mut threads = self.threads.borrow_mut();
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let task = task?;
            let Ok(text) = std::fs::read_to_string(task.path().join("schedstat")) else {
                continue;
            };
            let first = text.split_whitespace().next().context("empty schedstat")?;
            threads.insert(task.file_name(), first.parse()?);
        }
        Ok(Duration::from_nanos(threads.values().sum()))
    }

    /// Resident memory, in bytes.
    pub fn resident(&self) -> Result<f64> {
        self.status("VmRSS:")
    }

    /// The most that has been resident since [`Self::forget_peak`], in bytes.
    pub fn peak(&self) -> Result<f64> {
        self.status("VmHWM:")
    }

    /// The peak counts from now on.
    pub fn forget_peak(&self) -> Result<()> {
        Ok(std::fs::write(
            format!("/proc/{}/clear_refs", self.child.id()),
            "5",
        )?)
    }

    /// Open descriptors.
    pub fn descriptors(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }

    fn status(&self, name: &str) -> Result<f64> {
        status(&self.child.id().to_string(), name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Resident memory of this process, in bytes.
pub fn own_resident() -> Result<f64> {
    status("self", "VmRSS:")
}

/// A number of bytes that the kernel knows of a process.
fn status(process: &str, name: &str) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    Ok(number.context("no such line")?.parse::<f64>()? * 1024.0)
}

/// Moves this thread, and those that it starts from now on, to the client's core.
pub fn pin_client() -> Result<()> {
    pin(CLIENT_CORE)
}

fn pin(core: usize) -> Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core);
    sched_setaffinity(None, &cores)
        .with_context(|| format!("core {core} is not there; two are needed"))
}
