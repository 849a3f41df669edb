//! Collects the readings that common origins make of one path beside its normal form.
//!
//! An origin first derives another path from the one that was sent: it decodes once more, takes the first segment for an
//! authority, cuts at a `;`, removes plain dots before it decodes escaped ones, or finds a path in the query. Each such *source*
//! is then spelled in every [`PathDialect`] in which it differs, and cut at names of scripts. A source may derive from another,
//! since a request may pass several servers.
//!
//! # Limits
//!
//! A source is decoded [`DECODINGS`] times, has [`AUTHORITIES`] cut off, and at most [`SOURCES`] are read; all readings of a
//! path take at most [`PATH_READING_BYTES`] bytes, so that an artificial path costs a bounded time.

use super::characters::merged;
use super::spelling::{
    DotDotRule, ParameterRule, PathDialect, SegmentSeparators, SpelledPath, decode_again,
    is_overlong, spell, without_parameters,
};
use super::{PathError, authority, case, dots, endings, rewritten, script, undecodable};
use crate::bounds::PATH_READING_BYTES;

/// Number of times that an origin may decode a path again: once in a proxy before it, and once more.
const DECODINGS: usize = 2;

/// Number of times that an authority may be cut off: by a middleware, and by the code that it calls with the rest.
const AUTHORITIES: usize = 2;

/// Maximum number of paths that an origin may derive from one.
const SOURCES: usize = 48;

/// The readings of a path beside its normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathReadings {
    /// The readings, each different from the normal form and from each other.
    pub(super) texts: Vec<String>,
    /// The readings by which an application sees the part after the name of a script, the script's own path, other letters, or names
    /// without their endings or without bytes that are no UTF-8.
    pub(super) of_scripts: Vec<String>,
    /// The key of a limit by `path`; `None` means the normal form.
    pub(super) key: Option<String>,
    /// True if encoded slashes, dots or escapes have two readings.
    pub(super) is_ambiguous: bool,
    /// True if a client can write one resource of some origin under any number of normal forms.
    pub(super) is_disputed: bool,
}

impl PathReadings {
    /// Returns what is known of the readings, without them.
    pub(super) fn without_texts(&self) -> Self {
        Self {
            texts: Vec::new(),
            of_scripts: Vec::new(),
            key: self.key.clone(),
            is_ambiguous: self.is_ambiguous,
            is_disputed: self.is_disputed,
        }
    }
}

/// One path that an origin may derive from the one that was sent.
#[derive(Clone)]
struct ReadingSource {
    text: String,
    decodings: usize,
    authorities: usize,
    reader: PathReader,
}

/// A reader that derives one path from another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathReader {
    /// Any origin.
    Origin,
    /// An application, possibly below a path of its own: one after a script, one that ignores case beyond ASCII, or one that cuts endings
    /// of names or drops bytes that are no UTF-8.
    Script,
}

struct ReadingCollector<'a> {
    normal: &'a str,
    sources: Vec<ReadingSource>,
    readings: PathReadings,
    bytes: usize,
}

/// Collects the readings of `path`, sent before `query`, whose normal form is `normal`; `None` where there are none.
///
/// # Errors
///
/// [`PathError`] where a relevant reading is malformed, or there are too many.
pub(super) fn collect(
    path: &str,
    query: &str,
    normal: &str,
) -> Result<Option<PathReadings>, PathError> {
    let mut collector = ReadingCollector {
        normal,
        sources: Vec::new(),
        readings: PathReadings {
            texts: Vec::new(),
            of_scripts: Vec::new(),
            key: None,
            is_ambiguous: false,
            is_disputed: false,
        },
        bytes: 0,
    };
    collector.add_source(ReadingSource {
        text: path.to_owned(),
        decodings: DECODINGS,
        authorities: AUTHORITIES,
        reader: PathReader::Origin,
    })?;
    collector.read_sources(0)?;
    let of_path = (
        collector.readings.is_ambiguous,
        collector.readings.is_disputed,
    );
    if let Some(path) = script::path_in_query(query)
        && spell(path, PathDialect::NORMAL).is_ok()
    {
        collector.read_query(path)?;
    }
    let mut readings = collector.readings;
    // A limit that counts by the path ignores the query.
    (readings.is_ambiguous, readings.is_disputed) = of_path;
    readings.key = Some(key(path)?).filter(|key| key != normal);
    let has_texts = !readings.texts.is_empty() || !readings.of_scripts.is_empty();
    let differs = readings.is_ambiguous || readings.is_disputed || has_texts;
    Ok(differs.then_some(readings))
}

