//! Owns a path pattern in the form that the trie stores and precedence compares.
//!
//! Its text is brought into the normal form of [`sluicegate_base::path`], so that a pattern with `é` or `%41` matches the requests that
//! mean it.

use sluicegate_base::bounds;
use sluicegate_base::path;
use sluicegate_base::path::PathCase;
use sluicegate_config::rules::{PathPattern, Segment, Tail};

/// A compiled path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompiledPattern {
    pub(super) steps: Box<[PatternSegment]>,
    pub(super) end: PatternEnd,
}

/// One segment of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatternSegment {
    /// This text in normal form.
    Literal(Box<str>),
    /// Any text that is not empty.
    Parameter,
}

/// The end of a pattern after its segments, the least specific first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PatternEnd {
    /// `/a/*`: a slash and anything.
    Tail,
    /// `/a`: nothing, or one slash: most origins serve `/a/` as `/a`, and a limit must hold for both.
    Exact,
    /// `/a/`: one slash.
    Slash,
}

/// The specificity of one position of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SegmentRank {
    /// The end of the pattern.
    End(PatternEnd),
    Parameter,
    Literal,
}

impl CompiledPattern {
    /// Compiles a pattern. An empty last segment stands for a trailing slash; `/` has no other form. Where case is ignored its
    /// text is in lower case.
    pub(super) fn compile(rules: &PathPattern, case: PathCase) -> Self {
        let is_empty =
            |segment: &Segment| matches!(segment, Segment::Literal(text) if text.is_empty());
        let mut steps: Vec<PatternSegment> = rules
            .segments
            .iter()
            .filter(|segment| !is_empty(segment))
            .map(|segment| PatternSegment::compile(segment, case))
            .collect();
        let end = match rules.tail {
            _ if steps.len() > bounds::PATH_SEGMENTS => PatternEnd::Tail,
            Tail::Any => PatternEnd::Tail,
            Tail::Exact if !steps.is_empty() && rules.segments.last().is_some_and(is_empty) => {
                PatternEnd::Slash
            }
            Tail::Exact => PatternEnd::Exact,
        };
        steps.truncate(bounds::PATH_SEGMENTS);
        Self {
            steps: steps.into(),
            end,
        }
    }

    /// Returns whether it matches one path, but for a slash at its end.
    pub(super) fn is_literal(&self) -> bool {
        let is_text = |step: &PatternSegment| matches!(step, PatternSegment::Literal(_));
        self.end != PatternEnd::Tail && self.steps.iter().all(is_text)
    }

    /// Returns the rank that precedence compares.
    pub(super) fn rank(&self) -> Box<[SegmentRank]> {
        let steps = self.steps.iter().map(|step| match step {
            PatternSegment::Literal(_) => SegmentRank::Literal,
            PatternSegment::Parameter => SegmentRank::Parameter,
        });
        steps.chain([SegmentRank::End(self.end)]).collect()
    }
}

impl PatternSegment {
    fn compile(segment: &Segment, case: PathCase) -> Self {
        match segment {
            // The parser rejects text without a normal form; stored unchanged, it matches no request.
            Segment::Literal(text) => {
                let normal = path::literal(text).unwrap_or_else(|_| text.to_string());
                Self::Literal(match case {
                    PathCase::Ignored => normal.to_ascii_lowercase().into(),
                    PathCase::Kept => normal.into(),
                })
            }
            Segment::Parameter(_) => Self::Parameter,
        }
    }
}
