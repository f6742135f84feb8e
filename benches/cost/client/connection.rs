//! One connection of a proxy, and the streams on it.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use mio::net::TcpStream;
use xxhash_rust::xxh3::xxh3_128;

use crate::http2::{self, Piece, Reader};
use crate::question::Question;

use super::belief::Belief;

/// What a Linkerd proxy lets a server send on one connection before it has read any of it.
const CONNECTION_WINDOW: u32 = 1 << 20;
/// Before a message: whether it is compressed, and its length.
const PREFIX_LEN: usize = 5;
/// Buffers kept for messages that come in parts.
const SPARE_MAX: usize = 64;

/// Number of a message that has been told, the same for messages that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(u32);

/// When messages are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sameness {
    Bytes,
    /// Of servers that send labels in any order.
    Length,
}

/// What the streams have been told.
pub struct Told {
    sameness: Sameness,
    messages: Vec<Vec<u8>>,
    by_hash: HashMap<u128, MessageId>,
    spare: Vec<Vec<u8>>,
    /// Since the beginning of the present change.
    pub count: usize,
    pub last: Option<Instant>,
    pub failure: Option<String>,
}

pub struct Connection {
    pub socket: TcpStream,
    /// Whether nothing is read.
    pub is_stuck: bool,
    outgoing: Vec<u8>,
    reader: Reader,
    state: State,
}

struct State {
    streams: Vec<Stream>,
    greeted: bool,
    streams_max: u32,
    /// What may still be sent.
    window: i64,
    /// Read, and not yet given back to the server's window.
    consumed: u32,
}

pub struct Stream {
    /// What it asked for.
    pub service: u32,
    /// What it believes, but for what it has heard since.
    pub belief: Belief,
    pub heard: Vec<(MessageId, Instant)>,
    partial: Vec<u8>,
    consumed: u32,
}

// === impl Connection ===

impl Connection {
    pub fn open(server: SocketAddr) -> Result<Self> {
        let socket = std::net::TcpStream::connect(server)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut outgoing = http2::PREFACE.to_vec();
        http2::put_setting(
            &mut outgoing,
            http2::INITIAL_WINDOW_SIZE,
            http2::WINDOW_DEFAULT,
        );
        http2::put_window(&mut outgoing, 0, CONNECTION_WINDOW - http2::WINDOW_DEFAULT);
        let mut connection = Self {
            socket: TcpStream::from_std(socket),
            is_stuck: false,
            outgoing,
            reader: Reader::default(),
            state: State {
                streams: Vec::new(),
                greeted: false,
                streams_max: u32::MAX,
                window: i64::from(http2::WINDOW_DEFAULT),
                consumed: 0,
            },
        };
        connection.write()?;
        Ok(connection)
    }

    /// Whether the server has said what it takes.
    pub fn is_greeted(&self) -> bool {
        self.state.greeted
    }

    pub fn streams(&self) -> &[Stream] {
        &self.state.streams
    }

    pub fn streams_mut(&mut self) -> &mut [Stream] {
        &mut self.state.streams
    }

    /// Whether the server takes a question now.
    pub fn has_room(&self, question: &Question) -> bool {
        self.state.window >= i64::try_from(question.message.len()).unwrap_or(i64::MAX)
    }

    /// Opens a stream, soon or when it is written.
    pub fn ask(&mut self, question: &Question, headers: &[u8]) -> Result<()> {
        let (state, message) = (&mut self.state, &question.message);
        let (number, allowed) = (state.streams.len(), state.streams_max);
        ensure!(
            number < allowed as usize,
            "the server takes {allowed} streams"
        );
        state.window -= i64::try_from(message.len())?;
        state.streams.push(Stream {
            service: question.service,
            belief: Belief::default(),
            heard: Vec::new(),
            partial: Vec::new(),
            consumed: 0,
        });
        let id = u32::try_from(number * 2 + 1)?;
        let out = &mut self.outgoing;
        http2::put_frame(out, http2::HEADERS, http2::END_HEADERS, id, headers);
        http2::put_frame(out, http2::DATA, http2::END_STREAM, id, message);
        if out.len() > http2::PAYLOAD_MAX {
            self.write()?;
        }
        Ok(())
    }

    /// Reads what has come, and writes what has to be said to that.
    pub fn turn(&mut self, buffer: &mut [u8], told: &mut Told) -> Result<()> {
        if self.is_stuck {
            return Ok(());
        }
        self.read(buffer, told)?;
        self.write()
    }

    pub fn write(&mut self) -> Result<()> {
        while !self.outgoing.is_empty() {
            match self.socket.write(&self.outgoing) {
                Ok(len) => drop(self.outgoing.drain(..len)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Ten thousand buffers would tell in the caches of the client.
        self.outgoing.shrink_to(256);
        Ok(())
    }

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
}

// === impl State ===

impl State {
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
            let whole = message_len(bytes).filter(|len| *len <= bytes.len());
            if let Some(len) = whole.filter(|_| self.partial.is_empty()) {
                let (message, rest) = bytes.split_at(len);
                bytes = rest;
                self.heard.push((told.add(message, now), now));
                continue;
            }
            if self.partial.capacity() == 0 {
                self.partial = told.spare.pop().unwrap_or_default();
            }
            let len = message_len(&self.partial).unwrap_or(PREFIX_LEN);
            let (taken, rest) = bytes.split_at(bytes.len().min(len - self.partial.len()));
            bytes = rest;
            self.partial.extend_from_slice(taken);
            if message_len(&self.partial) == Some(self.partial.len()) {
                let mut message = std::mem::take(&mut self.partial);
                self.heard.push((told.add(&message, now), now));
                message.clear();
                if told.spare.len() < SPARE_MAX {
                    told.spare.push(message);
                }
            }
        }
    }
}

/// Length of the message that begins here, with its prefix, if that is there.
fn message_len(bytes: &[u8]) -> Option<usize> {
    let [_, a, b, c, d] = *bytes.first_chunk::<PREFIX_LEN>()?;
    Some(PREFIX_LEN + u32::from_be_bytes([a, b, c, d]) as usize)
}

// === impl Told ===

impl Told {
    pub fn new(sameness: Sameness) -> Self {
        Self {
            sameness,
            messages: Vec::new(),
            by_hash: HashMap::new(),
            spare: Vec::new(),
            count: 0,
            last: None,
            failure: None,
        }
    }

    pub fn begin(&mut self) {
        self.count = 0;
        self.last = None;
    }

    /// Forgets all messages: nobody has one of them.
    pub fn forget(&mut self) {
        self.messages.clear();
        self.by_hash.clear();
    }

    /// A message with its prefix.
    pub fn message(&self, id: MessageId) -> &[u8] {
        &self.messages[id.0 as usize]
    }

    fn add(&mut self, message: &[u8], now: Instant) -> MessageId {
        self.count += 1;
        self.last = Some(now);
        let hash = match self.sameness {
            Sameness::Bytes => xxh3_128(message),
            Sameness::Length => message.len() as u128,
        };
        *self.by_hash.entry(hash).or_insert_with(|| {
            let id = u32::try_from(self.messages.len()).expect("memory ends before");
            self.messages.push(message.to_vec());
            MessageId(id)
        })
    }

    fn fail(&mut self, failure: String) {
        self.failure.get_or_insert(failure);
    }
}
