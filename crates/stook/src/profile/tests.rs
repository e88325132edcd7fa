//! What is recognised of a storage in trees that are made up like `/sys`, what is kept of it, and
//! which of all that is known counts.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};

use super::{Class, Measured, Medium, Profile, Profiles};
use crate::device::tests::Made;
use crate::source::{MemorySource, SessionOptions};

/// An id as file systems make it of their UUID.
const UUID: u64 = 0x1234_5678_9ABC_DEF0;

fn medium(made: &Made, id: u64) -> Medium {
    let files = made.files();
    let device = fs::metadata(&files).unwrap().dev();
    Medium::in_system(&made.system, &files, device, id)
}

/// Files on one disk (its directory below `sys/devices`), of which `/sys` says this.
fn on_disk(directory: &str, facts: &[(&str, &str)]) -> Made {
    let mut made = Made::new();
    made.disk_of_files(directory);
    for (name, text) in facts {
        made.write(&format!("devices/{directory}/{name}"), text);
    }
    made.mount("/", "", "ext4 /dev/some rw");
    made
}

fn all() -> Measured {
    Measured {
        depth: Some(64),
        block_bytes: Some(256 << 10),
        opens: Some(40),
        open_ns: Some(90_000),
        request_ns: Some(80_000),
        sequential_bytes_per_s: Some(5e8),
        random_reads_per_s: Some(10_000.0),
    }
}

#[test]
fn only_what_surely_rotates_is_taken_for_it() {
    let rotates = ("queue/rotational", "1\n");
    let class = |directory: &str, facts: &[(&str, &str)]| medium(&on_disk(directory, facts), UUID).class();
    assert_eq!(class("sda", &[rotates, ("device/model", "ST4000NM0035\n")]), Class::Rotating);
    assert_eq!(class("sda", &[("queue/rotational", "0\n")]), Class::Local);
    assert_eq!(class("sda", &[]), Class::Local, "it does not say");
    // What does not deny it.
    assert_eq!(class("vda", &[rotates]), Class::Local);
    assert_eq!(class("usb1/sdb", &[rotates, ("device/model", "Flash Disk\n")]), Class::Local);
    assert_eq!(class("sda", &[rotates, ("device/model", "QEMU HARDDISK\n")]), Class::Local);
    assert_eq!(class("sda", &[rotates, ("device/model", "Virtual disk\n")]), Class::Local);
}

#[test]
fn a_disk_is_recognised_by_what_it_is_called_everywhere() {
    let key = |directory: &str, facts: &[(&str, &str)], id| {
        medium(&on_disk(directory, facts), id).key().map(str::to_owned)
    };
    let serial = ("device/serial", "  S5H9NX0N\n");
    let named = key("nvme0n1", &[serial], UUID);
    assert_eq!(named.as_deref(), Some("ext4 123456789abcdef0 on S5H9NX0N"));
    // In another slot, after another start.
    assert_eq!(key("nvme3n1", &[serial], UUID), named);
    assert_ne!(key("nvme0n1", &[serial], UUID + 1), named, "another file system on it");
    let better = key("nvme0n1", &[("wwid", "eui.0025385b\n"), serial], UUID);
    assert_eq!(better.as_deref(), Some("ext4 123456789abcdef0 on eui.0025385b"));
    assert_eq!(key("vda", &[], UUID).as_deref(), Some("ext4 123456789abcdef0"));
    // The number of a device is no name.
    assert_eq!(key("nvme0n1", &[serial], 0x0010_0300).as_deref(), Some("ext4 on S5H9NX0N"));
    assert_eq!(key("vda", &[], 0x0010_0300), None);
    assert_eq!(key("vda", &[], 0), None);
}

#[test]
fn a_disk_of_which_nothing_can_be_read_is_not_known() {
    let made = Made::new();
    let medium = Medium::in_system(&made.system, &made.files(), 0, 0);
    assert_eq!((medium.class(), medium.key()), (Class::Local, None));
    let absent = made.files().join("not/there");
    let medium = Medium::in_system(&made.system, &absent, 0, 0);
    assert_eq!((medium.class(), medium.key()), (Class::Local, None));
    assert_eq!(Profile::of_path(&absent), Profile::LOCAL);
}

