//! Matches methods.
//!
//! Two rules make a limit harder to bypass. A route that names `GET` and not `HEAD` matches `HEAD` too, after routes that name
//! it: origins answer `HEAD` by running their `GET` (RFC 9110 §9.3.2), and the limit protects that work. And methods are
//! compared without regard to case, because some frameworks fold it.

use http::Method;

/// The methods that one entry of a route matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MethodMatch {
    /// Every method.
    Any,
    /// `HEAD`, because the route names `GET`.
    HeadOfGet,
    /// These.
    Named(Box<[Method]>),
}

/// The specificity of a method match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MethodRank {
    Any,
    HeadOfGet,
    Named,
}

impl MethodMatch {
    /// Returns the entries of a route with these methods, one or two of them; an empty list matches any.
    pub(super) fn compile(methods: &[Method]) -> impl Iterator<Item = Self> {
        let main = if methods.is_empty() {
            Self::Any
        } else {
            Self::Named(methods.into())
        };
        let head = names(methods, &Method::GET) && !names(methods, &Method::HEAD);
        [Some(main), head.then_some(Self::HeadOfGet)]
            .into_iter()
            .flatten()
    }

    pub(super) fn takes(&self, method: &Method) -> bool {
        match self {
            Self::Any => true,
            Self::HeadOfGet => names(&[Method::HEAD], method),
            Self::Named(methods) => names(methods, method),
        }
    }

    pub(super) fn rank(&self) -> MethodRank {
        match self {
            Self::Any => MethodRank::Any,
            Self::HeadOfGet => MethodRank::HeadOfGet,
            Self::Named(_) => MethodRank::Named,
        }
    }
}

fn names(methods: &[Method], method: &Method) -> bool {
    methods
        .iter()
        .any(|named| named.as_str().eq_ignore_ascii_case(method.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(methods: &[Method], method: &str) -> Vec<MethodRank> {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        MethodMatch::compile(methods)
            .filter(|entry| entry.takes(&method))
            .map(|entry| entry.rank())
            .collect()
    }

    #[test]
    fn a_route_takes_the_methods_it_names_or_any() {
        assert_eq!(taken(&[], "PURGE"), [MethodRank::Any]);
        assert_eq!(taken(&[Method::POST], "POST"), [MethodRank::Named]);
        assert_eq!(taken(&[Method::POST], "post"), [MethodRank::Named]);
        assert_eq!(taken(&[Method::POST, Method::PUT], "GET"), []);
    }

    #[test]
    fn a_route_that_names_get_takes_head_as_second_choice() {
        assert_eq!(taken(&[Method::GET], "HEAD"), [MethodRank::HeadOfGet]);
        assert_eq!(
            taken(&[Method::GET, Method::HEAD], "HEAD"),
            [MethodRank::Named]
        );
        assert_eq!(taken(&[Method::HEAD], "GET"), []);
        assert_eq!(taken(&[Method::POST], "HEAD"), []);
    }
}
