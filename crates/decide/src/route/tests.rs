//! Tests routes against an oracle, and paths as attackers spell them.

mod oracle;
mod parsers;
mod spellings;
mod treatments;

use http::{HeaderName, HeaderValue, Method};
use proptest::prelude::*;
use sluicegate_base::crawler::CrawlerCondition;
use sluicegate_base::geo::PlaceCondition;
use sluicegate_base::path::{PathCase, PathError, PathRegex};
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::rules::{
    ClientCondition, ListUse, PathPattern, QueryCondition, RequireRules, RouteAction, RouteMatch,
    Segment, Tail,
};

use super::pattern::{CompiledPattern, PatternEnd, PatternSegment};
use super::*;

/// Bytes of the largest body where a route says nothing.
const USUAL_BODY: u64 = 1 << 20;

/// Returns a route with one limit of its own, so that no two are treated the same.
fn route(host: Option<&str>, methods: &[Method], path: &str) -> RouteRules {
    RouteRules {
        name: path.into(),
        matches: RouteMatch {
            host: host.map(|host| match host.strip_prefix("*.") {
                Some(parent) => HostMatch::Under(parent.into()),
                None => HostMatch::Exact(host.into()),
            }),
            path: pattern(path),
            regex: path
                .strip_prefix("~ ")
                .map(|regex| PathRegex::new(regex).unwrap().with_case(PathCase::Ignored)),
            case: PathCase::Ignored,
            listeners: Vec::new(),
            methods: methods.to_vec(),
            client: ClientCondition::default(),
            place: PlaceCondition::default(),
            crawler: CrawlerCondition::default(),
            headers: Vec::new(),
            query: Vec::new(),
        },
        limits: vec![format!("{host:?} {methods:?} {path}").into()],
        action: RouteAction::Forward("app".into()),
        lists: ListUse::default(),
        require: RequireRules::default(),
        max_body_bytes: None,
        refusal: None,
        cache: None,
        shape: None,
    }
}

/// Goal: many hosts have expressions, and one host no more than its automaton has room for. Method: at the bound of one host, beyond it,
/// and beyond it over several hosts.
#[test]
fn the_expressions_of_each_host_are_bounded() {
    let errors = |hosts: usize, routes: usize| {
        let mut text = "[[listener]]\naddress = \"127.0.0.1:8080\"\n".to_owned();
        for at in 0..routes {
            let host = at % hosts;
            text += &format!("[[route]]\nhost = \"h{host}.test\"\npath = \"~ ^/p{at}x$\"\n");
            text += "respond = { status = 204 }\n";
        }
        let loaded = sluicegate_config::parse("gateway.toml", &text, crate::route::review);
        loaded.map_or_else(|problems| problems.to_string(), |_| String::new())
    };
    assert!(errors(1, 1_000).is_empty());
    assert!(errors(2, 1_010).is_empty());
    let message = "more than 1000 routes of one host have a regular expression";
    assert!(errors(1, 1_001).contains(message));
}

/// Returns a request with only method and headers.
fn asked<'a>(method: &'a Method, headers: &'a ReceivedFields) -> RequestFields<'a> {
    RequestFields {
        method,
        headers,
        query: "",
        listener: RequestListener::Known(None),
        client: "192.0.2.1".parse().unwrap(),
        place: None,
        crawler: None,
    }
}

fn pattern(text: &str) -> PathPattern {
    if text.starts_with('~') {
        return PathPattern {
            text: text.into(),
            segments: Vec::new(),
            tail: Tail::Any,
        };
    }
    let (body, tail) = match text.strip_suffix("/*") {
        Some(body) => (body, Tail::Any),
        None => (text, Tail::Exact),
    };
    let segment = |text: &str| match text.strip_prefix('{') {
        Some(name) => Segment::Parameter(name.trim_end_matches('}').into()),
        None => Segment::Literal(text.into()),
    };
    let segments = body.split('/').skip(1).map(segment).collect();
    PathPattern {
        text: text.into(),
        segments,
        tail,
    }
}

