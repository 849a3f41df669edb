//! The formats that can be imported, and how each is recognized.

/// The proxy that a configuration is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// nginx, also a part of a configuration without `http { }`.
    Nginx,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 1] = [Self::Nginx];

    /// Returns the name that the command line has for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
        }
    }

    /// Returns the format of a text by its first lines; `None` where they are of no format.
    #[must_use]
    pub fn detect(text: &str) -> Option<Self> {
        text.contains([';', '{']).then_some(Self::Nginx)
    }
}
