//! The programs that lists are for: they accept ours and reject a damaged file, and we read theirs.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use stook::format::mhl::{
    CHAIN_NAME, Chain, ChainEntry, FOLDER, FolderDigests, FolderHash, KINDS, MhlAction, MhlCreator,
    MhlDigest, MhlDirectory, MhlFile, MhlHead, MhlItem, MhlReader, MhlWriter, generation_of, list_name,
};
use stook::format::sums::{SumsReader, line};
use stook::hash::{Digest, HashKind};

/// Whether a program ended with 0, and what it said.
fn run(program: impl AsRef<OsStr>, args: &[&OsStr], dir: &Path) -> (bool, String) {
    let program = program.as_ref();
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env("TZ", "UTC").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{program:?}: {error}: run scripts/need lists"));
    let said = [&output.stdout[..], &output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// What a program that ends with 0 writes.
fn output(program: &str, args: &[&OsStr], dir: &Path) -> Vec<u8> {
    let output = Command::new(program).args(args).current_dir(dir).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}: run scripts/need lists"));
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// A function and the program for it, with how it is told which it is.
const PROGRAMS: [(HashKind, &str, &[&str]); 7] = [
    (HashKind::Sha256, "sha256sum", &[]),
    (HashKind::Sha1, "sha1sum", &[]),
    (HashKind::Md5, "md5sum", &[]),
    (HashKind::Blake3, "b3sum", &[]),
    (HashKind::Xxh64, "xxhsum", &["-H1"]),
    (HashKind::Xxh128, "xxhsum", &["-H2"]),
    (HashKind::Xxh3, "xxhsum", &["-H3"]),
];

/// Names of files that are no ordinary ones, as far as each program has a way to write them: older
/// ones of `xxhsum` have no escapes, and those of `b3sum` none for a carriage return.
fn names(program: &str) -> Vec<&'static [u8]> {
    let plain = [
        &b"a b"[..],
        b"take 1/clip.mov",
        b" lead",
        b"trail ",
        b"*star",
        b"./stdin",
        b"./-",
        b"# note",
        b"XXH3 (x) = y",
        b"MD5 (x) = y",
        "\u{fc}".as_bytes(),
    ];
    let escaped = [&b"new\nline"[..], b"back\\slash", b"\\"];
    let gnu = [&b"car\rriage\r"[..], b"\xff\xfe"];
    match program {
        "xxhsum" => plain.to_vec(),
        "b3sum" => [&plain[..], &escaped].concat(),
        _ => [&plain[..], &escaped, &gnu].concat(),
    }
}

/// A directory with files of these names, each with bytes of its own.
fn files(names: &[&[u8]]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (number, name) in names.iter().enumerate() {
        let path = dir.path().join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![number as u8; number * 1000]).unwrap();
    }
    dir
}

#[test]
fn each_program_accepts_our_list_and_rejects_a_changed_and_a_missing_file() {
    for (kind, program, _) in PROGRAMS {
        let names = names(program);
        let dir = files(&names);
        let outside = tempfile::tempdir().unwrap();
        let list = outside.path().join("list");
        let lines = names.iter().flat_map(|name| {
            let bytes = fs::read(dir.path().join(OsStr::from_bytes(name))).unwrap();
            line(&Digest::of(kind, &bytes), name.strip_prefix(b"./").unwrap_or(name))
        });
        fs::write(&list, lines.collect::<Vec<u8>>()).unwrap();
        let strict = if program == "b3sum" { vec![] } else { vec![OsStr::new("--strict")] };
        let args = [&[OsStr::new("-c")], &strict[..], &[list.as_os_str()]].concat();
        let (is_accepted, said) = run(program, &args, dir.path());
        assert!(is_accepted, "{program} of {}: {said}", kind.name());
        let ok = said.lines().filter(|line| line.ends_with(": OK")).count();
        assert!(ok >= names.len() - 1, "{ok} of {} in {said}", names.len());

        for name in &names {
            let path = dir.path().join(OsStr::from_bytes(name));
            let bytes = fs::read(&path).unwrap();
            fs::write(&path, [&bytes[..], b"!"].concat()).unwrap();
            assert!(!run(program, &args, dir.path()).0, "{program}: {name:?} was changed");
            fs::remove_file(&path).unwrap();
            assert!(!run(program, &args, dir.path()).0, "{program}: {name:?} is missing");
            fs::write(&path, bytes).unwrap();
        }
        assert!(run(program, &args, dir.path()).0, "{program}: everything is there again");
    }
}