/// Returns the pattern of the route that matches `METHOD host path`.
fn taken<'a>(rules: &'a [RouteRules], host: &str, method: &str, path: &str) -> Option<&'a str> {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let path = NormalPath::parse(path).unwrap();
    let found = RouteTable::compile(rules, USUAL_BODY).find(
        host,
        &path,
        &asked(&method, &ReceivedFields::new()),
    );
    found.unwrap().map(|index| &*rules[index].matches.path.text)
}

fn by_path(patterns: &[&str], path: &str) -> Option<String> {
    let rules: Vec<RouteRules> = patterns.iter().map(|path| route(None, &[], path)).collect();
    taken(&rules, "", "GET", path).map(str::to_owned)
}

#[test]
fn patterns_take_what_the_reference_says() {
    for (pattern, path, takes) in [
        ("/", "/", true),
        ("/", "/a", false),
        ("/*", "/", true),
        ("/*", "/a/b/", true),
        ("/a", "/a", true),
        ("/a", "/a/", true),
        ("/a", "/a/b", false),
        ("/a", "/A", true),
        ("/Caf\u{e9}/B*", "/caf%C3%A9/b*", true),
        ("/aB/{x}", "/Ab/C", true),
        ("~ ^/a[bc]$", "/AC/", true),
        ("/a/", "/a/", true),
        ("/a/", "/a", false),
        ("/a/*", "/a", false),
        ("/a/*", "/a/", true),
        ("/a/*", "/a/b/c", true),
        ("/a/*", "/ab", false),
        ("/{x}", "/", false),
        ("/{x}", "/a", true),
        ("/{x}/b", "/a/b", true),
        ("/{x}/*", "/a", false),
        ("/caf\u{e9}", "/caf%c3%a9", true),
        ("/%61%20b", "/a%20b", true),
        ("/a;b", "/a;b", false),
    ] {
        assert_eq!(
            by_path(&[pattern], path).is_some(),
            takes,
            "{pattern} {path}"
        );
    }
}

#[test]
fn the_more_specific_path_wins_from_the_left() {
    let all = [
        "/*", "/{x}", "/{x}/*", "/{x}/b", "/a/*", "/a/{y}", "/a/b", "/a/b/*", "/a/b/", "/a",
    ];
    for (path, winner) in [
        ("/z", "/{x}"),
        ("/z/", "/{x}"),
        ("/z/z", "/{x}/*"),
        ("/z/b", "/{x}/b"),
        ("/a", "/a"),
        ("/a/", "/a"),
        ("/a/z", "/a/{y}"),
        ("/a/z/z", "/a/*"),
        ("/a/b", "/a/b"),
        ("/a/b/", "/a/b/"),
        ("/a/b/c", "/a/b/*"),
    ] {
        assert_eq!(by_path(&all, path).as_deref(), Some(winner), "{path}");
        let mut reversed = all;
        reversed.reverse();
        assert_eq!(
            by_path(&reversed, path).as_deref(),
            Some(winner),
            "{path} reversed"
        );
    }
}

/// Goal: no case of letters bypasses a limit, and a route can choose to keep case. Method: a path and its other case, matched by
/// one route that ignores case and one that does not, as text and as expressions.
#[test]
fn case_is_ignored_unless_a_route_keeps_it() {
    let long = format!("/{}", "Long".repeat(40));
    for text in ["/auth/sendOTP", "~ ^/auth/sendOTP$", &long] {
        let mut rules = [
            route(None, &[], text),
            route(None, &[], "/*"),
            route(None, &[], text),
        ];
        rules[0].matches.path.text = "ignored".into();
        rules[2].matches.case = PathCase::Kept;
        rules[2].matches.regex = rules[2]
            .matches
            .regex
            .take()
            .map(|regex| regex.with_case(PathCase::Kept));
        let path = text.trim_start_matches("~ ^").trim_end_matches('$');
        assert_eq!(taken(&rules, "", "GET", path), Some(text));
        for other in [path.to_ascii_lowercase(), path.to_ascii_uppercase()] {
            assert_eq!(taken(&rules, "", "GET", &other), Some("ignored"), "{other}");
            assert_eq!(taken(&rules[1..], "", "GET", &other), Some("/*"), "{other}");
        }
    }
}

