//! Owns the priority of a stream, RFC 9218 §4.

/// The urgency of a stream without a signal, RFC 9218 §4.1.
const DEFAULT_URGENCY: u8 = 3;

/// The order in which the DATA of streams goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPriority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// True if a part of the answer is of use, so that streams of the same urgency share the connection; or else one goes after the other.
    pub incremental: bool,
}

impl StreamPriority {
    /// The priority of a stream whose client sends no signal. Such clients, as those of gRPC, expect that streams share the connection,
    /// as they did by RFC 7540; so it differs from what an empty signal says.
    pub const UNSIGNALED: Self = Self {
        urgency: DEFAULT_URGENCY,
        incremental: true,
    };
    /// The priority that an empty signal says, RFC 9218 §4.1, §4.2.
    pub const SIGNALED: Self = Self {
        urgency: DEFAULT_URGENCY,
        incremental: false,
    };

    /// Returns the priority with the parameters that a signal has. Others stay: unknown parameters and values are ignored, RFC 9218 §4.
    #[must_use]
    pub fn updated(mut self, signal: &[u8]) -> Self {
        for member in signal.split(|byte| *byte == b',') {
            // RFC 9651 §3.2: members of a dictionary may have parameters behind a semicolon.
            let member = member
                .split(|byte| *byte == b';')
                .next()
                .unwrap_or_default();
            match member.trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => self.urgency = digit - b'0',
                b"i" | b"i=?1" => self.incremental = true,
                b"i=?0" => self.incremental = false,
                _ => {}
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: signals are read as RFC 9218 writes them, and others change nothing. Method: one of each form.
    #[test]
    fn signals_are_read() {
        for (signal, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=5, i", 5, true),
            ("i=?1,u=7;x=1", 7, true),
            ("i, i=?0", 3, false),
            ("u=8, i=1", 3, false),
            ("u=1.5, U=1, ui", 3, false),
            ("foo, u=2", 2, false),
        ] {
            let found = StreamPriority::SIGNALED.updated(signal.as_bytes());
            let expected = StreamPriority {
                urgency,
                incremental,
            };
            assert_eq!(found, expected, "{signal}");
        }
    }
}
