//! [`Chain`]: the lists of a directory, and their hashes.

use std::io::BufRead;

use super::fault::{MhlError, MhlFault};
use super::names::KINDS;
use super::write::push_element;
use super::xml::{Element, Xml};
use crate::hash::Digest;

const CONTAINERS: &[&str] = &["ascmhldirectory"];
/// How many lists a chain may name.
const ENTRIES_MAX: usize = 1 << 16;

/// The lists of a directory, in the order in which they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// One for each list.
    pub entries: Vec<ChainEntry>,
}

/// A list in a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEntry {
    /// The number of its generation, from 1.
    pub generation: u32,
    /// Its name in [`FOLDER`](super::FOLDER).
    pub name: Vec<u8>,
    /// The hash of the list, a C4 where a program keeps to the format.
    pub digest: Digest,
}

impl Chain {
    /// Reads a chain.
    ///
    /// # Errors
    /// Returns the error of the input, or one if the bytes are no chain, or an entry has no
    /// generation, no name or no hash: a chain is believed as a whole.
    pub fn decode(input: impl BufRead) -> Result<Self, MhlError> {
        let mut xml = Xml::new(input, CONTAINERS);
        let mut chain = Self::default();
        while let Some(element) = xml.next()? {
            if element.name != "hashlist" {
                continue;
            }
            let line = element.line;
            let entry =
                entry(&element).map_err(|fault| MhlError::Damaged { line, what: fault.to_string() })?;
            if chain.entries.len() >= ENTRIES_MAX {
                let what = format!("more than {ENTRIES_MAX} lists");
                return Err(MhlError::Unsupported { line, what });
            }
            chain.entries.push(entry);
        }
        Ok(chain)
    }

    /// The bytes of a chain.
    ///
    /// # Errors
    /// Returns an error if XML cannot hold a name.
    pub fn encode(&self) -> Result<Vec<u8>, MhlFault> {
        let mut text = String::from(concat!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
            "<ascmhldirectory xmlns=\"urn:ASC:MHL:DIRECTORY:v2.0\">\n"
        ));
        for entry in &self.entries {
            text.push_str(&format!("  <hashlist sequencenr=\"{}\">\n", entry.generation));
            push_element(&mut text, 4, "path", &[], &entry.name)?;
            let digest = entry.digest.to_string();
            push_element(&mut text, 4, entry.digest.kind.name(), &[], digest.as_bytes())?;
            text.push_str("  </hashlist>\n");
        }
        text.push_str("</ascmhldirectory>\n");
        Ok(text.into_bytes())
    }

    /// The number of the next generation.
    pub fn next_generation(&self) -> u32 {
        let last = self.entries.iter().map(|entry| entry.generation).max().unwrap_or(0);
        last.saturating_add(1)
    }
}

fn entry(element: &Element) -> Result<ChainEntry, MhlFault> {
    let generation = element.attribute("sequencenr").and_then(|number| number.trim().parse().ok());
    let path = element.child("path").ok_or(MhlFault::Missing("path"))?;
    let kind = |child: &Element| KINDS.into_iter().find(|kind| kind.name() == child.name);
    let hash = element.children.iter().find_map(|child| Some((child, kind(child)?)));
    let (hash, kind) = hash.ok_or(MhlFault::Missing("c4"))?;
    let name = crate::format::relative(path.text.as_bytes())?;
    if name.contains(&b'/') {
        return Err(MhlFault::Path(crate::format::PathFault::LeadsOut));
    }
    Ok(ChainEntry {
        generation: generation.ok_or(MhlFault::Missing("hashlist sequencenr"))?,
        name,
        digest: Digest::parse(kind, hash.text.trim().as_bytes())?,
    })
}
