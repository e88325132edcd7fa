//! [`Lister`]: a directory as a page, written while it is listed.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use stook::names::escaped;
use stook::report::escape;
use stook::report::time::second_of;
use stook::report::units;
use stook::tree::{Cursor, Entry, Kind, Node, Page};

use crate::answer::Shared;
use crate::body::Failed;
use crate::find::{Found, find};
use crate::served::Opened;
use crate::target::push_encoded;

const STYLE: &str = "\
body{font-family:system-ui,sans-serif;margin:2em}\
form{margin-bottom:1em}\
table{border-collapse:collapse}\
h1,td:first-child{overflow-wrap:anywhere}\
td,th{padding:.15em 1.5em .15em 0;text-align:left;vertical-align:top}\
td:nth-child(n+2),th{white-space:nowrap}\
td.n{text-align:right;font-variant-numeric:tabular-nums}\
@media(max-width:40em){body{margin:1em}td,th{padding-right:.8em}}\
@media(max-width:30em){th:last-child,td:last-child{white-space:normal;min-width:5.5em;padding-right:0}}";

/// Pages after which a tree on disk is opened anew.
const PAGES_MET: u64 = 4;

/// The page of a directory. One that a single page of the tree holds is in the order of names; a
/// longer one has the order of the tree, because none of it is kept.
pub(crate) struct Lister {
    shared: Arc<Shared>,
    opened: Opened,
    /// The path, and what it leads to.
    names: Vec<Vec<u8>>,
    found: Found,
    from: Option<Cursor>,
    pages: u64,
    page: Page,
    failed: Failed,
}

impl Lister {
    pub(crate) fn new(
        shared: Arc<Shared>,
        opened: Opened,
        names: Vec<Vec<u8>>,
        found: Found,
        failed: Failed,
    ) -> Self {
        let from = Some(Cursor::Start);
        Self { shared, opened, names, found, from, pages: 0, page: Page::new(), failed }
    }

    /// Forgets what was met so far: a tree on disk remembers all that it lists.
    fn forget(&mut self) -> stook::Result<()> {
        self.opened = self.shared.served.reopen()?;
        self.found = find(&self.opened, &self.names)?;
        match self.found {
            Found::Node(_, Kind::Directory) => Ok(()),
            _ => {
                let path = self.opened.tree.path_of(self.opened.root);
                Err(stook::Error::io("list", path, io::ErrorKind::NotFound.into()))
            }
        }
    }

    /// Tells an error to who serves.
    pub(crate) fn fail(&self, error: stook::Error) {
        (self.failed)(&error.into());
    }

    /// Lists the first part, so that an error of that is an answer of its own.
    pub(crate) fn begin(&mut self) -> stook::Result<Bytes> {
        Ok(self.next()?.unwrap_or_default())
    }

    /// The next part of the page; `None` after the last.
    pub(crate) fn next(&mut self) -> stook::Result<Option<Bytes>> {
        let Some(from) = self.from.take() else { return Ok(None) };
        let mut html = String::with_capacity(32 << 10);
        let mut page = std::mem::take(&mut self.page);
        if self.pages > 0 && self.pages.is_multiple_of(PAGES_MET) && self.opened.is_on_disk {
            self.forget()?;
        }
        let next = self.list(&from, &mut page)?;
        if self.pages == 0 {
            self.head(&mut html);
        }
        self.pages += 1;
        let mut entries: Vec<Entry<'_>> = page.iter().collect();
        if from == Cursor::Start && next.is_none() {
            entries.sort_unstable_by(|one, other| one.name.cmp(other.name));
        }
        for entry in &entries {
            match entry.node.map_or_else(|| self.opened.tree.node(entry.id), Ok) {
                Ok(node) => self.row(&mut html, entry, &node),
                Err(error) => self.lost(&mut html, Some(entry.name), error),
            }
        }
        drop(entries);
        page.take_failures().into_iter().for_each(|error| self.lost(&mut html, None, error));
        self.page = page;
        if next.is_none() {
            html.push_str("</table>\n</body>\n</html>\n");
        }
        self.from = next;
        Ok(Some(html.into()))
    }

    fn list(&self, from: &Cursor, page: &mut Page) -> stook::Result<Option<Cursor>> {
        match self.found {
            Found::Node(id, _) => self.opened.tree.list(id, from, page),
            _ => {
                page.clear();
                let node = self.opened.tree.node(self.opened.root)?;
                page.push(&self.opened.name, self.opened.root, node);
                Ok(None)
            }
        }
    }

    fn head(&self, html: &mut String) {
        let mut title = String::from("/");
        for name in &self.names {
            put(html_of(name), &mut title);
            title.push('/');
        }
        put(
            format_args!(
                "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
                 <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
                 <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
                 <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
            ),
            html,
        );
        if self.opened.only.is_none() {
            // No links: what follows all of them would fetch everything again for each directory.
            html.push_str(
                "<form method=\"get\">All of it: <button name=\"as\" value=\"tar\">tar</button> \
                 <button name=\"as\" value=\"zip\">zip</button></form>\n",
            );
        }
        html.push_str("<table>\n<tr><th>name</th><th>size</th><th>modified</th></tr>\n");
        if !self.names.is_empty() {
            html.push_str("<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
        }
    }

    fn row(&self, html: &mut String, entry: &Entry<'_>, node: &Node) {
        let (mut kind, mut after) = (node.kind, String::new());
        let mut is_there = !kind.is_special() && !matches!(entry.name, b"." | b"..");
        if kind == Kind::Symlink {
            let target = self.opened.tree.link_target(entry.id).unwrap_or_default();
            put(format_args!(" → {}", html_of(&target)), &mut after);
            let mut names = self.names.clone();
            names.push(entry.name.to_vec());
            match find(&self.opened, &names) {
                Ok(Found::Node(_, led_to)) if !led_to.is_special() => kind = led_to,
                _ => is_there = false,
            }
        }
        let slash = if kind == Kind::Directory { "/" } else { "" };
        let mut href = String::new();
        push_encoded(&mut href, entry.name);
        let shown = html_of(entry.name);
        match is_there {
            true => {
                put(format_args!("<tr><td><a href=\"{href}{slash}\">{shown}{slash}</a>{after}</td>"), html)
            }
            false => put(format_args!("<tr><td>{shown}{slash}{after}</td>"), html),
        }
        let size = if node.kind == Kind::File { units::bytes_decimal(node.len) } else { String::new() };
        let modified = node.mtime_ns.map(second_of).unwrap_or_default();
        put(format_args!("<td class=\"n\">{size}</td><td>{modified}</td></tr>\n"), html);
    }

    /// An entry that cannot be read.
    fn lost(&self, html: &mut String, name: Option<&[u8]>, error: stook::Error) {
        (self.failed)(&error.into());
        let shown = name.map(html_of).unwrap_or_default();
        put(format_args!("<tr><td>{shown}</td><td>cannot be read</td><td></td></tr>\n"), html);
    }
}

/// A name as text of a page.
fn html_of(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) => escape(text),
        Err(_) => escape(&escaped(name).to_string()),
    }
}

fn put(text: impl std::fmt::Display, html: &mut String) {
    let written = write!(html, "{text}");
    debug_assert!(written.is_ok(), "writing into a String does not fail");
}
