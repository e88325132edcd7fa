//! [`Reader`]: the tokens of a TOML, one after another, with the line that each is in.
//!
//! A layout has few kinds of values and a fixed depth, so that it is read as it lies: nothing of
//! the text is held in another form.

use std::borrow::Cow;

use toml_parser::decoder::ScalarKind;
use toml_parser::lexer::{Lexer, Token, TokenKind};
use toml_parser::{ParseError, Raw, Source};

use super::LayoutFault;

/// Characters of the text that an error shows.
const SHOWN_MAX: usize = 40;

type Result<T> = std::result::Result<T, LayoutFault>;

/// Reads tokens.
pub(super) struct Reader<'t> {
    source: Source<'t>,
    lexer: Lexer<'t>,
    next: Option<Token>,
    line: usize,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let source = Source::new(text);
        let mut lexer = source.lex();
        let next = lexer.next();
        Self { source, lexer, next, line: 1 }
    }

    /// The line of the next token, from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// What the next token is.
    pub(super) fn kind(&self) -> TokenKind {
        self.next.map_or(TokenKind::Eof, |token| token.kind())
    }

    /// A fault in the line of the next token.
    pub(super) fn fault(&self, what: impl Into<String>) -> LayoutFault {
        LayoutFault::Line { line: self.line, what: what.into() }
    }

    /// That something else was expected than the next token.
    pub(super) fn expected(&self, what: &str) -> LayoutFault {
        let found = self.raw().map(|raw| raw.as_str()).unwrap_or_default();
        self.fault(match self.kind() {
            TokenKind::Eof => format!("{what} is expected, and the layout ends"),
            TokenKind::Newline => format!("{what} is expected, and the line ends"),
            _ => format!("{what} is expected, and {} is found", shown(found)),
        })
    }

    fn raw(&self) -> Option<Raw<'t>> {
        self.source.get(self.next.as_ref()?.span())
    }

    /// Goes to the token after the next.
    fn bump(&mut self) {
        let text = self.raw().map(|raw| raw.as_str()).unwrap_or_default();
        if matches!(self.kind(), TokenKind::Newline | TokenKind::MlBasicString | TokenKind::MlLiteralString) {
            self.line = self.line.saturating_add(text.bytes().filter(|byte| *byte == b'\n').count());
        }
        self.next = self.lexer.next();
    }

    /// Takes the next token if it is this one.
    pub(super) fn take(&mut self, kind: TokenKind) -> bool {
        let is_it = self.kind() == kind;
        if is_it {
            self.bump();
        }
        is_it
    }

    /// Skips spaces and tabs.
    pub(super) fn skip_spaces(&mut self) {
        while self.take(TokenKind::Whitespace) {}
    }

    /// Skips spaces, comments and the ends of lines.
    pub(super) fn skip_lines(&mut self) -> Result<()> {
        loop {
            self.skip_spaces();
            let mut error: Option<ParseError> = None;
            match (self.kind(), self.raw()) {
                (TokenKind::Comment, Some(raw)) => raw.decode_comment(&mut error),
                (TokenKind::Newline, Some(raw)) => raw.decode_newline(&mut error),
                _ => return Ok(()),
            }
            self.refuse(error)?;
            self.bump();
        }
    }

    /// The end of a line, after which there may be a comment.
    pub(super) fn end_line(&mut self) -> Result<()> {
        self.skip_spaces();
        match self.kind() {
            TokenKind::Comment | TokenKind::Newline | TokenKind::Eof => self.skip_lines(),
            _ => Err(self.expected("the end of the line")),
        }
    }

    /// A token that has to be there.
    pub(super) fn need(&mut self, kind: TokenKind, what: &str) -> Result<()> {
        match self.take(kind) {
            true => Ok(()),
            false => Err(self.expected(what)),
        }
    }

    /// What is wrong with a string, a key or a comment, if anything is.
    fn refuse(&self, error: Option<ParseError>) -> Result<()> {
        error.map_or(Ok(()), |error| Err(self.fault(format!("it is no TOML: {}", error.description()))))
    }

    /// A key, without the `=` after it.
    pub(super) fn key(&mut self) -> Result<Cow<'t, str>> {
        let is_key =
            matches!(self.kind(), TokenKind::Atom | TokenKind::BasicString | TokenKind::LiteralString);
        let Some(raw) = self.raw().filter(|_| is_key) else { return Err(self.expected("a key")) };
        let (mut key, mut error) = (Cow::Borrowed(""), None);
        let raw = Raw::new_unchecked(raw.as_str(), self.kind().encoding(), self.span());
        raw.decode_key(&mut key, &mut error);
        self.refuse(error)?;
        self.bump();
        self.skip_spaces();
        Ok(key)
    }

    fn span(&self) -> toml_parser::Span {
        self.next.map(|token| token.span()).unwrap_or_default()
    }

    /// The `=` after a key.
    pub(super) fn equals(&mut self, key: &str) -> Result<()> {
        if self.kind() == TokenKind::Dot {
            return Err(self.fault(format!("no key of a layout has a dot after {}", shown(key))));
        }
        self.need(TokenKind::Equals, &format!("`=` after the key {}", shown(key)))?;
        self.skip_spaces();
        Ok(())
    }

    fn scalar(&mut self, what: &str) -> Result<(ScalarKind, Cow<'t, str>, &'t str)> {
        let kind = self.kind();
        let is_scalar = kind.encoding().is_some() || kind == TokenKind::Atom;
        let Some(raw) = self.raw().filter(|_| is_scalar) else { return Err(self.expected(what)) };
        let (mut value, mut error) = (Cow::Borrowed(""), None);
        let raw = Raw::new_unchecked(raw.as_str(), kind.encoding(), self.span());
        let kind = raw.decode_scalar(&mut value, &mut error);
        self.refuse(error)?;
        Ok((kind, value, raw.as_str()))
    }

    /// A string.
    pub(super) fn string(&mut self, key: &str) -> Result<Cow<'t, str>> {
        let what = format!("a string after `{key} =`");
        match self.scalar(&what)? {
            (ScalarKind::String, value, _) => {
                self.bump();
                Ok(value)
            }
            _ => Err(self.expected(&what)),
        }
    }

    /// An integer between two numbers.
    pub(super) fn integer(&mut self, key: &str, (least, most): (i64, i64)) -> Result<i64> {
        let what = match (least, most) {
            (0, i64::MAX) => format!("an integer from 0 to 2^63 - 1 after `{key} =`"),
            (i64::MIN, i64::MAX) => format!("an integer from -2^63 to 2^63 - 1 after `{key} =`"),
            _ => format!("an integer from {least} to {most} after `{key} =`"),
        };
        let (ScalarKind::Integer(radix), digits, _) = self.scalar(&what)? else {
            return Err(self.expected(&what));
        };
        // Longer ones have too many digits, whatever they are.
        let number = i128::from_str_radix(&digits, radix.value()).ok();
        let number = number.filter(|number| (i128::from(least)..=i128::from(most)).contains(number));
        let Some(number) = number.and_then(|number| i64::try_from(number).ok()) else {
            return Err(self.expected(&what));
        };
        self.bump();
        match self.kind() {
            // Of a fraction.
            TokenKind::Dot => Err(self.fault(format!("{what} is expected, and it has a fraction"))),
            _ => Ok(number),
        }
    }
}

/// A part of the text, shortened.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        None => format!("`{text}`"),
        Some((end, _)) => format!("`{}…`", text.get(..end).unwrap_or_default()),
    }
}
