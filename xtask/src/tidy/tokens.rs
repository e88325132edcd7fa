//! Walks over the tokens of a Rust file.
//!
//! Tokens rather than a syntax tree: they reach into macros (`proptest!` wraps whole functions),
//! comments are not among them, and they are enough for every rule. The price is that a name is
//! only a name: there is no type information.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Calls `visit` for every group at any depth, and for the file itself, with its tokens.
pub(super) fn each_level(tokens: &TokenStream, visit: &mut impl FnMut(&[TokenTree])) {
    let level: Vec<TokenTree> = tokens.clone().into_iter().collect();
    visit(&level);
    for token in &level {
        if let TokenTree::Group(group) = token {
            each_level(&group.stream(), visit);
        }
    }
}

/// An identifier that is `name`.
pub(super) fn is_ident(token: Option<&TokenTree>, name: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(ident)) if ident == name)
}

/// A punctuation character that is `sign`.
pub(super) fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// The text of an identifier.
pub(super) fn ident(token: Option<&TokenTree>) -> Option<String> {
    match token {
        Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
        _ => None,
    }
}

/// The group with this delimiter.
pub(super) fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// The line of a token, from 1.
pub(super) fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

/// An attribute, `#[…]` or `#![…]`.
pub(super) struct Attribute {
    pub(super) line: usize,
    /// `#![…]`, which applies to the enclosing item.
    pub(super) inner: bool,
    /// The tokens between the brackets.
    pub(super) tokens: TokenStream,
}

impl Attribute {
    /// The first identifier: `doc`, `cfg`, `expect`, ….
    pub(super) fn name(&self) -> Option<String> {
        ident(self.tokens.clone().into_iter().next().as_ref())
    }

    /// The literal of `name = "literal"`, without its quotes.
    pub(super) fn literal(&self) -> Option<String> {
        match self.tokens.clone().into_iter().nth(2) {
            Some(TokenTree::Literal(literal)) => Some(literal.to_string().trim_matches('"').to_owned()),
            _ => None,
        }
    }
}

/// The attribute that starts at `index`.
pub(super) fn attribute_at(level: &[TokenTree], index: usize) -> Option<Attribute> {
    if !is_punct(level.get(index), '#') {
        return None;
    }
    let inner = is_punct(level.get(index + 1), '!');
    let brackets = group(level.get(index + 1 + usize::from(inner)), Delimiter::Bracket)?;
    Some(Attribute { line: line(&level[index]), inner, tokens: brackets.stream() })
}

/// The attributes among the tokens of one level.
pub(super) fn attributes(level: &[TokenTree]) -> impl Iterator<Item = Attribute> {
    (0..level.len()).filter_map(|index| attribute_at(level, index))
}
