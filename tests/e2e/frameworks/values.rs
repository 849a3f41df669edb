//! Counted values of forms, queries and cookies: no spelling shows an origin a value that the gateway did not count.

use std::net::SocketAddr;

use super::{before_each_framework, limits_by};
use crate::harness::*;

/// `skip` is the harder choice: what the gateway takes for absent is not counted at all.
fn rules() -> String {
    let keys = [
        ("form", "body.form.user_id"),
        ("query", "query.user_id"),
        ("cookie", "cookie.user_id"),
    ];
    limits_by(&keys, "skip", "2 per hour")
}

/// Names that some framework takes for `user_id`; `=R` follows each.
const NAMES: [&str; 34] = [
    "user_id",
    "+user_id",
    "%20user_id",
    "++user_id",
    "user_id+",
    "%09user_id",
    "%0Auser_id",
    "%A0user_id",
    "%C2%A0user_id",
    "user_id%00",
    "user_id%00x",
    "user_id%09",
    "user.id",
    "user+id",
    "user%20id",
    "user[id",
    "user%5Bid",
    "user_id[]",
    "user_id[0]",
    "user_id[x]",
    "user.id[]",
    "[user_id]",
    "%5Buser_id]",
    "[user_id",
    "user_id]",
    "]user_id",
    "[[user_id]]",
    "[]user_id",
    "[user_id]x",
    "USER_ID",
    "User_Id",
    "%u0075ser_id",
    "?user_id",
    "user%EF%BC%BFid",
];

/// Cookies that some parser reads as `user_id=R`.
const COOKIES: [&str; 33] = [
    "user_id=R",
    "a=b user_id=R",
    "a=b\tuser_id=R",
    "a=b, user_id=R",
    "a=b,user_id=R",
    "a=\"b; user_id=R",
    "a=\"b\" user_id=R",
    "a=\"b\", user_id=R",
    "user_id=\"R\"",
    "user_id=\"\\122\"",
    "user_id=%52",
    "user_id = R",
    "user_id=R x=1",
    "user_id=R\tx=1",
    "user_id=\"R",
    "user_id=R,x",
    " user_id=R",
    "user.id=R",
    "user id=R",
    "user[id=R",
    "user_id[]=R",
    "user_id[x]=R",
    "USER_ID=R",
    "%75ser_id=R",
    "a b user_id=R",
    "=user_id=R",
    "user_id=j:\"R\"",
    "a=b; a=c; user_id=R",
    "a=b[user_id=R",
    "a=b]user_id=R",
    "a=b\\user_id=R",
    "user_id=R[1",
    "user_id=R]x",
];

fn form(body: String) -> Request {
    post("/form")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body)
}

/// As a browser's `FormData`.
fn multipart(boundary: &str, fields: &[(&str, &str)]) -> Request {
    let part = |(disposition, value): &(&str, &str)| {
        format!("--{boundary}\r\nContent-Disposition: {disposition}\r\n\r\n{value}\r\n")
    };
    let body = fields.iter().map(part).collect::<String>() + &format!("--{boundary}--\r\n");
    let kind = format!("multipart/form-data; boundary={boundary}");
    post("/form").header("content-type", &kind).body(body)
}

fn cookie(text: &str) -> Request {
    get("/cookie").header("cookie", text)
}

async fn before(origin: SocketAddr) -> Gateway {
    Setup::new()
        .servers("app", &[origin])
        .rules(&rules())
        .start()
        .await
}

/// Sends the limited value, and what can be read in two ways, until neither passes.
async fn use_up(gateway: &Gateway, plain: impl Fn() -> Request, ambiguous: impl Fn() -> Request) {
    // What an application answers does not matter here.
    let mut limited = Vec::new();
    for _ in 0..3 {
        let plain = gateway.send(plain()).await.status == 429;
        limited.push((plain, gateway.send(ambiguous()).await.status == 429));
    }
    assert_eq!(limited, [(false, false), (false, false), (true, true)]);
}

/// Sends a spelling; the origin must not find the limited value in it.
async fn try_spelling(
    gateway: &Gateway,
    shown: &str,
    request: Request,
    source: fn(&Reading) -> Vec<&str>,
) {
    let answer = gateway.send(request).await;
    if let Some(reading) = Reading::of(&answer) {
        let found = source(&reading);
        assert!(
            !found.iter().any(|value| value.trim() == "R"),
            "{shown}: the origin reads {found:?} in {reading:?}"
        );
    }
}

/// Uses up the two requests of the key and those of a repeated one, in a form and in a query.
async fn use_up_form_and_query(gateway: &Gateway) {
    use_up(
        gateway,
        || form("user_id=R".into()),
        || form("user_id=a&user_id=R".into()),
    )
    .await;
    use_up(
        gateway,
        || get("/query?user_id=R"),
        || get("/query?user_id=a&user_id=R"),
    )
    .await;
}

mod names {
    use super::*;

    before_each_framework!(find_no_second_value);