#[test]
fn a_route_that_does_not_take_the_method_gives_way() {
    let rules = [
        route(None, &[Method::POST], "/auth/sendOTP"),
        route(None, &[], "/*"),
        route(None, &[Method::GET], "/get"),
    ];
    assert_eq!(
        taken(&rules, "", "POST", "/auth/sendOTP"),
        Some("/auth/sendOTP")
    );
    assert_eq!(taken(&rules, "", "GET", "/auth/sendOTP"), Some("/*"));
    assert_eq!(taken(&rules, "", "HEAD", "/get"), Some("/get"));
    assert_eq!(taken(&rules, "", "POST", "/get"), Some("/*"));
}

#[test]
fn a_dead_end_below_text_comes_back_to_the_parameter() {
    assert_eq!(
        by_path(&["/a/{x}/c", "/{x}/b/d"], "/a/b/d").as_deref(),
        Some("/{x}/b/d")
    );
    assert_eq!(
        by_path(&["/a/b/c/d", "/a/{x}/*"], "/a/b/c/e").as_deref(),
        Some("/a/{x}/*")
    );
}

#[test]
fn an_exact_host_wins_over_any_and_falls_back_to_it() {
    let rules = [
        route(None, &[], "/a"),
        route(Some("a.test"), &[], "/*"),
        route(Some("B.test."), &[Method::PUT], "/a"),
    ];
    assert_eq!(taken(&rules, "a.test", "GET", "/a"), Some("/*"));
    assert_eq!(taken(&rules, "b.test", "GET", "/a"), Some("/a"));
    assert_eq!(taken(&rules, "c.test", "GET", "/a"), Some("/a"));
    assert_eq!(taken(&rules, "", "GET", "/b"), None);
}

/// Goal: `*.example.com` is every name under it and not the name itself. Method: hosts at several depths, beside exact ones.
#[test]
fn the_longer_wildcard_wins_and_an_exact_host_over_both() {
    let rules = [
        route(None, &[], "/0"),
        route(Some("*.test"), &[], "/*"),
        route(Some("*.a.test"), &[], "/1"),
        route(Some("x.a.test"), &[Method::PUT], "/1"),
    ];
    assert_eq!(taken(&rules, "x.a.test", "PUT", "/1"), Some("/1"));
    assert_eq!(taken(&rules, "y.x.a.test", "GET", "/1"), Some("/1"));
    assert_eq!(taken(&rules, "x.a.test", "GET", "/2"), Some("/*"));
    assert_eq!(taken(&rules, "a.test", "GET", "/1"), Some("/*"));
    assert_eq!(taken(&rules, "test", "GET", "/1"), None);
    assert_eq!(taken(&rules, "atest", "GET", "/1"), None);
    assert_eq!(taken(&rules, "x.other", "GET", "/0"), Some("/0"));
    let deep = format!("{}a.test", "x.".repeat(120));
    assert_eq!(taken(&rules, &deep, "GET", "/1"), Some("/1"));
}

/// Goal: an expression precedes patterns, and text precedes expressions; no spelling bypasses it. Method: paths that all three
/// match, and spellings of one of them.
#[test]
fn an_expression_wins_over_patterns_and_text_over_expressions() {
    let patterns = ["/v1/{x}", "/v1/*", "/*", "~ ^/v[0-9]+/otp$", "/v2/otp"];
    for (path, winner) in [
        ("/v1/otp", "~ ^/v[0-9]+/otp$"),
        ("/v1/otp/", "~ ^/v[0-9]+/otp$"),
        ("/v1//./o%74p;x=1", "~ ^/v[0-9]+/otp$"),
        ("/v2/otp", "/v2/otp"),
        ("/v1/otpx", "/v1/{x}"),
        ("/v1/otp/x", "/v1/*"),
        ("/x/v1/otp", "/*"),
        ("/v/otp", "/*"),
    ] {
        assert_eq!(by_path(&patterns, path).as_deref(), Some(winner), "{path}");
    }
    let rules: Vec<_> = patterns.iter().map(|path| route(None, &[], path)).collect();
    let routes = RouteTable::compile(&rules, USUAL_BODY);
    for path in ["/v1%2Fotp", "/v1/x/../otp", "/v1\\otp"] {
        let path = NormalPath::parse(path).unwrap();
        let headers = ReceivedFields::new();
        let found = routes.find("", &path, &asked(&Method::GET, &headers));
        assert!(found.is_err(), "{path:?}: {found:?}");
    }
}