/// Returns the reading that has the fewest spellings: decoded as often as possible, with all separators, without cookieless
/// segments, bytes that are no UTF-8, endings of names, the part after an escaped end, the prefix of a front controller or the part after a
/// script, and with ASCII in place of equated letters.
fn key(path: &str) -> Result<String, PathError> {
    let mut text = path.to_owned();
    let mut plain = spell(&text, PathDialect::NORMAL)?;
    // As many rounds as the readings have.
    while let Some(decoded) = decode_again(&plain.text) {
        text = decoded;
        plain = spell(&text, PathDialect::NORMAL)?;
    }
    let everywhere = PathDialect {
        separators: plain.hidden,
        ..PathDialect::NORMAL
    };
    let text = spell(&text, everywhere)?.text;
    let text = script::without_cookieless_segments(&text).unwrap_or(text);
    let text = undecodable::dropped(&text).map_or(text, |text| merged(&text));
    let text = case::folded(&text).unwrap_or(text);
    let text = endings::bare(&text).unwrap_or(text);
    let text = rewritten::before_end(&text).unwrap_or(&text);
    if let Some(rest) = script::glued(text).last() {
        return Ok(format!("/{rest}"));
    }
    let key = match script::cuts(text).next() {
        Some(cut) if cut.is_front_controller => cut.rest.unwrap_or("/"),
        Some(cut) => cut.script,
        None => text,
    };
    Ok(key.to_owned())
}

