//! Sources into a pack by one call: its final state, however it ends.

use std::fs;
use std::path::{Path, PathBuf};

use stook::names::{Patterns, Selection};
use stook::ops::pack::{Answer, Error, Hooks, Making, PackReport, PackSources, Stage, open_writer};
use stook::pack::tree::{Delete, Grouping};
use stook::pack::{self, Attributes, FileKind, Key, OpenOptions, Pack, WriterOptions};

/// A tree of two files, and a place for a pack.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(place.path("tree/deep")).unwrap();
        fs::write(place.path("tree/a"), "a").unwrap();
        fs::write(place.path("tree/deep/b"), "b").unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn packing<'a>(&self) -> PackSources<'a> {
        PackSources::new(vec![self.path("tree")], self.path("p.stook"))
    }

    fn names_in(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn open(&self) -> Pack {
        Pack::open_path(self.path("p.stook"), OpenOptions::default()).unwrap()
    }
}

/// Gives the same answer in one stage, from this many entries on, and records the stages.
struct Answers {
    stage: Stage,
    from: u64,
    answer: Answer,
    stages: Vec<Stage>,
}

impl Answers {
    fn new(stage: Stage, answer: Answer) -> Self {
        Self { stage, from: 0, answer, stages: Vec::new() }
    }
}

impl Hooks for Answers {
    fn progress(&mut self, stage: Stage, entries: u64, _bytes: u64) -> Answer {
        if stage == self.stage && entries >= self.from { self.answer } else { Answer::GoOn }
    }

    fn finished(&mut self, stage: Stage) -> Answer {
        if stage != Stage::Counting {
            self.stages.push(stage);
        }
        Answer::GoOn
    }
}

fn including(pattern: &str) -> Selection {
    Selection::of(Patterns::new([pattern]).unwrap(), Patterns::default())
}

#[test]
fn a_run_that_is_given_up_takes_back_what_it_made_and_nothing_else() {
    let place = Place::new();
    let give_up = || Answers::new(Stage::Packing, Answer::Abandon);
    assert!(matches!(place.packing().run(&mut give_up()), Err(Error::Abandoned)));
    assert!(!place.path("p.stook").exists());
    // A directory that was there stays, empty.
    fs::create_dir(place.path("p.stook")).unwrap();
    assert!(matches!(place.packing().run(&mut give_up()), Err(Error::Abandoned)));
    assert_eq!(place.names_in("p.stook"), [""; 0]);
    // A pack that was there stays with what is in it, and is no longer complete once it was
    // changed.
    assert!(place.packing().run(&mut ()).unwrap().complete && place.open().is_complete());
    fs::write(place.path("tree/c"), "c").unwrap();
    let mut at_the_end = Answers { from: 5, ..give_up() };
    assert!(matches!(place.packing().run(&mut at_the_end), Err(Error::Abandoned)));
    let (pack, key) = (place.open(), |path: &str| Key::bytes(path).unwrap());
    assert!(!pack.is_complete() && pack.contains(&key("deep/b")).unwrap());
    assert!(pack.contains(&key("c")).unwrap());
}

/// Before: it was called incomplete, unless room was scarce and the end came as all was counted.
#[test]
fn a_run_that_is_ended_before_it_changes_anything_leaves_a_complete_pack_complete() {
    let place = Place::new();
    assert!(place.packing().run(&mut ()).unwrap().complete);
    let before = place.open().generation();
    let is_as_it_was = || place.open().is_complete() && place.open().generation() == before;
    let stopped = place.packing().run(&mut Answers::new(Stage::Packing, Answer::Stop)).unwrap();
    assert!(stopped.summary.interrupted && !stopped.complete && is_as_it_was());
    // All of it is unchanged, however far the run came.
    let mut at_the_end = Answers { from: 4, ..Answers::new(Stage::Packing, Answer::Abandon) };
    assert!(matches!(place.packing().run(&mut at_the_end), Err(Error::Abandoned)) && is_as_it_was());
    fs::write(place.path("tree/a"), "another").unwrap();
    let fails = [
        PackSources { select: Some(Box::new(|_| None)), ..place.packing() },
        PackSources { exclude: Some(Box::new(|_| None)), ..place.packing() },
        PackSources { attributes: Some(Box::new(|_| None)), ..place.packing() },
    ];
    for packing in fails {
        assert!(matches!(packing.run(&mut ()), Err(Error::Abandoned)) && is_as_it_was());
    }
    // A completed run records its outcome, even if nothing else changed.
    assert!(place.packing().run(&mut ()).unwrap().complete && place.open().generation() > before);
}

