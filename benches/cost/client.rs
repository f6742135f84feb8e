//! Many proxies in one: opens streams on many connections and reads what they are told, without ever going to sleep.
//!
//! A client that sleeps makes every write of the server pay for waking it on another core.

mod belief;
mod connection;

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use mio::{Events, Interest, Poll, Token};

use crate::cluster::Endpoints;
use crate::http2;
use crate::question::{PATH, Question};
use belief::Beliefs;
use connection::{Connection, Told};

pub use connection::Sameness;

/// Longer than anything takes on a busy machine.
const DEADLINE: Duration = Duration::from_mins(2);

/// All clients of one server.
pub struct Fleet {
    server: SocketAddr,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    /// By the number of their token; those that were cut leave a place that the next one takes.
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Streams ever opened: the next one asks the next question.
    asked: usize,
    told: Told,
    beliefs: Beliefs,
}

/// How it is known which change a message tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// By what it says: several changes may be told as one.
    Content,
    /// One message for each, in order.
    Order,
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
            free: Vec::new(),
            asked: 0,
            told: Told::new(sameness),
            beliefs: Beliefs::default(),
        })
    }

    /// Opens connections with `streams` each, which ask the questions in turn; gives when the last first message came.
    ///
    /// A few connections at a time, as the queue of the listener allows.
    pub fn open(
        &mut self,
        connections: usize,
        streams: usize,
        questions: &[Question],
    ) -> Result<Instant> {
        self.expect();
        self.join(connections, streams, questions)?;
        self.arrival(connections * streams)
    }

    /// As [`Fleet::open`], without waiting for any message.
    pub fn join(
        &mut self,
        connections: usize,
        streams: usize,
        questions: &[Question],
    ) -> Result<()> {
        const AT_ONCE: usize = 64;
        let headers = http2::request_headers(PATH);
        let mut left = connections;
        while left > 0 {
            let batch = (0..AT_ONCE.min(left))
                .map(|_| self.connect())
                .collect::<Result<Vec<_>>>()?;
            left -= batch.len();
            self.until(|fleet| {
                let mut newest = batch.iter().map(|one| &fleet.connections[*one]);
                newest.all(|one| one.as_ref().is_none_or(Connection::is_greeted))
            })?;
            for connection in batch {
                self.ask(connection, streams, &headers, questions)?;
            }
        }
        Ok(())
    }

    /// Waits until every stream has got one more message since [`Fleet::expect`]; gives when the last came.
    pub fn next_message(&mut self) -> Result<Instant> {
        self.messages(self.stream_count())
    }

    /// Waits until so many messages have come since [`Fleet::expect`]; gives when the last came.
    pub fn messages(&mut self, count: usize) -> Result<Instant> {
        self.arrival(count)
    }

    /// From now on, what arrives belongs to the next change.
    pub fn expect(&mut self) {
        self.told.begin();
    }

    /// Reads for some time, in which nothing has to come.
    pub fn rest(&mut self, time: Duration) -> Result<()> {
        let until = Instant::now() + time;
        self.until(|_| Instant::now() >= until)
    }

    /// Reads until nothing has come for some time; gives when the last thing did.
    pub fn quiet(&mut self, time: Duration) -> Result<Instant> {
        let start = Instant::now();
        self.until(|fleet| fleet.told.last.unwrap_or(start).elapsed() >= time)?;
        Ok(self.told.last.unwrap_or(start))
    }

    pub fn stream_count(&self) -> usize {
        self.connections
            .iter()
            .flatten()
            .map(|connection| connection.streams().len())
            .sum()
    }

    /// Messages since [`Fleet::expect`].
    pub fn message_count(&self) -> usize {
        self.told.count
    }

    /// What some stream was told first and second, with the prefixes of gRPC.
    pub fn first_two_messages(&self) -> Result<(&[u8], &[u8])> {
        let mut streams = self
            .connections
            .iter()
            .flatten()
            .flat_map(Connection::streams);
        let heard = &streams.next().context("there is no stream")?.heard;
        let message = |number: usize| {
            let (message, _) = heard.get(number)?;
            Some(self.told.message(*message))
        };
        // Who is to say the first only has no other.
        let first = message(0).context("it has been told nothing")?;
        Ok((first, message(1).unwrap_or_default()))
    }

    /// Stops reading from some connections, or goes on.
    pub fn set_stuck(&mut self, connections: Range<usize>, stuck: bool) -> Result<()> {
        for connection in self.connections[connections].iter_mut().flatten() {
            connection.is_stuck = stuck;
            // What has come meanwhile is not announced again.
            connection.turn(&mut self.buffer, &mut self.told)?;
        }
        Ok(())
    }

    /// Closes some connections.
    pub fn cut(&mut self, connections: Range<usize>) {
        // Those that come next take the places in order.
        for number in connections.rev() {
            if self.connections[number].take().is_some() {
                self.free.push(number);
            }
        }
    }

    /// How long after each change each stream was told of it, in seconds, in order of size; `changes` have numbers, which grow. So
    /// many messages of each stream were before the first of them.
    pub fn latencies(
        &mut self,
        connections: Range<usize>,
        before: usize,
        changes: &[(u32, Instant)],
        numbering: Numbering,
    ) -> Result<Vec<f64>> {
        let mut latencies = Vec::new();
        for connection in self.connections[connections].iter().flatten() {
            for stream in connection.streams() {
                let mut left = changes;
                for (message, at) in stream.heard.iter().skip(before) {
                    let told = match numbering {
                        Numbering::Order => left.len().min(1),
                        Numbering::Content => {
                            let newest = self.beliefs.newest_change(*message, &self.told)?;
                            left.partition_point(|(number, _)| *number <= newest)
                        }
                    };
                    latencies.extend(
                        left[..told]
                            .iter()
                            .map(|(_, since)| (*at - *since).as_secs_f64()),
                    );
                    left = &left[told..];
                }
                ensure!(left.is_empty(), "a stream missed {} changes", left.len());
            }
        }
        latencies.sort_by(f64::total_cmp);
        Ok(latencies)
    }

    /// Forgets when messages came, having added them to what each stream believes.
    pub fn fold(&mut self) -> Result<()> {
        for connection in self.connections.iter_mut().flatten() {
            for stream in connection.streams_mut() {
                for (message, _) in stream.heard.drain(..) {
                    stream.belief = self.beliefs.after(stream.belief, message, &self.told)?;
                }
            }
        }
        Ok(())
    }

    /// Forgets everything but what each stream believes, so that it can go on for ever.
    pub fn forget(&mut self) -> Result<()> {
        self.fold()?;
        let mut beliefs = Beliefs::default();
        for connection in self.connections.iter_mut().flatten() {
            for stream in connection.streams_mut() {
                stream.belief = beliefs.adopt(stream.belief, &self.beliefs)?;
            }
        }
        self.beliefs = beliefs;
        self.told.forget();
        Ok(())
    }

    /// Compares what every stream believes with what is so; fails if one is wrong.
    pub fn ensure_equal(&mut self, truth: impl Fn(u32) -> Endpoints) -> Result<()> {
        self.fold()?;
        let mut wrong = 0;
        for connection in self.connections.iter().flatten() {
            for stream in connection.streams() {
                let equal = self.beliefs.is(stream.belief, stream.service, &truth);
                wrong += usize::from(!equal);
            }
        }
        self.beliefs.forget_truth();
        let streams = self.stream_count();
        ensure!(
            wrong == 0,
            "{wrong} of {streams} streams believe what is not so"
        );
        Ok(())
    }

    fn connect(&mut self) -> Result<usize> {
        let number = self.free.pop().unwrap_or(self.connections.len());
        if number == self.connections.len() {
            self.connections.push(None);
        }
        let mut connection = Connection::open(self.server)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut connection.socket, Token(number), interest)?;
        self.connections[number] = Some(connection);
        Ok(number)
    }

    /// Opens streams, each as soon as the server takes its question.
    fn ask(
        &mut self,
        number: usize,
        streams: usize,
        headers: &[u8],
        questions: &[Question],
    ) -> Result<()> {
        for _ in 0..streams {
            let question = &questions[self.asked % questions.len()];
            self.asked += 1;
            self.until(|fleet| {
                let connection = fleet.connections[number].as_ref();
                connection.is_none_or(|connection| connection.has_room(question))
            })?;
            if let Some(connection) = &mut self.connections[number] {
                connection.ask(question, headers)?;
            }
        }
        if let Some(connection) = &mut self.connections[number] {
            connection.write()?;
        }
        Ok(())
    }

    fn arrival(&mut self, messages: usize) -> Result<Instant> {
        self.until(|fleet| fleet.told.count >= messages)?;
        let count = self.told.count;
        ensure!(count == messages, "{count} messages instead of {messages}");
        self.told.last.context("nothing came")
    }

    /// Reads until something is so.
    pub fn until(&mut self, mut done: impl FnMut(&Self) -> bool) -> Result<()> {
        let start = Instant::now();
        while !done(self) {
            self.poll.poll(&mut self.events, Some(Duration::ZERO))?;
            for event in &self.events {
                // It may have been cut since.
                if let Some(connection) = &mut self.connections[event.token().0] {
                    connection.turn(&mut self.buffer, &mut self.told)?;
                }
            }
            if let Some(failure) = &self.told.failure {
                bail!("{failure}");
            }
            ensure!(
                start.elapsed() < DEADLINE,
                "{} messages after {DEADLINE:?}",
                self.told.count
            );
        }
        Ok(())
    }
}
