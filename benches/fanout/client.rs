//! Many proxies in one: opens streams on many connections and reads what they are told, without ever going to sleep.
//!
//! A client that sleeps makes every write of the server pay for waking it on another core.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::http2::{self, Piece, Reader};

/// What a Linkerd proxy lets a server send on one connection before it has read any of it.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Longer than anything takes on a busy machine.
const DEADLINE: Duration = Duration::from_mins(2);

/// All clients of one server.
pub struct Fleet {
    server: SocketAddr,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    connections: Vec<Connection>,
    told: Told,
}

/// What the streams have been told. The n-th message has to be the same for all of them.
#[derive(Default)]
struct Told {
    sameness: Sameness,
    messages: usize,
    first: Option<Instant>,
    last: Option<Instant>,
    /// The n-th message, from whoever got it first, and whether that is all of it.
    references: Vec<(Vec<u8>, bool)>,
    /// Messages that were complete before the first of their kind.
    unchecked: Vec<(usize, Vec<u8>)>,
    failure: Option<String>,
}

/// How alike messages have to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sameness {
    #[default]
    Bytes,
    /// Of servers that send labels in any order.
    Length,
}

struct Connection {
    socket: TcpStream,
    outgoing: Vec<u8>,
    reader: Reader,
    state: ConnectionState,
}

struct ConnectionState {
    streams: Vec<Stream>,
    greeted: bool,
    streams_max: u32,
    /// What may still be sent.
    window: i64,
    /// Read, and not yet given back to the server's window.
    consumed: u32,
}

#[derive(Default)]
struct Stream {
    head: [u8; 5],
    head_len: usize,
    left: usize,
    done: usize,
    message: usize,
    is_reference: bool,
    own: Vec<u8>,
    consumed: u32,
}

/// When something that every stream was told arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub first: Instant,
    pub last: Instant,
}

// === impl Fleet ===

impl Fleet {
    pub fn new(server: SocketAddr, sameness: Sameness) -> Result<Self> {
        Ok(Self {
            server,
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            buffer: vec![0; 1 << 18],
            connections: Vec::new(),
            told: Told {
                sameness,
                ..Told::default()
            },
        })
    }

    /// Opens connections with `streams` each that ask the same, and waits for their first messages.
    ///
    /// A few connections at a time, as the queue of the listener allows.
    pub fn open(
        &mut self,
        connections: usize,
        streams: usize,
        path: &str,
        question: &[u8],
    ) -> Result<Arrival> {
        const AT_ONCE: usize = 64;
        let headers = http2::request_headers(path);
        let request_len = question.len() + headers.len();
        ensure!(request_len < http2::PAYLOAD_MAX, "the question is too long");
        self.told.begin();
        let mut opened = 0;
        while opened < connections {
            let batch = AT_ONCE.min(connections - opened);
            for _ in 0..batch {
                self.connect()?;
            }
            opened += batch;
            self.pump(|fleet| {
                let newest = &fleet.connections[fleet.connections.len() - batch..];
                newest.iter().all(|connection| connection.state.greeted)
            })?;
            let start = self.connections.len() - batch;
            for connection in start..self.connections.len() {
                self.ask(connection, streams, &headers, question)?;
            }
        }
        self.arrival(connections * streams)
    }

    /// Waits until every stream has got one more message since [`Fleet::expect`].
    pub fn next_message(&mut self) -> Result<Arrival> {
        let streams = self.stream_count();
        self.arrival(streams)
    }

    /// From now on, what arrives belongs to the next change.
    pub fn expect(&mut self) {
        self.told.begin();
    }

    /// Reads for some time, in which nothing has to come.
    pub fn rest(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        self.pump(|_| Instant::now() >= until)
    }

    pub fn stream_count(&self) -> usize {
        self.connections
            .iter()
            .map(|connection| connection.state.streams.len())
            .sum()
    }

    /// The n-th message of every stream, with its gRPC prefix.
    pub fn message(&self, number: usize) -> &[u8] {
        &self.told.references[number].0
    }

