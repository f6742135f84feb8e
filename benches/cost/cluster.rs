//! As much of a Kubernetes API server as it takes to be listed and watched, over plain HTTP.
//!
//! Its threads run beside the client. A change is written to those who watch by whoever makes it, so that it is known when that was.

mod world;

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use tempfile::TempDir;

pub use world::{
    Change, Endpoints, Kind, NAMESPACE, Shape, World, change_in_zone, node_name, service_name,
};

/// A running API server. It stops with this value.
pub struct Cluster {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
    folder: TempDir,
}

struct Shared {
    world: Mutex<World>,
    watchers: Mutex<Vec<Watcher>>,
    /// Whether a watch may begin with a list, as it may with servers of this day.
    streams_lists: bool,
    connections: Mutex<Vec<TcpStream>>,
    stopping: AtomicBool,
}

struct Watcher {
    kind: Kind,
    socket: TcpStream,
    /// Of the client's end.
    peer: SocketAddr,
}

/// What a client asks for.
struct Request {
    kind: Kind,
    watch: bool,
    lists_first: bool,
    version: u64,
    limit: u32,
    from: u32,
    time: Duration,
}

// === impl Cluster ===

impl Cluster {
    pub fn start(shape: Shape, streams_lists: bool) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: bench\n\
             clusters: [{{name: bench, cluster: {{server: \"http://{address}\"}}}}]\n\
             users: [{{name: bench, user: {{}}}}]\n\
             contexts: [{{name: bench, context: {{cluster: bench, user: bench}}}}]\n"
        );
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig)?;
        let shared = Arc::new(Shared {
            world: Mutex::new(World::new(shape)),
            watchers: Mutex::default(),
            streams_lists,
            connections: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = std::thread::spawn(move || accepting.accept(&listener));
        Ok(Self {
            shared,
            address,
            acceptor: Some(acceptor),
            folder,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A file that says how to reach it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Makes one change; returns when those who watch have been sent it.
    pub fn change(&self, service: u32, change: Change) {
        self.shared.change([service], change);
    }

    /// Makes a change to each of some Services, all at once.
    pub fn change_all(&self, services: Range<u32>, change: Change) {
        self.shared.change(services, change);
    }

    /// Makes many changes in a thread of its own, and sends them as fast as they are taken. Ends with when that began.
    pub fn storm(
        &self,
        services: impl IntoIterator<Item = u32> + Send + 'static,
        change: Change,
    ) -> JoinHandle<Instant> {
        let shared = Arc::clone(&self.shared);
        std::thread::spawn(move || shared.change(services, change))
    }

    /// What clients of a Service have to know now.
    pub fn endpoints(&self, service: u32) -> Endpoints {
        self.shared.world.lock().endpoints(service)
    }

    /// How many changes there have been.
    pub fn changes(&self) -> u32 {
        self.shared.world.lock().changes()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for connection in self.shared.connections.lock().drain(..) {
            connection.shutdown(Shutdown::Both).ok();
        }
        TcpStream::connect(self.address).ok();
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().ok();
        }
    }
}

// === impl Shared ===

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for socket in listener.incoming() {
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            let Ok(socket) = socket else { continue };
            let Ok(kept) = socket.try_clone() else {
                continue;
            };
            self.connections.lock().push(kept);
            let shared = Arc::clone(self);
            // A client that goes away ends its thread, and nobody has to be told.
            std::thread::spawn(move || shared.serve(socket).ok());
        }
    }

    /// When it began to send.
    fn change(&self, services: impl IntoIterator<Item = u32>, change: Change) -> Instant {
        // Held until everything is sent: a watch that is resumed meanwhile goes on after it.
        let mut world = self.world.lock();
        let mut bytes = Vec::new();
        for service in services {
            for slice in world.change(service, change) {
                put_event(&mut bytes, "MODIFIED", &world.json(Kind::Slice, slice));
            }
        }
        let start = Instant::now();
        let watchers = self.watchers.lock();
        for watcher in watchers.iter().filter(|one| one.kind == Kind::Slice) {
            // Whoever is gone comes back and asks for what it has missed.
            (&watcher.socket).write_all(&bytes).ok();
        }
        start
    }

    fn serve(&self, mut socket: TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let mut received = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            while !received.ends_with(b"\r\n\r\n") {
                let len = socket.read(&mut buffer)?;
                if len == 0 {
                    return Ok(());
                }
                received.extend_from_slice(&buffer[..len]);
            }
            let request = Request::parse(&String::from_utf8_lossy(&received));
            received.clear();
            if !request.watch {
                socket.write_all(&self.page(&request))?;
            } else if request.lists_first && !self.streams_lists {
                let refusal = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"sendInitialEvents is forbidden","reason":"Invalid","code":422}"#;
                socket.write_all(&answer("422 Unprocessable Entity", refusal))?;
            } else if !self.watch(&mut socket, &request)? {
                return Ok(());
            }
        }
    }

    fn page(&self, request: &Request) -> Vec<u8> {
        let world = self.world.lock();
        let count = world.count(request.kind);
        let end = match request.limit {
            0 => count,
            limit => count.min(request.from + limit),
        };
        let items: Vec<_> = (request.from..end)
            .map(|number| world.json(request.kind, number))
            .collect();
        let next = match end {
            _ if end < count => format!(r#","continue":"{end}""#),
            _ => String::new(),
        };
        let body = format!(
            r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{}"{next}}},"items":[{}]}}"#,
            world.version,
            items.join(",")
        );
        answer("200 OK", &body)
    }

    /// Whether the connection can be used for more.
    fn watch(&self, socket: &mut TcpStream, request: &Request) -> io::Result<bool> {
        socket.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        )?;
        let peer = socket.peer_addr()?;
        let since = if request.lists_first {
            self.list(socket, request.kind)?
        } else {
            request.version
        };
        {
            let world = self.world.lock();
            let mut missed: Vec<_> = (0..world.count(request.kind))
                .map(|number| (world.version_of(request.kind, number), number))
                .filter(|(version, _)| *version > since)
                .collect();
            missed.sort_unstable();
            let mut bytes = Vec::new();
            for (_, number) in missed {
                put_event(&mut bytes, "MODIFIED", &world.json(request.kind, number));
            }
            socket.write_all(&bytes)?;
            self.watchers.lock().push(Watcher {
                kind: request.kind,
                socket: socket.try_clone()?,
                peer,
            });
        }
        // A client that watches says nothing until it leaves.
        socket.set_read_timeout(Some(request.time))?;
        let silent = match socket.read(&mut [0]) {
            Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
            Ok(_) => false,
        };
        let world = self.world.lock();
        self.watchers.lock().retain(|watcher| watcher.peer != peer);
        if silent {
            let mut bytes = Vec::new();
            put_event(&mut bytes, "BOOKMARK", &bookmark(world.version, false));
            bytes.extend_from_slice(b"0\r\n\r\n");
            socket.write_all(&bytes)?;
            socket.set_read_timeout(None)?;
        }
        Ok(silent)
    }

    /// Sends everything, and gives the version that this is of.
    fn list(&self, socket: &mut TcpStream, kind: Kind) -> io::Result<u64> {
        const AT_ONCE: u32 = 100;
        let (version, count) = {
            let world = self.world.lock();
            (world.version, world.count(kind))
        };
        for from in (0..count).step_by(AT_ONCE as usize) {
            let mut bytes = Vec::new();
            let world = self.world.lock();
            for number in from..count.min(from + AT_ONCE) {
                put_event(&mut bytes, "ADDED", &world.json(kind, number));
            }
            drop(world);
            socket.write_all(&bytes)?;
        }
        let mut bytes = Vec::new();
        put_event(&mut bytes, "BOOKMARK", &bookmark(version, true));
        socket.write_all(&bytes)?;
        Ok(version)
    }
}

// === impl Request ===

impl Request {
    fn parse(head: &str) -> Self {
        let target = head.split(' ').nth(1).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let number = |name| value(name).and_then(|value| value.parse::<u64>().ok());
        let small = |name| number(name).and_then(|value| u32::try_from(value).ok());
        Self {
            kind: match path.rsplit('/').next().unwrap_or_default() {
                // What is asked for of one namespace is about the control plane, of which there is nothing here.
                _ if path.contains("/namespaces/") => Kind::Other,
                "services" => Kind::Service,
                "endpointslices" => Kind::Slice,
                "pods" => Kind::Pod,
                "nodes" => Kind::Node,
                _ => Kind::Other,
            },
            watch: matches!(value("watch"), Some("true" | "1")),
            lists_first: value("sendInitialEvents") == Some("true"),
            version: number("resourceVersion").unwrap_or(0),
            limit: small("limit").unwrap_or(0),
            from: small("continue").unwrap_or(0),
            time: Duration::from_secs(number("timeoutSeconds").unwrap_or(300).max(1)),
        }
    }
}

/// Appends one line of a watch, in a chunk of its own.
fn put_event(out: &mut Vec<u8>, what: &str, object: &str) {
    let line = format!("{{\"type\":\"{what}\",\"object\":{object}}}\n");
    out.extend_from_slice(format!("{:x}\r\n", line.len()).as_bytes());
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn bookmark(version: u64, ends_list: bool) -> String {
    let annotations = if ends_list {
        r#","annotations":{"k8s.io/initial-events-end":"true"}"#
    } else {
        ""
    };
    format!(r#"{{"metadata":{{"resourceVersion":"{version}"{annotations}}}}}"#)
}

fn answer(status: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
