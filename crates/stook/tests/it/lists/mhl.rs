//! ASC MHL, of random files, cut, changed and hostile.

use std::io::{self, BufReader, Read};

use proptest::prelude::*;
use stook::format::mhl::{
    Chain, ChainEntry, FolderDigests, KINDS, MhlAction, MhlAuthor, MhlCreator, MhlDigest, MhlDirectory,
    MhlError, MhlFile, MhlHead, MhlItem, MhlProcess, MhlReader, MhlReference, MhlWriter,
};
use stook::hash::{Digest, HashKind};
use stook_testing::fuzz::lists;

fn head() -> MhlHead {
    MhlHead {
        creator: MhlCreator {
            date: "2026-11-26T06:41:34+00:00".to_owned(),
            host: "reader & <co>".to_owned(),
            tool: "stook".to_owned(),
            tool_version: Some("0.1.0".to_owned()),
            authors: vec![MhlAuthor {
                name: "A".to_owned(),
                email: Some("a@b.org".to_owned()),
                phone: None,
                role: Some("DIT \"2\"".to_owned()),
            }],
            location: Some("studio".to_owned()),
            comment: None,
        },
        process: MhlProcess::Transfer,
        ignored: vec!["ascmhl".to_owned(), "*.tmp".to_owned()],
    }
}

fn name() -> impl Strategy<Value = String> {
    let name = prop_oneof!["[ab &<>\"'\\\\\n\t\r.;#-]{1,12}", "\\PC{1,12}"];
    name.prop_filter("no name", |name| !name.contains('/') && !matches!(name.as_str(), "." | ".."))
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(name(), 1..4).prop_map(|names| names.join("/").into_bytes())
}

fn digests() -> impl Strategy<Value = Vec<Digest>> {
    let some = prop::sample::subsequence(&KINDS[..], 0..=KINDS.len());
    (some, any::<u64>()).prop_map(|(kinds, seed)| {
        kinds.into_iter().map(|kind| Digest::of(kind, &seed.to_le_bytes())).collect()
    })
}

fn file() -> impl Strategy<Value = MhlItem> {
    let action = prop::option::of(prop::sample::select(
        &[MhlAction::Original, MhlAction::Verified, MhlAction::Failed][..],
    ));
    let date = prop::option::of(Just("2026-11-26T06:41:34+00:00".to_owned()));
    (path(), prop::option::of(any::<u64>()), digests(), action, date, prop::option::of(path())).prop_map(
        |(path, len, digests, action, date, previous_path)| {
            let digest = |digest| MhlDigest { digest, action, date: date.clone() };
            MhlItem::File(MhlFile {
                line: 0,
                path,
                dos_path: None,
                len,
                modified: date.clone(),
                digests: digests.into_iter().map(digest).collect(),
                previous_path,
            })
        },
    )
}

fn directory() -> impl Strategy<Value = MhlItem> {
    (path(), digests()).prop_map(|(path, digests)| {
        let (content, structure) = (digests.clone(), digests);
        MhlItem::Directory(MhlDirectory {
            line: 0,
            path,
            modified: None,
            content,
            structure,
            previous_path: None,
        })
    })
}

fn written(head: &MhlHead, root: Option<&FolderDigests>, items: &[MhlItem]) -> Vec<u8> {
    let mut writer = MhlWriter::new(Vec::new(), head, root).unwrap();
    for item in items {
        match item {
            MhlItem::File(file) => writer.file(file).unwrap(),
            MhlItem::Directory(directory) => writer.directory(directory).unwrap(),
            MhlItem::Reference(reference) => writer.reference(reference).unwrap(),
            other => panic!("{other:?} is written with the head"),
        }
    }
    writer.finish().unwrap()
}

