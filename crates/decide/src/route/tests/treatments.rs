//! Tests that no spelling of a path gives a request the treatment of another route.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use sluicegate_config::rules::{
    CertificateNeed, ClientNoCache, CookieMeaning, FieldEdits, Name, QueryCondition, RefusalRules,
    RouteCacheRules, ShapeRules, Slot, Template,
};

use super::*;

/// Returns a route without limits.
fn unlimited(path: &str) -> RouteRules {
    RouteRules {
        limits: Vec::new(),
        ..route(None, &[], path)
    }
}

fn cache() -> RouteCacheRules {
    RouteCacheRules {
        max_object_bytes: None,
        default_ttl: Some(Duration::from_secs(60)),
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: Duration::ZERO,
        statuses: Vec::new(),
        cookies: CookieMeaning::Ignored,
        ignore_client_no_cache: ClientNoCache::Granted,
        vary_on: Vec::new(),
    }
}

fn refusal() -> Arc<RefusalRules> {
    Arc::new(RefusalRules {
        status: StatusCode::FORBIDDEN,
        body: None,
        alternatives: Vec::new(),
        headers: Vec::new(),
    })
}

/// Returns a shape that sets a field for origins.
fn setting(template: Template) -> Arc<ShapeRules> {
    let request = FieldEdits {
        set: vec![(HeaderName::from_static("x-role"), template)],
        ..FieldEdits::default()
    };
    Arc::new(ShapeRules {
        request,
        ..ShapeRules::default()
    })
}

