//! What layouts may be, and what comes back of what was written.

use proptest::prelude::*;

use super::decode::path_of;
use super::*;

fn decoded(text: &str) -> Result<Vec<LayoutFile>, String> {
    decode(text.as_bytes()).map_err(|fault| fault.to_string())
}

/// A layout with one file of one piece.
fn with_piece(piece: &str) -> String {
    format!("stook-layout = 1\n[[file]]\nname = \"x\"\npieces = [{{ {piece} }}]\n")
}

#[test]
fn each_piece_says_one_thing() {
    let of = |piece: &str| decoded(&with_piece(piece)).unwrap().remove(0).pieces.remove(0);
    let path = |path: &str, offset, length, size, mtime_ns| {
        LayoutPiece::Path(PathPiece { path: path.to_owned(), offset, length, size, mtime_ns })
    };
    assert_eq!(of("path = './a//b'"), path("a/b", 0, None, None, None));
    assert_eq!(
        of("path = \"a\", offset = 5, length = 10, size = 99, mtime_ns = -3"),
        path("a", 5, Some(10), Some(99), Some(-3))
    );
    let file = LayoutPiece::File { name: "y".to_owned(), offset: 1, length: None };
    assert_eq!(of("file = \"y\", offset = 1"), file);
    assert_eq!(of("text = \"a\\nb\""), LayoutPiece::Bytes("a\nb".into()));
    assert_eq!(of("base64 = \"AAH/\""), LayoutPiece::Bytes(Bytes::from_static(&[0, 1, 255])));
    assert_eq!(of("fill = 7, length = 3"), LayoutPiece::Fill { byte: 7, length: 3 });
    for (piece, why) in [
        ("", "it needs one of"),
        ("length = 5", "it needs one of"),
        ("path = \"a\", fill = 0", "it needs one of"),
        ("text = \"a\", base64 = \"\"", "it needs one of"),
        ("fill = 0", "needs a `length`"),
        ("fill = 0, length = 1, offset = 0", "has no `offset`"),
        (
            "fill = 256, length = 1",
            "line 4: an integer from 0 to 255 after `fill =` is expected, and `256` is found",
        ),
        ("text = \"a\", length = 1", "no `offset` and no `length`"),
        ("base64 = \"***\"", "`base64`"),
        ("base64 = \"AAH\"", "`base64`"),
        ("file = \"y\", size = 3", "are of a `path`"),
        (
            "path = \"a\", offset = -1",
            "line 4: an integer from 0 to 2^63 - 1 after `offset =` is expected, and `-1`",
        ),
        ("path = \"a\", size = 9223372036854775808", "from 0 to 2^63 - 1 after `size =`"),
        ("path = \"a\", mtime_ns = 1e3", "an integer from -2^63 to 2^63 - 1 after `mtime_ns =`"),
        ("path = \"a\", offset = 1.5", "an integer from 0"),
        ("path = \"a\", offset = true", "an integer from 0"),
        ("path = \"a\", offset = \"1\"", "an integer from 0"),
        ("path = 1", "a string after `path =` is expected, and `1` is found"),
        ("path = [\"a\"]", "a string after `path =` is expected, and `[` is found"),
        ("path.a = \"a\"", "dot after `path`"),
        ("path = \"a\", path = \"b\"", "`path` is there twice"),
        ("path = \"a\" offset = 1", "line 4: `,` or `}` is expected, and `offset` is found"),
        ("path = \"\\q\"", "line 4: it is no TOML"),
        ("path = \"a", "line 4: it is no TOML"),
        ("path = \"a\", offset = 9223372036854775807, length = 1", "2^63 - 1"),
        ("path = \"a\", lenght = 1", "line 4: there is no key `lenght` here, but `path`, `file`"),
        ("path = \"\"", "no name"),
        ("path = \"/etc/passwd\"", "absolute"),
        ("path = \"a/../../b\"", "lead out"),
        ("path = \"a\\u0000\"", "zero"),
        ("file = \"../x\"", "lead out"),
    ] {
        let found = decoded(&with_piece(piece)).unwrap_err();
        assert!(found.contains(why), "{piece}: {found}");
    }
}