impl ReadingCollector<'_> {
    /// Reads every source from this one on, and those that derive from them.
    fn read_sources(&mut self, first: usize) -> Result<(), PathError> {
        let mut at = first;
        while let Some(source) = self.sources.get(at) {
            let source = source.clone();
            self.read(&source)?;
            at += 1;
        }
        Ok(())
    }

    /// Adds the readings of applications that find `path` in the query, wherever a reading of the path before it leads to one.
    fn read_query(&mut self, path: &str) -> Result<(), PathError> {
        let readings = &self.readings;
        let before: Vec<String> = [self.normal.to_owned()]
            .into_iter()
            .chain(readings.texts.iter().chain(&readings.of_scripts).cloned())
            .collect();
        let first = self.sources.len();
        let source = |text, reader| ReadingSource {
            text,
            decodings: DECODINGS,
            authorities: 0,
            reader,
        };
        for before in before {
            if script::leaves_path_to_query(&before) {
                self.add_source(source(path.to_owned(), PathReader::Origin))?;
            }
            let below = format!("{}{path}", script::folder(&before));
            self.take_bytes(below.len())?;
            self.add_source(source(below, PathReader::Script))?;
        }
        self.read_sources(first)
    }

    fn read(&mut self, source: &ReadingSource) -> Result<(), PathError> {
        let plain = self.spell(&source.text, PathDialect::NORMAL)?;
        if is_overlong(&plain.text) {
            return Err(PathError::Overlong);
        }
        for separators in subsets(plain.hidden) {
            self.read_separated(source, separators)?;
        }
        let readings = &mut self.readings;
        readings.is_ambiguous |= plain.hidden != 0 || plain.is_climbed;
        self.cut_authority(source, &source.text)?;
        self.resolve_plain_dots(source, &plain.text)?;
        self.cut_at_escaped_end(source, &plain.text)?;
        self.read_parameters(source)?;
        if plain.has_parameters {
            // Fastify's router ends a path at its first `;`, as others do at `?`.
            let end = source.text.find(';').unwrap_or(source.text.len());
            self.readings.is_disputed |= source.text[end..].contains(['/', '\\', '%']);
            self.add_source(source.with(source.text[..end].to_owned()))?;
            self.cut_parameters(source, plain.hidden)?;
        }
        Ok(())
    }

    /// Reads a source in all dialects that separate it so.
    fn read_separated(
        &mut self,
        source: &ReadingSource,
        separators: SegmentSeparators,
    ) -> Result<(), PathError> {
        let manner = PathDialect {
            separators,
            ..PathDialect::NORMAL
        };
        let first = self.add_spelled(source, manner)?;
        if first.is_climbed {
            let climbs = DotDotRule::Kept;
            self.add_spelled(source, PathDialect { climbs, ..manner })?;
            // Those that drop it know no parameters.
            let dropped = PathDialect {
                climbs: DotDotRule::Dropped,
                parameters: ParameterRule::CutLast,
                ..manner
            };
            self.add_disputed(source, dropped)?;
        }
        let cut_last = first.has_bare_parameters.then_some(ParameterRule::CutLast);
        for parameters in [Some(ParameterRule::CutFirst), cut_last]
            .into_iter()
            .flatten()
        {
            let manner = PathDialect {
                parameters,
                ..manner
            };
            if parameters == ParameterRule::CutLast {
                self.add_disputed(source, manner)?;
            }
            if first.has_empty {
                let climbs = DotDotRule::OverEmpty;
                let unmerged = self.add_disputed(source, PathDialect { climbs, ..manner })?;
                self.cut_authority(source, &unmerged)?;
            }
        }
        Ok(())
    }

    /// Adds a reading by which one resource may have many normal forms; returns it with its empty segments.
    fn add_disputed(
        &mut self,
        source: &ReadingSource,
        manner: PathDialect,
    ) -> Result<String, PathError> {
        let known = self.readings.texts.len();
        let spelled = self.add_spelled(source, manner)?;
        self.readings.is_disputed |= self.readings.texts.len() > known;
        Ok(spelled.text)
    }

    /// Adds a source in one dialect, and the sources that derive from the result.
    fn add_spelled(
        &mut self,
        source: &ReadingSource,
        manner: PathDialect,
    ) -> Result<SpelledPath, PathError> {
        let spelled = self.spell(&source.text, manner)?;
        let text = merged(&spelled.text);
        let is_resolved = spelled.is_climbed && manner.climbs != DotDotRule::Kept;
        if is_resolved && spelled.hidden & !manner.separators != 0 {
            // An application that resolves dots may decode the result.
            self.add_source(source.with(text.clone()))?;
        }
        self.decode(source, &text)?;
        self.add_scripts(source, &text)?;
        let others = [
            case::folded(&text),
            endings::bare(&text),
            undecodable::dropped(&text),
        ];
        for other in others.into_iter().flatten() {
            self.add_source(ReadingSource {
                reader: PathReader::Script,
                ..source.with(other)
            })?;
        }
        match source.reader {
            PathReader::Origin => self.add(text)?,
            PathReader::Script => self.add_script(text)?,
        }
        Ok(spelled)
    }

    /// Adds the result of another decoding of `text`, which derives from `source`.
    fn decode(&mut self, source: &ReadingSource, text: &str) -> Result<(), PathError> {
        let Some(decoded) = decode_again(text) else {
            return Ok(());
        };
        let decodings = source.decodings.checked_sub(1).ok_or(PathError::Nested)?;
        self.readings.is_ambiguous = true;
        self.add_source(ReadingSource {
            decodings,
            ..source.with(decoded)
        })
    }

    /// Adds a source without its parameters where they contain some of the `hidden` separators.
    ///
    /// Servlet containers cut parameters before they decode, up to a plain slash, and treat separators that they decode
    /// elsewhere as separators: `/a%2Fb;x%2Fy` is `/a/b` for them, and `/a/b/y` for origins that decode first.
    fn cut_parameters(
        &mut self,
        source: &ReadingSource,
        hidden: SegmentSeparators,
    ) -> Result<(), PathError> {
        let shortest_cut = without_parameters(&source.text, hidden)?;
        for separators in subsets(hidden) {
            let cut = without_parameters(&source.text, separators)?;
            if cut != shortest_cut {
                self.add_source(source.with(cut))?;
            }
        }
        Ok(())
    }

    /// Adds a source, whose normal form is `normal`, without its unescaped dot segments.
    fn resolve_plain_dots(
        &mut self,
        source: &ReadingSource,
        normal: &str,
    ) -> Result<(), PathError> {
        let separators: [fn(char) -> bool; 2] = [|one| one == '/', |one| matches!(one, '/' | '\\')];
        for is_separator in separators {
            for climbs in [DotDotRule::Resolved, DotDotRule::OverEmpty] {
                if let Some(text) = dots::resolved(&source.text, climbs, is_separator) {
                    self.readings.is_disputed |=
                        self.spell(&text, PathDialect::NORMAL)?.text != normal;
                    self.add_source(source.with(text))?;
                }
            }
        }
        Ok(())
    }

    /// Adds a source, whose normal form is `normal`, up to an escaped character that ends a path.
    fn cut_at_escaped_end(
        &mut self,
        source: &ReadingSource,
        normal: &str,
    ) -> Result<(), PathError> {
        let Some(before) = rewritten::before_end(&source.text) else {
            return Ok(());
        };
        let cut = rewritten::before_end(normal).unwrap_or(normal);
        self.readings.is_disputed |= self.spell(before, PathDialect::NORMAL)?.text != cut;
        self.add_source(ReadingSource {
            reader: PathReader::Script,
            ..source.with(before.to_owned())
        })
    }

    /// Adds the paths that an application finds in the parameters of a query that a source became.
    fn read_parameters(&mut self, source: &ReadingSource) -> Result<(), PathError> {
        for value in rewritten::parameters(&source.text) {
            self.readings.is_disputed = true;
            self.add_source(ReadingSource {
                reader: PathReader::Script,
                ..source.with(format!("/{}", value.trim_start_matches('/')))
            })?;
        }
        Ok(())
    }

    /// Adds the part of `text`, which derives from `source`, after an authority.
    fn cut_authority(&mut self, source: &ReadingSource, text: &str) -> Result<(), PathError> {
        let Some(authorities) = source.authorities.checked_sub(1) else {
            return Ok(());
        };
        for rest in authority::behind(text) {
            self.readings.is_disputed = true;
            // It begins with a slash or a backslash.
            self.add_source(ReadingSource {
                authorities,
                ..source.with(format!("/{}", &rest[1..]))
            })?;
        }
        Ok(())
    }

    /// Adds the paths that servers and applications derive from the names of scripts in a path.
    fn add_scripts(&mut self, source: &ReadingSource, text: &str) -> Result<(), PathError> {
        for cut in script::cuts(text) {
            match cut.rest {
                Some(rest) => {
                    self.add_script(rest.to_owned())?;
                    // The end may stand before the script too, where it ends nothing for the application.
                    if let Some(before) = rewritten::before_end(rest) {
                        self.add_script(before.to_owned())?;
                    }
                    self.add_script(cut.script.to_owned())?;
                    if cut.is_front_controller {
                        self.add_script(format!("{}{rest}", script::folder(cut.script)))?;
                    }
                }
                None if cut.is_front_controller => {
                    self.add_script("/".to_owned())?;
                    self.add_script(format!("{}/", script::folder(cut.script)))?;
                }
                None => {}
            }
        }
        for rest in script::glued(text) {
            self.add_script(format!("/{rest}"))?;
        }
        match script::without_cookieless_segments(text) {
            Some(path) => {
                self.decode(source, &path)?;
                self.add_script(path)
            }
            None => Ok(()),
        }
    }

    fn add_script(&mut self, text: String) -> Result<(), PathError> {
        self.take_bytes(text.len())?;
        if !self.readings.of_scripts.contains(&text) {
            self.readings.of_scripts.push(text);
        }
        Ok(())
    }

    fn take_bytes(&mut self, bytes: usize) -> Result<(), PathError> {
        self.bytes += bytes;
        if self.bytes > PATH_READING_BYTES {
            return Err(PathError::Manifold);
        }
        Ok(())
    }

    fn spell(&mut self, text: &str, manner: PathDialect) -> Result<SpelledPath, PathError> {
        self.take_bytes(text.len())?;
        spell(text, manner)
    }

    fn add(&mut self, text: String) -> Result<(), PathError> {
        self.take_bytes(text.len())?;
        let is_known = text == self.normal || self.readings.texts.contains(&text);
        if !is_known {
            self.readings.texts.push(text);
        }
        Ok(())
    }

    fn add_source(&mut self, source: ReadingSource) -> Result<(), PathError> {
        let is_known =
            |known: &ReadingSource| known.text == source.text && known.reader == source.reader;
        if self.sources.iter().any(is_known) {
            return Ok(());
        }
        if self.sources.len() == SOURCES {
            return Err(PathError::Manifold);
        }
        self.sources.push(source);
        Ok(())
    }
}

