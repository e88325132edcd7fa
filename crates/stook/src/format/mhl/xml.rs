//! Reads XML element by element, in bounded memory, and writes what stands between tags.

use std::io::{self, BufRead, Read};

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesDecl, BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use super::fault::{MhlError, MhlFault};

/// How long a tag, a text between tags or a comment may be, in bytes.
const EVENT_MAX: usize = 256 << 10;
/// How much of one element is kept, with all that is in it, in bytes.
const ELEMENT_MAX: usize = 1 << 20;
/// How many elements may be in one, and how many attributes each may have.
const CHILDREN_MAX: usize = 8192;
const ATTRIBUTES_MAX: usize = 32;
/// How deep elements may stand in one another.
const DEPTH_MAX: usize = 64;

/// An element and what is in it.
#[derive(Debug, Default)]
pub(super) struct Element {
    /// Without its prefix.
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) text: String,
    pub(super) children: Vec<Element>,
    /// The number of the line where it begins.
    pub(super) line: u64,
}

impl Element {
    pub(super) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// The document: its root and the elements that only contain others are entered, and what is in
/// them comes one by one.
pub(super) struct Xml<R> {
    reader: Reader<Bounded<R>>,
    buffer: Vec<u8>,
    /// The name of the root, then of what is entered within it.
    containers: &'static [&'static str],
    /// What was entered.
    open: usize,
    root: Option<Element>,
    is_done: bool,
}

impl<R: BufRead> Xml<R> {
    /// Begins to read; the first name is that of the root.
    pub(super) fn new(input: R, containers: &'static [&'static str]) -> Self {
        let mut reader = Reader::from_reader(Bounded { input, left: EVENT_MAX, line: 1, is_exceeded: false });
        reader.config_mut().expand_empty_elements = true;
        Self { reader, buffer: Vec::new(), containers, open: 0, root: None, is_done: false }
    }

    /// The root, without what is in it, when the first element was read.
    pub(super) fn root(&self) -> Option<&Element> {
        self.root.as_ref()
    }

    /// The line up to which was read.
    pub(super) fn line(&self) -> u64 {
        self.reader.get_ref().line
    }

    /// The next element that is no container; `None` after the end of the root.
    pub(super) fn next(&mut self) -> Result<Option<Element>, MhlError> {
        loop {
            let (line, is_done) = (self.line(), self.is_done);
            match self.event()? {
                Some(Event::Start(start)) => {
                    let element = start_of(&start, line)?;
                    let is_container = self.containers.contains(&element.name.as_str());
                    match (self.open, is_container, is_done) {
                        (0, true, false) if self.containers.first() == Some(&element.name.as_str()) => {
                            self.root = Some(element);
                            self.open = 1;
                            return Ok(Some(Element::default()));
                        }
                        (0, _, _) => {
                            let root = self.containers.first().unwrap_or(&"");
                            let what = format!(
                                "<{}> where <{root}> was expected, and nothing after it",
                                element.name
                            );
                            return Err(damaged(line, what));
                        }
                        (open, true, _) => self.open = entered(open, line)?,
                        (open, false, _) => return self.rest(element, open).map(Some),
                    }
                }
                Some(Event::End(_)) => {
                    self.open = self.open.saturating_sub(1);
                    self.is_done |= self.open == 0;
                }
                None if is_done => return Ok(None),
                None => return Err(damaged(line, "the list is cut off".to_owned())),
                Some(_) => {}
            }
        }
    }

    /// What is in an element that has begun.
    fn rest(&mut self, element: Element, outside: usize) -> Result<Element, MhlError> {
        let (mut size, mut count) = (0usize, 0usize);
        let mut above: Vec<Element> = Vec::new();
        let mut element = element;
        loop {
            let line = self.line();
            let added = match self.event()? {
                Some(Event::Start(start)) => {
                    entered(above.len().saturating_add(outside), line)?;
                    let child = start_of(&start, line)?;
                    count = count.saturating_add(1);
                    let attributes =
                        child.attributes.iter().map(|(name, value)| name.len().saturating_add(value.len()));
                    let added = attributes.fold(child.name.len(), usize::saturating_add);
                    above.push(std::mem::replace(&mut element, child));
                    added
                }
                Some(Event::End(_)) => {
                    let Some(parent) = above.pop() else { return Ok(element) };
                    let child = std::mem::replace(&mut element, parent);
                    element.children.push(child);
                    0
                }
                Some(Event::Text(text)) => {
                    let text = text.xml10_content().map_err(|error| damaged(line, error.to_string()))?;
                    element.text.push_str(&text);
                    text.len()
                }
                Some(Event::CData(text)) => {
                    let text = text.xml10_content().map_err(|error| damaged(line, error.to_string()))?;
                    element.text.push_str(&text);
                    text.len()
                }
                Some(Event::GeneralRef(reference)) => {
                    let before = element.text.len();
                    push_reference(&reference, line, &mut element.text)?;
                    element.text.len().saturating_sub(before)
                }
                Some(_) => 0,
                None => return Err(damaged(line, "the list is cut off".to_owned())),
            };
            size = size.saturating_add(added);
            if size > ELEMENT_MAX || count > CHILDREN_MAX {
                let what =
                    format!("an element has more than {ELEMENT_MAX} bytes or {CHILDREN_MAX} elements in it");
                return Err(MhlError::Unsupported { line, what });
            }
        }
    }

    /// The next event; `None` at the end of the input.
    fn event(&mut self) -> Result<Option<Event<'_>>, MhlError> {
        self.buffer.clear();
        self.reader.get_mut().left = EVENT_MAX;
        let line = self.line();
        let event = match self.reader.read_event_into(&mut self.buffer) {
            Ok(event) => event,
            Err(_) if self.reader.get_ref().is_exceeded => {
                let what = format!("more than {EVENT_MAX} bytes without a tag");
                return Err(MhlError::Unsupported { line, what });
            }
            Err(quick_xml::Error::Io(error)) => return Err(copied(&error).into()),
            Err(error) => return Err(damaged(line, error.to_string())),
        };
        match event {
            Event::Eof => Ok(None),
            Event::DocType(_) => {
                let what = "a document type, which is not read".to_owned();
                Err(MhlError::Unsupported { line, what })
            }
            Event::Decl(declaration) => {
                check_encoding(&declaration, line)?;
                Ok(Some(Event::Decl(declaration)))
            }
            event => Ok(Some(event)),
        }
    }
}

