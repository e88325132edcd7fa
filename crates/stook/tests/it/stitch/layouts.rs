//! AFS and safetensors against naive builders, and what they refuse.

use std::fs;
use std::path::Path;

use stook::extent::ByteRange;
use stook::format::afs::{ALIGNMENT, Detail, Table, table_len};
use stook::source::Source as _;
use stook::stitch::{Afs, Layout as _, Safetensors};

use super::{members, read_through};

#[path = "../../../examples/ar.rs"]
#[expect(dead_code, reason = "its `main`")]
mod ar;

#[test]
fn the_layout_of_the_guide_is_what_ar_reads() {
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().join("tree");
    fs::create_dir_all(tree.join("below")).unwrap();
    for (name, bytes) in [("odd", &b"seven b"[..]), ("empty", b""), ("even", b"some"), ("below/x", b"no")] {
        fs::write(tree.join(name), bytes).unwrap();
    }
    let made = ar::Ar.lay_out("x.a".into(), members(&tree)).unwrap();
    fs::write(place.path().join("x.a"), read_through(&made.file).unwrap()).unwrap();
    let ar = |args: &[&str]| {
        let output = std::process::Command::new("ar").args(args).current_dir(place.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(ar(&["t", "x.a"]), "empty\neven\nodd\n");
    assert_eq!(ar(&["p", "x.a", "odd", "even"]), "seven bsome");
    let odd = ByteRange::at(made.starts[2], 7).unwrap();
    assert_eq!(made.file.read_at(odd).unwrap(), "seven b");
    fs::write(tree.join("a name of 16 byt"), "").unwrap();
    assert!(ar::Ar.lay_out("x.a".into(), members(&tree)).unwrap_err().to_string().contains("no room"));
}

#[test]
fn an_afs_has_its_files_at_multiples_of_2048_and_their_names_at_the_end() {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("d")).unwrap();
    let files = [("a.adx", 0), ("b.adx", 1), ("d/c.adx", 2048), ("e.adx", 5000)];
    for (name, len) in files {
        fs::write(place.path().join(name), vec![len as u8 ^ 0x55; len]).unwrap();
    }
    let made = Afs::default().lay_out("x.afs".into(), members(place.path())).unwrap();
    let whole = read_through(&made.file).unwrap();
    assert_eq!(whole.len() as u64, made.file.len());
    // By hand.
    let mut naive = b"AFS\0\x04\0\0\0".to_vec();
    let (mut body, mut at) = (Vec::new(), 2048_u32);
    for (_, len) in files {
        naive.extend(at.to_le_bytes());
        naive.extend((len as u32).to_le_bytes());
        body.extend(vec![len as u8 ^ 0x55; len]);
        body.resize(body.len().next_multiple_of(2048), 0);
        at = 2048 + body.len() as u32;
    }
    naive.extend(at.to_le_bytes());
    naive.extend((files.len() as u32 * 48).to_le_bytes());
    naive.resize(2048, 0);
    naive.extend(body);
    assert!(whole[..naive.len()] == naive);
    let details = Detail::decode_all(&whole[naive.len()..naive.len() + files.len() * 48]).unwrap();
    let names: Vec<&[u8]> = details.iter().map(Detail::name).collect();
    assert_eq!(names, files.map(|(name, _)| name.as_bytes()));
    let header = whole[..8].try_into().unwrap();
    let table = Table::decode(&whole[..table_len(&header, whole.len() as u64).unwrap()], whole.len() as u64);
    assert!(table.unwrap().places().iter().flatten().all(|place| place.start() % ALIGNMENT == 0));
    // A name that has no room, and a link.
    fs::write(place.path().join("n".repeat(33)), "").unwrap();
    assert!(Afs::default().lay_out("x.afs".into(), members(place.path())).is_err());
    let unnamed = Afs { without_names: true }.lay_out("x.afs".into(), members(place.path())).unwrap();
    assert!(read_through(&unnamed.file).unwrap().len() < whole.len());
    std::os::unix::fs::symlink("a.adx", place.path().join("link")).unwrap();
    assert!(Afs { without_names: true }.lay_out("x.afs".into(), members(place.path())).is_err());
}

fn shard(path: &Path, header: &str, buffer: &[u8]) {
    fs::write(path, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), buffer].concat()).unwrap();
}