impl ReadingSource {
    /// Returns a source with another path and the same reader.
    fn with(&self, text: String) -> Self {
        Self {
            text,
            ..self.clone()
        }
    }
}

/// Returns every subset of these separators, the empty one first.
fn subsets(of: SegmentSeparators) -> impl Iterator<Item = SegmentSeparators> {
    (0..=of).filter(move |subset| subset & !of == 0)
}

#[cfg(test)]
mod tests {
    use crate::path::NormalPath;

    /// Goal: a request that waits holds its path and key, and no other readings of the path. Method: paths with several readings.
    #[test]
    fn a_path_without_readings_keeps_its_key() {
        for target in ["/a/b", "/a%2Fb/c", "/x.php/y", "/a%2fb%5cc/d%2fe"] {
            let path = NormalPath::parse(target).unwrap();
            let kept = path.without_readings();
            assert_eq!(kept.as_str(), path.as_str(), "{target}");
            assert_eq!(kept.key(), path.key(), "{target}");
            assert_eq!(kept.is_ambiguous(), path.is_ambiguous(), "{target}");
            assert_eq!(kept.is_disputed(), path.is_disputed(), "{target}");
            let mut readings = kept.other_readings().chain(kept.readings_of_scripts());
            assert_eq!(readings.next(), None, "{target}");
        }
        let path = NormalPath::parse("/a%2Fb/c").unwrap();
        assert!(path.other_readings().next().is_some());
    }
}
