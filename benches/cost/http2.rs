//! As much of HTTP/2 as it takes to open streams, to answer them with ready bytes, and to read what comes.

/// What every HTTP/2 client begins with.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes before the payload of a frame.
pub const HEAD_LEN: usize = 9;
/// Largest payload of a frame, unless a peer says that it takes more.
pub const PAYLOAD_MAX: usize = 16_384;
/// What a window is before anybody says otherwise.
pub const WINDOW_DEFAULT: u32 = 65_535;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;

pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const MAX_CONCURRENT_STREAMS: u16 = 3;
pub const INITIAL_WINDOW_SIZE: u16 = 4;

/// What stands before the payload of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    pub len: usize,
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
}

/// Cuts bytes into frames, wherever reads have cut them.
#[derive(Debug, Default)]
pub struct Reader {
    /// Of a head, or of the payload of a frame that is wanted whole.
    partial: Vec<u8>,
    head: Option<Head>,
    /// Payload that is still to come.
    left: usize,
}

/// What a reader has found.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Some of the payload of a DATA frame.
    Data(u32, &'a [u8]),
    /// A DATA frame has been read to its end.
    DataEnd(Head),
    /// Any other frame, whole.
    Frame(Head, &'a [u8]),
}

// === impl Head ===

impl Head {
    fn parse(bytes: &[u8]) -> Self {
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0_u32, |all, byte| all << 8 | u32::from(*byte))
        };
        Self {
            len: number(&bytes[..3]) as usize,
            kind: bytes[3],
            flags: bytes[4],
            stream: number(&bytes[5..9]) & 0x7fff_ffff,
        }
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

// === impl Reader ===

impl Reader {
    /// Reads all of `bytes` and hands over each piece.
    pub fn read(&mut self, mut bytes: &[u8], mut found: impl FnMut(Piece<'_>)) {
        loop {
            let Some(head) = self.head else {
                let missing = HEAD_LEN - self.partial.len();
                let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
                self.partial.extend_from_slice(taken);
                bytes = rest;
                if self.partial.len() < HEAD_LEN {
                    return;
                }
                let head = Head::parse(&self.partial);
                self.partial.clear();
                self.left = head.len;
                self.head = Some(head);
                continue;
            };
            let (taken, rest) = bytes.split_at(self.left.min(bytes.len()));
            bytes = rest;
            self.left -= taken.len();
            if head.kind == DATA {
                if !taken.is_empty() {
                    found(Piece::Data(head.stream, taken));
                }
                if self.left == 0 {
                    self.head = None;
                    found(Piece::DataEnd(head));
                }
            } else if self.left == 0 && self.partial.is_empty() {
                self.head = None;
                found(Piece::Frame(head, taken));
            } else {
                self.partial.extend_from_slice(taken);
                if self.left == 0 {
                    self.head = None;
                    found(Piece::Frame(head, &self.partial));
                    self.partial.clear();
                }
            }
            if self.head.is_some() && self.left > 0 {
                return;
            }
        }
    }
}

/// Appends a frame.
pub fn put_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let len = u32::try_from(payload.len()).expect("frames are small");
    out.extend_from_slice(&len.to_be_bytes()[1..]);
    out.push(kind);
    out.push(flags);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Appends SETTINGS with one setting.
pub fn put_setting(out: &mut Vec<u8>, setting: u16, value: u32) {
    let mut payload = setting.to_be_bytes().to_vec();
    payload.extend_from_slice(&value.to_be_bytes());
    put_frame(out, SETTINGS, 0, 0, &payload);
}

/// Appends permission to send more.
pub fn put_window(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    put_frame(out, WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
}

/// The settings in a frame.
pub fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> + '_ {
    payload.chunks_exact(6).map(|chunk| {
        (
            u16::from_be_bytes([chunk[0], chunk[1]]),
            u32::from_be_bytes([chunk[2], chunk[3], chunk[4], chunk[5]]),
        )
    })
}

/// The number in a `WINDOW_UPDATE` frame.
pub fn increment(payload: &[u8]) -> i64 {
    payload
        .first_chunk()
        .map_or(0, |bytes| i64::from(u32::from_be_bytes(*bytes)))
}

/// The header block of a gRPC request: nothing is kept in the table of either side.
pub fn request_headers(path: &str) -> Vec<u8> {
    // `:method POST`, `:scheme http`, then names from the static table (RFC 7541, appendix A).
    let mut block = vec![0x83, 0x86];
    put_text(&mut block, &[0x04], path);
    put_text(&mut block, &[0x01], "tributary");
    put_text(&mut block, &[0x0f, 0x10], "application/grpc");
    put_text(&mut block, b"\x00\x02te", "trailers");
    block
}

/// The header block of a gRPC response that goes well.
pub fn response_headers() -> Vec<u8> {
    let mut block = vec![0x88];
    put_text(&mut block, &[0x0f, 0x10], "application/grpc");
    block
}

fn put_text(block: &mut Vec<u8>, name: &[u8], value: &str) {
    let len = u8::try_from(value.len()).ok().filter(|len| *len < 127);
    block.extend_from_slice(name);
    block.push(len.expect("header values are short"));
    block.extend_from_slice(value.as_bytes());
}
