//! Compares the route table with an oracle: every route is checked, segment by segment, and the greatest rank wins.

use super::*;

fn oracle(
    rules: &[RouteRules],
    host: &str,
    path: &str,
    asked: &RequestFields<'_>,
) -> Option<usize> {
    let mut best: Option<(RouteRank, usize)> = None;
    for (index, rules) in rules.iter().enumerate() {
        let matches = &rules.matches;
        let fits = match &matches.host {
            None => true,
            Some(HostMatch::Exact(name)) => **name == *host,
            Some(HostMatch::Under(parent)) => host.ends_with(&format!(".{parent}")),
        };
        let fits_path = match &matches.regex {
            Some(regex) => {
                let is_match = |path: &str| by_hand(regex.as_str(), path);
                is_match(path) || is_match(path.strip_suffix('/').unwrap_or(path))
            }
            None => takes(&CompiledPattern::compile(&matches.path, matches.case), path),
        };
        if !fits || !fits_path {
            continue;
        }
        for entry in RouteEntry::compile(index, matches).filter(|entry| entry.takes(asked)) {
            if best
                .as_ref()
                .is_none_or(|(greatest, _)| entry.summary > *greatest)
            {
                best = Some((entry.summary, index));
            }
        }
    }
    best.map(|(_, index)| index)
}

/// Matches the expressions that [`rules`] makes, without an engine.
fn by_hand(regex: &str, path: &str) -> bool {
    match regex {
        "^/.*$" => path.starts_with('/'),
        "^/a/.*$" => path.starts_with("/a/"),
        "^/[ab]$" => ["/a", "/b"].contains(&path),
        "^/(a|b/a)/b$" => ["/a/b", "/b/a/b"].contains(&path),
        other => unreachable!("{other}"),
    }
}

fn takes(pattern: &CompiledPattern, path: &str) -> bool {
    let mut segments: Vec<&str> = path.split('/').skip(1).collect();
    let slash = segments.pop_if(|last| last.is_empty()).is_some();
    let steps = pattern.steps.len();
    let begins_alike = pattern
        .steps
        .iter()
        .zip(&segments)
        .all(|(step, segment)| match step {
            PatternSegment::Literal(text) => **text == **segment,
            PatternSegment::Parameter => true,
        });
    begins_alike
        && match pattern.end {
            PatternEnd::Exact => segments.len() == steps,
            PatternEnd::Slash => segments.len() == steps && slash,
            PatternEnd::Tail => segments.len() > steps || (segments.len() == steps && slash),
        }
}

fn rules() -> impl Strategy<Value = Vec<RouteRules>> {
    let segment = prop_oneof![3 => Just("a"), 3 => Just("b"), 2 => Just("{x}")];
    let path = (
        prop::collection::vec(segment, 0..5),
        prop_oneof![3 => Just(""), 2 => Just("/*"), 1 => Just("/")],
    );
    let path = path.prop_map(|(segments, end)| {
        let text: String = segments
            .iter()
            .flat_map(|segment| ["/", segment])
            .chain([end])
            .collect();
        if text.is_empty() {
            "/".to_owned()
        } else {
            text
        }
    });
    let path = prop_oneof![
        4 => path,
        1 => prop::sample::select(vec!["~ ^/a/.*$", "~ ^/[ab]$", "~ ^/(a|b/a)/b$", "~ ^/.*$"]).prop_map(str::to_owned),
    ];
    let host = prop::option::of(prop::sample::select(vec![
        "a.test",
        "b.test",
        "*.test",
        "*.b.test",
        "*.c.b.test",
    ]));
    let methods = prop::sample::subsequence(vec![Method::GET, Method::POST, Method::HEAD], 0..=2);
    let headers = prop::sample::subsequence(vec!["x-a", "x-b"], 0..=2);
    let one = (host, methods, path, headers).prop_map(|(host, methods, path, headers)| {
        let mut route = route(host, &methods, &path);
        route.matches.headers = headers
            .into_iter()
            .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("1")))
            .collect();
        route
    });
    prop::collection::vec(one, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_trie_finds_what_asking_every_route_finds(
        rules in rules(),
        requests in prop::collection::vec(("(/[abc]){0,5}/?", 0usize..7, 0usize..4, 0u8..4), 20),
    ) {
        let routes = RouteTable::compile(&rules, USUAL_BODY);
        for (path, host, method, fields) in requests {
            let path = if path.is_empty() { "/".to_owned() } else { path };
            let host = ["a.test", "b.test", "c.test", "x.b.test", "y.c.b.test", "test", ""][host];
            let method = [Method::GET, Method::POST, Method::HEAD, Method::PUT][method].clone();
            let mut headers = ReceivedFields::new();
            for (bit, name) in [(1, "x-a"), (2, "x-b")] {
                if fields & bit != 0 {
                    headers.insert(HeaderName::from_static(name), HeaderValue::from_static("1"));
                }
            }
            let normal = NormalPath::parse(&path).unwrap();
            let found = routes.find(host, &normal, &asked(&method, &headers));
            let candidates = routes.candidates(host, &normal, &asked(&method, &headers));
            let first = candidates.iter().find(|candidate| candidate.objection.is_none());
            prop_assert_eq!(found, Ok(first.map(|candidate| candidate.route)));
            prop_assert_eq!(found, Ok(oracle(&rules, host, &path, &asked(&method, &headers))), "{} {}{}", method, host, path);
        }
    }

    #[test]
    fn whichever_way_an_origin_reads_a_path_its_route_is_the_one_applied(
        rules in rules(),
        path in "(/(a|b|c|\\.\\.|%2e%2E|\\.|a%2[fF]b|\\.\\.%2fa|b%5c|a;b|;|\\\\)?){1,6}",
    ) {
        // Goal: an attacker cannot choose between readings. Method: each reading is made here by hand, and routed alone.
        let routes = RouteTable::compile(&rules, USUAL_BODY);
        let parsed = NormalPath::parse(&path);
        // A path that can be read in too many ways is rejected.
        prop_assume!(!matches!(parsed, Err(PathError::Manifold)));
        let normal = parsed.unwrap();
        let method = Method::GET;
        let headers = ReceivedFields::new();
        if let Ok(Some(found)) = routes.find("a.test", &normal, &asked(&method, &headers)) {
            for split in [false, true] {
                for climb in [false, true] {
                    let reading = spellings::read(&path, split, climb);
                    let by_reading = oracle(&rules, "a.test", &reading, &asked(&method, &headers));
                    let alike = by_reading.is_some_and(|other| routes.stands_for(found, other));
                    prop_assert!(alike, "{} as {}: {} or {:?}", path, reading, found, by_reading);
                }
            }
        }
    }
}
