//! Owns the typed rules of which answers are compressed.

/// `compress`: which answers, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressRules {
    /// The codings, the one that is preferred first; with none nothing is compressed.
    pub encodings: Vec<Coding>,
    /// How hard they try; `None`: each as hard as is usual for it.
    pub level: Option<Effort>,
    /// Shorter answers go as they are, if they tell their length; default 1 KiB.
    pub min_bytes: u64,
    /// `text/html`, or `text/*`; in lower case.
    pub types: Vec<Box<str>>,
}

/// A content coding, RFC 9110 §8.4.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 8878
    Zstd,
    /// RFC 7932
    Brotli,
    /// RFC 1952
    Gzip,
}

impl Coding {
    /// All of them, in the usual order of preference.
    pub const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// As in `Content-Encoding`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }
}

/// How hard a coding tries, from 1 to 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort(pub u8);
