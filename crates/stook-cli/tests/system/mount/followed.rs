//! Packs that are followed: listings that go on in a newer state, and packs that are replaced.

use std::fs::{self, File};

use rustix::fs::RawDir;

use super::{Place, eventually};

/// Names that one call gives, into a buffer of so many bytes.
fn next_names(directory: &File, buffer_len: usize) -> Vec<String> {
    let mut buffer = Vec::with_capacity(buffer_len);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        names.push(entry.unwrap().file_name().to_str().unwrap().to_owned());
        if entries.is_buffer_empty() {
            break;
        }
    }
    names
}

/// The kernel takes more of a listing than a program has room for, and asks again from where that
/// ended.
#[test]
fn a_listing_in_small_parts_goes_on_after_the_name_that_was_given_last() {
    let place = Place::new();
    place.script(
        "mkdir tree; for i in $(seq -w 300); do echo $i > tree/a$i; echo $i > tree/kept$i; done
         $STOOK pack tree p.stook -q",
    );
    for buffer_len in [256, 1000, 3000] {
        place.script("for i in $(seq -w 300); do echo $i > tree/a$i; done; $STOOK pack tree p.stook -q");
        place.mount(&["p.stook", "--follow"]);
        let directory = File::open(place.mountpoint()).unwrap();
        let mut listed = Vec::new();
        while !listed.iter().any(|name: &String| name.starts_with("kept")) {
            let names = next_names(&directory, buffer_len);
            assert!(!names.is_empty());
            listed.extend(names);
        }
        // What was given is there no more: places in the listing are others now.
        place.script("rm tree/a*; $STOOK pack tree p.stook --delete -q");
        eventually("the newer state is shown", || !place.path("mnt/a001").exists());
        loop {
            let names = next_names(&directory, buffer_len);
            if names.is_empty() {
                break;
            }
            listed.extend(names);
        }
        let kept: Vec<&String> = listed.iter().filter(|name| name.starts_with("kept")).collect();
        let all: Vec<String> = (1..=300).map(|number| format!("kept{number:03}")).collect();
        assert_eq!(kept, all.iter().collect::<Vec<_>>(), "with {buffer_len} bytes");
        drop(directory);
        place.unmount();
    }
}

#[test]
fn a_pack_that_was_replaced_is_said_to_be_and_stays_as_it_was() {
    let place = Place::new();
    place.script("mkdir tree; echo one > tree/a; $STOOK pack tree p.stook -q");
    place.mount(&["p.stook", "--follow"]);
    assert_eq!(place.script("cat mnt/a"), "one\n");
    let path = place.path("p.stook");
    let path = path.to_str().unwrap();
    let says = |why: &str| {
        let log = place.status().log;
        log.iter().any(|line| line.contains(&format!("the pack at {path} was {why}")))
    };
    place.script("rm -r p.stook");
    eventually("it is said to be deleted", || says("deleted"));
    place.script("echo two > tree/a; $STOOK pack tree p.stook -q");
    eventually("it is said to be replaced", || says("replaced"));
    assert_eq!(place.script("cat mnt/a"), "one\n");
    // Nothing of it is called an error of listing.
    let log = place.status().log;
    assert!(!log.iter().any(|line| line.contains("cannot list")), "{log:?}");
    place.unmount();
    place.mount(&["p.stook", "--follow"]);
    assert_eq!(fs::read(place.path("mnt/a")).unwrap(), b"two\n");
    place.unmount();
}
