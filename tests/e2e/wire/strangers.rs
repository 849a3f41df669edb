//! What strangers send before it is a request: a status where there can be one, few lines in the process log, and none of a library's.

use std::process::Command;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::echo::EchoOrigin;
use super::floods::beside_hanging;
use crate::harness::frames::{
    END_HEADERS, END_STREAM, Fate, Frames, HEADERS, RST_STREAM, SETTINGS, frame, get, table_sizes,
};
use crate::harness::*;

const RESPOND: &str = "[[route]]\npath = \"/*\"\nrespond = { status = 200 }\n";

/// Lines that a test may not find: errors and warnings.
fn complaints(gateway: &Gateway) -> Vec<String> {
    let text = gateway.stderr();
    let lines = text.lines();
    lines
        .filter(|line| line.contains("ERROR") || line.contains("WARN"))
        .map(str::to_owned)
        .collect()
}

/// Lines about a client.
fn notices(gateway: &Gateway) -> usize {
    let text = gateway.stderr();
    text.lines()
        .filter(|line| line.contains("client 127.0.0.1:"))
        .count()
}

/// The first message of a TLS client that takes an address for a name, RFC 6066 §3.
fn hello_with_an_address() -> Vec<u8> {
    let sized = |content: &[u8]| {
        [
            &u16::try_from(content.len()).unwrap().to_be_bytes()[..],
            content,
        ]
        .concat()
    };
    let name = [&[0][..], &sized(b"127.0.0.1")].concat();
    let extension = [&[0, 0][..], &sized(&sized(&name))].concat();
    let hello = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &sized(&[0x13, 1]),
        &[1, 0],
        &sized(&extension),
    ]
    .concat();
    let message = [&[1, 0][..], &sized(&hello)].concat();
    [&[22, 3, 1][..], &sized(&message)].concat()
}

/// Sends bytes and waits for the end.
async fn throw(gateway: &Gateway, bytes: &[u8]) {
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    // The gateway may have closed before all of it was sent.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn garbage_writes_no_line_of_a_library() {
    // Goal: an untrusted client cannot flood the log. Method: garbage at every stage, forty times: to clear text, behind the preface
    // of HTTP/2, to TLS, in
    // place of a header of the PROXY protocol; the log has ten lines about it, with the address, and neither an error nor a warning.
    let authority = Authority::new();
    let pair = authority.server(&["a.test"]);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let hello = b"\x16\x03\x01\x00\x05hello";
    let garbage: [&[u8]; 8] = [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"\0\0\0\0",
        &[&preface[..], b"GET / HTTP/1.1\r\n\r\n"].concat(),
        &[&preface[..], &[0xff; 100]].concat(),
        preface,
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        hello,
        &hello_with_an_address(),
    ];
    let clear = Setup::new().rules(RESPOND).start().await;
    let announced = Setup::new()
        .listener_line("proxy_protocol = \"required\"\nproxy_protocol_from = [\"127.0.0.0/8\"]")
        .rules(RESPOND)
        .start()
        .await;
    let secure = Setup::new()
        .file("a.pem", &pair.certificate)
        .file("a.key", &pair.key)
        .listener_line("[listener.tls]\ncertificates = [{ cert_file = \"../a.pem\", key_file = \"../a.key\" }]")
        .rules(RESPOND)
        .start()
        .await;
    for gateway in [&clear, &announced, &secure] {
        for _ in 0..6 {
            for bytes in garbage {
                throw(gateway, bytes).await;
            }
        }
        assert_eq!(complaints(gateway), Vec::<String>::new());
        let told = notices(gateway);
        assert!((1..=10).contains(&told), "{told}: {}", gateway.stderr());
    }
    let by_http2 = TlsClients::of(&authority).offering(&["h2"]);
    for _ in 0..3 {
        // A client that offers HTTP/2 and then speaks HTTP/1.1.
        let connected = by_http2.connect(secure.address(), "a.test").await;
        drop(connected);
    }
    assert_eq!(complaints(&secure), Vec::<String>::new());
    assert_eq!(
        secure.admin(crate::harness::get("/healthz")).await.status,
        200
    );
}

#[tokio::test]
async fn a_connection_that_http2_itself_ends_is_counted() {
    // Goal: `sluicegate_http2_abuse_total` counts every connection that is shown out. Method: 2,000 streams, each reset behind its head
    // before it is answered.
    let hanging = EchoOrigin::start().await;
    let gateway = beside_hanging(&Origin::named("fine"), &hanging).await;
    let mut frames = Frames::connect(gateway.address()).await;
    let block = get(b"/hang", &[]);
    let mut flood = Vec::new();
    for stream in (0..2_000).map(|number| number * 2 + 1) {
        flood.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &block));
        flood.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    // The gateway may have closed before all of it was sent.
    let _ = frames.try_write(&flood).await;
    eventually("it is counted", async || {
        let metrics = gateway.metrics().await;
        (metrics.sum("sluicegate_http2_abuse_total", &[]) == 1.0).then_some(())
    })
    .await;
    assert!(
        gateway
            .stderr()
            .contains("client 127.0.0.1: its HTTP/2 connection is ended")
    );
    assert_eq!(complaints(&gateway), Vec::<String>::new());
}

