//! The floor: sends ready-made bytes to whoever asks anything, with one system call a connection if the socket takes it.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

use anyhow::Result;
use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::http2::{self, Piece, Reader};
use crate::question::service_in;

const LISTENER: Token = Token(usize::MAX);
const STDIN: Token = Token(usize::MAX - 1);

struct Connection {
    socket: TcpStream,
    reader: Reader,
    preface_left: usize,
    state: State,
}

#[derive(Default)]
struct State {
    outgoing: Vec<u8>,
    written: usize,
    streams: Vec<Stream>,
    /// What the client lets us send.
    window: i64,
    /// What it lets us send on a stream at first.
    window_of_streams: i64,
    consumed: u32,
    /// What has come of the question that is being read.
    question: Vec<u8>,
    /// What is still to be said, in order.
    waiting: Vec<Waiting>,
}

struct Stream {
    service: u32,
    window: i64,
}

struct Waiting {
    /// Place of the stream.
    stream: usize,
    /// Number of the message.
    message: usize,
    /// Bytes of it that have been sent.
    sent: usize,
}

/// Serves on a free port, which it prints, until stdin closes. A line on stdin is the number of a Service: all streams about that one are
/// sent the second message.
pub fn serve(messages: &Path) -> Result<()> {
    let messages = [
        std::fs::read(messages.join("first"))?,
        std::fs::read(messages.join("update"))?,
    ];
    let headers = http2::response_headers();
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1024);
    let mut listener = TcpListener::bind(([127, 0, 0, 1], 0).into())?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    poll.registry()
        .register(&mut SourceFd(&0), STDIN, Interest::READABLE)?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let mut connections = HashMap::new();
    let mut buffer = vec![0; 1 << 16];
    let mut services = Numbers::default();
    let mut next = 0;
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            match event.token() {
                LISTENER => {
                    while let Ok((mut socket, _)) = listener.accept() {
                        socket.set_nodelay(true)?;
                        let interest = Interest::READABLE | Interest::WRITABLE;
                        poll.registry()
                            .register(&mut socket, Token(next), interest)?;
                        connections.insert(next, Connection::new(socket));
                        next += 1;
                    }
                }
                STDIN => {
                    let len = std::io::stdin().read(&mut buffer)?;
                    if len == 0 {
                        return Ok(());
                    }
                    let services = services.read(&buffer[..len]);
                    #[expect(clippy::iter_over_hash_type, reason = "in any order")]
                    for connection in connections.values_mut() {
                        connection.state.tell(&services);
                        connection.write(&messages);
                    }
                }
                Token(number) => {
                    let Some(connection) = connections.get_mut(&number) else {
                        continue;
                    };
                    if connection.read(&mut buffer, &headers) {
                        connection.write(&messages);
                    } else {
                        connections.remove(&number);
                    }
                }
            }
        }
    }
}

/// Reads numbers, each on a line of its own, wherever reads have cut them.
#[derive(Default)]
struct Numbers(u32);

// === impl Connection ===

impl Connection {
    fn new(socket: TcpStream) -> Self {
        let mut state = State {
            window: i64::from(http2::WINDOW_DEFAULT),
            window_of_streams: i64::from(http2::WINDOW_DEFAULT),
            ..State::default()
        };
        http2::put_setting(&mut state.outgoing, http2::MAX_CONCURRENT_STREAMS, 100_000);
        Self {
            socket,
            reader: Reader::default(),
            preface_left: http2::PREFACE.len(),
            state,
        }
    }

    /// Takes in what has come; whether the connection is still there.
    fn read(&mut self, buffer: &mut [u8], headers: &[u8]) -> bool {
        loop {
            let mut bytes = match self.socket.read(buffer) {
                Ok(0) => return false,
                Ok(len) => &buffer[..len],
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            };
            let skip = self.preface_left.min(bytes.len());
            self.preface_left -= skip;
            bytes = &bytes[skip..];
            let state = &mut self.state;
            self.reader.read(bytes, |piece| state.take(&piece, headers));
        }
    }

