//! Names of parameters and cookies: what real clients send is read, and what parsers read in different ways is refused.

use crate::harness::*;

/// A limit by a parameter of each place, for as many requests as a test sends.
fn rules(other_names: &str) -> String {
    let limit = |place: &str, more: &str| {
        format!(
            "[limit.{}]\nkey = \"{place}\"\non_missing = \"refuse\"\nrates = [\"900 per 1h\"]\n{more}\n",
            place.replace('.', "-")
        )
    };
    let route = |path: &str, place: &str| {
        let name = place.replace('.', "-");
        format!(
            "[[route]]\npath = \"{path}\"\nlimits = [\"{name}\"]\nrespond = {{ status = 200 }}\n"
        )
    };
    [
        limit("query.phone", other_names),
        limit("body.form.phone", other_names),
        limit("cookie.session_key", ""),
        route("/query", "query.phone"),
        route("/form", "body.form.phone"),
        route("/cookie", "cookie.session_key"),
    ]
    .concat()
}

fn form(body: &str) -> Request {
    post("/form")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(body.to_owned())
}

/// Parameters beside the key's that forms of frameworks, site builders and analytics have.
const PARAMETERS: [&str; 26] = [
    "utm_source=news&utm_medium=email&utm_campaign=spring+sale&gclid=Cj0KCQ-abc_&fbclid=IwAR0-x&msclkid=1&_ga=2.1.3-4",
    "utf8=%E2%9C%93&_method=patch&authenticity_token=a%2Bb%2F%3D%3D&user%5Bphone%5D=1&user%5Btags%5D%5B0%5D%5Bcity%5D=x",
    "__VIEWSTATE=%2FwEPDwUK%3D&__EVENTVALIDATION=x&ctl00%24Main%24ctl01%24txtPhone=1&ctl00$Main$x=1&__RequestVerificationToken=CfDJ8-x",
    "javax.faces.ViewState=-1%3A2&j_idt10%3Aform%3Aname=x&javax.faces.partial.ajax=true",
    "%24filter=Name%20eq%20'x'&$top=10&$expand=a/b,c&%24select=id",
    "filter%5Bname%5D%5B%5D=a&filter[name][]=b&page[number]=2&fields[articles]=title,body&sort=-created",
    "data%5B0%5D%5Bid%5D=1&data%5B0%5D%5Btags%5D%5B%5D=x&draw=1&columns%5B0%5D%5Bdata%5D=id&order[0][dir]=asc&search%5Bvalue%5D=",
    "csrfmiddlewaretoken=abc&form-0-name=x&form-TOTAL_FORMS=1&id__in=1,2&name__icontains=a",
    "_token=abc&token=def&_wpnonce=1&_wp_http_referer=%2Fshop%2F&action=heartbeat&g-recaptcha-response=03AGdBq",
    "input_1.3=x&input_1.6=y&gform_submit=1&is_submit_1=1&entry.123456=x&fvv=1&pageHistory=0",
    "form_fields%5Bname%5D=x&your-name=x&_wpcf7=1&_wpcf7_unit_tag=wpcf7-f1-o1&b_1_2=&EMAIL=a%40b.test",
    "tx_powermail_pi1[field][name]=x&tx_form%5B__referrer%5D%5B%40extension%5D=x&--form%5Bname%5D=x&moduleArguments[@action]=index",
    "p_p_id=58&_58_login=x&_com_liferay_login_web_portlet_LoginPortlet_login=x&SAMLResponse=PHNhbWw%2B&RelayState=ss%3Amem",
    "q1_fullName%5Bfirst%5D=x&q3_email3=x&00N20000001234=x&oid=00D&retURL=https://a.test/?b=c&field_1-2=x",
    "jsoncallback=jQuery1720_1&_=1700000000000&callback=__jp0&v=1.2.3-beta.4&t=2024-01-01T00:00:00Z",
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A%2F20240101%2Feu&X-Amz-SignedHeaders=host&Filter.1.Name=x&Action=Send",
    "client_id=a.apps.test&redirect_uri=https%3A%2F%2Fa.test%2Fcb&response_type=code&scope=openid%20email&nonce=1",
    "amp;page=2&a=1&amp;sort=x",
    "ids=1,2,3&bbox=1.5,2,3,4&geo=48.1,11.5&date=2024/01/01&text=what?+100%25&empty=&flag",
    "name=J%C3%BCrgen&city=%E4%BA%AC&note=a%0D%0Ab&latin=%E9",
    "next=/a?b=1&url=http://x.test/?q=y&path=../x&json=%7B%22a%22:1%7D&xml=%3Ca%2F%3E",
    "a=b;c&family=Open+Sans:ital,wght@0,300;0,400&display=swap",
    "/users/login&x=1",
    "12345&aGVsbG8gd29ybGQ=&wsdl",
    "my~name=1&odata.count=1&@id=x&user:id=3&is!=1",
    "&&x=1&",
];

