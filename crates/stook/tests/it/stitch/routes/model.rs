//! Random trees and route folders against a model that applies every route by itself, to archives
//! that are maps.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use stook::archive::{Archive, OpenOptions};
use stook::engine::{Access, Backend};
use stook::extent::ByteRange;
use stook::format::afs::Table;
use stook::source::{MemorySource, read_range};
use stook::tree::{CaseRule, Tree as _};
use stook_testing::archives::{Directories, tar_of, zip_of};
use stook_testing::model::tree::TreeModel;

use super::{all_of, read, routed_over};
use crate::afs::written;

/// What is in a file.
#[derive(Debug, Clone)]
enum Thing {
    Bytes(Vec<u8>),
    Archive(Held),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Tar,
    Zip,
    Afs,
}

/// An archive: what is in it by path, or by number with leading zeroes.
#[derive(Debug, Clone)]
struct Held {
    format: Format,
    members: BTreeMap<String, Thing>,
    /// What was ever in it.
    ever: BTreeSet<String>,
    /// How many numbers it had.
    count: usize,
    /// Whether it was to be changed in a way in which it cannot be.
    is_broken: bool,
}

impl Held {
    fn new(format: Format, members: BTreeMap<String, Thing>, count: usize) -> Self {
        let ever = members.keys().cloned().collect();
        Self { format, members, ever, count, is_broken: false }
    }
}

/// What is in a folder.
#[derive(Debug, Clone)]
enum Route {
    File(Thing),
    Directory(BTreeMap<String, Route>),
}

fn bytes_of(thing: &Thing) -> Vec<u8> {
    let held = match thing {
        Thing::Bytes(bytes) => return bytes.clone(),
        Thing::Archive(held) => held,
    };
    let mut model = TreeModel::new();
    for (path, thing) in &held.members {
        model = model.file(path, bytes_of(thing));
    }
    match held.format {
        Format::Tar => tar_of(&model, Directories::Needed),
        Format::Zip => zip_of(&model, Directories::Needed, None),
        Format::Afs => {
            let number = |number: usize| held.members.get(&format!("{number:05}")).map(bytes_of);
            written(&(0..held.count).map(number).collect::<Vec<_>>(), None)
        }
    }
}

/// What bytes are, as this library reads archives.
fn parsed(bytes: &[u8]) -> Thing {
    let format = match bytes {
        bytes if bytes.starts_with(b"AFS\0") => Format::Afs,
        bytes if bytes.starts_with(b"PK") => Format::Zip,
        bytes if bytes.len() >= 1024 && (&bytes[257..262] == b"ustar" || bytes[0] == 0) => Format::Tar,
        _ => return Thing::Bytes(bytes.to_vec()),
    };
    let mut members = BTreeMap::new();
    if format == Format::Afs {
        let table = Table::decode(bytes, bytes.len() as u64).unwrap();
        for (number, place) in table.places().iter().enumerate() {
            if let Some(place) = place {
                let bytes = &bytes[place.start() as usize..place.end() as usize];
                members.insert(format!("{number:05}"), parsed(bytes));
            }
        }
        return Thing::Archive(Held::new(format, members, table.places().len()));
    }
    let source = std::sync::Arc::new(MemorySource::new("x", bytes.to_vec()));
    let archive = Archive::from_source(source, OpenOptions::default()).unwrap();
    for member in archive.members(b"") {
        let body = archive.open_member(&member).unwrap();
        let name = String::from_utf8(member.key.to_vec()).unwrap();
        assert!(members.insert(name, parsed(&all_of(&*body))).is_none(), "a member is there twice");
    }
    Thing::Archive(Held::new(format, members, 0))
}

