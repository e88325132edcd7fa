//! Random trees give the result of a plain walk, for all threads, limits and hooks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;
use stook::walk::{Decision, Kind, Walk, WalkOptions};

use super::{Found, reference, report};

#[derive(Debug, Clone)]
enum Node {
    Directory(Vec<(Vec<u8>, Node)>),
    File { len: usize, mode: u32 },
    Symlink(Vec<u8>),
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>().prop_filter("a name", |b| *b != 0 && *b != b'/'), 1..12)
        .prop_filter("not a dot", |n| n != b"." && n != b"..")
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        4 => (0_usize..2500, prop_oneof![Just(0o644_u32), Just(0o400), Just(0o755), Just(0o4711)])
            .prop_map(|(len, mode)| Node::File { len, mode }),
        1 => proptest::collection::vec(1_u8..=255, 1..40).prop_map(Node::Symlink),
    ];
    leaf.prop_recursive(4, 60, 8, |inner| {
        proptest::collection::vec((name(), inner), 0..8).prop_map(Node::Directory)
    })
}

fn make(path: &Path, node: &Node) {
    match node {
        Node::Directory(entries) => {
            std::fs::create_dir(path).unwrap();
            for (name, node) in entries {
                let path = path.join(OsStr::from_bytes(name));
                if path.symlink_metadata().is_err() {
                    make(&path, node);
                }
            }
        }
        Node::File { len, mode } => {
            let bytes: Vec<u8> = (0..*len).map(|i| (i * 31 + len) as u8).collect();
            std::fs::write(path, bytes).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(*mode)).unwrap();
        }
        Node::Symlink(target) => symlink(OsStr::from_bytes(target), path).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_walk_reports_what_a_plain_walk_finds(
        entries in proptest::collection::vec((name(), node()), 0..10),
        threads in 1_usize..9,
        read_up_to in prop_oneof![Just(0_u64), Just(1000), Just(1 << 20)],
        buffered_bytes_max in prop_oneof![Just(0_u64), Just(5000), Just(1 << 20)],
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        make(&root, &Node::Directory(entries));
        let options =
            WalkOptions { threads, read_up_to, buffered_bytes_max, ..WalkOptions::default() };
        let got = report(&Walk::new([&root]).unwrap().options(options));
        prop_assert!(got.errors.is_empty(), "{:?}", got.errors);
        let tree = got.tree();
        prop_assert_eq!(tree.len(), got.items.len());
        let bytes: u64 = tree.values().map(|f| match f {
            Found::File { bytes, .. } => bytes.len() as u64,
            _ => 0,
        }).sum();
        prop_assert_eq!(bytes, got.summary.bytes);
        prop_assert_eq!(tree, reference(&root));
    }

    #[test]
    fn hooks_leave_out_exactly_what_they_are_asked_to(
        entries in proptest::collection::vec((name(), node()), 0..10),
        salt in any::<u8>(),
    ) {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("root");
        make(&root, &Node::Directory(entries));
        let decide = |key: &[u8], _: Kind| match key.iter().fold(salt, |a, b| a.wrapping_mul(31) ^ b) % 4 {
            0 => Decision::Prune,
            1 => Decision::Skip,
            _ => Decision::Take,
        };
        let got = report(&Walk::new([&root]).unwrap().options(super::small(3)).select(decide));
        prop_assert!(got.errors.is_empty(), "{:?}", got.errors);
        let mut expected = reference(&root);
        let all = expected.clone();
        expected.retain(|key, _| {
            // Any parent that was pruned takes the entry with it; its own decision must be Take.
            let pruned = (0..=key.len())
                .filter(|i| *i > 0 && (*i == key.len() || key[*i] == b'/'))
                .any(|i| decide(&key[..i], Kind::Directory) == Decision::Prune);
            key.is_empty() || (!pruned && decide(key, Kind::File) == Decision::Take)
        });
        prop_assert!(expected.len() <= all.len());
        prop_assert_eq!(got.tree(), expected);
    }
}