    fn connect(&mut self) -> Result<()> {
        let socket = std::net::TcpStream::connect(self.server)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut socket = TcpStream::from_std(socket);
        let token = Token(self.connections.len());
        self.poll.registry().register(
            &mut socket,
            token,
            Interest::READABLE | Interest::WRITABLE,
        )?;
        let mut outgoing = http2::PREFACE.to_vec();
        http2::put_setting(
            &mut outgoing,
            http2::INITIAL_WINDOW_SIZE,
            http2::WINDOW_DEFAULT,
        );
        http2::put_window(&mut outgoing, 0, CONNECTION_WINDOW - http2::WINDOW_DEFAULT);
        let mut connection = Connection {
            socket,
            outgoing,
            reader: Reader::default(),
            state: ConnectionState {
                streams: Vec::new(),
                greeted: false,
                streams_max: u32::MAX,
                window: i64::from(http2::WINDOW_DEFAULT),
                consumed: 0,
            },
        };
        connection.write()?;
        self.connections.push(connection);
        Ok(())
    }

    /// Opens streams, each as soon as the server takes its question.
    fn ask(
        &mut self,
        connection: usize,
        streams: usize,
        headers: &[u8],
        question: &[u8],
    ) -> Result<()> {
        let cost = i64::try_from(question.len())?;
        let allowed = self.connections[connection].state.streams_max;
        ensure!(
            streams <= allowed as usize,
            "the server takes {allowed} streams"
        );
        for number in 0..streams {
            if self.connections[connection].state.window < cost {
                self.pump(|fleet| fleet.connections[connection].state.window >= cost)?;
            }
            let Connection {
                outgoing, state, ..
            } = &mut self.connections[connection];
            state.window -= cost;
            state.streams.push(Stream::default());
            let id = u32::try_from(number * 2 + 1)?;
            http2::put_frame(outgoing, http2::HEADERS, http2::END_HEADERS, id, headers);
            http2::put_frame(outgoing, http2::DATA, http2::END_STREAM, id, question);
            if outgoing.len() > http2::PAYLOAD_MAX {
                self.connections[connection].write()?;
            }
        }
        self.connections[connection].write()?;
        Ok(())
    }

    fn arrival(&mut self, messages: usize) -> Result<Arrival> {
        self.pump(|fleet| fleet.told.messages >= messages)?;
        ensure!(
            self.told.messages == messages,
            "{} messages instead of {messages}",
            self.told.messages
        );
        self.told.check();
        if let Some(failure) = &self.told.failure {
            bail!("{failure}");
        }
        match (self.told.first, self.told.last) {
            (Some(first), Some(last)) => Ok(Arrival { first, last }),
            _ => bail!("nothing came"),
        }
    }

    fn pump(&mut self, mut done: impl FnMut(&Self) -> bool) -> Result<()> {
        let start = Instant::now();
        while !done(self) {
            self.poll.poll(&mut self.events, Some(Duration::ZERO))?;
            for event in &self.events {
                let connection = &mut self.connections[event.token().0];
                connection.read(&mut self.buffer, &mut self.told)?;
                connection.write()?;
            }
            if let Some(failure) = &self.told.failure {
                bail!("{failure}");
            }
            ensure!(
                start.elapsed() < DEADLINE,
                "{} messages after {DEADLINE:?}",
                self.told.messages
            );
        }
        Ok(())
    }
}

// === impl Connection ===