/// All that is read, without what is not written.
fn read(list: &[u8]) -> Result<Vec<MhlItem>, MhlError> {
    let mut reader = MhlReader::new(BufReader::with_capacity(7, list));
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        let mut item = item.unwrap_or_else(|bad| panic!("{bad}"));
        match &mut item {
            MhlItem::File(file) => (file.line, file.dos_path) = (0, None),
            MhlItem::Directory(directory) | MhlItem::Root(directory) => directory.line = 0,
            MhlItem::Reference(reference) => reference.line = 0,
            MhlItem::Head(_) => {}
        }
        items.push(item);
    }
    Ok(items)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_list_that_was_written_is_read_as_it_was(
        items in prop::collection::vec(prop_oneof![3 => file(), 1 => directory()], 0..8),
        root in prop::option::of(digests()),
        references in prop::collection::vec(path(), 0..3),
    ) {
        let root = root.map(|digests| FolderDigests { content: digests.clone(), structure: digests });
        let reference = |path| {
            MhlItem::Reference(MhlReference { line: 0, path, digest: Digest::of(HashKind::C4, b"") })
        };
        let items: Vec<MhlItem> = items.into_iter().chain(references.into_iter().map(reference)).collect();
        let list = written(&head(), root.as_ref(), &items);
        let of_root = |root: FolderDigests| MhlItem::Root(MhlDirectory {
            line: 0,
            path: Vec::new(),
            modified: None,
            content: root.content,
            structure: root.structure,
            previous_path: None,
        });
        let mut expected = vec![MhlItem::Head(head())];
        expected.extend(root.map(of_root));
        expected.extend(items);
        prop_assert_eq!(read(&list).unwrap(), expected);
        lists::mhl_list(&list);
    }

    #[test]
    fn a_list_that_is_cut_anywhere_is_never_taken_for_a_whole_one(items in prop::collection::vec(file(), 0..3)) {
        let list = written(&head(), None, &items);
        // The line feed at the end is no part of it.
        for len in 0..list.len() - 1 {
            prop_assert!(read(&list[..len]).is_err(), "{len} of {}", list.len());
        }
    }

    #[test]
    fn changed_bytes_are_refused_or_lead_nowhere(
        items in prop::collection::vec(prop_oneof![file(), directory()], 1..3),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut list = written(&head(), None, &items);
        for (at, byte) in changes {
            let at = at.index(list.len());
            list[at] = byte;
        }
        lists::mhl_list(&list);
        lists::mhl_chain(&list);
    }

    #[test]
    fn a_chain_that_was_written_is_read_as_it_was(names in prop::collection::vec(name(), 0..5)) {
        let entry = |(generation, name): (u32, String)| ChainEntry {
            generation,
            digest: Digest::of(HashKind::C4, name.as_bytes()),
            name: name.into_bytes(),
        };
        let chain = Chain { entries: (1..).zip(names).map(entry).collect() };
        let bytes = chain.encode().unwrap();
        prop_assert_eq!(&Chain::decode(&bytes[..]).unwrap(), &chain);
        prop_assert_eq!(chain.next_generation() as usize, chain.entries.len() + 1);
        for len in 0..bytes.len() - 1 {
            prop_assert!(Chain::decode(&bytes[..len]).is_err(), "{len} of {}", bytes.len());
        }
        lists::mhl_chain(&bytes);
    }
}

const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

fn list_of(hashes: &str) -> String {
    format!(
        "<hashlist version=\"2.0\">\n<processinfo><process>in-place</process></processinfo>\n<hashes>\n{hashes}\n\
         </hashes>\n</hashlist>"
    )
}

#[test]
fn a_bad_record_is_one_error_with_its_line_and_the_others_are_read() {
    let hash = |path: &str, hash: &str| format!("<hash><path size=\"0\">{path}</path>{hash}</hash>\n");
    let md5 = format!("<md5>{MD5}</md5>");
    let list = list_of(
        &[
            hash("a", &md5),
            hash("../b", &md5),
            hash("/c", &md5),
            hash("d", "<md5>12</md5>"),
            hash("e", "<sha512>00</sha512>"),
            format!("<hash>{md5}</hash>\n"),
            format!("<hash><path size=\"many\">f</path>{md5}</hash>\n"),
            hash("g", &md5),
        ]
        .concat(),
    );
    let mut reader = MhlReader::new(list.as_bytes());
    let mut all = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Ok(MhlItem::File(file)) => {
                all.push(format!("{} {}", file.line, String::from_utf8(file.path).unwrap()))
            }
            Ok(_) => {}
            Err(bad) => all.push(bad.to_string()),
        }
    }
    assert_eq!(
        all,
        [
            "4 a",
            "line 5: there is a `..` in the name, which would lead out of the directory",
            "line 6: the name is absolute, and would lead out of the directory",
            "line 7: 2 characters where md5 has 32",
            "line 8: no hash of a function that is known here",
            "line 9: there is no <path> in it",
            "line 10: `many` is no number of bytes",
            "11 g",
        ]
    );
}

