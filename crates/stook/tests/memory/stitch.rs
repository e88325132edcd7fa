//! What layouts take while they are opened, and archives of many members.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use stook::extent::ByteRange;
use stook::source::{MemorySource, Source};
use stook::stitch::{Error, Layout as _, Members, OpenedLayout, Tar};
use stook::tree::{Cursor, Kind, Node, NodeId, PAGE_LEN, Page, Tree};

use super::{ALLOCATOR, alone};

/// The most that is allocated while something is made, beyond what there was; and what stays.
fn most_of<T>(make: impl FnOnce() -> T) -> (T, usize, usize) {
    let (before, most, is_done) = (ALLOCATOR.allocated(), AtomicUsize::new(0), AtomicBool::new(false));
    let made = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                most.fetch_max(ALLOCATOR.allocated(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let made = make();
        is_done.store(true, Ordering::Relaxed);
        made
    });
    let stays = ALLOCATOR.allocated().saturating_sub(before);
    (made, most.load(Ordering::Relaxed).saturating_sub(before), stays)
}

/// Opens a layout with one file of these pieces: the most that it takes beyond its text.
fn opened(pieces: impl Iterator<Item = String>) -> (Result<OpenedLayout, Error>, usize) {
    let place = tempfile::tempdir().unwrap();
    let mut text = "stook-layout = 1\n\n[[file]]\nname = 'x'\npieces = [\n".to_owned();
    pieces.for_each(|piece| text.push_str(&format!("  {{ {piece} }},\n")));
    text.push_str("]\n");
    std::fs::write(place.path().join("x.toml"), &text).unwrap();
    let len = text.len();
    drop(text);
    let (layout, most, _) = most_of(|| OpenedLayout::open(place.path().join("x.toml")));
    (layout, most.saturating_sub(len))
}

#[test]
fn a_layout_takes_at_most_200_bytes_a_piece_while_it_is_opened() {
    let _alone = alone();
    const PIECES: usize = 200_000;
    let path =
        |at: usize| format!("path = \"d/{at:06}\", length = 10, size = 10, mtime_ns = 1785312000123456789");
    let bytes = |at: usize| format!("base64 = \"{:04}\"", at % 10_000);
    let fills = |at: usize| format!("fill = {}, length = 3", at % 2);
    let kinds: [&dyn Fn(usize) -> String; 3] = [&path, &bytes, &fills];
    for kind in kinds {
        let (layout, most) = opened((0..PIECES).map(kind));
        assert!(layout.is_ok(), "{layout:?}");
        assert!(most <= PIECES * 200, "{} bytes for each of: {}", most / PIECES, kind(0));
    }
    // What is refused at its end holds no more.
    let wrong = (0..PIECES).map(|at| if at + 1 == PIECES { "path = 1".to_owned() } else { fills(at) });
    let (layout, most) = opened(wrong);
    assert!(layout.unwrap_err().to_string().contains("line 200005: a string after `path =` is expected"));
    assert!(most <= PIECES * 200, "{} bytes a piece", most / PIECES);
    // What is no layout from its second token on is not read any further.
    let deep = "[".repeat(PIECES);
    let (layout, most) = opened([format!("path = {deep}")].into_iter());
    assert!(layout.is_err() && most < 1 << 20, "{most} bytes");
}

/// A directory of this many files, each of one byte.
#[derive(Debug)]
struct Many(u64);

impl Tree for Many {
    fn path(&self) -> &Path {
        Path::new("many")
    }

    fn root(&self) -> NodeId {
        NodeId::new(0)
    }

    fn lookup(&self, _parent: NodeId, _name: &[u8]) -> stook::Result<Option<NodeId>> {
        Ok(None)
    }

    fn list(&self, _: NodeId, from: &Cursor, page: &mut Page) -> stook::Result<Option<Cursor>> {
        page.clear();
        let start = if let Cursor::At(start) = from { *start } else { 0 };
        let end = self.0.min(start + PAGE_LEN as u64);
        for number in start..end {
            let node = Node { mtime_ns: Some(1_785_312_000_123_456_789), ..Node::file(1) };
            page.push(format!("{number:08}").as_bytes(), NodeId::new(number + 1), node);
        }
        Ok((end < self.0).then_some(Cursor::At(end)))
    }

    fn node(&self, id: NodeId) -> stook::Result<Node> {
        Ok(if id == self.root() { Node::new(Kind::Directory) } else { Node::file(1) })
    }

    fn path_of(&self, _: NodeId) -> PathBuf {
        self.path().to_path_buf()
    }

    fn link_target(&self, id: NodeId) -> stook::Result<Vec<u8>> {
        Err(stook::Error::io("read link", self.path_of(id), ErrorKind::InvalidInput.into()))
    }

    fn open(&self, id: NodeId) -> stook::Result<Arc<dyn Source>> {
        Ok(Arc::new(MemorySource::new("one", vec![id.get() as u8])))
    }
}

#[test]
fn a_member_of_a_tar_takes_at_most_300_bytes_and_reading_it_takes_nothing_that_stays() {
    let _alone = alone();
    const MEMBERS: usize = 200_000;
    let (laid, most, stays) = most_of(|| {
        let mut members = Members::new();
        members.add_tree(Arc::new(Many(MEMBERS as u64)), false, b"", &mut |_| true).unwrap();
        Tar::default().lay_out("many.tar".into(), members).unwrap()
    });
    assert!(stays <= MEMBERS * 300, "{} bytes a member", stays / MEMBERS);
    assert!(most <= MEMBERS * 500, "{} bytes a member while it is laid out", most / MEMBERS);
    let last = ByteRange::at(*laid.starts.last().unwrap(), 1).unwrap();
    let (read, _, stays) = most_of(|| laid.file.read_at(last).unwrap());
    assert_eq!(read[..], [MEMBERS as u8]);
    assert!(stays < 1 << 20, "{stays} bytes");
    // A header of three blocks each, as its time has a fraction.
    assert_eq!(laid.starts[1] - laid.starts[0], 2048);
}
