//! Parses a Caddyfile into its global options and its sites, whose directives have their entries in the ledger, and reads what it imports.
//!
//! A snippet is parsed where it is imported, with the arguments there. A directive that is imported several times has one entry.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::imports;
use super::lexer::{self, CaddyToken};
use crate::bounds;
use crate::ledger::{EntryId, Ledger};
use crate::position::{Position, SyntaxError};
use crate::source::IncludedFiles;

/// A directive with its words, and with its block if it has one.
#[derive(Clone, Debug)]
pub(super) struct CaddyDirective {
    pub(super) id: EntryId,
    pub(super) name: String,
    pub(super) words: Vec<String>,
    /// True if the first word behind the name is quoted.
    pub(super) is_quoted: bool,
    pub(super) block: Option<Vec<CaddyDirective>>,
}

impl CaddyDirective {
    /// Returns the directives of the block.
    pub(super) fn children(&self) -> &[CaddyDirective] {
        self.block.as_deref().unwrap_or_default()
    }

    /// Returns a word behind the name, from 0; an empty text where there is none.
    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }
}

/// A site with its addresses.
#[derive(Debug)]
pub(super) struct SiteBlock {
    pub(super) id: EntryId,
    pub(super) addresses: Vec<String>,
    pub(super) directives: Vec<CaddyDirective>,
}

/// A whole Caddyfile.
#[derive(Debug, Default)]
pub(super) struct CaddyTree {
    pub(super) options: Vec<CaddyDirective>,
    pub(super) sites: Vec<SiteBlock>,
    /// Routes that `invoke` names.
    pub(super) routes: BTreeMap<String, Vec<CaddyDirective>>,
    /// All entries in the ledger.
    pub(super) entries: Vec<EntryId>,
}

/// Parses a text with everything that it imports.
pub(super) fn parse(
    name: &str,
    text: &str,
    files: &dyn IncludedFiles,
    ledger: &mut Ledger,
) -> Result<CaddyTree, SyntaxError> {
    let mut parser = CaddyParser {
        files,
        ledger,
        tree: CaddyTree::default(),
        snippets: BTreeMap::new(),
        known: BTreeMap::new(),
        bytes: 0,
        directives: 0,
        tokens: 0,
        included: 0,
    };
    let tokens = parser.read(&Arc::from(name), text)?;
    parser.blocks(&tokens, 0)?;
    parser.leave_unused_snippets()?;
    Ok(parser.tree)
}

struct CaddyParser<'p> {
    files: &'p dyn IncludedFiles,
    ledger: &'p mut Ledger,
    tree: CaddyTree,
    snippets: BTreeMap<String, CaddySnippet>,
    /// Entries by the places of their directives.
    known: BTreeMap<(Arc<str>, usize, usize), EntryId>,
    bytes: usize,
    directives: usize,
    tokens: usize,
    included: usize,
}

struct CaddySnippet {
    id: EntryId,
    tokens: Vec<CaddyToken>,
    is_used: bool,
}

/// The most words of an input after all imports.
const TOKENS: usize = 4 * bounds::DIRECTIVES;

/// The place of the parser in a list of words.
struct TokenCursor<'t> {
    rest: &'t [CaddyToken],
    /// Imports within imports, and blocks within blocks.
    includes: usize,
    blocks: usize,
}

impl<'t> TokenCursor<'t> {
    fn peek(&self) -> Option<&'t CaddyToken> {
        self.rest.first()
    }

    fn next(&mut self) -> Option<&'t CaddyToken> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Takes the words up to the brace that ends a block; the brace that opens it was taken.
    fn block(&mut self, start: &Position) -> Result<&'t [CaddyToken], SyntaxError> {
        let all = self.rest;
        let mut depth = 1_usize;
        for (at, token) in all.iter().enumerate() {
            if token.opens() {
                depth += 1;
            } else if token.closes() {
                depth -= 1;
            }
            if depth == 0 {
                self.rest = &all[at + 1..];
                return Ok(&all[..at]);
            }
        }
        Err(start.error("a block has no end; write } behind it"))
    }
}

