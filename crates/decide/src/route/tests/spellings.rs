//! Tests spellings of one path, and the properties of the normal form.

use sluicegate_base::path::{LiteralError, literal};
use sluicegate_base::received::ReceivedFields;

use super::*;

/// Returns a reading of a path made with lists instead of one pass.
pub(super) fn read(path: &str, split: bool, climb: bool) -> String {
    let decoded = path
        .replace("%2e", ".")
        .replace("%2E", ".")
        .replace("%2f", "%2F")
        .replace("%5c", "%5C")
        .replace('\\', "%5C");
    let separated = if split {
        decoded.replace("%2F", "/").replace("%5C", "/")
    } else {
        decoded
    };
    let mut stack: Vec<&str> = Vec::new();
    let mut open = false;
    for segment in separated.split('/').skip(1) {
        let segment = segment.split(';').next().unwrap();
        open = match segment {
            "" | "." => true,
            ".." if !climb || stack.is_empty() => {
                stack.pop();
                true
            }
            _ => {
                stack.push(segment);
                false
            }
        };
    }
    let text: String = stack.iter().flat_map(|segment| ["/", segment]).collect();
    if open { text + "/" } else { text }
}

#[test]
fn a_path_that_is_limited_without_its_ending_is_refused() {
    // Goal: an ending that an origin may cut bypasses no limit, and pages with endings are found. Method: paths beside a limited one, at
    // its origin and at another one.
    let limited = route(None, &[], "/auth/sendOTP");
    let mut rest = route(None, &[], "/*");
    rest.limits.clear();
    let mut elsewhere = rest.clone();
    elsewhere.action = RouteAction::Forward("other".into());
    let find = |rest: &RouteRules, method: Method, path: &str| {
        RouteTable::compile(&[limited.clone(), rest.clone()], USUAL_BODY).find(
            "",
            &NormalPath::parse(path).unwrap(),
            &asked(&method, &ReceivedFields::new()),
        )
    };
    let refused = Err(AmbiguousPath {
        normal: 1,
        other: Some(0),
    });
    for (path, get, post) in [
        ("/auth/sendOTP.", refused, refused),
        ("/auth./sendOTP", refused, refused),
        ("/auth/sendOTP%20", refused, refused),
        ("/auth/sendOTP%3bx=1", refused, refused),
        ("/auth/sendOTP.;x", refused, refused),
        ("/auth/sendOTP.json", Ok(Some(1)), refused),
        ("/auth/sendotp.x.y/", Ok(Some(1)), refused),
        ("/x/index.php/auth/sendOTP.json", Ok(Some(1)), refused),
        ("/auth/%2573endOTP.json", Ok(Some(1)), refused),
        ("/auth/sendOTP/x.json", Ok(Some(1)), Ok(Some(1))),
        ("/auth.x/sendOTP", Ok(Some(1)), Ok(Some(1))),
        ("/images/x.png", Ok(Some(1)), Ok(Some(1))),
    ] {
        assert_eq!(find(&rest, Method::GET, path), get, "GET {path}");
        assert_eq!(find(&rest, Method::POST, path), post, "POST {path}");
    }
    let found = find(&elsewhere, Method::POST, "/auth/sendOTP.json");
    assert_eq!(found, Ok(Some(1)));
}

