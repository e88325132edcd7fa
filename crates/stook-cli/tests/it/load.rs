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
            assert_eq!(stderr.lines().count(), 1, "told once: {stderr}");
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