#[test]
fn a_network_file_system_is_its_server() {
    let mut made = Made::new();
    made.mount("/", "", "nfs4 server:/export rw,vers=4.2");
    let medium = medium(&made, 0);
    assert_eq!((medium.class(), medium.key()), (Class::Network, Some("nfs4 server:/export")));
    assert!(medium.class().is_remote());
}

#[test]
fn an_object_is_its_scheme_and_place_without_secrets() {
    let key = |address: &str| Medium::of_address(address).key().map(str::to_owned);
    assert_eq!(key("s3://photos/2024/cat.jpg").as_deref(), Some("s3://photos"));
    assert_eq!(key("HTTPS://Example.org:8443/a?token=1").as_deref(), Some("https://example.org:8443"));
    assert!(!key("https://user:password@example.org/a").unwrap().contains("password"));
    assert_eq!(key("object"), None);
    assert_eq!(Medium::of_address("object").class(), Class::Object);
}

#[test]
fn what_was_kept_is_found_again_for_that_medium_alone() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = Profiles::at(directory.path().join("state/stook"));
    let (here, there) = (Medium::of_address("s3://here/a"), Medium::of_address("s3://there/a"));
    assert_eq!(profiles.profile_of(&here), Ok(Profile::OBJECT), "nothing was kept");
    let first = profiles.keep(&here, Measured { depth: Some(3), ..Measured::NOTHING }).unwrap();
    assert_eq!(profiles.profile_of(&here).unwrap().depth, 3);
    // What is kept last counts, in the same file.
    assert_eq!(profiles.keep(&here, all()).unwrap(), first);
    assert_eq!(profiles.profile_of(&here).unwrap().measured, all());
    assert_eq!(profiles.profile_of(&there), Ok(Profile::OBJECT));
    let names = fs::read_dir(first.parent().unwrap()).unwrap().count();
    assert_eq!(names, 1, "no draft stays");
}

#[test]
fn what_cannot_be_recognised_or_cannot_be_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = Profiles::at(directory.path().join("p"));
    let medium = Medium::of_address("s3://here/a");
    assert!(profiles.keep(&Medium::of_address("object"), all()).is_err());
    for impossible in [
        Measured { depth: Some(0), ..all() },
        Measured { depth: Some(100_000), ..all() },
        Measured { block_bytes: Some(5000), ..all() },
        Measured { block_bytes: Some(1 << 40), ..all() },
        Measured { opens: Some(0), ..all() },
        Measured { sequential_bytes_per_s: Some(0.0), ..all() },
        Measured { random_reads_per_s: Some(f64::INFINITY), ..all() },
    ] {
        assert!(profiles.keep(&medium, impossible).is_err(), "{impossible:?}");
    }
    assert!(!directory.path().join("p").exists());
}

#[test]
fn evidence_is_kept_and_listed_and_nothing_that_could_not_be_read() {
    use super::survey::{Figure, LongPoint, LongReads, Survey, Validity};
    let directory = tempfile::tempdir().unwrap();
    let profiles = Profiles::at(directory.path().join("p"));
    assert_eq!(profiles.all().unwrap(), [], "no directory is no error");
    let medium = Medium::of_address("s3://here/a");
    let of = |value: f64| {
        let figure = Figure { value, low: None, high: None, confidence: None, state: Validity::Unverified };
        let cells = vec![LongPoint { block_bytes: 4096, bandwidth_bytes_per_s: figure }];
        Survey { long_reads: Some(LongReads { depth: 8, cells }), ..Survey::default() }
    };
    assert!(profiles.keep_survey(&medium, all(), Some(of(f64::NAN))).is_err());
    assert_eq!(profiles.all().unwrap(), [], "nothing was written");
    profiles.keep_survey(&medium, all(), Some(of(1e9))).unwrap();
    let saved = profiles.saved(&medium).unwrap().unwrap();
    assert_eq!((saved.of.as_str(), saved.survey.as_ref()), ("s3://here", Some(&of(1e9))));
    // One that another version measured has none; a damaged one is named.
    profiles.keep(&Medium::of_address("s3://there/a"), all()).unwrap();
    fs::write(directory.path().join("p/0.json"), "{").unwrap();
    let listed = profiles.all().unwrap();
    assert_eq!((listed.len(), listed.iter().filter(|one| one.is_err()).count()), (3, 1));
    assert!(listed.contains(&Ok(saved)));
    assert!(profiles.check(&medium).is_ok() && profiles.check(&Medium::of_address("object")).is_err());
}

