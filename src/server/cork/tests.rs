use std::task::Waker;

use super::*;

/// A socket that takes as much as it is told to.
#[derive(Debug, Default)]
struct Socket {
    taken: Vec<u8>,
    /// Sizes of the writes that it took.
    calls: Vec<usize>,
    room: usize,
    /// Most that it takes at once.
    sip: usize,
    closed: bool,
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let len = bytes.len().min(this.room).min(this.sip);
        if len == 0 {
            return Poll::Pending;
        }
        this.room -= len;
        this.taken.extend_from_slice(&bytes[..len]);
        this.calls.push(len);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().closed = true;
        Poll::Ready(Ok(()))
    }
}

fn corked(room: usize, sip: usize) -> Corked<Socket> {
    Corked::new(Socket {
        room,
        sip,
        ..Socket::default()
    })
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn write(corked: &mut Corked<Socket>, bytes: &[u8]) -> Poll<usize> {
    Pin::new(corked)
        .poll_write(&mut context(), bytes)
        .map(Result::unwrap)
}

fn drain(corked: &Corked<Socket>) -> Poll<()> {
    corked.poll_drain(&mut context()).map(Result::unwrap)
}

fn give_room(corked: &Corked<Socket>, room: usize) {
    corked.0.lock().socket.room = room;
}

fn taken(corked: &Corked<Socket>) -> Vec<u8> {
    corked.0.lock().socket.taken.clone()
}

fn calls(corked: &Corked<Socket>) -> Vec<usize> {
    corked.0.lock().socket.calls.clone()
}

#[test]
fn what_is_written_goes_out_in_one_call_when_it_is_drained() {
    let mut corked = corked(usize::MAX, usize::MAX);
    for part in [&b"one "[..], b"two ", b"three"] {
        assert_eq!(write(&mut corked, part), Poll::Ready(part.len()));
    }
    let flushed = Pin::new(&mut corked).poll_flush(&mut context());
    assert!(flushed.is_ready());
    assert!(calls(&corked).is_empty());
    assert_eq!(drain(&corked), Poll::Ready(()));
    assert_eq!(calls(&corked), [13]);
    assert_eq!(taken(&corked), b"one two three");
    assert_eq!(corked.0.lock().buffer.capacity(), 0);
}

#[test]
fn slices_are_written_one_after_the_other() {
    let mut corked = corked(usize::MAX, usize::MAX);
    let slices = [
        IoSlice::new(b"head"),
        IoSlice::new(b""),
        IoSlice::new(b"body"),
    ];
    let written = Pin::new(&mut corked).poll_write_vectored(&mut context(), &slices);
    assert_eq!(written.map(Result::unwrap), Poll::Ready(8));
    assert_eq!(drain(&corked), Poll::Ready(()));
    assert_eq!(taken(&corked), b"headbody");
}

#[test]
fn a_socket_that_takes_byte_by_byte_gets_everything_in_order() {
    let mut corked = corked(usize::MAX, 1);
    let mut expected = Vec::new();
    for number in 0..200_u8 {
        let part = [number; 100];
        assert_eq!(write(&mut corked, &part), Poll::Ready(part.len()));
        expected.extend_from_slice(&part);
        if number % 7 == 0 {
            assert_eq!(drain(&corked), Poll::Ready(()));
        }
    }
    assert_eq!(drain(&corked), Poll::Ready(()));
    assert_eq!(taken(&corked), expected);
}

#[test]
fn at_the_limit_writing_waits_for_the_socket() {
    let mut corked = corked(0, usize::MAX);
    let mut expected = Vec::new();
    let part = [7; 1000];
    while let Poll::Ready(len) = write(&mut corked, &part) {
        expected.extend_from_slice(&part[..len]);
    }
    assert_eq!(expected.len(), BUFFER_MAX);
    assert_eq!(drain(&corked), Poll::Pending);
    give_room(&corked, 10);
    assert_eq!(drain(&corked), Poll::Pending);
    assert_eq!(write(&mut corked, &[8; 1000]), Poll::Ready(10));
    expected.extend_from_slice(&[8; 10]);
    give_room(&corked, usize::MAX);
    assert_eq!(drain(&corked), Poll::Ready(()));
    assert_eq!(taken(&corked), expected);
}

#[test]
fn large_writes_are_not_copied_and_overtake_nothing() {
    let large = vec![2; THROUGH_MIN];
    let mut open = corked(usize::MAX, usize::MAX);
    assert_eq!(write(&mut open, &[1; 10]), Poll::Ready(10));
    assert_eq!(write(&mut open, &large), Poll::Ready(THROUGH_MIN));
    assert_eq!(calls(&open), [10, THROUGH_MIN]);

    let mut full = corked(4, usize::MAX);
    assert_eq!(write(&mut full, &[1; 10]), Poll::Ready(10));
    assert_eq!(write(&mut full, &large), Poll::Ready(THROUGH_MIN));
    assert_eq!(calls(&full), [4]);
    give_room(&full, usize::MAX);
    assert_eq!(drain(&full), Poll::Ready(()));
    assert_eq!(taken(&full), [vec![1; 10], large].concat());
}

#[test]
fn closing_writes_what_is_left_first() {
    let mut corked = corked(2, usize::MAX);
    assert_eq!(write(&mut corked, b"bye"), Poll::Ready(3));
    let closed = Pin::new(&mut corked).poll_shutdown(&mut context());
    assert!(closed.is_pending() && !corked.0.lock().socket.closed);
    give_room(&corked, 1);
    let closed = Pin::new(&mut corked).poll_shutdown(&mut context());
    assert!(closed.is_ready() && corked.0.lock().socket.closed);
    assert_eq!(taken(&corked), b"bye");
}

#[test]
fn a_socket_is_blocked_since_it_took_something_last() {
    let mut corked = corked(0, usize::MAX);
    assert_eq!(write(&mut corked, b"hello"), Poll::Ready(5));
    assert_eq!(corked.blocked_since(), None);
    assert_eq!(drain(&corked), Poll::Pending);
    let first = corked.blocked_since().unwrap();
    while Instant::now() <= first {}
    assert_eq!(drain(&corked), Poll::Pending);
    assert_eq!(corked.blocked_since(), Some(first));
    give_room(&corked, 1);
    assert_eq!(drain(&corked), Poll::Pending);
    assert!(corked.blocked_since().unwrap() > first);
    give_room(&corked, 10);
    assert_eq!(drain(&corked), Poll::Ready(()));
    assert_eq!(corked.blocked_since(), None);
}
