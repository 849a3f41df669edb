//! Parses an nginx configuration into a tree of directives, each with its entry in the ledger, and reads what it includes.

use std::sync::Arc;

use super::lexer::{NginxLexer, TokenKind};
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::position::{Position, SyntaxError};
use crate::source::IncludedFiles;

/// A directive with its words, and with its block if it has one.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    pub(super) id: EntryId,
    pub(super) position: Position,
    pub(super) name: String,
    pub(super) words: Vec<String>,
    pub(super) block: Option<Vec<Directive>>,
}

impl Directive {
    /// Returns the directives of the block.
    pub(super) fn children(&self) -> &[Directive] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Returns a word behind the name, from 0.
    pub(super) fn word(&self, at: usize) -> Option<&str> {
        self.words.get(at).map(String::as_str)
    }

    /// Returns the words behind the name.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.words.iter().map(String::as_str)
    }
}

/// Parses a text with everything that it includes.
pub(super) fn parse(
    name: &str,
    text: &str,
    files: &dyn IncludedFiles,
    ledger: &mut Ledger,
) -> Result<Vec<Directive>, SyntaxError> {
    let mut parser = TreeParser {
        files,
        ledger,
        bytes: 0,
        directives: 0,
        included: 0,
    };
    parser.file(&Arc::from(name), text, NestingDepth::default())
}

struct TreeParser<'p> {
    files: &'p dyn IncludedFiles,
    ledger: &'p mut Ledger,
    bytes: usize,
    directives: usize,
    included: usize,
}

/// The depth of the parser in files, and in blocks.
#[derive(Clone, Copy, Default)]
struct NestingDepth {
    includes: usize,
    blocks: usize,
}

/// The end of a list of directives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListEnd {
    File,
    Brace,
}