/// Why two things are not the same, if they are not.
fn difference(one: &Thing, other: &Thing) -> Option<String> {
    match (one, other) {
        (Thing::Bytes(one), Thing::Bytes(other)) => {
            (one != other).then(|| format!("{} bytes, {} bytes", one.len(), other.len()))
        }
        (Thing::Archive(one), Thing::Archive(other)) if one.format == other.format => {
            let names = |held: &Held| held.members.keys().cloned().collect::<Vec<_>>();
            if names(one) != names(other) {
                return Some(format!("{:?} and {:?}", names(one), names(other)));
            }
            let mut pairs = one.members.iter().zip(other.members.values());
            pairs.find_map(|((name, one), other)| Some(format!("{name}: {}", difference(one, other)?)))
        }
        _ => Some("of another kind".to_owned()),
    }
}

fn has_files(route: &Route) -> bool {
    match route {
        Route::File(_) => true,
        Route::Directory(children) => children.values().any(has_files),
    }
}

/// What a name is of an archive.
fn called(held: &Held, path: &str) -> Option<String> {
    if held.format != Format::Afs {
        return Some(path.to_owned());
    }
    let digits: String = path.chars().take_while(char::is_ascii_digit).collect();
    let is_number = matches!(path[digits.len()..].chars().next(), None | Some('_' | '.'));
    let number = digits.parse::<u32>().ok().filter(|_| is_number && !path.contains('/'))?;
    Some(format!("{number:05}"))
}

/// Changes an archive as a directory of a folder says.
fn apply(held: &mut Held, directory: &BTreeMap<String, Route>, prefix: &str) {
    let mut own = BTreeSet::new();
    for (name, route) in directory {
        let (Route::File(_), Some(stem)) = (route, name.strip_suffix(".del")) else { continue };
        let Some(path) = called(held, &format!("{prefix}{stem}")) else {
            held.is_broken = true;
            continue;
        };
        let below = format!("{path}/");
        let is_it = |other: &String| *other == path || other.starts_with(&below);
        let is_afs = held.format == Format::Afs;
        let was_there = match is_afs {
            true => held.members.contains_key(&path) || held.ever.contains(&path),
            false => held.ever.iter().any(is_it),
        };
        held.is_broken |= !was_there;
        held.members.retain(|other, _| !is_it(other));
        own.insert(path);
    }
    for (name, route) in directory {
        let Route::File(thing) = route else { continue };
        if name.ends_with(".del") {
            continue;
        }
        let Some(path) = called(held, &format!("{prefix}{name}")) else {
            held.is_broken = true;
            continue;
        };
        held.is_broken |= !own.insert(path.clone());
        if held.format != Format::Afs {
            held.ever.insert(path.clone());
        }
        held.members.insert(path, thing.clone());
    }
    for (name, route) in directory {
        let Route::Directory(children) = route else { continue };
        if !has_files(route) {
            continue;
        }
        let path = format!("{prefix}{name}");
        let member = called(held, &path);
        // Another name of a number that a file of the same folder is for.
        let is_given = held.format == Format::Afs && member.as_ref().is_some_and(|path| own.contains(path));
        match member.and_then(|path| held.members.get_mut(&path)) {
            Some(Thing::Archive(_)) if is_given => held.is_broken = true,
            Some(Thing::Archive(inner)) => apply(inner, children, ""),
            _ => apply(held, children, &format!("{path}/")),
        }
    }
}

/// Whether an archive, or one that is left in it, cannot be what it should be.
fn is_broken(held: &mut Held) -> bool {
    let paths: Vec<&String> = held.members.keys().collect();
    let is_in = |one: &String, other: &String| other.starts_with(&format!("{one}/"));
    let in_a_file = paths.iter().any(|one| paths.iter().any(|other| is_in(one, other)));
    let numbers: Vec<usize> = paths.iter().filter_map(|path| path.parse().ok()).collect();
    let is_afs = held.format == Format::Afs;
    let added: Vec<usize> = numbers.into_iter().filter(|number| *number >= held.count).collect();
    let has_gaps = is_afs && added.iter().enumerate().any(|(at, number)| *number != held.count + at);
    if is_afs {
        held.count += added.len();
    }
    let within = |thing: &mut Thing| match thing {
        Thing::Archive(held) => is_broken(held),
        Thing::Bytes(_) => false,
    };
    let is_within = held.members.values_mut().map(within).fold(false, |one, other| one | other);
    held.is_broken || in_a_file || has_gaps || is_within
}

