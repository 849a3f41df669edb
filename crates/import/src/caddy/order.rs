//! Decides in which order Caddy evaluates the directives of a block: by its table of directives, whatever their order in the file.

use std::cmp::Ordering;

use super::conditions::RequestMatcher;
use super::tree::CaddyDirective;

/// The order of Caddy's directives, with `rate_limit` where its module puts it.
const ORDER: [&str; 38] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "timeouts",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "rate_limit",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "route",
    "abort",
    "error",
    "copy_response",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "file_server",
    "acme_server",
];

/// Most directives of one name in a block that are ordered by their paths.
const ORDERED: usize = 2_000;

/// The order of directives, with the changes of `order`.
pub(super) struct DirectiveOrder {
    names: Vec<String>,
}

impl DirectiveOrder {
    pub(super) fn new() -> Self {
        Self {
            names: ORDER.map(str::to_owned).to_vec(),
        }
    }

    /// Applies `order NAME first`, `last`, `before OTHER` or `after OTHER`. Returns false if it is none of these.
    pub(super) fn change(&mut self, option: &CaddyDirective) -> bool {
        let name = normalized(option.word(0)).to_owned();
        let others = self.names.iter().filter(|it| **it != name);
        let mut names: Vec<String> = others.cloned().collect();
        let place = |offset: usize| {
            let other = normalized(option.word(2));
            let at = names.iter().position(|it| it == other);
            at.map(|at| at + offset)
        };
        let at = match option.word(1) {
            "first" => Some(0),
            "last" => Some(names.len()),
            "before" => place(0),
            "after" => place(1),
            _ => None,
        };
        let Some(at) = at else {
            return false;
        };
        names.insert(at, name);
        self.names = names;
        true
    }

    /// Sorts directives with their matchers as Caddy does.
    pub(super) fn sort<T>(
        &self,
        directives: &mut [T],
        key: impl Fn(&T) -> (&str, &RequestMatcher),
    ) {
        let rank = |name: &str| {
            let name = normalized(name);
            let found = self.names.iter().position(|it| it == name);
            found.unwrap_or(self.names.len())
        };
        directives.sort_by_key(|it| rank(key(it).0));
        let same = |one: &T, other: &T| normalized(key(one).0) == normalized(key(other).0);
        for group in directives.chunk_by_mut(same) {
            if group.len() > ORDERED {
                continue;
            }
            // The comparison is no order in all cases, so it is that of Caddy's sort: an insertion.
            for end in 1..group.len() {
                let mut at = end;
                while at > 0 && precedes(key(&group[at]).1, key(&group[at - 1]).1) {
                    group.swap(at, at - 1);
                    at -= 1;
                }
            }
        }
    }
}

/// Returns the name by which a directive is ordered.
fn normalized(name: &str) -> &str {
    match name {
        "handle_path" => "handle",
        "basicauth" => "basic_auth",
        name => name,
    }
}

/// Returns true if a directive goes before another one of its name: the longer path first, and matchers before none.
fn precedes(one: &RequestMatcher, other: &RequestMatcher) -> bool {
    let (Some(path), Some(of_other)) = (&one.path, &other.path) else {
        return one.is_some && !other.is_some;
    };
    let trimmed = path.strip_suffix('*').unwrap_or(path);
    let other_trimmed = of_other.strip_suffix('*').unwrap_or(of_other);
    match trimmed.len().cmp(&other_trimmed.len()) {
        Ordering::Greater => true,
        Ordering::Less => false,
        Ordering::Equal if trimmed == other_trimmed => path.len() < of_other.len(),
        Ordering::Equal => trimmed < other_trimmed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(order: &DirectiveOrder, lines: &[&str]) -> Vec<String> {
        let mut lines: Vec<(String, RequestMatcher)> = lines
            .iter()
            .map(|line| {
                let (name, path) = line.split_once(' ').unwrap_or((line, ""));
                let matcher = match path {
                    "" => RequestMatcher::all(),
                    "@" => RequestMatcher {
                        is_some: true,
                        ..RequestMatcher::all()
                    },
                    path => RequestMatcher::path(path),
                };
                (name.to_owned(), matcher)
            })
            .collect();
        order.sort(&mut lines, |(name, matcher)| (name.as_str(), matcher));
        let path = |matcher: &RequestMatcher| matcher.path.clone().unwrap_or_default();
        let shown = lines
            .iter()
            .map(|(name, it)| format!("{name} {}", path(it)));
        shown.map(|it| it.trim_end().to_owned()).collect()
    }

    /// Goal: the table decides, then paths. Method: directives in another order, paths of all kinds.
    #[test]
    fn directives_are_sorted_as_caddy_sorts_them() {
        let order = DirectiveOrder::new();
        assert_eq!(
            sorted(
                &order,
                &[
                    "reverse_proxy",
                    "handle",
                    "respond /a",
                    "rate_limit",
                    "handle_path /a/*",
                    "handle /a/b*",
                    "redir /x",
                    "handle /a/b",
                ]
            ),
            [
                "redir /x",
                "rate_limit",
                "handle /a/b",
                "handle /a/b*",
                "handle_path /a/*",
                "handle",
                "respond /a",
                "reverse_proxy",
            ]
        );
    }

    /// Goal: `order` moves a directive. Method: the place behind another one.
    #[test]
    fn order_changes_the_table() {
        let mut order = DirectiveOrder::new();
        let option = |words: &str| CaddyDirective {
            id: crate::ledger::Ledger::default()
                .enter(crate::position::Position::start(&"c".into()), "order"),
            name: "order".to_owned(),
            words: words.split(' ').map(str::to_owned).collect(),
            is_quoted: false,
            block: None,
        };
        assert!(order.change(&option("rate_limit after respond")));
        assert_eq!(
            sorted(&order, &["rate_limit", "respond", "metrics"]),
            ["respond", "rate_limit", "metrics"]
        );
        assert!(order.change(&option("rate_limit first")));
        assert_eq!(sorted(&order, &["redir", "rate_limit"])[0], "rate_limit");
        assert!(!order.change(&option("rate_limit before nothing")));
    }
}
