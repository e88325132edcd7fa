//! [`MhlWriter`]: writes a list.

use std::io::Write;

use super::fault::{MhlError, MhlFault};
use super::folder::FolderDigests;
use super::list::{MhlDigest, MhlDirectory, MhlFile, MhlHead, MhlReference};
use super::names::KINDS;
use super::xml::push_text;
use crate::hash::{Digest, HashKind};

/// Writes a list: its head when it is made, then files and directories in any order, then
/// references, then the end.
///
/// What is refused because XML or the format has no room for it is not written, and the list can be
/// gone on with.
#[derive(Debug)]
pub struct MhlWriter<W> {
    out: W,
    /// What is open within the list.
    section: Section,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    None,
    Hashes,
    References,
}

impl<W: Write> MhlWriter<W> {
    /// Begins a list. The hashes of the directory that it is of stand at its beginning.
    ///
    /// # Errors
    /// Returns the error of the output, or one if the head has something that cannot be written.
    pub fn new(mut out: W, head: &MhlHead, root: Option<&FolderDigests>) -> Result<Self, MhlError> {
        let mut text = String::from(concat!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
            "<hashlist version=\"2.0\" xmlns=\"urn:ASC:MHL:v2.0\">\n"
        ));
        push_creator(&mut text, head)?;
        text.push_str("  <processinfo>\n");
        push_element(&mut text, 4, "process", &[], head.process.name().as_bytes())?;
        if let Some(root) = root {
            text.push_str("    <roothash>\n");
            push_folder(&mut text, &root.content, &root.structure, Some(&head.creator.date))?;
            text.push_str("    </roothash>\n");
        }
        if !head.ignored.is_empty() {
            text.push_str("    <ignore>\n");
            for pattern in &head.ignored {
                push_element(&mut text, 6, "pattern", &[], pattern.as_bytes())?;
            }
            text.push_str("    </ignore>\n");
        }
        text.push_str("  </processinfo>\n");
        out.write_all(text.as_bytes())?;
        Ok(Self { out, section: Section::None })
    }

    /// A file. Its hashes are written in the order of the format.
    ///
    /// # Errors
    /// Returns the error of the output, or [`MhlError::Refused`] if its path cannot be written, or
    /// a hash is of a function that a list may not have.
    pub fn file(&mut self, file: &MhlFile) -> Result<(), MhlError> {
        let mut text = String::from("    <hash>\n");
        let len = file.len.map(|len| len.to_string());
        let attributes = [("size", len.as_deref()), ("lastmodificationdate", file.modified.as_deref())];
        push_element(&mut text, 6, "path", &attributes, &file.path)?;
        let kind = |digest: &MhlDigest| digest.digest.kind;
        for digest in in_order(&file.digests, kind)? {
            let action = digest.action.map(super::list::MhlAction::name);
            let attributes = [("action", action), ("hashdate", digest.date.as_deref())];
            let value = digest.digest.to_string();
            push_element(&mut text, 6, digest.digest.kind.name(), &attributes, value.as_bytes())?;
        }
        push_previous(&mut text, file.previous_path.as_deref())?;
        text.push_str("    </hash>\n");
        self.put(Section::Hashes, &text)
    }

    /// A directory below the one that the list is of. When its hashes were computed is not written.
    ///
    /// # Errors
    /// As [`MhlWriter::file`].
    pub fn directory(&mut self, directory: &MhlDirectory) -> Result<(), MhlError> {
        let mut text = String::from("    <directoryhash>\n");
        let attributes = [("lastmodificationdate", directory.modified.as_deref())];
        push_element(&mut text, 6, "path", &attributes, &directory.path)?;
        push_folder(&mut text, &directory.content, &directory.structure, None)?;
        push_previous(&mut text, directory.previous_path.as_deref())?;
        text.push_str("    </directoryhash>\n");
        self.put(Section::Hashes, &text)
    }

    /// The list of a directory below. After the first one no file and no directory may come.
    ///
    /// # Errors
    /// As [`MhlWriter::file`].
    pub fn reference(&mut self, reference: &MhlReference) -> Result<(), MhlError> {
        let mut text = String::from("    <hashlistreference>\n");
        push_element(&mut text, 6, "path", &[], &reference.path)?;
        push_element(&mut text, 6, "c4", &[], reference.digest.to_string().as_bytes())?;
        text.push_str("    </hashlistreference>\n");
        self.put(Section::References, &text)
    }

    /// Ends the list, and returns what it was written to.
    ///
    /// # Errors
    /// Returns the error of the output.
    pub fn finish(mut self) -> Result<W, MhlError> {
        self.enter(Section::None)?;
        self.out.write_all(b"</hashlist>\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, section: Section, text: &str) -> Result<(), MhlError> {
        self.enter(section)?;
        Ok(self.out.write_all(text.as_bytes())?)
    }

    fn enter(&mut self, section: Section) -> Result<(), MhlError> {
        if self.section == section {
            return Ok(());
        }
        let name = |section| match section {
            Section::None => None,
            Section::Hashes => Some("hashes"),
            Section::References => Some("references"),
        };
        if let Some(name) = name(self.section) {
            writeln!(self.out, "  </{name}>")?;
        }
        if let Some(name) = name(section) {
            writeln!(self.out, "  <{name}>")?;
        }
        self.section = section;
        Ok(())
    }
}