#[test]
fn a_layout_begins_with_its_version_and_has_files_that_fit_together() {
    for (text, why) in [
        ("", "no layout"),
        ("[[file]]\nname = \"x\"\n", "no layout"),
        ("# a note\nstook-layout = 1\n", "no layout"),
        ("stook-layout = one\n", "no layout"),
        ("stook-layout = 2\nwhat = 'ever'\n", "version 2"),
        ("stook-layout = 99999999999999999999\n", "no layout"),
        ("stook-layout = 1\nfile = 3\n", "line 2: `[` after `file =` is expected, and `3` is found"),
        ("stook-layout = 1\nstook-layout = 1\n", "line 2: `stook-layout` is there twice"),
        ("stook-layout = 1 2\n", "line 1: the end of the line is expected"),
        ("stook-layout = 1\n[file]\n", "line 2: `[[file]]` or"),
        ("stook-layout = 1\n[[other]]\n", "line 2: `[[file]]` or"),
        ("stook-layout = 1\n[[file.pieces]]\n", "line 2: it is a piece of no `[[file]]`"),
        ("stook-layout = 1\nfile = []\n[[file]]\n", "line 3: `file` is there twice"),
        (
            "stook-layout = 1\n[[file]]\nname = 'a'\npieces = []\n[[file.pieces]]\n",
            "line 5: `pieces` is there twice",
        ),
        (
            "stook-layout = 1\n[[file]]\nname = 'a'\npieces = [{ text = \"\"\"\nx\n\"\"\" }\n",
            "line 7: `,` or `]` is expected, and the layout ends",
        ),
        ("stook-layout = 1\n[[file]]\nname = 'a'\npieces = 1\n", "line 4: `[` after `pieces =`"),
        (
            "stook-layout = 1\n[[file]]\nsize = 1\n",
            "line 3: there is no key `size` here, but `name` and `pieces`",
        ),
        ("stook-layout = 1\n[[file]]\n", "name"),
        ("stook-layout = 1\n[[file]]\nname = \"\"\n", "no name"),
        ("stook-layout = 1\n[[file]]\nname = \"a\"\n[[file]]\nname = \"./a\"\n", "two files"),
        ("stook-layout = 1\n[[file]]\nname = \"a/b\"\n[[file]]\nname = \"a/b/c/d\"\n", "is a file, too"),
        ("stook-layout = 1\n[[file]\n", "line 2"),
    ] {
        let found = decoded(text).unwrap_err();
        assert!(found.contains(why), "{text}: {found}");
    }
    assert_eq!(decoded("stook-layout=1\n").unwrap(), []);
    let long = format!("stook-layout = 1\n[[file]]\nname = \"{}\"\n", "x".repeat(PATH_LEN_MAX + 1));
    let found = decoded(&long).unwrap_err();
    assert!(found.len() < 200 && found.contains("longer"), "{found}");
    let odd = [b"stook-layout = 1\n[[file]]\nname = \"".as_slice(), b"\xff\"\n"].concat();
    assert!(decode(&odd).unwrap_err().to_string().contains("line 3: it is not UTF-8"));
    assert!(is_layout(b"stook-layout = 7") && is_layout(b"stook-layout=") && !is_layout(b"stook"));
}

#[test]
fn names_that_are_not_utf8_are_refused() {
    let refused = Encoder::new().file(b"a\xff").unwrap_err();
    assert!(refused.to_string().contains("not UTF-8"), "{refused}");
}

