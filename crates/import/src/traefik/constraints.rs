//! Evaluates `constraints` of a provider: an expression over the labels of a container, which Traefik publishes where it holds.

use regex::Regex;

use crate::bounds;

/// An expression over labels.
#[derive(Debug)]
pub(super) enum LabelConstraint {
    All(Vec<LabelConstraint>),
    Any(Vec<LabelConstraint>),
    Not(Box<LabelConstraint>),
    /// The label has this value.
    Equal(String, String),
    /// Its value matches.
    Matches(String, Regex),
}

impl LabelConstraint {
    /// Reads an expression.
    ///
    /// # Errors
    ///
    /// What it has that is not read.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parser = ConstraintParser { rest: text };
        let constraint = parser.any(0)?;
        match parser.rest.trim() {
            "" => Ok(constraint),
            rest => Err(format!("the expression ends before {rest:?}")),
        }
    }

    /// Returns true if it holds for a container; `value` returns the value of a label.
    pub(super) fn holds<'l>(&self, value: &impl Fn(&str) -> Option<&'l str>) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|it| it.holds(value)),
            Self::Any(parts) => parts.iter().any(|it| it.holds(value)),
            Self::Not(inner) => !inner.holds(value),
            Self::Equal(name, wanted) => value(name) == Some(wanted.as_str()),
            Self::Matches(name, regex) => value(name).is_some_and(|it| regex.is_match(it)),
        }
    }
}

struct ConstraintParser<'t> {
    rest: &'t str,
}

impl ConstraintParser<'_> {
    fn takes(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn any(&mut self, depth: usize) -> Result<LabelConstraint, String> {
        let mut parts = vec![self.all(depth)?];
        while self.takes("||") {
            parts.push(self.all(depth)?);
        }
        Ok(LabelConstraint::Any(parts))
    }

    fn all(&mut self, depth: usize) -> Result<LabelConstraint, String> {
        let mut parts = vec![self.unary(depth)?];
        while self.takes("&&") {
            parts.push(self.unary(depth)?);
        }
        Ok(LabelConstraint::All(parts))
    }

    fn unary(&mut self, depth: usize) -> Result<LabelConstraint, String> {
        if depth > bounds::DEPTH {
            return Err("the expression is nested too deeply".to_owned());
        }
        if self.takes("!") {
            return Ok(LabelConstraint::Not(Box::new(self.unary(depth + 1)?)));
        }
        if self.takes("(") {
            let inner = self.any(depth + 1)?;
            return match self.takes(")") {
                true => Ok(inner),
                false => Err("a parenthesis is open".to_owned()),
            };
        }
        let is_expression = self.takes("LabelRegex");
        let is_known = is_expression || self.takes("Label");
        if !is_known || !self.takes("(") {
            return Err(format!("{:?} is not read", self.rest.trim()));
        }
        let name = self.text()?;
        if !self.takes(",") {
            return Err("a label is compared with a value".to_owned());
        }
        let value = self.text()?;
        if !self.takes(")") {
            return Err("a parenthesis is open".to_owned());
        }
        if !is_expression {
            return Ok(LabelConstraint::Equal(name, value));
        }
        let regex = Regex::new(&value).map_err(|_| format!("{value:?} is no expression"))?;
        Ok(LabelConstraint::Matches(name, regex))
    }

    fn text(&mut self) -> Result<String, String> {
        let rest = self.rest.trim_start();
        let quote = rest.chars().next().filter(|it| "`\"'".contains(*it));
        let quote = quote.ok_or("a text in backticks is expected")?;
        let inner = &rest[1..];
        let end = inner.find(quote).ok_or("a text is open")?;
        self.rest = &inner[end + 1..];
        Ok(inner[..end].to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: constraints hold for the containers for which they hold in Traefik. Method: each function, operators, an expression that is
    /// not read.
    #[test]
    fn constraints_are_evaluated() {
        let labels = [("tier", "public"), ("zone", "eu-west")];
        let value = |name: &str| labels.iter().find(|it| it.0 == name).map(|it| it.1);
        let holds = |text: &str| LabelConstraint::parse(text).map(|it| it.holds(&value));
        assert_eq!(holds("Label(`tier`, `public`)"), Ok(true));
        assert_eq!(holds("Label(`tier`,`inner`)"), Ok(false));
        assert_eq!(holds("!Label(\"tier\",\"inner\")"), Ok(true));
        assert_eq!(holds("LabelRegex(`zone`, `^eu-`)"), Ok(true));
        assert_eq!(holds("LabelRegex(`other`, `.*`)"), Ok(false));
        let both = "Label(`tier`,`inner`) || (Label(`tier`,`public`) && !LabelRegex(`zone`,`us`))";
        assert_eq!(holds(both), Ok(true));
        assert!(holds("Tag(`a`)").is_err());
        assert!(holds("Label(`a`").is_err());
        assert!(holds(&"(".repeat(10_000)).is_err());
    }
}
