//! Names and nodes in a table are what was added, in whatever order.

use std::sync::Arc;

use super::*;
use crate::error::Error;
use crate::tree::PAGE_LEN;

/// All names of a directory, in the order of the listing.
fn names(table: &NodeTable, directory: NodeId) -> Vec<Vec<u8>> {
    let (mut page, mut from, mut names) = (Page::new(), Cursor::Start, Vec::new());
    loop {
        let next = table.list(directory, &from, &mut page).unwrap();
        assert!(page.len() <= PAGE_LEN && page.failures().is_empty());
        names.extend(page.iter().map(|entry| entry.name.to_vec()));
        match next {
            Some(next) => from = next,
            None => return names,
        }
    }
}

fn find(table: &NodeTable, path: &[u8]) -> Option<NodeId> {
    let mut at = table.root();
    for name in path.split(|byte| *byte == b'/') {
        at = table.lookup(at, name).unwrap()?;
    }
    Some(at)
}

fn built(builder: NodeTableBuilder) -> NodeTable {
    let (table, refused) = builder.finish();
    assert!(refused.is_empty(), "{refused:?}");
    table
}

#[test]
fn a_node_and_its_name_take_48_bytes_beside_the_bytes_of_the_name() {
    assert!(size_of::<Slot>() + size_of::<Named>() <= 48);
    let mut builder = NodeTableBuilder::new("t");
    for number in 0..10_000 {
        builder.add(format!("d{}/{number}", number % 7).as_bytes(), Node::file(number)).unwrap();
    }
    let table = built(builder);
    let arrays = size_of_val(&table.slots[..]) + size_of_val(&table.entries[..]);
    assert!(arrays <= 48 * (10_000 + 7 + 1), "{arrays}");
    assert_eq!(table.len(), 10_007);
}

#[test]
fn what_is_said_of_a_node_comes_back_and_what_is_not_said_stays_unknown() {
    let mut builder = NodeTableBuilder::new("t");
    let all = [
        Node { mode: Some(0o7777), mtime_ns: Some(-5), owner: Some((0, u32::MAX)), ..Node::file(u64::MAX) },
        Node::file(0),
        Node { mode: Some(0), mtime_ns: Some(0), len: 9, links: 3, ..Node::new(Kind::Symlink) },
        Node { device: u64::MAX, ..Node::new(Kind::CharDevice) },
        Node { device: 7, owner: Some((1, 2)), ..Node::new(Kind::BlockDevice) },
        Node { owner: Some((1, 2)), ..Node::new(Kind::Directory) },
        Node::new(Kind::Fifo),
        Node::new(Kind::Socket),
        Node::new(Kind::Other),
    ];
    for (number, node) in all.iter().enumerate() {
        let id = builder.add(format!("{number}").as_bytes(), *node).unwrap();
        assert_eq!(id, NodeId::new(number as u64 + 1), "numbers are given in the order of adding");
    }
    let table = built(builder);
    for (number, node) in all.iter().enumerate() {
        let id = find(&table, format!("{number}").as_bytes()).unwrap();
        assert_eq!(table.node(id).unwrap(), *node);
    }
    assert_eq!(table.owners.len(), 2);
}

#[test]
fn any_order_of_paths_makes_the_same_tree() {
    let paths = [&b"a"[..], b"a/b", b"a/b/c", b"a/b.c", b"a-", b"a/b/\xff", b"z/y/x"];
    let nodes = |path: &[u8]| match path {
        b"a" | b"a/b" => Node { mode: Some(0o700), ..Node::new(Kind::Directory) },
        _ => Node::file(path.len() as u64),
    };
    for start in 0..paths.len() {
        for is_reversed in [false, true] {
            let mut order: Vec<&[u8]> = [&paths[start..], &paths[..start]].concat();
            if is_reversed {
                order.reverse();
            }
            let mut builder = NodeTableBuilder::new("t");
            for path in order {
                builder.add(path, nodes(path)).unwrap();
            }
            let table = built(builder);
            for path in paths {
                let id = find(&table, path).unwrap();
                assert_eq!(table.node(id).unwrap(), nodes(path));
                assert_eq!(table.key_of(id).unwrap(), path);
            }
            assert_eq!(names(&table, table.root()), [&b"a"[..], b"a-", b"z"]);
            assert_eq!(names(&table, find(&table, b"a").unwrap()), [&b"b"[..], b"b.c"]);
            assert_eq!(names(&table, find(&table, b"a/b").unwrap()), [&b"c"[..], b"\xff"]);
            // These were not added.
            let made = find(&table, b"z/y").unwrap();
            assert_eq!(table.node(made).unwrap(), Node::new(Kind::Directory));
            assert!(made.get() > paths.len() as u64);
        }
    }
}

