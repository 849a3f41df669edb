//! Owns the typed rules of how requests and answers are shaped on their way: fields, paths, redirects.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};
use sluicegate_base::path::PathGroups;

use super::{CompressRules, CorsRules, ErrorPages, Name};

/// The rules by which a route shapes messages: its own behind those of every route.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShapeRules {
    /// `request_headers`: on the way to the origin.
    pub request: FieldEdits,
    /// `response_headers`: on the way to the client.
    pub response: FieldEdits,
    /// `strip_prefix` or `rewrite`: the path that the origin gets; `None`: the one that was sent.
    pub path: Option<Template>,
    /// The groups of a path that is a regular expression, where a template asks for one.
    pub groups: Option<PathGroups>,
    /// `cors`: which pages may read answers; `None`: what the origin says.
    pub cors: Option<Arc<CorsRules>>,
    /// `compress`: which answers are compressed; `None`: none is.
    pub compress: Option<Arc<CompressRules>>,
    /// `error_pages`: what failures look like.
    pub pages: ErrorPages,
}

impl ShapeRules {
    /// Returns whether nothing is shaped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether a template asks for a part of the path.
    #[must_use]
    pub fn reads_path(&self) -> bool {
        self.path.is_some() || self.fields_read_path()
    }

    /// Returns whether a field has a part of the path, which then must have one reading.
    #[must_use]
    pub fn fields_read_path(&self) -> bool {
        self.request.read_path() || self.response.read_path()
    }

    /// Returns whether a field has the name of the route.
    #[must_use]
    pub fn writes_route(&self) -> bool {
        let of_route = |slot: &Slot| *slot == Slot::Route;
        self.request.fill(of_route) || self.response.fill(of_route)
    }
}

/// Edits of fields, in the order in which they are made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldEdits {
    /// Removes all fields of these names.
    pub remove: Vec<HeaderName>,
    /// The one field of its name from then on.
    pub set: Vec<(HeaderName, Template)>,
    /// One more of its name.
    pub add: Vec<(HeaderName, Template)>,
}

impl FieldEdits {
    /// Returns whether nothing is edited.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.set.is_empty() && self.add.is_empty()
    }

    /// These, then `others`.
    #[must_use]
    pub fn then(&self, others: Self) -> Self {
        // What is set and then removed is not there, and what is removed and then set is: later edits go before.
        let outlives = |name: &HeaderName| {
            !others.remove.contains(name) && others.set.iter().all(|(other, _)| other != name)
        };
        let kept = |edits: &[(HeaderName, Template)]| -> Vec<_> {
            let kept = edits.iter().filter(|(name, _)| outlives(name));
            kept.cloned().collect()
        };
        let mut all = Self {
            remove: self.remove.clone(),
            set: kept(&self.set),
            add: kept(&self.add),
        };
        all.remove.extend(others.remove);
        all.set.extend(others.set);
        all.add.extend(others.add);
        all
    }

    fn read_path(&self) -> bool {
        self.fill(Slot::is_of_path)
    }

    /// Returns the values with a part of the path.
    pub fn of_path(&self) -> impl Iterator<Item = &Template> {
        let templates = self.set.iter().chain(&self.add);
        let templates = templates.map(|(_, template)| template);
        templates.filter(|template| template.reads_path())
    }

    /// Returns whether a slot of this kind is filled in.
    fn fill(&self, is_wanted: impl Fn(&Slot) -> bool) -> bool {
        let mut templates = self.set.iter().chain(&self.add);
        templates.any(|(_, template)| template.slots().iter().any(&is_wanted))
    }
}

/// A text with slots.
#[derive(Clone, Debug, PartialEq)]
pub enum Template {
    /// The same for every request.
    Fixed(HeaderValue),
    /// Filled in for each.
    Filled(Vec<Slot>),
}

impl Template {
    /// Returns whether a part of the path is filled in.
    #[must_use]
    pub fn reads_path(&self) -> bool {
        self.slots().iter().any(Slot::is_of_path)
    }

    fn slots(&self) -> &[Slot] {
        match self {
            Self::Fixed(_) => &[],
            Self::Filled(slots) => slots,
        }
    }
}

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slot {
    /// This text.
    Text(Box<str>),
    /// `{client_ip}`: the address that limits count by.
    ClientIp,
    /// `{host}`: the host that was asked for, in lower case, without port.
    Host,
    /// `{request_id}`: as in `X-Request-Id` and in the log.
    RequestId,
    /// `{route}`: the name of the route.
    Route,
    /// `{path.id}`: this segment of the path, from 0, in normal form.
    Segment(usize),
    /// `{rest}`: what follows that many segments, in normal form, without the slash before it.
    Rest(usize),
    /// `{path.id}` or `{path.1}`: the group of this name or number.
    Group(Name),
}

impl Slot {
    fn is_of_path(&self) -> bool {
        matches!(self, Self::Segment(_) | Self::Rest(_) | Self::Group(_))
    }
}

/// `redirect`: where clients are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct RedirectRules {
    /// 301, 302, 303, 307 or 308.
    pub status: StatusCode,
    /// A path, or a URL with its host.
    pub to: Template,
    /// Which of the two.
    pub place: RedirectPlace,
    /// The treatment of the query.
    pub query: RedirectQuery,
    /// The groups of a path that is a regular expression.
    pub groups: Option<PathGroups>,
}

/// Where a redirect leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPlace {
    /// To a path of the same host.
    Path,
    /// To a URL.
    Url,
}

/// The treatment of the query at a redirect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectQuery {
    /// It goes along.
    Kept,
    /// The target has one of its own.
    Replaced,
}
