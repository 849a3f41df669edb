//! The kits attacked: what a request can say in more than one way reaches the origin no further once a counter is used up.

use super::{json, kit};
use crate::harness::*;

/// Parameters of a content type by which some framework decodes a body other than as UTF-8, or finds another boundary.
const CHARSETS: [&str; 14] = [
    "charset*=''utf-7",
    "charset*0=utf-7",
    "CHARSET*=utf-7",
    "charset*0*=''utf-16",
    "xcharset=utf-7",
    "a=\"charset=utf-7\"",
    "a=\"; charset=utf-7\"",
    "charset=utf-7",
    "charset=utf-8; charset=utf-7",
    "charset=\"utf\\-7\"",
    "charset=utf-16le",
    "charset = utf-7",
    "charset=latin1",
    "charset=utf-8; charset*=''utf-7",
];

/// Asserts that none of the requests reaches the origin.
async fn assert_closed(
    gateway: &Gateway,
    origin: &Origin,
    requests: impl IntoIterator<Item = Request>,
) {
    let before = origin.count();
    for request in requests {
        let shown = format!("{request:?}");
        let answer = gateway.send(request).await;
        assert!(matches!(answer.status, 400 | 429), "{shown}: {answer:?}");
    }
    assert_eq!(origin.count(), before);
}

#[tokio::test]
async fn no_writing_of_a_number_or_its_body_gets_a_fourth_code() {
    // Goal: send-otp.toml holds for every writing of the number, of its member in JSON and of the content type. Method: a number whose
    // codes are used up from one network, and the writings that frameworks and vendors read as that number.
    let origin = Origin::named("auth");
    let gateway = kit("send-otp", &origin).start().await;
    let of_body = |body: String| json("/auth/sendOTP", "192.0.2.1", body);
    let number = "+4915112345678";
    for _ in 0..3 {
        let body = format!("{{\"phone\":\"{number}\"}}");
        assert_eq!(gateway.send(of_body(body)).await.status, 200);
    }
    let numbers = [
        "015112345678",
        "0151/123-456.78",
        "004915112345678",
        "01149 151 12345678",
        "+49 (0) 151 12345678",
        "＋４９１５１１２３４５６７８",
        "+٤٩١٥١١٢٣٤٥٦٧٨",
        "\u{202a}+4915112345678\u{202c}",
        "+49151\u{ad}12345678",
        "+49151\u{200b}12345678",
        "+49151\\u000012345678",
        "+4915112345678\\u0000",
        "\\u0000+4915112345678",
        "+4915112345678\\n",
        "+4915112345678;ext=1",
        "+4915112345678,,1",
        "tel:+4915112345678",
        "\\u002b4915112345678",
        "+491511234567\\u0038",
    ];
    let numbers = numbers.map(|number| of_body(format!("{{\"phone\":\"{number}\"}}")));
    assert_closed(&gateway, &origin, numbers).await;
    let bodies = [
        format!("{{\"phone\":\"{number}\",\"phone\":\"+4915100000000\"}}"),
        format!("{{\"phone\":\"+4915100000001\",\"phone\":\"{number}\"}}"),
        format!("{{\"Phone\":\"{number}\",\"phone\":\"+4915100000002\"}}"),
        format!("{{\"phone\":\"+4915100000003\",\"PHONE\":\"{number}\"}}"),
        format!("{{\"phone\":[\"{number}\"]}}"),
        format!("{{\"phone\":{{\"0\":\"{number}\"}}}}"),
        format!("{{\"phone\":\"+4915100000004\"}}{{\"phone\":\"{number}\"}}"),
        format!("{{\"phone\":\"+4915100000005\",}}/*{number}*/"),
        format!("\u{feff}{{\"phone\":\"{number}\"}}"),
        "{\"phone\":null}".to_owned(),
        String::new(),
    ];
    assert_closed(&gateway, &origin, bodies.map(of_body)).await;
    let decoded_otherwise = CHARSETS.map(|charset| {
        post("/auth/sendOTP")
            .forwarded_for("192.0.2.1")
            .header("content-type", &format!("application/json; {charset}"))
            .body("{\"phone\":\"+4915100000009\",\"x\":\"+AC-\"}")
    });
    assert_closed(&gateway, &origin, decoded_otherwise).await;
    let beside = [
        post("/auth/sendOTP?phone=%2B4915112345678"),
        post("/auth/sendOTP?Phone=%2B4915112345678"),
        post("/auth/sendOTP?phone[]=%2B4915112345678"),
    ]
    .map(|request| {
        let request = request
            .forwarded_for("192.0.2.1")
            .header("content-type", "application/json");
        request.body("{\"phone\":\"+4915100000006\"}")
    });
    assert_closed(&gateway, &origin, beside).await;
}

