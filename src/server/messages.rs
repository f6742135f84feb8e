//! How many messages go by in the bytes of a gRPC body.
//!
//! Pure. Nothing is decoded and nothing is kept: a message is counted when the last byte of its prefix has gone by.

/// Length of what gRPC puts before each message: a flag, and the message's length in four bytes.
const PREFIX_LEN: usize = 5;

/// Counts the messages of one body, however its bytes are cut.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageCounter {
    /// Bytes of the present prefix that have gone by.
    prefix_len: usize,
    /// Length of the message that the prefix announces, as far as it is known.
    announced: u32,
    /// Bytes of the present message that are still to come.
    remaining: u64,
}

// === impl MessageCounter ===

impl MessageCounter {
    /// Looks at the next bytes of the body; returns how many messages begin in them.
    ///
    /// Cost: a few steps for each message, whatever its length.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> u64 {
        let mut begun = 0;
        while !bytes.is_empty() {
            if self.remaining > 0 {
                let skipped = usize::try_from(self.remaining)
                    .map_or(bytes.len(), |remaining| remaining.min(bytes.len()));
                self.remaining -= skipped as u64;
                bytes = &bytes[skipped..];
                continue;
            }
            let (byte, rest) = (bytes[0], &bytes[1..]);
            bytes = rest;
            if self.prefix_len > 0 {
                self.announced = (self.announced << 8) | u32::from(byte);
            }
            self.prefix_len += 1;
            if self.prefix_len == PREFIX_LEN {
                begun += 1;
                self.remaining = u64::from(self.announced);
                self.prefix_len = 0;
                self.announced = 0;
            }
        }
        begun
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A body with messages of these lengths.
    fn body(lens: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for len in lens {
            bytes.push(0);
            bytes.extend(len.to_be_bytes());
            bytes.extend(std::iter::repeat_n(0xff, *len as usize));
        }
        bytes
    }

    #[test]
    fn empty_messages_count_too() {
        assert_eq!(MessageCounter::default().count(&body(&[0, 0, 3])), 3);
        assert_eq!(MessageCounter::default().count(&[]), 0);
    }

    #[test]
    fn a_message_counts_when_its_prefix_is_complete() {
        let mut counter = MessageCounter::default();
        assert_eq!(counter.count(&[0, 0, 0, 0]), 0);
        assert_eq!(counter.count(&[2]), 1);
        assert_eq!(counter.count(&[7, 7]), 0);
        assert_eq!(counter.count(&[0, 0, 0, 0, 0]), 1);
    }

    proptest! {
        #[test]
        fn bytes_may_be_cut_anywhere(
            lens in proptest::collection::vec(0_u32..700, 0..20),
            sizes in proptest::collection::vec(1_usize..400, 1..20),
        ) {
            let body = body(&lens);
            let (mut rest, mut sizes) = (body.as_slice(), sizes.iter().cycle());
            let (mut counter, mut counted) = (MessageCounter::default(), 0);
            while !rest.is_empty() {
                let (chunk, after) = rest.split_at((*sizes.next().expect("a cycle")).min(rest.len()));
                counted += counter.count(chunk);
                rest = after;
            }
            prop_assert_eq!(counted, lens.len() as u64);
        }
    }
}
