//! Lines out of a byte stream, with a limit on their length: memory stays bounded whatever comes.

/// A line is longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Cuts a byte stream into lines.
#[derive(Debug)]
pub(crate) struct Frames {
    limit: usize,
    pending: Vec<u8>,
    /// Bytes of `pending` that are known to hold no newline.
    searched: usize,
}

impl Frames {
    /// Lines of at most `limit` bytes, the newline included.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            pending: Vec::new(),
            searched: 0,
        }
    }

    /// Takes bytes as they come.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole line, without its newline. Call until it gives `None` before pushing more:
    /// that is what bounds the memory.
    pub(crate) fn next_line(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let unsearched = self.pending.get(self.searched..).unwrap_or_default();
        match unsearched.iter().position(|&byte| byte == b'\n') {
            Some(offset) => {
                let end = self.searched + offset;
                let mut line = self.pending.split_off(end + 1);
                std::mem::swap(&mut line, &mut self.pending);
                self.searched = 0;
                if line.len() > self.limit {
                    return Err(TooLong);
                }
                line.truncate(end);
                Ok(Some(line))
            }
            None if self.pending.len() >= self.limit => Err(TooLong),
            None => {
                self.searched = self.pending.len();
                Ok(None)
            }
        }
    }

    /// Bytes that came after the last whole line.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.pending
    }

    /// Forgets what is pending and gives its memory back.
    pub(crate) fn clear(&mut self) {
        self.pending = Vec::new();
        self.searched = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_may_be_as_long_as_the_limit() {
        let mut frames = Frames::new(4);
        frames.push(b"abc\nd");
        assert_eq!(frames.next_line(), Ok(Some(b"abc".to_vec())));
        assert_eq!(frames.rest(), b"d");
        frames.push(b"ef");
        assert_eq!(frames.next_line(), Ok(None));
        frames.push(b"g");
        assert_eq!(frames.next_line(), Err(TooLong));
        frames.clear();
        frames.push(b"abcd\n");
        assert_eq!(frames.next_line(), Err(TooLong));
    }

    proptest! {
        /// However the stream is cut, the lines are those that `split` gives.
        #[test]
        fn cuts_do_not_matter(stream in "[a-c\n]{0,200}", cuts in prop::collection::vec(1_usize..20, 1..50)) {
            let mut frames = Frames::new(1000);
            let mut lines = Vec::new();
            let mut rest = stream.as_bytes();
            for cut in cuts.iter().cycle() {
                let (chunk, after) = rest.split_at((*cut).min(rest.len()));
                frames.push(chunk);
                while let Some(line) = frames.next_line().unwrap() {
                    lines.push(line);
                }
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            let mut expected: Vec<Vec<u8>> =
                stream.as_bytes().split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
            let last = expected.pop().unwrap_or_default();
            prop_assert_eq!(lines, expected);
            prop_assert_eq!(frames.rest(), last);
        }

        /// Nothing is kept beyond the limit and one chunk.
        #[test]
        fn memory_is_bounded(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..40)) {
            let mut frames = Frames::new(64);
            for chunk in chunks {
                frames.push(&chunk);
                prop_assert!(frames.rest().len() < 64 + 40);
                loop {
                    match frames.next_line() {
                        Ok(Some(line)) => prop_assert!(line.len() < 64),
                        Ok(None) => break,
                        Err(TooLong) => return Ok(()),
                    }
                }
            }
        }
    }
}