#[test]
fn shards_of_safetensors_are_one_file_with_all_tensors() {
    let place = tempfile::tempdir().unwrap();
    let one = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}  "#;
    let two = r#"{"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"c":{"dtype":"F16","shape":[0],"data_offsets":[8,8]}}"#;
    shard(&place.path().join("1.safetensors"), one, &[1, 2, 3]);
    shard(&place.path().join("2.safetensors"), two, &[9; 8]);
    let made = Safetensors.lay_out("x.safetensors".into(), members(place.path())).unwrap();
    let whole = read_through(&made.file).unwrap();
    let len = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    assert_eq!(len % 8, 0);
    let header: serde_json::Value = serde_json::from_slice(&whole[8..8 + len]).unwrap();
    let expected = serde_json::json!({
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [3, 11]},
        "b": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "c": {"dtype": "F16", "shape": [0], "data_offsets": [11, 11]},
    });
    assert_eq!(header, expected);
    assert_eq!(whole[8 + len..], [1, 2, 3, 9, 9, 9, 9, 9, 9, 9, 9]);
    let tail = ByteRange::new(made.file.len() - 2, made.file.len()).unwrap();
    assert_eq!(made.file.read_at(tail).unwrap(), vec![9; 2]);
}

#[test]
fn what_is_no_shard_is_refused() {
    let tensor = |offsets: &str| format!(r#"{{"a":{{"dtype":"U8","shape":[2],"data_offsets":{offsets}}}}}"#);
    let refused = |header: &str, buffer: &[u8]| {
        let place = tempfile::tempdir().unwrap();
        shard(&place.path().join("x"), header, buffer);
        Safetensors.lay_out("x".into(), members(place.path())).unwrap_err().to_string()
    };
    for (header, buffer, said) in [
        (tensor("[0,2]"), &[0; 3][..], "2 bytes, and its buffer 3"),
        (tensor("[1,3]"), &[0; 3], "would be its place"),
        (tensor("[2,0]"), &[0; 2], "would be its place"),
        (tensor("[0,3]"), &[0; 3], "another length"),
        (tensor("[0,2]").replace("U8", "X9"), &[0; 2], "X9"),
        (tensor("[0,2]").replace("[2]", "[4294967296,4294967296]"), &[0; 2], "another length"),
        (
            tensor("[0,0]").replace("}}", r#"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#),
            &[0; 2],
            "twice",
        ),
        (r#"{"__metadata__":{"k":"1","k":"2"}}"#.to_owned(), &[], "twice"),
        (r#"{"__metadata__":{},"__metadata__":{}}"#.to_owned(), &[], "twice"),
        ("[]".to_owned(), &[], "no such JSON"),
        (String::new(), &[], "no such JSON"),
    ] {
        let text = refused(&header, buffer);
        assert!(text.contains(said), "{header}: {text}");
    }
    let place = tempfile::tempdir().unwrap();
    for bytes in [&[1_u8, 2][..], &u64::MAX.to_le_bytes(), &99_000_000_u64.to_le_bytes()] {
        fs::write(place.path().join("x"), bytes).unwrap();
        assert!(Safetensors.lay_out("x".into(), members(place.path())).is_err());
    }
    for name in ["1", "2"] {
        shard(&place.path().join(name), &tensor("[0,2]"), &[0; 2]);
    }
    fs::remove_file(place.path().join("x")).unwrap();
    let twice = Safetensors.lay_out("x".into(), members(place.path())).unwrap_err().to_string();
    assert!(twice.contains("another shard has the tensor"), "{twice}");
    // As caches of models have them: without it the tensors would be missing.
    fs::remove_file(place.path().join("2")).unwrap();
    std::os::unix::fs::symlink("1", place.path().join("link")).unwrap();
    let link = Safetensors.lay_out("x".into(), members(place.path())).unwrap_err().to_string();
    assert!(link.contains("link") && link.contains("name the file that it leads to"), "{link}");
}