/// Ends a run in the middle of a file.
struct EndsInAFile;

impl Hooks for EndsInAFile {
    fn progress(&mut self, stage: Stage, _entries: u64, bytes: u64) -> Answer {
        if stage == Stage::Packing && bytes > 0 { Answer::Stop } else { Answer::GoOn }
    }
}

/// Before: nothing was counted as added, and the pack was called complete again.
#[test]
fn a_run_that_moved_content_and_was_ended_leaves_the_pack_incomplete() {
    let place = Place::new();
    let (tree, len) = (place.path("tree"), 32 << 20);
    fs::remove_dir_all(tree.join("deep")).unwrap();
    fs::write(tree.join("a"), vec![1_u8; len]).unwrap();
    fs::hard_link(tree.join("a"), tree.join("z")).unwrap();
    let time = fs::metadata(&tree).unwrap().modified().unwrap();
    assert!(place.packing().run(&mut ()).unwrap().complete);
    let before = place.open();
    let kind = |name: &str| {
        let record = before.get(&Key::bytes(name).unwrap()).unwrap().unwrap();
        record.head.attributes.file_kind().unwrap()
    };
    let (first, link) = if kind("a") == FileKind::File { ("a", "z") } else { ("z", "a") };
    assert_eq!(kind(link), FileKind::HardLink);
    fs::remove_file(tree.join(first)).unwrap();
    fs::write(tree.join(first), vec![2_u8; len]).unwrap();
    fs::File::open(&tree).unwrap().set_modified(time).unwrap();
    let patterns = Selection::of(Patterns::default(), Patterns::new([link]).unwrap());
    let report = PackSources { patterns, ..place.packing() }.run(&mut EndsInAFile).unwrap();
    assert!(report.summary.interrupted && report.summary.added() == 0, "{report:?}");
    // What the link led to was put under its own name.
    let after = place.open();
    assert!(after.generation() > before.generation() && !after.is_complete());
    assert!(place.packing().run(&mut ()).unwrap().complete && place.open().is_complete());
}

/// Before: each of them called the pack complete, though what was missing was still missing.
#[test]
fn an_incomplete_pack_is_completed_only_by_a_run_of_what_it_was_made_from() {
    let place = Place::new();
    fs::create_dir(place.path("other")).unwrap();
    fs::write(place.path("other/c"), "c").unwrap();
    let mut late = Answers { from: 3, ..Answers::new(Stage::Packing, Answer::Stop) };
    assert!(!place.packing().run(&mut late).unwrap().complete && !place.open().is_complete());
    let without_all = || Selection::of(Patterns::default(), Patterns::new(["*"]).unwrap());
    let runs = [
        PackSources { patterns: including("zz"), ..place.packing() },
        PackSources { patterns: without_all(), ..place.packing() },
        PackSources { sources: vec![place.path("other")], ..place.packing() },
        // The pack has what this leaves out.
        PackSources { patterns: including("b"), ..place.packing() },
    ];
    for packing in runs {
        assert!(!packing.run(&mut ()).unwrap().complete && !place.open().is_complete(), "{packing:?}");
    }
    // The same directory by another name.
    let sources = vec![place.path("other/../tree")];
    let again = PackSources { sources, ..place.packing() }.run(&mut ()).unwrap();
    assert!(again.complete && place.open().is_complete());
}

#[test]
fn a_run_with_a_selection_that_was_ended_is_completed_by_the_same_run() {
    let place = Place::new();
    fs::write(place.path("tree/left.tmp"), "out").unwrap();
    for excludes in [true, false] {
        let packing = || {
            let (include, exclude) =
                if excludes { (vec![], vec!["*.tmp"]) } else { (vec!["a", "b"], vec![]) };
            let patterns = Selection::of(Patterns::new(include).unwrap(), Patterns::new(exclude).unwrap());
            let pack = place.path(if excludes { "p.stook" } else { "q.stook" });
            PackSources { patterns, pack, ..place.packing() }
        };
        let mut late = Answers { from: 2, ..Answers::new(Stage::Packing, Answer::Stop) };
        assert!(!packing().run(&mut late).unwrap().complete, "excludes: {excludes}");
        assert!(packing().run(&mut ()).unwrap().complete, "excludes: {excludes}");
    }
}