#[test]
fn we_read_what_each_program_writes_with_the_name_of_its_function_and_without() {
    for (kind, program, options) in PROGRAMS {
        let names = names(program);
        let dir = files(&names);
        let mut expected = BTreeMap::new();
        for name in &names {
            let bytes = fs::read(dir.path().join(OsStr::from_bytes(name))).unwrap();
            let path = name.strip_prefix(b"./").unwrap_or(name);
            expected.insert(path.to_vec(), Digest::of(kind, &bytes));
        }
        // Not every version of `b3sum` knows the option.
        let with_tag: &[&[&str]] = if program == "b3sum" { &[&[]] } else { &[&[], &["--tag"]] };
        for tag in with_tag {
            let args = options.iter().chain(*tag).chain(&["--"]).map(OsStr::new);
            let args: Vec<&OsStr> = args.chain(names.iter().map(|name| OsStr::from_bytes(name))).collect();
            let list = output(program, &args, dir.path());
            let mut reader = SumsReader::new(&list[..], None);
            let mut found = BTreeMap::new();
            while let Some(line) = reader.next_line().unwrap() {
                let line = line.unwrap_or_else(|bad| panic!("{program}: {bad}"));
                let digest = line.digests.into_iter().find(|digest| digest.kind == kind);
                found.insert(line.path, digest.unwrap_or_else(|| panic!("{program}: another function")));
            }
            assert_eq!(found, expected, "{program} {tag:?}");
        }
    }
}

fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/ascmhl/bin").join(name)
}

/// Whether the reference implementation ends with 0, and what it says.
fn ascmhl(name: &str, args: &[&str], root: &Path) -> (bool, String) {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).chain([root.as_os_str()]).collect();
    run(tool(name), &args, root.parent().unwrap())
}

fn accepts(name: &str, args: &[&str], root: &Path) {
    let (is_accepted, said) = ascmhl(name, args, root);
    assert!(is_accepted, "{name} {args:?}: {said}");
}

/// A card with clips.
fn card(dir: &Path) -> PathBuf {
    let root = dir.join("A002R2EC");
    fs::create_dir_all(root.join("Clips/deep & \"er\"")).unwrap();
    fs::create_dir(root.join("Empty")).unwrap();
    fs::write(root.join("Clips/A002C006.mov"), "first").unwrap();
    fs::write(root.join("Clips/A002C007.mov"), vec![7; 3_000_000]).unwrap();
    fs::write(root.join("Clips/deep & \"er\"/<\u{e4}> b"), "").unwrap();
    fs::write(root.join("Sidecar.txt"), "notes").unwrap();
    root
}

/// What a list says of the directory `folder` below `root`, written or collected.
fn seal(root: &Path, folder: &str, kinds: &[HashKind], each: &mut dyn FnMut(MhlItem)) -> FolderDigests {
    let mut names: Vec<String> = fs::read_dir(root.join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != FOLDER)
        .collect();
    names.sort();
    let mut hash = FolderHash::new(kinds);
    for name in names {
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if root.join(&path).is_dir() {
            let digests = seal(root, &path, kinds, each);
            hash.folder(name.as_bytes(), &digests);
            let FolderDigests { content, structure } = digests;
            let path = path.into_bytes();
            each(MhlItem::Directory(MhlDirectory {
                line: 0,
                path,
                modified: None,
                content,
                structure,
                previous_path: None,
            }));
        } else {
            let bytes = fs::read(root.join(&path)).unwrap();
            let digests: Vec<Digest> = kinds.iter().map(|kind| Digest::of(*kind, &bytes)).collect();
            hash.file(name.as_bytes(), &digests);
            let date = Some("2026-11-26T06:41:34+00:00".to_owned());
            let digest = |digest| MhlDigest { digest, action: Some(MhlAction::Original), date: date.clone() };
            each(MhlItem::File(MhlFile {
                line: 0,
                path: path.into_bytes(),
                dos_path: None,
                len: Some(bytes.len() as u64),
                modified: date.clone(),
                digests: digests.into_iter().map(digest).collect(),
                previous_path: None,
            }));
        }
    }
    hash.finish()
}