#[test]
fn every_spelling_of_a_limited_path_is_limited_or_refused() {
    // Goal: no spelling that a common origin takes for /auth/sendOTP reaches it by another route. Method: `true` must find the
    // limited route; `false` may be an error, since origins disagree about it or none needs it.
    let mut rules = [
        route(None, &[Method::POST], "/auth/sendOTP"),
        route(None, &[], "/*"),
    ];
    rules[1].limits.clear();
    let routes = RouteTable::compile(&rules, USUAL_BODY);
    for (spelling, lands) in [
        ("/auth/sendOTP", true),
        ("/auth/sendOTP/", true),
        ("/auth/sendOTP//", true),
        ("/auth/sendOTP?", true),
        ("/auth/sendOTP?x=/../..", true),
        ("/auth/sendOTP#x", true),
        ("//auth/sendOTP", true),
        ("/auth//sendOTP", true),
        ("///auth///sendOTP///", true),
        ("/./auth/sendOTP", true),
        ("/auth/./sendOTP", true),
        ("/auth/././sendOTP/.", true),
        ("/%2e/auth/%2E/sendOTP", true),
        ("/../auth/sendOTP", true),
        ("/../../auth/sendOTP", true),
        ("/%2e%2e/auth/sendOTP", true),
        ("/.%2e/%2E./auth/sendOTP", true),
        ("/%61uth/sendOTP", true),
        ("/%61%75%74%68/%73%65%6e%64%4f%54%50", true),
        ("/%61%75%74%68/%73%65%6E%64%4F%54%50", true),
        ("/auth/send%4fTP", true),
        ("/auth/sendOTP;", true),
        ("/auth/sendOTP;jsessionid=1", true),
        ("/auth/sendOTP;a=1;b=2", true),
        ("/auth;x=y/sendOTP", true),
        ("/;/auth/sendOTP", true),
        ("/;x/;y/auth/;z/sendOTP", true),
        ("/auth/sendOTP/;x", true),
        ("/auth/.;x/sendOTP", true),
        ("/auth/%2e;x=%20/sendOTP", true),
        ("/..;/auth/sendOTP", true),
        ("/auth/sendOTP/.;a?b", true),
        ("/auth/../auth/sendOTP", false),
        ("/other/../auth/sendOTP", false),
        ("/a/b/../../auth/sendOTP", false),
        ("/a/b/..;x/%2e%2e/auth/sendOTP", false),
        ("/auth/x/../sendOTP", false),
        ("/auth/sendOTP/x/..", false),
        ("/auth/sendOTP/../sendOTP", false),
        ("/auth%2FsendOTP", false),
        ("/auth%2fsendOTP", false),
        ("/%2Fauth/sendOTP", false),
        ("/auth/sendOTP%2F", false),
        ("/auth\\sendOTP", false),
        ("/auth%5CsendOTP", false),
        ("/auth/x%2f..%2fsendOTP", false),
        ("/auth/x%2f%2e%2e/sendOTP", false),
        ("/auth/sendOTP;%2f..%2f..%2fx", false),
        ("/x/..%2f;/auth/sendOTP;%2f%2e%2E", false),
        ("/..%2f;/auth/sendOTP;%2f%2e%2E", false),
        ("/..%2f;/auth/sendOTP;%5c..", false),
        ("/auth%2fsendOTP;%2fx", false),
        ("/..%5c;%5c\\auth\\sendOTP;%5c..", false),
        ("//x/auth/sendOTP", false),
        ("/\\x/auth/sendOTP", false),
        ("///x:80/auth/sendOTP", false),
        ("//@/auth/sendOTP", false),
        ("/.//x/auth/sendOTP", false),
        ("//x/..//y/auth/sendOTP", false),
        ("/auth//../sendOTP", false),
        ("/auth/..;/../sendOTP", false),
        ("/auth/;x/../sendOTP", false),
        ("//auth/sendOTP/.%2e/..", false),
        ("/auth/%2e/../sendOTP", false),
        ("/auth/%2E%2e/../sendOTP", false),
        ("/auth\\%2e\\..\\sendOTP", false),
        ("/auth/x;/%2e/..//../sendOTP", false),
        ("/auth/a%2fb\\..\\sendOTP", false),
        ("/auth/sendOTP;/x/y", false),
        ("/index.php/auth/sendOTP", false),
        ("/%3f/index.php/auth/sendOTP%3f", false),
        ("/x/App.PHP/auth/sendOTP", false),
        ("/?/auth/sendOTP", false),
        ("/index.php?/auth/sendOTP&x", false),
        ("/auth/\u{17f}endOTP", false),
        ("/auth/%c5%bfendOTP", false),
        ("//x/auth%2f%C5%BFendOTP", false),
        ("/auth/%25C5%25BFendOTP", false),
        ("/x\\..?/auth/sendOTP", false),
        ("//x?/auth/sendOTP", false),
        ("/%2fx?/auth/sendOTP", false),
        ("/x/..;/?/auth/sendOTP", false),
        ("/auth/index.php/sendOTP", false),
        ("/auth/?/sendOTP", false),
        ("/auth?/sendOTP/", false),
        ("/auth/index.php?/sendOTP", false),
        ("/auth/index.php?//sendOTP&x", false),
        ("/auth%2f?/x/../sendOTP", false),
        ("/auth/sendOTP/(S(x))", false),
        ("/(S(x;y))/auth/sendOTP", false),
        ("/(S(x)A(;))/auth/sendOTP", false),
        ("/(S(x%252f))/auth/sendOTP%252f", false),
        ("/%2561uth/sendOTP", false),
        ("/%25%36%31uth/sendOTP", false),
        ("/%252561uth/sendOTP", false),
        ("/%25252561uth/sendOTP", false),
        ("/auth%252FsendOTP", false),
        ("/x:;y\\../auth/sendOTP%252f", false),
        ("/x;y\\..\\auth/send%254fTP", false),
        ("/x/%252e%252e/auth/sendOTP", false),
        ("/x%252F..%252Fauth/sendOTP", false),
        ("/auth/sendOTP%2500", false),
        ("/auth%c0%afsendOTP", false),
        ("/x/%c0%ae%c0%ae/auth/sendOTP", false),
        ("/auth%e0%80%afsendOTP", false),
        ("/auth%f0%80%80%afsendOTP", false),
        ("/%c1%a1uth/sendOTP", false),
        ("/auth/sendOTP%00", false),
        ("/auth/sendOTP%0a", false),
        ("/auth/sendOTP%09", false),
        ("/auth/sendOTP\0", false),
        ("/auth/sendOTP\x7f", false),
        ("/auth/sendOTP%", false),
        ("/auth/sendOTP%2", false),
        ("/auth/sendOTP%zz", false),
        ("/auth/sendOTP;%g0", false),
        ("/auth/send%FFOTP", false),
        ("/%80auth/sendOTP", false),
        ("/auth/sendOTP%C3", false),
        ("/auth/send%u004fTP", false),
        ("auth/sendOTP", false),
        ("%2Fauth/sendOTP", false),
        ("", false),
        ("*", false),
    ] {
        let path = NormalPath::parse(spelling);
        let found = path.as_ref().ok().map(|path| {
            routes.find(
                "a.test",
                path,
                &asked(&Method::POST, &ReceivedFields::new()),
            )
        });
        if lands {
            assert_eq!(found, Some(Ok(Some(0))), "{spelling:?}");
            assert_eq!(path.unwrap().key(), "/auth/sendOTP", "{spelling:?}");
        } else {
            assert!(
                matches!(found, None | Some(Err(_) | Ok(Some(0)))),
                "{spelling:?}: {found:?}"
            );
        }
    }
}