/// Before: the record of the root was replaced by one of the other tree.
#[test]
fn a_selection_that_takes_nothing_changes_no_pack_that_is_there() {
    let place = Place::new();
    assert!(place.packing().run(&mut ()).unwrap().complete);
    let before = place.open().generation();
    fs::create_dir(place.path("other")).unwrap();
    fs::write(place.path("other/c"), "c").unwrap();
    for dry_run in [true, false] {
        let patterns = including("zz");
        let sources = vec![place.path("other")];
        let report = PackSources { patterns, sources, dry_run, ..place.packing() }.run(&mut ()).unwrap();
        assert!(report.nothing.unwrap().is_error);
        assert_eq!((report.summary.added(), report.summary.replaced), (0, 0), "dry: {dry_run}");
    }
    assert!(place.open().generation() == before && place.open().is_complete());
    // With anything that is taken the root is, too.
    let some = PackSources { sources: vec![place.path("other")], ..place.packing() }.run(&mut ()).unwrap();
    assert_eq!((some.summary.files, some.summary.directories, some.summary.replaced), (1, 1, 1));
}

#[test]
fn a_run_that_is_stopped_keeps_what_it_packed_and_the_next_goes_on() {
    let place = Place::new();
    let report = place.packing().run(&mut Answers::new(Stage::Packing, Answer::Stop)).unwrap();
    assert!(report.summary.interrupted && !report.complete && !place.open().is_complete());
    let report = place.packing().run(&mut ()).unwrap();
    assert!(report.complete && place.open().is_complete());
    assert_eq!(report.summary.added() + report.summary.unchanged, 4);
}

#[test]
fn a_pack_that_was_made_for_nothing_is_taken_back_unless_that_was_on_purpose() {
    let place = Place::new();
    let run = |patterns: Selection| -> PackReport {
        PackSources { patterns, ..place.packing() }.run(&mut ()).unwrap()
    };
    let nothing = run(including("*.jpg")).nothing.unwrap();
    assert!(nothing.is_error && nothing.asked == 3 && !place.path("p.stook").exists());
    let on_purpose = Selection::of(Patterns::default(), Patterns::new(["a", "deep"]).unwrap());
    assert!(!run(on_purpose).nothing.unwrap().is_error && place.open().is_complete());
    // What was there is not touched.
    assert!(run(including("*.jpg")).nothing.unwrap().is_error && place.open().is_complete());
}

fn no_tar() -> stook::Result<Box<dyn std::io::BufRead + Send>> {
    Ok(Box::new(std::io::empty()))
}

#[test]
fn what_makes_no_sense_is_refused_as_such_before_anything_is_made() {
    let place = Place::new();
    let wrong = [
        PackSources { segment_len: 1, ..place.packing() },
        PackSources { delete: Delete::Any, move_originals: true, ..place.packing() },
        PackSources { delete: Delete::UpToHalf, grouping: Grouping::Named(String::new()), ..place.packing() },
        PackSources { sources: vec!["-".into()], ..place.packing() },
        // Before: the second one was no tar, and a pack without a record was left.
        PackSources {
            sources: vec!["-".into(), "-".into()],
            stream: Some(Box::new(no_tar)),
            ..place.packing()
        },
    ];
    for packing in wrong {
        let error = packing.run(&mut ()).unwrap_err();
        assert!(error.is_usage(), "{error}");
    }
    let absent = PackSources { sources: vec![place.path("absent")], ..place.packing() };
    assert!(!absent.run(&mut ()).unwrap_err().is_usage());
    place.packing().run(&mut ()).unwrap();
    let pack_as_source =
        PackSources { sources: vec![place.path("p.stook")], pack: place.path("q.stook"), ..place.packing() };
    assert!(matches!(pack_as_source.run(&mut ()), Err(Error::IsPack(_))));
    assert_eq!(place.names_in(""), ["p.stook", "tree"]);
}

#[test]
fn originals_are_removed_only_after_packing_came_to_its_end() {
    let place = Place::new();
    let moving = || PackSources { move_originals: true, ..place.packing() };
    let mut stopped = Answers::new(Stage::Packing, Answer::Stop);
    assert!(moving().run(&mut stopped).unwrap().moved.is_none());
    assert_eq!(
        (stopped.stages, place.names_in("tree")),
        (vec![Stage::Packing], vec!["a".into(), "deep".into()])
    );
    let mut whole = Answers::new(Stage::Packing, Answer::GoOn);
    let report = moving().run(&mut whole).unwrap();
    assert_eq!(whole.stages, [Stage::Packing, Stage::Removing]);
    assert_eq!((report.moved.unwrap().files, place.names_in("tree")), (2, Vec::new()));
    assert!(place.open().is_moved_into());
}

