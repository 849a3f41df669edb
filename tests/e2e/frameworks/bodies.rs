//! Bodies that parsers read in different ways: an origin reads under the key's name what the gateway counts, or the request is rejected.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::{before_each_framework, limits_by, started};
use crate::harness::*;

/// `skip` is the harder choice: what the gateway takes for absent is not counted at all.
fn rules() -> String {
    let keys = [
        ("json", "body.json.phone"),
        ("form", "body.form.phone"),
        ("query", "query.phone"),
    ];
    limits_by(&keys, "skip", "2 per hour")
}

/// The value that has used up its requests. Each letter has two spellings in UTF-7.
const LIMITED_VALUE: &str = "RECIPIENT";

/// Requests of each kind to each framework.
const CASES: usize = 250;

const FORM: &str = "application/x-www-form-urlencoded";

/// Returns cases, others in each run. `PROPTEST_RNG_SEED` repeats a run by the number that it printed.
fn generated<T>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut config = Config::default();
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => std::process::id().into(),
    };
    eprintln!("PROPTEST_RNG_SEED={seed}");
    config.rng_seed = RngSeed::Fixed(seed);
    let mut runner = TestRunner::new(config);
    let one = |_| strategy.new_tree(&mut runner).unwrap().current();
    (0..CASES).map(one).collect()
}

/// Returns the value with the letters whose bits are set as `+AFI-`: fresh for the gateway, the limited one for a decoder of UTF-7.
fn in_utf7(bits: usize) -> String {
    let letters = LIMITED_VALUE.chars().enumerate();
    letters
        .map(|(at, letter)| match bits >> at & 1 {
            0 => letter.to_string(),
            _ => format!("+{}-", encode_utf16(letter)),
        })
        .collect()
}

/// Returns the base64 of a letter in UTF-16, without padding.
fn encode_utf16(letter: char) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = u32::from(letter) << 2;
    let digit = |shift: u32| char::from(DIGITS[(bits >> shift & 63) as usize]);
    [digit(12), digit(6), digit(0)].iter().collect()
}

fn typed(target: &str, kind: &str, body: impl Into<bytes::Bytes>) -> Request {
    post(target).header("content-type", kind).body(body)
}

fn json(kind: &str, value: &str) -> Request {
    typed("/json", kind, format!("{{\"phone\":\"{value}\"}}"))
}

/// Starts the framework behind a gateway whose limits have no room for the limited value, nor for what cannot be read.
async fn exhausted(framework: Framework) -> (FrameworkServer, Gateway) {
    let (server, gateway) = started(framework, &rules()).await;
    for _ in 0..2 {
        let form = format!("phone={LIMITED_VALUE}");
        for request in [
            json("application/json", LIMITED_VALUE),
            typed("/json", "application/json", "{"),
            typed("/form", FORM, form.clone()),
            typed("/form", FORM, form.clone() + "&phone=1"),
            get(&format!("/query?{form}")),
            get(&format!("/query?{form}&phone=1")),
        ] {
            assert_ne!(gateway.send(request).await.status, 429);
        }
    }
    for request in [
        json("application/json", LIMITED_VALUE),
        typed("/json", "application/json", "{"),
    ] {
        assert_eq!(gateway.send(request).await.status, 429);
    }
    (server, gateway)
}

/// Sends requests over one connection; the origin must not find the limited value in any.
async fn send_all(
    gateway: &Gateway,
    requests: impl IntoIterator<Item = (String, Request)>,
    source: fn(&Reading) -> Vec<&str>,
) {
    let mut client = gateway.client().await;
    for (shown, request) in requests {
        let answer = client.send(request).await;
        if let Some(reading) = Reading::of(&answer) {
            let found = source(&reading);
            let is_limited = |value: &&str| value.trim() == LIMITED_VALUE;
            assert!(
                !found.iter().any(is_limited),
                "{shown}: the origin reads {found:?}"
            );
        }
    }
}

mod charsets {
    use super::*;

    super::before_each_framework!(
        decode_no_second_value,
        flask: Flask, django: Django, rest_framework: DjangoRest, tornado: Tornado, cherrypy: CherryPy, rack: Rack, php: Php,
        aiohttp: Aiohttp, litestar: Litestar, sanic: Sanic, blacksheep: BlackSheep, formidable: Formidable, busboy: Busboy,
    );