impl Connection {
    fn read(&mut self, buffer: &mut [u8], told: &mut Told) -> Result<()> {
        loop {
            let len = match self.socket.read(buffer) {
                Ok(0) => bail!("the server has closed a connection"),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let now = Instant::now();
            let (state, outgoing) = (&mut self.state, &mut self.outgoing);
            self.reader.read(&buffer[..len], |piece| {
                state.take(piece, outgoing, told, now);
            });
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.socket.write(&self.outgoing) {
                Ok(len) => drop(self.outgoing.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // Ten thousand buffers would tell in the caches of the client.
        self.outgoing.shrink_to(256);
        Ok(())
    }
}

// === impl ConnectionState ===

impl ConnectionState {
    fn take(&mut self, piece: Piece<'_>, outgoing: &mut Vec<u8>, told: &mut Told, now: Instant) {
        match piece {
            Piece::Data(id, bytes) => {
                let stream = (id as usize)
                    .checked_sub(1)
                    .and_then(|id| self.streams.get_mut(id / 2));
                match stream {
                    Some(stream) => stream.take(bytes, told, now),
                    None => told.fail(format!("data on stream {id}, which nobody opened")),
                }
            }
            Piece::DataEnd(head) => self.give_back(head, outgoing, told),
            Piece::Frame(head, payload) => match head.kind {
                http2::SETTINGS if !head.has(http2::ACK) => {
                    for (setting, value) in http2::settings(payload) {
                        if setting == http2::MAX_CONCURRENT_STREAMS {
                            self.streams_max = value;
                        }
                    }
                    self.greeted = true;
                    http2::put_frame(outgoing, http2::SETTINGS, http2::ACK, 0, &[]);
                }
                http2::PING if !head.has(http2::ACK) => {
                    http2::put_frame(outgoing, http2::PING, http2::ACK, 0, payload);
                }
                http2::WINDOW_UPDATE if head.stream == 0 => {
                    self.window += http2::increment(payload);
                }
                http2::HEADERS if head.has(http2::END_STREAM) => {
                    told.fail(format!("stream {} was ended", head.stream));
                }
                http2::RST_STREAM => told.fail(format!("stream {} was reset", head.stream)),
                http2::GOAWAY => told.fail("the server says good-bye".to_owned()),
                _ => {}
            },
        }
    }

    /// Lets the server send as much as has been read, half a window at a time.
    fn give_back(&mut self, head: http2::Head, outgoing: &mut Vec<u8>, told: &mut Told) {
        if head.has(http2::END_STREAM) {
            told.fail(format!("stream {} was ended", head.stream));
        }
        let len = u32::try_from(head.len).unwrap_or(0);
        let mut give = |consumed: &mut u32, window: u32, stream| {
            *consumed += len;
            if *consumed >= window / 2 {
                http2::put_window(outgoing, stream, *consumed);
                *consumed = 0;
            }
        };
        give(&mut self.consumed, CONNECTION_WINDOW, 0);
        if let Some(stream) = self.streams.get_mut(head.stream as usize / 2) {
            give(&mut stream.consumed, http2::WINDOW_DEFAULT, head.stream);
        }
    }
}

// === impl Stream ===

impl Stream {
    fn take(&mut self, mut bytes: &[u8], told: &mut Told, now: Instant) {
        while !bytes.is_empty() {
            if self.left == 0 {
                let len = bytes.len().min(self.head.len() - self.head_len);
                self.head[self.head_len..][..len].copy_from_slice(&bytes[..len]);
                self.head_len += len;
                bytes = &bytes[len..];
                if self.head_len < self.head.len() {
                    return;
                }
                self.head_len = 0;
                let [_, a, b, c, d] = self.head;
                self.left = u32::from_be_bytes([a, b, c, d]) as usize;
                self.done = 0;
                let head = self.head;
                self.add(&head, told);
            } else {
                let (taken, rest) = bytes.split_at(self.left.min(bytes.len()));
                bytes = rest;
                self.left -= taken.len();
                self.add(taken, told);
            }
            if self.left == 0 {
                self.end(told, now);
            }
        }
    }

    fn add(&mut self, bytes: &[u8], told: &mut Told) {
        if self.done == 0 {
            self.is_reference = told.references.len() == self.message;
            if self.is_reference {
                told.references.push((Vec::new(), false));
            }
        }
        let (reference, complete) = &mut told.references[self.message];
        if self.is_reference {
            reference.extend_from_slice(bytes);
        } else if *complete && self.own.is_empty() {
            let expected = reference.get(self.done..self.done + bytes.len());
            if told.sameness == Sameness::Bytes && expected != Some(bytes) {
                told.fail("two streams were told different things".to_owned());
            }
        } else {
            self.own.extend_from_slice(bytes);
        }
        self.done += bytes.len();
    }

    fn end(&mut self, told: &mut Told, now: Instant) {
        let (reference, complete) = &mut told.references[self.message];
        if self.is_reference {
            *complete = true;
        } else if !self.own.is_empty() {
            told.unchecked
                .push((self.message, std::mem::take(&mut self.own)));
        } else if reference.len() != self.done {
            told.fail("a message is shorter than another".to_owned());
        }
        self.message += 1;
        told.messages += 1;
        told.first.get_or_insert(now);
        told.last = Some(now);
    }
}

// === impl Told ===

impl Told {
    fn begin(&mut self) {
        self.messages = 0;
        self.first = None;
        self.last = None;
    }

    fn check(&mut self) {
        let unchecked = std::mem::take(&mut self.unchecked);
        let wrong = unchecked.iter().any(|(number, message)| {
            let (reference, _) = &self.references[*number];
            match self.sameness {
                Sameness::Bytes => reference != message,
                Sameness::Length => reference.len() != message.len(),
            }
        });
        if wrong {
            self.fail("two streams were told different things".to_owned());
        }
    }

    fn fail(&mut self, failure: String) {
        self.failure.get_or_insert(failure);
    }
}