#[tokio::test]
async fn no_writing_of_a_name_or_its_form_gets_a_sixth_guess() {
    // Goal: login.toml holds for every writing of the account, of its field in both kinds of forms, and of the content type; and no cookie
    // stands for the field. Method: an account at which a network has guessed five times, and what frameworks and databases read as it.
    let origin = Origin::answering(|_| Answer::new(401).into());
    let gateway = kit("login", &origin).start().await;
    let of_type = |content_type: &str, body: String| {
        let request = post("/login").forwarded_for("192.0.2.9");
        request.header("content-type", content_type).body(body)
    };
    let form = "application/x-www-form-urlencoded";
    let guess = |mail: &str| of_type(form, format!("email={mail}&password=wrong"));
    for _ in 0..5 {
        assert_eq!(gateway.send(guess("ann%40a.test")).await.status, 401);
    }
    let names = [
        "ANN%40A.TEST",
        "%20ann%40a.test%09",
        "%C3%A1nn%40a.test",
        "a%CC%81nn%40a.test",
        "an%C2%ADn%40a.test",
        "an%E2%80%8Bn%40a.test",
        "%EF%BD%81nn%40a.test",
        "ann%EF%BC%A0a.test",
        "an%00n%40a.test",
        "ann%40a.test%00x",
        "ann%40a.test%00",
        "%01ann%40a.test",
        "an%u006e%40a.test",
        "ann%40a.test%0A",
        "ann@a.test",
    ];
    assert_closed(&gateway, &origin, names.map(guess)).await;
    let fields = [
        "bob%40a.test&email=ann%40a.test",
        "bob%40a.test&email[]=ann%40a.test",
        "bob%40a.test;email=ann%40a.test",
        "bob%40a.test&Email=ann%40a.test",
        "bob%40a.test&+email=ann%40a.test",
        "bob%40a.test&email%00=ann%40a.test",
        "bob%40a.test&e%6dail=ann%40a.test",
    ];
    assert_closed(&gateway, &origin, fields.map(guess)).await;
    let decoded_otherwise = CHARSETS.map(|charset| {
        of_type(
            &format!("{form}; {charset}"),
            "email=bob%40a.test&password=x".to_owned(),
        )
    });
    assert_closed(&gateway, &origin, decoded_otherwise).await;
    let heads = [
        "form-data; filename=\",name=email\"; name=\"x\"",
        "form-data; filename*=\"; name=email\"; name=\"x\"",
        "form-data; name=\"email\"; name=\"x\"",
        "form-data; name=x; name*=utf-8''email",
        "form-data; name=\"em\\ail\"",
        "form-data; name=\"email\"; filename=\"f\"",
        "attachment; name=\"email\"",
        "form-data; name=email",
    ];
    let multiparts = heads.map(|head| {
        let part = |head: &str, value: &str| {
            format!("--b\r\nContent-Disposition: {head}\r\n\r\n{value}\r\n")
        };
        let body =
            part(head, "ann@a.test") + &part("form-data; name=\"password\"", "wrong") + "--b--\r\n";
        of_type("multipart/form-data; boundary=b", body)
    });
    assert_closed(&gateway, &origin, multiparts).await;
    let beside = guess("bob%40a.test").header("cookie", "email=ann@a.test");
    assert_closed(&gateway, &origin, [beside]).await;
    let owner = post("/login")
        .forwarded_for("203.0.113.9")
        .header("content-type", form);
    let answer = gateway
        .send(owner.body("email=ann%40a.test&password=right"))
        .await;
    assert_eq!(answer.status, 401, "the site's own answer");
}