/// One property that a route has and its neighbor lacks.
type Property = (&'static str, fn(&mut RouteRules));

/// Properties that another route must not get.
const GRANTS: [Property; 10] = [
    ("cache", |route| route.cache = Some(cache())),
    ("shape", |route| {
        route.shape = Some(setting(Template::Fixed(HeaderValue::from_static(
            "service",
        ))));
    }),
    ("name", |route| {
        route.shape = Some(setting(Template::Filled(vec![Slot::Route])))
    }),
    ("origin", |route| {
        route.action = RouteAction::Forward("other".into())
    }),
    ("allow", |route| route.lists.allow = vec!["friends".into()]),
    ("no certificate", |route| {
        route.require.client_certificate = CertificateNeed::NotNeeded;
    }),
    ("larger bodies", |route| {
        route.max_body_bytes = Some(USUAL_BODY + 1)
    }),
    ("other limits", |route| route.limits = vec!["other".into()]),
    ("no limits", |route| route.limits.clear()),
    ("refusal of its limits", |route| {
        route.refusal = Some(refusal())
    }),
];

/// Gives the first of two routes a property that the second lacks.
fn grant_to_first(property: &str, grant: fn(&mut RouteRules), rules: &mut [RouteRules; 2]) {
    if property.contains("limits") {
        rules
            .iter_mut()
            .for_each(|route| route.limits = vec!["one".into()]);
    }
    if property == "no certificate" {
        rules[1].require.client_certificate = CertificateNeed::Required;
    }
    grant(&mut rules[0]);
    if property == "name" {
        // Its neighbor writes its own name.
        grant(&mut rules[1]);
    }
}

/// Spellings of a path below `/static` that origins read as `/account`.
const SPELLINGS: [&str; 16] = [
    "/static/..%2faccount",
    "/static/..%2Faccount",
    "/static/%2e%2e%2faccount",
    "/static/%2e%2e/account",
    "/static/../account",
    "/static/x%2f..%2f..%2faccount",
    "/static/..%5caccount",
    "/static\\..\\account",
    "/static/..;/account",
    "/static/..%3b/..%2faccount",
    "/static/..%252faccount",
    "/static/.%2e/account/x/..",
    "//static/account",
    "/static%2f..%2faccount",
    "/static/index.php/account",
    "/static/x/..;a=b/..%2faccount",
];

fn find(rules: &[RouteRules], path: &str) -> Option<Result<Option<usize>, AmbiguousPath>> {
    let path = NormalPath::parse(path).ok()?;
    let routes = RouteTable::compile(rules, USUAL_BODY);
    Some(routes.find("", &path, &asked(&Method::GET, &ReceivedFields::new())))
}

/// Goal: no spelling gets a page the treatment of another path: not its cache, its fields, its origin, its friends. Method: two routes that
/// differ in one property, and paths that origins read as one of either; the path is rejected, or has the route without the property.
#[test]
fn no_property_of_a_route_is_given_to_the_path_of_another() {
    for (property, grant) in GRANTS {
        let mut rules = [unlimited("/static/*"), unlimited("/*")];
        grant_to_first(property, grant, &mut rules);
        assert_eq!(find(&rules, "/static/x"), Some(Ok(Some(0))), "{property}");
        assert_eq!(find(&rules, "/account"), Some(Ok(Some(1))), "{property}");
        for path in SPELLINGS {
            let found = find(&rules, path);
            // The route without the property may take it, where it is as strict.
            let is_refused = matches!(found, None | Some(Err(_) | Ok(Some(1))));
            // An application at another origin has a front controller, and endings of names, of its own.
            let is_of_script = path.contains("index.php") || path.contains("%3b");
            let is_elsewhere = property == "origin" && is_of_script;
            assert!(is_refused || is_elsewhere, "{property} {path}: {found:?}");
        }
    }
}

/// Goal: sites with a cached folder keep their real clients. Method: paths of files, of encoded names and of double slashes, beside a
/// cached route, and routes that treat requests alike.
#[test]
fn ordinary_paths_beside_a_cached_route_have_their_route() {
    let mut rules = [unlimited("/static/*"), unlimited("/*")];
    rules[0].cache = Some(cache());
    for (path, route) in [
        ("/static/app.js", 0),
        ("/static/app.min.js?v=1", 0),
        ("/static//img///x.png", 0),
        ("/static/./x.png", 0),
        ("/static/a%20b%C3%A9.png", 0),
        ("/static/a%2Fb.png", 0),
        ("/static/@scope%2fname", 0),
        ("/static/app.css;v=1", 0),
        ("/static/", 0),
        ("/static", 1),
        ("/", 1),
        ("/account//orders", 1),
        ("/api/v4/projects/group%2Fproject", 1),
        ("/@scope%2fname", 1),
        ("/a;jsessionid=1", 1),
        ("/x/../account", 1),
        ("/index.php/account", 1),
        ("/caf%C3%A9/100%25", 1),
    ] {
        assert_eq!(find(&rules, path), Some(Ok(Some(route))), "{path}");
    }
    rules[1].cache = rules[0].cache.clone();
    for path in SPELLINGS {
        let found = find(&rules, path);
        assert!(matches!(found, None | Some(Ok(_))), "{path}: {found:?}");
    }
}

/// Goal: a route that checks more takes spellings of its path that some origin reads as a path with fewer checks. Method: a limited route
/// beside one without limits, and the reverse.
#[test]
fn a_route_with_more_checks_takes_spellings_of_its_own_path() {
    let mut rules = [unlimited("/auth/sendOTP"), unlimited("/*")];
    rules[0].limits = vec![Name::from("otp")];
    rules[0].refusal = Some(refusal());
    rules[0].lists.block = vec![Name::from("enemies")];
    rules[0].max_body_bytes = Some(1);
    rules[0].require.client_certificate = CertificateNeed::Required;
    for path in ["//auth/sendOTP", "/auth/sendOTP;x=1"] {
        assert_eq!(find(&rules, path), Some(Ok(Some(0))), "{path}");
    }
    for path in ["/auth%2FsendOTP", "/index.php/auth/sendOTP"] {
        assert!(matches!(find(&rules, path), Some(Err(_))), "{path}");
    }
}

/// Goal: no spelling of a query gives a request the treatment by a condition that some origin does not find met. Method: for each property
/// a route with it and a condition beside one without both, and queries that origins read as one of either.
#[test]
fn no_property_of_a_route_is_given_by_a_query_that_some_origin_reads_otherwise() {
    let find = |rules: &[RouteRules], query: &str| {
        let routes = RouteTable::compile(rules, USUAL_BODY);
        let headers = ReceivedFields::new();
        let asked = RequestFields {
            query,
            ..asked(&Method::GET, &headers)
        };
        routes.find("", &NormalPath::parse("/a").unwrap(), &asked)
    };
    for (property, grant) in GRANTS {
        let mut rules = [unlimited("/a"), unlimited("/a")];
        rules[1].name = Name::from("other");
        rules[0].matches.query = vec![QueryCondition {
            name: "mode".into(),
            value: Some("read".into()),
        }];
        grant_to_first(property, grant, &mut rules);
        for (query, route) in [
            ("mode=read", 0),
            ("x=1&mode=re%61d", 0),
            ("", 1),
            ("mode=write", 1),
            ("%ff=read&mode=write", 1),
            ("mode=write&x%20y=read", 1),
            ("a+b=%zz&mode=write", 1),
        ] {
            assert_eq!(find(&rules, query), Ok(Some(route)), "{property} {query}");
        }
        for query in [
            "mode=read&mode=write",
            "mode[]=read&mode=write",
            "mode=%u0&mode=write",
            "mode=write;mode=read",
            "mode=read%00",
            "Mode=read",
        ] {
            let found = find(&rules, query);
            assert!(found.is_err(), "{property} {query}: {found:?}");
        }
    }
    let mut rules = [unlimited("/a"), unlimited("/a")];
    rules[0].limits = vec![Name::from("otp")];
    rules[0].matches.query = vec![QueryCondition {
        name: "mode".into(),
        value: None,
    }];
    for query in ["mode=1&mode=2", "Mode=1", "mode%00=1"] {
        assert_eq!(find(&rules, query), Ok(Some(0)), "{query}");
    }
}