#[test]
fn the_later_of_one_path_wins_and_a_directory_keeps_what_is_in_it() {
    let mut builder = NodeTableBuilder::new("t");
    let first = builder.add(b"f", Node::file(1)).unwrap();
    let second = builder.add(b"f", Node::file(2)).unwrap();
    builder.add(b"d", Node::new(Kind::Directory)).unwrap();
    builder.add(b"d/x", Node::file(3)).unwrap();
    let again = builder.add(b"d", Node { mode: Some(0o755), ..Node::new(Kind::Directory) }).unwrap();
    builder.add(b"e", Node::new(Kind::Directory)).unwrap();
    let file = builder.add(b"e", Node::file(4)).unwrap();
    assert_eq!(builder.find(b"f"), Some(second));
    assert_eq!(builder.find(b"d/y"), None);
    builder.add(b"", Node { mode: Some(0o711), ..Node::new(Kind::Directory) }).unwrap();
    let table = built(builder);
    assert_eq!(find(&table, b"f"), Some(second));
    assert!(table.node(first).is_err(), "it has lost its name");
    assert_eq!((find(&table, b"d"), find(&table, b"e")), (Some(again), Some(file)));
    assert_eq!(names(&table, again), [b"x"]);
    assert_eq!(table.node(table.root()).unwrap().mode, Some(0o711));
}

#[test]
fn a_parent_that_is_no_directory_is_refused_alone() {
    for kind in [Kind::File, Kind::Symlink, Kind::Fifo] {
        for is_first in [false, true] {
            let mut builder = NodeTableBuilder::new("t");
            let mut wrong = None;
            if is_first {
                wrong = Some(builder.add(b"a/b", Node::new(kind)).unwrap());
            }
            builder.add(b"a/b/c", Node::file(1)).unwrap();
            builder.add(b"a/b/d/e", Node::file(2)).unwrap();
            let wrong = wrong.unwrap_or_else(|| builder.add(b"a/b", Node::new(kind)).unwrap());
            let (table, refused) = builder.finish();
            let [(id, Error::Entry { path, .. })] = &refused[..] else { panic!("{refused:?}") };
            assert_eq!((*id, path.as_path()), (wrong, Path::new("t/a/b")));
            assert!(table.node(wrong).is_err());
            let made = find(&table, b"a/b").unwrap();
            assert_eq!(table.node(made).unwrap().kind, Kind::Directory);
            assert_eq!(names(&table, made), [b"c", b"d"]);
        }
    }
    // A directory that was there before takes its path back.
    let mut builder = NodeTableBuilder::new("t");
    let directory = builder.add(b"a", Node::new(Kind::Directory)).unwrap();
    builder.add(b"a/b", Node::file(1)).unwrap();
    let wrong = builder.add(b"a", Node::file(2)).unwrap();
    let (table, refused) = builder.finish();
    assert_eq!(refused.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [wrong]);
    assert_eq!(find(&table, b"a"), Some(directory));
}

#[test]
fn hostile_paths_are_refused_and_leave_nothing() {
    let mut builder = NodeTableBuilder::new("t");
    let long = [b'x'; 65_536];
    for path in [&b"/etc/passwd"[..], b"../x", b"a/../b", b"a//b", b"a/", b".", b"a/./b", b"a\0b", &long] {
        let error = builder.add(path, Node::file(1)).unwrap_err();
        assert!(matches!(error, Error::Entry { .. }), "{error}");
        assert!(error.to_string().starts_with("t/"), "{error}");
        assert_eq!(builder.find(path), None);
    }
    assert!(matches!(builder.add(b"", Node::file(1)), Err(Error::Entry { .. })));
    let d = builder.add(b"d", Node::new(Kind::Directory)).unwrap();
    for name in [&b"a/b"[..], b"..", b"", b".", b"\0", &long] {
        assert!(matches!(builder.add_in(d, name, Node::file(1)), Err(Error::Entry { .. })));
    }
    let table = built(builder);
    assert_eq!(table.len(), 1);
    assert!(names(&table, d).is_empty());
}

