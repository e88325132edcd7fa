//! Lists of checksums, of any bytes: nothing in them leads out of a directory, and what is read of
//! them is written and read again as it was.

use std::io::Cursor;

use stook::format::mhl::{Chain, MhlError, MhlHead, MhlItem, MhlReader, MhlWriter};
use stook::format::relative;
use stook::format::sums::{self, SumsReader};
use stook::hash::HashKind;

/// Lists for programs: the first byte says which function the list is of, if any.
pub fn checksum_list(data: &[u8]) {
    let Some((first, list)) = data.split_first() else { return };
    let kind = HashKind::ALL.get(usize::from(*first)).copied();
    let mut reader = SumsReader::new(list, kind);
    let lines = list.split(|byte| *byte == b'\n').count() as u64;
    let mut last = 0;
    while let Some(line) = reader.next_line().expect("memory is read without errors") {
        let number = line.as_ref().map_or_else(|bad| bad.number, |line| line.number);
        assert!(last < number && number <= lines, "line {number} of {lines}, after {last}");
        last = number;
        let Ok(line) = line else { continue };
        assert_leads_nowhere(&line.path);
        if let Some(Ok(path)) = &line.dos_path {
            assert_leads_nowhere(path);
        }
        assert!((1..=2).contains(&line.digests.len()));
        for digest in &line.digests {
            assert_eq!(digest.value.len(), digest.kind.value_len());
            let written = sums::line(digest, &line.path);
            let mut again = SumsReader::new(&written[..], Some(digest.kind));
            let again = again.next_line().expect("memory is read without errors");
            let again = again.expect("a line was written").expect("what was written is read");
            assert_eq!((&again.path, &again.digests[..]), (&line.path, std::slice::from_ref(digest)));
        }
    }
    assert!(reader.next_line().expect("memory is read without errors").is_none());
}

fn assert_leads_nowhere(path: &[u8]) {
    assert_eq!(relative(path).as_deref(), Ok(path), "a path is read as it is");
    assert!(path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b"..")));
}

/// Lists of ASC MHL: written and read twice, the bytes are the same.
pub fn mhl_list(data: &[u8]) {
    let Some(once) = rewritten(data) else { return };
    let twice = rewritten(&once).expect("what was written is read");
    assert_eq!(once, twice, "there is one way to write a list");
}

/// What is read of a list, written; `None` if it is refused as a whole, or XML cannot hold its
/// head.
fn rewritten(data: &[u8]) -> Option<Vec<u8>> {
    let mut reader = MhlReader::new(data);
    let mut items = Vec::new();
    let mut last = 0;
    let whole = loop {
        match reader.next_item() {
            Ok(Some(Ok(item))) => items.push(item),
            Ok(Some(Err(bad))) => {
                assert!(last <= bad.line, "lines come in their order");
                last = bad.line;
            }
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    assert!(matches!(reader.next_item(), Ok(None)), "after the end, or an error, there is nothing");
    let head = items.iter().find_map(|item| if let MhlItem::Head(head) = item { Some(head) } else { None });
    let head = MhlHead { ignored: Vec::new(), ..head?.clone() };
    let mut writer = MhlWriter::new(Cursor::new(Vec::new()), &head, None).ok()?;
    let mut references = Vec::new();
    for item in items {
        let written = match item {
            MhlItem::File(file) => {
                assert_leads_nowhere(&file.path);
                writer.file(&file)
            }
            MhlItem::Directory(directory) if directory.path.is_empty() => Ok(()),
            MhlItem::Directory(directory) => {
                assert_leads_nowhere(&directory.path);
                writer.directory(&directory)
            }
            MhlItem::Reference(reference) => {
                references.push(reference);
                Ok(())
            }
            MhlItem::Head(_) | MhlItem::Root(_) => Ok(()),
        };
        assert!(matches!(written, Ok(()) | Err(MhlError::Refused(_))), "memory is written without errors");
    }
    for reference in references {
        assert_leads_nowhere(&reference.path);
        let written = writer.reference(&reference);
        assert!(matches!(written, Ok(()) | Err(MhlError::Refused(_))), "memory is written without errors");
    }
    let written = writer.finish().expect("memory is written without errors").into_inner();
    whole.then_some(written)
}

/// Chains: what is read is written and read again as it was.
pub fn mhl_chain(data: &[u8]) {
    let Ok(chain) = Chain::decode(data) else { return };
    assert!(chain.entries.iter().all(|entry| !entry.name.contains(&b'/') && entry.name != b".."));
    let Ok(written) = chain.encode() else { return };
    assert_eq!(Chain::decode(&written[..]).expect("what was written is read"), chain);
}