/// Cookies beside the key's: analytics, consent, load balancers, frameworks, and what sites write into cookies themselves.
const COOKIES: [&str; 20] = [
    "_ga=GA1.2.1.2; _ga_ABC123=GS1.1.1.1.0.0.0; _gid=GA1.2.3.4; _gat_UA-1-1=1; _gcl_au=1.1.1.1",
    "__utmz=1.2.1.1.utmcsr=google|utmccn=(organic)|utmcmd=organic|utmctr=(not%20provided); __utma=1.2.3",
    "__gads=ID=22b:T=1700000000:RT=1700000000:S=ALNI_Ma; __gpi=UID=0000:T=1:RT=1:S=ALNI",
    "AMCV_1234%40AdobeOrg=-1124106680%7CMCIDTS%7C19000; AMCVS_1234%40AdobeOrg=1; s_cc=true; mbox=session#abc#123|PC#abc.37_0#456",
    "OptanonConsent=datestamp=Tue+Nov+28+10%3A00%3A00+GMT%2B0100+(Central+European+Standard+Time)&version=6.1&hosts=&groups=C0001%3A1",
    "lidc=\"b=VB01:s=V:r=V:g=2931:u=1:i=17:t=17:v=2:sig=AQ\"; bcookie=\"v=2&abc\"; li_gc=MTsy; JSESSIONID=\"ajax:123\"",
    "prefs={\"theme\": \"dark\", \"ids\": [1, 2, 3]}; cart=[{\"id\":1}]; name=J\u{fc}rgen M",
    "csrftoken=abc; sessionid=abc; messages=\"a1b$[[\\\"__json_message\\\"\\0540]]\"",
    "connect.sid=s%3Aabc.def%2Bx; io=abc; koa:sess=eyJ9; koa:sess.sig=x",
    "laravel_session=eyJpdiI6%3D; XSRF-TOKEN=eyJ%3D%3D; PHPSESSID=abc123; wordpress_logged_in_1=a%7C1%7Cb; wp-settings-1=a%3Db",
    ".AspNetCore.Session=CfDJ8; .ASPXAUTH=ABC; ASP.NET_SessionId=x; __RequestVerificationToken_L2E1=x; prefs=a=1&session_key2=3",
    "AWSALB=abc+/=; AWSALBCORS=x; __cf_bm=a.b-1-c; cf_clearance=x-1.2.1.1-y; incap_ses_1_2=x==; visid_incap_1=x; ak_bmsc=A~B; _abck=1~0~Y",
    "hubspotutk=x; __hssc=1.1.1; __hstc=1.2.3.4; _mkto_trk=id:123-ABC&token:_mch-a.test-1; _pk_id.1.abc=1.2; ajs_anonymous_id=%22abc%22",
    "mp_123_mixpanel=%7B%22distinct_id%22%3A%20%22x%22%7D; intercom-id-abc=x; amplitude_id_1a.test=eyJ; _hjSessionUser_1=eyJ9",
    "optimizelyEndUserId=oeu1r0.1; _fbp=fb.1.1.1; _uetsid=1; _scid=x; IDE=x; NID=511=abc; SID=g.a000; HSID=A; 1P_JAR=2023-11-28-10",
    "ubid-main=1-2; session-id=1-2; session-id-time=2082787201l; i18n-prefs=USD; x-main=\"a?b@c\"; at-main=Atza|x; sess-at-main=\"x=\"",
    "dp1=bu1p/QEBfX0BAX19AQA**6^bl/DE68^; nonsession=BAQAAA; ebay=%5Ejs%3D1%5Esbf%3D%23^; s=CgAD4A",
    "GeoIP=DE:BY:Munich:48.1:11.5:v4; WMF-Last-Access=28-Nov-2023; enwikiSession=x; NetworkProbeLimit=0.001",
    "H_PS_PSSID=1_2_3; BDORZ=B4; BAIDUID=ABC:FG=1; Hm_lvt_1=1,2,3; SINAGLOBAL=1.2.3; uuid_tt_dd=10_1-2; cna=x; isg=BM__",
    "next=https://a.test/?q=1&session=2; flag; =x; a==b; empty=; date=Tue, 28 Nov 2023 10:00:00 GMT",
];