#[test]
fn what_is_no_list_of_version_2_in_utf_8_is_refused_with_a_reason() {
    let refusal = |list: &[u8]| read(list).unwrap_err().to_string();
    let says = |list: &str, what: &str| {
        let refusal = refusal(list.as_bytes());
        assert!(refusal.contains(what), "{refusal} instead of {what}");
    };
    says("<hashlist version=\"1.1\"></hashlist>", "a list of version 1.1, and ASC MHL version 2.0 is read");
    says("<hashlist></hashlist>", "a list of no version");
    says("<html></html>", "<html> where <hashlist> was expected");
    says("", "the list is cut off");
    says(&format!("{}<hashlist version=\"2.0\"/>", list_of("")), "nothing after it");
    says("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><hashlist version=\"2.0\"/>", "it is in ISO-8859-1");
    says("<!DOCTYPE hashlist [<!ENTITY a \"b\">]><hashlist version=\"2.0\"/>", "a document type");
    says(&list_of("<hash><path>&a;</path></hash>"), "`&a;` is not defined");
    says(&list_of("<hash><path></hash>"), "");
    let utf16: Vec<u8> = list_of("").encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert!(read(&utf16).is_err());
    assert!(
        read(list_of("<hash><path>\u{fffd}</path></hash>").replace('\u{fffd}', "\x01").as_bytes()).is_ok()
    );
    let latin: Vec<u8> = list_of("<hash><path>*</path></hash>").replace('*', "x").into_bytes();
    let latin: Vec<u8> = latin.into_iter().map(|byte| if byte == b'x' { 0xe4 } else { byte }).collect();
    assert!(refusal(&latin).contains("UTF-8") || refusal(&latin).contains("utf-8"), "{}", refusal(&latin));
}

#[test]
fn hostile_lists_end_in_bounded_memory() {
    let within = |before: &str, endless: &[u8]| {
        let start = format!("<hashlist version=\"2.0\"><hashes><hash><path>a</path>{before}");
        let endless = endless.repeat(1 << 12);
        // Some 16 MiB of it, which is more than anything here may keep.
        let more = (0..(16 << 20) / endless.len()).map(|_| &endless[..]);
        let mut input: Box<dyn Read> = Box::new(io::Cursor::new(start.into_bytes()));
        for part in more {
            input = Box::new(input.chain(part));
        }
        let mut reader = MhlReader::new(BufReader::new(input));
        loop {
            match reader.next_item() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the list has no end"),
                Err(error) => break error.to_string(),
            }
        }
    };
    assert!(within("<!-- ", b"comment ").contains("without a tag"));
    assert!(within("<md5>", b"0").contains("without a tag"));
    assert!(within("<md5 a=\"", b"b").contains("without a tag"));
    assert!(within("", b"<a>").contains("deep in one another"));
    assert!(within("", b"<a/>").contains("elements in it"));
    assert!(within("<md5>", b"00000000&#48;").contains("bytes or"));
}

#[test]
fn what_xml_cannot_hold_is_refused_by_name_and_the_list_goes_on() {
    let file = |path: &[u8], kind| {
        let digest = MhlDigest { digest: Digest::of(kind, b""), action: None, date: None };
        MhlFile {
            line: 0,
            path: path.to_vec(),
            dos_path: None,
            len: None,
            modified: None,
            digests: vec![digest],
            previous_path: None,
        }
    };
    let mut writer = MhlWriter::new(Vec::new(), &head(), None).unwrap();
    let mut refusal = |path: &[u8], kind| writer.file(&file(path, kind)).unwrap_err().to_string();
    assert_eq!(refusal(b"a\x01", HashKind::Md5), "XML cannot hold control characters");
    assert_eq!(refusal(b"a\xff", HashKind::Md5), "XML cannot hold bytes that are not UTF-8");
    assert_eq!(
        refusal("\u{ffff}".as_bytes(), HashKind::Md5),
        "XML cannot hold the characters U+FFFE and U+FFFF"
    );
    let sha256 = refusal(b"a", HashKind::Sha256);
    assert!(sha256.starts_with("sha256 is not allowed in ASC MHL: take c4"), "{sha256}");
    writer.file(&file(b"a\n\r\t b", HashKind::Md5)).unwrap();
    let list = writer.finish().unwrap();
    let items = read(&list).unwrap();
    assert_eq!(items[1..], [MhlItem::File(file(b"a\n\r\t b", HashKind::Md5))]);
    let wrong = MhlAuthor { email: Some("nobody".to_owned()), ..MhlAuthor::default() };
    let creator = MhlCreator { authors: vec![wrong], ..MhlCreator::default() };
    let refused = MhlWriter::new(Vec::new(), &MhlHead { creator, ..MhlHead::default() }, None);
    assert_eq!(refused.unwrap_err().to_string(), "`nobody` is no e-mail address");
}
