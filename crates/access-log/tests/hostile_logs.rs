//! Logs may say anything: nothing panics, memory is bounded, and every line is counted once.

mod hostile;

use proptest::prelude::*;

/// Lines of every format, and such that are hardly any.
const LINES: [&str; 21] = [
    include_str!("../src/formats/samples/alb.log"),
    include_str!("../src/formats/samples/alb-malformed.log"),
    include_str!("../src/formats/samples/caddy.log"),
    include_str!("../src/formats/samples/cloudfront.log"),
    include_str!("../src/formats/samples/traefik.log"),
    include_str!("../src/formats/samples/fastly.log"),
    include_str!("../src/formats/samples/envoy-gateway.log"),
    include_str!("../src/formats/samples/cloudflare.log"),
    include_str!("../src/formats/samples/iis.log"),
    include_str!("../src/formats/samples/combined.log"),
    include_str!("../src/formats/samples/envoy.log"),
    include_str!("../src/formats/samples/haproxy-bad-request.log"),
    include_str!("../src/formats/samples/haproxy-http.log"),
    include_str!("../src/formats/samples/haproxy-tcp.log"),
    include_str!("../src/formats/samples/istio.log"),
    include_str!("../src/formats/samples/nginx-json.log"),
    include_str!("../src/formats/samples/nginx-variables.log"),
    include_str!("../src/formats/samples/sluicegate.log"),
    "192.0.2.1 - - [21/Nov/2026:07:10:38 +0000] \"GET / HTTP/1.1\" 200 7 \"-\" rt=1.000\n",
    "\r\n\n",
    "{\"client\":\"::1\",\"time\":\"9999-12-31T23:59:59.999999999Z\",\"method\":\"GET\",\"target\":\"/\",\"status\":200}",
];

/// The letters of formats: those of `LogFormat::NAMES` by their place, a template, and one that names none.
const FORMATS: &[u8] = b"0123456789:;<=>td";

/// Bytes that mean something in some format.
const MARKS: &[u8] = b"\"\\{}[]:,;=- \t\r\n09TZ+.%/|\x00\xff";

/// A change of a text.
#[derive(Clone, Debug)]
enum Edit {
    Replace(usize, u8),
    Insert(usize, u8),
    Remove(usize, usize),
    Repeat(usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let mark = || {
        prop_oneof![
            3 => proptest::sample::select(MARKS),
            1 => any::<u8>(),
        ]
    };
    prop_oneof![
        (any::<usize>(), mark()).prop_map(|(at, byte)| Edit::Replace(at, byte)),
        (any::<usize>(), mark()).prop_map(|(at, byte)| Edit::Insert(at, byte)),
        (any::<usize>(), 1_usize..40).prop_map(|(at, length)| Edit::Remove(at, length)),
        (any::<usize>(), 1_usize..400).prop_map(|(at, length)| Edit::Repeat(at, length)),
    ]
}

fn apply(text: &mut Vec<u8>, edit: &Edit) {
    let place = |at: usize| at % (text.len() + 1);
    match *edit {
        Edit::Replace(at, byte) => {
            let at = place(at);
            if let Some(replaced) = text.get_mut(at) {
                *replaced = byte;
            }
        }
        Edit::Insert(at, byte) => text.insert(place(at), byte),
        Edit::Remove(at, length) => {
            let at = place(at);
            let end = (at + length).min(text.len());
            text.drain(at..end);
        }
        Edit::Repeat(at, length) => {
            let at = place(at);
            let end = (at + length).min(text.len());
            let part = text[at..end].to_vec();
            text.splice(at..at, part);
        }
    }
}

proptest! {
    /// Goal: no log panics, times do not go back, and every line is a request, broken or passed over, once. Method: lines of all formats in
    /// up to three logs, damaged, in each format and in the one that is detected, against each line by itself.
    #[test]
    fn damaged_logs_are_read_line_by_line(
        format in proptest::sample::select(FORMATS),
        spread in proptest::sample::select(&b"ls"[..]),
        lines in proptest::collection::vec((0_usize..LINES.len(), 0_u8..8), 0..24),
        edits in proptest::collection::vec(edit(), 0..12),
    ) {
        let mut texts = Vec::new();
        for (line, end) in lines {
            texts.extend_from_slice(LINES[line].as_bytes());
            texts.extend_from_slice(if end == 0 { hostile::SEPARATOR } else { b"\n" });
        }
        for edit in &edits {
            apply(&mut texts, edit);
        }
        hostile::check(&[&[format, spread][..], &texts].concat());
    }

    /// Goal: bytes that are no log at all are no log. Method: any bytes.
    #[test]
    fn any_bytes_are_read(
        format in any::<u8>(),
        bytes in proptest::collection::vec(prop_oneof![proptest::sample::select(MARKS), any::<u8>()], 0..2_000),
    ) {
        hostile::check(&[&[format, b'l'][..], &bytes].concat());
    }
}

/// Goal: the seeds of the fuzz target are cases of it, and lines as long as may be, and longer, are counted. Method: each seed, and long
/// lines between good ones.
#[test]
fn seeds_and_long_lines_are_cases() {
    let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/access_logs");
    let mut seen = 0;
    for seed in std::fs::read_dir(seeds).expect("the seeds") {
        let seed = std::fs::read(seed.expect("a seed").path()).expect("a seed");
        assert!(FORMATS.contains(&seed[0]) && b"ls".contains(&seed[1]));
        hostile::check(&seed);
        seen += 1;
    }
    assert!(seen >= 12, "a seed a format");
    let good = "192.0.2.1 - - [21/Nov/2026:07:10:38 +0000] \"GET / HTTP/1.1\" 200 7\n";
    for length in [65_535, 65_536, 65_537, 300_000] {
        let long = "x".repeat(length);
        for text in [
            format!("{good}{long}\n{good}"),
            format!("{long}\n{good}"),
            format!("{good}{long}"),
        ] {
            hostile::check(format!("2l{text}").as_bytes());
        }
    }
}