    async fn find_no_second_value(framework: Framework) {
        // Goal: after its two, a value reaches the origin under no name that the origin takes for the key's. Method: each name alone,
        // before and behind a fresh plain value, in a form, a query and a multipart form.
        let server = framework.start().await;
        let gateway = before(server.address()).await;
        use_up_form_and_query(&gateway).await;
        let mut fresh = 0;
        for name in NAMES {
            fresh += 1;
            for pairs in [
                format!("{name}=R"),
                format!("user_id=F{fresh}&{name}=R"),
                format!("{name}=R&user_id=F{fresh}"),
                format!("x=1;{name}=R"),
                format!("user_id=F{fresh}&x=1; {name}=R"),
            ] {
                try_spelling(&gateway, &pairs, form(pairs.clone()), |reading| {
                    reading.form("user_id")
                })
                .await;
                let target = format!("/query?{}", pairs.replace(' ', "%20"));
                try_spelling(&gateway, &target, get(&target), |reading| {
                    reading.query("user_id")
                })
                .await;
            }
        }
        for disposition in [
            "form-data; name=\"user_id\"",
            "form-data; name=user_id",
            "form-data; name=\" user_id\"",
            "form-data; name=\"user.id\"",
            "form-data; name=\"user_id[]\"",
            "form-data; name=\"[user_id]\"",
            "form-data; name=\"x\"; name=\"user_id\"",
            "form-data; name=\"user_id\"; name=\"x\"",
            "form-data; name*=utf-8''user_id",
            "form-data; name='user_id'",
            "form-data; name=\"user%5Fid\"",
            "form-data; name=\"user\\_id\"",
            "form-data; name=\"x\\\"; name=\"user_id\"",
            "form-data;name=\"user_id\"\r\nContent-Disposition: form-data; name=\"x\"",
            "form-data; name=\"x\"\r\nContent-Disposition: form-data; name=\"user_id\"",
            "form-data; name=\"user_id\"\r\nContent-Transfer-Encoding: base64\r\nX: R",
            "form-data;\r\n name=\"user_id\"",
            "inline; name=\"user_id\"",
            "form-data; name=\"x\"\r\n\r\n1\n--b\nContent-Disposition: form-data; name=\"user_id\"",
        ] {
            for first in [None, Some(("form-data; name=\"user_id\"", "F"))] {
                let fields: Vec<_> = first.into_iter().chain([(disposition, "R")]).collect();
                try_spelling(&gateway, disposition, multipart("b", &fields), |reading| {
                    reading.form("user_id")
                })
                .await;
            }
        }
    }
}

mod margins {
    use super::*;

    before_each_framework!(give_no_second_counter);

    async fn give_no_second_counter(framework: Framework) {
        // Goal: a value that a framework trims has the counter of the trimmed one. Method: what some framework cuts, at both ends of the
        // limited value, in a form, a query and a cookie.
        let server = framework.start().await;
        let gateway = before(server.address()).await;
        use_up_form_and_query(&gateway).await;
        use_up(
            &gateway,
            || cookie("user_id=R"),
            || cookie("user_id=a; user_id=R"),
        )
        .await;
        for margin in [
            "%20",
            "+",
            "%09",
            "%0A",
            "%0D%0A",
            "%00",
            "%01",
            "%1F",
            "%0B",
            "%C2%A0",
            "%C2%85",
            "%E2%80%83",
            "%E1%9A%80",
            "%EF%BB%BF",
            "%E2%80%8B",
            "\u{a0}",
            "\u{2003}",
        ] {
            for value in [format!("{margin}R"), format!("R{margin}")] {
                let pair = format!("user_id={value}");
                try_spelling(&gateway, &pair, form(pair.clone()), |reading| {
                    reading.form("user_id")
                })
                .await;
                if pair.is_ascii() {
                    try_spelling(&gateway, &pair, get(&format!("/query?{pair}")), |reading| {
                        reading.query("user_id")
                    })
                    .await;
                    try_spelling(&gateway, &pair, cookie(&pair), |reading| {
                        reading.cookie("user_id")
                    })
                    .await;
                }
            }
        }
    }
}

mod cookies {
    use super::*;

    before_each_framework!(hide_no_second_value);

    async fn hide_no_second_value(framework: Framework) {
        // Goal: after its two, a value reaches the origin in no cookie that its parser takes for the key's. Method: each spelling alone,
        // before and behind a fresh plain one.
        let server = framework.start().await;
        let gateway = before(server.address()).await;
        use_up(
            &gateway,
            || cookie("user_id=R"),
            || cookie("user_id=a; user_id=R"),
        )
        .await;
        for (fresh, spelling) in COOKIES.iter().enumerate() {
            for text in [
                (*spelling).to_owned(),
                format!("user_id=F{fresh}; {spelling}"),
                format!("{spelling}; user_id=F{fresh}"),
            ] {
                try_spelling(&gateway, &text, cookie(&text), |reading| {
                    reading.cookie("user_id")
                })
                .await;
            }
        }
    }
}

mod sources {
    use super::*;

    before_each_framework!(are_merged_for_the_key_too);