impl TreeParser<'_> {
    fn file(
        &mut self,
        name: &Arc<str>,
        text: &str,
        depth: NestingDepth,
    ) -> Result<Vec<Directive>, SyntaxError> {
        let start = Position::start(name);
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > bounds::INPUT_BYTES {
            let most = bounds::INPUT_BYTES;
            return Err(start.error(format!("the input has more than {most} bytes")));
        }
        let mut lexer = NginxLexer::new(name, text);
        self.list(&mut lexer, ListEnd::File, depth)
    }

    fn list(
        &mut self,
        lexer: &mut NginxLexer<'_>,
        end: ListEnd,
        depth: NestingDepth,
    ) -> Result<Vec<Directive>, SyntaxError> {
        let mut found = Vec::new();
        loop {
            let start = lexer.position().clone();
            let Some(token) = lexer.next_token()? else {
                return match end {
                    ListEnd::File => Ok(found),
                    ListEnd::Brace => Err(start.error("a block has no end; write } behind it")),
                };
            };
            match token.kind {
                TokenKind::Close if end == ListEnd::Brace => return Ok(found),
                TokenKind::Close => {
                    return Err(token.position.error("a } ends no block; remove it"));
                }
                TokenKind::End | TokenKind::Open => {
                    return Err(token.position.error("expected the name of a directive"));
                }
                TokenKind::Word(name) => {
                    let directive = self.directive(lexer, name, token.position, depth)?;
                    let replaced = self.included(&directive, depth)?;
                    match replaced {
                        Some(directives) => found.extend(directives),
                        None => found.push(directive),
                    }
                }
            }
        }
    }

    fn directive(
        &mut self,
        lexer: &mut NginxLexer<'_>,
        name: String,
        position: Position,
        depth: NestingDepth,
    ) -> Result<Directive, SyntaxError> {
        self.directives += 1;
        if self.directives > bounds::DIRECTIVES {
            let most = bounds::DIRECTIVES;
            return Err(position.error(format!("the input has more than {most} directives")));
        }
        let mut words = Vec::new();
        let has_block = loop {
            let Some(token) = lexer.next_token()? else {
                return Err(position.error(format!("{name:?} has no end; write ; behind it")));
            };
            match token.kind {
                TokenKind::Word(_) if words.len() == bounds::WORDS => {
                    let most = bounds::WORDS;
                    return Err(token.position.error(format!("more than {most} words")));
                }
                TokenKind::Word(word) => words.push(word),
                TokenKind::End => break false,
                TokenKind::Open => break true,
                TokenKind::Close => {
                    return Err(token
                        .position
                        .error(format!("{name:?} has no end; write ; before this }}")));
                }
            }
        };
        let mut shown = name.clone();
        for word in &words {
            shown.push(' ');
            shown.push_str(if word.is_empty() { "\"\"" } else { word });
        }
        let id = self.ledger.enter(position.clone(), &shown);
        let block = match has_block {
            false => None,
            true if name.ends_with("_by_lua_block") => {
                lexer.skip_block("--")?;
                Some(Vec::new())
            }
            // Lines of media types are no directives.
            true if name == "types" => {
                lexer.skip_block("#")?;
                Some(Vec::new())
            }
            true if depth.blocks == bounds::DEPTH => {
                let most = bounds::DEPTH;
                return Err(position.error(format!("more than {most} blocks within each other")));
            }
            true => {
                let deeper = NestingDepth {
                    blocks: depth.blocks + 1,
                    ..depth
                };
                Some(self.list(lexer, ListEnd::Brace, deeper)?)
            }
        };
        Ok(Directive {
            id,
            position,
            name,
            words,
            block,
        })
    }

    /// Returns the directives that take the place of an `include`.
    fn included(
        &mut self,
        directive: &Directive,
        depth: NestingDepth,
    ) -> Result<Option<Vec<Directive>>, SyntaxError> {
        let [pattern] = directive.words.as_slice() else {
            return Ok(None);
        };
        if directive.name != "include" || directive.block.is_some() {
            return Ok(None);
        }
        if depth.includes == bounds::INCLUDE_DEPTH {
            let most = bounds::INCLUDE_DEPTH;
            let message = format!("more than {most} includes within each other");
            return Err(directive.position.error(message));
        }
        let read = match self.files.read(pattern) {
            Ok(read) => read,
            Err(reason) => {
                self.ledger
                    .left_out(directive.id, format!("it cannot be read: {reason}"));
                return Ok(None);
            }
        };
        self.ledger.translated(directive.id);
        let mut directives = Vec::new();
        let deeper = NestingDepth {
            includes: depth.includes + 1,
            ..depth
        };
        for file in read {
            self.included += 1;
            if self.included > bounds::INCLUDED_FILES {
                let most = bounds::INCLUDED_FILES;
                let message = format!("more than {most} files are included");
                return Err(directive.position.error(message));
            }
            directives.extend(self.file(&Arc::from(file.name), &file.text, deeper)?);
        }
        Ok(Some(directives))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{IncludedFile, NoFiles};

    fn error(text: &str) -> String {
        let mut ledger = Ledger::default();
        let parsed = parse("n", text, &NoFiles, &mut ledger);
        parsed.unwrap_err().to_string()
    }

    /// Goal: a file that nginx refuses is an error with a place. Method: each way in which a block or a directive can lack its end.
    #[test]
    fn errors_have_a_place_and_say_what_to_write() {
        assert_eq!(
            error("a {\n b;\n"),
            "n:2:4: a block has no end; write } behind it"
        );
        assert_eq!(error("a;\n}"), "n:2:1: a } ends no block; remove it");
        assert_eq!(error("a b"), "n:1:1: \"a\" has no end; write ; behind it");
        assert_eq!(
            error("a { b }"),
            "n:1:7: \"b\" has no end; write ; before this }"
        );
        assert_eq!(error(" ;"), "n:1:2: expected the name of a directive");
        let deep = "a {".repeat(40);
        assert!(error(&deep).contains("more than 32 blocks"));
    }

    /// Goal: a block of another language is one directive. Method: Lua with braces and quotes in its text and in a comment, media types.
    #[test]
    fn blocks_without_directives_are_skipped() {
        let text = "content_by_lua_block { -- it's {\n if x then y('}') end }\ntypes { # it's\n a/b c; }\nz;";
        let mut ledger = Ledger::default();
        let parsed = parse("n", text, &NoFiles, &mut ledger).unwrap();
        let names: Vec<&str> = parsed.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["content_by_lua_block", "types", "z"]);
        assert_eq!(ledger.entries().len(), 3);
    }

    struct Endless;

    impl IncludedFiles for Endless {
        fn read(&self, pattern: &str) -> Result<Vec<IncludedFile>, String> {
            Ok(vec![IncludedFile {
                name: pattern.to_owned(),
                text: format!("x;\ninclude {pattern};\n"),
            }])
        }
    }

    struct Nothing;

    impl IncludedFiles for Nothing {
        fn read(&self, _: &str) -> Result<Vec<IncludedFile>, String> {
            Ok(Vec::new())
        }
    }

    /// Goal: an empty folder is no omission, and one that cannot be read is. Method: the account of a pattern with each.
    #[test]
    fn a_pattern_without_files_includes_nothing() {
        let account = |files: &dyn IncludedFiles| {
            let mut ledger = Ledger::default();
            parse("n", "include conf.d/*.conf;", files, &mut ledger).unwrap();
            ledger.to_string()
        };
        assert_eq!(
            account(&Nothing),
            "1 directives: 1 translated, 0 of them with a difference, 0 left out\n"
        );
        let left_out = account(&NoFiles);
        assert!(
            left_out.contains("n:1: include conf.d/*.conf: it cannot be read"),
            "{left_out}"
        );
    }

    /// Goal: a file that includes itself ends. Method: one that does.
    #[test]
    fn includes_are_bounded() {
        let parsed = parse("n", "include m;", &Endless, &mut Ledger::default());
        let message = parsed.unwrap_err().to_string();
        assert_eq!(message, "m:2:1: more than 16 includes within each other");
    }
}