    fn parameters() -> impl Strategy<Value = String> {
        let separator = proptest::sample::select(vec![
            "; ",
            ";",
            " ; ",
            ";  ",
            ", ",
            ",",
            "\t;",
            "; a=\"",
            "; profile=\"",
            "; v=",
            "; a=\";",
            "; (",
            "; x",
        ]);
        let name = proptest::sample::select(vec![
            "charset",
            "charset*",
            "charset*0",
            "charset*0*",
            "CHARSET",
            "Charset*",
            "xcharset",
            "charset ",
            "charset\t",
            "\"charset\"",
        ]);
        let equals = proptest::sample::select(vec![
            "=",
            " = ",
            "= ",
            "=\"",
            "=''",
            "=\"''",
            "=us-ascii''",
            "=utf-8''",
            "=",
        ]);
        let value = proptest::sample::select(vec![
            "utf-7",
            "UTF-7",
            "utf7",
            "utf-8",
            "unicode-1-1-utf-7",
            "utf-8\"; charset=utf-7",
            "utf-8; charset=utf-7",
            "utf\\-7",
        ]);
        let end = proptest::sample::select(vec![
            "",
            "",
            "\"",
            ";",
            "; ",
            "; charset=utf-8",
            "\"; charset=utf-8",
            " (x)",
            ", x",
        ]);
        (separator, name, equals, value, end).prop_map(|(separator, name, equals, value, end)| {
            format!("{separator}{name}{equals}{value}{end}")
        })
    }

    async fn decode_no_second_value(framework: Framework) {
        // Goal: no parameter of a content type makes the limited value of one that the gateway counts as another. Method: parameters that
        // some parser takes for a charset, with the limited value in UTF-7: in JSON, in a form, and in a query.
        let (_server, gateway) = exhausted(framework).await;
        let kinds = generated(proptest::collection::vec(parameters(), 1..3));
        let kinds: Vec<String> = kinds.iter().map(|parts| parts.concat()).collect();
        let spelled = |at: usize| in_utf7(at + 1);
        let bodies = kinds.iter().enumerate().map(|(at, kind)| {
            let kind = format!("application/json{kind}");
            (kind.clone(), json(&kind, &spelled(at)))
        });
        send_all(&gateway, bodies, |reading| reading.json("phone")).await;
        let forms = kinds.iter().enumerate().map(|(at, kind)| {
            let kind = format!("{FORM}{kind}");
            let body = format!("phone={}", spelled(at).replace('+', "%2B"));
            (kind.clone(), typed("/form", &kind, body))
        });
        send_all(&gateway, forms, |reading| reading.form("phone")).await;
        let queries = kinds.iter().enumerate().map(|(at, kind)| {
            let kind = format!("text/plain{kind}");
            let target = format!("/query?phone={}", spelled(at).replace('+', "%2B"));
            (kind.clone(), get(&target).header("content-type", &kind))
        });
        send_all(&gateway, queries, |reading| reading.query("phone")).await;
    }
}

mod parts {
    use super::*;

    super::before_each_framework!(
        name_no_second_value,
        php: Php, flask: Flask, django: Django, tornado: Tornado, cherrypy: CherryPy, bottle: Bottle, rack: Rack, rails: Rails,
        aiohttp: Aiohttp, litestar: Litestar, sanic: Sanic, blacksheep: BlackSheep, formidable: Formidable, busboy: Busboy,
    );

    const BOUNDARY: &str = "----bound7MA4YWxkTrZu0gW";