fn leaf() -> impl Strategy<Value = Thing> {
    (prop_oneof![4 => 0..60_usize, 1 => 2000..5000_usize], 97..123_u8)
        .prop_map(|(len, byte)| Thing::Bytes(vec![byte; len]))
}

fn thing(depth: u32) -> BoxedStrategy<Thing> {
    if depth == 0 {
        return leaf().boxed();
    }
    let name = prop::sample::select(vec!["a", "b", "d/x", "d/y", "in.tar", "in.zip", "in.afs"]);
    let format = prop_oneof![2 => Just(Format::Tar), 2 => Just(Format::Zip), 3 => Just(Format::Afs)];
    let members = prop::collection::btree_map(name, thing(depth - 1), 0..5);
    let archive = (format, members).prop_map(|(format, members)| {
        let count = members.len() + 1;
        let named = |(at, (name, thing)): (usize, (&str, Thing))| match format {
            Format::Afs => (format!("{at:05}"), thing),
            _ => (name.to_owned(), thing),
        };
        let members = members.into_iter().enumerate().map(named).collect();
        Thing::Archive(Held::new(format, members, if format == Format::Afs { count } else { 0 }))
    });
    prop_oneof![1 => leaf(), 3 => archive].boxed()
}

/// What a folder has for an archive.
fn changes(depth: u32) -> BoxedStrategy<Route> {
    let names = vec![
        "a",
        "b",
        "b.del",
        "d.del",
        "new",
        "0",
        "1_x",
        "00002.adx",
        "1.del",
        "in.tar",
        "in.zip",
        "in.zip.del",
    ];
    let file = (prop::sample::select(names), thing(1).prop_map(Route::File)).boxed();
    let directories = vec!["d", "in.tar", "in.zip", "in.afs", "0", "00001_in", "2_x", "d/in.tar"];
    let entry = match depth {
        0 => file,
        _ => prop_oneof![
            3 => file,
            3 => (prop::sample::select(directories), changes(depth - 1)),
        ]
        .boxed(),
    };
    let put = |entries: Vec<(&str, Route)>| {
        let mut all = BTreeMap::new();
        for (name, route) in entries {
            put_at(&mut all, name, route);
        }
        Route::Directory(all)
    };
    prop::collection::vec(entry, 0..4).prop_map(put).boxed()
}

/// Puts something at a path, unless something else is in its way.
fn put_at(into: &mut BTreeMap<String, Route>, path: &str, route: Route) {
    match path.split_once('/') {
        Some((first, rest)) => {
            let empty = || Route::Directory(BTreeMap::new());
            if let Route::Directory(children) = into.entry(first.to_owned()).or_insert_with(empty) {
                put_at(children, rest, route);
            }
        }
        None => match (into.get_mut(path), route) {
            (None, route) => _ = into.insert(path.to_owned(), route),
            (Some(Route::Directory(there)), Route::Directory(more)) => {
                more.into_iter().for_each(|(name, route)| put_at(there, &name, route));
            }
            (Some(_), _) => {}
        },
    }
}

const PLACES: [&str; 6] = ["x", "s/x", "g/s/x", "s/y", "g/y", "no"];

fn folder() -> impl Strategy<Value = BTreeMap<String, Route>> {
    let place = prop::sample::select(PLACES.to_vec());
    prop::collection::vec((place, changes(2)), 0..4).prop_map(|entries| {
        let mut all = BTreeMap::new();
        entries.into_iter().for_each(|(place, route)| put_at(&mut all, place, route));
        all
    })
}

fn make(place: &Path, routes: &BTreeMap<String, Route>) {
    fs::create_dir_all(place).unwrap();
    for (name, route) in routes {
        match route {
            Route::File(thing) => fs::write(place.join(name), bytes_of(thing)).unwrap(),
            Route::Directory(children) => make(&place.join(name), children),
        }
    }
}

