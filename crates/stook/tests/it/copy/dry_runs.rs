//! A dry run says exactly what the run itself does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use stook::copy::{Action, CopyOptions, Why};
use stook::names::{Patterns, Selection};
use stook::tree::{Kind, Overwrite};
use stook_testing::sweep::stride;

use super::{heard, state_of};

/// What has a name, in one of the trees.
#[derive(Debug, Clone, Copy)]
enum Thing {
    /// With one of few contents and times, so that many are the same.
    File {
        bytes: u8,
        seconds: u8,
        mode: u8,
    },
    Link(u8),
    Directory,
    /// One more name of the first file of its tree.
    HardLink,
    Pipe,
}

const NAMES: [&str; 7] = ["a", "b", "c.skip", "d/e", "d/f", "g/h/i", "g/j"];

fn thing() -> impl Strategy<Value = Option<Thing>> {
    prop_oneof![
        2 => Just(None),
        6 => (0..3_u8, 0..3_u8, 0..2_u8).prop_map(|(bytes, seconds, mode)| Some(Thing::File { bytes, seconds, mode })),
        1 => (0..2_u8).prop_map(|to| Some(Thing::Link(to))),
        1 => Just(Some(Thing::Directory)),
        2 => Just(Some(Thing::HardLink)),
        1 => Just(Some(Thing::Pipe)),
    ]
}

type Things = [Option<Thing>; NAMES.len()];

fn things() -> impl Strategy<Value = Things> {
    prop::array::uniform7(thing())
}

fn set_time(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

/// Makes a tree. Of two things of which one lies where the other is not a directory, the first
/// stays.
fn make(root: &Path, things: &Things) {
    let mut first = None;
    fs::create_dir(root).unwrap();
    for (name, thing) in NAMES.iter().zip(things) {
        let path = root.join(name);
        let Some(thing) = thing else { continue };
        if fs::create_dir_all(path.parent().unwrap()).is_err() {
            continue;
        }
        match *thing {
            Thing::File { bytes, seconds, mode } => {
                // Two contents have one length.
                fs::write(&path, [&b"one"[..], b"two", b"longer"][usize::from(bytes)]).unwrap();
                let mode = [0o644, 0o600][usize::from(mode)];
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                set_time(&path, 1_000 + u64::from(seconds));
                first.get_or_insert(path);
            }
            Thing::Link(to) => symlink(["here", "there"][usize::from(to)], &path).unwrap(),
            Thing::Directory => fs::create_dir(&path).unwrap(),
            Thing::HardLink => {
                if let Some(first) = &first {
                    fs::hard_link(first, &path).unwrap();
                }
            }
            Thing::Pipe => rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap(),
        }
    }
}

/// What becomes of each path.
type Whats = BTreeMap<Vec<u8>, (Action, Why, Kind, u64)>;

fn run(place: &Path, options: &CopyOptions) -> (Whats, usize, u64) {
    let (report, events) = heard(&place.join("from"), &place.join("to"), options.clone());
    let mut whats = Whats::new();
    for item in events.items {
        let known = whats.insert(item.key.clone(), (item.action, item.why, item.kind, item.len));
        assert_eq!(known, None, "{:?} is reported twice", item.key.escape_ascii().to_string());
    }
    let one = &report.destinations[0];
    (whats, one.kept.len(), one.unchanged)
}

#[test]
fn names_of_one_file_that_are_files_with_other_attributes_in_the_source_become_these() {
    for checksum in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let file = |mode| Some(Thing::File { bytes: 0, seconds: 0, mode });
        make(&place.path().join("from"), &[file(0), None, None, file(1), file(1), file(0), None]);
        let link = Some(Thing::HardLink);
        make(&place.path().join("to"), &[file(1), None, None, link, link, link, None]);
        let options = CopyOptions { checksum, overwrite: Overwrite::Different, ..CopyOptions::default() };
        let other = place.path().join("other");
        fs::hard_link(place.path().join("to/a"), &other).unwrap();
        let (_, kept, unchanged) = run(place.path(), &options);
        assert_eq!(other.symlink_metadata().unwrap().mode() & 0o777, 0o600, "it is not in the copy");
        let state = state_of(&place.path().join("to"));
        let mode_of = |name: &str| state[name.as_bytes()].0 & 0o777;
        assert_eq!(["a", "d/e", "d/f", "g/h/i"].map(mode_of), [0o644, 0o600, 0o600, 0o644]);
        assert_eq!((kept, unchanged), (0, 2), "one file keeps its two names");
        let (_, kept, unchanged) = run(place.path(), &options);
        assert_eq!((kept, unchanged), (0, 4));
        assert_eq!(state_of(&place.path().join("to")), state);
    }
}

fn options() -> impl Strategy<Value = CopyOptions> {
    let overwrite = prop_oneof![
        Just(Overwrite::Never),
        Just(Overwrite::Older),
        Just(Overwrite::Different),
        Just(Overwrite::Always),
    ];
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (overwrite, flags).prop_map(|(overwrite, (checksum, mirror, skips, specials, backup))| CopyOptions {
        overwrite,
        checksum,
        mirror,
        max_delete: mirror.then_some(100),
        specials,
        backup: backup.then(|| "~".into()),
        selection: match skips {
            true => Selection::of(Patterns::default(), Patterns::new(["*.skip"]).unwrap()),
            false => Selection::default(),
        },
        ..CopyOptions::default()
    })
}

fn cases() -> ProptestConfig {
    let cases = if stride(2) == 1 { 2_000 } else { 150 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_dry_run_says_of_each_path_what_the_run_does(
        from in things(),
        to in prop::option::of(things()),
        earlier in prop::option::of(things()),
        options in options(),
    ) {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        make(&at("from"), &from);
        if let Some(to) = &to {
            make(&at("to"), to);
        }
        let link_dest = earlier.as_ref().map(|earlier| {
            make(&at("earlier"), earlier);
            at("earlier")
        });
        let options = CopyOptions { link_dest, ..options };
        let before = to.is_some().then(|| state_of(&at("to")));
        let dry = run(place.path(), &CopyOptions { dry_run: true, ..options.clone() });
        prop_assert_eq!(at("to").exists().then(|| state_of(&at("to"))), before, "nothing is changed");
        let done = run(place.path(), &options);
        prop_assert_eq!(&dry, &done);
        if options.overwrite == Overwrite::Different {
            let (from, to) = (state_of(&at("from")), state_of(&at("to")));
            for (key, (action, ..)) in done.0.iter().filter(|(_, what)| what.2 == Kind::File) {
                let is_as_its_source = match action {
                    Action::Keep | Action::Delete => true,
                    // Files of one length and time are taken for the same, unless they are read.
                    _ if options.checksum && from[key].5 != to[key].5 => false,
                    _ => (from[key].0, from[key].2) == (to[key].0, to[key].2),
                };
                prop_assert!(is_as_its_source, "{}", key.escape_ascii());
            }
        }
    }
}