/// A path that a layout may have.
fn a_path() -> impl Strategy<Value = String> {
    let part = "[^/\\x00]{1,8}".prop_filter("it is a part", |part| part != "." && part != "..");
    proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn a_piece() -> impl Strategy<Value = LayoutPiece> {
    let number = || prop_oneof![0_u64..5, 0..i64::MAX as u64 / 2];
    let cut = move || (number(), proptest::option::of(number()));
    let of_path = (a_path(), cut(), proptest::option::of(number()), proptest::option::of(any::<i64>()));
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..600),
        "\\PC{0,300}".prop_map(String::into_bytes),
        "[ -~\n\t\"\\\\\u{7f}]{0,20}".prop_map(String::into_bytes),
    ];
    prop_oneof![
        of_path.prop_map(|(path, (offset, length), size, mtime_ns)| {
            LayoutPiece::Path(PathPiece { path, offset, length, size, mtime_ns })
        }),
        (a_path(), cut()).prop_map(|(name, (offset, length))| LayoutPiece::File { name, offset, length }),
        bytes.prop_map(|bytes| LayoutPiece::Bytes(bytes.into())),
        (any::<u8>(), number()).prop_map(|(byte, length)| LayoutPiece::Fill { byte, length }),
    ]
}

/// A layout as `toml` reads it.
mod oracle {
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct Layout {
        #[serde(rename = "stook-layout")]
        _version: u32,
        #[serde(default)]
        pub(super) file: Vec<File>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct File {
        pub(super) name: String,
        #[serde(default)]
        pub(super) pieces: Vec<Piece>,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub(super) struct Piece {
        pub(super) path: Option<String>,
        pub(super) text: Option<String>,
        pub(super) offset: Option<u64>,
        pub(super) length: Option<u64>,
        pub(super) size: Option<u64>,
        pub(super) mtime_ns: Option<i64>,
    }
}

/// Parts of layouts, most of them right, in the many ways in which TOML says a thing.
fn a_layout() -> impl Strategy<Value = String> {
    let blank =
        || prop_oneof![Just(""), Just(" "), Just("\n"), Just(" # a note\n\t"), Just("\r\n"), Just("\r")];
    let string = prop_oneof![
        "[a-z./ ]{0,6}".prop_map(|text| format!("'{text}'")),
        "[a-z./ ]{0,6}".prop_map(|text| format!("\"{text}\\u0041\\t\"")),
        "[a-z.\n]{0,6}".prop_map(|text| format!("'''{text}'''")),
        "[a-z.\n]{0,6}".prop_map(|text| format!("\"\"\"\n{text}\\\n  x\"\"\"")),
        Just("\"\\x\"".to_owned()),
        Just("x".to_owned()),
    ];
    let number = prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        any::<u16>().prop_map(|number| format!("{number:#x}")),
        any::<u16>().prop_map(|number| format!("{number:#o}")),
        Just("1_000".to_owned()),
        Just("+5".to_owned()),
        Just("-3".to_owned()),
        Just("01".to_owned()),
        Just("1.0".to_owned()),
        Just("1e2".to_owned()),
        Just("true".to_owned()),
        Just("2026-01-01".to_owned()),
        Just("{}".to_owned()),
        Just("_1".to_owned()),
    ];
    let text = (prop_oneof![Just("path"), Just("'text'"), Just("\"path\"")], string.clone());
    let count = (prop_oneof![Just("offset"), Just("length"), Just("size"), Just("mtime_ns")], number);
    let key = prop_oneof![text, count];
    let piece = proptest::collection::vec((key, blank()), 0..4);
    let inline = (piece.clone(), blank(), any::<bool>()).prop_map(|(keys, blank, ends)| {
        let keys: Vec<String> =
            keys.iter().map(|((key, value), blank)| format!("{blank}{key} =\t{value}{blank}")).collect();
        format!("{{{blank}{}{}}}", keys.join(","), if ends { "," } else { "" })
    });
    let array = (proptest::collection::vec(inline, 0..3), blank(), any::<bool>()).prop_map(
        |(pieces, blank, ends)| {
            let ends = if ends { "," } else { "" };
            format!("pieces = [{blank}{}{blank}{ends}]", pieces.join(&format!(",{blank}")))
        },
    );
    let table = piece.prop_map(|keys| {
        let keys: Vec<String> = keys.iter().map(|((key, value), _)| format!("{key} = {value}\n")).collect();
        format!("[[file.pieces]]\n{}", keys.concat())
    });
    let name = string.prop_map(|name| format!("name = {name}"));
    let line = prop_oneof![
        Just("[[file]]".to_owned()),
        Just("[[ file ]] # one".to_owned()),
        name.clone(),
        array.clone(),
        table,
        (name, array).prop_map(|(name, array)| format!("[[file]]\n{name}\n{array}")),
    ];
    let lines = proptest::collection::vec((line, prop_oneof![9 => Just("\n"), 1 => Just(" ")]), 0..6);
    lines.prop_map(|lines| {
        let lines: Vec<String> = lines.iter().map(|(line, end)| format!("{line}{end}")).collect();
        format!("stook-layout = 1\n{}", lines.concat())
    })
}

/// What the first file says of its first piece, in order.
fn as_said(piece: &LayoutPiece) -> oracle::Piece {
    match piece {
        LayoutPiece::Path(PathPiece { path, offset, length, size, mtime_ns }) => oracle::Piece {
            path: Some(path.clone()),
            offset: Some(*offset),
            length: *length,
            size: *size,
            mtime_ns: *mtime_ns,
            ..oracle::Piece::default()
        },
        LayoutPiece::Bytes(bytes) => oracle::Piece {
            text: Some(String::from_utf8(bytes.to_vec()).unwrap()),
            ..oracle::Piece::default()
        },
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn what_toml_reads_is_read_alike_and_nothing_else_is(text in a_layout()) {
        match (toml::from_str::<oracle::Layout>(&text), decode(text.as_bytes())) {
            (Ok(expected), Ok(files)) => {
                prop_assert_eq!(files.len(), expected.file.len());
                for (file, expected) in files.iter().zip(&expected.file) {
                    prop_assert_eq!(Ok(file.name.clone()), path_of(&expected.name));
                    prop_assert_eq!(file.pieces.len(), expected.pieces.len());
                    for (piece, expected) in file.pieces.iter().zip(&expected.pieces) {
                        let mut found = as_said(piece);
                        if expected.path.is_some() {
                            prop_assert_eq!(Ok(found.path.take()), expected.path.as_deref().map(path_of).transpose());
                            found.offset = found.offset.filter(|_| expected.offset.is_some());
                            found.path = expected.path.clone();
                        }
                        prop_assert_eq!(&found, expected);
                    }
                }
            }
            (Err(_), Err(_)) => {}
            (Err(error), Ok(files)) => prop_assert!(false, "{text}: {error}, and {files:?}"),
            // It is right, and says what no layout may.
            (Ok(_), Err(LayoutFault::Line { what, .. })) => {
                let is_meant = ["it needs one of", "past 2^63", "`offset` and no", "are of a `path`", "lead", "file \"",
                    "two files", "absolute", "no name", "`path`:"];
                // `toml` takes what TOML does not: an integer of 64 bits without a sign.
                let found = what.rsplit('`').nth(1).and_then(|found| found.parse::<u64>().ok());
                let is_too_large = found.is_some_and(|found| i64::try_from(found).is_err());
                prop_assert!(is_too_large || is_meant.iter().any(|why| what.contains(why)), "{text}: {what}");
            }
            (Ok(_), Err(fault)) => prop_assert!(false, "{text}: {fault}"),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        name in a_path(),
        pieces in proptest::collection::vec(a_piece(), 0..20),
    ) {
        let mut encoder = Encoder::new();
        encoder.file(name.as_bytes()).unwrap();
        pieces.iter().for_each(|piece| encoder.piece(piece));
        encoder.end_file();
        let text = encoder.take();
        let expected = vec![LayoutFile { name, pieces }];
        prop_assert_eq!(decoded(&text), Ok(expected), "{}", text);
    }

    #[test]
    fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&[b"stook-layout = 1\n[[file]]\nname = \"".as_slice(), &bytes].concat());
        let _ = decode(&bytes);
    }
}
