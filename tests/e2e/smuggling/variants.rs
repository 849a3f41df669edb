//! The corpus: what smugglers send, generated from the spellings of each part.

/// Bytes to send, in pieces that are written one after the other.
#[derive(Clone, Debug)]
pub struct Variant {
    pub name: String,
    pub pieces: Vec<Vec<u8>>,
}

impl Variant {
    fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            pieces: vec![bytes.into()],
        }
    }

    /// All bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.pieces.concat()
    }
}

/// Ways to write a length of five.
const LENGTHS: [&str; 29] = [
    "Content-Length: 5\r\n",
    "content-length:5\r\n",
    "Content-Length: 05\r\n",
    "Content-Length: \t5 \r\n",
    "Content-Length : 5\r\n",
    "Content-Length\t: 5\r\n",
    " Content-Length: 5\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: -5\r\n",
    "Content-Length: 0x5\r\n",
    "Content-Length: 5.0\r\n",
    "Content-Length: 5e0\r\n",
    "Content-Length: 5, 5\r\n",
    "Content-Length: 5, 6\r\n",
    "Content-Length: 5;a\r\n",
    "Content-Length: \"5\"\r\n",
    "Content-Length: 5 6\r\n",
    "Content-Length:\r\n",
    "Content-Length: \x0b5\r\n",
    "Content-Length: 5\0\r\n",
    "Content-Length: 18446744073709551621\r\n",
    "Content-Length: 5\r\nContent-Length: 5\r\n",
    "Content-Length: 5\r\nContent-Length: 0\r\n",
    "Content-Length:\r\nContent-Length: 5\r\n",
    "Content-Length: 5\r\nContent-Length:\r\n",
    "Content-Length: 5\n",
    "Content_Length: 5\r\n",
    "Content--Length: 5\r\n",
    "X-A: b\rContent-Length: 5\r\n",
];

/// Ways to write that a body is in chunks.
const CODINGS: [&str; 29] = [
    "Transfer-Encoding: chunked\r\n",
    "transfer-encoding:CHUNKED\r\n",
    "Transfer-Encoding: \tchunked\t\r\n",
    "Transfer-Encoding : chunked\r\n",
    "Transfer-Encoding\t: chunked\r\n",
    " Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: xchunked\r\n",
    "Transfer-Encoding: chunkedx\r\n",
    "Transfer-Encoding: chunked\x0b\r\n",
    "Transfer-Encoding: \x0bchunked\r\n",
    "Transfer-Encoding: chunked\0\r\n",
    "Transfer-Encoding: \"chunked\"\r\n",
    "Transfer-Encoding: 'chunked'\r\n",
    "Transfer-Encoding: chunked;q=1\r\n",
    "Transfer-Encoding: chunked, chunked\r\n",
    "Transfer-Encoding: chunked, identity\r\n",
    "Transfer-Encoding: identity, chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Transfer-Encoding: ,chunked\r\n",
    "Transfer-Encoding: identity\r\n",
    "Transfer-Encoding:\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "Transfer-Encoding:\r\n chunked\r\n",
    "Transfer-Encoding: chunked\n",
    "Transfer_Encoding: chunked\r\n",
    "Transfer---Encoding: chunked\r\n",
    "X-A: b\rTransfer-Encoding: chunked\r\n",
    "Transfer\u{2010}Encoding: chunked\r\n",
];

/// Chunked bodies that are whole for somebody; the last chunk follows.
const CHUNKS: [&str; 34] = [
    "5\r\nhello\r\n",
    "A\r\n0123456789\r\n",
    "005\r\nhello\r\n",
    "5;a=b\r\nhello\r\n",
    "5 \r\nhello\r\n",
    " 5\r\nhello\r\n",
    "5\t\r\nhello\r\n",
    "0x5\r\nhello\r\n",
    "+5\r\nhello\r\n",
    "-5\r\nhello\r\n",
    "5g\r\nhello\r\n",
    "5_\r\nhello\r\n",
    "5,5\r\nhello\r\n",
    "10000000000000005\r\nhello\r\n",
    "ffffffffffffffff\r\nhello\r\n",
    "5\nhello\r\n",
    "5\r\nhello\n",
    "5\r\nhello",
    "5\r\nhello\r",
    "5\r\nhello!!",
    "5\r\nhell\r\n",
    "5\r\nhello!\r\n",
    "5\r\r\nhello\r\n",
    "5;a\nhello\r\n",
    "5;\nxx\r\n5c\r\n",
    "5;a=\"\r\nhello\r\n",
    "5;a=\"b\r\nhello\r\n0\r\n\r\n\"\r\nhello\r\n",
    "5;a=\"\\\"\r\nhello\r\n",
    "100000005\r\nhello\r\n",
    "5;a\rb\r\nhello\r\n",
    "5;a\0\r\nhello\r\n",
    "\r\n",
    ";a\r\nhello\r\n",
    "\r\n5\r\nhello\r\n",
];