    /// A head of a part in which some parser may find the name of the key.
    fn head() -> impl Strategy<Value = String> {
        let field = proptest::sample::select(vec![
            "Content-Disposition: form-data",
            "Content-Disposition: form-data",
            "Content-Disposition: form-data",
            "content-disposition:form-data",
            "Content-Disposition: inline",
            "X: y\r\nContent-Disposition: form-data",
            "Content-Type: text/plain",
            "Content-ID: phone",
            "Content-Length: 3\r\nContent-Disposition: form-data",
        ]);
        let parameter = proptest::sample::select(vec![
            "; name=\"x\"",
            "; name=x",
            "; name=\"phone\"",
            "; name=phone",
            ";name=phone",
            "; NAME=phone",
            "; name*=utf-8''phone",
            "; name=\"\"",
            "; filename=\"a\"",
            "; filename=\",name=phone\"",
            "; filename=\"; name=phone\"",
            "; filename=\"a; name=\"phone",
            "; filename*=\"; name=phone\"",
            "; filename=\"a\\\"; name=\"phone\"",
            "; filename=\"a\\\"b\\\".png\"",
            "; filename=\"a\\\\\"phone\"",
            "; filename=\"a\" name phone\"",
            "; filename*=utf-8''a'; name=phone",
            "; filename=phone",
            "; filename=\"phone\"",
            ", name=phone",
            " name=phone",
            "; xname=phone",
            "; x=\"y\"",
            "; name =phone",
            "; name='phone'",
            "; name=ph\\one",
            "; name=\"ph\\one\"",
            "; name=\"phone:\"",
            "; charset=utf-7",
            "\r\n name=phone",
            "; name=\"x\";",
            "\r\nContent-Disposition: form-data; name=phone",
            "\r\nContent-Type: text/plain; charset=utf-7",
            "\r\nContent-Type: text/plain; name=\"phone\"",
            "\r\nContent-Type: message/rfc822",
            "\r\nContent-Transfer-Encoding: base64",
            "\r\nContent-Length: 2",
        ]);
        (field, proptest::collection::vec(parameter, 1..4))
            .prop_map(|(field, parameters)| field.to_owned() + &parameters.concat())
    }

    /// What follows a head, with the limited value in it.
    fn content() -> impl Strategy<Value = String> {
        let value = LIMITED_VALUE;
        let named = "Content-Disposition: form-data; name=\"phone\"\r\n\r\n";
        proptest::sample::select(vec![
            value.to_owned(),
            value.to_owned(),
            value.to_owned(),
            format!("1\r\n{BOUNDARY}\r\n{named}{value}"),
            format!("1\r\n--{BOUNDARY} \r\n{named}{value}"),
            format!("1\n--{BOUNDARY}\n{named}{value}"),
            format!("{BOUNDARY}xx{named}{value}\r\n--"),
            format!("{value}xxxx{BOUNDARY}\r\n"),
            format!("{value}\r\n--{BOUNDARY}x"),
            format!("{value}\r\n\r\n"),
        ])
    }

    async fn name_no_second_value(framework: Framework) {
        // Goal: no head or content of a part names a value that the gateway has not counted. Method: heads and contents that some parser
        // reads in another way, alone and beside a fresh value.
        let (_server, gateway) = exhausted(framework).await;
        let cases = generated((head(), content(), any::<bool>()));
        let forms = cases.into_iter().enumerate().map(|(at, (head, content, is_beside))| {
            let fresh = format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"phone\"\r\n\r\nF{at}\r\n");
            let fresh = if is_beside { fresh.as_str() } else { "" };
            let body = format!("{fresh}--{BOUNDARY}\r\n{head}\r\n\r\n{content}\r\n--{BOUNDARY}--\r\n");
            let kind = format!("multipart/form-data; boundary={BOUNDARY}");
            (body.clone(), typed("/form", &kind, body))
        });
        send_all(&gateway, forms, |reading| reading.form("phone")).await;
    }
}

mod clients {
    use super::*;

    super::before_each_framework!(
        are_read,
        php: Php, flask: Flask, django: Django, rest_framework: DjangoRest, tornado: Tornado, rack: Rack, aiohttp: Aiohttp,
        litestar: Litestar, sanic: Sanic, blacksheep: BlackSheep, formidable: Formidable, busboy: Busboy,
    );

