//! `stook load`.

use super::packs::{Place, documented, key, long_body, refuses_what_is_no_pack};

#[test]
fn every_live_record_is_loaded_streaming_and_in_memory() {
    let place = Place::filled();
    let bytes = (12 + 6 + 5 + 3 + long_body().len()) as u64;
    for args in [&[][..], &["--in-memory"]] {
        let (code, report) = place.json("load", args);
        assert_eq!(code, 0, "{report}");
        documented("load", &report);
        assert_eq!((&report["records"], &report["bytes"]), (&6.into(), &bytes.into()));
        assert!(report["seconds"].as_f64().unwrap() > 0.0);
        assert_eq!(report["device_share"], serde_json::Value::Null);
    }
    let (_, group) = place.json("load", &["--group", ""]);
    assert_eq!((&group["records"], &group["bytes"]), (&2.into(), &18.into()));
}

#[test]
fn the_share_of_the_device_is_measured_when_asked_for() {
    let (code, report) = Place::filled().json("load", &["--device-share"]);
    assert_eq!(code, 0);
    documented("load", &report);
    assert!(report["device_share"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["device_bytes_per_s"].as_f64().unwrap() > 0.0, "{report}");
}

#[test]
fn people_are_told_records_bytes_time_and_rate() {
    let (code, stdout, stderr) = Place::filled().run("load", &["--device-share"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(stdout.starts_with("6 records, 5.00 MB in "), "{stdout}");
    assert!(stdout.contains("MB/s") && stdout.contains("of the device's speed"), "{stdout}");
}

#[test]
fn an_incomplete_pack_exits_1_and_says_why() {
    let place = Place::new();
    place.writer().finish(true).unwrap();
    let (code, stdout, stderr) = place.run("load", &[]);
    assert_eq!(code, 1);
    assert!(stdout.starts_with("0 records"), "{stdout}");
    assert!(stderr.contains("p.stook is incomplete"), "{stderr}");
    let (code, report) = place.json("load", &["--in-memory", "--device-share"]);
    assert_eq!((code, &report["complete"]), (1, &false.into()));
}

#[test]
fn damage_exits_1_with_file_offset_and_key_and_the_rest_is_loaded() {
    for (hurt, records) in [("a/two", 5), ("long", 5)] {
        for args in [&[][..], &["--in-memory"]] {
            let place = Place::filled();
            let (file, _) = place.hurt(&key(hurt), 3);
            let (code, _, stderr) = place.run("load", args);
            assert_eq!(code, 1);
            let said = format!("{} is damaged at offset ", file.display());
            assert!(stderr.contains(&said) && stderr.contains(&format!("(record {hurt})")), "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "reported once: {stderr}");
            let (code, report) = place.json("load", args);
            documented("load", &report);
            assert_eq!((code, &report["records"]), (1, &records.into()));
            assert_eq!(report["damages"][0]["key"], hurt);
            assert_eq!(report["damages"].as_array().unwrap().len(), 1);
        }
    }
}

#[test]
fn what_is_no_pack_is_refused() {
    refuses_what_is_no_pack("load", &[]);
}

#[test]
fn orders_ranges_threads_and_parts_load_every_record_once() {
    let place = Place::filled();
    let count = |args: &[&str]| {
        let (code, report) = place.json("load", args);
        assert_eq!(code, 0, "{args:?}: {report}");
        documented("load", &report);
        report["records"].as_u64().unwrap()
    };
    for order in ["disk", "key"] {
        for mode in [&[][..], &["--in-memory"]] {
            let with = |rest: &[&str]| count(&[&["--order", order], mode, rest].concat());
            assert_eq!(with(&[]), 6);
            assert_eq!(with(&["--prefix", "a/"]), 2);
            assert_eq!(with(&["--prefix", "id:"]), 1);
            assert_eq!(with(&["--from", "a/two", "--to", "long"]), 3);
            assert_eq!(with(&["--from", "a/two", "--group", "g"]), 4);
        }
        let parts: Vec<u64> =
            (1..=3).map(|part| count(&["--order", order, "--split", &format!("{part}/3")])).collect();
        assert_eq!(parts.iter().sum::<u64>(), 6, "{parts:?}");
    }
    assert_eq!(count(&["--threads", "4"]), 6);
    assert_eq!(count(&["--threads", "4", "--from", "b"]), 4);
    for wrong in [
        &["--split", "4/3"][..],
        &["--threads", "2", "--order", "key"],
        &["--threads", "2", "--max-records", "1"],
        &["--from", "id:x"],
        &["--in-memory", "--cursor", "f"],
    ] {
        assert_eq!(place.run("load", wrong).0, 2, "{wrong:?}");
    }
}

#[test]
fn damage_is_reported_in_either_order_and_by_threads() {
    let place = Place::filled();
    place.hurt(&key("long"), 3);
    for args in [&["--order", "key"][..], &["--threads", "3"], &["--split", "1/1"]] {
        let (code, report) = place.json("load", args);
        assert_eq!((code, &report["records"], &report["damages"][0]["key"]), (1, &5.into(), &"long".into()));
    }
}

#[test]
fn a_load_goes_on_from_its_cursor_until_all_is_loaded() {
    for way in [&[][..], &["--order", "key"], &["--split", "1/2"], &["--from", "a/two"]] {
        let place = Place::filled();
        let whole = place.json("load", way).1["records"].as_u64().unwrap();
        let args = [way, &["--max-records", "1", "--cursor", "at"]].concat();
        for turn in 0..whole + 2 {
            let (code, report) = place.json("load", &args);
            let loaded = u64::from(turn < whole);
            assert_eq!((code, &report["records"]), (0, &loaded.into()), "{way:?} turn {turn}");
            assert_eq!(report["at_end"], turn >= whole, "{way:?} turn {turn}");
        }
        assert!(!place.path("at.tmp").exists());
    }
}

#[test]
fn a_cursor_of_something_else_is_refused_and_kept() {
    let place = Place::filled();
    assert_eq!(place.run("load", &["--max-records", "2", "--cursor", "at"]).0, 0);
    let kept = std::fs::read(place.path("at")).unwrap();
    let (code, _, stderr) = place.run("load", &["--order", "key", "--cursor", "at"]);
    assert!(code == 2 && stderr.contains("another order"), "{code}: {stderr}");
    let other = Place::filled();
    std::fs::copy(place.path("at"), other.path("at")).unwrap();
    let (code, _, stderr) = other.run("load", &["--cursor", "at"]);
    assert!(code == 1 && stderr.contains("is of the pack"), "{code}: {stderr}");
    std::fs::write(place.path("new"), "x").unwrap();
    assert_eq!(place.run("put", &["new", "new"]).0, 0);
    let (code, _, stderr) = place.run("load", &["--cursor", "at"]);
    assert!(code == 1 && stderr.contains("generation"), "{code}: {stderr}");
    assert_eq!(std::fs::read(place.path("at")).unwrap(), kept);
    std::fs::write(place.path("at"), "nonsense\n").unwrap();
    let (code, _, stderr) = place.run("load", &["--cursor", "at"]);
    assert!(code == 1 && stderr.contains("at is no cursor"), "{code}: {stderr}");
}