/// Ends of a chunked body.
const ENDS: [&str; 16] = [
    "0\r\n\r\n",
    "000\r\n\r\n",
    "0;a=b\r\n\r\n",
    "0\r\nX-Trailer: a\r\n\r\n",
    "0\r\nContent-Length: 50\r\n\r\n",
    "0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "0\r\nHost: b\r\n\r\n",
    "0\r\nX-A: b\r\n c\r\n\r\n",
    "0\r\nX-A : b\r\n\r\n",
    "0\r\nX-A: b\n\r\n",
    "0\r\nX-A: b\rX-B: c\r\n\r\n",
    "0\n\n",
    "0\r\n\n",
    "0\r\n\r",
    "0 \r\n\r\n",
    "00000000000000000\r\n\r\n",
];

/// Heads, in full, `{v}` for what makes the target unique.
const HEADS: [&str; 54] = [
    "GET {v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET {v} HTTP/1.0\r\n\r\n",
    "GET http://a{v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://A:80{v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://a:81{v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://a{v} HTTP/1.0\r\n\r\n",
    "\r\n\r\nGET {v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nGET http://a{v} HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "GET http://b{v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://u@a{v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://a{v} HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: a, b\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: u@a\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost : a\r\n\r\n",
    "GET {v} HTTP/1.1\r\n\r\n",
    "GET {v} HTTP/1.1\r\nX: y\r\n\r\n",
    "GET {v} HTTP/1.2\r\nHost: a\r\n\r\n",
    "GET {v} HTTP/2.0\r\nHost: a\r\n\r\n",
    "GET {v} HTTP/0.9\r\nHost: a\r\n\r\n",
    "GET {v} http/1.1\r\nHost: a\r\n\r\n",
    "GET {v} HTTP/1.1 \r\nHost: a\r\n\r\n",
    "GET {v} HTTP/01.1\r\nHost: a\r\n\r\n",
    "GET {v} HTTP/1.10\r\nHost: a\r\n\r\n",
    "GET {v}\r\nHost: a\r\n\r\n",
    "GET  {v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET {v}  HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET\t{v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET {v}\tx HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET {v} x HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET {v}#x HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET {v}\0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET {v}\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
    "CONNECT {v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "G(T {v} HTTP/1.1\r\nHost: a\r\n\r\n",
    " GET {v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "\r\nGET {v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "\nGET {v} HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET {v} HTTP/1.1\nHost: a\n\n",
    "GET {v} HTTP/1.1\r\nHost: a\r\r\r",
    "GET {v} HTTP/1.1\r\nHost: a\r\n\r\r\n",
    "GET {v} HTTP/1.1\rHost: a\r\r",
    "OPTIONS {v} HTTP/1.1\r\nHost: a\r\nExpect:\r\n 100-continue\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: a\r\nExpect: y 100-continue\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: a\r\nX: b\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: a\r\nX: b\r\n\tc\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: a\r\nX: b\0c\r\n\r\n",
    "GET {v} HTTP/1.1\r\nHost: a\r\nConnection: host, content-length, x\r\nX: y\r\n\r\n",
];

/// The request that hides behind each: its target tells whose it is.
fn hidden(number: usize) -> String {
    format!("GET /hidden{number} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// All of them.
pub fn all() -> Vec<Variant> {
    let mut all = Vec::new();
    framings(&mut all);
    bodies(&mut all);
    heads(&mut all);
    all
}

/// Each length with each coding, in both orders, and each alone, before a body that is whole in either reading.
fn framings(into: &mut Vec<Variant>) {
    let mut fields: Vec<String> = Vec::new();
    for length in LENGTHS {
        for coding in CODINGS {
            fields.push(format!("{length}{coding}"));
            fields.push(format!("{coding}{length}"));
        }
    }
    fields.extend(
        LENGTHS
            .iter()
            .chain(&CODINGS)
            .map(|&field| field.to_owned()),
    );
    for fields in fields {
        let number = into.len();
        let bytes = format!(
            "POST /v{number} HTTP/1.1\r\nHost: a\r\n{fields}\r\n0\r\n\r\n{}",
            hidden(number)
        );
        into.push(Variant::new(format!("{fields:?}"), bytes));
    }
}

/// Each chunk with the plainest end, and each end behind the plainest chunk, at once and behind the head that they belong to.
fn bodies(into: &mut Vec<Variant>) {
    let chunks = CHUNKS.iter().map(|chunk| format!("{chunk}{}", ENDS[0]));
    let ends = ENDS.iter().map(|end| format!("{}{end}", CHUNKS[0]));
    let bodies: Vec<String> = chunks.chain(ends).collect();
    for body in bodies {
        for apart in [false, true] {
            let number = into.len();
            let head = format!(
                "POST /v{number} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
            );
            let rest = format!("{body}{}", hidden(number));
            let mut variant = Variant::new(format!("{body:?}"), head);
            if apart {
                variant.pieces.push(rest.into_bytes());
            } else {
                variant.pieces[0].extend_from_slice(rest.as_bytes());
            }
            into.push(variant);
        }
    }
}

fn heads(into: &mut Vec<Variant>) {
    for head in HEADS {
        let number = into.len();
        let bytes = head.replace("{v}", &format!("/v{number}")) + &hidden(number);
        into.push(Variant::new(format!("{head:?}"), bytes));
    }
}