/// Goal: the conditions rank as the reference says, and the candidates report why. Method: one route for each condition.
#[test]
fn the_client_ranks_before_headers_and_these_before_the_query() {
    let mut rules: Vec<RouteRules> = (0..5).map(|_| route(None, &[], "/a")).collect();
    rules[0].matches.query = vec![QueryCondition {
        name: "page".into(),
        value: Some("2".into()),
    }];
    rules[1].matches.headers = vec![(
        HeaderName::from_static("x-plan"),
        HeaderValue::from_static("free"),
    )];
    rules[2].matches.client.of = vec!["10.0.0.0/8".parse().unwrap()];
    rules[3].matches.client.of = vec!["10.1.0.0/16".parse().unwrap()];
    let routes = RouteTable::compile(&rules, USUAL_BODY);
    let path = NormalPath::parse("/a").unwrap();
    let mut headers = ReceivedFields::new();
    headers.insert(
        HeaderName::from_static("x-plan"),
        HeaderValue::from_static("free"),
    );
    let from = |client: &str| RequestFields {
        query: "page=2",
        client: client.parse().unwrap(),
        place: None,
        crawler: None,
        ..asked(&Method::GET, &headers)
    };
    assert_eq!(routes.find("", &path, &from("10.1.0.1")), Ok(Some(3)));
    assert_eq!(routes.find("", &path, &from("10.2.0.1")), Ok(Some(2)));
    assert_eq!(routes.find("", &path, &from("192.0.2.1")), Ok(Some(1)));
    let candidates = routes.candidates("", &path, &from("192.0.2.1"));
    let told: Vec<_> = candidates
        .iter()
        .map(|candidate| (candidate.route, candidate.objection, candidate.wins_by))
        .collect();
    assert_eq!(
        told,
        [
            (3, Some(RouteCondition::Client), Some(RankCriterion::Client)),
            (2, Some(RouteCondition::Client), Some(RankCriterion::Client)),
            (1, None, Some(RankCriterion::Headers)),
            (0, None, Some(RankCriterion::Query)),
            (4, None, None),
        ]
    );
}

/// Goal: the listener ranks before the client, and fewer names before more. Method: one path by both of two listeners, by one, and by any.
#[test]
fn a_route_of_fewer_listeners_wins() {
    let mut rules: Vec<RouteRules> = (0..4).map(|_| route(None, &[], "/a")).collect();
    rules[0].matches.client.of = vec!["192.0.2.0/24".parse().unwrap()];
    rules[1].matches.listeners = vec!["inside".into(), "outside".into()];
    rules[2].matches.listeners = vec!["inside".into()];
    let routes = RouteTable::compile(&rules, USUAL_BODY);
    let path = NormalPath::parse("/a").unwrap();
    let headers = ReceivedFields::new();
    for (listener, found) in [
        (RequestListener::Known(Some("inside")), 2),
        (RequestListener::Known(Some("outside")), 1),
        (RequestListener::Known(Some("other")), 0),
        (RequestListener::Known(None), 0),
        (RequestListener::Unknown, 2),
    ] {
        let asked = RequestFields {
            listener,
            ..asked(&Method::GET, &headers)
        };
        assert_eq!(
            routes.find("", &path, &asked),
            Ok(Some(found)),
            "{listener:?}"
        );
        let first = routes.candidates("", &path, &asked);
        let first = first.iter().find(|candidate| candidate.objection.is_none());
        assert_eq!(first.map(|candidate| candidate.route), Some(found));
    }
}

