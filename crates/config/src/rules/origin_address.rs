//! Names where a server of an origin listens: at an IP address and a port, or at a Unix socket.

use std::error::Error;
use std::fmt;
use std::net::{AddrParseError, SocketAddr};
use std::os::unix::net::SocketAddr as UnixAddress;
use std::str::FromStr;
use std::sync::Arc;

/// The beginning of the text of a Unix socket.
const UNIX: &str = "unix:";

/// Where a server listens. Its text is `10.0.0.7:3000`, `[::1]:3000` or `unix:/run/app.sock`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OriginAddress {
    /// At an IP address and a port.
    Tcp(SocketAddr),
    /// At a Unix socket.
    Unix(SocketPath),
}

/// The path of a Unix socket that the operating system accepts: absolute, and without control characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketPath(Arc<str>);

/// A mistake in the path of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketPathError {
    /// It does not begin with `/`.
    Relative,
    /// It ends with `/`, as a folder does.
    Folder,
    /// It has control characters.
    ControlCharacter,
    /// The operating system takes no path of this length, 107 bytes on Linux.
    TooLong,
}

impl OriginAddress {
    /// Returns the path behind `unix:`; `None` where the text names no Unix socket.
    #[must_use]
    pub fn unix_path(text: &str) -> Option<&str> {
        text.strip_prefix(UNIX)
    }

    /// Returns the IP address and the port; `None` for a Unix socket.
    #[must_use]
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Returns the host by which a server is addressed where nothing else names one: its IP address, or `localhost`.
    #[must_use]
    pub fn host(&self) -> String {
        match self {
            Self::Tcp(address) => address.ip().to_string(),
            Self::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl SocketPath {
    /// Parses a path.
    ///
    /// # Errors
    /// No server can listen there.
    pub fn parse(path: &str) -> Result<Self, SocketPathError> {
        if !path.starts_with('/') {
            return Err(SocketPathError::Relative);
        }
        if path.ends_with('/') {
            return Err(SocketPathError::Folder);
        }
        if path.chars().any(char::is_control) {
            return Err(SocketPathError::ControlCharacter);
        }
        UnixAddress::from_pathname(path).map_err(|_| SocketPathError::TooLong)?;
        Ok(Self(Arc::from(path)))
    }

    /// Returns the path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SocketAddr> for OriginAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Tcp(address)
    }
}

impl FromStr for OriginAddress {
    type Err = OriginAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match Self::unix_path(text) {
            Some(path) => Self::Unix(SocketPath::parse(path)?),
            None => Self::Tcp(text.parse()?),
        })
    }
}

impl fmt::Display for OriginAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.as_str()),
        }
    }
}

/// A text that is no address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginAddressError {
    /// It is no IP address with a port.
    Tcp(AddrParseError),
    /// The path behind `unix:` is none of a socket.
    Unix(SocketPathError),
}

impl From<AddrParseError> for OriginAddressError {
    fn from(error: AddrParseError) -> Self {
        Self::Tcp(error)
    }
}

impl From<SocketPathError> for OriginAddressError {
    fn from(error: SocketPathError) -> Self {
        Self::Unix(error)
    }
}

impl fmt::Display for OriginAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(error) => error.fmt(f),
            Self::Unix(error) => error.fmt(f),
        }
    }
}

impl Error for OriginAddressError {}

impl fmt::Display for SocketPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relative => "the path of a socket is relative",
            Self::Folder => "the path of a socket ends with a slash",
            Self::ControlCharacter => "the path of a socket has a control character",
            Self::TooLong => "the path of a socket is longer than the operating system takes",
        })
    }
}

impl Error for SocketPathError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an address is read from the text that it is written as, and nothing else is one. Method: addresses of each kind, and slips.
    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["10.0.0.7:3000", "[::1]:80", "unix:/run/app.sock"] {
            let address: OriginAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
            assert_eq!(address.tcp().is_none(), text.starts_with("unix:"));
        }
        let long = format!("unix:/{}", "a".repeat(107));
        for (text, error) in [
            ("unix:run/app.sock", SocketPathError::Relative),
            ("unix:", SocketPathError::Relative),
            ("unix:@app", SocketPathError::Relative),
            ("unix:/", SocketPathError::Folder),
            ("unix:/run/app/", SocketPathError::Folder),
            ("unix:/run/\0", SocketPathError::ControlCharacter),
            ("unix:/run/\n", SocketPathError::ControlCharacter),
            (long.as_str(), SocketPathError::TooLong),
        ] {
            let parsed = text.parse::<OriginAddress>();
            assert_eq!(parsed, Err(OriginAddressError::Unix(error)), "{text}");
        }
        for text in ["/run/app.sock", "app.test:80", "10.0.0.7", ""] {
            assert!(text.parse::<OriginAddress>().is_err(), "{text}");
        }
    }
}