#[test]
fn a_file_that_is_damaged_or_of_others_is_named_and_not_believed() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = Profiles::at(directory.path());
    let medium = Medium::of_address("s3://here/a");
    let path = profiles.keep(&medium, all()).unwrap();
    let whole = fs::read_to_string(&path).unwrap();
    let other = profiles.keep(&Medium::of_address("s3://there/a"), all()).unwrap();
    for (text, why) in [
        (whole[..whole.len() / 2].to_owned(), "damaged"),
        (String::new(), "damaged"),
        (" ".repeat(70_000), "longer than"),
        (whole.replace("stook profile", "other"), "it says that it is"),
        (whole.replace("\"version\": 1", "\"version\": 2"), "version 2"),
        (whole.replace("\"depth\": 64", "\"depth\": 0"), "its depth is impossible"),
        (whole.replace("\"depth\": 64", "\"depth\": -1"), "damaged"),
        (fs::read_to_string(&other).unwrap(), "it is of \"s3://there\""),
    ] {
        assert_ne!(text, whole);
        fs::write(&path, text).unwrap();
        let unusable = profiles.profile_of(&medium).unwrap_err();
        assert_eq!(unusable.path, path);
        assert!(unusable.to_string().contains(why), "{unusable}, not {why}");
    }
    // What a later version adds is passed over.
    fs::write(&path, whole.replace("\"depth\": 64", "\"depth\": 64, \"writes\": {}")).unwrap();
    assert_eq!(profiles.profile_of(&medium).unwrap().depth, 64);
    // Neither a link nor a directory is one.
    fs::remove_file(&path).unwrap();
    symlink(&other, &path).unwrap();
    assert!(profiles.profile_of(&medium).is_err());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(profiles.profile_of(&medium).is_err());
}

#[test]
fn what_was_measured_comes_before_what_is_assumed_and_nothing_else_does() {
    let profile = Profile::new(Class::Rotating, all());
    assert_eq!((profile.depth, profile.block_bytes, profile.opens), (64, 256 << 10, 40));
    // 500 MB/s ÷ 10,000/s are 50,000 bytes, in whole pages.
    assert_eq!(profile.gap_bytes, 48 << 10);
    let depth_alone = Profile::new(Class::Rotating, Measured { depth: Some(7), ..Measured::NOTHING });
    assert_eq!(Profile { depth: 32, measured: Measured::NOTHING, ..depth_alone }, Profile::ROTATING);
    for class in [Class::Local, Class::Rotating, Class::Network, Class::Object] {
        assert_eq!(Profile::new(class, Measured::NOTHING), Profile::assumed(class));
        assert_eq!(Profile::assumed(class).class, class);
    }
    let slow = Measured { random_reads_per_s: Some(1.0), ..all() };
    assert_eq!(Profile::new(Class::Local, slow).gap_bytes, 1 << 20, "memory is bounded");
    let deep = Measured { depth: Some(1024), block_bytes: Some(16 << 20), ..Measured::NOTHING };
    assert_eq!(Profile::new(Class::Local, deep).block_bytes, 256 << 10, "memory is bounded");
}

#[test]
fn where_nothing_is_known_reads_are_what_they_always_were() {
    let local = Profile::LOCAL;
    assert_eq!((local.depth, local.block_bytes, local.gap_bytes, local.opens), (32, 1 << 20, 32 << 10, 128));
    let object = Profile::OBJECT;
    assert_eq!((object.depth, object.block_bytes, object.gap_bytes), (8, 8 << 20, 256 << 10));
    let options = SessionOptions::default();
    assert_eq!((options.depth, options.max_read_bytes), (32, 1 << 20));
    assert_eq!((options.requests, options.max_request_bytes), (8, 8 << 20));
    assert_eq!(SessionOptions::of(&local), options);
    assert_eq!(SessionOptions::of(&object), options);
    let measured = Profile::new(Class::Local, all());
    assert_eq!(
        SessionOptions::of(&measured),
        SessionOptions { depth: 64, max_read_bytes: 256 << 10, ..options }
    );
    let measured = Profile::new(Class::Object, all());
    assert_eq!(
        SessionOptions::of(&measured),
        SessionOptions { requests: 64, max_request_bytes: 256 << 10, ..options }
    );
}

#[test]
fn what_is_in_memory_is_on_no_device() {
    assert_eq!(Profile::of(&MemorySource::new("bytes", vec![1; 10])), Profile::LOCAL);
}