#[test]
fn more_headers_win_then_methods_then_the_order_of_the_file() {
    let mut rules: Vec<RouteRules> = (0..5).map(|_| route(None, &[], "/a")).collect();
    rules[2].matches.methods = vec![Method::GET];
    rules[3].matches.headers = vec![(
        HeaderName::from_static("x-plan"),
        HeaderValue::from_static("free"),
    )];
    rules[4].matches.methods = vec![Method::HEAD];
    let routes = RouteTable::compile(&rules, USUAL_BODY);
    let path = NormalPath::parse("/a").unwrap();
    let mut headers = ReceivedFields::new();
    assert_eq!(
        routes.find("", &path, &asked(&Method::PUT, &headers)),
        Ok(Some(0))
    );
    assert_eq!(
        routes.find("", &path, &asked(&Method::GET, &headers)),
        Ok(Some(2))
    );
    assert_eq!(
        routes.find("", &path, &asked(&Method::HEAD, &headers)),
        Ok(Some(4))
    );
    headers.insert(
        HeaderName::from_static("x-plan"),
        HeaderValue::from_static("free"),
    );
    assert_eq!(
        routes.find("", &path, &asked(&Method::GET, &headers)),
        Ok(Some(3))
    );
}

#[test]
fn a_pattern_deeper_than_the_bound_keeps_its_limit_as_a_tail() {
    let deep = "/a".repeat(sluicegate_base::bounds::PATH_SEGMENTS + 50);
    assert_eq!(by_path(&[&deep, "/*"], &deep), Some(deep.clone()));
    assert_eq!(by_path(&["/a", "/*"], &deep).as_deref(), Some("/*"));
}

#[test]
fn a_path_that_two_origins_read_differently_is_refused_where_it_matters() {
    let find = |patterns: &[&str], path: &str| {
        let rules: Vec<RouteRules> = patterns.iter().map(|path| route(None, &[], path)).collect();
        RouteTable::compile(&rules, USUAL_BODY).find(
            "",
            &NormalPath::parse(path).unwrap(),
            &asked(&Method::GET, &ReceivedFields::new()),
        )
    };
    // Both readings of an encoded slash reach `/*`, or the route names them itself.
    assert_eq!(
        find(&["/auth/sendOTP", "/*"], "/projects/group%2Fproject"),
        Ok(Some(1))
    );
    assert_eq!(
        find(&["/projects/*", "/*"], "/projects/group%2Fproject"),
        Ok(Some(0))
    );
    assert_eq!(
        find(&["/projects/{id}", "/*"], "/projects/group%2Fproject"),
        Err(AmbiguousPath {
            normal: 0,
            other: Some(1)
        })
    );
    assert_eq!(
        find(&["/projects/{id}"], "/projects/group%2Fproject"),
        Err(AmbiguousPath {
            normal: 0,
            other: None
        })
    );
    // An origin that does not resolve dots would run the application that is mounted at /auth.
    assert_eq!(
        find(&["/auth/*", "/static/*"], "/auth/../static/x"),
        Err(AmbiguousPath {
            normal: 1,
            other: Some(0)
        })
    );
    assert_eq!(
        find(&["/auth/sendOTP", "/static/*"], "/static/x/../y"),
        Ok(Some(1))
    );
    // A decoy that outranks the target in one reading.
    let routes = ["/auth/sendOTP", "/static/fine/{x}/*", "/*"];
    for path in [
        "/static/fine/x/..%2F..%2F..%2Fauth%2FsendOTP",
        "/auth/sendOTP;%2F..%2F..%2Fstatic%2Ffine%2Fx%2Fy",
        "/static/fine/x/../../../auth/sendOTP",
        "/static/fine/x/..%5c..%5C..\\auth\\sendOTP",
    ] {
        assert!(find(&routes, path).is_err(), "{path}");
    }
}

#[test]
fn routes_that_treat_a_request_alike_may_stand_for_each_other() {
    let mut rules = [route(None, &[], "/projects/{id}"), route(None, &[], "/*")];
    rules[1].limits = rules[0].limits.clone();
    let path = NormalPath::parse("/projects/group%2Fproject").unwrap();
    let routes = RouteTable::compile(&rules, USUAL_BODY);
    assert_eq!(
        routes.find("", &path, &asked(&Method::GET, &ReceivedFields::new())),
        Ok(Some(0))
    );
}
