//! What files lie on, as JSON.

use serde::Serialize;
use stook::device::{Attachment, Disk, Link};

/// What a tree lies on.
#[derive(Serialize)]
pub(crate) struct LiesOn<'a> {
    file_system: Option<&'a str>,
    device: Option<&'a str>,
    server: Option<&'a str>,
    in_memory: bool,
    cached_by: Option<&'a str>,
    disks: Vec<WholeDisk<'a>>,
    read_limit_bytes_per_s: Option<f64>,
    write_limit_bytes_per_s: Option<f64>,
}

impl<'a> LiesOn<'a> {
    pub(crate) fn new(attachment: &'a Attachment) -> Self {
        Self {
            file_system: attachment.file_system.as_deref(),
            device: attachment.device.as_deref(),
            server: attachment.server.as_deref(),
            in_memory: attachment.is_memory,
            cached_by: attachment.cached_by.as_deref(),
            disks: attachment.disks.iter().map(WholeDisk::new).collect(),
            read_limit_bytes_per_s: attachment.read_limit_bytes_per_s(),
            write_limit_bytes_per_s: attachment.write_limit_bytes_per_s(),
        }
    }
}

/// Why bytes that are read past the page cache may have come from memory all the same.
pub(crate) fn why_cached(attachment: &Attachment) -> Option<String> {
    let kind = attachment.file_system.as_deref().unwrap_or_default();
    match kind {
        kind if attachment.is_memory => Some(format!("{kind} keeps files in memory")),
        kind if kind.starts_with("fuse") => Some("a program serves these files (FUSE)".to_owned()),
        _ => attachment.cached_by.as_ref().map(|layer| format!("below is {layer}")),
    }
}

#[derive(Serialize)]
struct WholeDisk<'a> {
    name: &'a str,
    model: Option<&'a str>,
    transport: &'static str,
    rotates: Option<bool>,
    card_reader: bool,
    link: Option<OfLink<'a>>,
}

impl<'a> WholeDisk<'a> {
    fn new(disk: &'a Disk) -> Self {
        Self {
            name: &disk.name,
            model: disk.model.as_deref(),
            transport: disk.transport.name(),
            rotates: disk.rotates,
            card_reader: disk.is_card_reader,
            link: disk.link.as_ref().map(OfLink::new),
        }
    }
}

#[derive(Serialize)]
struct OfLink<'a> {
    kind: &'static str,
    name: &'a str,
    limit_bytes_per_s: f64,
    capable_of: Option<&'a str>,
    why_slower: Option<&'static str>,
}

impl<'a> OfLink<'a> {
    fn new(link: &'a Link) -> Self {
        Self {
            kind: link.kind.name(),
            name: &link.name,
            limit_bytes_per_s: link.limit_bytes_per_s,
            capable_of: link.capable_of.as_deref(),
            why_slower: link.why_slower,
        }
    }
}
