//! [`MhlReader`]: a list, record by record.

use std::collections::VecDeque;
use std::io::BufRead;

use super::fault::{BadRecord, MhlError, MhlFault};
use super::list::{
    MhlAction, MhlAuthor, MhlCreator, MhlDigest, MhlDirectory, MhlFile, MhlHead, MhlItem, MhlProcess,
    MhlReference,
};
use super::names::KINDS;
use super::xml::{Element, Xml};
use crate::format::relative::{PathFault, relative, relative_dos};
use crate::hash::{Digest, HashKind};

const CONTAINERS: &[&str] = &["hashlist", "hashes", "references"];
const VERSION: &str = "2.0";

/// Reads a list, record by record, in bounded memory.
pub struct MhlReader<R> {
    xml: Xml<R>,
    creator: Option<MhlCreator>,
    /// What one element of the list says is handed out in parts.
    waiting: VecDeque<MhlItem>,
    has_slashes: bool,
    has_backslashes: bool,
    is_done: bool,
}

impl<R: BufRead> MhlReader<R> {
    /// Reads this list.
    pub fn new(input: R) -> Self {
        Self {
            xml: Xml::new(input, CONTAINERS),
            creator: None,
            waiting: VecDeque::new(),
            has_slashes: false,
            has_backslashes: false,
            is_done: false,
        }
    }

    /// What stands next in the list; `None` at its end.
    ///
    /// A record that is not taken is no error of the reading: the next call continues after it.
    ///
    /// # Errors
    /// Returns the error of the input, or one if the bytes are no list, are cut off, or are of
    /// another version; then there is nothing more.
    pub fn next_item(&mut self) -> Result<Option<Result<MhlItem, BadRecord>>, MhlError> {
        while !self.is_done {
            if let Some(item) = self.waiting.pop_front() {
                return Ok(Some(Ok(item)));
            }
            // Whatever ends the reading by an error ends it for good.
            self.is_done = true;
            let Some(element) = self.xml.next()? else { return Ok(None) };
            if element.name.is_empty() {
                self.check_version()?;
                self.is_done = false;
                continue;
            }
            self.is_done = false;
            match self.take(&element) {
                Ok(()) => {}
                Err(fault) => return Ok(Some(Err(BadRecord { line: element.line, fault }))),
            }
        }
        Ok(None)
    }

    /// Whether the paths up to here have backslashes and no slashes. Then [`MhlFile::dos_path`] is
    /// likely what is meant.
    pub fn looks_like_dos(&self) -> bool {
        self.has_backslashes && !self.has_slashes
    }

    fn check_version(&self) -> Result<(), MhlError> {
        match self.xml.root().and_then(|root| root.attribute("version")) {
            Some(VERSION) => Ok(()),
            other => {
                let found = other.map_or("no version".to_owned(), |version| format!("version {version}"));
                let what = format!("a list of {found}, and ASC MHL version {VERSION} is read");
                Err(MhlError::Unsupported { line: self.xml.line(), what })
            }
        }
    }

    fn take(&mut self, element: &Element) -> Result<(), MhlFault> {
        match element.name.as_str() {
            "creatorinfo" => self.creator = Some(creator(element)),
            "processinfo" => {
                let head = MhlHead {
                    creator: self.creator.take().unwrap_or_default(),
                    process: text_of(element, "process")
                        .and_then(|name| MhlProcess::from_name(&name))
                        .unwrap_or_default(),
                    ignored: patterns(element),
                };
                self.waiting.push_back(MhlItem::Head(head));
                if let Some(root) = element.child("roothash") {
                    let root = directory(root, Vec::new())?;
                    self.waiting.push_back(MhlItem::Root(root));
                }
            }
            "hash" => {
                let file = file(element)?;
                self.has_slashes |= file.path.contains(&b'/');
                self.has_backslashes |= file.dos_path.is_some();
                self.waiting.push_back(MhlItem::File(file));
            }
            "directoryhash" => {
                let path = match relative(path_of(element)?.text.as_bytes()) {
                    // The directory of the list itself.
                    Err(PathFault::NoName) => Vec::new(),
                    path => path?,
                };
                let directory = directory(element, path)?;
                self.waiting.push_back(MhlItem::Directory(directory));
            }
            "hashlistreference" => {
                let c4 = element.child("c4").ok_or(MhlFault::Missing("c4"))?;
                let reference = MhlReference {
                    line: element.line,
                    path: relative(path_of(element)?.text.as_bytes())?,
                    digest: Digest::parse(HashKind::C4, c4.text.trim().as_bytes())?,
                };
                self.waiting.push_back(MhlItem::Reference(reference));
            }
            // The schema has room for metadata of any kind.
            _ => {}
        }
        Ok(())
    }
}

