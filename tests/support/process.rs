//! Child processes that never outlive the tests.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;

use super::wait_for;

/// A running program whose output goes to a file.
///
/// It is killed when this value is dropped, and by the kernel when the test process ends in any other way: values in
/// statics are never dropped, and a test process can itself be killed.
pub struct Process {
    name: String,
    child: Mutex<Child>,
    log: PathBuf,
}

/// What [`Process::signal`] can send.
#[derive(Clone, Copy, Debug)]
pub enum Signal {
    /// Ask to end.
    Terminate,
    /// Stop running, keep everything.
    Stop,
    /// Go on after [`Signal::Stop`].
    Continue,
}

// === impl Process ===

impl Process {
    /// Starts `program`, with standard output and standard error going to the file `log`.
    pub fn start(name: &str, program: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        let output = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("opening {}", log.display()))?;
        let mut command = die_with_parent(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        Self::spawn(name, command, log)
    }

    /// Starts `program` as one to talk to, with only standard error going to the file `log`.
    pub fn start_dialogue(
        name: &str,
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &Path)],
        log: &Path,
    ) -> Result<(Self, ChildStdin, ChildStdout)> {
        let complaints =
            File::create(log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = die_with_parent(program);
        command
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints);
        let process = Self::spawn(name, command, log)?;
        let (input, output) = {
            let mut child = process.child.lock();
            (child.stdin.take(), child.stdout.take())
        };
        let input = input.context("standard input is a pipe")?;
        let output = output.context("standard output is a pipe")?;
        Ok((process, input, output))
    }

    fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        // Not in the terminal's foreground group: Ctrl-C reaches the tests, and the kernel then ends the children.
        command.process_group(0);
        let program = format!("{command:?}");
        let child = spawn_from_lasting_thread(command)
            .with_context(|| format!("starting {name} ({program})"))?;
        Ok(Self {
            name: name.to_owned(),
            child: Mutex::new(child),
            log: log.to_owned(),
        })
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let option = match signal {
            Signal::Terminate => "-TERM",
            Signal::Stop => "-STOP",
            Signal::Continue => "-CONT",
        };
        let id = self.child.lock().id().to_string();
        let status = Command::new("kill").args([option, &id]).status()?;
        ensure!(status.success(), "kill {option} of {} failed", self.name);
        Ok(())
    }

    /// Its number, which it keeps when `setpriv` becomes the program.
    pub fn id(&self) -> u32 {
        self.child.lock().id()
    }

    /// Kills the program and waits until it is gone.
    pub fn kill(&self) {
        let mut child = self.child.lock();
        // Both fail only if it has ended already, which is what we want.
        child.kill().ok();
        child.wait().ok();
    }

    /// How it ended, if it has.
    pub fn exit_status(&self) -> Result<Option<ExitStatus>> {
        Ok(self.child.lock().try_wait()?)
    }

    /// Waits until it has ended by itself.
    pub async fn ended(&self) -> Result<ExitStatus> {
        wait_for(&format!("the end of {}", self.name), || async {
            self.exit_status().ok().flatten()
        })
        .await
    }

    /// Fails, with the end of the log, if the program is no longer running.
    pub fn ensure_running(&self) -> Result<()> {
        if let Some(status) = self.exit_status()? {
            anyhow::bail!("{} ended: {status}\n{}", self.name, self.log_tail(30));
        }
        Ok(())
    }

    /// Everything it has written so far.
    pub fn log_text(&self) -> String {
        std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The last `lines` lines it has written.
    pub fn log_tail(&self, lines: usize) -> String {
        let text = self.log_text();
        let all: Vec<_> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A command that the kernel kills when the thread that started it ends.
///
/// This is what `setpriv` is for: unsafe code, which asking for it in this process would take, is forbidden here. Where there is no `setpriv`, the
/// guard in [`Process`] has to do.
fn die_with_parent(program: &Path) -> Command {
    static SETPRIV: OnceLock<bool> = OnceLock::new();
    let has_setpriv = *SETPRIV.get_or_init(|| {
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    });
    if has_setpriv {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program);
        command
    } else {
        Command::new(program)
    }
}

/// Starts a command from a thread that lives as long as the process.
///
/// The kernel's "kill me when my parent dies" means the parent *thread*; the threads of single tests end long before
/// the clusters that they share.
fn spawn_from_lasting_thread(command: Command) -> Result<Child> {
    type Order = (Command, mpsc::Sender<std::io::Result<Child>>);
    static ORDERS: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (orders, incoming) = mpsc::channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, reply) in incoming {
                // An order whose sender has gone is a test that has failed.
                reply.send(command.spawn()).ok();
            }
        });
        Mutex::new(orders)
    });
    let (reply, answer) = mpsc::channel();
    orders
        .lock()
        .send((command, reply))
        .ok()
        .context("the starting thread has ended")?;
    Ok(answer.recv()??)
}
