//! [`Safetensors`]: shards of tensors as one file: a header of its own, and the buffers of all
//! shards as they are.
//!
//! The format is that of <https://huggingface.co/docs/safetensors>: the length of a header as u64,
//! the header in JSON, a buffer; the tensors lie in it one after another without gaps.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::afs::Bodied;
use super::error::{Error, Result};
use super::file::VirtualFile;
use super::layout::{Laid, Layout};
use super::members::Members;
use super::pieces::Pieces;
use crate::engine::{Access, Backend};
use crate::error;
use crate::extent::ByteRange;
use crate::source::{Source, read_range};

/// The longest header: the limit of the reference reader.
const HEADER_MAX: u64 = 100_000_000;
/// What the length of the header takes.
const LEN_BYTES: u64 = 8;
/// The name in a header that is no tensor's.
const METADATA: &str = "__metadata__";

/// Shards of safetensors, merged into one file in the order of their paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Safetensors;

/// Where a tensor lies, and what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

/// The header of a file.
#[derive(Debug, Default, Serialize)]
struct Header {
    #[serde(rename = "__metadata__", skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    #[serde(flatten)]
    tensors: BTreeMap<String, Tensor>,
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(HeaderVisitor)
    }
}

struct HeaderVisitor;

impl<'de> Visitor<'de> for HeaderVisitor {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Header, A::Error> {
        let (mut header, mut has_metadata) = (Header::default(), false);
        while let Some(name) = map.next_key::<String>()? {
            let is_new = if name == METADATA {
                header.metadata = map.next_value::<Unique>()?.0;
                !std::mem::replace(&mut has_metadata, true)
            } else {
                let tensor = map.next_value()?;
                header.tensors.insert(name.clone(), tensor).is_none()
            };
            if !is_new {
                return Err(A::Error::custom(format_args!("{name:?} is there twice")));
            }
        }
        Ok(header)
    }
}

/// What is said of a file, each once.
struct Unique(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(UniqueVisitor)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Unique;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Unique, A::Error> {
        let mut all = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, String>()? {
            if all.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format_args!("{name:?} is there twice in {METADATA}")));
            }
        }
        Ok(Unique(all))
    }
}

impl Layout for Safetensors {
    fn ending(&self) -> &'static str {
        "safetensors"
    }

    /// Reads the headers of all shards.
    fn lay_out(&self, path: PathBuf, mut members: Members) -> Result<Laid> {
        members.settle(false)?;
        members.keep_files()?;
        let count = members.count()?;
        if count == 0 {
            return Err(Error::Nothing("no file of them is a shard of safetensors"));
        }
        let (mut merged, mut buffers, mut at) = (Header::default(), Vec::new(), 0_u64);
        for (number, member) in (0..count).zip(members.all()) {
            let refused = |why: String| Error::Member { key: member.key.to_vec(), why };
            let source = members.open(number)?;
            let (header, buffer) = header_of(&*source)?.map_err(refused)?;
            for (name, mut tensor) in header.tensors {
                tensor.data_offsets = tensor.data_offsets.map(|offset| offset.saturating_add(at));
                if merged.tensors.insert(name.clone(), tensor).is_some() {
                    return Err(refused(format!("another shard has the tensor {name:?}, too")));
                }
            }
            for (name, value) in header.metadata {
                let known = merged.metadata.entry(name.clone()).or_insert_with(|| value.clone());
                if *known != value {
                    return Err(refused(format!(
                        "another shard says something else of {name:?} in {METADATA}"
                    )));
                }
            }
            at = at.checked_add(buffer.len()).ok_or(Error::TooLong { pieces: members.all().len() })?;
            buffers.push((number, buffer));
        }
        let mut pieces = Pieces::new();
        pieces.bytes(encoded(&merged).into());
        let mut starts = Vec::new();
        for (number, buffer) in buffers {
            starts.push(pieces.len());
            pieces.body(number, buffer.start(), buffer.len());
        }
        let members = Arc::new(members);
        let file = VirtualFile::new(path, pieces, Arc::new(Bodied(members.clone())))?;
        Ok(Laid { file, members, starts: starts.into() })
    }
}

/// The header of a file with its length, filled up with blanks so that the buffer is aligned.
fn encoded(header: &Header) -> Vec<u8> {
    let mut json = serde_json::to_vec(header).unwrap_or_default();
    json.resize(json.len().next_multiple_of(LEN_BYTES as usize), b' ');
    [(json.len() as u64).to_le_bytes().as_slice(), &json].concat()
}

/// The header of a file, and where its buffer is; or why it is none.
fn header_of(source: &dyn Source) -> error::Result<std::result::Result<(Header, ByteRange), String>> {
    let cut = || {
        Ok(Err(format!(
            "it is no file of safetensors: it has {} bytes, and no header fits into them",
            source.len()
        )))
    };
    let read = |range: ByteRange| read_range(&Backend::Auto, source, range, Access::Cached);
    let within = |range: Option<ByteRange>| range.filter(|range| range.end() <= source.len());
    let Some(len) = within(ByteRange::at(0, LEN_BYTES)) else { return cut() };
    let Ok(len) = <[u8; 8]>::try_from(read(len)?.as_ref()).map(u64::from_le_bytes) else { return cut() };
    if len > HEADER_MAX {
        return Ok(Err(format!(
            "it is no file of safetensors (its header would have {len} bytes, and {HEADER_MAX} are the most): name \
             the shards alone"
        )));
    }
    let Some(header) = within(ByteRange::at(LEN_BYTES, len)) else { return cut() };
    let Some(buffer) = ByteRange::new(header.end(), source.len()) else { return cut() };
    let parsed = serde_json::from_slice(&read(header)?);
    let parsed = parsed.map_err(|error| format!("its header is no such JSON: {error}"));
    Ok(parsed.and_then(|parsed| check(&parsed, buffer.len()).map(|()| (parsed, buffer))))
}

/// Whether the tensors of a file lie in its buffer one after another, and fill it.
fn check(header: &Header, buffer_len: u64) -> std::result::Result<(), String> {
    let mut places: Vec<(&String, &Tensor)> = header.tensors.iter().collect();
    places.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut at = 0;
    for (name, Tensor { dtype, shape, data_offsets: [start, end] }) in places {
        if *start != at || end < start {
            return Err(format!("the tensor {name:?} is at {start}..{end}, and {at} would be its place"));
        }
        let bits = bits_of(dtype).ok_or_else(|| format!("the tensor {name:?} is of {dtype:?}"))?;
        let count = shape.iter().try_fold(1_u64, |count, side| count.checked_mul(*side));
        let len = count.and_then(|count| count.checked_mul(bits)).filter(|bits| bits % 8 == 0);
        if len.map(|bits| bits / 8) != Some(end - start) {
            return Err(format!("the tensor {name:?} has another length than {dtype} {shape:?}"));
        }
        at = *end;
    }
    match at == buffer_len {
        true => Ok(()),
        false => Err(format!("its tensors have {at} bytes, and its buffer {buffer_len}")),
    }
}

/// Bits of an element.
fn bits_of(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F4" => 4,
        "F6_E2M3" | "F6_E3M2" => 6,
        "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E4M3" | "F8_E8M0" => 8,
        "I16" | "U16" | "F16" | "BF16" => 16,
        "I32" | "U32" | "F32" => 32,
        "I64" | "U64" | "F64" | "C64" => 64,
        _ => return None,
    })
}
