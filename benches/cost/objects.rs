//! What it costs to read a cluster by the types that Kubernetes clients have, and to keep it: the usual way.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cluster::{Cluster, Shape};
use crate::process::{Process, own_resident};

/// Objects in a page, as kube asks for them.
const PAGE: usize = 500;

/// A page of a list.
#[derive(Deserialize)]
struct Page<K> {
    items: Vec<K>,
}

/// Reads lists by pages from an API server.
struct Reader {
    connection: BufReader<TcpStream>,
    body: Vec<u8>,
    /// Processor time that decoding took.
    decoding: Duration,
}

/// Processor time that it takes to decode all objects of a cluster.
pub fn decode(shape: Shape) -> Result<Duration> {
    let nanoseconds = ask("decode", shape)?;
    Ok(Duration::from_nanos(nanoseconds.parse()?))
}

/// Memory that it takes to keep all objects of a cluster in reflector stores, in bytes.
pub fn reflect(shape: Shape) -> Result<f64> {
    Ok(ask("reflect", shape)?.parse()?)
}

fn ask(what: &str, shape: Shape) -> Result<String> {
    let cluster = Cluster::start(shape, false)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--server", what, &cluster.address().to_string()]);
    answer(command)
}

/// What a process of the bench's own prints.
pub fn answer(mut command: Command) -> Result<String> {
    command.stdout(Stdio::piped());
    let mut process = Process::start(&mut command)?;
    let stdout = process.child().stdout.take().context("no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Decodes all objects, and prints how many nanoseconds of processor time that took.
pub fn serve_decode(server: SocketAddr) -> Result<()> {
    let mut reader = Reader::new(server)?;
    reader.read::<Service>("/api/v1/services", drop)?;
    reader.read::<EndpointSlice>("/apis/discovery.k8s.io/v1/endpointslices", drop)?;
    reader.read::<Pod>("/api/v1/pods", drop)?;
    reader.read::<Node>("/api/v1/nodes", drop)?;
    writeln!(std::io::stdout(), "{}", reader.decoding.as_nanos())?;
    Ok(())
}

/// Keeps all objects, and prints by how many bytes that has made this process grow.
pub fn serve_reflect(server: SocketAddr) -> Result<()> {
    let mut reader = Reader::new(server)?;
    let before = own_resident()?;
    let mut services = Writer::<Service>::new(());
    let mut slices = Writer::<EndpointSlice>::new(());
    let mut pods = Writer::<Pod>::new(());
    reader.read("/api/v1/services", |object| {
        services.apply_watcher_event(&watcher::Event::Apply(object));
    })?;
    reader.read("/apis/discovery.k8s.io/v1/endpointslices", |object| {
        slices.apply_watcher_event(&watcher::Event::Apply(object));
    })?;
    reader.read("/api/v1/pods", |object| {
        pods.apply_watcher_event(&watcher::Event::Apply(object));
    })?;
    reader.body = Vec::new();
    writeln!(std::io::stdout(), "{}", own_resident()? - before)?;
    Ok(())
}

// === impl Reader ===

impl Reader {
    fn new(server: SocketAddr) -> Result<Self> {
        Ok(Self {
            connection: BufReader::new(TcpStream::connect(server)?),
            body: Vec::new(),
            decoding: Duration::ZERO,
        })
    }

    fn read<K: DeserializeOwned>(&mut self, path: &str, mut each: impl FnMut(K)) -> Result<()> {
        for from in (0..).step_by(PAGE) {
            self.fetch(&format!("{path}?limit={PAGE}&continue={from}"))?;
            let before = processor_time();
            let page: Page<K> = serde_json::from_slice(&self.body)?;
            let len = page.items.len();
            page.items.into_iter().for_each(&mut each);
            self.decoding += processor_time().saturating_sub(before);
            if len < PAGE {
                break;
            }
        }
        Ok(())
    }

    fn fetch(&mut self, path: &str) -> Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: cluster\r\n\r\n");
        self.connection.get_mut().write_all(request.as_bytes())?;
        let mut len = 0;
        loop {
            let mut line = String::new();
            self.connection.read_line(&mut line)?;
            match line.trim().split_once(": ") {
                Some(("Content-Length", value)) => len = value.parse()?,
                None if line == "\r\n" => break,
                _ => {}
            }
        }
        self.body.resize(len, 0);
        Ok(self.connection.read_exact(&mut self.body)?)
    }
}

/// Of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(time.tv_nsec.unsigned_abs())
}
