//! A parser of requests that refuses whatever another parser could read in another way.
//!
//! It is the yardstick for both ends: what it makes of a client's bytes is all that an origin may be sent, and what an origin is sent
//! must please it. It is written from RFC 9112 and shares nothing with the gateway's own.

/// One request, whose end is beyond doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clear {
    pub method: String,
    pub target: String,
    pub body: Vec<u8>,
}

/// What stands at the beginning of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A request, and how many bytes it took.
    Request(Clear, usize),
    /// Not all of a request.
    Partial,
    /// Something to argue about.
    Unclear(&'static str),
}

/// Every request at the start of `bytes`, and what is left behind them.
///
/// RFC 9112 §2.2: a server ignores one empty line before a request. No origin is sent one, so [`request`] does not.
pub fn requests(mut bytes: &[u8]) -> (Vec<Clear>, Reading) {
    let mut clear = Vec::new();
    loop {
        bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
        match request(bytes) {
            Reading::Request(next, used) => {
                clear.push(next);
                bytes = &bytes[used..];
            }
            rest => return (clear, rest),
        }
    }
}

/// The request at the start of `bytes`.
pub fn request(bytes: &[u8]) -> Reading {
    read(bytes).unwrap_or_else(|reading| reading)
}

fn unclear<T>(why: &'static str) -> Result<T, Reading> {
    Err(Reading::Unclear(why))
}

fn read(bytes: &[u8]) -> Result<Reading, Reading> {
    let mut rest = bytes;
    let first = line(&mut rest)?;
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words[..] else {
        return unclear("a request line has three words");
    };
    if !is_token(method) || method == "CONNECT" {
        return unclear("a method is a token");
    }
    let path = target.split('?').next().unwrap_or_default();
    if target.is_empty() || target.contains(['#', '\t']) || path.contains(['"', '<', '>']) {
        return unclear("a target has no fragment and nothing that a URI may not hold");
    }
    let minor = match version {
        "HTTP/1.1" => 1,
        "HTTP/1.0" => 0,
        _ => return unclear("a version is 1.0 or 1.1"),
    };
    let (mut hosts, mut lengths, mut codings) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let field = line(&mut rest)?;
        if field.is_empty() {
            break;
        }
        let Some((name, value)) = field.split_once(':') else {
            return unclear("a field has a colon");
        };
        if !is_token(name) {
            return unclear("a name is a token");
        }
        let value = value.trim_matches([' ', '\t']);
        let lower = name.to_ascii_lowercase();
        match &*lower {
            "host" => hosts.push(value.to_owned()),
            "content-length" => lengths.push(value.to_owned()),
            "transfer-encoding" => codings.push(value.to_ascii_lowercase()),
            _ => {
                let letters = lower.replace(|letter: char| !letter.is_ascii_alphanumeric(), "");
                if matches!(&*letters, "contentlength" | "transferencoding") {
                    return unclear("a name is no other's for its marks");
                }
            }
        }
    }
    if hosts.len() > 1 || (minor == 1 && hosts.is_empty()) {
        return unclear("a request has one host");
    }
    if let Some(absolute) = target.strip_prefix("http://") {
        let named = absolute.split(['/', '?']).next().unwrap();
        let place = |authority: &str| {
            let authority = authority.to_ascii_lowercase();
            authority
                .strip_suffix(":80")
                .unwrap_or(&authority)
                .to_owned()
        };
        let is_other = |host: &String| place(host) != place(named);
        if named.contains('@') || hosts.first().is_some_and(is_other) {
            return unclear("a target names the same host");
        }
    }
    if hosts.iter().any(|host| host.contains('@')) {
        return unclear("a host has no user");
    }
    let body = match (&lengths[..], &codings[..]) {
        ([], []) => Vec::new(),
        ([length], []) => {
            if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
                return unclear("a length has digits only");
            }
            let Ok(length) = length.parse::<usize>() else {
                return unclear("a length fits");
            };
            take(&mut rest, length)?.to_vec()
        }
        ([], [coding]) if coding == "chunked" && minor == 1 => chunks(&mut rest)?,
        _ => return unclear("a body is framed once"),
    };
    let clear = Clear {
        method: method.to_owned(),
        target: target.to_owned(),
        body,
    };
    Ok(Reading::Request(clear, bytes.len() - rest.len()))
}

fn chunks(rest: &mut &[u8]) -> Result<Vec<u8>, Reading> {
    let mut body = Vec::new();
    loop {
        let head = line(rest)?;
        // An extension is somebody's business, as long as it is within its line.
        let size = head.split(';').next().unwrap_or_default();
        if size.is_empty() || size.len() > 15 || !size.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return unclear("a size has hexadecimal digits only");
        }
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            break;
        }
        body.extend_from_slice(take(rest, size)?);
        let end = rest.get(..2.min(rest.len())).unwrap();
        if !b"\r\n".starts_with(end) {
            return unclear("data ends where its size says");
        }
        take(rest, 2)?;
    }
    loop {
        let field = line(rest)?;
        if field.is_empty() {
            return Ok(body);
        }
        if !field
            .split_once(':')
            .is_some_and(|(name, _)| is_token(name))
        {
            return unclear("a trailer has fields");
        }
    }
}

/// The next line, which ends in both its characters and holds no other control character.
fn line<'a>(rest: &mut &'a [u8]) -> Result<&'a str, Reading> {
    let Some(feed) = rest.iter().position(|&byte| byte == b'\n') else {
        let text = rest.strip_suffix(b"\r").unwrap_or(rest);
        let clean = text
            .iter()
            .all(|&byte| byte == b'\t' || !byte.is_ascii_control());
        return if clean {
            Err(Reading::Partial)
        } else {
            unclear("a line has no control characters")
        };
    };
    let (line, behind) = rest.split_at(feed + 1);
    *rest = behind;
    let Some(text) = line.strip_suffix(b"\r\n") else {
        return unclear("a line ends in CR and LF");
    };
    if text
        .iter()
        .any(|&byte| byte != b'\t' && byte.is_ascii_control())
    {
        return unclear("a line has no control characters");
    }
    std::str::from_utf8(text).map_err(|_| Reading::Unclear("a line is text"))
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], Reading> {
    if rest.len() < bytes {
        return Err(Reading::Partial);
    }
    let (taken, behind) = rest.split_at(bytes);
    *rest = behind;
    Ok(taken)
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