#[test]
fn a_dry_run_says_the_same_and_makes_nothing() {
    let place = Place::new();
    let dry = || PackSources { dry_run: true, ..place.packing() }.run(&mut ()).unwrap().summary;
    let before = (dry().files, dry().directories, dry().bytes);
    assert!(!place.path("p.stook").exists());
    fs::create_dir(place.path("p.stook")).unwrap();
    assert_eq!((dry().files, dry().directories, dry().bytes), before);
    assert_eq!(place.names_in("p.stook"), [""; 0]);
    let done = place.packing().run(&mut ()).unwrap().summary;
    assert_eq!((done.files, done.directories, done.bytes), before);
    // What is no pack and cannot become one is refused, as it would be.
    let other = PackSources { pack: place.path("tree/deep"), dry_run: true, ..place.packing() };
    assert!(other.run(&mut ()).is_err());
}

/// Before: only the command reported it; elsewhere a dry run was complete, for a pack that does not
/// exist.
#[test]
fn a_dry_run_is_never_complete() {
    let place = Place::new();
    let run = |dry_run: bool| PackSources { dry_run, ..place.packing() }.run(&mut ()).unwrap().complete;
    assert_eq!([true, false, true].map(run), [false, true, false]);
}

#[test]
fn a_dry_run_refuses_a_place_for_the_pack_where_the_run_does_and_no_other() {
    let place = Place::new();
    std::os::unix::fs::symlink("nowhere", place.path("dangling")).unwrap();
    fs::write(place.path("file"), "no directory").unwrap();
    let run = |name: &str, dry_run: bool| {
        PackSources { pack: place.path(name), dry_run, ..place.packing() }.run(&mut ())
    };
    for name in ["dangling", "dangling/", "no/parent", "file/p", "file", "tree/deep"] {
        let [dry, real] = [true, false].map(|dry_run| run(name, dry_run).unwrap_err().to_string());
        assert_eq!(dry, real, "{name}");
    }
    assert_eq!(place.names_in(""), ["dangling", "file", "tree"]);
    // Files of a writer that died before it published do not get in the way.
    fs::create_dir(place.path("left")).unwrap();
    fs::write(place.path("left/.tmp-x"), "").unwrap();
    assert_eq!(run("left", true).unwrap().summary.files, 2);
    assert_eq!(run("left", false).unwrap().summary.files, 2);
}

/// Before: records and a second walk were counted, too.
#[test]
fn the_paths_of_which_none_was_taken_are_those_of_the_tree() {
    let place = Place::new();
    place.packing().run(&mut ()).unwrap();
    for delete in [Delete::Nothing, Delete::UpToHalf, Delete::Any] {
        let none = PackSources { select: Some(Box::new(|_| Some(false))), delete, ..place.packing() };
        let nothing = none.run(&mut ()).unwrap().nothing.unwrap();
        assert_eq!((nothing.asked, nothing.is_error), (3, true), "{delete:?}");
    }
}

#[test]
fn attributes_of_the_caller_are_put_or_the_run_ends_before_the_record() {
    let place = Place::new();
    let labelled = |fails: bool| PackSources {
        attributes: Some(Box::new(move |path: &[u8]| {
            let mut attributes = Attributes::new();
            attributes.set_text("label", &path.escape_ascii().to_string()).ok()?;
            (!fails || path != b"a").then_some(attributes)
        })),
        ..place.packing()
    };
    assert!(matches!(labelled(true).run(&mut ()), Err(Error::Abandoned)));
    assert!(!place.path("p.stook").exists());
    labelled(false).run(&mut ()).unwrap();
    let label = |key: &str| {
        let record = place.open().get(&Key::bytes(key).unwrap()).unwrap().unwrap();
        record.head.attributes.iter().any(|(_, value)| format!("{value:?}").contains(key))
    };
    assert!(label("a") && label("deep/b"));
}

