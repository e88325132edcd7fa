//! What is replaced or deleted stays under another name, and costs nothing else its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use stook::copy::{Copy, CopyOptions, CopyReport, CopySource, Destination};
use stook::tree::Overwrite;

struct Place(tempfile::TempDir);

impl Place {
    /// Files in `from` have the new bytes, those in `to` the old ones; both say of which name.
    fn new(from: &[&str], to: &[&str]) -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        for (folder, names) in [("from", from), ("to", to)] {
            fs::create_dir(place.at(folder)).unwrap();
            for name in names {
                place.write(folder, name);
            }
        }
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, folder: &str, name: &str) {
        let path = self.at(folder).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{name} of {folder}")).unwrap();
    }

    fn copy(&self, mirror: bool) -> CopyReport {
        let options = CopyOptions {
            overwrite: Overwrite::Different,
            backup: Some("~".into()),
            mirror,
            ..CopyOptions::default()
        };
        let sources = vec![CopySource::directory(self.at("from")).unwrap()];
        let copy = Copy::new(sources, vec![Destination::new(self.at("to"))]).with_options(options);
        copy.run(&mut ()).unwrap()
    }

    /// The files of the destination, and what they say.
    fn found(&self) -> BTreeMap<String, String> {
        let all = super::state_of(&self.at("to"));
        let files = all.into_iter().filter(|(_, known)| known.0 & 0o170_000 == 0o100_000);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        files.map(|(key, known)| (text(key), text(known.5))).collect()
    }

    #[track_caller]
    fn assert_found(&self, expected: &[(&str, &str)]) {
        let expected = expected.iter().map(|(name, says)| ((*name).to_owned(), (*says).to_owned()));
        assert_eq!(self.found(), expected.collect());
    }
}

#[test]
fn no_backup_takes_a_name_that_is_copied() {
    let place = Place::new(&["d/x", "d/x~"], &["d/x"]);
    let report = place.copy(false);
    assert_eq!((report.undone(), report.destinations[0].backups), (0, 1), "{report:?}");
    place.assert_found(&[("d/x", "d/x of from"), ("d/x~", "d/x~ of from"), ("d/x~~", "d/x of to")]);
    // Both are replaced, and both are kept, in whichever order.
    let place = Place::new(&["x", "x~"], &["x", "x~"]);
    assert_eq!(place.copy(false).undone(), 0);
    let found = place.found();
    assert_eq!((found["x"].as_str(), found["x~"].as_str()), ("x of from", "x~ of from"));
    let mut kept = [found["x~~"].as_str(), found["x~~~"].as_str()];
    kept.sort();
    assert_eq!(kept, ["x of to", "x~ of to"], "{found:?}");
}

#[test]
fn what_a_mirror_keeps_takes_no_name_that_is_copied() {
    let place = Place::new(&["old~", "other"], &["old"]);
    let report = place.copy(true);
    assert_eq!((report.undone(), report.destinations[0].deleted.len()), (0, 1), "{report:?}");
    place.assert_found(&[("old~", "old~ of from"), ("old~~", "old of to"), ("other", "other of from")]);
}

#[test]
fn several_sources_keep_the_names_of_one_another() {
    let place = Place::new(&["x", "x~"], &["x"]);
    let source = |name: &str| CopySource::file(place.at("from").join(name)).unwrap();
    let options =
        CopyOptions { overwrite: Overwrite::Different, backup: Some("~".into()), ..CopyOptions::default() };
    let copy = Copy::new(vec![source("x"), source("x~")], vec![Destination::new(place.at("to"))]);
    assert_eq!(copy.with_options(options).run(&mut ()).unwrap().undone(), 0);
    place.assert_found(&[("x", "x of from"), ("x~", "x~ of from"), ("x~~", "x of to")]);
}

#[test]
fn an_earlier_backup_of_a_file_is_replaced_and_a_directory_never_is() {
    let place = Place::new(&["x", "y"], &["x", "x~", "y", "y~/inner"]);
    assert_eq!(place.copy(false).undone(), 0);
    place.assert_found(&[
        ("x", "x of from"),
        ("x~", "x of to"),
        ("y", "y of from"),
        ("y~/inner", "y~/inner of to"),
        ("y~~", "y of to"),
    ]);
    let place = Place::new(&["x"], &["extra/new", "extra~/first"]);
    for round in 1..=2 {
        let report = place.copy(true);
        assert_eq!((report.undone(), report.destinations[0].deleted.len()), (0, 1), "{round}: {report:?}");
        place.write("to", "extra/again");
    }
    let found = place.found();
    assert_eq!(found["extra~/first"], "extra~/first of to");
    assert_eq!(found["extra~~/new"], "extra/new of to");
    assert_eq!(found["extra~~~/again"], "extra/again of to");
}

#[test]
fn files_with_the_longest_names_are_replaced_and_kept_one_by_one() {
    let names = ["a", "b"].map(|end| format!("{}{end}", "n".repeat(254)));
    let names = names.each_ref().map(String::as_str);
    let place = Place::new(&names, &names);
    for name in names {
        fs::write(place.at("from").join(name), "new").unwrap();
    }
    let report = place.copy(false);
    assert_eq!((report.undone(), report.destinations[0].backups), (0, 2), "{report:?}");
    let found = place.found();
    assert_eq!(found.len(), 4, "{:?}", found.keys());
    let mut kept: Vec<&str> =
        found.iter().filter(|(name, _)| name.ends_with('~')).map(|(_, says)| says.as_str()).collect();
    kept.sort();
    assert_eq!(kept, names.map(|name| format!("{name} of to")));
}