impl CaddyParser<'_> {
    fn read(&mut self, name: &Arc<str>, text: &str) -> Result<Vec<CaddyToken>, SyntaxError> {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > bounds::INPUT_BYTES {
            let most = bounds::INPUT_BYTES;
            let message = format!("the input has more than {most} bytes");
            return Err(Position::start(name).error(message));
        }
        let mut tokens = lexer::tokens(name, text)?;
        for token in &mut tokens {
            imports::fill_in_variables(token, self.ledger);
        }
        Ok(tokens)
    }

    /// Parses sites, snippets and global options.
    fn blocks(&mut self, tokens: &[CaddyToken], includes: usize) -> Result<(), SyntaxError> {
        let mut cursor = TokenCursor {
            rest: tokens,
            includes,
            blocks: 0,
        };
        while let Some(first) = cursor.peek() {
            if first.closes() {
                return Err(first.position.error("a } ends no block; remove it"));
            }
            if first.opens() {
                cursor.next();
                let mut inner = TokenCursor {
                    rest: cursor.block(&first.position)?,
                    includes,
                    blocks: 0,
                };
                let options = self.list(&mut inner)?;
                self.tree.options.extend(options);
            } else if first.text == "import" && first.starts_line {
                let (_, imported) = self.import(&mut cursor)?;
                self.blocks(&imported, includes + 1)?;
            } else {
                self.site(&mut cursor)?;
            }
        }
        Ok(())
    }

    fn site(&mut self, cursor: &mut TokenCursor<'_>) -> Result<(), SyntaxError> {
        let Some(first) = cursor.peek() else {
            return Ok(());
        };
        let mut addresses = Vec::new();
        let mut expects_more = false;
        while let Some(token) = cursor.peek() {
            let is_new_line = token.starts_line && !addresses.is_empty();
            if token.opens() || token.closes() || (is_new_line && !expects_more) {
                break;
            }
            cursor.next();
            let parts = token.text.split(',').map(str::trim);
            addresses.extend(parts.filter(|it| !it.is_empty()).map(str::to_owned));
            expects_more = token.text.ends_with(',');
        }
        let id = self.enter(first, &addresses.join(", "))?;
        let has_braces = cursor.peek().is_some_and(CaddyToken::opens);
        let tokens = if has_braces {
            cursor.next();
            cursor.block(&first.position)?
        } else {
            // The only site needs no braces.
            std::mem::take(&mut cursor.rest)
        };
        let mut inner = TokenCursor {
            rest: tokens,
            includes: cursor.includes,
            blocks: 0,
        };
        let name = |begin: &str| {
            let [name] = addresses.as_slice() else {
                return None;
            };
            let name = name.strip_prefix(begin)?.strip_suffix(')')?;
            has_braces.then(|| name.to_owned())
        };
        if let Some(name) = name("(") {
            let tokens = tokens.to_vec();
            let snippet = CaddySnippet {
                id,
                tokens,
                is_used: false,
            };
            self.snippets.insert(name, snippet);
        } else if let Some(name) = name("&(") {
            let directives = self.list(&mut inner)?;
            self.ledger.translated(id);
            self.tree.routes.insert(name, directives);
        } else {
            let directives = self.list(&mut inner)?;
            self.tree.sites.push(SiteBlock {
                id,
                addresses,
                directives,
            });
        }
        Ok(())
    }

    /// Parses all directives of a list.
    fn list(&mut self, cursor: &mut TokenCursor<'_>) -> Result<Vec<CaddyDirective>, SyntaxError> {
        let mut found = Vec::new();
        while let Some(token) = cursor.peek() {
            if token.closes() {
                return Err(token.position.error("a } ends no block; remove it"));
            }
            if token.opens() {
                let message = "a block has no directive; write its brace behind one";
                return Err(token.position.error(message));
            }
            if token.text == "import" && !token.is_quoted {
                let (directive, imported) = self.import(cursor)?;
                let mut inner = TokenCursor {
                    rest: &imported,
                    includes: cursor.includes + 1,
                    blocks: cursor.blocks,
                };
                let directives = self.list(&mut inner)?;
                // One that cannot be read stands for what it has.
                match self.ledger.is_translated(directive.id) {
                    true => found.extend(directives),
                    false => found.push(directive),
                }
            } else {
                found.push(self.directive(cursor)?);
            }
        }
        Ok(found)
    }

    fn directive(&mut self, cursor: &mut TokenCursor<'_>) -> Result<CaddyDirective, SyntaxError> {
        let (mut directive, block) = self.head(cursor)?;
        let Some((start, tokens)) = block else {
            return Ok(directive);
        };
        if cursor.blocks == bounds::DEPTH {
            let most = bounds::DEPTH;
            return Err(start.error(format!("more than {most} blocks within each other")));
        }
        let mut inner = TokenCursor {
            rest: tokens,
            includes: cursor.includes,
            blocks: cursor.blocks + 1,
        };
        directive.block = Some(self.list(&mut inner)?);
        Ok(directive)
    }

    /// Takes the name and the words of a directive, and the words of its block.
    #[expect(clippy::type_complexity, reason = "the block is parsed by the caller")]
    fn head<'t>(
        &mut self,
        cursor: &mut TokenCursor<'t>,
    ) -> Result<(CaddyDirective, Option<(Position, &'t [CaddyToken])>), SyntaxError> {
        let mut words: Vec<&CaddyToken> = Vec::new();
        let mut block = None;
        while let Some(token) = cursor.peek() {
            if token.closes() || (token.starts_line && !words.is_empty()) {
                break;
            }
            cursor.next();
            if token.opens() {
                block = Some((token.position.clone(), cursor.block(&token.position)?));
                break;
            }
            words.push(token);
            if words.len() > bounds::WORDS {
                let most = bounds::WORDS;
                return Err(token.position.error(format!("more than {most} words")));
            }
        }
        let shown = |token: &&CaddyToken| match token.text.is_empty() {
            true => "\"\"".to_owned(),
            false => token.text.clone(),
        };
        let text: Vec<String> = words.iter().map(shown).collect();
        let id = self.enter(words[0], &text.join(" "))?;
        let directive = CaddyDirective {
            id,
            name: words[0].text.clone(),
            words: words[1..].iter().map(|token| token.text.clone()).collect(),
            is_quoted: words.get(1).is_some_and(|token| token.is_quoted),
            block: None,
        };
        Ok((directive, block))
    }

    /// Takes an `import`, and returns the words that stand in its place.
    fn import(
        &mut self,
        cursor: &mut TokenCursor<'_>,
    ) -> Result<(CaddyDirective, Vec<CaddyToken>), SyntaxError> {
        let position = cursor.peek().map(|token| token.position.clone());
        let (directive, block) = self.head(cursor)?;
        let block = block.map_or(&[] as &[CaddyToken], |(_, tokens)| tokens);
        if cursor.includes == bounds::INCLUDE_DEPTH
            && let Some(position) = position
        {
            let most = bounds::INCLUDE_DEPTH;
            return Err(position.error(format!("more than {most} imports within each other")));
        }
        let Some((name, arguments)) = directive.words.split_first() else {
            self.ledger.left_out(directive.id, "it names nothing");
            return Ok((directive, Vec::new()));
        };
        let Some(tokens) = self.imported_tokens(name, directive.id)? else {
            return Ok((directive, Vec::new()));
        };
        self.ledger.translated(directive.id);
        let tokens = imports::with_arguments(&tokens, arguments, block);
        self.tokens += tokens.len();
        if self.tokens > TOKENS
            && let Some(token) = tokens.first()
        {
            let message = format!("the imports have more than {TOKENS} words");
            return Err(token.position.error(message));
        }
        Ok((directive, tokens))
    }

    /// Returns the words of a snippet or of files; `None` where there are none, which is recorded.
    fn imported_tokens(
        &mut self,
        name: &str,
        id: EntryId,
    ) -> Result<Option<Vec<CaddyToken>>, SyntaxError> {
        if let Some(snippet) = self.snippets.get_mut(name) {
            snippet.is_used = true;
            self.ledger.translated(snippet.id);
            return Ok(Some(snippet.tokens.clone()));
        }
        let files = match self.files.read(name) {
            Ok(files) => files,
            Err(reason) => {
                let reason = format!("no snippet has this name, and no file: {reason}");
                self.ledger.left_out(id, reason);
                return Ok(None);
            }
        };
        let mut tokens = Vec::new();
        for file in files {
            self.included += 1;
            if self.included > bounds::INCLUDED_FILES {
                let most = bounds::INCLUDED_FILES;
                let message = format!("more than {most} files are imported");
                return Err(Position::start(&file.name.into()).error(message));
            }
            tokens.extend(self.read(&Arc::from(file.name), &file.text)?);
        }
        Ok(Some(tokens))
    }

    /// Enters the directives of snippets that no site imports.
    fn leave_unused_snippets(&mut self) -> Result<(), SyntaxError> {
        let unused: Vec<CaddySnippet> = std::mem::take(&mut self.snippets)
            .into_values()
            .filter(|snippet| !snippet.is_used)
            .collect();
        let reason = "no site imports the snippet";
        for snippet in unused {
            self.ledger.without_effect(snippet.id, reason);
            for token in snippet.tokens.iter().filter(|token| token.starts_line) {
                if !token.opens() && !token.closes() {
                    let id = self.enter(token, &token.text)?;
                    self.ledger.without_effect(id, reason);
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, token: &CaddyToken, text: &str) -> Result<EntryId, SyntaxError> {
        self.directives += 1;
        let position = &token.position;
        if self.directives > bounds::DIRECTIVES {
            let most = bounds::DIRECTIVES;
            return Err(position.error(format!("the input has more than {most} directives")));
        }
        let place = (Arc::clone(&position.file), position.line, position.column);
        if let Some(id) = self.known.get(&place) {
            return Ok(*id);
        }
        let id = self.ledger.enter(position.clone(), text);
        self.known.insert(place, id);
        self.tree.entries.push(id);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{IncludedFile, NoFiles};

    fn parsed(text: &str) -> CaddyTree {
        parse("c", text, &NoFiles, &mut Ledger::default()).unwrap()
    }

    fn error(text: &str) -> String {
        let mut ledger = Ledger::default();
        let parsed = parse("c", text, &NoFiles, &mut ledger);
        parsed.unwrap_err().to_string()
    }

    /// Goal: sites, options and snippets are told apart. Method: each of them, addresses over lines, a site without braces.
    #[test]
    fn blocks_are_told_apart() {
        let tree = parsed(
            "{\n\temail a@b.test\n}\n(s) {\n\trespond {args[0]}\n}\na.test,\nb.test {\n\timport s hi\n}\n&(r) {\n\trespond x\n}\n",
        );
        assert_eq!(tree.options[0].name, "email");
        assert_eq!(tree.sites.len(), 1);
        assert_eq!(tree.sites[0].addresses, ["a.test", "b.test"]);
        assert_eq!(tree.sites[0].directives[0].words, ["hi"]);
        assert_eq!(tree.routes["r"].len(), 1);
        let tree = parsed(":80 b.test\nrespond x\nhandle {\n\trespond y\n}\n");
        assert_eq!(tree.sites[0].addresses, [":80", "b.test"]);
        assert_eq!(tree.sites[0].directives[1].children().len(), 1);
    }

    /// Goal: a file that Caddy refuses is an error with a place. Method: braces too many and too few, depth.
    #[test]
    fn errors_have_a_place_and_say_what_to_write() {
        assert_eq!(
            error("a {\n b {\n"),
            "c:1:1: a block has no end; write } behind it"
        );
        assert_eq!(error("a {\n}\n}"), "c:3:1: a } ends no block; remove it");
        assert_eq!(
            error("a {\n{\n}\n}"),
            "c:2:1: a block has no directive; write its brace behind one"
        );
        let deep = format!("a {{\n{}{}}}", "b {\n".repeat(40), "}\n".repeat(40));
        assert!(error(&deep).contains("more than 32 blocks"));
    }

    struct Endless;

    impl IncludedFiles for Endless {
        fn read(&self, pattern: &str) -> Result<Vec<IncludedFile>, String> {
            Ok(vec![IncludedFile {
                name: pattern.to_owned(),
                text: format!("x\nimport {pattern}\nimport {pattern}\n"),
            }])
        }
    }

    /// Goal: imports end, and a directive that is imported twice has one entry. Method: a file that imports itself, a snippet in two sites.
    #[test]
    fn imports_are_bounded_and_entered_once() {
        let text = "a {\nimport m\n}";
        let parsed = parse("c", text, &Endless, &mut Ledger::default());
        let message = parsed.unwrap_err().to_string();
        assert_eq!(message, "m:2:1: more than 16 imports within each other");
        let mut ledger = Ledger::default();
        let text = "(s) {\n\trespond x\n}\na {\n\timport s\n}\nb {\n\timport s\n}\n";
        parse("c", text, &NoFiles, &mut ledger).unwrap();
        assert_eq!(ledger.entries().len(), 6);
    }
}