/// Writes the next list of a directory, and its chain; returns the path of the list.
fn write_generation(root: &Path, kinds: &[HashKind], action: MhlAction) -> PathBuf {
    let folder = root.join(FOLDER);
    fs::create_dir_all(&folder).unwrap();
    let mut items = Vec::new();
    let of_root = seal(root, "", kinds, &mut |item| items.push(item));
    let creator = MhlCreator {
        date: "2026-11-26T06:41:34+00:00".to_owned(),
        host: "reader".to_owned(),
        tool: "stook".to_owned(),
        tool_version: Some("0.1.0".to_owned()),
        ..MhlCreator::default()
    };
    let ignored = [".DS_Store", "ascmhl", "ascmhl/"].map(str::to_owned).to_vec();
    let head = MhlHead { creator, ignored, ..MhlHead::default() };
    let mut writer = MhlWriter::new(Vec::new(), &head, Some(&of_root)).unwrap();
    for item in items {
        match item {
            MhlItem::File(mut file) => {
                file.digests.iter_mut().for_each(|digest| digest.action = Some(action));
                writer.file(&file).unwrap();
            }
            MhlItem::Directory(directory) => writer.directory(&directory).unwrap(),
            other => panic!("{other:?} was not made"),
        }
    }
    let list = writer.finish().unwrap();
    let chain = fs::read(folder.join(CHAIN_NAME));
    let mut chain = chain.map_or_else(|_| Chain::default(), |chain| Chain::decode(&chain[..]).unwrap());
    let generation = chain.next_generation();
    let name = list_name(generation, b"A002R2EC", "2026-11-26_064134Z");
    let digest = Digest::of(HashKind::C4, &list);
    fs::write(folder.join(&name), &list).unwrap();
    chain.entries.push(ChainEntry { generation, name: name.clone().into_bytes(), digest });
    fs::write(folder.join(CHAIN_NAME), chain.encode().unwrap()).unwrap();
    folder.join(name)
}

#[test]
fn the_reference_implementation_accepts_our_lists_and_their_schema_and_rejects_what_was_changed() {
    let dir = tempfile::tempdir().unwrap();
    let root = card(dir.path());
    let list = write_generation(&root, &KINDS, MhlAction::Original);
    accepts("ascmhl-debug", &["verify"], &root);
    accepts("ascmhl-debug", &["verify", "-dh"], &root);
    accepts("ascmhl", &["diff"], &root);
    let schema = |name: &str| tool("../xsd").join(name).into_os_string().into_string().unwrap();
    accepts("ascmhl-debug", &["xsd-schema-check", "-xsd", &schema("ASCMHL.xsd")], &list);
    let chain = root.join(FOLDER).join(CHAIN_NAME);
    let of_chain = schema("ASCMHLDirectory__combined.xsd");
    accepts("ascmhl-debug", &["xsd-schema-check", "-df", "-xsd", &of_chain], &chain);

    let clip = root.join("Clips/A002C006.mov");
    for changed in [Some("First"), None] {
        match changed {
            Some(bytes) => fs::write(&clip, bytes).unwrap(),
            None => fs::remove_file(&clip).unwrap(),
        }
        assert!(!ascmhl("ascmhl-debug", &["verify"], &root).0, "a clip was changed to {changed:?}");
        fs::write(&clip, "first").unwrap();
    }
    fs::write(root.join("extra"), "").unwrap();
    assert!(!ascmhl("ascmhl-debug", &["verify"], &root).0, "a file is extra");
    fs::remove_file(root.join("extra")).unwrap();
    let bytes = fs::read(&list).unwrap();
    fs::write(&list, [&bytes[..], b"\n"].concat()).unwrap();
    let (is_accepted, said) = ascmhl("ascmhl-debug", &["verify"], &root);
    assert!(!is_accepted && said.contains("odified"), "a list was changed: {said}");
}

/// All that a list says.
fn items(list: &Path) -> Vec<MhlItem> {
    let bytes = fs::read(list).unwrap();
    let mut reader = MhlReader::new(&bytes[..]);
    let mut items = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        items.push(item.unwrap_or_else(|bad| panic!("{bad}")));
    }
    items
}