fn damaged(line: u64, what: String) -> MhlError {
    MhlError::Damaged { line, what }
}

/// The same error once more; `quick_xml` keeps it in a place from which it cannot be taken.
fn copied(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

fn entered(depth: usize, line: u64) -> Result<usize, MhlError> {
    if depth < DEPTH_MAX {
        return Ok(depth.saturating_add(1));
    }
    let what = format!("elements stand more than {DEPTH_MAX} deep in one another");
    Err(MhlError::Unsupported { line, what })
}

/// Everything here is UTF-8, whatever a list says of itself.
fn check_encoding(declaration: &BytesDecl<'_>, line: u64) -> Result<(), MhlError> {
    let encoding = match declaration.encoding() {
        None => return Ok(()),
        Some(encoding) => encoding.map_err(|error| damaged(line, error.to_string()))?,
    };
    if [&b"UTF-8"[..], b"UTF8", b"US-ASCII"].iter().any(|known| encoding.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let what = format!("it is in {}, and only UTF-8 is read", String::from_utf8_lossy(&encoding));
    Err(MhlError::Unsupported { line, what })
}

fn start_of(start: &BytesStart<'_>, line: u64) -> Result<Element, MhlError> {
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(damaged(line, "a tag is not in UTF-8".to_owned())),
    };
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| damaged(line, error.to_string()))?;
        let value = attribute.normalized_value(XmlVersion::Explicit1_0);
        let value = value.map_err(|error| damaged(line, error.to_string()))?.into_owned();
        attributes.push((text(attribute.key.local_name().into_inner())?, value));
        if attributes.len() > ATTRIBUTES_MAX {
            let what = format!("an element has more than {ATTRIBUTES_MAX} attributes");
            return Err(MhlError::Unsupported { line, what });
        }
    }
    let name = text(start.local_name().into_inner())?;
    Ok(Element { name, attributes, line, ..Element::default() })
}

/// Adds what `&…;` stands for.
fn push_reference(reference: &BytesRef<'_>, line: u64, text: &mut String) -> Result<(), MhlError> {
    let name = reference.decode().map_err(|error| damaged(line, error.to_string()))?;
    if let Some(character) = reference.resolve_char_ref().map_err(|error| damaged(line, error.to_string()))? {
        text.push(character);
        return Ok(());
    }
    let known = resolve_predefined_entity(&name);
    text.push_str(known.ok_or_else(|| damaged(line, format!("`&{name};` is not defined")))?);
    Ok(())
}

/// Gives the parser no more than [`EVENT_MAX`] bytes for one event, since it keeps all of them, and
/// counts lines.
struct Bounded<R> {
    input: R,
    left: usize,
    line: u64,
    is_exceeded: bool,
}

impl<R: BufRead> BufRead for Bounded<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let bytes = self.input.fill_buf()?;
        if self.left == 0 && !bytes.is_empty() {
            self.is_exceeded = true;
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        Ok(bytes.get(..self.left).unwrap_or(bytes))
    }

    fn consume(&mut self, amount: usize) {
        // Asked for again, a buffer that is not empty is the same one.
        let lines = match self.input.fill_buf() {
            Ok(bytes) => bytes.iter().take(amount).filter(|byte| **byte == b'\n').count(),
            Err(_) => 0,
        };
        self.line = self.line.saturating_add(lines as u64);
        self.left = self.left.saturating_sub(amount);
        self.input.consume(amount);
    }
}

impl<R: BufRead> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

/// Adds a text as it stands between tags or in an attribute.
///
/// # Errors
/// Returns an error if it is not in UTF-8 or has characters that XML has no way to write.
pub(super) fn push_text(out: &mut String, text: &[u8]) -> Result<(), MhlFault> {
    let text = std::str::from_utf8(text).map_err(|_| MhlFault::Xml("bytes that are not UTF-8"))?;
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\u{1f}' => return Err(MhlFault::Xml("control characters")),
            '\u{fffe}' | '\u{ffff}' => return Err(MhlFault::Xml("the characters U+FFFE and U+FFFF")),
            character => out.push(character),
        }
    }
    Ok(())
}
