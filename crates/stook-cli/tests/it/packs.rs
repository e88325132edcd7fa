//! Packs to run commands on, and ways to hurt them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use stook::pack::{Attributes, FileKind, Key, OpenOptions, Pack, PackWriter, WriterOptions};
use stook::storage::{LocalStorage, LocalStorageOptions};
use tempfile::TempDir;

use super::stook;

/// A directory to work in, and the path of a pack in it.
pub(crate) struct Place {
    pub(crate) dir: TempDir,
    pub(crate) pack: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pack = dir.path().join("p.stook");
        Self { dir, pack }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `stook COMMAND PACK ARGS…`
    pub(crate) fn run(&self, command: &str, args: &[&str]) -> (i32, String, String) {
        super::ended(self.command(command, args).current_dir(self.dir.path()))
    }

    pub(crate) fn command(&self, command: &str, args: &[&str]) -> Command {
        let mut made = stook([command]);
        made.arg(&self.pack).args(args);
        made
    }

    pub(crate) fn json(&self, command: &str, args: &[&str]) -> (i32, serde_json::Value) {
        let (code, stdout, _) = self.run(command, &[args, &["--json"]].concat());
        (code, serde_json::from_str(&stdout).unwrap())
    }

    pub(crate) fn writer(&self) -> PackWriter {
        std::fs::create_dir_all(&self.pack).unwrap();
        let storage = LocalStorage::open(&self.pack, LocalStorageOptions::default()).unwrap();
        PackWriter::create(Arc::new(storage), WriterOptions::default()).unwrap()
    }

    /// Six records in two groups: text, a number, bytes that are no text, a replaced one, one in
    /// many chunks.
    pub(crate) fn filled() -> Self {
        let place = Self::new();
        let mut writer = place.writer();
        let file = Attributes::of_file(FileKind::File, 0o640, 1_700_000_000_000_000_000, Some((5, 6)));
        writer.put("", &key("a/one"), &file, b"first of all").unwrap();
        writer.put("", &key("a/two"), &Attributes::new(), b"old").unwrap();
        writer.put("", &key("a/two"), &Attributes::new(), b"second").unwrap();
        writer.put("g", &Key::id(7), &Attributes::new(), b"seven").unwrap();
        writer.put("g", &key(b"b\n\xff"), &Attributes::new(), b"odd").unwrap();
        writer.put("g", &key("empty"), &Attributes::new(), b"").unwrap();
        writer.put("g", &key("long"), &Attributes::new(), &long_body()).unwrap();
        writer.set_complete(true);
        writer.finish(true).unwrap();
        place
    }

    /// Flips a byte of the body of this record, and gives its file and the offset of that byte.
    pub(crate) fn hurt(&self, key: &Key, at: u64) -> (PathBuf, u64) {
        let pack = Pack::open_path(&self.pack, OpenOptions::default()).unwrap();
        let head = pack.get(key).unwrap().unwrap().head;
        let body = pack.get(key).unwrap().unwrap().body;
        let file = self.pack.join(format!("segment-{:016x}", head.segment));
        let mut bytes = std::fs::read(&file).unwrap();
        let from = head.offset as usize;
        let body_at = from + bytes[from..].windows(body.len()).position(|part| part == &body[..]).unwrap();
        bytes[body_at + at as usize] ^= 0x40;
        std::fs::write(&file, &bytes).unwrap();
        (file, head.offset)
    }
}

pub(crate) fn key(bytes: impl AsRef<[u8]>) -> Key {
    Key::bytes(bytes).unwrap()
}

/// Five megabytes that do not repeat.
pub(crate) fn long_body() -> Vec<u8> {
    (0..1_250_000u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect()
}

/// A file that packing is not done with soon: without a block, and no longer than there is room for
/// in a pack beside it.
pub(crate) fn make_long_file(place: &Place) {
    let len = (stook::storage::free_bytes(place.dir.path()).unwrap() / 4).min(1 << 40);
    std::fs::File::create(place.path("tree/long")).unwrap().set_len(len).unwrap();
}

/// Runs a command with these bytes on its stdin.
pub(crate) fn fed(command: &mut Command, input: &[u8]) -> (i32, Vec<u8>, String) {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // It may leave before it has read everything.
    let feeder = std::thread::spawn(move || stdin.write_all(&input).is_ok());
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    (output.status.code().unwrap(), output.stdout, String::from_utf8(output.stderr).unwrap())
}

/// The fields of an object, as `docs/guide/json.md` has to name them.
pub(crate) fn documented(command: &str, value: &serde_json::Value) {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/json.md");
    let guide = std::fs::read_to_string(Path::new(guide)).unwrap();
    let heading = format!("## `{command}`");
    let section = guide.split("\n## ").find(|s| format!("## {s}").starts_with(&heading)).unwrap();
    // A section may say that fields are those of another.
    let is_linked =
        |s: &&str| s.split('`').nth(1).is_some_and(|name| section.contains(&format!("](#{name})")));
    let linked: String = guide.split("\n## ").skip(1).filter(is_linked).collect();
    assert_eq!(value["schema"], format!("stook.{command}/1"));
    // Options common to all commands are before the first of them.
    let shared = guide.split("\n## ").next().unwrap();
    check_fields(command, &[shared, section, &linked].concat(), value);
}

fn check_fields(command: &str, section: &str, value: &serde_json::Value) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                assert!(section.contains(&format!("`{name}`")), "{command}: {name} is not documented");
                check_fields(command, section, value);
            }
        }
        serde_json::Value::Array(all) => all.iter().for_each(|one| check_fields(command, section, one)),
        _ => {}
    }
}

/// What every command does with something that is no pack.
pub(crate) fn refuses_what_is_no_pack(command: &str, rest: &[&str]) {
    let place = Place::new();
    let (code, stdout, stderr) = place.run(command, rest);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("p.stook"), "{stderr}");
    std::fs::create_dir(&place.pack).unwrap();
    std::fs::write(place.pack.join("holiday.jpg"), "x").unwrap();
    let (code, stdout, stderr) = place.run(command, rest);
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("is not a pack"), "{stderr}");
    let files: Vec<_> = std::fs::read_dir(&place.pack).unwrap().collect();
    assert_eq!(files.len(), 1, "nothing was added");
    std::fs::remove_dir_all(&place.pack).unwrap();
    std::fs::write(&place.pack, "a file").unwrap();
    let (code, _, stderr) = place.run(command, rest);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("p.stook"), "{stderr}");
}