#[tokio::test]
async fn a_malformed_request_of_http2_gets_a_status() {
    // Goal: no reset without a status, and a line in the access log; other streams continue. Method: heads that break
    // rules of HTTP/2 and of targets, beside streams that are answered.
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut frames = Frames::connect(gateway.address()).await;
    let broken = [
        get(b"/?a=\"b\"", &[]),
        get(b"/?a=<b>", &[]),
        get(b"/a b", &[]),
        get(b"/", &[(b"connection", b"close")]),
        get(b"/", &[(b"te", b"gzip")]),
        get(b"/", &[(b"x", b"1"), (b":path", b"/b")]),
        get(
            b"/",
            &[(b"content-length", b"0"), (b"content-length", b"5")],
        ),
    ];
    let mut stream = 1;
    for block in &broken {
        frames.request(stream, block).await;
        assert_eq!(frames.fate(stream).await, Fate::Answered(400), "{stream}");
        frames.request(stream + 2, &get(b"/", &[])).await;
        assert_eq!(frames.fate(stream + 2).await, Fate::Answered(200));
        stream += 4;
    }
    assert_eq!(origin.count(), broken.len());
    let lines = gateway.access_lines(2 * broken.len()).await;
    let refused = lines.iter().filter(|line| line["status"] == 400);
    assert_eq!(refused.count(), broken.len());
    assert_eq!(complaints(&gateway), Vec::<String>::new());
}

#[tokio::test]
async fn a_status_of_a_malformed_request_keeps_the_table_of_fields_in_step() {
    // Goal: a client that lowers the size of HPACK's table learns it in front of the next block (RFC 7541 §4.2), also where that
    // answers a malformed request. Method: the sizes in front of blocks, by frames; a client with a strict decoder, nghttp2's,
    // which ends the connection where they are missing.
    const HEADER_TABLE_SIZE: u8 = 1;
    let origin = Origin::echo();
    let gateway = Gateway::passing(&origin).await;
    let mut frames = Frames::connect(gateway.address()).await;
    let size = |size: u8| frame(SETTINGS, 0, 0, &[0, HEADER_TABLE_SIZE, 0, 0, 0, size]);
    let malformed = get(b"/", &[(b"te", b"gzip")]);
    let mut sizes = async |stream: u32, settings: &[u8], block: &[u8]| {
        frames.write(settings).await;
        frames.request(stream, block).await;
        let block = frames.block(stream).await;
        let (sizes, rest) = table_sizes(&block);
        (sizes, rest[0])
    };
    let (bad_request, ok) = (0x8c, 0x88);
    assert_eq!(sizes(1, &[], &malformed).await, (vec![], bad_request));
    let lowered = [size(0), size(200)].concat();
    assert_eq!(
        sizes(3, &lowered, &malformed).await,
        (vec![0, 200], bad_request)
    );
    // It is said once.
    assert_eq!(sizes(5, &[], &get(b"/", &[])).await, (vec![], ok));
    assert_eq!(sizes(7, &[], &malformed).await, (vec![], bad_request));
    assert_eq!(sizes(9, &size(7), &malformed).await, (vec![7], bad_request));
    assert_eq!(
        sizes(11, &size(5), &malformed).await,
        (vec![5], bad_request)
    );
    assert_eq!(sizes(13, &[], &get(b"/", &[])).await, (vec![], ok));
    let url = |path| format!("http://{}/{path}", gateway.address());
    let urls = [url("a"), url("b")];
    let asked = tokio::task::spawn_blocking(move || {
        Command::new("nghttp")
            .args(["-v", "--header-table-size=0", "-H", "te: gzip"])
            .args(urls)
            .output()
            .unwrap_or_else(|error| panic!("nghttp ({error}); `./dev test` installs it"))
    });
    let output = asked.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.matches(":status: 400").count(), 2, "{said}");
    assert!(!said.contains("COMPRESSION_ERROR"), "{said}");
}

#[tokio::test]
async fn a_config_map_is_swapped_without_a_warning() {
    // Goal: what the watcher's library says of each swap is no news. Method: three swaps, as Kubernetes makes them.
    let mut gateway = Setup::new()
        .mounted_as_config_map()
        .rules(RESPOND)
        .start()
        .await;
    for status in [201, 202, 203] {
        let generation = gateway.generation().await;
        let rules = RESPOND.replace("200", &status.to_string());
        gateway.write_rules(&rules, Writing::ConfigMap);
        gateway.serves_after(generation).await;
    }
    assert_eq!(complaints(&gateway), Vec::<String>::new());
}

#[tokio::test]
async fn lines_that_are_left_out_are_counted() {
    // Goal: a flood of strangers is not forgotten where few lines are written. Method: 25 of them in one minute, and one a second
    // until the
    // next minute begins: its first line says how many had none.
    let gateway = Setup::new()
        .listener_line("proxy_protocol = \"required\"\nproxy_protocol_from = [\"127.0.0.0/8\"]")
        .rules(RESPOND)
        .start()
        .await;
    let mut thrown = 0;
    let mut throw_one = async || {
        throw(&gateway, b"no header of the PROXY protocol\r\n\r\n").await;
        thrown += 1;
        let log = gateway.stderr();
        assert!(thrown < 150, "{log}");
        let line = log.lines().find(|line| line.contains("were left out"));
        line.map(str::to_owned)
    };
    let mut said = None;
    for _ in 0..24 {
        said = throw_one().await;
        if said.is_some() {
            break;
        }
    }
    let said = match said {
        Some(said) => said,
        None => at_a_pace(Duration::from_secs(1), throw_one).await,
    };
    // The line stands before that of the stranger who began the minute: the last one, or the one before whose line came late.
    let left_out = said
        .split_once(" more lines about clients")
        .and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok());
    assert!(
        [thrown - 11, thrown - 12].map(Some).contains(&left_out),
        "{thrown}: {said}"
    );
    // The line of the stranger who began the minute is the next one.
    eventually("his line is written", async || {
        (11..=12).contains(&notices(&gateway)).then_some(())
    })
    .await;
}