    fn write(&mut self, messages: &[Vec<u8>]) {
        self.state.fill(messages);
        while self.state.written < self.state.outgoing.len() {
            match self
                .socket
                .write(&self.state.outgoing[self.state.written..])
            {
                Ok(len) => self.state.written += len,
                // The end of a connection shows when it is read.
                Err(_) => return,
            }
        }
        self.state.outgoing = Vec::new();
        self.state.written = 0;
    }
}

// === impl State ===

impl State {
    fn take(&mut self, piece: &Piece<'_>, headers: &[u8]) {
        let out = &mut self.outgoing;
        match piece {
            Piece::Data(_, bytes) => {
                self.question.extend_from_slice(bytes);
                self.consumed += u32::try_from(bytes.len()).unwrap_or(0);
                if self.consumed >= http2::WINDOW_DEFAULT / 2 {
                    http2::put_window(out, 0, self.consumed);
                    self.consumed = 0;
                }
            }
            // All of a question is in one frame, or the bench fails.
            Piece::DataEnd(head) if head.has(http2::END_STREAM) => {
                self.streams.push(Stream {
                    service: service_in(&self.question).unwrap_or(0),
                    window: self.window_of_streams,
                });
                self.question.clear();
                assert_eq!(head.stream as usize, self.streams.len() * 2 - 1);
                self.waiting.push(Waiting {
                    stream: head.stream as usize / 2,
                    message: 0,
                    sent: 0,
                });
                http2::put_frame(
                    out,
                    http2::HEADERS,
                    http2::END_HEADERS,
                    head.stream,
                    headers,
                );
            }
            Piece::DataEnd(_) => {}
            Piece::Frame(head, payload) => match head.kind {
                http2::SETTINGS if !head.has(http2::ACK) => {
                    for (setting, value) in http2::settings(payload) {
                        if setting == http2::INITIAL_WINDOW_SIZE {
                            self.window_of_streams = value.into();
                        }
                    }
                    http2::put_frame(out, http2::SETTINGS, http2::ACK, 0, &[]);
                }
                http2::WINDOW_UPDATE if head.stream == 0 => {
                    self.window += http2::increment(payload);
                }
                http2::WINDOW_UPDATE => {
                    if let Some(stream) = self.streams.get_mut(head.stream as usize / 2) {
                        stream.window += http2::increment(payload);
                    }
                }
                _ => {}
            },
        }
    }

    /// Something has changed about some Services.
    fn tell(&mut self, services: &[u32]) {
        for (number, stream) in self.streams.iter().enumerate() {
            for _ in services.iter().filter(|one| **one == stream.service) {
                self.waiting.push(Waiting {
                    stream: number,
                    message: 1,
                    sent: 0,
                });
            }
        }
    }

    fn fill(&mut self, messages: &[Vec<u8>]) {
        let (out, window) = (&mut self.outgoing, &mut self.window);
        let streams = &mut self.streams;
        self.waiting.retain_mut(|waiting| {
            let message = &messages[waiting.message];
            let stream = &mut streams[waiting.stream];
            let id = u32::try_from(waiting.stream * 2 + 1).unwrap_or(u32::MAX);
            while waiting.sent < message.len() {
                let allowed = stream.window.min(*window);
                let allowed = usize::try_from(allowed).unwrap_or(0);
                let rest = &message[waiting.sent..];
                let len = rest.len().min(allowed).min(http2::PAYLOAD_MAX);
                if len == 0 {
                    return true;
                }
                http2::put_frame(out, http2::DATA, 0, id, &rest[..len]);
                let cost = i64::try_from(len).unwrap_or(i64::MAX);
                *window -= cost;
                stream.window -= cost;
                waiting.sent += len;
            }
            false
        });
    }
}

// === impl Numbers ===

impl Numbers {
    /// The numbers on the lines that are complete now.
    fn read(&mut self, bytes: &[u8]) -> Vec<u32> {
        let mut numbers = Vec::new();
        for byte in bytes {
            if byte.is_ascii_digit() {
                self.0 = self.0 * 10 + u32::from(byte - b'0');
            } else {
                numbers.push(std::mem::take(&mut self.0));
            }
        }
        numbers
    }
}