/// What is compared of files and directories: path, hashes of contents, hashes of structure.
type Said = BTreeMap<Vec<u8>, (Vec<Digest>, Vec<Digest>)>;

fn add(said: &mut Said, item: MhlItem) {
    let of = match item {
        MhlItem::File(file) => {
            let digests = file.digests.into_iter().map(|digest| digest.digest).collect();
            (file.path, (digests, Vec::new()))
        }
        MhlItem::Directory(directory) | MhlItem::Root(directory) => {
            (directory.path, (directory.content, directory.structure))
        }
        MhlItem::Head(_) | MhlItem::Reference(_) => return,
    };
    assert!(said.insert(of.0, of.1).is_none(), "each path stands once in a list");
}

/// The lists of a directory, in the order of their generations.
fn lists(root: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(root.join(FOLDER)).unwrap().map(|entry| entry.unwrap().file_name());
    let of = |name: std::ffi::OsString| Some((generation_of(name.as_bytes())?, name));
    let mut names: Vec<_> = names.filter_map(of).collect();
    names.sort();
    names.into_iter().map(|(_, name)| root.join(FOLDER).join(OsStr::from_bytes(&name.into_vec()))).collect()
}

#[test]
fn we_read_lists_of_the_reference_implementation_compute_its_hashes_and_continue_its_chain() {
    let dir = tempfile::tempdir().unwrap();
    let root = card(dir.path());
    let all = KINDS.map(|kind| format!("-h{}", kind.name()));
    let create: Vec<&str> = ["create"].into_iter().chain(all.iter().map(String::as_str)).collect();
    accepts("ascmhl", &create, &root);
    accepts("ascmhl", &create, &root);
    let theirs = lists(&root);
    assert_eq!(theirs.len(), 2, "{theirs:?}");

    let mut ours = Said::new();
    let of_root = seal(&root, "", &KINDS, &mut |item| add(&mut ours, item));
    ours.insert(Vec::new(), (of_root.content, of_root.structure));
    for (list, action) in theirs.iter().zip([MhlAction::Original, MhlAction::Verified]) {
        let mut said = Said::new();
        for item in items(list) {
            if let MhlItem::File(file) = &item {
                assert!(file.digests.iter().all(|digest| digest.action == Some(action)), "{file:?}");
                assert_eq!(
                    file.len.unwrap_or(0),
                    fs::metadata(root.join(OsStr::from_bytes(&file.path))).unwrap().len()
                );
            }
            add(&mut said, item);
        }
        assert_eq!(said, in_their_order(&said, &ours), "{}", list.display());
    }
    let chain = Chain::decode(&fs::read(root.join(FOLDER).join(CHAIN_NAME)).unwrap()[..]).unwrap();
    for (entry, list) in chain.entries.iter().zip(&theirs) {
        assert_eq!(entry.name, list.file_name().unwrap().as_bytes());
        assert_eq!(entry.digest, Digest::of(HashKind::C4, &fs::read(list).unwrap()));
    }
    assert_eq!((chain.entries.len(), chain.next_generation()), (2, 3));

    write_generation(&root, &[HashKind::Xxh128], MhlAction::Verified);
    accepts("ascmhl-debug", &["verify"], &root);
    accepts("ascmhl-debug", &["verify", "-dh"], &root);
    accepts("ascmhl", &create, &root);
    assert_eq!(lists(&root).len(), 4);
}

/// Ours with the hashes of each path in the order in which they stand in theirs, which is that of
/// their names.
fn in_their_order(theirs: &Said, ours: &Said) -> Said {
    let order = |digests: &[Digest], like: &[Digest]| {
        let of = |like: &Digest| digests.iter().find(|digest| digest.kind == like.kind).cloned();
        assert_eq!(digests.len(), like.len());
        like.iter().filter_map(of).collect::<Vec<Digest>>()
    };
    let of = |(path, (content, structure)): (&Vec<u8>, &(Vec<Digest>, Vec<Digest>))| {
        let like = theirs.get(path).unwrap_or_else(|| panic!("{path:?} is not in theirs"));
        (path.clone(), (order(content, &like.0), order(structure, &like.1)))
    };
    ours.iter().map(of).collect()
}