    /// Forms as clients write them: boundary, head of the key's part, heads and contents of others.
    const FORMS: [(&str, &str, &[&str]); 9] = [
        // Chromium and Safari, with a file that has a blank, an equals sign and a quote in its name; a recording; an empty file.
        (
            "----WebKitFormBoundary7MA4YWxkTrZu0gW",
            "Content-Disposition: form-data; name=\"phone\"",
            &[
                "Content-Disposition: form-data; name=\"a\"; filename=\"%22y%22 (1)=2.png\"\r\nContent-Type: image/png\r\n\r\n\u{1}\r\n\n",
                "Content-Disposition: form-data; name=\"v\"; filename=\"blob\"\r\nContent-Type: video/webm;codecs=vp8,opus\r\n\r\nx",
                "Content-Disposition: form-data; name=\"e\"; filename=\"\"\r\nContent-Type: application/octet-stream\r\n\r\n",
            ],
        ),
        // Firefox.
        (
            "---------------------------9051914041544843365972754266",
            "Content-Disposition: form-data; name=\"phone\"",
            &[
                "Content-Disposition: form-data; name=\"a[b]\"; filename=\"J\u{fc}rgen; x.txt\"\r\nContent-Type: text/plain\r\n\r\nx",
            ],
        ),
        // Internet Explorer, which sends the path.
        (
            "---------------------------7d91cb2f1c0ab4",
            "Content-Disposition: form-data; name=\"phone\"",
            &[
                "Content-Disposition: form-data; name=\"f\"; filename=\"C:\\dir\\x.gif\"\r\nContent-Type: image/gif\r\n\r\nGIF",
            ],
        ),
        // curl.
        (
            "------------------------d74496d66958873e",
            "Content-Disposition: form-data; name=\"phone\"",
            &[
                "Content-Disposition: form-data; name=\"f\"; filename=\"a.json\"\r\nContent-Type: application/json\r\n\r\n{}",
            ],
        ),
        // requests and httpx.
        (
            "0f755a9d2c5d4e6a8c3f1b0e9d8a7c6b",
            "Content-Disposition: form-data; name=\"phone\"",
            &[
                "Content-Disposition: form-data; name=\"f\"; filename=\"a.txt\"; filename*=utf-8''%E2%82%AC.txt\r\n\r\nx",
            ],
        ),
        // .NET.
        (
            "\"5f1b4f2e-1c0a-4b55-8f6e-2f7f9d1c1c1a\"",
            "Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name=phone",
            &[
                "Content-Disposition: form-data; name=f; filename=a.txt; filename*=utf-8''a.txt\r\n\r\nx",
            ],
        ),
        // OkHttp.
        (
            "3e6f0a3c-7f6b-4b7e-9a55-0d4cb39b9c3e",
            "Content-Disposition: form-data; name=\"phone\"\r\nContent-Length: 4",
            &[
                "Content-Disposition: form-data; name=\"f\"; filename=\"a.png\"\r\nContent-Type: image/png\r\nContent-Length: 1\r\n\r\nx",
            ],
        ),
        // Apache HttpClient, Dart, Retrofit.
        (
            "dart-http-boundary-+a_B.9abcdefghijk",
            "content-disposition: form-data; name=\"phone\"\r\ncontent-transfer-encoding: binary",
            &[
                "Content-Disposition: form-data; name=\"t\"\r\nContent-Type: text/plain; charset=US-ASCII\r\n\r\nx",
            ],
        ),
        // axios in Node.
        (
            "--------------------------515890814546601021194782",
            "Content-Disposition: form-data; name=\"phone\"",
            &[],
        ),
    ];

    async fn are_read(framework: Framework) {
        // Goal: what clients send is counted under its value. Method: content types and forms of clients, each with a value of its own,
        // which has its two; the origin reads the same value.
        let (_server, gateway) = exhausted(framework).await;
        let mut client = gateway.client().await;
        for (at, kind) in [
            "application/json",
            "application/json; charset=utf-8",
            "application/json;charset=UTF-8",
            "application/vnd.api+json; profile=\"https://a.test/x\"",
            "application/json; odata.metadata=minimal",
            "application/problem+json",
        ]
        .into_iter()
        .enumerate()
        {
            for is_limited in [false, false, true] {
                let answer = client.send(json(kind, &format!("J{at}"))).await;
                assert_eq!(answer.status == 429, is_limited, "{kind}: {answer:?}");
            }
        }
        for (at, (boundary, head, others)) in FORMS.into_iter().enumerate() {
            let line = boundary.trim_matches('"');
            let value = format!("F00{at}");
            let mut parts = vec![format!("{head}\r\n\r\n{value}")];
            parts.extend(others.iter().map(|part| (*part).to_owned()));
            let parts: String = parts
                .iter()
                .map(|part| format!("--{line}\r\n{part}\r\n"))
                .collect();
            let body = format!("{parts}--{line}--\r\n");
            let kind = format!("multipart/form-data; boundary={boundary}");
            for is_limited in [false, false, true] {
                let answer = client.send(typed("/form", &kind, body.clone())).await;
                assert_eq!(answer.status == 429, is_limited, "{body}: {answer:?}");
                if let Some(reading) = Reading::of(&answer) {
                    let found = reading.form("phone");
                    // formidable and BlackSheep take a part with a type for a file.
                    let is_file = found.is_empty() && head.contains("Content-Type");
                    assert!(is_file || found == [value.as_str()], "{body}: {found:?}");
                }
            }
        }
    }
}