fn text_of(element: &Element, name: &str) -> Option<String> {
    element.child(name).map(|child| child.text.trim().to_owned())
}

fn path_of(element: &Element) -> Result<&Element, MhlFault> {
    element.child("path").ok_or(MhlFault::Missing("path"))
}

fn patterns(element: &Element) -> Vec<String> {
    let ignored = element.child("ignore").map_or(&[][..], |ignored| &ignored.children);
    ignored.iter().filter(|pattern| pattern.name == "pattern").map(|pattern| pattern.text.clone()).collect()
}

fn creator(element: &Element) -> MhlCreator {
    let author = |author: &Element| {
        let detail = |name: &str| author.attribute(name).map(str::to_owned).or_else(|| text_of(author, name));
        MhlAuthor {
            // Some programs write elements where the schema has attributes.
            name: text_of(author, "name").unwrap_or_else(|| author.text.trim().to_owned()),
            email: detail("email"),
            phone: detail("phone"),
            role: detail("role"),
        }
    };
    MhlCreator {
        date: text_of(element, "creationdate").unwrap_or_default(),
        host: text_of(element, "hostname").unwrap_or_default(),
        tool: text_of(element, "tool").unwrap_or_default(),
        tool_version: element.child("tool").and_then(|tool| tool.attribute("version")).map(str::to_owned),
        authors: element.children.iter().filter(|child| child.name == "author").map(author).collect(),
        location: text_of(element, "location"),
        comment: text_of(element, "comment"),
    }
}

fn file(element: &Element) -> Result<MhlFile, MhlFault> {
    let path = path_of(element)?;
    let name = path.text.as_bytes();
    let size = path.attribute("size").map(str::trim);
    let len = size.map(|size| size.parse().map_err(|_| MhlFault::Size(size.to_owned()))).transpose()?;
    let digest = |(child, kind): (&Element, HashKind)| {
        Ok(MhlDigest {
            digest: Digest::parse(kind, child.text.trim().as_bytes())?,
            action: child.attribute("action").and_then(MhlAction::from_name),
            date: child.attribute("hashdate").map(str::to_owned),
        })
    };
    let digests: Vec<MhlDigest> = hashes(element).map(digest).collect::<Result<_, MhlFault>>()?;
    let is_known = |child: &Element| ["path", "previousPath", "metadata"].contains(&child.name.as_str());
    if digests.is_empty() && !element.children.iter().all(is_known) {
        return Err(MhlFault::UnknownKinds);
    }
    Ok(MhlFile {
        line: element.line,
        path: relative(name)?,
        dos_path: name.contains(&b'\\').then(|| relative_dos(name)),
        len,
        modified: path.attribute("lastmodificationdate").map(str::to_owned),
        digests,
        previous_path: previous_path(element)?,
    })
}

fn directory(element: &Element, path: Vec<u8>) -> Result<MhlDirectory, MhlFault> {
    let digests = |name| {
        let container = element.child(name);
        let digest = |(child, kind): (&Element, HashKind)| Digest::parse(kind, child.text.trim().as_bytes());
        container.map_or_else(|| Ok(Vec::new()), |container| hashes(container).map(digest).collect())
    };
    let modified = element.child("path").and_then(|path| path.attribute("lastmodificationdate"));
    Ok(MhlDirectory {
        line: element.line,
        path,
        modified: modified.map(str::to_owned),
        content: digests("content")?,
        structure: digests("structure")?,
        previous_path: previous_path(element)?,
    })
}

fn previous_path(element: &Element) -> Result<Option<Vec<u8>>, MhlFault> {
    let previous = element.child("previousPath");
    Ok(previous.map(|previous| relative(previous.text.as_bytes())).transpose()?)
}

/// The hashes in an element, as far as their functions are known.
fn hashes(element: &Element) -> impl Iterator<Item = (&Element, HashKind)> {
    let kind = |child: &Element| KINDS.into_iter().find(|kind| kind.name() == child.name);
    element.children.iter().filter_map(move |child| Some((child, kind(child)?)))
}
