//! Explains how a route edits requests and answers.

use super::text::listed;
use sluicegate_config::rules::{Failing, FieldEdits, PageOrigin, PageOrigins, ShapeRules};

/// Returns a sentence for each property.
pub(super) fn sentences(shape: &ShapeRules) -> Vec<String> {
    let mut lines = Vec::new();
    for (edits, whose) in [
        (&shape.request, "Edited request fields"),
        (&shape.response, "Edited response fields"),
    ] {
        if !edits.is_empty() {
            lines.push(format!("{whose}: {}.", listed(&names(edits))));
        }
    }
    if shape.path.is_some() {
        lines.push("The path is rewritten for the origin.".to_owned());
    }
    if let Some(cors) = &shape.cors {
        let whose = match &cors.origins {
            PageOrigins::Any => "any origin".to_owned(),
            PageOrigins::These(origins) => {
                let origins: Vec<String> = origins.iter().map(origin).collect();
                listed(&origins)
            }
        };
        lines.push(format!(
            "CORS: pages of {whose} may read responses; preflights are answered before the limits and not charged."
        ));
    }
    if let Some(compress) = &shape.compress
        && !compress.encodings.is_empty()
    {
        let codings: Vec<&str> = compress
            .encodings
            .iter()
            .map(|coding| coding.name())
            .collect();
        lines.push(format!(
            "Responses are compressed by {}.",
            codings.join(" or ")
        ));
    }
    if !shape.pages.pages.is_empty() {
        let failing = shape.pages.pages.iter().map(|(failing, _)| match failing {
            Failing::Status(status) => status.as_str().to_owned(),
            Failing::Client => "4xx".to_owned(),
            Failing::Server => "5xx".to_owned(),
        });
        let mut failing: Vec<String> = failing.collect();
        failing.sort();
        failing.dedup();
        lines.push(format!("Error pages: {}.", listed(&failing)));
    }
    lines
}

fn names(edits: &FieldEdits) -> Vec<String> {
    let set = edits.set.iter().chain(&edits.add).map(|(name, _)| name);
    let mut names: Vec<String> = edits
        .remove
        .iter()
        .chain(set)
        .map(ToString::to_string)
        .collect();
    names.sort();
    names.dedup();
    names
}

fn origin(origin: &PageOrigin) -> String {
    match origin {
        PageOrigin::Exact(origin) => origin.to_string(),
        PageOrigin::Under { scheme, ending } => format!("{scheme}*{ending}"),
    }
}