/// What is at a path of a folder, if it is a directory with files.
fn directory_at<'r>(
    folder: &'r BTreeMap<String, Route>,
    path: &[&str],
) -> Option<&'r BTreeMap<String, Route>> {
    let (first, rest) = path.split_first()?;
    match folder.get(*first)? {
        Route::Directory(children) if rest.is_empty() => has_files(&folder[*first]).then_some(children),
        Route::Directory(children) => directory_at(children, rest),
        Route::File(_) => None,
    }
}

/// A file with all that folders have for it; `None` if it cannot be.
fn expected(path: &str, thing: &Thing, folders: &[BTreeMap<String, Route>]) -> Option<Thing> {
    let mut thing = thing.clone();
    let names: Vec<&str> = path.split('/').collect();
    if let Thing::Archive(held) = &mut thing {
        for folder in folders {
            for start in (0..names.len()).rev() {
                if let Some(directory) = directory_at(folder, &names[start..]) {
                    apply(held, directory, "");
                }
            }
        }
        if is_broken(held) {
            return None;
        }
    }
    Some(thing)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_file_is_what_a_naive_builder_makes(
        files in prop::collection::btree_map(prop::sample::select(PLACES[..5].to_vec()), thing(3), 1..5),
        folders in prop::collection::vec(folder(), 1..4),
    ) {
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("tree");
        for (path, thing) in &files {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes_of(thing)).unwrap();
        }
        let paths: Vec<_> = (0..folders.len()).map(|at| place.path().join(format!("routes {at}"))).collect();
        paths.iter().zip(&folders).for_each(|(path, folder)| make(path, folder));
        let paths: Vec<&Path> = paths.iter().map(std::path::PathBuf::as_path).collect();
        let routed = routed_over(&tree, &paths, CaseRule::Exact).unwrap();
        let union = routed.tree();
        for (path, before) in &files {
            let wanted = expected(path, before, &folders);
            let id = union.find(path.as_bytes()).unwrap().unwrap();
            let (node, got) = (union.node(id), read(&*union, path));
            prop_assert_eq!(node.is_ok(), got.is_ok(), "{}", path);
            let Some(wanted) = wanted else {
                prop_assert!(got.is_err(), "{} should be refused", path);
                continue;
            };
            let got = got.map_err(|error| TestCaseError::fail(format!("{path}: {error}")))?;
            prop_assert_eq!(node.unwrap().len, got.len() as u64);
            let difference = difference(&parsed(&got), &wanted);
            prop_assert!(difference.is_none(), "{}: {:?}", path, difference);
            let source = union.open(id).unwrap();
            for step in 0..20 {
                let start = step * 7_919_333 % (got.len() + 1);
                let end = (start + 1 + step * 97).min(got.len());
                let range = ByteRange::new(start as u64, end as u64).unwrap_or_default();
                let read = read_range(&Backend::Threads, &*source, range, Access::Cached).unwrap();
                prop_assert!(read == got[range.start() as usize..range.end() as usize], "{} {}", path, range);
            }
        }
        let used = |folder: &BTreeMap<String, Route>| files.iter().any(|(path, thing)| {
            let names: Vec<&str> = path.split('/').collect();
            let is_one = (0..names.len()).any(|start| directory_at(folder, &names[start..]).is_some());
            is_one && matches!(thing, Thing::Archive(_))
        });
        let unused = routed.unused();
        for (at, folder) in folders.iter().enumerate().filter(|(_, folder)| folder.values().any(has_files)) {
            let (of_it, count) = (unused.iter().filter(|one| one.folder == at).count(), count(folder));
            prop_assert_eq!(of_it < count, used(folder), "{}", at);
        }
    }
}

/// What is in a folder, and leads no further.
fn count(folder: &BTreeMap<String, Route>) -> usize {
    let of = |route: &Route| match route {
        Route::Directory(children) if !children.is_empty() => count(children),
        _ => 1,
    };
    folder.values().map(of).sum()
}