#[test]
fn a_front_controller_may_lie_below_a_path_of_its_own() {
    // Goal: an application that is served below a prefix keeps its addresses. Method: a prefix with an origin of its own beside a
    // limited path of another.
    let mut rules = [
        route(None, &[], "/auth/sendOTP"),
        route(None, &[], "/api/*"),
        route(None, &[], "/*"),
    ];
    rules[1].limits.clear();
    rules[1].action = RouteAction::Forward("api".into());
    rules[2].limits.clear();
    let find = |rules: &[RouteRules], path| {
        let path = NormalPath::parse(path).unwrap();
        RouteTable::compile(rules, USUAL_BODY).find(
            "",
            &path,
            &asked(&Method::GET, &ReceivedFields::new()),
        )
    };
    assert_eq!(find(&rules, "/api/index.php/users"), Ok(Some(1)));
    assert_eq!(find(&rules[..2], "/api/index.php/users"), Ok(Some(1)));
    assert!(find(&rules, "/api/index.php/auth/sendOTP").is_err());
    assert!(find(&rules, "/api/index.php/auth/sendotp").is_err());
}

/// Goal: a route written for a front controller takes it, and hides nothing behind it. Method: `/index.php` beside `/*` with other limits,
/// and spellings by which it could be another path.
#[test]
fn a_front_controller_has_a_route_of_its_own() {
    let mut rules = [
        route(None, &[], "/index.php"),
        route(None, &[], "/auth/sendOTP"),
        route(None, &[], "/shop/index.php"),
        route(None, &[], "/*"),
    ];
    rules[0].limits = vec!["pages".into()];
    rules[2].limits.clear();
    let table = RouteTable::compile(&rules, USUAL_BODY);
    let find = |target: &str| {
        let path = NormalPath::parse(target).unwrap();
        let fields = ReceivedFields::new();
        table.find("", &path, &asked(&Method::GET, &fields))
    };
    assert_eq!(find("/index.php"), Ok(Some(0)));
    assert_eq!(find("/INDEX.php?title=a/b"), Ok(Some(0)));
    assert_eq!(find("/shop/index.php"), Ok(Some(2)));
    assert_eq!(find("/app.php"), Ok(Some(3)));
    assert_eq!(find("/shop/index.php/x"), Ok(Some(3)));
    for target in [
        "/index.php/",
        "/index.php/auth/sendOTP",
        "/index.php?/auth/sendOTP",
        "/index.php?/",
        "/shop/index.php?/auth/sendOTP",
    ] {
        assert!(find(target).is_err(), "{target}");
    }
}

