//! Damage that may hide names: a mount says so before anybody looks, and its listing ends with an
//! error.

use std::fs;

use super::{Place, eventually};

/// Changes a byte of a name in the segment of a pack that still grows, so that nothing is known of
/// its frame.
fn hit(place: &Place, name: &str) {
    let all = fs::read_dir(place.path("p.stook")).unwrap().map(|entry| entry.unwrap().path());
    let segment = all.filter(|path| path.to_str().unwrap().contains("/segment-")).max().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(name.len()).position(|some| some == name.as_bytes()).unwrap();
    bytes[at] ^= 4;
    fs::write(&segment, bytes).unwrap();
}

fn is_said(place: &Place) -> bool {
    let said = |line: &String| line.contains("/segment-") && line.contains("is damaged at offset");
    place.status().log.iter().any(said)
}

/// What is there is, what may be there is an error, and the listing is all that can be listed.
fn check(place: &Place) {
    let said = place.script(
        "ls mnt/d; cat mnt/d/file1; ls mnt > listed 2> failed && exit 1; cat listed
         grep -q 'Input/output error' failed
         for name in d/file2 d/nothing nothing; do
             cat mnt/$name 2> failed && exit 1; grep -q 'Input/output error' failed; done",
    );
    assert_eq!(said, "file1\nfile3\n1\nd\n");
}

#[test]
fn a_frame_that_hides_a_name_is_said_before_anybody_lists() {
    let place = Place::new();
    place.script("for n in 1 2 3; do $STOOK put p.stook d/file$n <<< $n; done");
    hit(&place, "d/file2");
    let (code, ..) = place.run(&["ls", "p.stook"]);
    assert_eq!(code, 1);
    place.mount(&["p.stook", "--log", "log"]);
    eventually("it is said", || is_said(&place));
    check(&place);
    place.unmount();
    assert!(fs::read_to_string(place.path("log")).unwrap().contains("is damaged at offset"));
    // The same of a part of it, and of several as one.
    place.mount(&["p.stook//d"]);
    eventually("it is said", || is_said(&place));
    assert_eq!(place.script("ls mnt; cat mnt/file3"), "file1\nfile3\n3\n");
    place.unmount();
    place.script("echo x | $STOOK put other.stook x");
    place.mount(&["p.stook", "other.stook"]);
    eventually("it is said", || is_said(&place));
    let listed = place.script("ls mnt > listed 2> failed && exit 1; cat listed mnt/x");
    assert_eq!(listed, "d\nx\nx\n");
    place.unmount();
    // Where the damaged one counts, it may have what the other has.
    place.mount(&["other.stook", "p.stook"]);
    eventually("it is said", || is_said(&place));
    let listed =
        place.script("ls mnt > listed 2> failed && exit 1; cat mnt/x 2> failed && exit 1; cat listed");
    assert_eq!(listed, "d\n");
    place.unmount();
}

#[test]
fn a_pack_that_is_followed_says_what_hides_names_in_each_state() {
    let place = Place::new();
    place.script("for n in 1 2 3; do $STOOK put p.stook d/file$n <<< $n; done");
    place.mount(&["p.stook", "--follow"]);
    place.script("ls mnt");
    assert!(!is_said(&place), "{:?}", place.status());
    hit(&place, "d/file2");
    // The next state is one of which a name is hidden.
    place.script("echo 4 | $STOOK put p.stook e || [ $? = 1 ]");
    eventually("it is said", || is_said(&place));
    let said = place.script("ls mnt/d; ls mnt > listed 2> failed && exit 1; cat listed");
    assert_eq!(said, "file1\nfile3\nd\ne\n");
    place.unmount();
    place.mount(&["p.stook", "--follow"]);
    eventually("it is said", || is_said(&place));
    place.unmount();
}
