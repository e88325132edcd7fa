//! Shards get their names together: none is there while another is missing without a word.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use stook::ops::copy::{Given, OpenGiven};
use stook::ops::stitch::{Error, Sharded, ShardsGiven};
use stook::stitch::Wds;
use stook::tree::outbox::Calls;
use stook_testing::fault::{FaultCalls, OutFault};
use stook_testing::sweep::{assert_met, each_call};

const EIO: OutFault = OutFault::Fails(5);

/// Four samples, each a shard of its own.
fn samples() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("set")).unwrap();
    for (name, len) in [("a.jpg", 3000), ("b.jpg", 70_000), ("b.txt", 0), ("c.jpg", 1), ("d.jpg", 5000)] {
        fs::write(place.path().join("set").join(name), vec![name.as_bytes()[0]; len]).unwrap();
    }
    place
}

fn sharded(place: &Path) -> Sharded {
    let given: Given = OpenGiven::default().open(&place.join("set"), &mut |_| true).unwrap();
    let wds = Wds { shard_bytes: Some(1), prefix: String::new(), deterministic: true };
    ShardsGiven { trees: vec![given], wds, target: None }.lay_out(&mut |_| true).unwrap()
}

fn write(place: &Path, force: bool, calls: Arc<dyn Calls>) -> Result<(), Error> {
    sharded(place).write_through(&place.join("out"), force, calls, &mut |_| true)
}

/// What is in the directory; nothing if there is none.
fn found(place: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(place.join("out")) else { return BTreeMap::new() };
    let of =
        |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    entries.map(|entry| of(entry.unwrap())).collect()
}

/// The shards of it, and what of it is none.
fn parted(found: BTreeMap<String, Vec<u8>>) -> (BTreeMap<String, Vec<u8>>, BTreeSet<String>) {
    let (shards, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|(name, _)| name.ends_with(".tar"));
    (shards.into_iter().collect(), others.into_iter().map(|(name, _)| name).collect())
}

/// As `parted` of a run that meets nothing.
fn whole() -> BTreeMap<String, Vec<u8>> {
    let place = samples();
    write(place.path(), false, Arc::new(FaultCalls::none())).unwrap();
    let (whole, others) = parted(found(place.path()));
    assert_eq!((whole.len(), others), (4, BTreeSet::new()));
    whole
}

#[test]
fn wherever_a_run_is_killed_no_shard_is_there_while_others_are_missing_without_a_word() {
    let (whole, place) = (whole(), samples());
    let at = place.path();
    let mut partly = 0;
    for has_unnamed in [true, false] {
        let calls = |nth| {
            let calls = FaultCalls::killed_at(nth);
            if has_unnamed { calls } else { calls.without_unnamed() }
        };
        let run = |calls: Arc<FaultCalls>| {
            let _ = fs::remove_dir_all(at.join("out"));
            write(at, false, calls)
        };
        each_call(1, calls, run, |done, nth, call| {
            let left = found(at);
            let (shards, others) = parted(left.clone());
            assert!(done.is_err() || shards == whole, "{nth} {call}: not reported");
            for (name, bytes) in &shards {
                assert!(whole[name] == *bytes, "{nth} {call}: {name} is not whole");
            }
            if !shards.is_empty() {
                for (name, bytes) in whole.iter().filter(|(name, _)| !shards.contains_key(*name)) {
                    let unfinished = format!("{name}.unfinished");
                    assert!(others.contains(&unfinished), "{nth} {call}: {name} is missing");
                    assert!(left[&unfinished] == *bytes, "{nth} {call}: {unfinished} is not whole");
                }
                partly += usize::from(shards.len() < whole.len());
            }
            // What is left is no hindrance, unless it has the name of a shard.
            let none = || Arc::new(FaultCalls::none());
            match write(at, false, none()) {
                Err(Error::Invalid(why)) if !shards.is_empty() => {
                    assert!(why.contains("is not empty"), "{why}")
                }
                again => again.unwrap(),
            }
            write(at, true, none()).unwrap();
            assert!(found(at) == whole, "{nth} {call}: run again, and not whole");
        });
    }
    assert!(partly > 0, "none was killed between two names");
}

#[test]
fn whichever_call_fails_it_is_reported_and_nothing_stays() {
    let (whole, place) = (whole(), samples());
    let at = place.path();
    let run = |calls: Arc<FaultCalls>| {
        let _ = fs::remove_dir_all(at.join("out"));
        write(at, false, calls)
    };
    let met = each_call(
        1,
        |nth| FaultCalls::nth(nth, EIO),
        run,
        |done, nth, call| {
            let (shards, others) = parted(found(at));
            match done {
                // Without a lock two runs are not kept apart, and what is untidy is not reported.
                Ok(()) => {
                    assert!(shards == whole && ["lock", "unlink"].contains(&call), "{nth} {call}");
                    assert!(others.is_empty() || call == "unlink", "{nth} {call}: {others:?}");
                }
                // What cannot be removed stays, and the next run removes it.
                Err(_) if call == "unlink" => assert!(shards.is_empty(), "{nth} {call}"),
                Err(_) => {
                    assert!(shards.is_empty() && others.is_empty(), "{nth} {call}: {others:?}");
                    assert!(!at.join("out").exists(), "{nth} {call}");
                }
            }
        },
    );
    assert_met(
        &met,
        ["make_directory", "create_unnamed", "write_at", "sync_file_system", "rename_new", "sync"],
    );
}

#[test]
fn a_file_that_came_between_is_not_written_over_and_shards_are_replaced_only_if_that_is_asked() {
    let (whole, place) = (whole(), samples());
    let (at, out) = (place.path(), place.path().join("out"));
    fs::create_dir(&out).unwrap();
    let came = sharded(at).write(&out, false, &mut |bytes| {
        if bytes > 80_000 {
            fs::write(out.join("000002.tar"), "mine").unwrap();
        }
        true
    });
    assert!(came.unwrap_err().to_string().contains("000002.tar.unfinished"));
    assert_eq!(found(at), BTreeMap::from([("000002.tar".to_owned(), b"mine".to_vec())]));
    let refused = write(at, false, Arc::new(FaultCalls::none())).unwrap_err();
    assert!(refused.to_string().contains("is not empty"), "{refused}");
    write(at, true, Arc::new(FaultCalls::none())).unwrap();
    assert!(found(at) == whole);
    // What is called otherwise is nothing that a run left.
    fs::write(out.join("x.tar.unfinished"), "mine").unwrap();
    fs::write(out.join("000009.tar.unfinished"), "left").unwrap();
    write(at, true, Arc::new(FaultCalls::none())).unwrap();
    assert_eq!(fs::read(out.join("x.tar.unfinished")).unwrap(), b"mine");
    assert_eq!(found(at).len(), whole.len() + 1);
    // While another run writes, nothing of it is taken for left.
    let mut refused = None;
    fs::remove_dir_all(&out).unwrap();
    sharded(at)
        .write(&out, false, &mut |_| {
            refused.get_or_insert_with(|| write(at, true, Arc::new(stook::tree::outbox::System)));
            true
        })
        .unwrap();
    assert!(refused.unwrap().unwrap_err().to_string().contains("another run writes shards"));
    assert!(found(at) == whole);
    // And who ends it has nothing.
    fs::remove_dir_all(&out).unwrap();
    let ended = sharded(at).write(&out, false, &mut |bytes| bytes < 80_000);
    assert!(matches!(ended, Err(Error::Stitch(stook::stitch::Error::Interrupted))));
    assert!(!out.exists());
}