#[test]
fn entries_are_added_by_their_parents_too() {
    let mut builder = NodeTableBuilder::new("t");
    let d = builder.add_in(builder.root(), b"d", Node::new(Kind::Directory)).unwrap();
    let e = builder.add_in(d, b"e", Node::new(Kind::Directory)).unwrap();
    let f = builder.add_in(e, b"f", Node::file(1)).unwrap();
    builder.add(b"d/e/g", Node::file(2)).unwrap();
    let error = builder.add_in(f, b"x", Node::file(1)).unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotADirectory));
    let error = builder.add_in(NodeId::new(77), b"x", Node::file(1)).unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound));
    let table = built(builder);
    assert_eq!(find(&table, b"d/e/f"), Some(f));
    assert_eq!(names(&table, e), [b"f", b"g"]);
    assert_eq!(table.path_of(f), Path::new("t/d/e/f"));
}

#[test]
fn names_of_one_file_share_its_node() {
    let mut builder = NodeTableBuilder::new("t");
    let file = builder.add(b"b/file", Node::file(5)).unwrap();
    builder.link(b"c", file).unwrap();
    builder.link(b"a/x", file).unwrap();
    let outside = builder.add(b"o", Node { links: 4, ..Node::file(1) }).unwrap();
    builder.link(b"p", outside).unwrap();
    let directory = builder.add(b"d", Node::new(Kind::Directory)).unwrap();
    assert!(matches!(builder.link(b"y", directory), Err(Error::Entry { .. })));
    assert!(matches!(builder.link(b"", file), Err(Error::Entry { .. })));
    assert!(builder.link(b"y", NodeId::new(99)).is_err());
    let table = built(builder);
    for path in [&b"b/file"[..], b"c", b"a/x"] {
        assert_eq!(find(&table, path), Some(file));
    }
    assert_eq!(table.node(file).unwrap().links, 3);
    assert_eq!(table.node(outside).unwrap().links, 4, "others are outside of the tree");
    assert_eq!(table.path_of(file), Path::new("t/c"), "the first of its names");
}

#[test]
fn a_large_directory_is_listed_in_pages_and_each_name_found() {
    let count = 5 * PAGE_LEN + 3;
    let mut builder = NodeTableBuilder::new("t");
    for number in 0..count {
        // Scattered, so that the order of adding is not that of names.
        let number = (number * 7919) % count;
        builder.add(format!("{number:06}").as_bytes(), Node::file(number as u64)).unwrap();
    }
    let table = built(builder);
    let listed = names(&table, table.root());
    assert_eq!(listed.len(), count);
    assert!(listed.is_sorted());
    for (number, name) in listed.iter().enumerate() {
        let id = table.lookup(table.root(), name).unwrap().unwrap();
        assert_eq!(table.node(id).unwrap().len, number as u64);
    }
    let past = Cursor::At(count as u64 + 1);
    for cursor in [past, Cursor::Token(Arc::from(&b"token"[..]))] {
        let error = table.list(table.root(), &cursor, &mut Page::new()).unwrap_err();
        assert_eq!(error.io_kind(), Some(std::io::ErrorKind::InvalidInput));
    }
}

#[test]
fn a_million_names_are_listed_and_found() {
    let path = |number: u64| format!("{}/{number}", number % 1000);
    let mut builder = NodeTableBuilder::new("t");
    for number in 0..1_000_000 {
        builder.add(path(number).as_bytes(), Node::file(number)).unwrap();
    }
    let table = built(builder);
    assert_eq!(table.len(), 1_001_000);
    let directories = names(&table, table.root());
    assert_eq!(directories.len(), 1000);
    for name in directories {
        let directory = table.lookup(table.root(), &name).unwrap().unwrap();
        assert_eq!(names(&table, directory).len(), 1000);
    }
    for number in (0..1_000_000).step_by(997) {
        let id = find(&table, path(number).as_bytes()).unwrap();
        assert_eq!(table.node(id).unwrap().len, number);
    }
}

#[test]
fn a_path_of_ten_thousand_levels_is_built_found_and_named() {
    let path = vec![&b"d"[..]; 10_000].join(&b'/');
    let mut builder = NodeTableBuilder::new("t");
    builder.add(&path, Node::file(1)).unwrap();
    let table = built(builder);
    let id = find(&table, &path).unwrap();
    assert_eq!(table.key_of(id), Some(path));
    assert_eq!(table.len(), 10_000);
}