#[tokio::test]
async fn what_real_clients_send_is_read() {
    // Goal: nobody who writes no tricks is refused. Method: parameters and cookies as sites of all kinds have them, before and behind the
    // key's.
    let gateway = Gateway::start(&rules("")).await;
    let mut client = gateway.client().await;
    for parameters in PARAMETERS {
        for text in [
            format!("{parameters}&phone=%2B49+151"),
            format!("phone=1&{parameters}"),
        ] {
            let answer = client.send(form(&text)).await;
            assert_eq!(answer.status, 200, "form {text}");
            let answer = client
                .get(&format!("/query?{}", text.replace('\'', "%27")))
                .await;
            assert_eq!(answer.status, 200, "query {text}");
        }
    }
    for cookies in COOKIES {
        for text in [
            format!("{cookies}; session_key=s%3Aab.c+/=="),
            format!("session_key=ab-c_1; {cookies}"),
        ] {
            let text: Vec<u8> = text.chars().map(|letter| letter as u8).collect();
            let head = [
                b"GET /cookie HTTP/1.1\r\nhost: a\r\ncookie: ",
                &text[..],
                b"\r\n\r\n",
            ]
            .concat();
            let mut raw = gateway.raw().await;
            raw.write(head).await;
            assert_eq!(
                raw.read_response().await.status,
                200,
                "{}",
                String::from_utf8_lossy(&text)
            );
        }
    }
}

#[tokio::test]
async fn a_name_outside_of_the_grammar_makes_the_key_malformed() {
    // Goal: a request with a name that could be any is refused unless the limit accepts such names, and counters outlast a change of
    // that. Method: names in a query, a form and the query beside a form; then the same with `other_names`; what is left of the rates.
    let odd = [
        "First+Name=x",
        "%EF%BD%90hone=2",
        "%u0070hone=2",
        "+phone=2",
        "phone%00=2",
        "=2",
        "na%C3%AFve=1",
    ];
    let mut gateway = Gateway::start(&rules("")).await;
    let first = gateway.get("/query?phone=1").await;
    assert_eq!((first.status, first.remaining("query-phone")), (200, 899));
    let requests = |name: &str| {
        [
            get(&format!("/query?phone=1&{name}")),
            form(&format!("{name}&phone=1")),
            form("x=1&phone=1"),
            post(&format!("/form?{name}"))
                .header("content-type", "application/x-www-form-urlencoded")
                .body("phone=1"),
        ]
    };
    let mut statuses = Vec::new();
    for name in odd {
        for request in requests(name) {
            statuses.push(gateway.send(request).await.status);
        }
    }
    assert_eq!(statuses, [400, 400, 200, 400].repeat(odd.len()));
    let lines = gateway.access_lines(1 + statuses.len()).await;
    let reasons = lines
        .iter()
        .filter_map(|line| line["missing_reason"].as_str());
    let mut reasons: Vec<_> = reasons.collect();
    // Threads write their lines in any order.
    reasons.sort_unstable();
    // In another place it may hold another value.
    let malformed = vec!["malformed"; 2 * odd.len()];
    let repeated = vec!["repeated"; odd.len()];
    assert_eq!(reasons, [malformed, repeated].concat());
    let many = "a=1&".repeat(1000);
    assert_eq!(
        gateway.send(form(&format!("{many}phone=1"))).await.status,
        400
    );

    gateway.reload(&rules("other_names = \"any\"")).await;
    for name in odd {
        for request in requests(name) {
            assert_eq!(gateway.send(request).await.status, 200, "{name}");
        }
    }
    assert_eq!(
        gateway.send(form(&format!("{many}phone=1"))).await.status,
        200
    );
    assert_eq!(
        gateway.get("/query?phone=1").await.remaining("query-phone"),
        899 - odd.len() as u64 - 1
    );
    // What is no name stays as it was.
    for text in [
        "/query?phone=1&Phone=2",
        "/query?phone=1;x",
        "/query?phone=%zz",
        "/query?phone=a%01b",
        "/query?phone=1%00",
    ] {
        assert_eq!(gateway.get(text).await.status, 400, "{text}");
    }
}
