//! The floor: sends ready-made bytes to whoever asks anything, with one system call a connection if the socket takes it.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

use anyhow::Result;
use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::http2::{self, Piece, Reader};

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
    streams: Vec<u32>,
    /// What the client lets us send.
    window: i64,
    consumed: u32,
    /// Streams that are still to be told, and what.
    waiting: Vec<(u32, usize)>,
}

/// Serves on a free port, which it prints, until stdin closes. A line on stdin sends the second message to all.
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
                    if std::io::stdin().read(&mut buffer)? == 0 {
                        return Ok(());
                    }
                    #[expect(clippy::iter_over_hash_type, reason = "in any order")]
                    for connection in connections.values_mut() {
                        let state = &mut connection.state;
                        state
                            .waiting
                            .extend(state.streams.iter().map(|stream| (*stream, 1)));
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

// === impl Connection ===

impl Connection {
    fn new(socket: TcpStream) -> Self {
        let mut state = State {
            window: i64::from(http2::WINDOW_DEFAULT),
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
                self.consumed += u32::try_from(bytes.len()).unwrap_or(0);
                if self.consumed >= http2::WINDOW_DEFAULT / 2 {
                    http2::put_window(out, 0, self.consumed);
                    self.consumed = 0;
                }
            }
            Piece::DataEnd(head) if head.has(http2::END_STREAM) => {
                self.streams.push(head.stream);
                self.waiting.push((head.stream, 0));
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
                    http2::put_frame(out, http2::SETTINGS, http2::ACK, 0, &[]);
                }
                http2::WINDOW_UPDATE if head.stream == 0 => {
                    self.window += http2::increment(payload);
                }
                _ => {}
            },
        }
    }

    fn fill(&mut self, messages: &[Vec<u8>]) {
        let mut told = 0;
        for (stream, number) in &self.waiting {
            let message = &messages[*number];
            let cost = i64::try_from(message.len()).unwrap_or(i64::MAX);
            if cost > self.window {
                break;
            }
            self.window -= cost;
            http2::put_data(&mut self.outgoing, *stream, message);
            told += 1;
        }
        self.waiting.drain(..told);
    }
}