#[test]
fn a_path_that_means_something_else_stays_something_else() {
    for (path, normal) in [
        ("/auth/sendotp", "/auth/sendotp"),
        ("/auth/sendOTP%20", "/auth/sendOTP%20"),
        ("/auth/sendOTP.", "/auth/sendOTP."),
        ("/auth/...", "/auth/..."),
        ("/%2561uth", "/%2561uth"),
        ("/100%25", "/100%25"),
        ("/100%25zz", "/100%25zz"),
        ("/%c0-propos", "/%C0-propos"),
        ("/%E0%A4%85", "/%E0%A4%85"),
        ("/a%3Bb", "/a%3Bb"),
        ("/a%3fb%23c", "/a%3Fb%23c"),
        ("/caf\u{e9}{x}", "/caf%C3%A9%7Bx%7D"),
        ("/~u/a:b@c!$&'()*+,=", "/~u/a:b@c!$&'()*+,="),
        ("/%7Eu/a%3Ab%40c%21%24", "/~u/a:b@c!$"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("/..", "/"),
        ("/", "/"),
        ("/a/%2F", "/a/%2F"),
    ] {
        assert_eq!(NormalPath::parse(path).unwrap().as_str(), normal, "{path}");
    }
}

#[test]
fn the_key_of_a_path_is_one_for_all_its_spellings() {
    for (path, key) in [
        ("/", "/"),
        ("/a", "/a"),
        ("/a/", "/a"),
        ("/a%2Fb", "/a/b"),
        ("/a%5cb/", "/a/b"),
        ("/x/../a", "/a"),
        ("/%2561", "/a"),
        ("/%252561/b%252fc", "/a/b/c"),
        ("/(S(lit3py55))/a", "/a"),
        ("/%28S(x;y))/a/(F(z))", "/a"),
        ("/(S(x))/index.php/(A(y))/a", "/a"),
        ("/(S(x))", "/"),
        ("/k\u{131}sa/\u{212a}", "/kisa/k"),
        ("/a%FF/%80/b%C3", "/a/b"),
        ("/caf%C3%A9", "/caf%C3%A9"),
    ] {
        assert_eq!(NormalPath::parse(path).unwrap().key(), key, "{path}");
    }
}

#[test]
fn errors_say_where_they_are() {
    assert_eq!(NormalPath::parse("/a%4"), Err(PathError::Escape { at: 2 }));
    assert_eq!(
        NormalPath::parse("/a/%0d"),
        Err(PathError::Control { at: 3, byte: 13 })
    );
    assert_eq!(NormalPath::parse("a"), Err(PathError::NotAbsolute));
    // Decoded once, and as often again as servers may follow each other.
    assert!(NormalPath::parse("/%252561").is_ok());
    assert_eq!(NormalPath::parse("/%25252561"), Err(PathError::Nested));
}

#[test]
fn a_pattern_may_not_hold_text_that_no_request_can_equal() {
    assert_eq!(literal("caf\u{e9}").as_deref(), Ok("caf%C3%A9"));
    assert_eq!(literal("%61%3b").as_deref(), Ok("a%3B"));
    for text in [
        "", ".", "..", "%2e%2E", "a/b", "a%2Fb", "a\\b", "a%5c", "a;b", "a?b", "a#b",
    ] {
        assert_eq!(literal(text), Err(LiteralError::NotOneSegment), "{text}");
    }
    assert_eq!(
        literal("%zz"),
        Err(LiteralError::Path(PathError::Escape { at: 1 }))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_normal_form_is_its_own_and_borrowed(path in prop_oneof![
        "\\PC{0,30}",
        "(/|[ab.;%\\\\?~\u{e9}]|%2[eEfF5]|%5[cC]|%[67][0-9a-fA-F]|%[cC]3){0,20}",
    ]) {
        let path = format!("/{path}");
        if let Ok(normal) = NormalPath::parse(&path) {
            let again = NormalPath::parse(normal.as_str()).unwrap();
            prop_assert_eq!(again.as_str(), normal.as_str());
            prop_assert!(std::ptr::eq(again.as_str(), normal.as_str()), "it is borrowed");
            prop_assert!(normal.as_str().starts_with('/'));
            prop_assert!(!normal.as_str().contains("//"));
            prop_assert!(normal.as_str().split('/').all(|segment| segment != "." && segment != ".."));
        }
    }

    #[test]
    fn the_normal_form_is_what_lists_make_of_it(path in "(/(a|b|\\.\\.|%2e%2E|\\.|%2fa|b%5C|a;b|;|\\.;x)?){1,6}") {
        let parsed = NormalPath::parse(&path);
        // A path that can be read in too many ways is rejected.
        prop_assume!(!matches!(parsed, Err(PathError::Manifold)));
        let normal = parsed.unwrap();
        prop_assert_eq!(normal.as_str(), read(&path, false, false));
    }

    #[test]
    fn escaping_any_character_changes_nothing(path in "(/[a-zA-Z0-9~._-]{1,5}){1,4}", mask: u64) {
        let escaped: String = path.bytes().enumerate().map(|(at, byte)| {
            if byte != b'/' && mask >> (at % 64) & 1 == 1 { format!("%{byte:02x}") } else { char::from(byte).to_string() }
        }).collect();
        let escaped = NormalPath::parse(&escaped).unwrap();
        let plain = NormalPath::parse(&path).unwrap();
        prop_assert_eq!(escaped.as_str(), plain.as_str());
    }
}