    async fn are_merged_for_the_key_too(framework: Framework) {
        // Goal: what frameworks merge is one value: the query beside a form and the reverse. Method: a fresh value at the place of the
        // key and the limited one at the other, after both kinds are used up; equal values pass.
        let server = framework.start().await;
        let gateway = before(server.address()).await;
        use_up_form_and_query(&gateway).await;
        let typed = |target: &str, kind: &str, body: &str| {
            post(target)
                .header("content-type", kind)
                .body(body.to_owned())
        };
        const FORM: &str = "application/x-www-form-urlencoded";
        let part = "--b\r\nContent-Disposition: form-data; name=\"user_id\"\r\n\r\nR\r\n--b--\r\n";
        for (target, kind, body) in [
            ("/form?user_id=R", FORM, "user_id=F1"),
            ("/form?user_id=R", FORM, "x=1"),
            ("/form?+user_id=R", FORM, "user_id=F2"),
            ("/query?user_id=F3", FORM, "user_id=R"),
            ("/query?user_id=F4", FORM, "user.id=R"),
            ("/query?x=1", FORM, "user_id=R"),
            ("/query?user_id=F5", "multipart/form-data; boundary=b", part),
            (
                "/query?user_id=F6",
                "application/json",
                "{\"user_id\":\"R\"}",
            ),
            ("/query?user_id=F16", "", "user_id=R"),
            ("/query?user_id=F17", "multipart/mixed; boundary=b", part),
            (
                "/query?user_id=F7",
                "application/x-www-form-urlencoded; charset=utf-16",
                "user_id=R",
            ),
        ] {
            let answer = gateway.send(typed(target, kind, body)).await;
            assert_eq!(answer.status, 429, "{target} {kind} {body}");
        }
        for (target, body) in [
            ("/form?user_id=F8", "user_id=F8"),
            ("/query?user_id=F9", "user_id=F9"),
            ("/query?user_id=F10", "x=1"),
        ] {
            let answer = gateway.send(typed(target, FORM, body)).await;
            assert!(
                Reading::of(&answer).is_some(),
                "{target} {body}: {answer:?}"
            );
        }
        // Cookies are a place of their own in `$_REQUEST` of PHP, where they win.
        for (request, text) in [
            (form("user_id=F12".into()), "user_id=R"),
            (form("user_id=F13".into()), "a=b; user.id=R"),
            (form("x=1".into()), "user_id=R"),
            (get("/query?user_id=F14"), "user_id=%52"),
            (get("/query?x=1"), "user_id=R"),
        ] {
            let answer = gateway.send(request.header("cookie", text)).await;
            assert_eq!(answer.status, 429, "{text}: {answer:?}");
        }
        let same = get("/query?user_id=F15").header("cookie", "user=x; user_id=F15");
        assert!(Reading::of(&gateway.send(same).await).is_some());
        let other = typed("/query?user_id=F11", "text/plain", "user_id=R");
        let answer = gateway.send(other).await;
        assert!(Reading::of(&answer).is_some(), "{answer:?}");
    }
}

mod browsers {
    use super::*;

    before_each_framework!(are_not_kept_out);

    async fn are_not_kept_out(framework: Framework) {
        // Goal: what browsers send passes, and arrives. Method: a urlencoded form, FormData with a file, a query, cookies of several
        // kinds;
        // each value has its two.
        let server = framework.start().await;
        let gateway = before(server.address()).await;
        let boundary = "----WebKitFormBoundary7MA4YWxkTrZu0gW";
        let fields = [
            ("form-data; name=\"user_id\"", "ann b"),
            ("form-data; name=\"note\"", "user_id=x; y"),
            (
                "form-data; name=\"file\"; filename=\"user_id.png\"\r\nContent-Type: image/png",
                "\u{1}PNG\r\n\u{0}",
            ),
        ];
        let reads_multipart = !matches!(framework, Framework::Node | Framework::Express);
        for is_limited in [false, false, true] {
            let answer = gateway.send(multipart(boundary, &fields)).await;
            assert_eq!(answer.status == 429, is_limited, "{answer:?}");
            if let Some(reading) = Reading::of(&answer).filter(|_| reads_multipart) {
                assert!(reading.form("user_id").contains(&"ann b"), "{reading:?}");
            }
        }
        let answer = gateway
            .send(form(
                "email=a%40b.test&user_id=J%C3%BCrgen+x&id=1&user=2&csrf%5Btoken%5D=x".into(),
            ))
            .await;
        assert!(
            Reading::of(&answer)
                .unwrap()
                .form("user_id")
                .contains(&"Jürgen x"),
            "{answer:?}"
        );
        let answer = gateway
            .send(get("/query?next=/a?b=1&user_id=ann&utm_source=x.y"))
            .await;
        assert!(
            Reading::of(&answer)
                .unwrap()
                .query("user_id")
                .contains(&"ann"),
            "{answer:?}"
        );
        let jar = "_ga=GA1.2.3; prefs=a=1&user_id=2; user_id=ann-1; theme=\"dark\"; user=u; json=%7B%22a%22%3A1%7D";
        let answer = gateway.send(cookie(jar)).await;
        assert!(
            Reading::of(&answer)
                .unwrap()
                .cookie("user_id")
                .contains(&"ann-1"),
            "{answer:?}"
        );
    }
}
