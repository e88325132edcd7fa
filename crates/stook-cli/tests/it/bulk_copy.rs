//! `stook study bulk-copy`, small.

use std::fs;

use serde_json::Value;

use super::packs::{Place, documented};
use super::{ended, stook};

#[test]
fn a_copy_says_what_both_ends_are_and_checks_the_arithmetic_of_the_document() {
    let place = Place::new();
    fs::create_dir(place.path("to")).unwrap();
    let args =
        ["study", "bulk-copy", "--verbose", "--size", "2M", "--runs", "1", "--keep-caches", "--to", "to"];
    let mut command = stook(args);
    command.args(["--rated-read", "500M", "--rated-write", "271M", "--out", "out"]);
    let (code, stdout, stderr) = ended(command.current_dir(place.dir.path()));
    assert_eq!(code, 0, "{stderr}");
    for line in ["From where to where", "252,411,641,856 bytes", "295.218 MB/s", "258 files, of 978 MB each"]
    {
        assert!(stdout.contains(line), "{line}: {stdout}");
    }
    let result: Value = serde_json::from_slice(&fs::read(place.path("out/study.json")).unwrap()).unwrap();
    documented("study", &result);
    let data = &result["data"];
    // Two directories of one file system are one drive, so no rating is judged.
    assert_eq!((&data["is_within_disks"], &data["is_between_drives"]), (&true.into(), &false.into()));
    assert_eq!(data["source"], data["destination"]);
    assert!(!data["source"]["file_system"].as_str().unwrap().is_empty(), "{}", data["source"]);
    assert_eq!(result["tables"][0]["here"][0], serde_json::json!(["–", "–", "–"]));
    let verdict = |words: &str| {
        let conclusions = result["conclusions"].as_array().unwrap();
        let one = conclusions.iter().find(|one| one["published"].as_str().unwrap().contains(words)).unwrap();
        (one["verdict_of_published"].as_str().unwrap(), one["verdict"].as_str().unwrap())
    };
    assert_eq!(verdict("line of progress"), ("holds", "not_measured"));
    assert_eq!(verdict("98.4%"), ("holds", "not_measured"));
    let page = fs::read_to_string(place.path("out/study.html")).unwrap();
    assert!(page.contains("The line of progress of the document") && page.contains("100.551 %"), "{page}");
    let left: Vec<_> = fs::read_dir(place.path("to")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}