#[test]
fn members_of_an_archive_are_packed_as_the_tree_is() {
    let place = Place::new();
    let tar = place.path("t.tar");
    let made = std::process::Command::new("tar")
        .arg("cf")
        .arg(&tar)
        .arg("-C")
        .arg(place.path("tree"))
        .arg(".")
        .status();
    assert!(made.unwrap().success());
    let mut hooks = Answers::new(Stage::Packing, Answer::GoOn);
    let packing = PackSources { sources: vec![tar.clone()], ..place.packing() };
    let report = packing.run(&mut hooks).unwrap();
    assert_eq!((report.summary.files, report.summary.directories, report.complete), (2, 2, true));
    assert!(matches!(hooks.stages[..], [Stage::Indexing { .. }, Stage::Packing]), "{:?}", hooks.stages);
    for packing in [
        PackSources { delete: Delete::Any, ..place.packing() },
        PackSources { move_originals: true, ..place.packing() },
        PackSources { grouping: Grouping::Top, ..place.packing() },
    ] {
        let packing = PackSources { sources: vec![tar.clone()], ..packing };
        assert!(packing.run(&mut ()).unwrap_err().is_usage() && tar.exists());
    }
    let missing = PackSources {
        patterns: including("*.jpg"),
        sources: vec![tar],
        pack: place.path("q"),
        ..place.packing()
    };
    assert!(missing.run(&mut ()).unwrap().nothing.unwrap().is_error && !Path::exists(&place.path("q")));
}

/// Before: only records of files were counted as replaced.
#[test]
fn a_record_that_was_put_by_hand_and_is_replaced_is_counted() {
    let place = Place::new();
    let made = open_writer(&place.path("p.stook"), WriterOptions::default(), Making::IfMissing).unwrap();
    let mut writer = made.writer;
    writer.put("", &Key::bytes("a").unwrap(), &Attributes::new(), b"put by hand").unwrap();
    writer.finish(false).unwrap();
    for dry_run in [true, false] {
        let summary = PackSources { dry_run, ..place.packing() }.run(&mut ()).unwrap().summary;
        assert_eq!((summary.files, summary.replaced), (2, 1), "dry: {dry_run}");
    }
}

/// Before: a dry run said that it would be packed.
#[test]
fn a_dry_run_fails_for_a_link_of_an_archive_to_nothing() {
    let place = Place::new();
    let tar = |args: &[&str]| {
        let made = std::process::Command::new("tar").args(args).current_dir(place.path("tree")).status();
        assert!(made.unwrap().success(), "{args:?}");
    };
    fs::hard_link(place.path("tree/a"), place.path("tree/link")).unwrap();
    tar(&["cf", "../cut.tar", "a", "link"]);
    tar(&["--delete", "-f", "../cut.tar", "a"]);
    let failures = [true, false].map(|dry_run| {
        let sources = vec![place.path("cut.tar")];
        let report = PackSources { sources, dry_run, ..place.packing() }.run(&mut ()).unwrap();
        assert_eq!((report.summary.failures.len(), report.summary.added(), report.complete), (1, 0, false));
        report.summary.failures[0].error.to_string()
    });
    assert_eq!(failures[0], failures[1]);
}

#[test]
fn a_pack_for_single_records_is_made_only_where_it_may_be_and_is_complete() {
    let place = Place::new();
    let open = |name: &str, making| open_writer(&place.path(name), WriterOptions::default(), making);
    assert!(matches!(open("p.stook", Making::Never), Err(pack::Error::Core(_))));
    let wrong = WriterOptions { segment_len: u64::MAX, ..WriterOptions::default() };
    let refused = open_writer(&place.path("p.stook"), wrong, Making::IfMissing);
    assert!(matches!(refused, Err(pack::Error::Limit { .. })));
    assert_eq!(place.names_in(""), ["tree"]);
    let made = open("p.stook", Making::IfMissing).unwrap();
    // The process dies: nothing more is recorded in the pack.
    assert!(made.made.unwrap().with_directory && place.open().is_complete());
    drop(made);
    for there in [Making::Never, Making::IfMissing] {
        assert!(open("p.stook", there).unwrap().made.is_none(), "{there:?}");
    }
    assert!(matches!(open("p.stook", Making::Always), Err(pack::Error::Exists { .. })));
    fs::create_dir(place.path("empty")).unwrap();
    assert!(matches!(open("empty", Making::Never), Err(pack::Error::NotAPack { .. })));
    assert!(!open("empty", Making::Always).unwrap().made.unwrap().with_directory);
    for making in [Making::Never, Making::IfMissing, Making::Always] {
        assert!(matches!(open("tree", making), Err(pack::Error::NotAPack { .. })), "{making:?}");
    }
    assert_eq!(place.names_in("tree"), ["a", "deep"]);
}