fn push_creator(out: &mut String, head: &MhlHead) -> Result<(), MhlFault> {
    let creator = &head.creator;
    out.push_str("  <creatorinfo>\n");
    push_element(out, 4, "creationdate", &[], creator.date.as_bytes())?;
    push_element(out, 4, "hostname", &[], creator.host.as_bytes())?;
    let version = [("version", creator.tool_version.as_deref())];
    push_element(out, 4, "tool", &version, creator.tool.as_bytes())?;
    for author in &creator.authors {
        if let Some(email) = author.email.as_deref().filter(|email| !is_email(email)) {
            return Err(MhlFault::Email(email.to_owned()));
        }
        let attributes = [
            ("role", author.role.as_deref()),
            ("email", author.email.as_deref()),
            ("phone", author.phone.as_deref()),
        ];
        push_element(out, 4, "author", &attributes, author.name.as_bytes())?;
    }
    for (name, value) in [("location", &creator.location), ("comment", &creator.comment)] {
        if let Some(value) = value {
            push_element(out, 4, name, &[], value.as_bytes())?;
        }
    }
    out.push_str("  </creatorinfo>\n");
    Ok(())
}

/// What the schema takes for an address.
fn is_email(text: &str) -> bool {
    let is_domain = |domain: &str| {
        let dot = domain.find('.');
        dot.is_some_and(|dot| dot > 0 && domain.len() > dot.saturating_add(1))
    };
    text.split_once('@').is_some_and(|(name, domain)| !name.is_empty() && is_domain(domain))
}

/// Hashes of a directory: of contents, and of contents and names.
fn push_folder(
    out: &mut String,
    content: &[Digest],
    structure: &[Digest],
    date: Option<&str>,
) -> Result<(), MhlFault> {
    for (name, digests) in [("content", content), ("structure", structure)] {
        out.push_str(&format!("      <{name}>\n"));
        for digest in in_order(digests, |digest| digest.kind)? {
            push_element(out, 8, digest.kind.name(), &[("hashdate", date)], digest.to_string().as_bytes())?;
        }
        out.push_str(&format!("      </{name}>\n"));
    }
    Ok(())
}

/// Hashes in the order of the format, one of each function.
fn in_order<T>(digests: &[T], kind: impl Fn(&T) -> HashKind) -> Result<Vec<&T>, MhlFault> {
    if let Some(other) = digests.iter().find(|digest| !KINDS.contains(&kind(digest))) {
        return Err(MhlFault::Kind(kind(other)));
    }
    let of = |wanted| digests.iter().find(|digest| kind(digest) == wanted);
    Ok(KINDS.into_iter().filter_map(of).collect())
}

fn push_previous(out: &mut String, path: Option<&[u8]>) -> Result<(), MhlFault> {
    path.map_or(Ok(()), |path| push_element(out, 6, "previousPath", &[], path))
}

/// One element on a line of its own. Attributes without a value are left out.
pub(super) fn push_element(
    out: &mut String,
    indent: usize,
    name: &str,
    attributes: &[(&str, Option<&str>)],
    text: &[u8],
) -> Result<(), MhlFault> {
    out.extend(std::iter::repeat_n(' ', indent));
    out.push('<');
    out.push_str(name);
    for (attribute, value) in attributes.iter().filter_map(|(name, value)| Some((name, (*value)?))) {
        out.push_str(&format!(" {attribute}=\""));
        push_text(out, value.as_bytes())?;
        out.push('"');
    }
    out.push('>');
    push_text(out, text)?;
    out.push_str(&format!("</{name}>\n"));
    Ok(())
}
