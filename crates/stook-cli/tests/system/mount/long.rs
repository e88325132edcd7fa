//! Directories with very many members.

use std::fs;

use super::Place;

const MEMBERS: u64 = 100_000;
/// What each may take of the memory of the process that serves it.
const MEMORY_MAX_BYTES: u64 = 150;

/// Memory of the process that serves the mount, without files that it has mapped.
fn memory_bytes(place: &Place) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", place.status().process)).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_directory_of_a_hundred_thousand_members_is_listed_with_little_memory() {
    let place = Place::new();
    place.script(&format!(
        "mkdir -p tree/long tree/short; echo a > tree/short/a; $STOOK pack tree one.stook -q
         (cd tree/long; seq -f %.0f 1 {MEMBERS} | xargs touch); echo b > tree/long/7; $STOOK pack tree all.stook -q"
    ));
    place.mount(&["one.stook"]);
    place.script("ls -fR mnt >/dev/null");
    let without = memory_bytes(&place);
    place.unmount();
    place.mount(&["all.stook"]);
    let listed = place.script("ls -f mnt/long | sort -n | uniq | wc -l");
    assert_eq!(listed, format!("{}\n", MEMBERS + 2), "with `.` and `..`");
    let memory = memory_bytes(&place).saturating_sub(without);
    assert!(memory / MEMBERS <= MEMORY_MAX_BYTES, "{} bytes for each", memory / MEMBERS);
    // Names alone take a fourth of the requests that names with nodes take.
    let status = place.status();
    assert!(status.requests.readdir < MEMBERS / 400, "{status:?}");
    // What was listed by name alone is there, and is read by requests.
    place.script(
        "cmp mnt/long/7 tree/long/7; ls -l mnt/short >/dev/null; test $(ls -l mnt/long | wc -l) -gt 100000",
    );
    assert_eq!(place.status().pushed.files, 0, "{:?}", place.status());
    place.script("diff -r tree/short mnt/short");
    place.unmount();
}
